#!/usr/bin/env python3
"""Compares the binary interface of this library with that of the original, from the libraries and headers of both.

usage: abi_diff.py LIB_DIR      LIB_DIR holds our installed libraries

Builds the original with debug information (scripts/oracle.sh debug), and this library too, not optimised: layouts and
signatures are those of any build. Compared are facts by name:

names      what the shared libraries export, as functions or as data, and their SONAMEs
headers    functions, types, enums and macros that are numbers, as libclang reads the headers of both
library    functions and structs in the debug information of both libraries, by abidw

Intended differences are listed in c_tests/abi/differences.txt, each with its reason. An entry that matches nothing is a
failure. Without abidw (package abigail-tools) all is skipped, except for root, which could have installed it, and in
CI.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from fnmatch import fnmatchcase

sys.dont_write_bytecode = True
from checks import Checks
from debuginfo import DebugInfo, alike
from processes import ROOT, cache
from upstream import interface
from upstream.tree import Tree, compared

LISTS = os.path.join(ROOT, "c_tests", "abi")
LIBRARIES = ("libggml", "libggml-base", "libggml-cpu")
KINDS = ("missing", "extra", "header", "differs", "unseen")
checks = Checks("abi")


def run(*command, **more):
    r = subprocess.run(command, stdout=subprocess.PIPE, text=True, **more)
    return r.stdout if r.returncode == 0 else sys.exit(f"abi: {' '.join(command[:2])} ... ended with {r.returncode}")


class Allowed:
    """The list of intended differences: lines `KIND PATTERN: REASON`."""
    def __init__(self, text):
        self.entries, self.used = [], set()
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                rule, _, reason = line.strip().partition(": ")
                kind, _, pattern = rule.partition(" ")
                if kind not in KINDS or not pattern or not reason:
                    sys.exit(f"abi: {line.strip()!r} is not `KIND PATTERN: REASON` with a kind out of {', '.join(KINDS)}")
                self.entries.append((kind, pattern))

    def has(self, kind, name):
        """Whether an entry allows it; that entry then counts as used. The first that fits counts, so order matters."""
        fits = next((entry for entry in self.entries if entry[0] == kind and fnmatchcase(name, entry[1])), None)
        self.used.add(fits)
        return bool(fits)

    def unused(self):
        return [f"{kind} {pattern}: matches nothing any more" for kind, pattern in self.entries if (kind, pattern) not in self.used]


def differences(kind, theirs, ours, allowed):
    """The items for facts that differ and that the list does not allow."""
    meant = {name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name) and allowed.has(kind, name)}
    return list(compared(*({name: fact for name, fact in side.items() if name not in meant} for side in (theirs, ours))))


def symbols(library, which="--defined-only"):
    """Name -> nm's letter for its kind."""
    lines = map(str.split, run(os.environ.get("NM", "nm"), "-D", which, library).splitlines())
    return {words[-1].split("@")[0]: words[-2] for words in lines if words[-2] != "A"}


def soname(library):
    return re.search(r"\(SONAME\).*\[(.*)\]", run(os.environ.get("READELF", "readelf"), "-dW", library))[1]


def names(original, ours, allowed):
    """original: library -> name -> letter; ours: name -> letter. An inline function or a template is weak: each file
    that uses it has a copy of its own."""
    what = lambda letter: "function" if letter in "TWi" else "data"
    theirs, mine = {}, {}
    for library, letters in original.items():
        for name, letter in letters.items():
            label = f"{'weak ' if letter in 'WVu' else ''}{library} {name}"
            theirs[label] = what(letter)
            mine.update({label: what(ours[name])} if name in ours else {})
    extra = {name: what(letter) for name, letter in ours.items() if not any(name in letters for letters in original.values())}
    return differences("missing", theirs, mine, allowed) + differences("extra", {}, extra, allowed)


def headers(folder, *more):
    """The facts about the headers of a folder, and about more headers."""
    with tempfile.TemporaryDirectory(prefix="ggml-abi-") as work:
        shutil.copytree(folder, os.path.join(work, "include"))
        for path in more:
            shutil.copy(path, os.path.join(work, "include"))
        tree = Tree(work)
        found = interface.read(tree)
        functions = {name: f"{interface.header(c)}: {interface.spelled(c.type)}" for name, c in found.functions.items() if interface.shown(c)}
        return {**functions, **interface.types(tree), **interface.enums(tree), **{name: str(number) for name, number in found.numbers.items()}}


def common(theirs, ours):
    """Two dictionaries of facts of debug information, for the names that both have. Facts that are alike are equal."""
    known = {name: theirs[name] for name in theirs if name in ours}
    same = lambda a, b: len(a) == len(b) and all(map(alike, a, b))
    return known, {name: fact if same(fact.split(), ours[name].split()) else ours[name] for name, fact in known.items()}


def structs(theirs, ours):
    """The facts about structs that both have, with all their members."""
    known = [name for name in theirs if name in ours]
    facts = [{name + member: fact for name in known for member, fact in side[name].items()} for side in (theirs, ours)]
    return facts[0], {**facts[1], **common(*facts)[1]}


def listed_structs():
    """Every struct that hosts or modules read."""
    with open(os.path.join(LISTS, "layout.txt"), encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.startswith(("struct ", "typedef "))]


def compare_library(theirs, ours, exported, allowed):
    functions = common(*({name: text for name, text in side.functions.items() if name in exported} for side in (theirs, ours)))
    checks.sound(f"our library and the original's: {len(functions[0])} functions", differences("differs", *functions, allowed))
    listed = listed_structs()
    facts = structs(*({name: side.structs[name] for name in listed if name in side.structs} for side in (theirs, ours)))
    checks.sound(f"our library and the original's: {len(facts[0])} facts about structs", differences("differs", *facts, allowed))
    # Both sides must have debug information of all that they export.
    unseen = sorted({*exported, *listed} - functions[0].keys() - facts[0].keys())
    checks.sound(f"{len(exported)} functions and {len(listed)} structs were compared",
                 [f"{name} is not in the debug information of both" for name in unseen if not allowed.has("unseen", name)])


def selftest(theirs, info, work):
    """Whether mistakes are seen: in the headers, in a library of ours, in the names and in the list."""
    nobody, include = Allowed(""), os.path.join(ROOT, "include")
    with open(os.path.join(LISTS, "mistakes.toml"), "rb") as f:
        mistakes = tomllib.load(f)["mistakes"]
    right = headers(include)
    for mistake in mistakes:
        copy = shutil.copytree(include, os.path.join(work, "include"), dirs_exist_ok=True)
        path = os.path.join(copy, mistake["file"])
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(re.sub(mistake["old"], mistake["new"], text, count=1, flags=re.DOTALL))
        seen = differences("header", right, headers(copy), nobody)
        checks.check(any(mistake["name"] in item for item in seen), f"seen: {mistake['what']}", "; ".join(seen))

    library = os.path.join(work, "libwrong.so")
    source = os.path.join(LISTS, "wrong.rs")
    run(*os.environ.get("RUSTC", "rustc").split(), "--edition", "2021", "-A", "warnings", "-C", "debuginfo=2", source, "-o", library)
    wrong = DebugInfo(library)
    seen = differences("differs", *common(info.functions, {name: text for name, text in wrong.functions.items() if name in symbols(library)}), nobody)
    seen += differences("differs", *structs(info.structs, wrong.structs), nobody)
    with open(source, encoding="utf-8") as f:
        expected = re.findall(r"// (\w\S*)$", f.read(), re.M)
    checks.check(sorted({item.split()[1].rstrip(":") for item in seen}) == sorted(expected), "seen: mistakes in Rust", "; ".join(seen))

    listed = Allowed("missing libggml ggml_one: used\nextra ggml_two: not used\n")
    seen = names({"libggml": {"ggml_one": "T", "ggml_four": "T", "ggml_five": "T"}}, {"ggml_three": "T", "ggml_five": "D"}, listed)
    expected = ["~ libggml ggml_five: function -> data", "- libggml ggml_four: function", "+ ggml_three: function"]
    checks.sound("seen: names", [] if seen == expected else seen)
    checks.check(listed.unused() == ["extra ggml_two: matches nothing any more"], "seen: an entry that matches nothing")


def built():
    """Folders with the original's libraries, and the path of ours, with debug information. The dependencies are built
    once, and stay in the cache. Names have 64 bytes, as in the original's build."""
    run(os.path.join(ROOT, "scripts/oracle.sh"), "debug")
    target = os.path.join(cache(), "abi-rust")
    env = {**os.environ, "CARGO_TARGET_DIR": target, "CARGO_INCREMENTAL": "0"}
    env.pop("GGML_MAX_NAME", None)
    print("building the library with debug information (the first time: a minute) ...", flush=True)
    options = "--quiet --locked --lib --crate-type cdylib --config profile.dev.opt-level=0 --config profile.dev.debug=2".split()
    run(os.environ.get("CARGO", "cargo"), "rustc", *options, "--config", 'profile.dev.package."*".debug=0', cwd=ROOT, env=env)
    return os.path.join(cache(), "debug/lib"), os.path.join(target, "debug/libggml.so")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    if not shutil.which(os.environ.get("ABIDW", "abidw")):
        missing = "abidw is missing: install the package abigail-tools"
        if os.getuid() and not os.environ.get("CI"):
            return checks.skip_all(missing)
        checks.check(False, missing)
        return checks.finish()
    ours = sys.argv[1]
    folder, debug = built()
    paths = {name: os.path.join(folder, name + ".so") for name in (*LIBRARIES, "libggml-rpc")}
    with open(os.path.join(LISTS, "differences.txt"), encoding="utf-8") as f:
        allowed = Allowed(f.read())

    original, exported = {name: symbols(path) for name, path in paths.items()}, symbols(os.path.join(ours, "libggml-base.so"))
    everything = set().union(*original.values())
    checks.sound(f"{len(everything)} names of the original", names(original, exported, allowed))
    # A function that a file of the original takes from another must exist, whatever the list allows.
    inside = set().union(*(original[name] for name in LIBRARIES))
    taken = set().union(*(symbols(path, "--undefined-only") for path in paths.values())) & inside
    checks.sound("what the original's libraries take from each other", sorted(taken - exported.keys()))
    sonames = [{name: soname(os.path.join(place, name + ".so")) for name in LIBRARIES} for place in (folder, ours)]
    checks.sound("SONAMEs", list(compared(*sonames)))
    checks.sound("the build with debug information exports the same", sorted(symbols(debug).keys() ^ exported.keys()))

    sources = os.path.join(cache(), "src/ggml")
    theirs = headers(os.path.join(sources, "include"), os.path.join(sources, "src/ggml-backend-impl.h"))
    checks.sound(f"our headers and the original's: {len(theirs)} facts", differences("header", theirs, headers(os.path.join(ROOT, "include")), allowed))

    info = DebugInfo(*(paths[name] for name in LIBRARIES))
    functions = {name for letters in original.values() for name, letter in letters.items() if letter in "TWi" and name in exported}
    compare_library(info, DebugInfo(debug), functions, allowed)
    checks.sound(f"differences.txt has {len(allowed.entries)} entries in use", allowed.unused())
    with tempfile.TemporaryDirectory(prefix="ggml-abi-") as work:
        selftest(theirs, info, work)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
