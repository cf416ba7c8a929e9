#!/usr/bin/env python3
"""Are comments and pages as docs/STYLE.md says? comments.py [PATH ...]

Lines of comments and of prose have at most 120 columns (the rows of tables may be wider), and no word that rule 4
forbids. Text in backticks, words in capitals, code blocks and the targets of links do not count. Without paths: all
files. The last line counts the checks.

To check another kind of file, write a function that yields its comments, and add a row to KINDS."""
import ast
import io
import os
import re
import subprocess
import sys
import tokenize

from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 120
# Archaic turns, and what only persons do.
BANNED = re.compile(
    r"\b(stands?|stood|standing|lies?|lay|lying|anew|at hand|who|whoever|whom|nobody|somebody|somewhere|wants?|wanted|wish|wishes|wished"
    r"|asks?|asked|asking|told|tells?|hears?|heard|behind|in front of)\b",
    re.IGNORECASE,
)
# Users, maintainers and authors are persons.
PERSONS = re.compile(
    r"\b(users?|maintainers?|authors?|developers?|engineers?|reader of this|anyone|everyone|person|people) (who( asks?| wants?)?|asks?|wants?)\b",
    re.IGNORECASE,
)
# Files that are not checked, by a pattern for their paths, and why.
EXCEPT = [
    (r"(.*/)?LICENSE|packaging/debian/copyright", "texts of licences"),
    (r"(.*/)?Cargo\.lock", "written by cargo"),
    (r"c_tests/.*\.txt", "facts and lists that tests compare"),
    (r"fuzz/seeds/.*", "inputs for the fuzzer"),
    (r"docs/STATUS\.md", "written by scripts/status.rs"),
    (r"docs/ENVIRONMENT\.md", "written by scripts/environment.rs from src/environment/table.rs"),
    (r"docs/DRIVERS\.md", "most of it is written by scripts/test_drivers.py"),
    (r"docs/measurements/.*", "history"),
    (r"docs/STYLE\.md", "it quotes the words"),
]

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
            first = text.count("\n", 0, token.start()) + 1
            for number, line in enumerate(token["comment"].split("\n"), first):
                yield number, line.strip("/*! \t")


def hashes(text):
    """Comments of shell scripts, Makefiles, CMake, TOML and YAML, likewise."""
    for number, line in enumerate(text.split("\n"), 1):
        found = HASH.match(line)
        if found:
            yield number, found["comment"].strip("# \t")


def python(text):
    """Comments and documentation strings of Python, likewise."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], token.string.strip("# ")
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False):
            string = node.body[0].value
            for number in range(string.lineno, string.end_lineno + 1):
                yield number, lines[number - 1].strip(' "')


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
    if any(re.fullmatch(pattern, path) for pattern, _ in EXCEPT):
        return None
    return next((kind for pattern, kind in KINDS if re.fullmatch(pattern, path)), None)


def wide(path, lines, comments):
    """Places of comments that are too wide. In Markdown, targets of links take no columns."""
    width = lambda number, comment: len(comment if path.endswith(".md") else lines[number - 1])
    numbers = {number for number, comment in comments if not comment.startswith("|") and width(number, comment) > WIDTH}
    return [f"{path}:{number}" for number in sorted(numbers)]


def forbidden(path, comments):
    """Places of words that rule 4 forbids."""
    for number, comment in comments:
        for word in BANNED.findall(PERSONS.sub("", re.sub(r"`[^`]*`", "", comment))):
            if not word.isupper():
                yield f"{path}:{number}: {word}"


def main():
    c = Checks("comments")
    command = ["git", "ls-files", "-co", "--exclude-standard", *sys.argv[1:]]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    too_wide, words, n = [], [], 0
    for path in listed:
        kind = kind_of(path)
        if kind and os.path.isfile(f"{ROOT}/{path}"):
            with open(f"{ROOT}/{path}", encoding="utf-8") as f:
                text = f.read()
            comments, n = list(kind(text)), n + 1
            too_wide += wide(path, text.split("\n"), comments)
            words += forbidden(path, comments)
    c.sound(f"comments of {n} files are at most {WIDTH} columns wide", too_wide)
    c.sound(f"comments of {n} files have no word that docs/STYLE.md forbids", words)
    if not sys.argv[1:]:
        c.sound("each exception has files", [why for pattern, why in EXCEPT if not any(re.fullmatch(pattern, p) for p in listed)])
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
