#!/usr/bin/env python3
"""Are comments of the Rust sources, and the documentation, as docs/STYLE.md says? comments.py [PATH ...]

At most 120 columns, which rustfmt does not check; and none of the words that rule 4 forbids, in comments of `src` and in the prose of the
documentation. In Markdown, tables, code blocks, HTML comments and the targets of links do not count, and what is in backticks has no words.
Without paths: all files. The last line counts the checks."""
import os
import re
import subprocess
import sys

from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 120
# The documentation that is checked, and in it the files that are not, with the reason. docs/measurements is history.
PAGES = re.compile(r"(docs/[^/]+|README|CONTRIBUTING)\.md")
EXEMPT = {
    "docs/STATUS.md": "scripts/status.rs generates it",
    "docs/ENVIRONMENT.md": "scripts/environment.rs generates it from src/environment/table.rs",
    "docs/DRIVERS.md": "scripts/drivers_report.py generates most of it",
}
# Lines of any width.
WIDE = {"docs/HOUSE.md", "docs/SHADERS.md"}
# Its subject is the words.
QUOTES = "docs/STYLE.md"
# Archaic turns, and what only persons do.
BANNED = re.compile(
    r"\b(stands?|stood|standing|lies?|lay|lying|anew|at hand|who|whoever|whom|nobody|somebody|somewhere|wants?|wanted|wish|wishes|wished"
    r"|asks?|asked|asking|told|tells?|hears?|heard|behind|in front of)\b",
    re.IGNORECASE,
)
# Users, maintainers and authors are persons.
PERSONS = re.compile(r"\b(user|users|maintainer|author|developer|engineer|reader of this|anyone|everyone|person|people) who\b", re.IGNORECASE)


def wide(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            text = line.strip()
            if text.startswith("//") and len(line.rstrip("\n")) > WIDTH and not text.lstrip("/! ").startswith("|"):
                yield f"{path}:{number}"


def forbidden(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            comment = re.match(r"\s*//[/!]?(.*)", line)
            if comment:
                text = PERSONS.sub("", re.sub(r"`[^`]*`", "", comment[1]))
                for word in BANNED.findall(text):
                    yield f"{path}:{number}: {word}"


def prose(path):
    """Number and text of each line of a page that is prose: what is left out is empty, and code spans are spaces."""
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        text = f.read()
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    # A code span may go on in the next line, but not in the next paragraph.
    without_code = re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)", blank, text, flags=re.S)
    for number, (line, words) in enumerate(zip(text.split("\n"), without_code.split("\n")), 1):
        if not line.lstrip().startswith("|"):
            target = r"\]\([^()]*\)"
            yield number, re.sub(target, "]()", line).rstrip(), re.sub(target, "]", words)


def wide_prose(path):
    return [f"{path}:{number}" for number, line, _ in prose(path) if len(line) > WIDTH]


def forbidden_prose(path):
    for number, _, words in prose(path):
        for word in BANNED.findall(PERSONS.sub("", words)):
            yield f"{path}:{number}: {word}"


def main():
    c = Checks("comments")
    wanted = sys.argv[1:] or ["*.rs", "*.md"]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *wanted], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = [path for path in listed if path.endswith(".rs") and os.path.isfile(f"{ROOT}/{path}")]
    c.sound(f"comments of {len(paths)} files are at most {WIDTH} columns wide", [place for path in paths for place in wide(path)])
    ours = [path for path in paths if path.startswith("src/")]
    c.sound(f"comments of {len(ours)} files of src have no word that docs/STYLE.md forbids", [place for path in ours for place in forbidden(path)])
    pages = [path for path in listed if PAGES.fullmatch(path) and path not in EXEMPT and os.path.isfile(f"{ROOT}/{path}")]
    narrow = [path for path in pages if path not in WIDE]
    c.sound(f"prose of {len(narrow)} pages is at most {WIDTH} columns wide", [place for path in narrow for place in wide_prose(path)])
    words = [place for path in pages if path != QUOTES for place in forbidden_prose(path)]
    c.sound(f"prose of {len(pages)} pages has no word that docs/STYLE.md forbids", words)
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
