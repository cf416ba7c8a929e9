#!/usr/bin/env python3
"""Are comments of the Rust sources as docs/STYLE.md says? comments.py [PATH ...]

At most 120 columns, which rustfmt does not see to (the rows of tables may be wider); and in `src` none of the words that rule 4 forbids. What is in
backticks does not count. Without paths: all files. The last line counts the checks."""
import os
import re
import subprocess
import sys

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


def main():
    c = Checks("comments")
    wanted = sys.argv[1:] or ["*.rs"]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *wanted], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = [path for path in listed if path.endswith(".rs") and os.path.isfile(f"{ROOT}/{path}")]
    c.sound(f"comments of {len(paths)} files are at most {WIDTH} columns wide", [place for path in paths for place in wide(path)])
    ours = [path for path in paths if path.startswith("src/")]
    c.sound(f"comments of {len(ours)} files of src have no word that docs/STYLE.md forbids", [place for path in ours for place in forbidden(path)])
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
