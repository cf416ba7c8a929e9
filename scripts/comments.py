#!/usr/bin/env python3
"""Are comments and pages as docs/STYLE.md says? comments.py [PATH ...]

Lines of comments and of prose have at most 120 columns (the rows of tables may be wider), and no word that rule 4
forbids. Text in backticks, words in capitals, code blocks and the targets of links do not count. Without paths: all
files. The last line counts the checks.

To check another kind of file, write a function that yields its comments, and add a row to KINDS."""
import io
import os
import re
import sys
import tokenize
import tomllib

from checks import Checks
from processes import ROOT, known

WIDTH = 120
# The words of rule 4, and files that are not checked.
with open(f"{ROOT}/scripts/comments.toml", "rb") as f:
    RULES = tomllib.load(f)
BANNED = re.compile(rf"\b({'|'.join(RULES['banned'])})\b", re.IGNORECASE)
PERSONS = re.compile(rf"\b({'|'.join(RULES['persons'])}) (who( asks?| wants?)?|asks?|wants?)\b", re.IGNORECASE)
EXCEPT = RULES["except"]

SLASHES = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|\bb?r(?P<hashes>#*)".*?"(?P=hashes)'  # Rust's raw strings
    r'|\bu?8?R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"'  # C++'s raw strings
    r'|"(?:[^"\\]|\\.)*"'
    r"|'(?:[^'\\\n]|\\[^\n][^'\n]*)'",  # a character; lifetimes of Rust have no second quote
    re.DOTALL,
)
# The rest of a line from the first # at the start of a word, outside of strings.
HASH = re.compile(r"""(?:[^"'#]|"(?:[^"\\]|\\.)*"|'[^']*'|(?<=\S)#)*?(?:(?<=\s)|^)#(?!!)(?P<comment>.*)""")


def slashes(text):
    """Comments of C, C++, Rust, GLSL and JavaScript, as pairs of a line's number and its text."""
    for token in SLASHES.finditer(text):
        if token["comment"]:
            for number, line in enumerate(token["comment"].split("\n"), text.count("\n", 0, token.start()) + 1):
                yield number, line.strip("/*! \t")


def hashes(text):
    """Comments of shell scripts, Makefiles, CMake, TOML and YAML, likewise."""
    for number, line in enumerate(text.split("\n"), 1):
        if found := HASH.match(line):
            yield number, found["comment"].strip("# \t")


def python(text):
    """Comments and documentation strings of Python, likewise. The latter are texts at the beginning of a statement."""
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!") or token.type == tokenize.STRING and begins:
            for number, line in enumerate(token.string.split("\n"), token.start[0]):
                yield number, line.strip('# "')
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def prose(text):
    """Lines of Markdown outside of code, HTML comments and tables, likewise."""
    text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    # A code span may continue in the next line, but not in the next paragraph.
    span = r"(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)"
    text = re.sub(span, lambda m: re.sub(r"[^\n]", "-", m[0]), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.lstrip().startswith("|"):
            yield number, re.sub(r"\]\([^()]*\)", "]", line)


# A pattern for paths, and the function that yields the comments of such a file.
KINDS = [
    (r".*\.(rs|c|cpp|h|hpp|glsl|comp|js)", slashes),
    (r".*\.py", python),
    (r".*\.(sh|toml|yml|cmake\.in|supp|suppr|symbols)|(.*/)?Makefile|\.ci/run", hashes),
    (r"(docs/.*|README|CONTRIBUTING)\.md", prose),
    (r"packaging/debian/(rules|control|tests/.*|.*lintian-overrides)", hashes),
]


def kind_of(path):
    """The function for a file; None if it is not checked."""
    if any(re.fullmatch(pattern, path) for pattern in EXCEPT):
        return None
    return next((kind for pattern, kind in KINDS if re.fullmatch(pattern, path)), None)


def wide(path, lines, comments):
    """Places of comments that are too wide. In Markdown, targets of links take no columns."""
    for number, comment in comments:
        if not comment.startswith("|") and len(comment if path.endswith(".md") else lines[number - 1]) > WIDTH:
            yield f"{path}:{number}"


def forbidden(path, comments):
    """Places of words that rule 4 forbids."""
    for number, comment in comments:
        for word in BANNED.findall(PERSONS.sub("", re.sub(r"`[^`]*`", "", comment))):
            if not word.isupper():
                yield f"{path}:{number}: {word}"


def main():
    c = Checks("comments")
    os.chdir(ROOT)
    listed = known(*sys.argv[1:])
    too_wide, words, n = {}, [], 0
    for path in listed:
        if kind := kind_of(path):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            comments, n = list(kind(text)), n + 1
            too_wide |= dict.fromkeys(wide(path, text.split("\n"), comments))
            words += forbidden(path, comments)
    c.sound(f"comments of {n} files are at most {WIDTH} columns wide", too_wide)
    c.sound(f"comments of {n} files have no word that docs/STYLE.md forbids", words)
    if not sys.argv[1:]:
        c.sound("each exception has files", [why for pattern, why in EXCEPT.items() if not any(re.fullmatch(pattern, p) for p in listed)])
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
