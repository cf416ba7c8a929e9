#!/usr/bin/env python3
"""Are comments of the Rust sources at most 120 columns wide? rustfmt does not wrap them. The rows of tables may be wider. The last line counts the checks."""
import os
import subprocess
import sys

from checks import Checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 120


def wide(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            text = line.strip()
            if text.startswith("//") and len(line.rstrip("\n")) > WIDTH and not text.lstrip("/! ").startswith("|"):
                yield f"{path}:{number}"


def main():
    c = Checks("comments")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = [path for path in listed if os.path.isfile(f"{ROOT}/{path}")]
    c.sound(f"comments of {len(paths)} files are at most {WIDTH} columns wide", [place for path in paths for place in wide(path)])
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
