"""Programs of c_tests on a Vulkan device of this library, for test_vulkan.py: computations, two devices, pipeline
caches, calls that fail, reports."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import vulkan_driver
from processes import ROOT, compiled, layer

OUT = f"{ROOT}/target/vulkan"
# A cache of this tree alone, so that a first and a second start can be distinguished.
CACHE = f"{OUT}/pipelines"
TEST = f"{OUT}/test_vulkan"


def host(t, source, *flags):
    """Compiles a program, under the name of its source."""
    lib = t.libs["ours"]
    return compiled(f"{OUT}/{os.path.basename(source)[:-2]}", source, f"-I{ROOT}/c_tests/common", f"-L{lib}", *flags, "-lggml-base", f"-Wl,-rpath,{lib}",
                    "-lm", "-lpthread", "-ldl")


def run(*command, **variables):
    """A program that ends: its status, and what it says."""
    environment = dict(os.environ, GGML_VK_PIPELINE_CACHE_DIR=CACHE) | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")


def debug(setting):
    """GGML_RS_DEBUG with a setting more, which comes before those that there are (`prepare`)."""
    return ",".join(filter(None, (setting, os.environ.get("GGML_RS_DEBUG"))))


def counted(t, name, *command, **variables):
    """A program that prints PASS and FAIL, and a last line."""
    r = run(*command, **variables)
    for line in r.stdout.splitlines():
        if line.startswith(("PASS ", "FAIL ")):
            t.check(line.startswith("PASS "), f"{name}: {line[5:]}")
        elif line.startswith("note |"):
            print(line)
    if not re.search(r"^\d+ passed, \d+ failed$", r.stdout, re.M):
        said = r.stderr.strip().splitlines()
        t.check(False, name, f"ended with status {r.returncode}: {next((l for l in said if 'validation' in l), '')[:600]} {' '.join(said[-1:])[:200]}")


def prepare(t):
    """Finds the driver, and turns on the validation layers if there are any: the library says so when they are on."""
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    host(t, "vulkan/test_vulkan.c", "-lggml", "-lggml-vulkan")
    r = run(TEST, "none")
    if not t.check(r.returncode == 0, "a Vulkan driver", r.stderr[-300:] if r.returncode else ""):
        return False
    t.driver = re.search(r"^ggml_vulkan: 0 = (.*)", r.stderr, re.M)[1]
    print(f"note: {t.driver}")
    validated = "validation layers are enabled" in run(TEST, "none", GGML_RS_DEBUG="vk-validation=log").stderr
    os.environ["GGML_RS_DEBUG"] = "vk-validation=abort" if validated else ""
    if not validated:
        print("note: no validation layers (the package vulkan-validationlayers): their messages are not checked")
        t.check(not os.environ.get("GGML_TEST_VULKAN"), "validation layers are there, or not needed")
    for name in ("cache_layer", "fault_layer"):
        layer(t.layer, name)
    return True


def twice():
    """A driver in software, loaded under two names: variables for programs; nothing where there is none."""
    library = vulkan_driver.library()
    if not library:
        return {}
    drivers = []
    for i in (0, 1):
        shutil.copy(library, f"{OUT}/driver{i}.so")
        drivers.append(f"{OUT}/driver{i}.json")
        Path(drivers[i]).write_text(json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": f"{OUT}/driver{i}.so", "api_version": "1.3.0"}}))
    return {"VK_DRIVER_FILES": ":".join(drivers), "VK_ICD_FILENAMES": ":".join(drivers), "GGML_VK_VISIBLE_DEVICES": "0,1"}


def computations(t, two):
    """Every call, whole networks, experts in a cache, and two devices that copy to each other."""
    nets, staged = host(t, "vulkan/test_nets.c", "-lggml", "-lggml-vulkan", "-lggml-cpu"), {"GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM": "1"}
    shutil.rmtree(CACHE, ignore_errors=True)
    counted(t, "test_vulkan", TEST)
    counted(t, "test_vulkan staged", TEST, **staged)
    counted(t, "test_nets", nets)
    counted(t, "test_nets card", nets, GGML_RS_DEBUG=debug("vk-device=card"))
    experts = host(t, "card/test_experts.c", "-lggml", "-lggml-cpu")
    counted(t, "test_experts", experts, "Vulkan0", GGML_SCHED_SANITIZE="1")
    counted(t, "test_experts for a while", experts, "Vulkan0", "soak", "10")
    if not two:
        print("note: no software driver to load twice: two devices are not tested")
        # A machine with a card need not have one.
        t.check(not os.environ.get("GGML_TEST_VULKAN") or not t.driver.startswith("llvmpipe"), "two devices, or no driver in software")
        return
    copies, meta = host(t, "vulkan/test_two.c", "-lggml"), host(t, "meta/test_meta.c", "-DGGML_RS", "-lggml", "-lggml-cpu")
    counted(t, "test_two", copies, **two)
    counted(t, "test_two staged", copies, **two, **staged)
    for name, devices in (("two", "Vulkan0 Vulkan1"), ("one", "Vulkan0"), ("mixed", "Vulkan0 Vulkan1 CPU")):
        counted(t, f"test_meta {name}", meta, *devices.split(), **two)


def compilations(said):
    """How many pipelines were made, and how many of them were compiled."""
    found = re.findall(r"(\d+) pipelines made in \d+ ms, (\d+) of them compiled", said)
    return sum(int(made) for made, _ in found), sum(int(compiled) for _, compiled in found)


class CacheLayer:
    """A layer that gives any driver a cache, reports to the library which pipelines were there, and counts by itself
    what was compiled, in a process with these variables."""

    def __init__(self, layer, cache):
        self.file = Path(f"{cache}.report")
        self.file.unlink(missing_ok=True) # the layer adds to it
        self.variables = {"VK_LAYER_PATH": layer, "VK_INSTANCE_LAYERS": "VK_LAYER_ggml_rs_cache", "GGML_VK_PIPELINE_CACHE_DIR": cache,
                          "CACHE_LAYER_REPORT": str(self.file)}

    def report(self):
        return self.file.read_text().strip() if self.file.exists() else "no report"


def starts(t):
    """A second start compiles nothing: with the driver's cache, if it has one, and with that of a layer. Caches that
    are damaged, another driver's or not the user's own are not used, and written again."""
    made, compiled = compilations(run(TEST).stderr)
    kept = sum(map(os.path.getsize, glob.glob(f"{CACHE}/*.bin")))
    t.check(kept, "a pipeline cache on disk")
    if 0 < kept < 100: # the header alone
        print(f"note: this driver keeps no pipelines ({kept} bytes of cache): a layer keeps them for it")
    else:
        t.check(made and not compiled, "a second start compiles no pipeline", f"{compiled} of {made} compiled")
    cache = f"{OUT}/layered"
    shutil.rmtree(cache, ignore_errors=True)

    def start(what, expected, says="", **variables):
        layer = CacheLayer(t.layer, cache)
        r = run(TEST, **layer.variables, **variables)
        made, compiled = compilations(r.stderr)
        # The layer refuses what is not this driver's: the library must not have handed it over.
        good = expected in (None, compiled) and layer.report() == f"compiled {compiled}, found {made - compiled}, refused 0"
        t.check(r.returncode == 0 and good and says in r.stderr, what, f"{compiled} compiled; the layer: {layer.report()}")
        return compiled

    first = start("a first start with a cache that keeps pipelines", None)
    t.check(first > 0, "a first start compiles")
    start("a second start", 0)
    mine, = Path(cache).rglob("*.bin")
    whole = mine.read_bytes()
    for what, harm, says in (("half a file", lambda: os.truncate(mine, len(whole) // 2), "is damaged and not used"),
                             ("a file that has other bytes", lambda: mine.write_bytes(whole[:20] + b"not a cache" + whole[31:]), "is damaged and not used"),
                             ("a file that others may write", lambda: mine.chmod(mine.stat().st_mode | 2), "others may write")):
        harm()
        start(f"a start with {what}", first, says)
        start("the start after it", 0)
    start("a start with another version of the driver", first, CACHE_LAYER_DRIVER="7")
    theirs = [path for path in Path(cache).rglob("*.bin") if path != mine]
    if t.check(len(theirs) == 1, "each version of the driver has a file"):
        theirs[0].write_bytes(whole)
        start("a start with another driver's file under this one's name", first, CACHE_LAYER_DRIVER="7")
        start("the start after it", 0, CACHE_LAYER_DRIVER="7")
    start("the first driver again", 0)


def faults(t, two, every):
    """Each call of Vulkan fails once: with copies through staging memory, with mapped memory, and while steps are
    timed. Mesa's layer that sorts devices (NODEVICE_SELECT) crashes if a query fails under it, before this library gets
    the result."""
    program, layer_file = host(t, "vulkan/test_faults.c", "-lggml", "-lggml-cpu"), f"{t.layer}/libfault_layer.so"
    layered = {"VK_LAYER_PATH": t.layer, "VK_INSTANCE_LAYERS": "VK_LAYER_ggml_rs_faults", "NODEVICE_SELECT": "1", "GGML_VK_PIPELINE_CACHE_DIR": f"{OUT}/faults"}

    def fails(name, devices, stride, **variables):
        counted(t, f"test_faults {name}", program, layer_file, str(devices), str(stride), **layered, **variables)

    fails("staged", 1, 1, GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM="1")
    fails("direct", 1, 1)
    fails("timed", 1, 1, GGML_VK_PERF_LOGGER="1")
    if two: # between two devices, every third call
        fails("two", 2, 1 if every else 3, **two)
    # Experts in a cache: their uploads have a stream of their own, and memory that can be given up.
    counted(t, "test_experts faults", f"{OUT}/test_experts", "Vulkan0", "faults", layer_file, "1" if every else "13", **layered)


def caches(t):
    """Processes that start at once leave one complete file."""
    shutil.rmtree(CACHE)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        ended = [*pool.map(run, [TEST] * 3, ["a_graph_is_computed"] * 3), run(TEST, "a_graph_is_computed")]
    files = glob.glob(f"{CACHE}/*")
    t.check(len(files) == 1 and not any(r.returncode or "is damaged" in r.stderr for r in ended), "three processes at once share a pipeline cache",
            f"{len(files)} files")


def reports(t):
    """The table of times, and the same times in the trace; no Vulkan is no failure."""
    said = run(TEST, "a_graph_is_computed", GGML_VK_PERF_LOGGER="1").stderr
    t.check(re.search(r"^(SCALE|ADD|.*\+ ADD) f32 .*us.*GB/s", said, re.M), "GGML_VK_PERF_LOGGER prints times per op")
    trace = f"{OUT}/trace.json"
    run(TEST, "a_graph_is_computed", GGML_TRACE=trace)
    events = json.loads(Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    nodes = [e for e in events if e.get("cat") == "node" and e.get("dur", 0) > 0 and ("SCALE" in e["name"] or "ADD" in e["name"])]
    t.check(nodes, "the trace has the device's nodes", f"{len(nodes)} nodes")
    t.check(run(TEST, "none", GGML_DISABLE_VULKAN="1").returncode != 0, "GGML_DISABLE_VULKAN takes the devices away")


def programs(t, every=False):
    two = twice()
    computations(t, two)
    starts(t)
    faults(t, two, every)
    caches(t)
    reports(t)
