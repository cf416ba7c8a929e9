"""What the benchmarks share: the machine's name, and their tables in docs/BENCHMARKS.md."""
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


def replace(name, text):
    """Puts `text` between the marks of a table, `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    with open(TARGET, encoding="utf-8") as f:
        head, rest = f.read().split(begin)
    with open(TARGET, "w", encoding="utf-8") as f:
        f.write(head + begin + text.strip("\n") + "\n" + end + rest.split(end)[1])
