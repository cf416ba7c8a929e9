"""The names that shared libraries export."""
import os
import subprocess

NM, READELF = os.environ.get("NM", "nm"), os.environ.get("READELF", "readelf")
FUNCTIONS = "TWi"


def run(*command, accept=(0,)):
    """Returns the status and the output. If the status is none of `accept`, ends the program with the command's
    output."""
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode not in accept:
        raise SystemExit(f"abi: {' '.join(command[:2])} ... ended with {r.returncode}: {(r.stderr or r.stdout).strip()[:400]}")
    return r.returncode, r.stdout


def exported(library):
    """Returns {name: nm's letter for its kind}."""
    lines = run(NM, "-D", "--defined-only", library)[1].splitlines()
    return {words[-1].split("@")[0]: words[-2] for words in map(str.split, lines) if words[-2] != "A"}


def imports(library):
    """The names that a library imports."""
    return {line.split()[-1].split("@")[0] for line in run(NM, "-D", "--undefined-only", library)[1].splitlines()}


def soname(library):
    for line in run(READELF, "-dW", library)[1].splitlines():
        if "(SONAME)" in line:
            return line[line.index("[") + 1:-1]
    return None


def weak(letter):
    """Whether each file that uses an inline function or a template has a copy of its own."""
    return letter in "WVu"


def compare(original, ours, allowed):
    """original: {library: {name: letter}}, ours: {name: letter}. Returns texts of the differences that the list does
    not allow."""
    found = []
    for library, names in original.items():
        for name, letter in sorted(names.items()):
            if name not in ours:
                if not allowed.has("missing", f"{'weak ' if weak(letter) else ''}{library} {name}"):
                    found.append(f"{name} of {library} is missing")
            elif (letter in FUNCTIONS) != (ours[name] in FUNCTIONS):
                found.append(f"{name} of {library} is {_kind(letter)} there and {_kind(ours[name])} here")
    everything = set().union(*original.values())
    return found + [f"{name} is exported, but not by the original" for name in sorted(ours) if name not in everything and not allowed.has("extra", name)]


def _kind(letter):
    return "a function" if letter in FUNCTIONS else "data"
