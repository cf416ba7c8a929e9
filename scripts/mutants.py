#!/usr/bin/env python3
"""Do the tests of docs/FAULTS.md fail on the bugs that they must find? mutants.py [check | write] [ROW ...]

On demand. Each row of mutants_rows.toml names a bug that another implementation had, and tests that must fail with it
and pass without. mutants_places.toml says what is replaced in a copy of the sources (target/mutants/tree); there the
environment variable GGML_RS_MUTANT selects the row. One build without optimisation, in target/mutants, contains all of
them. Each test runs in a process of its own with a limit of memory and of time. A panic, a crash, a hang and a wrong
result all count as failing. `check` builds nothing: are rows and places complete, and does each needle exist? `write`
puts the list into docs/FAULTS.md. MUTANTS_JOBS: how many unit tests run at once (default: the number of processors).
The last line counts the checks."""
import concurrent.futures
import os
import re
import resource
import subprocess
import sys
import threading
import time
try:
    import tomllib
except ImportError:  # Python 3.10 and older
    from pip._vendor import tomli as tomllib

from checks import Checks, replace
from processes import ROOT, compiled

WORK = f"{ROOT}/target/mutants"
TREE = f"{WORK}/tree"
TARGET = os.environ.get("MUTANTS_TARGET", f"{WORK}/build")
# Bytes of address space. A thousand threads need 8 GiB, and some bugs allocate what a hostile file says.
MEMORY = 12 << 30
LISTS = {"G": 32, "C": 10, "S": 25, "A": 11, "V": 15, "R": 17}  # how long the lists of docs/FAULTS.md are


def table(name):
    with open(f"{ROOT}/scripts/mutants_{name}.toml", "rb") as f:
        return tomllib.load(f)


PLACES, LISTED = table("places"), table("rows")
ROWS, WITHOUT = [(name, row["bug"], row["tests"]) for name, row in LISTED["rows"].items()], LISTED["without"]


def pattern(needle):
    return re.compile(r"\s+".join(re.escape(word) for word in needle.split()))


def text_of(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        return f.read()


def places():
    """Rows that places name -> in which files."""
    found = {}
    for path, list_of in PLACES.items():
        for _, replacement in list_of:
            for row in re.findall(r'mutant::on\("([^"]*)"\)', replacement):
                found.setdefault(row, []).append(path)
    return found


def copy_tree():
    """The sources with the bugs, in TREE. What is as it was keeps its time, for cargo."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    paths = {p for p in listed if p and not p.startswith("fuzz/") and os.path.isfile(f"{ROOT}/{p}")}
    for folder, _, names in os.walk(f"{TREE}/src"):
        for name in names:
            if os.path.relpath(f"{folder}/{name}", TREE) not in paths | {"src/mutant.rs"}:
                os.remove(f"{folder}/{name}")
    for path in paths:
        with open(f"{ROOT}/{path}", "rb") as f:
            put(path, f.read() if path not in PLACES else changed(path).encode())
    os.makedirs(f"{TREE}/target", exist_ok=True)  # where unit tests write
    put("src/mutant.rs", text_of("scripts/mutant.rs").encode())


def changed(path):
    text = text_of(path)
    for needle, replacement in PLACES[path]:
        text = pattern(needle).sub(lambda _: replacement, text, count=1)
    return text


def put(path, content):
    target = f"{TREE}/{path}"
    if os.path.exists(target):
        with open(target, "rb") as f:
            if f.read() == content:
                return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as f:
        f.write(content)


def mistakes():
    """What does not fit together: rows, places, sources and the lists of docs/FAULTS.md."""
    for path, list_of in PLACES.items():
        for needle, _ in list_of:
            if len(pattern(needle).findall(text_of(path))) != 1:
                yield f"{path} must have this once: {needle}"
    found, names = places(), LISTED["rows"].keys()
    for row, bug, tests in ROWS:
        if row not in found:
            yield f"row {row}: it has no place"
        if not bug or not tests:
            yield f"row {row}: it needs a bug and a test"
    for row in sorted(found.keys() - names):
        yield f"place {row}: no row has its name ({', '.join(found[row])})"
    covered = {row.split()[0] for row in names}
    for item in (f"{letter}{n}" for letter, last in LISTS.items() for n in range(1, last + 1)):
        if (item in covered) == (item in WITHOUT):
            yield f"{item} of docs/FAULTS.md needs a row or a reason why there is none, and not both"


def cargo(*args):
    env = dict(os.environ, CARGO_PROFILE_TEST_OPT_LEVEL="0", CARGO_PROFILE_DEV_OPT_LEVEL="0", CARGO_PROFILE_TEST_DEBUG="0", CARGO_PROFILE_DEV_DEBUG="0")
    run = subprocess.run(["cargo", *args, "--target-dir", TARGET], cwd=TREE, env=env, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr[-4000:] + "\nmutants: 0 passed, 1 failed")
    return run.stderr


class Build:
    """The test program, and C programs with the library that they are linked with."""

    def __init__(self, tests):
        sources = {t.split(":")[1] for t in tests if t.startswith("c:")}
        self.unit = re.search(r"\((\S*/deps/ggml-\S+)\)", cargo("test", "--lib", "--no-run"))[1] if len(sources) < len(tests) else ""
        self.unit = os.path.join(TREE, self.unit)
        self.lib, self.programs, self.alone = f"{WORK}/lib", {}, threading.Lock()
        if not sources:
            return
        cargo("rustc", "--lib", "--crate-type", "cdylib")
        os.makedirs(self.lib, exist_ok=True)
        for name in ("libggml.so", "libggml-cpu.so", "libggml-base.so", "libggml-base.so.0"):
            if os.path.lexists(f"{self.lib}/{name}"):
                os.remove(f"{self.lib}/{name}")
            os.symlink(f"{TARGET}/debug/libggml.so", f"{self.lib}/{name}")
        for source in sources:
            self.programs[source] = f"{WORK}/{source.replace('/', '_').rpartition('.')[0]}"
            # A set-uid program finds the library by its path alone.
            compiled(self.programs[source], source, f"-L{self.lib}", f"-Wl,-rpath,{self.lib}", "-lggml-base", "-lm", "-lpthread", "-ldl")

    def passes(self, test, row, seconds):
        """Whether a test passes with the bug of a row ("": without any) -> that, and the seconds it took."""
        env = dict(os.environ, GGML_RS_MUTANT=row, LD_LIBRARY_PATH=self.lib, GGML_NO_BACKTRACE="1", GGML_SCHED_SANITIZE="0")
        env.update({"GGML_VK_VISIBLE_DEVICES": "0"} if test.startswith("vulkan::") else {"GGML_DISABLE_VULKAN": "1"})
        c = test.startswith("c:")
        if c:
            env.update(FORK_ROUNDS="20", FORK_SECONDS="60")  # the build is slow
            env["TESTS_ONLY"] = f"make_good {test.split(':')[2]}"  # make_good: the file that test_bad.c damages
        folder = [WORK] if test.startswith("c:rs/") else []  # where test_rs.c writes
        command = [self.programs[test.split(":")[1]], *folder] if c else [self.unit, "--exact", test]
        if c:  # they have files in common
            with self.alone:
                return self.ends(test, command, env, seconds)
        return self.ends(test, command, env, seconds)

    @staticmethod
    def ends(test, command, env, seconds):
        start = time.monotonic()
        try:
            run = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=seconds, preexec_fn=limits)
        except subprocess.TimeoutExpired:
            return False, seconds
        took = time.monotonic() - start
        if test.startswith("c:"):
            return f"PASS {test.split(':')[2]}\n" in run.stdout, took
        return run.returncode == 0 and "1 passed" in run.stdout, took


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def short(test):
    """A test as the list in docs/FAULTS.md names it."""
    return f"`{test.split(':', 1)[1].replace(':', ' ')}`" if test.startswith("c:") else f"`{test}`"


def write(lines):
    """Puts the list into docs/FAULTS.md."""
    head = [f"{time.strftime('%Y-%m-%d', time.gmtime())}, `scripts/mutants.py write`:", "", "| row | the bug | tests that fail with it |", "|---|---|---|"]
    replace(f"{ROOT}/docs/FAULTS.md", "mutants", "\n".join(head + lines))


def main():
    wants_list, only_checks = sys.argv[1:2] == ["write"], sys.argv[1:2] == ["check"]
    if wants_list or only_checks:
        del sys.argv[1]
    c, start, lines = Checks("mutants"), time.monotonic(), []
    for what in mistakes():
        c.check(False, what)
    if only_checks:
        c.check(True, f"{len(ROWS)} rows and {sum(map(len, PLACES.values()))} places are complete")
        sys.exit(c.finish())
    copy_tree()
    wanted = [(row, bug, tests) for row, bug, tests in ROWS if not sys.argv[1:] or row in sys.argv[1:]]
    build = Build([t for _, _, tests in wanted for t in tests])
    built = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MUTANTS_JOBS", os.cpu_count() or 1))) as pool:
        tests = list(dict.fromkeys(t for _, _, tests in wanted for t in tests))
        healthy = dict(zip(tests, pool.map(lambda t: build.passes(t, "", 600), tests)))
        pairs = [(row, t) for row, _, tests in wanted for t in tests if healthy[t][0]]
        catches = dict(zip(pairs, pool.map(lambda p: not build.passes(p[1], p[0], 20 + 4 * healthy[p[1]][1])[0], pairs)))
    for row, bug, tests in wanted:
        caught = [short(t) for t in tests if catches.get((row, t))]
        for test in tests:
            seen = catches.get((row, test), False)
            why = "" if seen else f"it {'passes with the bug' if healthy[test][0] else 'fails without the bug'} ({bug})"
            c.check(seen, f"{row}: {test} fails with its bug", why)
        lines.append(f"| {row} | {bug} | {', '.join(caught) or '**none**'} |")
    if wants_list:
        write(lines)
    print(f"{built - start:.0f} s to build, {time.monotonic() - built:.0f} s for {len(wanted)} rows")
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
