#!/usr/bin/env python3
"""Writes traces of router choices, for examples/expert_policies.rs: traces.py all FOLDER | check | one FILE [options]

A trace is a line of text, "experts N used K layers L tokens T", and then, for each token and each layer, K numbers of
experts as 16-bit integers, little-endian. The line may go on with "prompts A:B,C:D": these ranges of tokens are read
as one batch each; all other tokens are generated, one at a time.

The traces are synthetic, because recorded ones of real models were out of reach; what is known of the latter is
reproduced. In each layer, the popularity of experts follows Zipf's law, in an order that is random for each layer. A
token chooses each of its experts in one of three ways, again if it has that expert already: with probability `near` it
repeats a choice of a token shortly before (the distance is geometric), with probability `far` one of any earlier token
of the same request (so a request develops preferences of its own), or else it draws from the popularity. A new request
forgets the earlier one. Layers choose independently: the overlap of neighbours is that of chance (see PROFILES).

`check` compares the profiles with what was measured; docs/measurements/0.28.0-experts.md cites the sources.
"""
import argparse
import array
import bisect
import itertools
import os
import random
import sys

# Sizes of the model; zipf: the mean exponent, spread: how much it varies between layers (relative, uniform); near, far:
# probabilities; step: that the repeated token is the next one further back. Fitted to the figures in MEASURED.
PROFILES = {
    # Qwen3-30B-A3B.
    "qwen3": dict(experts=128, used=8, layers=48, zipf=1.06, spread=0.9, near=0.22, far=0.61, step=0.15),
    # Qwen3.8-Flash-Next.
    "flash": dict(experts=512, used=10, layers=48, zipf=0.64, spread=0.47, near=0.28, far=0.50, step=0.05),
    # OLMoE-1B-7B. The exponent is measured, not fitted.
    "olmoe": dict(experts=64, used=8, layers=16, zipf=0.65, spread=0.30, near=0.15, far=0.70, step=0.20),
    # gpt-oss-20b.
    "gptoss": dict(experts=32, used=4, layers=24, zipf=0.80, spread=0.40, near=0.35, far=0.45, step=0.20),
}

# What others measured with the real models, all without warming up: tokens of a request; the share of a token's experts
# that a token `d` later uses, too; hit rates of a cache of `n` slots in each layer that evicts the least recently used
# expert, after the whole token; misses of a cache that evicts the least frequently used expert, divided by those of one
# that evicts the least recently used one, both with slots for all layers, `n` times as many as a token uses.
MEASURED = {
    "qwen3": dict(tokens=141, requests=10, overlap={1: 0.427, 2: 0.36, 8: 0.30, 16: 0.30},
                  lru={8: 0.422, 12: 0.505, 16: 0.574, 24: 0.673, 32: 0.758, 48: 0.873, 64: 0.914, 96: 0.930}),
    "flash": dict(tokens=300, requests=1, overlap={1: 0.372},
                  lru={31: 0.435, 62: 0.620, 93: 0.720, 124: 0.789, 171: 0.850}),
    "olmoe": dict(tokens=704, requests=1, overlap={1: 0.370}, lru={16: 0.514},
                  lfu={1.0: 0.775, 1.5: 0.775, 2.0: 0.775}),
    # The overlap was 0.41 to 0.50.
    "gptoss": dict(tokens=512, requests=1, overlap={1: 0.455}, lfu={1.0: 0.992, 1.5: 0.992, 2.0: 0.992}),
}


class Layer:
    """The popularity of a layer's experts."""

    def __init__(self, source, experts, zipf):
        weights = [(rank + 1) ** -zipf for rank in range(experts)]
        source.shuffle(weights)
        self.sums = list(itertools.accumulate(weights))

    def draw(self, source):
        return min(bisect.bisect(self.sums, source.random() * self.sums[-1]), len(self.sums) - 1)


def layers_of(source, p):
    return [Layer(source, p["experts"], p["zipf"] * source.uniform(1 - p["spread"], 1 + p["spread"]))
            for _ in range(p["layers"])]


def choices(source, layer, p, tokens):
    """The experts that each token of a request uses in a layer."""
    near, far, step, used = p["near"], p["near"] + p["far"], p["step"], p["used"]
    uniform = source.random
    past = []
    for token in range(tokens):
        chosen = []
        while len(chosen) < used:
            way = uniform() if token else 1.0
            if way < near:
                back = 1
                while back < token and uniform() < step:
                    back += 1
                expert = past[token - back][int(uniform() * used)]
            elif way < far:
                expert = past[int(uniform() * token)][int(uniform() * used)]
            else:
                expert = layer.draw(source)
            if expert not in chosen:
                chosen.append(expert)
        past.append(chosen)
    return past


def write(path, p, requests, prompt, text, seed):
    """`requests` of `prompt` tokens that are read and `text` tokens that are generated."""
    source = random.Random(seed)
    layers = layers_of(source, p)
    tokens = prompt + text
    ranges = ",".join(f"{r * tokens}:{r * tokens + prompt}" for r in range(requests))
    head = "experts {experts} used {used} layers {layers}".format(**p) + f" tokens {requests * tokens}"
    with open(path, "wb") as f:
        f.write((head + (f" prompts {ranges}" if prompt else "") + "\n").encode())
        for _ in range(requests):
            by_layer = [choices(source, layer, p, tokens) for layer in layers]
            numbers = array.array("h", (e for token in zip(*by_layer) for chosen in token for e in chosen))
            if sys.byteorder == "big":
                numbers.byteswap()
            numbers.tofile(f)


def synthetic(zipf, locality):
    """A model of 128 experts with a given exponent and a share of the locality of Qwen3-30B-A3B."""
    p = dict(PROFILES["qwen3"], layers=24, zipf=zipf, spread=0.3)
    share = {"none": 0.0, "low": 0.5, "measured": 1.0}[locality]
    return dict(p, near=p["near"] * share, far=p["far"] * share)


def write_all(folder):
    os.makedirs(folder, exist_ok=True)
    for name, p in PROFILES.items():
        write(f"{folder}/{name}.trace", p, 6, 0, 256, 1)
        write(f"{folder}/{name}-prompts.trace", p, 6, 512, 256, 2)
    for zipf in (0.6, 0.8, 1.0, 1.2):
        for locality in ("none", "low", "measured"):
            write(f"{folder}/zipf{zipf}-{locality}.trace", synthetic(zipf, locality), 6, 0, 256, 3)
    write(f"{folder}/zipf0.8-low-prompts.trace", synthetic(0.8, "low"), 6, 512, 256, 4)


def overlap(tokens, distance):
    pairs = [(set(a), set(b)) for a, b in zip(tokens, tokens[distance:])]
    return sum(len(a & b) / len(a) for a, b in pairs) / len(pairs)


def lru(tokens, slots):
    """Hit rate of a cache of one layer, which evicts after each token."""
    cache, hits = [], 0
    for chosen in tokens:
        hits += sum(e in cache for e in chosen)
        cache = chosen[::-1] + [e for e in cache if e not in chosen]
        del cache[slots:]
    return hits / (len(tokens) * len(tokens[0]))


def misses(runs, slots, by_frequency):
    """Misses of one cache for all layers; each run is a layer."""
    last, frequency, missed = {}, {}, 0
    order = (lambda e: (frequency[e], last[e])) if by_frequency else last.get
    for clock, (layer, chosen) in enumerate(enumerated for token in zip(*runs) for enumerated in enumerate(token)):
        for e in ((layer, e) for e in chosen):
            frequency[e] = frequency.get(e, 0) + 1
            if e not in last:
                missed += 1
                if len(last) >= slots:
                    del last[min(last, key=order)]
            last[e] = clock
    return missed


def lfu(runs, share):
    slots = round(share * len(runs) * len(runs[0][0]))
    return misses(runs, slots, True) / misses(runs, slots, False)


def check():
    """Prints measured and generated figures. Returns whether all are within 0.08 of each other."""
    worst = 0.0
    for name, m in MEASURED.items():
        source = random.Random(5)
        p = dict(PROFILES[name], layers=8)
        layers = layers_of(source, p)
        runs = [choices(source, layer, p, m["tokens"]) for _ in range(m["requests"]) for layer in layers]
        for what, function in (("overlap", overlap), ("lru", lru)):
            for n, measured in m.get(what, {}).items():
                here = sum(function(run, n) for run in runs) / len(runs)
                worst = max(worst, abs(here - measured))
                print(f"{name:6} {what:8} {n:4} measured {measured:.3f} here {here:.3f}")
        for n, measured in m.get("lfu", {}).items():
            here = lfu(runs, n)
            worst = max(worst, abs(here - measured))
            print(f"{name:6} LFU/LRU  {n:4} measured {measured:.3f} here {here:.3f}")
    print(f"largest difference {worst:.3f}")
    return worst <= 0.08


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("all").add_argument("folder")
    commands.add_parser("check")
    one = commands.add_parser("one")
    one.add_argument("file")
    one.add_argument("--profile", choices=PROFILES, default="qwen3")
    for name, default in (("requests", 6), ("prompt", 0), ("text", 256), ("seed", 1)):
        one.add_argument(f"--{name}", type=int, default=default)
    for name in ("experts", "used", "layers"):
        one.add_argument(f"--{name}", type=int)
    for name in ("zipf", "spread", "near", "far", "step"):
        one.add_argument(f"--{name}", type=float)
    a = parser.parse_args()
    if a.command == "all":
        write_all(a.folder)
    elif a.command == "check":
        sys.exit(not check())
    else:
        p = PROFILES[a.profile]
        p = {k: v if getattr(a, k) is None else getattr(a, k) for k, v in p.items()}
        write(a.file, p, a.requests, a.prompt, a.text, a.seed)


if __name__ == "__main__":
    main()
