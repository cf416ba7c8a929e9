"""Unmodified programs of llama.cpp on this library and on the original, for test_hosts.py, test_rpc.py, test_peers.py,
test_vulkan.py, test_invariance.py, test_placement.py and test_swaps.py.

The programs are built once; LD_LIBRARY_PATH says which library they run on."""
import json
import os
import random
import re
import subprocess
import sys
import time

import gguf_file
import random_llama
from checks import Checks
from processes import ROOT, compiled

SENTENCES = ["The cat sits outside", "A man is playing guitar", "The new movie is awesome", "The dog plays in the garden",
             "A woman watches TV", "The new movie is so great", "Rust is a systems programming language",
             "Numbers such as 3.14159 and 42 occur, too", "Berlin is the capital of Germany",
             "Do you like pizza? I do, very much indeed, with a good deal of cheese and a few olives on top of it"]
PROMPT = "People die when they are killed. The cat sits outside, and the dog plays in the garden."
# For a comparison of errors: with the 20 tokens of PROMPT alone, the ratio of two errors varies by several per cent.
LONG_PROMPT = " ".join(random.Random(1).choices(" ".join(SENTENCES).split(), k=400))
# Of llama.cpp's newest version there are tools; what only the older tree holds:
OLDER = ("llama-embedding", "llama-server")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Hosts(Checks):
    """Paths, models, ways to run a host, and the count of checks."""

    tests = "peers" # the folder of the original's test programs
    starter = () # a program that starts the programs
    timeout = 600 # seconds

    def __init__(self, suite, cache, ours):
        super().__init__(suite)
        self.cache, self.libs = cache, {"ours": ours, "original": os.path.join(cache, "original/lib")}
        self.models = os.path.join(cache, "models")
        self.folder = None # where programs run
        self.preload = compiled(f"{ROOT}/target/c_tests/flush-{suite}.so", "host/flush_log.c", "-shared", "-fPIC", "-ldl")
        os.makedirs(self.models, exist_ok=True)

    def path(self, program):
        if program.startswith("llama-"):
            return os.path.join(self.cache, "tests/bin" if program in OLDER else "hosts/bin", program)
        return os.path.join(self.cache, self.tests, program)

    def environment(self, side, program=None, **more):
        """Variables for a program on one library."""
        libraries = self.libs[side] + (":" + os.path.dirname(self.path(program)) if program else "")
        return dict(os.environ, LD_LIBRARY_PATH=libraries, LD_PRELOAD=self.preload, GGML_NO_BACKTRACE="1") | more

    def start(self, side, program, *arguments, timeout=None, **variables):
        """Exit status (a text if it did not end), what it printed (without colours) and seconds. `stderr` has its other
        output."""
        begin = time.time()
        try:
            r = subprocess.run([*self.starter, self.path(program), *map(str, arguments)], env=self.environment(side, program, **variables),
                               capture_output=True, timeout=timeout or self.timeout, cwd=self.folder)
            status, printed = r.returncode, (r.stdout, r.stderr)
        except subprocess.TimeoutExpired as e:
            status, printed = f"no end after {e.timeout:.0f} s", (e.stdout, e.stderr)
        except OSError as e:
            status, printed = str(e), (b"", b"")
        out, self.stderr = (COLOUR.sub("", (text or b"").decode(errors="replace")) for text in printed)
        return status, out, time.time() - begin

    def run(self, side, program, *arguments, **variables):
        """What a host printed; None and a failed check when it does not end well."""
        status, out, _ = self.start(side, program, *arguments, **variables)
        if status == 0:
            return out
        self.check(False, f"{program} {' '.join(map(os.path.basename, map(str, arguments)))[:60]} on {side}", self.why(status, out))
        return None

    def why(self, status, out=""):
        """The status of the last program, and the end of what it said."""
        return f"status {status}: " + " | ".join((self.stderr.strip() or out.strip()).splitlines()[-4:])[-500:]

    def model(self, name):
        return os.path.join(self.models, name + ".gguf")

    def made(self, name, write):
        """A model that `write` makes at a path if it does not exist."""
        path = self.model(name)
        if not os.path.exists(path):
            write(path + ".part")
            os.replace(path + ".part", path)
        return path

    def random_llama(self, kind, name="llama", *shape):
        vocabulary = os.path.join(self.cache, "src/llama.cpp/models/ggml-vocab-llama-spm.gguf")
        return self.made(f"{name}-{kind}", lambda out: random_llama.llama(out, vocabulary, kind, *shape))

    def minilm(self):
        fetch = [sys.executable, script("fetch_minilm.py"), os.path.join(self.cache, "src/minilm")]
        return self.made("minilm-f32", lambda out: subprocess.run([*fetch, out], check=True))

    def converted(self, side, source, name, kind, *options, again=False):
        """A model that llama-quantize wrote on one side; None if it failed."""
        path = self.model(name)
        if again or not os.path.exists(path):
            if source is None or self.run(side, "llama-quantize", *options, source, path + ".part", kind, 2) is None:
                return None
            os.replace(path + ".part", path)
        return path

    def quantized(self, side, kind, again=False):
        """The random llama in a format."""
        if kind in ("f32", "f16"):
            return self.random_llama(kind)
        return self.converted(side, self.random_llama("f32"), f"llama-{kind}-{side}", kind, again=again)

    def dequantized(self, side, kind):
        """The same, made floats of again."""
        return self.converted(side, self.quantized(side, kind), f"llama-{kind}-{side}-plain", "F32", "--allow-requantize")

    def logits(self, side, model, *arguments, prompt=PROMPT, **variables):
        """All logits of a prompt, from the file that llama-results writes; None if it fails."""
        out = self.model(f"results-{self.suite.replace(' ', '-')}-{side}")
        if self.run(side, "llama-results", "-m", model, "-o", out, "-p", prompt, "-t", 2, *arguments, **variables) is None:
            return None
        return gguf_file.numbers(out, b"logits")

    def results(self, side, what, *arguments):
        """llama-results compares with a file of logits."""
        text = self.run(side, "llama-results", *arguments, "--check")
        if text is not None:
            error = re.search(r"NMSE=(\S+)", text + self.stderr)
            self.check("OK" in text + self.stderr, f"llama-results --check, {what}", f"NMSE {error.group(1) if error else '?'}")

    def listed(self, side, program, *arguments):
        """The list in JSON that a host prints after other lines; None and a failed check if there is none."""
        text = self.run(side, program, *arguments)
        try:
            return None if text is None else json.loads(text[text.index("["):])
        except ValueError as why:
            self.check(False, f"{program} on {side} prints JSON", f"{why} in {len(text)} characters, at the end {text[-100:]!r}")

    def embeddings(self, side, *arguments):
        """Vectors of the sentences, by MiniLM; None if it fails."""
        return self.listed(side, "llama-embedding", "-m", self.minilm(), "-p", "\n".join(SENTENCES), "--embd-output-format", "array", "-t", 2, *arguments)

    def bench(self, side, *arguments):
        """What llama-bench measured, a row for each."""
        return self.listed(side, "llama-bench", "-o", "json", *arguments) or []


def script(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def nmse(reference, values):
    return sum((a - b) ** 2 for a, b in zip(reference, values)) / sum(a * a for a in reference)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def alike(one, other):
    """The least cosine of the vectors of all sentences; 0 if some are missing."""
    if not one or not other or not len(one) == len(other) == len(SENTENCES):
        return 0
    return min(map(cosine, one, other))


USAGE = """usage: {} CACHE OURS [SECTION ...]

CACHE is the folder of scripts/oracle.sh, OURS the folder of the installed library's lib. The last line counts the checks.
SECTIONs:"""


def main(doc, suite, sections, usual=None, kind=Hosts):
    """A suite of sections, as USAGE says. `usual`: how many of the first sections run if none is named."""
    if len(sys.argv) < 3 or any(n not in sections for n in sys.argv[3:]):
        sys.exit(f"{doc.strip()}\n\n{USAGE.format(os.path.basename(sys.argv[0]))} {' '.join(sections)}")
    t = kind(suite, *map(os.path.abspath, sys.argv[1:3]))
    for name in sys.argv[3:] or list(sections)[:usual]:
        begin = time.time()
        print(f"{name}:", flush=True)
        sections[name](t)
        print(f"   {name}: {time.time() - begin:.0f} s", flush=True)
    sys.exit(t.finish())
