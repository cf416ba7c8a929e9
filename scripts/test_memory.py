#!/usr/bin/env python3
"""Loads and text under limits of memory: test_memory.py CACHE OURS

In memory cgroups of 0.7 to 2 times a model, with its file mapped and not, llama-completion on this library must end
well if it does on the original, and write the text that it writes without a limit. Needs root; otherwise a line says
that nothing was checked. Takes ten minutes: not part of `make test`.
"""
import itertools
import os
import subprocess
import sys

from checks import Checks
from processes import ROOT

sys.path.insert(0, f"{ROOT}/c_tests/bench")
import cpu  # noqa: E402
import memory  # noqa: E402

FORMATS = ["Q8_0", "Q4_K", "IQ4_XS", "F16"]
LIMITS = [0.7, 0.85, 1.0, 1.3, 2.0]
LONGEST = 300


def run(group, program, library, path, mode, limit):
    """The text, or None if the process did not end well."""
    group.set(int(limit * os.path.getsize(path)) if limit else -1 if group.version == 1 else "max")
    memory.forget(path)
    env = dict(os.environ, LD_LIBRARY_PATH=f"{library}:{os.path.dirname(program)}", GGML_DISABLE_VULKAN="1")
    command = [program, "-m", path, "-p", "Once upon a time", "-n", "4", "--temp", "0", "-no-cnv", "--no-display-prompt", "-t", "2", "-c", "256", "-lm", mode]
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=LONGEST, preexec_fn=group.enter, check=True).stdout
    except subprocess.SubprocessError:
        return None


def main():
    cache, ours = map(os.path.abspath, sys.argv[1:])
    t, original, program = Checks("memory"), f"{cache}/bench-native/lib", f"{cache}/hosts/bin/llama-completion"
    try:
        group = memory.Group()
    except OSError as why:
        return t.skip_all(f"no memory cgroup: {why}")
    for kind, path in cpu.models(cache, ours, FORMATS).items():
        usual = run(group, program, ours, path, "mmap", None)
        t.check(usual is not None, f"{kind}: text without a limit")
        for mode, limit in itertools.product(("mmap", "none"), LIMITS):
            name = f"{kind}, load mode {mode}, {limit} times the model"
            there, here = (run(group, program, library, path, mode, limit) for library in (original, ours))
            if there is None and here is None:
                t.skip(f"{name}: neither library ends well")
                continue
            # The tool prints from a thread that it does not wait for at its end.
            while here not in (None, usual) and usual.startswith(here):
                here = run(group, program, ours, path, mode, limit)
            said = {(False, True): "the original does not end well", (True, False): "only the original ends well"}
            t.check(here == usual, name, said.get((there is not None, here is not None), "" if here == usual else repr(here)))
    group.close()
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
