"""Clients of an RPC server that are silent, have disconnected, or request too much memory, for scripts/test_rpc.py.

`Raw` speaks the protocol over a socket of its own, so that it can stop anywhere. Everything is on the loopback, and
every loop ends.
"""
import contextlib
import os
import re
import socket
import struct
import time

ALLOC, BASE, FREE, CLEAR, SET, SET_HASH, GET, GRAPH, HELLO, COUNT, RECOMPUTE, SET_2D = 0, 3, 4, 5, 6, 7, 8, 10, 14, 15, 16, 18
TENSOR = struct.Struct("<QIQ4I4II16ii10QQQQ64si")
MIB = 1 << 20


def operation(name):
    """The number of an operation, from the header."""
    header = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "include/ggml.h")
    with open(header) as f:
        listed = re.search(r"enum ggml_op \{(.*?)\n\s*\};", f.read(), re.S)[1]
    return re.findall(r"\bGGML_OP_\w+", re.sub(r"//.*|/\*.*?\*/", "", listed)).index(name)


class Raw:
    """A client of the given address, which may be any of this machine."""

    def __init__(self, endpoint, source="127.0.0.1", greet=True):
        host, port = endpoint.split(":")
        self.socket = socket.create_connection((host, int(port)), 20, (source, 0))
        self.welcome = not greet or self.call(HELLO, bytes(24)) is not None

    def send(self, command, body=b"", more=0):
        """A request; `more` bytes of data that are announced."""
        with contextlib.suppress(OSError):
            self.socket.sendall(struct.pack("<BQ", command, len(body) + more) + body)

    def exactly(self, n):
        got = b""
        while len(got) < n:
            piece = self.socket.recv(n - len(got))
            if not piece:
                return None
            got += piece
        return got

    def call(self, command, body=b""):
        """The reply to a request; None if the connection is closed."""
        try:
            self.send(command, body)
            size = self.exactly(8)
            return None if size is None else self.exactly(struct.unpack("<Q", size)[0])
        except OSError:
            return None

    def serves(self):
        return self.call(COUNT) is not None

    def buffer(self, size):
        """Number and address of a buffer; None if there is no memory."""
        reply = self.call(ALLOC, struct.pack("<IQ", 0, size))
        number = struct.unpack("<QQ", reply)[0] if reply else 0
        return (number, struct.unpack("<Q", self.call(BASE, struct.pack("<Q", number)))[0]) if number else None

    def close(self):
        self.socket.close()

def tensor(number, buffer, data, ne, op=0, sources=(), kind=0):
    ne = (*ne, 1, 1, 1)[:4]
    nb = [4]
    for n in ne[:3]:
        nb.append(nb[-1] * n)
    sources = (*sources, *[0] * 10)[:10]
    return TENSOR.pack(number, kind, buffer, *ne, *nb, op, *[0] * 16, 16, *sources, 0, 0, data, b"", 0)


def graph(uid, nodes, tensors):
    return struct.pack(f"<IQI{len(nodes)}QI", 0, uid, len(nodes), *nodes, len(tensors)) + b"".join(tensors)


def products(raw, count, uid=1):
    """A graph of products of 2^30 multiplications each."""
    buffer, base = raw.buffer(32 * MIB)
    k, n = 1 << 14, 1 << 8
    op = operation("GGML_OP_MUL_MAT")
    tensors = [tensor(1, buffer, base, (k, n)), tensor(2, buffer, base, (k, n))]
    tensors += [tensor(3 + i, buffer, base + 4 * k * n, (n, n), op, (1, 2)) for i in range(count)]
    return graph(uid, range(3, 3 + count), tensors)


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


def served_within(endpoint, seconds, source="127.0.0.1"):
    """Seconds until a client that tries again gets a reply; None if that takes too long."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        with contextlib.suppress(OSError):
            with contextlib.closing(Raw(endpoint, source)) as raw:
                if raw.welcome and raw.serves():
                    return time.monotonic() - start
        time.sleep(0.2)
    return None


def places(t, server):
    """Clients that send nothing are disconnected, and those with data on the server are not."""
    with server() as (endpoint, _):
        silent = [Raw(endpoint, greet=False) for _ in range(16)]
        time.sleep(0.5)
        took = served_within(endpoint, 30)
        t.check(took is not None and took < 2, "16 connections without a greeting: the next client is served", f"after {took} s")
        # From four addresses, so that none of them has more than its share.
        greeted = [Raw(endpoint, f"127.0.0.{2 + i % 4}") for i in range(16)]
        t.check(all(raw.welcome for raw in greeted), "16 clients are served")
        time.sleep(11)
        took = served_within(endpoint, 30)
        t.check(took is not None and took < 2, "16 clients without a request: the next one is served", f"after {took} s")
        for raw in silent + greeted:
            raw.close()
    with server() as (endpoint, _):
        owners = [Raw(endpoint, f"127.0.0.{2 + i % 4}") for i in range(16)]
        for raw in owners:
            raw.buffer(MIB)
            raw.send(GRAPH, products(raw, 1))
        computed = all(raw.serves() for raw in owners)
        time.sleep(11)
        took = served_within(endpoint, 3, "127.0.0.9")
        t.check(computed and took is None and all(raw.serves() for raw in owners), "16 idle clients with memory: none of them gives way to a stranger")
        for raw in owners:
            raw.close()
        time.sleep(1)
        crowd = [Raw(endpoint, "127.0.0.2") for _ in range(20)]
        for raw in crowd:
            if raw.welcome:
                raw.buffer(MIB)
        welcome = sum(raw.welcome and raw.serves() for raw in crowd)
        took = served_within(endpoint, 3, "127.0.0.3")
        t.check(0 < welcome <= 12 and took is not None, "one address does not get all places", f"{welcome} of 20")


def gone(t, server):
    """Work ends after its client has disconnected."""
    recompute = struct.pack("<BQIQ", RECOMPUTE, 12, 0, 1)

    def one_graph(raw):
        raw.send(GRAPH, products(raw, 20000))

    def many_graphs(raw):
        raw.send(GRAPH, products(raw, 100))
        raw.socket.sendall(recompute * 125)

    def more_than_a_queue_holds(raw):
        raw.send(GRAPH, products(raw, 2))
        raw.socket.settimeout(2)
        with contextlib.suppress(OSError):
            raw.socket.sendall(recompute * 600000)

    def clears(raw):
        buffer, _ = raw.buffer(1024 * MIB)
        raw.socket.sendall(struct.pack("<BQQB", CLEAR, 9, buffer, 1) * 144)

    for what in (one_graph, many_graphs, more_than_a_queue_holds, clears):
        # Requests after a full queue hide that the client has disconnected. Then the limit of the time of a graph ends
        # the work.
        with server(*(("--graph-time", "3") if what is more_than_a_queue_holds else ())) as (endpoint, pid):
            raw = Raw(endpoint)
            what(raw)
            time.sleep(1)
            worked = processor_time(pid)
            raw.close()
            seconds = busy_for(pid, 25)
            t.check(worked > 0.2 and seconds < 5, f"a client leaves: {what.__name__.replace('_', ' ')}", f"the server computes for {seconds:.1f} s more")
            t.check(served_within(endpoint, 5) is not None, "and serves others")
    with server("--graph-time", "3") as (endpoint, pid):
        raw = Raw(endpoint)
        raw.send(GRAPH, products(raw, 2))
        raw.socket.sendall(recompute * 2000)
        time.sleep(1)
        worked = processor_time(pid)
        seconds = busy_for(pid, 25)
        t.check(worked > 0.2 and 1 < seconds < 8, "graphs that were sent ahead have the time of one", f"{seconds:.1f} s with --graph-time 3")


def memory(t, server):
    """The memory that clients can make a server use."""
    n = 1 << 18
    large = graph(1, range(1, n + 1), [tensor(1 + i, 0, 0, (1,)) for i in range(n)])
    many = graph(1, (), [tensor(1, 0, 0, (1,))] * 900000)

    def too_many_tensors(raw):
        raw.send(GRAPH, many[:-64])

    def a_graph_without_its_end(raw):
        raw.send(GRAPH, large[:-64], 64)

    def many_graphs(raw):
        buffer, base = raw.buffer(4096)
        op = operation("GGML_OP_ADD")
        for uid in range(1, 40):
            nodes = [tensor(1, buffer, base, (1,))] + [tensor(2 + i, buffer, base + 64, (1,), op, (1, 1)) for i in range(20000)]
            raw.send(GRAPH, graph(uid, range(2, 20002), nodes))

    def pieces(raw):
        buffer, base = raw.buffer(256 * MIB)
        body = tensor(1, buffer, base, (64 * MIB,)) + struct.pack("<QQQQ", 0, 256 * MIB, 1, 256 * MIB)
        raw.send(SET_2D, body, 256 * MIB)
        for _ in range(255):
            raw.socket.sendall(bytes(MIB))

    for what, clients, most in ((too_many_tensors, 8, 64), (a_graph_without_its_end, 4, 640), (many_graphs, 1, 320), (pieces, 1, 320)):
        with server("--client-work", "128") as (endpoint, pid):
            before = peak(pid)
            all_of_them = [Raw(endpoint) for _ in range(clients)]
            for raw in all_of_them:
                with contextlib.suppress(OSError):
                    what(raw)
            time.sleep(2)
            grown = peak(pid) - before
            t.check(grown < most, f"memory of {clients} clients: {what.__name__.replace('_', ' ')}", f"{grown} MiB")
            if what is many_graphs:
                t.check(raw.serves(), "and old graphs give way to new ones")
            for raw in all_of_them:
                raw.close()
            t.check(served_within(endpoint, 5) is not None, "and serves others")
    with server("--client-memory", "64") as (endpoint, _):
        raw, other = Raw(endpoint), Raw(endpoint)
        got = [raw.buffer(16 * MIB) is not None for _ in range(6)]
        t.check(sum(got) in (3, 4) and raw.serves(), "buffers of one client end at its limit, with the protocol's reply", f"{sum(got)} of 16 MiB with --client-memory 64")
        t.check(other.buffer(16 * MIB) is not None, "and another client has its own")
