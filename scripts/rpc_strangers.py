"""Clients of our ggml-rpc-server that are silent, leave, or request too much memory, for scripts/test_rpc.py: what its
process then computes, and how much memory it takes. src/rpc/tests/absent.rs has more such clients, of a server inside
the test.

`Raw` speaks the protocol over a socket of its own, so that it can stop anywhere. Everything is on the loopback, and
every loop ends.
"""
import contextlib
import itertools
import operator
import os
import re
import socket
import struct
import time

from processes import ROOT

ALLOC, BASE, GRAPH, HELLO, COUNT, RECOMPUTE, SET_2D = 0, 3, 10, 14, 15, 16, 18
TENSOR = struct.Struct("<QIQ4I4II16ii10QQQQ64si")
MIB = 1 << 20


class Raw:
    """A client of the given address, which may be any of this machine."""

    def __init__(self, endpoint, source="127.0.0.1", greet=True):
        host, port = endpoint.split(":")
        self.socket = socket.create_connection((host, int(port)), 20, (source, 0))
        self.replies = self.socket.makefile("rb")
        self.welcome = not greet or self.call(HELLO, bytes(24)) is not None

    def close(self):
        self.replies.close()
        self.socket.close()

    def send(self, command, body=b"", more=0):
        """A request; `more` bytes of data that are announced."""
        with contextlib.suppress(OSError):
            self.socket.sendall(struct.pack("<BQ", command, len(body) + more) + body)

    def call(self, command, body=b""):
        """The reply to a request; None if the connection is closed."""
        self.send(command, body)
        with contextlib.suppress(OSError, struct.error):
            return self.replies.read(struct.unpack("<Q", self.replies.read(8))[0])

    def serves(self):
        return self.call(COUNT) is not None

    def buffer(self, size):
        """Number and address of a buffer; None if there is no memory."""
        reply = self.call(ALLOC, struct.pack("<IQ", 0, size))
        number = struct.unpack("<QQ", reply)[0] if reply else 0
        return (number, struct.unpack("<Q", self.call(BASE, struct.pack("<Q", number)))[0]) if number else None

    def compute(self, products):
        """Requests a graph of products of 2^30 multiplications each."""
        buffer, base = self.buffer(32 * MIB)
        k, n = 1 << 14, 1 << 8
        with open(f"{ROOT}/include/ggml.h") as f:
            op = int(re.search(r"GGML_OP_MUL_MAT = (\d+)", f.read())[1])
        tensors = [tensor(i, buffer, base, (k, n)) for i in (1, 2)]
        tensors += [tensor(3 + i, buffer, base + 4 * k * n, (n, n), op, (1, 2)) for i in range(products)]
        self.send(GRAPH, graph(range(3, 3 + products), tensors))


def tensor(number, buffer, data, ne, op=0, sources=()):
    ne = (*ne, 1, 1, 1)[:4]
    nb = itertools.accumulate(ne[:3], operator.mul, initial=4)
    sources = (*sources, *[0] * 10)[:10]
    return TENSOR.pack(number, 0, buffer, *ne, *nb, op, *[0] * 16, 16, *sources, 0, 0, data, b"", 0)


def graph(nodes, tensors):
    return struct.pack(f"<IQI{len(nodes)}QI", 0, 1, len(nodes), *nodes, len(tensors)) + b"".join(tensors)


def processor_time(pid):
    """Seconds of processor time of a process so far."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid):
    """Most memory of a process so far, in MiB."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) >> 10


def busy_for(pid, limit):
    """Seconds until a process stops computing, at most `limit`."""
    start = time.monotonic()
    while time.monotonic() - start < limit:
        before = processor_time(pid)
        time.sleep(1)
        if processor_time(pid) - before < 0.03:
            return time.monotonic() - start - 1
    return limit


def places(t, server):
    """Those that are silent do not keep others out, and one address does not get all places."""
    with server() as (endpoint, _):
        silent = [Raw(endpoint, greet=False) for _ in range(16)]
        crowd = [Raw(endpoint, "127.0.0.2") for _ in range(20)]
        welcome = sum(raw.welcome and raw.serves() for raw in crowd)
        t.check(0 < welcome <= 12 and Raw(endpoint, "127.0.0.3").serves(), f"{len(silent)} silent connections, and clients of one address, leave places",
                f"{welcome} of {len(crowd)} clients")


def gone(t, server):
    """Work ends after its client has disconnected, and when its time is over."""
    for products, again, leaves, (least, most) in ((20000, 0, True, (0, 5)), (100, 125, True, (0, 5)), (2, 2000, False, (1, 8))):
        with server("--graph-time", "3" if not leaves else "600") as (endpoint, pid):
            raw = Raw(endpoint)
            raw.compute(products)
            raw.socket.sendall(struct.pack("<BQIQ", RECOMPUTE, 12, 0, 1) * again)
            time.sleep(1)
            worked = processor_time(pid)
            if leaves:
                raw.close()
            seconds = busy_for(pid, 25)
            t.check(worked > 0.2 and least <= seconds < most and Raw(endpoint).serves(),
                    f"a graph of {products} products, {again} times again, ends {'when its client leaves' if leaves else 'after --graph-time 3'}",
                    f"the server computes for {seconds:.1f} s more")


def memory(t, server):
    """The memory that clients can make a server use."""
    n = 1 << 18
    large = graph(range(1, n + 1), [tensor(1 + i, 0, 0, (1,)) for i in range(n)])

    def a_graph_without_its_end(raw):
        raw.send(GRAPH, large[:-64], 64)

    def pieces(raw):
        buffer, base = raw.buffer(256 * MIB)
        body = tensor(1, buffer, base, (64 * MIB,)) + struct.pack("<QQQQ", 0, 256 * MIB, 1, 256 * MIB)
        raw.send(SET_2D, body, 256 * MIB)
        for _ in range(255):
            raw.socket.sendall(bytes(MIB))

    for what, clients, most in ((a_graph_without_its_end, 4, 640), (pieces, 1, 320)):
        with server("--client-work", "128") as (endpoint, pid):
            before = peak(pid)
            all_of_them = [Raw(endpoint) for _ in range(clients)]
            for raw in all_of_them:
                with contextlib.suppress(OSError):
                    what(raw)
            time.sleep(2)
            grown = peak(pid) - before
            t.check(grown < most and Raw(endpoint).serves(), f"memory of {clients} clients: {what.__name__.replace('_', ' ')}", f"{grown} MiB")
    with server("--client-memory", "64") as (endpoint, _):
        raw, other = Raw(endpoint), Raw(endpoint)
        got = [raw.buffer(16 * MIB) is not None for _ in range(6)]
        t.check(sum(got) in (3, 4) and raw.serves(), "buffers of one client end at its limit, with the protocol's reply", f"{sum(got)} of 16 MiB with --client-memory 64")
        t.check(other.buffer(16 * MIB) is not None, "and another client has its own")
