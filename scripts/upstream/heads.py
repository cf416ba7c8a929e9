"""Heads of declarations: storage classes, attributes, types and names."""
import re

from .tokens import Token, closing, split, text_of

AGGREGATES = {"struct", "union", "class", "enum"}
_QUALIFIERS = {"const", "volatile", "restrict", "GGML_RESTRICT", "__restrict__", "__restrict"}
_BASIC = {"void", "bool", "_Bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed"}
_MARKERS = {"static", "inline", "extern", "virtual", "explicit", "friend", "constexpr", "__inline", "__forceinline", "GGML_NORETURN", "_Noreturn",
            "GGML_CALL", "GGML_EXTENSION", "__extension__", "thread_local", "_Thread_local", "register", "mutable"}
ATTRIBUTES = re.compile(r"__attribute__|__declspec|alignas|_Alignas|__launch_bounds__|\w*ATTRIBUTE\w*")
_API = re.compile(r"[A-Z0-9_]+_API")
_NO_FUNCTION = {"if", "while", "for", "switch", "return", "sizeof", "decltype", "catch", "defined"}


def is_mark(token, *texts):
    return token.kind == "mark" and token.text in texts


def find(tokens, i, *texts):
    """The index of the first of these marks outside brackets, or the end."""
    while i < len(tokens):
        if is_mark(tokens[i], *texts):
            return i
        i = closing(tokens, i) if is_mark(tokens[i], "(", "[", "{") else i
        i += 1
    return len(tokens)


def angle(tokens, i):
    """The index after the <...> that begins at i."""
    depth = 0
    while i < len(tokens):
        t = tokens[i]
        if is_mark(t, "("):
            i = closing(tokens, i)
        elif is_mark(t, "<"):
            depth += 1
        elif is_mark(t, ">", ">>"):
            depth -= len(t.text)
            if depth <= 0:
                return i + 1
        elif is_mark(t, ";", "{"):
            return i
        i += 1
    return i


def plain(head):
    """A declaration's head without attributes and storage classes, and the set of those."""
    kept, marks, i = [], set(), 0
    while i < len(head):
        t = head[i]
        call = i + 1 < len(head) and is_mark(head[i + 1], "(")
        if t.kind == "name" and t.text in ("GGML_DEPRECATED", "DEPRECATED") and call:
            end = closing(head, i + 1)
            head = head[:i] + (split(head[i + 2:end]) or [[]])[0] + head[end + 1:]
            marks.add("deprecated")
            continue
        if t.kind == "name" and ATTRIBUTES.fullmatch(t.text):
            i = closing(head, i + 1) + 1 if call else i + 1
        elif is_mark(t, "[") and i + 1 < len(head) and is_mark(head[i + 1], "["):
            i = closing(head, i) + 1
        elif t.kind == "name" and (t.text in _MARKERS or _API.fullmatch(t.text)):
            marks.add("api" if _API.fullmatch(t.text) else t.text)
            i += 1
        elif t.kind == "text" and "extern" in marks: # extern "C"
            i += 1
        else:
            kept.append(t)
            i += 1
    return kept, marks


def type_text(tokens):
    return text_of([t for t in tokens if t.text not in ("struct", "enum", "union", "GGML_RESTRICT", "__restrict__", "restrict")])


def declarator(tokens):
    """A parameter's, field's or variable's (type, name); the name's place inside the type is marked by @ where it is
    not the end."""
    tokens = tokens[:find(tokens, 0, "=")]
    for i in range(len(tokens) - 2):
        if is_mark(tokens[i], "(") and is_mark(tokens[i + 1], "*", "^"): # a pointer to a function or array
            end = closing(tokens, i)
            names = [j for j in range(i + 2, end) if tokens[j].kind == "name" and tokens[j].text not in _QUALIFIERS]
            if end + 1 < len(tokens) and is_mark(tokens[end + 1], "(", "["):
                at = names[0] if names else end
                rest = tokens[at + bool(names):]
                types = []
                if is_mark(tokens[end + 1], "("):
                    types = [declarator(p)[0].replace("@", "") for p in split(tokens[end + 2:closing(tokens, end + 1)])]
                    rest = tokens[at + bool(names):end + 1]
                    tail = f" ({', '.join(types)})"
                else:
                    tail = ""
                return f"{type_text(tokens[:i])} {type_text(tokens[i:at])}@{type_text(rest)}{tail}", tokens[at].text if names else ""
    tokens = tokens[:find(tokens, 0, ":")] # a bit field's width
    end = len(tokens)
    while end and is_mark(tokens[end - 1], "]"):
        depth = 0
        while end:
            end -= 1
            depth += is_mark(tokens[end], "]") - is_mark(tokens[end], "[")
            if depth == 0:
                break
    dims = type_text(tokens[end:])
    head = tokens[:end]
    named = len(head) > 1 and head[-1].kind == "name" and head[-1].text not in _BASIC | _QUALIFIERS and not is_mark(head[-2], "::") and \
        any(t.text not in _QUALIFIERS and t.text not in AGGREGATES for t in head[:-1])
    kind = type_text(head[:-1] if named else head)
    return (f"{kind} @{dims}" if dims else kind), head[-1].text if named else ""


def split_types(tokens):
    """Lists of tokens between commas outside brackets and template arguments."""
    parts, last = [], 0
    i = 0
    while i < len(tokens):
        t = tokens[i]
        if is_mark(t, "(", "[", "{"):
            i = closing(tokens, i)
        elif is_mark(t, "<") and i > 0 and tokens[i - 1].kind == "name":
            i = max(angle(tokens, i) - 1, i)
        elif is_mark(t, ","):
            parts.append(tokens[last:i])
            last = i + 1
        i += 1
    return [*parts, tokens[last:]] if tokens else []


def parameters(tokens):
    found = [declarator(p) for p in split_types(tokens)]
    return [] if found == [("void", "")] else found


def is_label(body, n):
    return body[n].text in ("public", "private", "protected") and n + 1 < len(body) and is_mark(body[n + 1], ":")


def _before_arguments(head, i):
    """The index of the name whose template arguments end at i."""
    depth = 0
    while i > 0:
        depth += (len(head[i].text) if is_mark(head[i], ">", ">>") else 0) - is_mark(head[i], "<")
        i -= 1
        if depth == 0:
            break
    return i


def name_start(head, group):
    """Where the name of the function begins whose parameters open at group: after its type, with classes and template
    arguments."""
    i = group - 1
    if any(t.text == "operator" for t in head[max(0, i - 2):i + 1]):
        while head[i].text != "operator":
            i -= 1
    elif is_mark(head[i], ">", ">>"):
        i = _before_arguments(head, i)
    while i > 0 and is_mark(head[i - 1], "::", "~"):
        i -= 1
        if is_mark(head[i], "::") and i > 0 and is_mark(head[i - 1], ">", ">>"):
            i = _before_arguments(head, i - 1)
        elif is_mark(head[i], "::") and i > 0 and head[i - 1].kind == "name":
            i -= 1
    return i


def parameter_list(head):
    """The index of the bracket that opens a function's parameters."""
    i = 0
    while i < len(head):
        if is_mark(head[i], "(") and i > 0:
            before = head[i - 1]
            operator = any(t.text == "operator" for t in head[max(0, i - 4):i])
            if operator and is_mark(head[i + 1], ")") and i + 2 < len(head) and is_mark(head[i + 2], "(") and before.text == "operator":
                return i + 2
            named = is_mark(before, ">", ">>") or before.kind == "name" and before.text not in _NO_FUNCTION | _BASIC
            pointer = i + 1 >= len(head) or is_mark(head[i + 1], "*") # (*name)
            return i if operator or named and not pointer else None
        if is_mark(head[i], "[", "{"):
            i = closing(head, i)
        elif is_mark(head[i], "<") and i > 0 and head[i - 1].kind == "name" and head[i - 1].text != "operator":
            i = max(i, angle(head, i) - 1)
        elif is_mark(head[i], "="):
            return None
        i += 1
    return None


def member_init(head, group):
    """Whether the brace after the head initializes a member in a constructor's list."""
    end = closing(head, group)
    return end + 1 < len(head) and is_mark(head[end + 1], ":") and head[-1].kind == "name"
