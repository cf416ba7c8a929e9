#!/usr/bin/env python3
"""What the drivers of graphics cards make of the Vulkan backend, without a card: the suite `drivers`.

usage: test_drivers.py CACHE PREFIX quick|all|write [CARD ...]

Mesa's drivers run on no-op kernel devices (its drm-shim): they compile every pipeline for a card and record every
command, and compute nothing. A layer (c_tests/vulkan/driver_layer.c) counts dispatches and barriers of a llama's graphs
(c_tests/vulkan/driver_graphs.c) and reads registers, spills, scratch memory and occupancy from the driver.
c_tests/vulkan/drivers.json has the figures, docs/DRIVERS.md shows them (`make status`). A figure that is worse than
there is a failure. `write` writes them. `quick` checks a few drivers and the models' pipelines only.

CACHE/mesa-sid, CACHE/spirv-tools and CACHE/intel-shim are folders of scripts/fetch_mesa.py (without the last, Intel's
drivers are not tested), PREFIX the folder of the installed library. The last line counts the checks.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path

import processes
from checks import Checks
from fetch_mesa import LIBRARIES

ROOT = Path(processes.ROOT)
OUT = ROOT / "target/drivers"
DATA = ROOT / "c_tests/vulkan/drivers.json"
DRIVERS, WORDS, LIMITS, MODULES = tomllib.loads((ROOT / "c_tests/vulkan/drivers.toml").read_text(encoding="utf-8")).values()
# Seconds for a run, of which the longest takes a minute on a machine that has other work.
TIMEOUT = 600


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
    for _, f in pipelines:
        full[str(f["width"])] = max(full.get(str(f["width"]), 0), f.get("occupancy", 0))
    for _, f in pipelines:
        if f.get("occupancy"):
            f["occupancy"] = 100 * f["occupancy"] // full[str(f["width"])]


def worse(table, shader, figures):
    """Joins two pipelines of a shader: the worst of each figure."""
    old = table.setdefault(shader, dict(figures))
    for key, value in figures.items():
        old[key] = (min if key in ("occupancy", "width") else max)(old.get(key, value), value)


class Driver:
    """A driver's report on the models and on all formats."""

    def __init__(self, name, mesa, shim, prefix, names):
        self.names, self.run = names, mesa / "run"
        self.environment = dict(os.environ, MESA_DRIVER=DRIVERS[name]["driver"], MESA_SHIM=shim, VK_LAYER_PATH=OUT,
                                VK_INSTANCE_LAYERS="VK_LAYER_ggml_rs_driver", DRIVER_LAYER=OUT / "libdriver_layer.so", GGML_VK_PIPELINE_CACHE_DIR="",
                                MESA_SHADER_CACHE_DISABLE="1", LD_LIBRARY_PATH=prefix / "lib",
                                # A graph that is kept has fewer dispatches the next time, or none.
                                GGML_RS_DEBUG="vk-graphs=record", **DRIVERS[name]["card"])
        self.environment.pop("GGML_VK_VISIBLE_DEVICES", None)
        self.device = self.why = ""

    def start(self, *arguments, **variables):
        """Pipelines and graphs of a run. Sets `why` if it failed."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report")
            try:
                r = subprocess.run([self.run, OUT / "driver_graphs", *arguments], env=dict(self.environment, DRIVER_LAYER_REPORT=report) | variables,
                                   capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                self.why = f"no end after {TIMEOUT} seconds"
                return {}, []
            lines = list(map(json.loads, report.read_text(encoding="utf-8").splitlines())) if report.exists() else []
        if r.returncode != 0:
            self.why = f"status {r.returncode}: " + " | ".join(r.stderr.strip().splitlines()[-2:])[-300:]
        self.device = next((line[8:] for line in r.stdout.splitlines() if line.startswith("device: ")), self.device)
        made = [line for line in lines if "pipeline" in line]
        for line in made:
            if line["module"] not in self.names:
                self.why = f"the library has a module of {line['module'].split('-')[0]} bytes that these sources have not: it was built from other shaders"
        pipelines = {line["pipeline"]: (self.names.get(line["module"], "?"), statistics(line["executables"])) for line in made}
        return pipelines, [line for line in lines if line.get("graph", "end") not in ("before", "end")]

    def models(self, full):
        """Figures of the graphs and of the pipelines that they use."""
        pipelines, graphs = self.start()
        relative(pipelines.values(), full)
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
        def is_tile(pipeline):
            return pipeline[0].startswith("mul_mat_tile")

        pipelines = list(self.start("all")[0].values())
        if any(shader.startswith("mul_mat_coop") for shader, _ in pipelines):
            # What such a card does without its matrices.
            others = self.start("all", GGML_VK_DISABLE_COOPMAT="1")[0].values()
            pipelines = [p for p in pipelines if not is_tile(p)] + list(filter(is_tile, others))
        relative(pipelines, full)
        bad = {}
        for shader, figures in pipelines:
            if figures.get("spills", 0) or figures.get("scratch", 0):
                worse(bad, shader, figures)
        return {"pipelines": len(pipelines), "half": len({shader for shader, f in pipelines if f.get("occupancy", 100) < 50}),
                "spilling": {shader: [f.get("spills", 0), f.get("scratch", 0)] for shader, f in sorted(bad.items())}}


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
        faults += [f"{shader}: {f[what]} {what}, {was.get(what, 0)} in the table" for what in ("spills", "scratch") if f.get(what, 0) > was.get(what, 0)]
        # Another version of the driver may have another compiler.
        if same_compiler and f.get("occupancy", 0) < was.get("occupancy", 0):
            faults.append(f"{shader}: {f['occupancy']}% occupancy, {was['occupancy']}% in the table")
    c.check(not faults, f"{name}: {len(new['hot'])} shaders of the models neither spill nor lose occupancy", "; ".join(faults[:8]))
    if "formats" in new and "formats" in old:
        spilling = {s for s, n in new["formats"]["spilling"].items() if n > old["formats"]["spilling"].get(s, [0, 0])}
        c.check(not spilling, f"{name}: {new['formats']['pipelines']} pipelines of all formats spill no more than in the table", " ".join(sorted(spilling)[:8]))


def check_modules(c, tools):
    """Every module by the validator, and by the translator to Metal's language. Returns their names by length and
    checksum, as the layer reports them."""
    folder = OUT / "modules"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([os.environ.get("CARGO") or "cargo", "run", "--quiet", "--profile", "tools", "--features", "internals", "--example", "spirv", "--", folder],
                   cwd=ROOT, check=True)
    modules = sorted(folder.iterdir())
    for tool, options in (("spirv-val", ["--scalar-block-layout", "--target-env"]), ("spirv-cross", ["--msl", "--msl-version", "30100"])):
        refused = {}
        for module in modules:
            target = ["vulkan1.3" if module.name.startswith(tuple(MODULES["newer"])) else "vulkan1.2"] if tool == "spirv-val" else []
            r = subprocess.run([tools / "run", tools / "root/usr/bin" / tool, *options, *target, module], capture_output=True, text=True, errors="replace")
            if r.returncode != 0:
                refused[module.name] = " ".join(r.stderr.split())[:200]
        wrong = [f"{name}: {why}" for name, why in refused.items() if tool == "spirv-val" or not name.startswith(tuple(MODULES["not_for_metal"]))]
        c.check(modules and not wrong, f"{tool}: {len(modules) - len(refused)} of {len(modules)} modules, {len(refused) - len(wrong)} refused as expected",
                "; ".join(wrong[:4]))
    return {f"{len(words)}-{zlib.crc32(words):08x}": m.name for m, words in ((m, m.read_bytes()) for m in modules)}


def compact(value, margin=""):
    """JSON with a line for each table that has no other in it."""
    if not isinstance(value, dict) or not any(isinstance(v, dict) for v in value.values()):
        return json.dumps(value)
    lines = [f"{margin} {json.dumps(k)}: {compact(v, margin + ' ')}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def main():
    if len(sys.argv) < 4 or sys.argv[3] not in ("quick", "all", "write") or set(sys.argv[4:]) - {n.split()[1] for n in DRIVERS}:
        sys.exit(__doc__.strip() + "\n\ndrivers and cards: " + ", ".join(DRIVERS))
    cache, prefix, extent = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), sys.argv[3]
    c, mesa = Checks("drivers"), cache / "mesa-sid"
    names = check_modules(c, cache / "spirv-tools")
    processes.layer(OUT, "driver_layer")
    processes.compiled(OUT / "driver_graphs", "vulkan/driver_graphs.c", f"-L{prefix}/lib", "-lggml", "-lggml-cpu", "-lggml-base", "-lm", "-ldl")
    data, version = json.loads(DATA.read_text(encoding="utf-8")), (mesa / "version").read_text(encoding="utf-8").strip()
    if version != data["mesa"] and extent != "write":
        print(f"note: Mesa {version}; the table is of {data['mesa']}, so occupancy is not compared")
    named = [n for n in DRIVERS if n.split()[1] in sys.argv[4:]]
    for name in named or [n for n, d in DRIVERS.items() if extent != "quick" or d.get("quick")]:
        kernel = DRIVERS[name]["shim"]
        shim = (cache / "intel-shim" if kernel == "intel" else mesa / "root" / LIBRARIES) / f"lib{kernel}_noop_drm_shim.so"
        if not shim.exists():
            c.skip(f"{name}: there is no {shim}")
            continue
        driver = Driver(name, mesa, shim, prefix, names)
        new = {"full": dict(data["drivers"].get(name, {}).get("full", {}))}
        if extent != "quick":
            new["formats"] = driver.formats(new["full"])
        new["layers"], new["hot"] = driver.models(new["full"])
        for limits, what in LIMITS.items() if DRIVERS[name].get("limits") else ():
            _, graphs = driver.start(DRIVER_LAYER_LIMITS=limits)
            c.check(graphs and not driver.why, f"{name} {what}", driver.why)
        new["device"] = driver.device
        if not c.check(not driver.why and new["layers"] and new["hot"], f"{name} ({driver.device}) compiles and records the models", driver.why):
            continue
        if extent == "write":
            data["mesa"] = version
            data["drivers"][name] = {key: new[key] for key in ("device", "full", "layers", "hot", "formats")}
        else:
            compare(c, name, new, data["drivers"].get(name), version == data["mesa"])
    if extent == "write":
        data["drivers"] = {n: data["drivers"][n] for n in DRIVERS if n in data["drivers"]}
        DATA.write_text(compact(data) + "\n", encoding="utf-8")
        subprocess.run(["make", "-s", "status"], cwd=ROOT, check=True)
    sys.exit(c.finish())


if __name__ == "__main__":
    main()
