#!/usr/bin/env python3
"""Shows that the answers of an unmodified llama-server do not depend on its load.

For each format of weights, format of the KV cache and level of this library's kernels, 40 prompts of 5 to 300 tokens
are answered at temperature 0: one after the other, and then eight at a time, so that tokens of several prompts are in
one batch. All answers to a prompt must have the same tokens, and the same log probabilities of the ten most likely
tokens at each position, to the last digit: tokens alone would hide small differences. LOADS has the ways to answer
eight at a time. The original around the same server is measured, too, but nothing is required of it but whole answers.
Sections are formats of weights; none means all.
"""
import concurrent.futures
import contextlib
import functools
import json
import math
import os
import random
import re
import urllib.request

import processes
from checks import markdown
from hosts import PROMPT, Hosts, main

FORMATS = ["f16", "Q8_0", "Q4_0", "Q4_K", "IQ4_XS"]
CACHES = ["f16", "q8_0"]
# n_embd, n_ff, layers, heads, heads of keys: rows of all matrices are whole blocks of 256 values.
SHAPE = (512, 1536, 3, 8, 4)
PROMPTS, AT_ONCE = 40, 8
SHORTEST, LONGEST = 5, 300
# Tokens of the answers: 20 to 44, on average 32. With answers of one length, those that begin together would end
# together.
LENGTHS = [20 + 7 * i % 25 for i in range(PROMPTS)]
PROBABILITIES = 10
# Tokens of one byte. A text may end within a character, and then the server keeps back the probabilities of its last
# token.
BYTES = range(3, 259)
# Room for a prompt and its answer.
CONTEXT = 512
# Name, options of the server, whether the next eight prompts wait for the last ones, whether the answers must be those
# to one prompt at a time. "separate": a KV cache for each sequence. Prompts join while others generate. "shared": one
# cache for all sequences. The keys of a sequence are in the order of its tokens, with keys of others before, between
# and after them. "shuffled": the same, and prompts join while others generate. Tokens fill the gaps that other
# sequences leave, so the keys of a sequence may have any order. Attention adds values in the order of the cells, which
# is then another order of the tokens. Kernels do not get the order of the tokens, so equal answers are not required.
LOADS = [("separate", ["--no-kv-unified"], False, True),
         ("shared", ["--kv-unified"], True, True),
         ("shuffled", ["--kv-unified"], False, False)]
# Sequences at work, on average, below which "eight at a time" would not be true.
BUSY = 4


def get(port, path, body=None, timeout=300):
    """What the server answers under `path`."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def server(t, side, model, *options, **variables):
    """A server that may only use the CPU; ends with the block. Gives its port, and a function that returns the level of
    its kernels from its log. The original does not log it."""
    path, port, log = t.path("llama-server"), processes.free_port(), os.path.join(t.models, f"server-{side}.log")
    command = [path, "-m", model, "--port", str(port), "-np", str(AT_ONCE), "-c", str(AT_ONCE * CONTEXT), "-t", "2", "--no-webui", "--metrics", "-dev", "none",
               "-lv", "4", *options]

    def said():
        with open(log, errors="replace") as f:
            return f.read()

    def kernels():
        found = re.search(r"\bKERNELS = (\w+)", said())
        return found and found[1]

    def ready():
        with contextlib.suppress(OSError):
            return get(port, "/health", timeout=5)

    with processes.running(command, log, ready, 120, env=t.environment(side, path, **variables)) as process:
        try:
            yield port, kernels
        except (OSError, ValueError, KeyError, TypeError) as e:
            t.check(False, f"llama-server on {side} answers: {' '.join(options)}", f"{type(e).__name__}: {e}; " + " | ".join(said().splitlines()[-4:])[-500:])
        else:
            t.check(process.poll() is None, f"llama-server on {side} still runs after all prompts", f"status {process.poll()}")


def prompts():
    """Random tokens. The lengths grow by the same factor; the order mixes short and long prompts."""
    rng = random.Random(7)
    lengths = [round(SHORTEST * (LONGEST / SHORTEST) ** (i / (PROMPTS - 1))) for i in range(PROMPTS)]
    return [[rng.randrange(300, 31000) for _ in range(lengths[i * 17 % PROMPTS])] for i in range(PROMPTS)]


class Answer:
    """Tokens, and for each of them the most likely tokens with their log probabilities. At temperature 0, and without a
    cache of earlier prompts, it depends on the prompt alone."""

    def __init__(self, port, prompt, length):
        reply = json.loads(get(port, "/completion", {
            "prompt": prompt, "n_predict": length, "temperature": 0, "seed": 1, "cache_prompt": False, "return_tokens": True, "ignore_eos": True,
            "n_probs": PROBABILITIES, "logit_bias": [[b, False] for b in BYTES]}))
        self.tokens = reply["tokens"]
        self.likely = [[(p["id"], p["logprob"]) for p in at["top_logprobs"]] for at in reply["completion_probabilities"]]
        numbers = [p for at in self.likely for _, p in at]
        # A NaN would be equal to a NaN. A text has its own number of tokens.
        self.whole = (len(self.tokens) == length and len(numbers) == length * PROBABILITIES
                      and (isinstance(prompt, str) or reply["tokens_evaluated"] == len(prompt))
                      and all(isinstance(p, float) and math.isfinite(p) for p in numbers))

    def has_tokens_of(self, longer):
        return self.tokens == longer.tokens[:len(self.tokens)]

    def difference(self, longer):
        """Where the answer differs first from one that may be longer, in words; None if it does not."""
        for i, (a, b) in enumerate(zip(self.likely, longer.likely)):
            if a != b:
                worst = max(abs(p - dict(b).get(token, math.inf)) for token, p in a)
                return f"from token {i} on, log probabilities by up to {worst:.2g} there"
        return None if self.has_tokens_of(longer) else "other tokens"


def answers(port, asked, lengths, at_once, waves=False):
    """The answers, and how many sequences the server had at work on average. With `waves`, the next prompts wait until
    all of the last ones are answered."""
    def counters():
        metrics = get(port, "/metrics")
        rate, batches = (float(re.search(rf"^llamacpp:{name} (\S+)", metrics, re.M)[1]) for name in ("n_busy_slots_per_decode", "n_decode_total"))
        return rate * batches, batches

    before = counters()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        wave = at_once if waves else len(asked)
        found = [a for i in range(0, len(asked), wave)
                 for a in pool.map(Answer, [port] * wave, asked[i:i + wave], lengths[i:i + wave])]
    busy, batches = (now - then for now, then in zip(counters(), before))
    return found, busy / batches


def model(t, kind):
    """The random llama in a format, written by the original's llama-quantize unless it is a format of plain numbers."""
    if kind in ("f16", "f32"):
        return t.random_llama(kind, "wide", *SHAPE)
    return t.converted("original", model(t, "f32"), "wide-" + kind, kind)


def measure(t, side, level, kind, cache):
    """For each load, how many answers stay the same (in brackets: those with the same tokens). Checks them for this
    library."""
    asked, path = prompts(), model(t, kind)
    name = f"{kind.upper()}, cache {cache.upper()}, {level or side}"
    if path is None:
        return ["failed"] * len(LOADS)
    alone, row = None, []
    for load, flags, waves, required in LOADS:
        row.append("failed")
        with server(t, side, path, "-ctk", cache, "-ctv", cache, "-fa", "on", *flags, **({"GGML_RS_CPU_LEVEL": level} if level else {})) as (port, kernels):
            if alone is None:
                alone, _ = answers(port, asked, [max(LENGTHS)] * PROMPTS, 1)
                different = len({tuple(a.tokens) for a in alone})
                t.check(all(a.whole for a in alone) and different == PROMPTS, f"{name}: whole answers to {PROMPTS} prompts", f"{different} different ones")
            together, busy = answers(port, asked, LENGTHS, AT_ONCE, waves)
            if level:
                t.check(kernels() == level, f"{name}, {load}: the server uses these kernels", str(kernels()))
            t.check(all(a.whole for a in together) and busy >= BUSY, f"{name}, {load}: whole answers, {AT_ONCE} at a time", f"{busy:.1f} on average")
            found = [b.difference(a) for a, b in zip(alone, together)]
            same = found.count(None)
            row[-1] = f"{same} ({sum(b.has_tokens_of(a) for a, b in zip(alone, together))})"
            if required and side == "ours":
                other = next((f"; prompt {i} of {len(asked[i])} tokens differs {d}" for i, d in enumerate(found) if d), "")
                t.check(same == PROMPTS, f"{name}, {load}: the same answers", f"{same} of {PROMPTS}{other}")
    return row


class Invariance(Hosts):
    """Finds the level of this processor's kernels, with a server that answers texts without options for caches."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        os.environ.pop("GGML_RS_CPU_LEVEL", None)
        os.environ["GGML_RS_DEBUG"] = "threads=all"
        level = None
        with server(self, "ours", model(self, "f16")) as (port, kernels):
            level = kernels()
            found, _ = answers(port, [PROMPT[i:] for i in range(PROMPTS)], LENGTHS, AT_ONCE)
            self.check(level and all(a.whole for a in found), "whole answers to texts, and the server says which kernels it uses", str(level))
        self.columns = [("original", None)] + [("ours", l) for l in dict.fromkeys(["avx2", level] if level != "scalar" else [level]) if l]


def compare(t, kind):
    """A format of weights, with each format of the KV cache: prints a table."""
    head = ["weights", "cache"] + [f"{level or side}, {load[0]}" for side, level in t.columns for load in LOADS]
    rows = [[kind.upper(), cache.upper()] + [cell for column in t.columns for cell in measure(t, *column, kind, cache)] for cache in CACHES]
    print(f"\nanswers of {PROMPTS} that are the same one by one and {AT_ONCE} at a time (in brackets: those with the same tokens)\n")
    print(markdown(head, rows))


if __name__ == "__main__":
    main(__doc__, "invariance", {kind: functools.partial(compare, kind=kind) for kind in FORMATS}, kind=Invariance)
