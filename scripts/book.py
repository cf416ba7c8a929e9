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

from processes import ROOT, tool

MDBOOK = "0.5.4"
OUT = os.path.join(ROOT, "target", "book")
TOP = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md"]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)


def pages():
    """All pages, by their path in the repository."""
    docs = [os.path.join(folder, n) for folder in ("docs", "docs/measurements") for n in sorted(os.listdir(os.path.join(ROOT, folder))) if n.endswith(".md")]
    return [p for p in TOP if os.path.exists(os.path.join(ROOT, p))] + docs


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def prose(text):
    """The text without fenced blocks and code, where nothing is a link."""
    return re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))


def anchors(text):
    """The anchors of a page: those of its headings, as mdBook and code hosts make them."""
    found, count = set(), {}
    for title in re.findall(r"^#{1,6} +(.+?)\s*$", FENCE.sub("", text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        n = count.get(slug, 0)
        count[slug] = n + 1
        found.add(f"{slug}-{n}" if n else slug)
    return found


def links(text):
    """Targets of all links, also of those around pictures."""
    for m in LINK.finditer(prose(text)):
        yield m[3]
        yield from links(m[2])


def check():
    """Errors as text, and the number of links."""
    errors, n = [], 0
    for page in pages():
        text = read(page)
        for target in links(text):
            n += 1
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, where)):
                errors.append(f"{page}: there is no {where}")
            elif anchor and where.endswith(".md") and anchor not in anchors(read(where)):
                errors.append(f"{page}: {where} has no heading for #{anchor}")
        for path in re.findall(r"\{\{#include ([^\s:}]+)", text):
            n += 1
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(page), path)):
                errors.append(f"{page}: there is no {path} to include")
    listed = {os.path.normpath(os.path.join("docs", t)) for t in links(read("docs/SUMMARY.md"))}
    errors += [f"docs/SUMMARY.md: {p} is not in the book" for p in pages() if p != "docs/SUMMARY.md" and p not in listed]
    return errors, n


def included(path, part):
    """The lines of a file that a page includes, `name` of an anchor or first:last, without their common indentation."""
    lines = read(path).splitlines()
    if part.replace(":", "").isdigit():
        first, last = map(int, part.split(":"))
    else:
        first = next(i for i, line in enumerate(lines, 1) if line.strip() == f"// ANCHOR: {part}") + 1
        last = next(i for i, line in enumerate(lines, 1) if line.strip() == f"// ANCHOR_END: {part}") - 1
    return textwrap.dedent("\n".join(lines[first - 1:last]))


def stage():
    """Copies the pages to target/book/src, where links lead to pages or to copies of files."""
    source = os.path.join(OUT, "src")

    # mdBook takes a README for the first page of its folder.
    def name_in_book(page):
        return "overview.md" if page == "README.md" else os.path.basename(page)

    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "docs"), source)
    known = set(pages())

    def target_in_book(page, target):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return target
        where = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if where == "docs/SUMMARY.md":
            return "introduction.md"
        if where in known:
            return name_in_book(where) + ("#" + anchor if anchor else "")
        if os.path.isdir(os.path.join(ROOT, where)):
            return None
        if re.match(r"docs/[^/]+\.(svg|png)$", where):
            return os.path.basename(where)
        copy = os.path.join("files", where + ".txt")
        os.makedirs(os.path.dirname(os.path.join(source, copy)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, where), os.path.join(source, copy))
        return copy

    def rewrite(page, text):
        def one(m):
            target = target_in_book(page, m[3])
            label = LINK.sub(one, m[2])
            return f"{m[1]}[{label}]({target})" if target else label
        return LINK.sub(one, text)

    for page in known:
        parts = FENCE.split(read(page))
        text = "".join(p if p.startswith("```") else rewrite(page, p) for p in parts)
        # What a snippet is run with is for the tests.
        text = re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.M)
        text = re.sub(r"\{\{#include ([^\s:}]+):([\w:]+)\}\}", lambda m: included(os.path.join(os.path.dirname(page), m[1]), m[2]), text)
        with open(os.path.join(source, name_in_book(page)), "w", encoding="utf-8") as f:
            f.write(text)
    with open(os.path.join(ROOT, "book.toml"), encoding="utf-8") as f:
        config = f.read().replace('src = "docs"', 'src = "src"').replace("target/book/html", "html").replace("docs/book.css", "book.css")
    shutil.copy(os.path.join(ROOT, "docs", "book.css"), OUT)
    with open(os.path.join(OUT, "book.toml"), "w", encoding="utf-8") as f:
        f.write(config)


def mdbook():
    def right(path):
        return f"v{MDBOOK.rsplit('.', 1)[0]}." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout

    return tool("mdbook", MDBOOK, "--no-default-features", "--features", "search", right=right)


def main():
    errors, n = check()
    for e in errors:
        print(e)
    print(f"links: {n - len(errors)} passed, {len(errors)} failed", flush=True)
    if errors:
        sys.exit(1)
    if sys.argv[1:] == ["check"]:
        return
    program = mdbook()
    os.makedirs(OUT, exist_ok=True)
    stage()
    r = subprocess.run([program, "build", OUT], capture_output=True, text=True)
    warnings = [line for line in (r.stdout + r.stderr).splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    if r.returncode != 0 or warnings:
        print("\n".join(warnings) or r.stderr)
        sys.exit("book: mdbook is not content")
    print(f"the book is {os.path.relpath(os.path.join(OUT, 'html', 'index.html'))}")


if __name__ == "__main__":
    main()
