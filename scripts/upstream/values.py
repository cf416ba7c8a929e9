"""The numbers of enums and macros."""
import re

from .tokens import tokenize

_LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]
_BINARY = {
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)), "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "<<": lambda a, b: a << min(b, 128),
    ">>": lambda a, b: a >> b, "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "%": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}


class Unknown(Exception):
    """The expression is no integer constant of known names."""


class _Expression:
    def __init__(self, tokens, look_up):
        self.tokens, self.at, self.look_up = tokens, 0, look_up

    def next(self):
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def binary(self, level):
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.next() in _LEVELS[level]:
            mark = self.next()
            self.at += 1
            value = _BINARY[mark](value, self.binary(level + 1))
        return value

    def unary(self):
        if self.at >= len(self.tokens):
            raise Unknown
        t = self.tokens[self.at]
        self.at += 1
        if t.text in ("-", "+", "~", "!"):
            v = self.unary()
            return {"-": -v, "+": v, "~": ~v, "!": int(not v)}[t.text]
        if t.text == "(":
            v = self.binary(0)
            if self.next() != ")":
                raise Unknown
            self.at += 1
            return v
        if t.kind == "number":
            m = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*", t.text.replace("'", ""))
            if not m:
                raise Unknown
            digits = m.group(1)
            return int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
        if t.kind == "char" and len(t.text) == 3:
            return ord(t.text[1])
        if t.kind == "name":
            return self.look_up(t.text)
        raise Unknown


def evaluate(tokens, look_up):
    """The integer value of the tokens; look_up(name) gives a name's, or raises Unknown."""
    e = _Expression(tokens, look_up)
    try:
        value = e.binary(0)
    except (ZeroDivisionError, ValueError, KeyError, RecursionError):
        raise Unknown from None
    if e.at != len(tokens):
        raise Unknown
    return value


class Constants:
    """The integer constants of some sources: enumerators and macros by name."""

    def __init__(self, declarations):
        self.macros, self.known, self.enums = {}, {}, {}
        for d in declarations:
            for name, entries in d.macros.items():
                self.macros.setdefault(name, entries)
        for d in declarations:
            for enum in d.enums.values():
                self.enums.setdefault(enum.name, self.values(enum))

    def look_up(self, name, seen=()):
        if name in self.known:
            return self.known[name]
        entries = self.macros.get(name)
        if not entries or name in seen or len({body for params, body in entries if params is None}) != 1 or entries[0][0] is not None:
            raise Unknown
        return evaluate(tokenize(entries[0][1])[0], lambda other: self.look_up(other, (*seen, name)))

    def macro(self, name):
        try:
            return self.look_up(name)
        except Unknown:
            return None

    def values(self, enum):
        """[(name, number or None)]"""
        found, following = [], 0
        for name, tokens in enum.values:
            try:
                value = evaluate(tokens, self.look_up) if tokens else following
                if value is None:
                    raise Unknown
                self.known[name] = value
                following = value + 1
            except Unknown:
                value = following = None
            found.append((name, value))
        return found
