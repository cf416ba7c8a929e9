#!/usr/bin/env python3
"""RPC clients and servers in all four pairs of this library and the original, with unmodified hosts.

usage: test_rpc.py CACHE OURS [SECTION ...]

CACHE is the folder of scripts/oracle.sh (hosts/bin, modules, original/lib), OURS the folder of the installed library's lib, with bin beside it.
The original's rpc-server runs on either library; ours is tools/ggml-rpc-server. The last line counts the checks.
"""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time

from test_hosts import PROMPT, Bench, tensor_f32

KINDS = ("f16", "Q8_0", "Q4_0", "Q4_K")
os.environ["GGML_DISABLE_VULKAN"] = "1"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def server(t, side, tool=None, **variables):
    """A server on one library: the original's tool, or another. Gives its endpoint."""
    port = free_port()
    tool = tool or os.path.join(t.cache, "modules/ggml-rpc-server")
    env = dict(os.environ, LD_LIBRARY_PATH=t.libs[side], **variables)
    log = t.model(f"rpc-server-{side}-{port}") + ".log"
    with open(log, "w") as out:
        process = subprocess.Popen([tool, "-p", str(port), "-d", "CPU", "-t", "2"], env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
        if process.poll() is not None:
            t.check(False, f"the server on {side} has ended", open(log).read()[-300:])
    finally:
        process.terminate()
        process.wait()
        os.remove(log)


def model(t, kind):
    return t.random_llama(kind) if kind == "f16" else t.quantized("original", kind)


def logits(t, side, path, *arguments):
    out = t.model(f"results-rpc-{side}")
    # Weights in the plain layout, as the server has them.
    common = ("-m", path, "-o", out, "-p", PROMPT, "-t", 2, "--no-repack")
    return None if t.run(side, "llama-results", *common, *arguments) is None else tensor_f32(out, b"logits")


def nmse(got, expected):
    return sum((a - b) ** 2 for a, b in zip(got, expected)) / sum(b * b for b in expected)


def pairs(t):
    """Whole and half on one server, and on two: the results of the CPU that computes, to the bit."""
    sides = ("ours", "original")
    for kind in KINDS:
        path = model(t, kind)
        local = {side: logits(t, side, path) for side in sides}
        for serving in sides:
            # The original's server serves one client after the other.
            with server(t, serving) as one, server(t, serving) as two:
                for client in sides:
                    ways = [("whole", one, 99)]
                    if kind == "Q4_0" or client == serving == "ours":
                        ways += [("half", one, 2), ("two servers", f"{one},{two}", 99)]
                    for way, endpoints, layers in ways:
                        got = logits(t, client, path, "--rpc", endpoints, "-ngl", layers)
                        if got is None or local[serving] is None:
                            continue
                        # Half of the layers are the client's CPU: with both libraries, the result is between theirs.
                        same = way != "half" or client == serving
                        error = nmse(got, local[serving])
                        good = got == local[serving] if same else error < 2 * nmse(local[client], local[serving])
                        t.check(good, f"{kind}, {way}: client {client}, server {serving}", "same bits" if got == local[serving] else f"NMSE {error:.2g}")


def tool(t):
    """Our tool: what it says, a key, and several clients."""
    program = os.path.join(os.path.dirname(t.libs["ours"]), "bin/ggml-rpc-server")
    helped = subprocess.run([program, "--help"], capture_output=True, text=True)
    t.check(helped.returncode == 0 and "--key-file" in helped.stdout, "ggml-rpc-server --help")
    for wrong in (["--port", "0"], ["--frobnicate", "1"], ["-t"], ["-d", "Nothing0"], ["-H", "no.such.host.invalid"]):
        r = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=60)
        t.check(r.returncode == 1 and r.stderr.strip(), f"ggml-rpc-server {' '.join(wrong)}", r.stderr.strip().splitlines()[-1][:100] if r.stderr else "")
    key = t.model("rpc") + ".key"
    with open(key, "w") as f:
        f.write("a secret of the tests\n")
    os.chmod(key, 0o600)
    path = model(t, "f16")
    local = logits(t, "ours", path)
    with server(t, "ours", program, GGML_RPC_KEY_FILE=key) as endpoint:
        os.environ["GGML_RPC_KEY_FILE"] = key
        try:
            t.check(logits(t, "ours", path, "--rpc", endpoint, "-ngl", 99) == local, "with the key")
        finally:
            del os.environ["GGML_RPC_KEY_FILE"]
        r = subprocess.run([t.path("llama-results"), "-m", path, "-o", "/dev/null", "-p", "a", "--rpc", endpoint], capture_output=True, text=True,
                           env=dict(os.environ, LD_LIBRARY_PATH=t.libs["ours"]), timeout=60)
        t.check("GGML_RPC_KEY_FILE" in r.stderr, "without the key the host is told of it", next((l for l in r.stderr.splitlines() if "KEY" in l), "")[:120])
    os.remove(key)


def speed(t):
    """Text and prompts of the four pairs in one run."""
    for kind in ("f16", "Q4_0"):
        path, rates = model(t, kind), {}
        for serving in ("original", "ours"):
            for client in ("original", "ours"):
                with server(t, serving) as endpoint:
                    text = t.run(client, "llama-bench", "-m", path, "-p", 64, "-n", 32, "-r", 5, "-t", 2, "-ngl", 99, "--rpc", endpoint, "-o", "json")
                for row in json.loads(text[text.index("["):]) if text else []:
                    rates[client, serving, "prompt" if row["n_prompt"] else "text"] = row["avg_ts"]
        for what in ("prompt", "text"):
            base = rates.get(("original", "original", what))
            for (client, serving, its), rate in rates.items():
                if its == what and base:
                    t.check(rate > 0, f"{kind}, {what}: client {client}, server {serving}", f"{rate:.0f} tokens/s (x{rate / base:.2f})")


def ops(t):
    """The original's test-backend-ops over an RPC device, for a sample of operations."""
    names = os.environ.get("RPC_OPS", "ADD,MUL_MAT_ID,ROPE,SOFT_MAX,GET_ROWS,CPY,RMS_NORM,CONCAT")
    program = os.path.join(t.cache, "tests/bin/test-backend-ops")
    with server(t, "ours") as endpoint:
        for name in names.split(","):
            env = dict(os.environ, LD_LIBRARY_PATH=t.libs["ours"], GGML_RS_RPC_SERVERS=endpoint)
            r = subprocess.run([program, "test", "-b", "RPC0", "-o", name], env=env, capture_output=True, text=True, timeout=600)
            passed = re.search(r"(\d+)/(\d+) tests passed", r.stdout)
            t.check(r.returncode == 0 and passed and passed[1] == passed[2] != "0", f"test-backend-ops {name}", passed[0] if passed else (r.stdout + r.stderr)[-200:])


SECTIONS = {"pairs": pairs, "tool": tool, "speed": speed, "ops": ops}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    t = Bench(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    # The comparison of speed and all operations take longer than CI has.
    for name in sys.argv[3:] or ("pairs", "tool"):
        SECTIONS[name](t)
    print(f"rpc: {t.passed} passed, {t.failed} failed")
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
