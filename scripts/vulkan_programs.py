"""Programs of c_tests on a Vulkan device of this library, for test_vulkan.py: computations, two devices, pipeline
caches, calls that fail, reports."""
import glob
import json
import os
import re
import shutil
import subprocess

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
    """A program that ends. What it says goes to files, too."""
    environment = dict(os.environ, GGML_VK_PIPELINE_CACHE_DIR=CACHE) | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")


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
    """Finds the driver, and whether there are validation layers: the library says so when they are on."""
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    host(t, "vulkan/test_vulkan.c", "-lggml", "-lggml-vulkan")
    r = run(TEST, "none")
    if not t.check(r.returncode == 0, "a Vulkan driver", r.stderr[-300:] if r.returncode else ""):
        return False
    t.driver = re.search(r"^ggml_vulkan: 0 = (.*)", r.stderr, re.M)[1]
    print(f"note: {t.driver}")
    t.validate = "abort" if "validation layers are enabled" in run(TEST, "none", GGML_VK_VALIDATE="1").stderr else "0"
    if t.validate == "0":
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
        with open(drivers[i], "w", encoding="utf-8") as f:
            json.dump({"file_format_version": "1.0.0", "ICD": {"library_path": f"{OUT}/driver{i}.so", "api_version": "1.3.0"}}, f)
    return {"VK_DRIVER_FILES": ":".join(drivers), "VK_ICD_FILENAMES": ":".join(drivers), "GGML_VK_VISIBLE_DEVICES": "0,1"}


def computations(t, two):
    """Every call, whole networks, and two devices that copy to each other."""
    nets, validate = host(t, "vulkan/test_nets.c", "-lggml", "-lggml-vulkan", "-lggml-cpu"), {"GGML_VK_VALIDATE": t.validate}
    staged = {"GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM": "1"}
    shutil.rmtree(CACHE, ignore_errors=True)
    counted(t, "test_vulkan", TEST, **validate)
    counted(t, "test_vulkan staged", TEST, **validate, **staged)
    counted(t, "test_nets", nets, **validate)
    counted(t, "test_nets card", nets, **validate, GGML_RS_DEBUG="vk-device=card")
    if not two:
        print("note: no software driver to load twice: two devices are not tested")
        # A machine with a card need not have one.
        t.check(not os.environ.get("GGML_TEST_VULKAN") or not t.driver.startswith("llvmpipe"), "two devices, or no driver in software")
        return
    copies, meta = host(t, "vulkan/test_two.c", "-lggml"), host(t, "meta/test_meta.c", "-DGGML_RS", "-lggml", "-lggml-cpu")
    counted(t, "test_two", copies, **two, **validate)
    counted(t, "test_two staged", copies, **two, **validate, **staged)
    for name, devices in (("two", "Vulkan0 Vulkan1"), ("one", "Vulkan0"), ("mixed", "Vulkan0 Vulkan1 CPU")):
        counted(t, f"test_meta {name}", meta, *devices.split(), **two, **validate)


def compilations(said):
    """How many pipelines were compiled, of how many batches."""
    found = re.findall(r"pipelines made in .* ms, (\d+) of them compiled", said)
    return sum(map(int, found)), len(found)


def starts(t):
    """A second start compiles nothing: with the driver's cache, if it has one, and with that of a layer that gives any
    driver one, reports to the library which pipelines were there, and counts by itself what was compiled."""
    made, batches = compilations(run(TEST).stderr)
    kept = sum(map(os.path.getsize, glob.glob(f"{CACHE}/*.bin")))
    if 0 < kept < 100: # the header alone
        print(f"note: this driver keeps no pipelines ({kept} bytes of cache): a layer keeps them for it")
    else:
        t.check(batches and not made, "a second start compiles no pipeline", f"{made} compiled in {batches} batches")
    cache, report = f"{OUT}/layered", f"{OUT}/layer.report"
    shutil.rmtree(cache, ignore_errors=True)

    def start(what, expected, says="", **variables):
        if os.path.exists(report): # the layer adds to it
            os.remove(report)
        r = run(TEST, VK_LAYER_PATH=t.layer, VK_INSTANCE_LAYERS="VK_LAYER_ggml_rs_cache", GGML_VK_PIPELINE_CACHE_DIR=cache, CACHE_LAYER_REPORT=report, **variables)
        made, _ = compilations(r.stderr)
        with open(report, encoding="utf-8") as f:
            seen = f.read().strip()
        # The layer refuses what is not this driver's: the library must not have handed it over.
        good = made == (made if expected is None else expected) and seen.startswith(f"compiled {made},") and seen.endswith("refused 0")
        t.check(r.returncode == 0 and good and says in r.stderr, what, f"{made} compiled; the layer: {seen}")
        return made

    first = start("a first start with a cache that keeps pipelines", None)
    t.check(first > 0, "a first start compiles")
    start("a second start", 0)
    mine, = glob.glob(f"{cache}/**/*.bin", recursive=True)
    shutil.copy(mine, f"{OUT}/whole.bin")
    os.truncate(mine, os.path.getsize(mine) // 2)
    start("a start with half a file", first, "is damaged and not used")
    start("the start after it", 0)
    os.chmod(mine, os.stat(mine).st_mode | 2)
    start("a start with a file that others may write", first, "others may write")
    start("the start after it", 0)
    start("a start with another version of the driver", first, CACHE_LAYER_DRIVER="7")
    theirs = [path for path in glob.glob(f"{cache}/**/*.bin", recursive=True) if path != mine]
    if t.check(len(theirs) == 1, "each version of the driver has a file"):
        shutil.copyfile(f"{OUT}/whole.bin", theirs[0])
        start("a start with another driver's file under this one's name", first, CACHE_LAYER_DRIVER="7")
        start("the start after it", 0, CACHE_LAYER_DRIVER="7")
    start("the first driver again", 0)


def faults(t, two, every):
    """Each call of Vulkan fails once: with copies through staging memory, with mapped memory, and while steps are
    timed. Mesa's layer that sorts devices (NODEVICE_SELECT) crashes if a query fails under it, before this library gets
    the result."""
    program = host(t, "vulkan/test_faults.c", "-lggml", "-lggml-cpu")

    def fails(name, devices, stride, **variables):
        counted(t, f"test_faults {name}", program, f"{t.layer}/libfault_layer.so", str(devices), str(stride), VK_LAYER_PATH=t.layer,
                VK_INSTANCE_LAYERS="VK_LAYER_ggml_rs_faults", NODEVICE_SELECT="1", GGML_VK_PIPELINE_CACHE_DIR=f"{OUT}/faults", **variables)

    fails("staged", 1, 1, GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM="1")
    fails("direct", 1, 1)
    fails("timed", 1, 1, GGML_VK_PERF_LOGGER="1")
    if two: # between two devices, every third call
        fails("two", 2, 1 if every else 3, **two)


def caches(t):
    """A damaged cache is reported, ignored, and written again; processes that start at once leave one complete file."""
    path = next(iter(glob.glob(f"{CACHE}/*.bin")), None)
    if t.check(path, "a pipeline cache on disk"):
        with open(path, "r+b") as f:
            whole = f.read()
            f.seek(20)
            f.write(b"not a cache")
        r = run(TEST, "a_graph_is_computed")
        t.check(r.returncode == 0 and "is damaged and not used" in r.stderr, "a damaged pipeline cache is reported and ignored")
        run(TEST, "none")
        t.check("is damaged" not in run(TEST, "a_graph_is_computed").stderr, "a damaged pipeline cache is written again")
        with open(path, "rb") as f:
            t.check(len(whole) >= 100 or f.read() == whole, "the cache of a driver that keeps nothing is as before")
    shutil.rmtree(CACHE)
    command, environment = [TEST, "a_graph_is_computed"], dict(os.environ, GGML_VK_PIPELINE_CACHE_DIR=CACHE)
    together = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = "".join(process.communicate()[1] for process in together)
    last = run(*command)
    files = glob.glob(f"{CACHE}/*")
    t.check(not any(p.returncode for p in together) and last.returncode == 0 and len(files) == 1 and "is damaged" not in said + last.stderr,
            "three processes at once share a pipeline cache", f"{len(files)} files")


def reports(t):
    """The table of times, and the same times in the trace; no Vulkan is no failure."""
    said = run(TEST, "a_graph_is_computed", GGML_VK_PERF_LOGGER="1").stderr
    t.check(re.search(r"^(SCALE|ADD|.*\+ ADD) f32 .*us.*GB/s", said, re.M), "GGML_VK_PERF_LOGGER prints times per op")
    trace = f"{OUT}/trace.json"
    run(TEST, "a_graph_is_computed", GGML_TRACE=trace)
    with open(trace, encoding="utf-8") as f:
        nodes = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "node" and e.get("dur", 0) > 0 and ("SCALE" in e["name"] or "ADD" in e["name"])]
    t.check(nodes, "the trace has the device's nodes", f"{len(nodes)} nodes")
    t.check(run(TEST, "none", GGML_DISABLE_VULKAN="1").returncode != 0, "GGML_DISABLE_VULKAN takes the devices away")


def programs(t, every=False):
    two = twice()
    computations(t, two)
    starts(t)
    faults(t, two, every)
    caches(t)
    reports(t)
