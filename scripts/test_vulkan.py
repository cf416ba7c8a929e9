#!/usr/bin/env python3
"""The Vulkan backend on a driver: programs of c_tests, and llama.cpp's own programs, unmodified, against the CPU.

Which driver: the first device of the system, or the device that GGML_VK_VISIBLE_DEVICES names, which is then Vulkan0.
Without one, the suite has one failure: install mesa-vulkan-drivers. If the validation layers (vulkan-validationlayers)
are installed, they are on, and every message of theirs ends the program that caused it. The section `quick` (the
default) is a representative part, a few minutes in all; `all` has every case of llama.cpp's own test of ops and every
architecture that it knows. `matrices` and `sanitize` need CACHE/mesa-sid, the folder of scripts/fetch_mesa.py.
"""
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from unittest.mock import patch

import vulkan_programs
from hosts import PROMPT, alike, main, nmse, script
from processes import ROOT, layer
from test_peers import Peers, architectures, chunks, cost, every_case, judge, listed, parts, results, sample, supported

with open(f"{ROOT}/c_tests/vulkan/sample.toml", "rb") as f:
    SAMPLE = tomllib.load(f)
OPS = set(SAMPLE["ops"])
# Methods for products (src/vulkan/policy/method.rs) that software drivers use only on request, and their shaders for
# few columns and for many.
WAYS = {"vector": {"mul_mat_vec"}, "tile": {"mul_mat_tile"}, "ints": {"mul_mat_vec_ints", "mul_mat_tile_ints"}}
# The same, of drivers with cooperative matrices.
MATRICES = {"matrices": {"mul_mat_coop.plain"}, "half_matrices": {"mul_mat_coop.half"}}
PRODUCT = re.compile(r"MUL_MAT(_ID)?\(")
# A node in a log of GGML_SCHED_DEBUG=2: its operation, where it is, and its first source.
NODE = re.compile(r"node #\s*\d+ \(\s*(\S+)\):.*?\[\s*(\S+)\s+\S+?\s*\] use=\S+?:\s*(\S*)")
FEW_COLUMNS = 8
# Settings of the validation layers for `sanitize`, and what they print.
SETTINGS = f"{ROOT}/c_tests/vulkan/sanitizer"
INSTRUMENTED = ("BufferDeviceAddressPass", "SharedMemoryDataRacePass")
HARMLESS = ("is adjusting settings", "layer settings provided")
# The layers take the stride of a matrix for bytes, but it counts elements of the pointer's type, here vectors of 16
# bytes in shared memory (docs/TESTS.md). Before a store to a tensor, the shader checks the alignment itself.
STRIDES = re.compile(r"OpCooperativeMatrix(Load|Store)KHR has an? (Pointer and )?Stride operand that (is|are) not aligned")
# Layers on the device: none, half and all of the random llama's four.
LAYERS = (0, 2, 99)


def cases(t):
    """What the device supports of the cases of test-backend-ops."""
    return [name for name, yes in supported(t, "ours", "Vulkan0").items() if yes]


def compare(t, what, names, refusable=False, **environment):
    """What was said meanwhile, by the programs and by the validation layers. `refusable`: the device need not support
    the cases."""
    said = ""
    for some in chunks(names):
        status, out, seconds = t.start("ours", "test-backend-ops", "test", "-b", "Vulkan0", "-o", some, **environment)
        refused = {name for name, lines in results(out).items() if refusable and "not supported" in lines[-1]}
        judge(t, what, status, out, {n for n in names if n in some} - refused, seconds)
        if status != 0 and "alidation" in t.stderr:
            print("  " + next(l for l in t.stderr.splitlines() if "alidation" in l)[:600])
        said += t.stderr + out
    return said


def small_cases(can, most=SAMPLE["cost"]):
    """Each combination of types, each value of every parameter, of every op, in small tensors."""
    def fits(case):
        op, values = parts(case)
        return op in OPS and cost(values) <= most.get(op, 5e5)

    return sample([c for c in can if fits(c)], 1, max(most.values()))


def ops(t):
    """A sample of every op."""
    single = supported(t, "ours", "Vulkan0")
    chosen = small_cases([name for name, yes in single.items() if yes])
    covered = {c.split("(")[0] for c in chosen}
    t.check(covered >= OPS, "the sample covers every op", f"{len(chosen)} cases of {len(covered)} ops {sorted(OPS - covered) or ''}")
    compare(t, "test-backend-ops, sample", chosen)
    graphs(t, single)
    # The ways of products that other devices take: all that a software driver of any age can go.
    by_ways(t, [c for c in chosen if PRODUCT.match(c)], WAYS)


def by_ways(t, products, ways):
    for way, shaders in ways.items():
        said = compare(t, f"test-backend-ops, products by way of {way}", products, GGML_RS_DEBUG=vulkan_programs.debug(f"vk-product={way}"))
        made = set(re.findall(r"\bmul_mat_[\w.]+", said))
        t.check(all(any(f"{name}.".startswith(f"{shader}.") for name in made) for shader in shaders), f"products went by way of {way}",
                " ".join(sorted({name.split(".")[0] for name in made})))


def matrices(t, quick=True):
    """Products by cooperative matrices, on a software driver that has them: a sample, since it takes ten seconds for a
    pipeline."""
    t.starter = [os.path.join(t.mesa, "run")]

    def selected(case):
        named = dict(parts(case)[1])
        return (PRODUCT.match(case) and int(named["n"]) > FEW_COLUMNS
                and (not quick or [named["type_a"], named["type_b"]] in SAMPLE["matrices"]))

    by_ways(t, small_cases([c for c in cases(t) if selected(c)]), MATRICES)
    t.starter = []


def cards(t):
    """The sample as cards compute it: large groups, sums of several subgroups through shared memory."""
    chosen = small_cases(cases(t))
    for device, sums in (("card", "sum_rows.subgroup"), ("plain", "sum_rows.plain")):
        made = compare(t, f"test-backend-ops, sample, vk-device={device}", chosen, GGML_RS_DEBUG=vulkan_programs.debug(f"vk-device={device}"))
        t.check(sums in made and "mul_mat_tile" in made and "lanes" not in made, f"vk-device={device} has an effect")


def widths(t):
    """The sample with subgroups of 4, 8 and 16 invocations, as Mesa's software driver makes them for vectors of so many
    bits."""
    for bits in (128, 256, 512):
        with patch.dict(os.environ, LP_NATIVE_VECTOR_WIDTH=str(bits)):
            said = compare(t, f"test-backend-ops, sample, LP_NATIVE_VECTOR_WIDTH={bits}", small_cases(cases(t)))
        sizes = set(re.findall(r"warp size: (\d+)", said))
        t.check(sizes == {str(bits // 32)}, f"LP_NATIVE_VECTOR_WIDTH={bits} has an effect", f"subgroups of {' '.join(sizes)}")


def limits(t):
    """The sample on a device that has less than the driver has (c_tests/vulkan/driver_layer.c), also as cards compute
    it; devices that lack what every device must have are refused."""
    folder = os.path.join(t.folder, "driver-layer")
    layer(folder, "driver_layer")
    with patch.dict(os.environ, VK_LAYER_PATH=folder, VK_INSTANCE_LAYERS="VK_LAYER_ggml_rs_driver"):
        with patch.dict(os.environ, DRIVER_LAYER_LIMITS="push=128 shared=16384 invocations=128 no-int8"):
            chosen = small_cases(cases(t))
            missing = OPS - {c.split("(")[0] for c in chosen}
            t.check(missing == set(SAMPLE["large_groups"]), "the sample covers every op that fits into small groups", f"{len(chosen)} cases, without {sorted(missing)}")
            for debug in ("", "vk-device=card"):
                said = compare(t, f"test-backend-ops, sample, few resources, {debug or 'software'}", chosen, GGML_RS_DEBUG=vulkan_programs.debug(debug))
                t.check("shared memory: 16384" in said, "the limits have an effect")
        for lacks, what in (("no-16bit", "storageBuffer16BitAccess"), ("no-bda", "bufferDeviceAddress")):
            with patch.dict(os.environ, DRIVER_LAYER_LIMITS=lacks):
                status, out, _ = t.start("ours", "test-backend-ops", "support", "-b", "Vulkan0", "-o", "ADD")
            t.check("Vulkan0" not in out and f"its driver lacks {what}" in t.stderr, f"a device without {what} is refused",
                    f"status {status}: {t.stderr.strip()[-200:]}")


def sanitize(t, quick=True):
    """The sample with every access of shaders to memory checked while they run: GPU-assisted validation finds accesses
    outside of all buffers, and invocations that access shared memory with no barrier between. The results must be
    right, too."""
    t.starter = [os.path.join(t.mesa, "run")]
    chosen = small_cases(cases(t), SAMPLE["sanitized_cost"])
    products = [c for c in chosen if PRODUCT.match(c)]
    ways = [("vk-device=card", chosen)]
    if quick:
        ways += [("", [c for c in chosen if c.split("(")[0] in SAMPLE["sanitized_as_software"]])]
    else:
        ways += [(debug, chosen) for debug in ("vk-device=plain", "")]
        ways += [(f"vk-product={way}", products) for way in ("ints", *MATRICES)]
    for debug, some in ways:
        environment = {"VK_LAYER_SETTINGS_PATH": SETTINGS, "GGML_RS_DEBUG": f"vk-validation=log,{debug}"}
        said = compare(t, f"test-backend-ops, sanitized, {debug or 'software'}", some, **environment)
        wrong = [l for l in said.splitlines() if "validation: " in l and not any(h in l for h in HARMLESS)
                 and not (debug.removeprefix("vk-product=") in MATRICES and STRIDES.search(l))]
        checked = {kind: sum(map(int, re.findall(kind + r" instrumentation count: (\d+)", said))) for kind in INSTRUMENTED}
        t.check(not wrong and all(checked.values()), f"shaders touch nothing beside buffers and race for nothing, {debug or 'software'}",
                " ".join(f"{kind} {n}" for kind, n in checked.items()) + "".join("; " + w for w in wrong[:3])[:1000])
    t.starter = []


def graphs(t, single):
    """The cases that compute a whole graph (fusions and the like): a sample of every kind. `single`: those of one
    operation."""
    whole = [c for c in listed(t) if c not in single]
    chosen = sample(whole, 1, 5e5)
    t.check({c.split("(")[0] for c in chosen} == {c.split("(")[0] for c in whole}, "the sample covers every kind of graph",
            f"{len(chosen)} cases of {len({c.split('(')[0] for c in whole})} kinds")
    found = results(compare(t, "test-backend-ops, graphs", chosen, refusable=True))
    good = sum(said[-1].endswith("OK") for said in found.values())
    t.check(good, "test-backend-ops, graphs are computed", f"{good} OK of {len(chosen)}, of which the others have an op that Vulkan0 has not")


def ops_all(t):
    """Everything that the device supports, and every graph."""
    every_case(t, "Vulkan0", set(cases(t)))


def device(layers):
    """Options for so many layers on the device; None: on the CPU alone."""
    return ("-dev", "none") if layers is None else ("-dev", "Vulkan0", "-ngl", layers)


def models(t, quick=True):
    """MiniLM and the random llama with none, half and all layers on the device, against the CPU."""
    least = alike(*(t.embeddings("ours", *device(layers)) for layers in (None, 99)))
    t.check(least >= 0.9999, "MiniLM on Vulkan0: cosine with the CPU", f"at least {least:.7f}")
    arguments = ("-m", t.random_llama("f16"), "-o", t.model("results-vulkan-f16"), "-p", PROMPT, "-t", 2)
    if t.run("ours", "llama-results", *arguments, *device(None)) is not None:
        for layers in LAYERS:
            t.results("ours", f"F16, {layers} layers on Vulkan0", *arguments, *device(layers))
    # Quantized: as near to the dequantized model as the CPU is, which rounds activations.
    for kind in ("Q8_0", "Q4_0", "Q4_K", "Q6_K"):
        model, plain = t.quantized("ours", kind), t.dequantized("ours", kind)
        reference, cpu = (path and t.logits("ours", path, *device(None)) for path in (plain, model))
        if not reference or not cpu:
            continue
        bound = nmse(reference, cpu)
        for layers in LAYERS[2:] if quick and kind != "Q4_K" else LAYERS:
            got = t.logits("ours", model, *device(layers))
            if got:
                error = nmse(reference, got)
                t.check(error <= bound * 1.01, f"{kind}, {layers} layers on Vulkan0: as near to the dequantized model as the CPU",
                        f"NMSE {error:.3e}, CPU {bound:.3e}")


def starts(t):
    """A model with all its layers on the device in two processes, one after the other, with a cache that keeps
    pipelines: the second one compiles none. Counted by the layer that has the cache, and from the library's log."""
    first = 0
    with tempfile.TemporaryDirectory() as folder:
        for which in ("first start", "second start with a warm cache: no pipeline compiled"):
            layer = vulkan_programs.CacheLayer(t.layer, f"{folder}/cache")
            status, out, _ = t.start("ours", "llama-bench", "-m", t.random_llama("f16"), "-p", 8, "-n", 2, "-r", 1, "-t", 2, "-dev", "Vulkan0", "-v",
                                     GGML_RS_DEBUG="", **layer.variables)
            made, compiled = vulkan_programs.compilations(t.stderr + out)
            expected = 0 if first else made
            first = first or made
            t.check(status == 0 and made == first > 5 and compiled == expected and layer.report() == f"compiled {expected}, found {made - expected}, refused 0",
                    f"llama-bench, {which}", f"{made} pipelines made, {compiled} compiled; the layer: {layer.report()}")


def on_cpu(log):
    """Of the graphs in a log of GGML_SCHED_DEBUG=2 that use Vulkan0: their number, their nodes, those on the CPU that
    read embeddings, which llama.cpp keeps there, and the other ones on the CPU. (It also keeps weights there of
    products that no device computes.)"""
    graphs, nodes, held, others = 0, 0, 0, []
    for part in log.split("## SPLIT #0:")[1:]:
        graph = NODE.findall(part)
        if any(place.startswith("Vulka") for _, place, _ in graph):  # names are cut to five letters
            graphs, nodes = graphs + 1, nodes + len(graph)
            here = [(op, "_embd" in source) for op, place, source in graph if place == "CPU"]
            held, others = held + sum(kept for _, kept in here), others + [op for op, kept in here if not kept]
    return graphs, nodes, held, others


def archs(t, quick=True):
    """Random models of llama.cpp's architectures with all layers on the device: logits against the CPU, and written and
    read back; and no node on the CPU but those of embeddings."""
    good = architectures(t, "Vulkan0", SAMPLE["architectures_ok" if quick else "all_architectures_ok"], "-v", 5,
                         *(("-a", SAMPLE["architectures"]) if quick else ()), timeout=4 * 3600, GGML_SCHED_DEBUG="2")
    graphs, nodes, held, others = on_cpu(t.stderr)
    t.check(graphs >= good and held >= graphs and not others, "test-llama-archs, no fallback to the CPU",
            f"{graphs} graphs, {nodes} nodes, {held} of them of embeddings, {len(others)} others on the CPU{': ' + ' '.join(sorted(set(others))) if others else ''}")


class Vulkan(Peers):
    """The driver and its layers."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.layer, self.mesa = os.path.join(vulkan_programs.OUT, "layer"), os.path.join(self.cache, "mesa-sid")
        if not vulkan_programs.prepare(self):
            sys.exit(self.finish())

    def has_matrices(self):
        """Fetches a driver with cooperative matrices, and validation layers that check running shaders, if this system
        has none."""
        if platform.machine() != "x86_64" or not (os.path.exists(os.path.join(self.mesa, "run")) or os.environ.get("GGML_TEST_VULKAN")):
            return False
        r = subprocess.run([sys.executable, script("fetch_mesa.py"), self.mesa], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode != 0: # no network is no fault of the library
            print("note:", r.stdout.strip().splitlines()[-1])
            return False
        said = vulkan_programs.run(os.path.join(self.mesa, "run"), vulkan_programs.TEST, "none").stderr
        found = re.search(r"^ggml_vulkan: 0 = (.*coopmat.*)", said, re.M)
        print("note:", found[1] if found else said[-200:])
        return self.check(found, "a driver with cooperative matrices")


def extent(t, every):
    """What `make test` and `make test-vulkan` test."""
    vulkan_programs.programs(t, every)
    newer = ("matrices", "sanitize") if t.has_matrices() else ()
    if not newer:
        t.skip(f"cooperative matrices, and shaders while they run (scripts/fetch_mesa.py {t.mesa})")
        t.check(not every, "all of it, or only a part")
    if not os.path.exists(t.path("test-backend-ops")):
        t.skip("ops and models (scripts/oracle.sh tests)")
        t.check(not every, "llama.cpp's programs are there, or not needed")
        return
    all_of_it = ("ops-all", "cards", "widths", "limits", *(f"{name}-all" for name in newer), "models-all", "starts", "archs-all")
    for name in all_of_it if every else ("ops", "models", "starts", "archs", *newer):
        if not every and time.time() >= float(os.environ.get("TEST_UNTIL", "inf")):
            t.skip(f"{name}, for lack of time (TEST_UNTIL)")
            continue
        SECTIONS[name](t)


# Those of which CI has a part only.
LARGE = {"matrices": matrices, "sanitize": sanitize, "models": models, "archs": archs}
SECTIONS = {"quick": partial(extent, every=False), "all": partial(extent, every=True), "programs": vulkan_programs.programs, "ops": ops, **LARGE,
            "starts": starts, "ops-all": ops_all, "cards": cards, "widths": widths, "limits": limits,
            **{f"{name}-all": partial(section, quick=False) for name, section in LARGE.items()}}


if __name__ == "__main__":
    main(__doc__, "vulkan", SECTIONS, 1, Vulkan)
