#!/usr/bin/env python3
"""Builds the book from docs/ with mdBook, in target/book/html: book.py [check]

mdBook is the one on PATH, or in the cache; otherwise cargo installs the version below into the cache, which takes some
minutes once. Pages stay as they are in docs/, where they are also read on their own: this script copies them, with the
pages of the top folder, and makes links to other files of the repository lead to copies.

check: builds nothing, and checks the links and anchors of docs/ and of the pages of the top folder. The build does so
first. The last line counts.
"""
import os
import re
import shutil
import subprocess
import sys
import textwrap
from glob import glob
from pathlib import Path

from processes import ROOT, tool

os.chdir(ROOT)
MDBOOK = "0.5.4"
OUT = Path("target/book")
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", *sorted(glob("docs/*.md")), *sorted(glob("docs/measurements/*.md"))]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)
INCLUDE = re.compile(r"\{\{#include ([^\s:}]+):([\w:]+)\}\}")


def read(path):
    """The text of a file of the repository."""
    return Path(path).read_text(encoding="utf-8")


def beside(page, path):
    """The path in the repository of what a page names."""
    return os.path.normpath(os.path.join(os.path.dirname(page), path))


def anchors(text):
    """The anchors of a page: those of its headings, as mdBook and code hosts make them."""
    count = {}
    for title in re.findall(r"^#{1,6} +(.+?)\s*$", FENCE.sub("", text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        n = count[slug] = count.get(slug, -1) + 1
        yield f"{slug}-{n}" if n else slug


def links(text):
    """Targets of all links, also of those around pictures. Nothing is a link in fenced blocks and code."""
    for m in LINK.finditer(re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))):
        yield m[3]
        yield from links(m[2])


def wrong(page, target):
    """What is wrong with a link, or nothing."""
    path, _, anchor = target.partition("#")
    where = beside(page, path) if path else page
    if re.match(r"[a-z]+:", target):
        return None
    if not os.path.exists(where):
        return f"{page}: there is no {where}"
    if anchor and where.endswith(".md") and anchor not in anchors(read(where)):
        return f"{page}: {where} has no heading for #{anchor}"
    return None


def check():
    """Errors as text, and the number of links."""
    found = [(page, target) for page in PAGES for target in [*links(read(page)), *(m[1] for m in INCLUDE.finditer(read(page)))]]
    listed = {beside("docs/SUMMARY.md", target) for target in links(read("docs/SUMMARY.md"))}
    errors = [error for page, target in found if (error := wrong(page, target))]
    return errors + [f"docs/SUMMARY.md: {page} is not in the book" for page in PAGES if page not in listed | {"docs/SUMMARY.md"}], len(found)


def included(path, part):
    """The lines of a file that a page includes, `name` of an anchor or first:last, without their common indentation."""
    lines = read(path).splitlines()
    if part.replace(":", "").isdigit():
        first, last = map(int, part.split(":"))
    else:
        names = [line.strip() for line in lines]
        first, last = names.index(f"// ANCHOR: {part}") + 2, names.index(f"// ANCHOR_END: {part}")
    return textwrap.dedent("\n".join(lines[first - 1:last]))


def name_in_book(page):
    """mdBook takes a README for the first page of its folder."""
    return "overview.md" if page == "README.md" else os.path.basename(page)


def target_in_book(page, target, source):
    """Where a link of a page leads in the book: to a page, or to a copy that is made of a file; None to a folder."""
    path, hash_sign, anchor = target.partition("#")
    where = beside(page, path)
    if re.match(r"[a-z]+:", target) or not path:
        return target
    if where == "docs/SUMMARY.md":
        return "introduction.md"
    if where in PAGES:
        return name_in_book(where) + hash_sign + anchor
    if os.path.isdir(where):
        return None
    if re.match(r"docs/[^/]+\.(svg|png)$", where):
        return os.path.basename(where)
    copy = source / "files" / f"{where}.txt"
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(where, copy)
    return copy.relative_to(source)


def stage():
    """Copies the pages to target/book/src, where links lead to pages or to copies of files."""
    source = OUT / "src"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree("docs", source)
    for page in PAGES:
        def rewritten(m):
            label, target = LINK.sub(rewritten, m[2]), target_in_book(page, m[3], source)
            return f"{m[1]}[{label}]({target})" if target else label

        text = "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in FENCE.split(read(page)))
        # What a snippet is run with is for the tests.
        text = re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.M)
        text = INCLUDE.sub(lambda m: included(beside(page, m[1]), m[2]), text)
        (source / name_in_book(page)).write_text(text, encoding="utf-8")
    config = read("book.toml").replace('src = "docs"', 'src = "src"').replace("target/book/html", "html").replace("docs/book.css", "book.css")
    shutil.copy("docs/book.css", OUT)
    (OUT / "book.toml").write_text(config, encoding="utf-8")


def right_version(path):
    return f"v{MDBOOK.rsplit('.', 1)[0]}." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def main():
    errors, n = check()
    print("".join(error + "\n" for error in errors) + f"links: {n - len(errors)} passed, {len(errors)} failed", flush=True)
    if errors:
        sys.exit(1)
    if sys.argv[1:] == ["check"]:
        return
    program = tool("mdbook", MDBOOK, "--no-default-features", "--features", "search", right=right_version)
    stage()
    r = subprocess.run([program, "build", OUT], capture_output=True, text=True)
    warnings = [line for line in (r.stdout + r.stderr).splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    if r.returncode != 0 or warnings:
        print("\n".join(warnings) or r.stderr)
        sys.exit("book: mdbook is not content")
    print(f"the book is {OUT}/html/index.html")


if __name__ == "__main__":
    main()
