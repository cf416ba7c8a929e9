"""The data members of structs, unions and classes."""
from .heads import angle, declarator, find, is_label, is_mark, parameter_list, plain, split_types
from .tokens import Token, closing

_NO_DATA = ("using", "friend", "static", "static_assert", "typedef")
_NESTED = ("struct", "union", "class", "enum")


def members(body):
    """[(name, type)]; a.b is the member b of the member a, which is a struct itself."""
    found, i = [], 0
    while i < len(body):
        if is_mark(body[i], ";"):
            i += 1
        elif is_label(body, i):
            i += 2
        elif body[i].text == "template":
            i = angle(body, i + 1)
        elif body[i].text in _NO_DATA:
            j = find(body, i, ";", "{")
            i = (closing(body, j) if j < len(body) and is_mark(body[j], "{") else j) + 1
        else:
            more, i = _member(body, i)
            found += more
    return [(name, kind.replace("@", "").strip()) for name, kind in found if name]


def _member(body, i):
    """The members that the declaration at i makes, and the index after it."""
    j = i
    while j < len(body) and not is_mark(body[j], ";", "{", "="):
        j = closing(body, j) + 1 if is_mark(body[j], "(", "[") else j + 1
    head, _ = plain(body[i:j])
    function = parameter_list(head) is not None
    if j >= len(body) or not is_mark(body[j], "{"):
        return [] if function else _declared(head), find(body, j, ";") + 1
    end = closing(body, j)
    if head and head[0].text in _NESTED and not function:
        stop = find(body, end + 1, ";")
        return _nested(head, body[j + 1:end], body[end + 1:stop]), stop + 1
    # A method, or a member with {...} after its name.
    return [] if function else _declared(head), end + 1


def _declared(head):
    """int a, *b, c[2] -> three members."""
    found, base = [], []
    for n, part in enumerate(split_types(head)):
        if n == 0:
            base = [t for t in part[:-1] if not is_mark(t, "*")]
        kind, name = declarator(part if n == 0 else base + part)
        found.append((name, kind))
    return found


def _nested(head, inside, behind):
    """The members of a struct that is defined where it is used. Without a name after it, they are the outer
    struct's."""
    names = []
    for part in split_types(plain(behind)[0]):
        if part and not part[-1].text.isupper(): # a name in capitals is a macro that C leaves empty
            names.append(declarator([Token("name", "type", part[0].line)] + part)[1])
    inner = members(inside) if head[0].text != "enum" else []
    if not names and len(head) == 1:
        return inner
    return [(f"{name}.{n}", k) for name in names for n, k in inner] if inner else [(name, head[-1].text) for name in names]
