#!/usr/bin/env python3
"""Do the tests of docs/FAULTS.md fail on the bugs that they must find? mutants.py [check] [ROW ...]

On demand. Each row of mutants_rows.toml names a bug that another implementation had, and tests that must fail with it
and pass without. mutants_places.toml says what is replaced in a copy of the sources (target/mutants/tree); there the
environment variable GGML_RS_MUTANT selects the row. One build without optimisation, in target/mutants, contains all of
them. Each test runs in a process of its own with a limit of memory and of time. A panic, a crash, a hang and a wrong
result all count as failing. `check` builds nothing: are rows and places complete, and does each needle exist?
A test is a unit test, or `c:SOURCE:NAME`, which may be followed by settings of the card: `:CARD_LAUNCH_US=1000`.
MUTANTS_JOBS: how many unit tests run at once (default: the number of processors)."""
import concurrent.futures
import contextlib
import os
import re
import resource
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import processes
from checks import Checks

ROOT = Path(processes.ROOT)
WORK = ROOT / "target/mutants"
TREE, TARGET, LIB = WORK / "tree", WORK / "build", WORK / "lib"
# Only what slows a part of the simulated card down takes time.
FAST_CARD = {"CARD_H2D_GBPS": "100", "CARD_COPY_LATENCY_US": "1", "CARD_LAUNCH_US": "1", "CARD_KERNEL_US": "0"}
# Bytes of address space. A thousand threads need 8 GiB, and some bugs allocate what a hostile file says.
MEMORY = 12 << 30
LISTS = {"G": 32, "C": 10, "S": 25, "A": 11, "V": 15, "R": 17}  # how long the lists of docs/FAULTS.md are
# For each file, needles and what replaces them; rows by name; numbers of the lists without a row.
PLACES = tomllib.loads((ROOT / "scripts/mutants_places.toml").read_text(encoding="utf-8"))
ROWS, WITHOUT = tomllib.loads((ROOT / "scripts/mutants_rows.toml").read_text(encoding="utf-8")).values()


def pattern(needle):
    return re.compile(r"\s+".join(map(re.escape, needle.split())))


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def mistakes():
    """What does not fit together: rows, places, sources and the lists of docs/FAULTS.md."""
    found = {}
    for path, list_of in PLACES.items():
        for needle, replacement in list_of:
            if len(pattern(needle).findall(text_of(path))) != 1:
                yield f"{path} must have this once: {needle}"
            found |= dict.fromkeys(re.findall(r'mutant::on\("([^"]*)"\)', replacement), path)
    for name, row in ROWS.items():
        if name not in found:
            yield f"row {name}: it has no place"
        if not row["bug"] or not row["tests"]:
            yield f"row {name}: it needs a bug and a test"
    for name in sorted(found.keys() - ROWS.keys()):
        yield f"place {name}: no row has its name ({found[name]})"
    covered = {name.split()[0] for name in ROWS}
    for item in (f"{letter}{n}" for letter, last in LISTS.items() for n in range(1, last + 1)):
        if (item in covered) == (item in WITHOUT):
            yield f"{item} of docs/FAULTS.md needs a row or a reason why there is none, and not both"


def copy_tree():
    """The sources with the bugs, in TREE. What is as it was keeps its time, for cargo."""
    contents = {p: (ROOT / p).read_bytes() for p in processes.known() if not p.startswith("fuzz/")}
    contents["src/mutant.rs"] = contents["scripts/mutant.rs"]
    for path, list_of in PLACES.items():
        text = text_of(path)
        for needle, replacement in list_of:
            text = pattern(needle).sub(lambda _: replacement, text, count=1)
        contents[path] = text.encode()
    for file in TREE.glob("src/**/*"):
        if file.is_file() and str(file.relative_to(TREE)) not in contents:
            file.unlink()
    for path, content in contents.items():
        file = TREE / path
        if not file.is_file() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    (TREE / "target").mkdir(exist_ok=True)  # where unit tests write


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
        self.unit, self.programs, self.card, self.alone = "", {}, {}, threading.Lock()
        if len(sources) < len(tests):
            self.unit = TREE / re.search(r"\((\S*/deps/ggml-\S+)\)", cargo("test", "--lib", "--no-run"))[1]
        if not sources:
            return
        cargo("rustc", "--lib", "--crate-type", "cdylib")
        LIB.mkdir(parents=True, exist_ok=True)
        for name in ("libggml.so", "libggml-cpu.so", "libggml-base.so", "libggml-base.so.0"):
            (LIB / name).unlink(missing_ok=True)
            (LIB / name).symlink_to(TARGET / "debug/libggml.so")
        if any(source.startswith("card/") for source in sources):
            self.card = processes.card(WORK) | FAST_CARD
        for source in sources:
            # A set-uid program finds the library by its path alone.
            self.programs[source] = processes.compiled(WORK / source.replace("/", "_").rpartition(".")[0], source, f"-L{LIB}", f"-Wl,-rpath,{LIB}",
                                                       "-lggml-base", "-lm", "-lpthread", "-ldl")

    def passes(self, test, row, seconds):
        """Whether a test passes with the bug of a row ("": without any) -> that, and the seconds it took."""
        env = dict(os.environ, GGML_RS_MUTANT=row, LD_LIBRARY_PATH=str(LIB), GGML_NO_BACKTRACE="1", GGML_SCHED_SANITIZE="0")
        env.update({"GGML_VK_VISIBLE_DEVICES": "0"} if test.startswith("vulkan::") else {"GGML_DISABLE_VULKAN": "1"})
        command, good, alone = [self.unit, "--exact", test], "1 passed", contextlib.nullcontext()
        if test.startswith("c:"):
            _, source, name, *settings = test.split(":")
            # The build is slow. make_good: the file that test_bad.c damages.
            env.update(FORK_ROUNDS="20", FORK_SECONDS="60", TESTS_ONLY=f"make_good {name}")
            if source.startswith("card/"):
                env.update(self.card | dict(s.split("=") for s in settings))
            # test_rs.c writes into a folder, and the programs have files in common.
            arguments = {"rs": [WORK], "card": ["CARD0"]}.get(source.split("/")[0], [])
            command, good, alone = [self.programs[source], *arguments], f"PASS {name}\n", self.alone
        with alone:
            start = time.monotonic()
            try:
                run = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=seconds, preexec_fn=limits)
            except subprocess.TimeoutExpired:
                return False, seconds
        return good in run.stdout and (run.returncode == 0 or test.startswith("c:")), time.monotonic() - start


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main():
    names, only_checks = [n for n in sys.argv[1:] if n != "check"], "check" in sys.argv[1:]
    c, start = Checks("mutants"), time.monotonic()
    for what in mistakes():
        c.check(False, what)
    if only_checks:
        c.check(True, f"{len(ROWS)} rows and {sum(map(len, PLACES.values()))} places are complete")
        sys.exit(c.finish())
    copy_tree()
    wanted = {name: row for name, row in ROWS.items() if not names or name in names}
    tests = list(dict.fromkeys(t for row in wanted.values() for t in row["tests"]))
    build, built = Build(tests), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MUTANTS_JOBS", os.cpu_count() or 1))) as pool:
        healthy = dict(zip(tests, pool.map(lambda t: build.passes(t, "", 600), tests)))
        pairs = [(name, t) for name, row in wanted.items() for t in row["tests"]]
        seen = pool.map(lambda p: healthy[p[1]][0] and build.passes(p[1], p[0], 20 + 4 * healthy[p[1]][1])[0], pairs)
    for (name, test), passed in zip(pairs, seen):
        good = healthy[test][0]
        why = f"it {'passes with the bug' if good else 'fails without the bug'} ({ROWS[name]['bug']})"
        c.check(good and not passed, f"{name}: {test} fails with its bug", "" if good and not passed else why)
    print(f"{built - start:.0f} s to build, {time.monotonic() - built:.0f} s for {len(wanted)} rows")
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
