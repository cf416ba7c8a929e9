"""Tokens of C, C++ and shader sources, and the choice among the branches of #if."""
import re
from collections import namedtuple

# kind: name, number, text (a string), char, mark, directive. A directive is one token; its text has no comments and no
# continued lines.
Token = namedtuple("Token", "kind text line")

_TOKEN = re.compile(r"""
    (?P<newline>\n)
  | (?P<directive>^[ \t]*\#(?:"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|\\\r?\n|[^\n])*)
  | (?P<space>[ \t\r\f\v]+|\\\r?\n)
  | (?P<comment>//(?:[^\n\\]|\\\r?\n|\\)*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)")
  | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>[uUL]?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<mark>\.\.\.|->\*?|<<=|>>=|<=>|::|\#\#|\+\+|--|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||.)
""", re.X | re.S | re.M)

_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.S)


def tokenize(source):
    """The tokens of a source, and its comments as tokens of their own: (tokens, comments)."""
    tokens, comments, line = [], [], 1
    for m in _TOKEN.finditer(source):
        kind, text = m.lastgroup, m.group()
        if kind == "fence" or kind == "raw":
            kind = "text"
        if kind == "newline":
            line += 1
            continue
        if kind == "comment":
            comments.append(Token(kind, text, line))
        elif kind == "directive":
            joined = re.sub(r"\\\r?\n", " ", text)
            plain = _COMMENT.sub(lambda c: c.group(1) or " ", joined)
            tokens.append(Token(kind, " ".join(plain.split()), line))
        elif kind != "space":
            tokens.append(Token(kind, text, line))
        line += text.count("\n")
    return tokens, comments


def words(directive):
    """"# ifdef X" -> ("ifdef", "X")"""
    m = re.match(r"#\s*(\w*)\s*(.*)", directive, re.S)
    return m.group(1), m.group(2)


OPENING, CLOSING = "([{", ")]}"


def balance(tokens):
    """Whether brackets are closed in the order in which they are opened."""
    stack = []
    for t in tokens:
        if t.kind == "mark" and t.text in OPENING:
            stack.append(CLOSING[OPENING.index(t.text)])
        elif t.kind == "mark" and t.text in CLOSING and (not stack or stack.pop() != t.text):
            return False
    return not stack


def _branches(tokens, i):
    """The branches of the #if at i: ([(condition, tokens with their nested #ifs chosen)], index after #endif)."""
    found, condition, inner = [], " ".join(words(tokens[i].text)), []
    i += 1
    while i < len(tokens):
        t = tokens[i]
        word = words(t.text)[0] if t.kind == "directive" else ""
        if word in ("if", "ifdef", "ifndef"):
            chosen, i = _choose(tokens, i)
            inner += chosen
            continue
        if word in ("elif", "else", "endif", "elifdef", "elifndef"):
            found.append((condition, inner))
            condition, inner = " ".join(words(t.text)).strip(), []
            if word == "endif":
                return found, i + 1
        else:
            inner.append(t)
        i += 1
    return found + [(condition, inner)], i


def _choose(tokens, i):
    """Tokens of every branch that is complete. If branches are pieces of a declaration, only those of the first one."""
    branches, i = _branches(tokens, i)
    if branches[0][0] in ("if 0", "if false"):
        branches = branches[1:]
    elif branches[0][0] in ("if 1", "if true"):
        branches = branches[:1]
    chosen = []
    for n, (_, inner) in enumerate(branches):
        code = [t for t in inner if t.kind != "directive"]
        whole = balance(code) and (not code or code[-1].text in (";", "}", ","))
        if n == 0 or whole:
            chosen += inner
            if not whole:
                chosen += [t for _, other in branches[1:] for t in other if t.kind == "directive"]
                break
    return chosen, i


def choose(tokens):
    """The tokens without #if, #else and #endif: whole branches all of them, else the first. (code, other directives)"""
    chosen, i = [], 0
    while i < len(tokens):
        if tokens[i].kind == "directive" and words(tokens[i].text)[0] in ("if", "ifdef", "ifndef"):
            some, i = _choose(tokens, i)
            chosen += some
        else:
            chosen.append(tokens[i])
            i += 1
    return [t for t in chosen if t.kind != "directive"], [t for t in chosen if t.kind == "directive"]


def closing(tokens, i):
    """The index of the bracket that closes the one at i, or the end."""
    depth = 0
    for j in range(i, len(tokens)):
        t = tokens[j]
        if t.kind == "mark":
            if t.text in OPENING:
                depth += 1
            elif t.text in CLOSING:
                depth -= 1
                if depth == 0:
                    return j
    return len(tokens)


def split(tokens, mark=","):
    """Lists of tokens between marks outside brackets. No tokens give no list."""
    parts, depth = [[]], 0
    for t in tokens:
        if t.kind == "mark":
            depth += (t.text in OPENING) - (t.text in CLOSING)
            if t.text == mark and depth == 0:
                parts.append([])
                continue
        parts[-1].append(t)
    return parts if parts != [[]] else []


_TIGHT_AFTER, _TIGHT_BEFORE = {"(", "[", "!", "~", ".", "->", "::"}, {")", "]", ",", ";", ".", "[", "->", "::", "++", "--"}


def text_of(tokens):
    """Tokens as one line, spaced the same way whatever the source's spacing was."""
    out, last, sign = "", None, False
    for t in tokens:
        after_mark = last is not None and last.kind == "mark" and last.text not in CLOSING
        tight = last is None or last.text in _TIGHT_AFTER or t.text in _TIGHT_BEFORE or sign or t.text == "(" and not after_mark
        if t.text in (".", "[") and after_mark and last.text in ("{", ","): # designators
            tight = False
        out += t.text if tight else " " + t.text
        # A sign after another mark belongs to what follows; a * of a type is on its own.
        sign = t.text in ("-", "+") and (last is None or after_mark or last.text == "return")
        last = t
    return re.sub(r"\* (?=\*)", "*", out)
