"""Shared by programs that measure: the machine's name, and their tables in docs/BENCHMARKS.md or another page."""
import os
import platform

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "docs", "BENCHMARKS.md")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def replace(name, text, target=TARGET):
    """Puts `text` between the marks of a table in the page, `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    with open(target, encoding="utf-8") as f:
        head, rest = f.read().split(begin)
    with open(target, "w", encoding="utf-8") as f:
        f.write(head + begin + text.strip("\n") + "\n" + end + rest.split(end)[1])
