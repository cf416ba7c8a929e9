#!/usr/bin/env python3
"""RPC clients and servers in all four pairs of this library and the original, with unmodified hosts.

The original's rpc-server (CACHE/modules) runs on either library; ours is tools/ggml-rpc-server.
"""
import collections
import contextlib
import itertools
import json
import math
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

import processes
from hosts import Hosts, alike, main, nmse
from test_peers import supported

KINDS = ("f16", "Q8_0", "Q4_0", "Q4_K")
SIDES = ("ours", "original")
# Servers, and layers on them.
WAYS = {"whole": (1, 99), "half": (1, 2), "two servers": (2, 99)}
HELLO = 14 # the first command of a client
os.environ["GGML_DISABLE_VULKAN"] = "1"
TURNS = range(int(os.environ.get("RPC_TURNS", "3")))
# For figures on a machine that others use, too: RPC_PREFIX="chrt -r 10" for servers and clients.
REAL_TIME = os.environ.get("RPC_PREFIX", "").split()


class Rpc(Hosts):
    tests, starter = "tests/bin", REAL_TIME


@contextlib.contextmanager
def server(t, side, tool=None, arguments=(), took=None, threads=2, **variables):
    """A server on one library: the original's tool, or another. Gives its endpoint.

    `arguments` of the tool; a list `took` gets the process, which may then end."""
    port = processes.free_port()
    tool = tool or os.path.join(t.cache, "modules/ggml-rpc-server")
    log = t.model(f"rpc-server-{side}-{port}") + ".log"

    def ready():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True

    command = [*REAL_TIME, tool, "-p", str(port), "-d", "CPU", "-t", str(threads), *arguments]
    with processes.running(command, log, ready, 10, env=t.environment(side, **variables)) as process:
        if took is not None:
            took.append(process)
        yield f"127.0.0.1:{port}"
        if took is None and process.poll() is not None:
            t.check(False, f"the server on {side} has ended", open(log).read()[-300:])
    os.remove(log)


def ours(t):
    """Our server."""
    return os.path.join(os.path.dirname(t.libs["ours"]), "bin/ggml-rpc-server")


def logits(t, side, path, *arguments, **variables):
    # Weights in the plain layout, as the server has them.
    return t.logits(side, path, "--no-repack", *arguments, **variables)


def pairs(t):
    """Whole and half on one server, and on two: the results of the CPU that computes, to the bit."""
    for kind in KINDS:
        path = t.quantized("original", kind)
        local = {side: logits(t, side, path) for side in SIDES}
        for serving in SIDES:
            # The original's server serves one client after the other.
            with server(t, serving) as one, server(t, serving) as two:
                for client in SIDES:
                    ways = ("whole", "half", "two servers") if kind == "Q4_0" or client == serving == "ours" else ("whole",)
                    for way in ways:
                        servers, layers = WAYS[way]
                        got = logits(t, client, path, "--rpc", ",".join((one, two)[:servers]), "-ngl", layers)
                        if got is None or local[serving] is None:
                            continue
                        # Half of the layers are the client's CPU: with both libraries, the result is between theirs.
                        same = way != "half" or client == serving
                        error = nmse(local[serving], got)
                        good = got == local[serving] if same else error < 2 * nmse(local[serving], local[client])
                        t.check(good, f"{kind}, {way}: client {client}, server {serving}", "same bits" if got == local[serving] else f"NMSE {error:.2g}")


def tool(t):
    """Our tool: what it says, a key, and several clients."""
    program = ours(t)
    helped = subprocess.run([program, "--help"], capture_output=True, text=True)
    t.check(helped.returncode == 0 and "--key-file" in helped.stdout, "ggml-rpc-server --help")
    for wrong in (["--port", "0"], ["--frobnicate", "1"], ["-t"], ["-d", "Nothing0"], ["-H", "no.such.host.invalid"]):
        r = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=60)
        t.check(r.returncode == 1 and r.stderr.strip(), f"ggml-rpc-server {' '.join(wrong)}", r.stderr.strip().splitlines()[-1][:100] if r.stderr else "")
    key = t.model("rpc") + ".key"
    with open(key, "w") as f:
        f.write("a secret of the tests\n")
    os.chmod(key, 0o600)
    path = t.random_llama("f16")
    local = logits(t, "ours", path)
    limits = ("--client-work", "128", "--client-memory", "1024", "--graph-time", "60", "--clients", "4", "--per-address", "2", "--idle", "60")
    with server(t, "ours", program, limits, GGML_RPC_KEY_FILE=key) as endpoint:
        t.check(logits(t, "ours", path, "--rpc", endpoint, "-ngl", 99, GGML_RPC_KEY_FILE=key) == local, "with the key")
        t.start("ours", "llama-results", "-m", path, "-o", "/dev/null", "-p", "a", "--rpc", endpoint, timeout=60)
        t.check("GGML_RPC_KEY_FILE" in t.stderr, "without the key the host is told of it", next((l for l in t.stderr.splitlines() if "KEY" in l), "")[:120])
    os.remove(key)
    with server(t, "ours", program, ("--client-memory", "1")) as endpoint:
        status, out, _ = t.start("ours", "llama-results", "-m", path, "-o", "/dev/null", "-p", "a", "--rpc", endpoint, "-ngl", 99, timeout=60)
        t.check(status != 0 and "alloc" in t.stderr, "with --client-memory 1 there is no place for a model", t.why(status, out)[:120])


def bench(t, side, path, endpoints, *arguments):
    """Rates of llama-bench by what it measured."""
    return {"prompt" if row["n_prompt"] else "text": row["avg_ts"] for row in t.bench(side, "-m", path, "--rpc", endpoints, "-r", 1, "-t", 1, *arguments)}


def chosen(listed, usual):
    """The values that a variable of the environment lists, or the usual ones."""
    return listed.split(",") if listed else list(usual)


def speed(t):
    """Text and prompts of the four pairs, in turns: whole and half, on one server and two. RPC_KINDS, RPC_TURNS,
    RPC_WAYS choose less."""
    for kind, way in itertools.product(chosen(os.environ.get("RPC_KINDS"), KINDS), chosen(os.environ.get("RPC_WAYS"), WAYS)):
        path, (servers, layers) = t.quantized("original", kind), WAYS[way]
        rates = collections.defaultdict(list)
        with contextlib.ExitStack() as stack:
            running = {side: ",".join(stack.enter_context(server(t, side, threads=1)) for _ in range(servers)) for side in SIDES}
            for _, serving, client in itertools.product(TURNS, SIDES, SIDES):
                for what, rate in bench(t, client, path, running[serving], "-p", 64, "-n", 32, "-r", 3, "-ngl", layers).items():
                    rates[what, client, serving].append(rate)
        for (what, client, serving), measured in sorted(rates.items()):
            rate, base = map(statistics.median, (measured, rates[what, "original", "original"] or [math.nan]))
            t.check(rate > 0, f"{kind}, {way}, {what}: client {client}, server {serving}", f"{rate:.0f} tokens/s (x{rate / base:.2f})")


def compiled(t, name, *libraries):
    """A program of c_tests/rpc."""
    return processes.compiled(f"{processes.ROOT}/target/c_tests/rpc-{name}", f"rpc/{name}.c", "-O2", "-L", t.libs["ours"], "-Wl,-rpath-link," + t.libs["ours"],
                              *libraries, "-lpthread")


@contextlib.contextmanager
def wire(t, endpoint, milliseconds):
    """A connection with a delay in each direction (c_tests/rpc/wire.c). Gives its endpoint, and a function that returns
    the counts of the largest connection since it was last called."""
    port = endpoint.split(":")[1]
    log = t.model("wire-" + port) + ".log"

    def printed():
        with open(log) as f:
            return f.read().splitlines()

    def counts():
        time.sleep(0.2 + milliseconds / 50)
        lines = printed()
        new = map(json.loads, lines[counts.seen:])
        counts.seen = len(lines)
        return max(new, key=lambda c: c["up"], default={})

    counts.seen = 1 # its port
    with processes.running([*REAL_TIME, compiled(t, "wire"), port, str(milliseconds)], log, printed, 10):
        yield f"127.0.0.1:{printed()[0]}", counts
    os.remove(log)


def delay(t):
    """Text over connections with delays: rates, and what a token sends. RPC_DELAYS: milliseconds in each direction;
    RPC_WAYS as for speed."""
    path = t.random_llama("f16")
    for milliseconds, way in itertools.product(map(float, chosen(os.environ.get("RPC_DELAYS"), (1, 5, 20))), chosen(os.environ.get("RPC_WAYS"), WAYS)):
        servers, layers = WAYS[way]
        rates, token = {side: [] for side in SIDES}, {}
        with contextlib.ExitStack() as stack:
            wires = {side: [stack.enter_context(wire(t, stack.enter_context(server(t, side, threads=1)), milliseconds)) for _ in range(servers)]
                     for side in SIDES}
            for _, (side, running) in itertools.product(TURNS, wires.items()):
                sent = collections.Counter() # of all servers together
                for tokens in (16, 48):
                    rate = bench(t, side, path, ",".join(endpoint for endpoint, _ in running), "-p", 0, "-n", tokens, "-ngl", layers).get("text", 0)
                    sent = collections.Counter({key: -n for key, n in sent.items()})
                    for _, counts in running:
                        sent.update(counts())
                rates[side].append(rate)
                token[side] = {key: n / 32 for key, n in sent.items() if n}
        (ours, original), (here, there) = (statistics.median(rates[side]) for side in SIDES), (token[side].get("turns", 0) for side in SIDES)
        t.check(0 < here <= there + 0.1, f"{milliseconds:g} ms, {way}: round trips a token",
                f"{here:.2f}, original {there:.2f}; {token['ours']}; original {token['original']}")
        t.check(ours > 0.95 * original, f"{milliseconds:g} ms, {way}: text",
                f"{ours:.1f} tokens/s, original {original:.1f} (x{ours / max(original, 1e-9):.2f})")


def upload(t):
    """Weights against the bandwidth of the loopback, and starts with a cache."""
    program = compiled(t, "upload", "-Wl,--no-as-needed", "-lggml", "-lggml-rpc", "-lggml-base")
    for side in SIDES:
        with server(t, side, threads=1) as endpoint:
            said = t.run(side, program, endpoint, 1024, 4)
            if said is not None:
                rates = json.loads(said)
                share = rates["upload"] / rates["plain"]
                t.check(side == "original" or share > 0.5, f"upload, client and server {side}",
                        f"{rates['upload']:.2f} GB/s, plain connection {rates['plain']:.2f} GB/s ({share:.2f})")
    starts(t)


def starts(t):
    """First and second start of a model on a server with a cache: no weights are sent twice. RPC_DELAYS: milliseconds
    in each direction."""
    # A model with weights of more than 10 MiB, and small ones.
    path = t.model("bench-F16")
    if not os.path.exists(path):
        path = t.random_llama("f16")
    for milliseconds, client, serving in itertools.product(map(float, chosen(os.environ.get("RPC_DELAYS"), (0, 5))), SIDES, SIDES):
        with tempfile.TemporaryDirectory() as folder:
            tool, arguments = (ours(t), ("--cache-dir", folder)) if serving == "ours" else (None, ("-c",))
            with server(t, serving, tool, arguments, LLAMA_CACHE=folder) as endpoint, wire(t, endpoint, milliseconds) as (near, counts):
                sent = []
                for _ in range(3):
                    start = time.monotonic()
                    bench(t, client, path, near, "-p", 8, "-n", 0, "-ngl", 99)
                    sent.append((time.monotonic() - start, counts()))
            kept = [os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(folder) for f in files]
        (slow, first), (fast, second), (last, third) = sent
        # What is not kept are the inputs of the first graph, and weights that are smaller than their offers.
        most = max(1 << 16, first["loaded"] // 1000) if client == "ours" else first["loaded"]
        good = second["loaded"] < most and (client != "ours" or second.get("kept") == 0)
        t.check(good and sum(kept) > 0, f"starts, {milliseconds:g} ms: client {client}, server {serving}",
                f"tensors {first['loaded']} bytes, then {second['loaded']} and {third['loaded']}; in all {first['up']}, {second['up']}, {third['up']}; "
                f"{len(kept)} files of {sum(kept) >> 20} MiB; {slow:.2f} s, {fast:.2f} s, {last:.2f} s; turns {first['turns']}, {second['turns']}")


def minilm(t):
    """Sentences of MiniLM over RPC, for every pair."""
    local = t.embeddings("original")
    for serving in SIDES:
        with server(t, serving) as endpoint:
            for client in SIDES:
                least = alike(t.embeddings(client, "--rpc", endpoint, "-ngl", 99), local)
                t.check(least >= 0.9999999, f"MiniLM: client {client}, server {serving}", f"least cosine {least:.9f}")


def faults(t):
    """Servers that die, stall and come back under an unmodified host: it ends in time, with a line that says why."""
    path = t.random_llama("f16")
    for name, signal_of in (("dies", signal.SIGKILL), ("stalls", signal.SIGSTOP)):
        took = []
        with server(t, "ours", took=took) as endpoint:
            host = subprocess.Popen([t.path("llama-bench"), "-m", path, "-p", "0", "-n", "20000", "-r", "1", "-ngl", "99", "--rpc", endpoint, "-v"],
                                    env=t.environment("ours", GGML_RPC_TIMEOUT="3"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(4)
            started = host.poll() is None
            took[0].send_signal(signal_of)
            start = time.monotonic()
            try:
                said = host.communicate(timeout=60)[1]
            except subprocess.TimeoutExpired:
                host.kill()
                said = host.communicate()[1] + " no end"
            seconds = time.monotonic() - start
            lost = [line for line in said.splitlines() if "is lost" in line]
            t.check(started and len(lost) == 1 and host.returncode != 0 and seconds < 30, f"a server {name}", f"status {host.returncode} after {seconds:.1f} s: {' | '.join(lost)[:120]}")
            if signal_of == signal.SIGSTOP:
                took[0].send_signal(signal.SIGCONT)
                t.check(logits(t, "ours", path, "--rpc", endpoint, "-ngl", 99) is not None, "a server that goes on serves again")


def ops(t):
    """The original's test-backend-ops over an RPC device: RPC_OPS for some operations, RPC_SERVERS for one side."""
    names = sorted({case.split("(")[0] for case in supported(t, "ours")})
    for side, name in itertools.product(chosen(os.environ.get("RPC_SERVERS"), SIDES), chosen(os.environ.get("RPC_OPS"), names)):
        # A server for each: the original's ends at what it cannot do.
        with server(t, side, took=[]) as endpoint:
            status, out, _ = t.start("ours", "test-backend-ops", "test", "-b", "RPC0", "-o", name, GGML_RS_RPC_SERVERS=endpoint,
                                     timeout=int(os.environ.get("RPC_OPS_SECONDS", "600")))
        what = f"test-backend-ops {name}, server {side}"
        if isinstance(status, str):
            t.check("FAIL" not in out, what, f"{status}; {len(re.findall('OK$', out, re.M))} passed so far")
            continue
        passed = re.search(r"(\d+)/(\d+) tests passed", out)
        t.check(status == 0 and passed and passed[1] == passed[2], what, passed[0] if passed else (out + t.stderr)[-200:])


def places(t):
    """Connections that are silent do not keep clients out, and one address does not get all places.
    src/rpc/tests/strangers.rs measures what clients take of a server."""
    took = []

    def connected(endpoint, source, hello):
        s = socket.create_connection(("127.0.0.1", int(endpoint.split(":")[1])), 20, (source, 0))
        s.sendall(hello)
        return s

    def welcomed(client):
        with contextlib.suppress(OSError):
            return len(client.recv(8)) == 8

    with server(t, "ours", ours(t), took=took) as endpoint:
        silent = [connected(endpoint, "127.0.0.1", b"") for _ in range(16)]
        crowd = [connected(endpoint, f"127.0.0.{address}", struct.pack("<BQ24x", HELLO, 24)) for address in [2] * 20 + [3]]
        *same, other = map(welcomed, crowd)
        t.check(0 < same.count(True) <= 12 and other and took[0].poll() is None,
                f"{len(silent)} silent connections, and clients of one address, leave places", f"{same.count(True)} of {len(same)} clients")


# The comparisons of speed and all operations take longer than CI has.
USUAL = {"pairs": pairs, "tool": tool, "minilm": minilm, "faults": faults, "places": places}
DEMAND = {"speed": speed, "delay": delay, "upload": upload, "starts": starts, "ops": ops}


if __name__ == "__main__":
    main(__doc__, "rpc", USUAL | DEMAND, len(USUAL), Rpc)
