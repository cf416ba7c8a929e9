#!/usr/bin/env python3
"""What the drivers of graphics cards make of the Vulkan backend, without a card: the suite `drivers`.

usage: test_drivers.py CACHE PREFIX quick|all|write [CARD ...]

Mesa's drivers run on no-op kernel devices (its drm-shim): they compile every pipeline for a card and record every
command, and compute nothing. A layer (c_tests/vulkan/driver_layer.c) counts dispatches and barriers of a llama's graphs
(c_tests/vulkan/driver_graphs.c) and reads registers, spills, scratch memory and occupancy from the driver.
c_tests/vulkan/drivers.json has the figures, docs/DRIVERS.md shows them. A figure that is worse than there is a failure.
`write` writes both. `quick` checks a few drivers and the models' pipelines only.

CACHE/mesa-sid and CACHE/spirv-tools are folders of scripts/fetch_mesa.py, CACHE/intel-shim that of
scripts/fetch_intel_shim.py (without it, Intel's drivers are not tested), PREFIX the folder of the installed library.
The last line counts the checks.
"""
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import zlib

sys.dont_write_bytecode = True
from checks import Checks
from drivers_report import render
from fetch_mesa import LIBRARIES
from processes import ROOT, compiled, layer
import spirv_packs

DATA = os.path.join(ROOT, "c_tests/vulkan/drivers.json")
DOCUMENT = os.path.join(ROOT, "docs/DRIVERS.md")
with open(os.path.join(ROOT, "c_tests/vulkan/drivers.toml"), "rb") as settings:
    DRIVERS, WORDS = tomllib.load(settings).values()
# A driver with memory that is not cached beside memory that is; it also gets the other limits.
LIMITED = "RADV navi31"
# Modules that the translator to Metal's language refuses: sizes of cooperative matrices are specialization constants.
NOT_FOR_METAL = ("flash_attn_coop.", "flash_attn_tensor.", "mul_mat_coop.", "mul_mat_tensor.")
LAYER = "VK_LAYER_ggml_rs_driver"
# Seconds for a run, of which the longest takes a minute on a machine that has other work.
TIMEOUT = 600


def build(prefix, out):
    """The layer and the program that computes the graphs."""
    layer(out, "driver_layer")
    compiled(f"{out}/driver_graphs", "vulkan/driver_graphs.c", f"-L{prefix}/lib", "-lggml", "-lggml-cpu", "-lggml-base", "-lm", "-ldl")


def statistics(executables):
    """The figures of a pipeline under our names. If there are several executables (widths that the driver chooses
    from), the worst of each."""
    figures = {}
    for name, words in WORDS.items():
        values = [sum(e[w] for w in words if w in e) for e in executables if any(w in e for w in words)]
        if values:
            figures[name] = (min if name == "occupancy" else max)(values)
    # Width of the subgroups: what full occupancy is depends on it.
    figures["width"] = min((e["width"] for e in executables), default=0)
    return figures


def relative(pipelines, full):
    """Writes occupancy in percent of the most that a driver reports for subgroups of this width, in `full` or in these
    pipelines."""
    for _, f in pipelines.values():
        full[str(f["width"])] = max(full.get(str(f["width"]), 0), f.get("occupancy", 0))
    for _, f in pipelines.values():
        if f.get("occupancy"):
            f["occupancy"] = 100 * f["occupancy"] // full[str(f["width"])]


class Driver:
    """A driver's report on the models and on all formats."""

    def __init__(self, name, mesa, shim, out, prefix, names):
        self.name, self.names = name, names
        self.environment = dict(os.environ, MESA_DRIVER=DRIVERS[name]["driver"], MESA_SHIM=shim, VK_LAYER_PATH=out,
                                VK_INSTANCE_LAYERS=LAYER, DRIVER_LAYER=os.path.join(out, "libdriver_layer.so"), GGML_VK_PIPELINE_CACHE_DIR="",
                                MESA_SHADER_CACHE_DISABLE="1", LD_LIBRARY_PATH=os.path.join(prefix, "lib"),
                                # A graph that is kept has fewer dispatches the next time, or none.
                                GGML_RS_DEBUG="vk-graphs=record", **DRIVERS[name]["card"])
        self.environment.pop("GGML_VK_VISIBLE_DEVICES", None)
        self.run, self.program = os.path.join(mesa, "run"), os.path.join(out, "driver_graphs")
        self.device = self.why = ""

    def start(self, *arguments):
        """Pipelines and graphs of a run. Sets `why` if it failed."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report")
            try:
                r = subprocess.run([self.run, self.program, *arguments], env=dict(self.environment, DRIVER_LAYER_REPORT=report), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace", timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                self.why = f"no end after {TIMEOUT} seconds"
                return {}, []
            lines = [json.loads(line) for line in open(report, encoding="utf-8")] if os.path.exists(report) else []
        if r.returncode != 0:
            self.why = f"status {r.returncode}: " + " | ".join(r.stderr.strip().splitlines()[-2:])[-300:]
        self.device = next((line[8:] for line in r.stdout.splitlines() if line.startswith("device: ")), self.device)
        pipelines = {}
        for line in lines:
            if "pipeline" in line:
                if line["module"] not in self.names:
                    self.why = f"the library has a module of {line['module'].split('-')[0]} bytes that src/vulkan/spirv has not: it was built from other shaders"
                pipelines[line["pipeline"]] = (self.names.get(line["module"], "?"), statistics(line["executables"]))
        return pipelines, [line for line in lines if "graph" in line and line["graph"] not in ("before", "end")]

    def limited(self, limits):
        """Whether a device with less than the driver reports computes the models."""
        self.environment["DRIVER_LAYER_LIMITS"] = limits
        _, graphs = self.start()
        del self.environment["DRIVER_LAYER_LIMITS"]
        return bool(graphs)

    def models(self, full):
        """Figures of the graphs and of the pipelines that they use."""
        pipelines, graphs = self.start()
        relative(pipelines, full)
        counts, uses, hot = {}, {}, {}
        for g in graphs:
            name, layers = g["graph"].rsplit(" ", 1)
            counts.setdefault(name, {})[int(layers)] = g
            for number, *_ in g["used"]:
                uses.setdefault(pipelines[number][0], set()).add(name)
                worse(hot, *pipelines[number])
        layers = {name: {k: by[3][k] - by[2][k] for k in ("dispatches", "barriers")} for name, by in counts.items() if set(by) == {2, 3}}
        return layers, {shader: dict(figures, used=sorted(uses[shader])) for shader, figures in sorted(hot.items())}

    def formats(self, full):
        """A summary of every pipeline of products, copies, rows and attention in every format."""
        pipelines, _ = self.start("all")
        if any(shader.startswith("mul_mat_coop") for shader, _ in pipelines.values()):
            # What such a card does without its matrices.
            self.environment["GGML_VK_DISABLE_COOPMAT"] = "1"
            others, _ = self.start("all")
            del self.environment["GGML_VK_DISABLE_COOPMAT"]
            tiles = [p for p in others.values() if p[0].startswith("mul_mat_tile")]
            pipelines = dict(enumerate([p for p in pipelines.values() if not p[0].startswith("mul_mat_tile")] + tiles))
        relative(pipelines, full)
        bad = {}
        for shader, figures in pipelines.values():
            if figures.get("spills", 0) or figures.get("scratch", 0):
                worse(bad, shader, figures)
        return {"pipelines": len(pipelines), "half": len({shader for shader, f in pipelines.values() if f.get("occupancy", 100) < 50}),
                "spilling": {shader: [f.get("spills", 0), f.get("scratch", 0)] for shader, f in sorted(bad.items())}}


def worse(table, shader, figures):
    """Joins two pipelines of a shader: the worst of each figure."""
    old = table.setdefault(shader, dict(figures))
    for key, value in figures.items():
        old[key] = min(old.get(key, value), value) if key in ("occupancy", "width") else max(old.get(key, value), value)


def compare(c, name, new, old, same_compiler):
    """Whether a driver's figures are no worse than the committed ones."""
    if not c.check(old is not None, f"{name} is in the table", "" if old else "make test-drivers DRIVERS=write"):
        return
    for graph, counts in new["layers"].items():
        was = old["layers"].get(graph, {})
        more = [f"{counts[k]} {k} a layer, {was.get(k, 'none')} in the table" for k in counts if counts[k] > was.get(k, -1)]
        c.check(not more, f"{name}, {graph}: {counts['dispatches']} dispatches and {counts['barriers']} barriers a layer", "; ".join(more))
    faults = []
    for shader, f in new["hot"].items():
        was = old["hot"].get(shader, {})
        for what in ("spills", "scratch"):
            if f.get(what, 0) > was.get(what, 0):
                faults.append(f"{shader}: {f[what]} {what}, {was.get(what, 0)} in the table")
        # Another version of the driver may have another compiler.
        if same_compiler and f.get("occupancy", 0) < was.get("occupancy", 0):
            faults.append(f"{shader}: {f['occupancy']}% occupancy, {was['occupancy']}% in the table")
    c.check(not faults, f"{name}: {len(new['hot'])} shaders of the models neither spill nor lose occupancy", "; ".join(faults[:8]))
    if "formats" in new and "formats" in old:
        spilling = {s for s, n in new["formats"]["spilling"].items() if n > old["formats"]["spilling"].get(s, [0, 0])}
        c.check(not spilling, f"{name}: {new['formats']['pipelines']} pipelines of all formats spill no more than in the table", " ".join(sorted(spilling)[:8]))


def check_modules(c, found, folder):
    """Every module by the validator, and by the translator to Metal's language. `folder`: SPIR-V's tools."""
    start = [os.path.join(folder, "run"), os.path.join(folder, "root/usr/bin/")]
    tools = {"spirv-val": lambda name: ["--scalar-block-layout", "--target-env", "vulkan1.3" if name.startswith(("mul_mat_tensor", "flash_attn_tensor")) else "vulkan1.2"],
             "spirv-cross": lambda name: ["--msl", "--msl-version", "30100"]}
    with tempfile.TemporaryDirectory() as work:
        for name, words in found.items():
            with open(os.path.join(work, name), "wb") as f:
                f.write(words)
        for tool, options in tools.items():
            refused = {}
            for name in found:
                r = subprocess.run([start[0], start[1] + tool, *options(name), os.path.join(work, name)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, errors="replace")
                if r.returncode != 0:
                    refused[name] = " ".join(r.stderr.split())[:200]
            expected = [name for name in refused if tool == "spirv-cross" and name.startswith(NOT_FOR_METAL)]
            wrong = [f"{name}: {why}" for name, why in refused.items() if name not in expected]
            c.check(not wrong, f"{tool}: {len(found) - len(refused)} of {len(found)} modules, {len(expected)} refused as expected", "; ".join(wrong[:4]))


def mesa_version(mesa):
    with open(os.path.join(mesa, "version"), encoding="utf-8") as f:
        return f.read().strip()


def main():
    if len(sys.argv) < 4 or sys.argv[3] not in ("quick", "all", "write") or set(sys.argv[4:]) - {n.split()[1] for n in DRIVERS}:
        sys.exit(__doc__.strip() + "\n\ndrivers and cards: " + ", ".join(DRIVERS))
    cache, prefix, extent = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    mesa, intel, tools = (os.path.join(cache, folder) for folder in ("mesa-sid", "intel-shim", "spirv-tools"))
    out = os.path.join(ROOT, "target/drivers")
    c, found = Checks("drivers"), spirv_packs.modules(ROOT)
    check_modules(c, found, tools)
    build(prefix, out)
    names = {f"{len(words)}-{zlib.crc32(words):08x}": name for name, words in found.items()}
    data = json.load(open(DATA, encoding="utf-8")) if os.path.exists(DATA) else {"mesa": "", "drivers": {}}
    version = mesa_version(mesa)
    if version != data["mesa"] and extent != "write":
        print(f"note: Mesa {version}; the table is of {data['mesa']}, so occupancy is not compared")
    named = [n for n in DRIVERS if n.split()[1] in sys.argv[4:]]
    for name in named or [n for n, d in DRIVERS.items() if extent != "quick" or d.get("quick")]:
        kernel = DRIVERS[name]["shim"]
        shim = os.path.join(intel if kernel == "intel" else os.path.join(mesa, "root", LIBRARIES), f"lib{kernel}_noop_drm_shim.so")
        if not os.path.exists(shim):
            c.skip(f"{name}: there is no {shim}")
            continue
        driver = Driver(name, mesa, shim, out, prefix, names)
        full = dict(data["drivers"].get(name, {}).get("full", {}))
        formats = driver.formats(full) if extent != "quick" else None
        layers, hot = driver.models(full)
        if driver.name == LIMITED:
            c.check(driver.limited("non-coherent") and not driver.why, f"{name} with cached memory that is not coherent", driver.why)
            # A wait that has ended shows that the work is done. A loop that reads the value again would never end.
            c.check(driver.limited("late") and not driver.why, f"{name} whose semaphores say their values late", driver.why)
        new = {"device": driver.device, "full": full, "layers": layers, "hot": hot}
        if formats:
            new["formats"] = formats
        if not c.check(not driver.why and layers and hot, f"{name} ({driver.device}) compiles and records the models", driver.why):
            continue
        if extent == "write":
            data["mesa"] = version
            data["drivers"][name] = new
        else:
            compare(c, name, new, data["drivers"].get(name), version == data["mesa"])
    if extent == "write":
        data["drivers"] = {n: data["drivers"][n] for n in DRIVERS if n in data["drivers"]}
        with open(DATA, "w", encoding="utf-8") as f:
            f.write(compact(data))
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(render(data))
    else:
        c.check(os.path.exists(DOCUMENT) and open(DOCUMENT, encoding="utf-8").read() == render(data), "docs/DRIVERS.md shows c_tests/vulkan/drivers.json")
    sys.exit(c.finish())


def compact(data):
    """JSON with a line for each shader."""
    lines = ["{", f' "mesa": {json.dumps(data["mesa"])},', ' "drivers": {']
    for i, (name, d) in enumerate(data["drivers"].items()):
        lines += [f"  {json.dumps(name)}: {{", f'   "device": {json.dumps(d["device"])},', f'   "full": {json.dumps(d["full"])},', '   "layers": {']
        lines.append(",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in d["layers"].items()))
        lines += ["   },", '   "hot": {', ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in d["hot"].items()), "   },"]
        lines += [f'   "formats": {json.dumps(d["formats"])}', "  }" + ("," if i + 1 < len(data["drivers"]) else "")]
    return "\n".join(lines + [" }", "}"]) + "\n"


if __name__ == "__main__":
    main()
