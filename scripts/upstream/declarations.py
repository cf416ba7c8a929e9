"""The declarations of a C or C++ source: functions, structs, enums, typedefs, variables, macros, static asserts.

Names are not resolved: nothing is looked up in other files, and macros are not expanded, except for the few that wrap
declarations.
"""
import re
from dataclasses import dataclass, field

from .heads import (AGGREGATES, ATTRIBUTES, angle, declarator, find, is_label, is_mark, member_init, name_start, parameter_list,
                    parameters, plain, split_types, type_text)
from .members import members
from .tokens import Token, choose, closing, split, tokenize, words


@dataclass
class Function:
    name: str
    returns: str
    params: list          # [(type, name)]
    line: int
    last: int             # the last line of the definition
    exported: bool = False
    static: bool = False
    inline: bool = False
    c_linkage: bool = False
    deprecated: bool = False
    body: list = None     # tokens between the braces; None for a mere declaration

    def type(self):
        return f"{self.returns} ({', '.join(t for t, _ in self.params)})"

    def prototype(self):
        shown = [t if not n else n.join(t.split("@")) if "@" in t else f"{t} {n}" for t, n in self.params]
        return f"{self.returns} {self.name}({', '.join(shown) or 'void'})"


@dataclass
class Aggregate:
    kind: str             # struct, union or class
    name: str
    line: int
    fields: list = field(default_factory=list)  # [(name, type)]; a.b is the member b of the member a


@dataclass
class Enum:
    name: str
    line: int
    values: list          # [(name, tokens of the value or None)]


@dataclass
class Variable:
    name: str
    type: str
    line: int
    static: bool
    constant: bool
    exported: bool
    init: list            # tokens of the initializer, or None


@dataclass
class Declarations:
    functions: list = field(default_factory=list)
    aggregates: dict = field(default_factory=dict)
    enums: dict = field(default_factory=dict)
    typedefs: dict = field(default_factory=dict)
    variables: dict = field(default_factory=dict)
    asserts: list = field(default_factory=list)   # tokens of each condition
    macros: dict = field(default_factory=dict)    # name -> [(parameters or None, body)]
    comments: list = field(default_factory=list)
    lines: dict = field(default_factory=dict)     # line -> its tokens as text


class Parser:
    def __init__(self, source):
        raw, comments = tokenize(source)
        self.out = Declarations(comments=comments)
        rows = {}
        for t in raw:
            rows.setdefault(t.line, []).append(t)
        self.out.lines = {n: " ".join(t.text for t in row) for n, row in rows.items()}
        code, directives = choose(raw)
        for d in directives:
            self.macro(d)
        self.scope(_tables(code), False)

    def macro(self, directive):
        word, rest = words(directive.text)
        m = re.match(r"([A-Za-z_]\w*)(\([^()]*\))?\s*(.*)", rest, re.S) if word == "define" else None
        if m:
            entry = (m.group(2), m.group(3))
            known = self.out.macros.setdefault(m.group(1), [])
            if entry not in known:
                known.append(entry)

    def scope(self, tokens, c_linkage):
        i = 0
        while i < len(tokens):
            i = self.declaration(tokens, i, c_linkage)

    def declaration(self, tokens, i, c_linkage):
        """Reads the declaration at i. Returns the index after it."""
        t = tokens[i]
        if is_mark(t, ";", "}"):
            return i + 1
        if t.text == "extern" and i + 1 < len(tokens) and tokens[i + 1].text == '"C"':
            if i + 2 < len(tokens) and is_mark(tokens[i + 2], "{"):
                end = closing(tokens, i + 2)
                self.scope(tokens[i + 3:end], True)
                return end + 1
            c_linkage = True
        if t.text == "namespace" or t.text == "inline" and i + 1 < len(tokens) and tokens[i + 1].text == "namespace":
            j = find(tokens, i, "{", ";")
            end = closing(tokens, j) if j < len(tokens) and is_mark(tokens[j], "{") else j
            hidden = is_mark(tokens[i + 1], "{")
            functions, variables = len(self.out.functions), set(self.out.variables)
            self.scope(tokens[j + 1:end], False)
            if hidden:
                for entry in [*self.out.functions[functions:], *(v for n, v in self.out.variables.items() if n not in variables)]:
                    entry.static = True
            return end + 1
        if t.text == "template":
            return self.declaration(tokens, angle(tokens, i + 1), False) if angle(tokens, i + 1) < len(tokens) else len(tokens)
        if t.text in ("static_assert", "_Static_assert"):
            end = find(tokens, i, ";")
            inner = split(tokens[i + 2:closing(tokens, i + 1)])
            self.out.asserts.append(inner[0] if inner else [])
            return end + 1
        if t.text in ("using", "asm", "__asm__"):
            return find(tokens, i, ";") + 1
        return self.plain_declaration(tokens, i, c_linkage)

    def plain_declaration(self, tokens, i, c_linkage):
        j, init = i, None
        while j < len(tokens):
            j = find(tokens, j, ";", "{", "=", "(")
            if j >= len(tokens):
                break
            if is_mark(tokens[j], "("):
                end = closing(tokens, j)
                # A macro call that expands to declarations has no semicolon.
                if j == i + 1 and tokens[i].text.isupper() and tokens[i].kind == "name" and \
                        (end + 1 >= len(tokens) or tokens[end + 1].kind in ("name", "text") and not ATTRIBUTES.fullmatch(tokens[i].text)):
                    return end + 1
                j = end + 1
            elif is_mark(tokens[j], "=") and tokens[j - 1].text != "operator":
                init = j if init is None else init
                j += 1
            elif is_mark(tokens[j], "{"):
                end = closing(tokens, j)
                head, marks = plain(tokens[i:j])
                group = parameter_list(head) if init is None else None
                if group is not None and not member_init(head, group):
                    self.function(head, group, marks, tokens[i].line, tokens[j + 1:end], tokens[min(end, len(tokens) - 1)].line, c_linkage)
                    return end + 1
                if init is None and group is None and j > i and is_mark(tokens[j - 1], ")"):
                    return end + 1 # a function without a name that can be found
                if init is None and group is None and any(t.text in AGGREGATES for t in head):
                    stop = find(tokens, end + 1, ";")
                    self.aggregate(head, tokens[j + 1:end], tokens[end + 1:stop], tokens[i].line)
                    return stop + 1
                j = end + 1
            else:
                break
        end = min(j, len(tokens))
        self.simple(tokens[i:end], init - i if init is not None else None, c_linkage)
        return end + 1

    def function(self, head, group, marks, line, body, last, c_linkage):
        start = name_start(head, group)
        name = "".join(t.text for t in head[start:group])
        end = closing(head, group)
        returns = type_text(head[:start])
        if end + 1 < len(head) and is_mark(head[end + 1], "->"):
            returns = type_text(head[end + 2:])
        self.out.functions.append(Function(
            name, returns, parameters(head[group + 1:end]), line, last, exported="api" in marks, static="static" in marks,
            inline=bool(marks & {"inline", "__inline", "__forceinline", "constexpr"}), c_linkage=c_linkage,
            deprecated="deprecated" in marks, body=body))

    def aggregate(self, head, body, behind, line):
        typedef = any(t.text == "typedef" for t in head)
        head, _ = plain([t for t in head if t.text != "typedef"])
        kind = next(t.text for t in head if t.text in AGGREGATES)
        at = next(n for n, t in enumerate(head) if t.text == kind)
        rest = [t for t in head[at + 1:find(head, 0, ":")] if t.text not in ("class", "struct", "final")]
        name = rest[-1].text if rest and rest[-1].kind == "name" else ""
        behind, _ = plain(behind)
        aliases = [part[-1].text for part in split(behind) if part and part[-1].kind == "name"] if typedef else []
        name = name or (aliases[0] if aliases else "")
        if kind == "enum":
            values = [(v[0].text, v[2:] if len(v) > 2 else None) for v in split(body) if v]
            name = name or f"unnamed, with {values[0][0] if values else 'nothing'}"
            self.out.enums[name] = Enum(name, line, values)
        else:
            self.out.aggregates[name] = Aggregate(kind, name, line, members(body))
            self.methods(name, body)
        for alias in aliases:
            if alias != name:
                self.out.typedefs[alias] = f"{kind} {name}"
        if not typedef and behind:
            self.variable([Token("name", name, line)] + behind, None, set())

    def methods(self, name, body):
        """The functions that a class defines inside itself, as name::function."""
        if not any(is_mark(t, "{") for t in body):
            return
        inner = Parser.__new__(Parser)
        inner.out = Declarations()
        inner.scope([t for n, t in enumerate(body) if not is_label(body, n) and not (n and is_label(body, n - 1))], False)
        for f in inner.out.functions:
            if f.body is not None:
                f.name, f.static = f"{name}::{f.name}", True
                self.out.functions.append(f)

    def simple(self, tokens, init, c_linkage):
        if not tokens:
            return
        line = tokens[0].line
        head, marks = plain(tokens[:init])
        if head and head[0].text == "typedef":
            kind, name = declarator(head[1:])
            group = parameter_list(head)
            if not name and group is not None: # typedef void name(int)
                types = ", ".join(t for t, _ in parameters(head[group + 1:closing(head, group)]))
                kind, name = f"{type_text(head[1:group - 1])} ({types})", head[group - 1].text
            self.out.typedefs[name] = kind.replace("@", "").strip()
            return
        group = parameter_list(head) if init is None else None
        if group is not None and group >= 1 and len(head) > 2:
            self.function(head, group, marks, line, None, tokens[-1].line, c_linkage)
        elif head and not (head[0].text in AGGREGATES and len(head) <= 2) and not ("extern" in marks and init is None):
            self.variable(head, tokens[init + 1:] if init is not None else None, marks)

    def variable(self, head, init, marks):
        for n, part in enumerate(split_types(head)):
            kind, name = declarator(part if n == 0 else head[:1] + part)
            if name:
                constant = "const" in kind.split("*")[-1].split() or "constexpr" in marks
                kind = kind.replace("@", "").strip()
                self.out.variables[name] = Variable(name, kind, head[0].line, "static" in marks, constant, "api" in marks, init)


def _tables(tokens):
    """Replaces the two macros that ggml-common.h opens and closes its tables with by the brackets that they expand
    to."""
    out, i = [], 0
    while i < len(tokens):
        t = tokens[i]
        if t.text == "GGML_TABLE_BEGIN" and i + 1 < len(tokens) and is_mark(tokens[i + 1], "("):
            end = closing(tokens, i + 1)
            kind, name, size = (split(tokens[i + 2:end]) + [[], [], []])[:3]
            mark = [Token("mark", m, t.line) for m in "[]={"]
            out += [Token("name", "static", t.line), Token("name", "const", t.line), *kind, *name, mark[0], *size, *mark[1:]]
            i = end + 1
        elif t.text == "GGML_TABLE_END":
            out += [Token("mark", "}", t.line), Token("mark", ";", t.line)]
            i += 3
        else:
            out.append(t)
            i += 1
    return out


def parse(source):
    return Parser(source).out
