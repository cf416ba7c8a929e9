"""Shared by programs that measure: the machine's name, and their tables in docs/BENCHMARKS.md or another page."""
import os
import platform

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "docs", "BENCHMARKS.md")
CPU = os.path.join(ROOT, "docs", "measurements", "cpu.md")
BUFFERS = os.path.join(ROOT, "docs", "measurements", "buffers.md")
ERRORS = os.path.join(ROOT, "docs", "measurements", "errors.md")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def read(name, target=TARGET):
    """The table between the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a page."""
    with open(target, encoding="utf-8") as f:
        return f.read().split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]


def replace(name, text, target=TARGET):
    """Puts `text` between the marks of a table in the page, `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    with open(target, encoding="utf-8") as f:
        head, rest = f.read().split(begin)
    with open(target, "w", encoding="utf-8") as f:
        f.write(head + begin + text.strip("\n") + "\n" + end + rest.split(end)[1])
