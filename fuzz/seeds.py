#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets: python3 fuzz/seeds.py. Small files, the same every time. They are committed, so
that fuzzing does not depend on this script. Seeds with other names were made by hand, and stay as they are."""
import pathlib
import random
import struct

here = pathlib.Path(__file__).parent / "seeds"


def text(s):
    return struct.pack("<Q", len(s)) + s


def value(key, kind, data):
    return text(key) + struct.pack("<I", kind) + data


def array(key, kind, items):
    return value(key, 9, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def tensor(name, ne, kind, offset):
    return text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, offset)


def gguf(values, tensors, data=b"", version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join(values + tensors)
    return out + bytes(-len(out) % alignment) + data


numbers = [value(b"n%d" % kind, kind, struct.pack("<" + code, 1))
           for kind, code in [(0, "B"), (1, "b"), (2, "H"), (3, "h"), (4, "I"), (5, "i"), (6, "f"), (7, "?"), (10, "Q"), (11, "q"), (12, "d")]]
f32, q4_0, q6_k = 0, 2, 14
files = {
    "empty": gguf([], []),
    "numbers": gguf(numbers, []),
    "texts": gguf([value(b"general.architecture", 8, text(b"llama")), array(b"tokens", 8, [text(b"a"), text(b""), text(b"\xe2\x96\x81b")])], []),
    "arrays": gguf([array(b"i", 5, [struct.pack("<i", i) for i in range(5)]), array(b"none", 6, []), array(b"b", 7, [b"\0", b"\1", b"\2"])], []),
    "tensors": gguf([], [tensor(b"a", [5, 3], f32, 0), tensor(b"b", [32, 2], q4_0, 64), tensor(b"c", [256], q6_k, 128), tensor(b"d", [0, 4], f32, 352)], bytes(range(256)) + bytes(96)),
    "four-dimensions": gguf([], [tensor(b"a", [2, 3, 1, 2], f32, 0), tensor(b"scalar", [], f32, 64)], bytes(96)),
    "alignment": gguf([value(b"general.alignment", 4, struct.pack("<I", 64))], [tensor(b"a", [4], f32, 0), tensor(b"b", [4], f32, 64)], bytes(128), alignment=64),
    "version2": gguf([value(b"k", 4, b"\1\0\0\0")], [tensor(b"t", [8], f32, 0)], bytes(32), version=2),
    "wraps": gguf([], [tensor(b"t", [4, 2**30 - 1, 2**30 + 1], f32, 0)]),
    "cut": gguf([], [tensor(b"t", [8], f32, 0)], bytes(8)),
}
for name, data in files.items():
    (here / "gguf_read").mkdir(parents=True, exist_ok=True)
    (here / "gguf_read" / name).write_bytes(data)

draw = random.Random(1)
for target, count, sizes in [("gguf_write_read", 12, (40, 400)), ("cpu_node", 24, (12, 60)), ("vulkan_node", 24, (12, 60))]:
    (here / target).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        n = draw.randrange(*sizes)
        # Nodes: the first two bytes select one. On Vulkan, the highest two bits select how work is divided.
        head = struct.pack("<H", i * 16 + (i % 3 << 14) * (target == "vulkan_node")) if "node" in target else b""
        (here / target / f"{i:02}").write_bytes(head + draw.randbytes(n))

# The same files by other ways: bytes that the callback returns at once, and where it returns too few.
(here / "gguf_sources").mkdir(parents=True, exist_ok=True)
for i, (name, data) in enumerate(files.items()):
    (here / "gguf_sources" / name).write_bytes(bytes([i * 7, i]) + data)
draw = random.Random(2)
for target, count, sizes in [("ops", 16, (60, 400)), ("quantize", 16, (40, 300)), ("scheduler", 8, (20, 120)), ("alloc", 12, (40, 300)), ("lies", 8, (1, 60)),
                             ("opt", 12, (60, 200)), ("meta", 8, (60, 120)), ("text", 6, (10, 200))]:
    (here / target).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        n = draw.randrange(*sizes)
        # Numbers: the first two bytes select the format and the test.
        head = bytes([i * 2, i % 3]) if target == "quantize" else b""
        (here / target / f"{i:02}").write_bytes(head + draw.randbytes(n))

# Every request of a client, with a graph of random tensors at the end.
for target in ("rpc_server", "rpc_client"):
    (here / target).mkdir(parents=True, exist_ok=True)
sizes = [12, 4, 4, 8, 8, 9, 305, 312, 312, 592, 916, 4, 296, 3260, 24, 0, 12, 313, 328, 328, 80, 300, 4]
for i in range(12):
    some = draw.sample(range(23), 5) + [10, 16]
    requests = b"".join(bytes([c]) + (draw.randbytes(sizes[c]) if i % 2 else bytes(sizes[c])) for c in some if c not in (13, 14))
    (here / "rpc_server" / f"{i:02}").write_bytes(requests[:4096])
# A server's replies: right ones (255), and wrong ones. The first byte selects the address.
for name, data in {"right": b"\2", "large": b"\1", "known": b"\1" + b"\xff" * 60 + b"\1" * 20}.items():
    (here / "rpc_client" / name).write_bytes(data)
for i in range(12):
    answers = bytearray(b"\xff" * 120)
    for at in draw.sample(range(120), 3):
        answers[at] = draw.randrange(10)
    (here / "rpc_client" / f"{i:02}").write_bytes(bytes([4 * i + 2]) + answers)

# Requests one after the other, each with its number and as many bytes as it has without data; 224 and more: with all
# the remaining bytes; 255: an endpoint.
own = random.Random(2)
(here / "rpc_message").mkdir(parents=True, exist_ok=True)
graph = struct.pack("<IQIQI", 0, 1, 1, 7, 3) + bytes(3 * 296)
messages = {"graph": bytes([10]) + graph, "name": b"\xfflocalhost:50052", "address": b"\xff[::1]:50052"}
for i, size in enumerate(sizes):
    messages[f"{i:02}"] = bytes([i]) + own.randbytes(size)
messages["all"] = b"".join(bytes([i]) + bytes(size) for i, size in enumerate(sizes) if i not in (10, 13))
for name, data in messages.items():
    (here / "rpc_message" / name).write_bytes(data)
