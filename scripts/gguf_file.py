"""Reads and writes GGUF files with any alignment, for tests: by the description of the format, and without this library
or the original.

A file is pairs {key: the bytes of type and value} and tensors {name: (dimensions, type, bytes)}, of F32, F16, Q4_0,
Q8_0 and I32."""
import io
import math
import struct

ALIGNMENT = b"general.alignment"
# Types of values; 8 is a text, 9 an array.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
F32, F16, Q4_0, Q8_0, I32 = 0, 1, 2, 8, 26
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), I32: (1, 4)} # values and bytes
DEFAULT = 32 # what a file without ALIGNMENT is aligned to


class Reader(io.BytesIO):
    def take(self, n):
        at, data = self.tell(), self.read(n)
        if len(data) < n:
            raise ValueError(f"{n} bytes at {at} are behind the end of the file")
        return data

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == TEXT:
            self.text()
        elif kind == ARRAY:
            kind, n = self.number("i"), self.number("Q")
            for _ in range(n):
                self.skip_value(kind)
        else:
            self.number(NUMBERS[kind])


def padded(n, alignment):
    return -(-n // alignment) * alignment


def size(dims, kind):
    """The bytes of a tensor."""
    values, size = BLOCKS[kind]
    return math.prod(dims) // values * size


def read(path):
    with open(path, "rb") as f:
        r = Reader(f.read())
    if r.take(4) != b"GGUF":
        raise ValueError(f"{path} is no GGUF file")
    r.number("I")
    n_tensors, n_pairs = r.number("Q"), r.number("Q")
    pairs, described = {}, []
    for _ in range(n_pairs):
        key, begin = r.text(), r.tell()
        r.skip_value(r.number("i"))
        pairs[key] = r.getbuffer()[begin:r.tell()].tobytes()
    for _ in range(n_tensors):
        name = r.text()
        dims = [r.number("q") for _ in range(r.number("I"))]
        described.append((name, dims, r.number("i"), r.number("Q")))
    alignment = struct.unpack("<iI", pairs[ALIGNMENT])[1] if ALIGNMENT in pairs else DEFAULT
    start, tensors = padded(r.tell(), alignment), {}
    for name, dims, kind, offset in described:
        if offset % alignment != 0:
            raise ValueError(f"{name!r} is at {offset}, which is no multiple of {alignment}")
        r.seek(start + offset)
        tensors[name] = (dims, kind, r.take(size(dims, kind)))
    return pairs, tensors


def numbers(path, tensor):
    """The numbers of an F32 tensor."""
    return memoryview(read(path)[1][tensor][2]).cast("f")


def text(data):
    return struct.pack("<Q", len(data)) + data


def value(v):
    """The type and the bytes of a value: int is u32, and a list has texts or i32."""
    if isinstance(v, list):
        items = [value(i) for i in v] if isinstance(v[0], str) else [struct.pack("<ii", 5, i) for i in v]
        return struct.pack("<i", ARRAY) + items[0][:4] + struct.pack("<Q", len(v)) + b"".join(i[4:] for i in items)
    if isinstance(v, str):
        return struct.pack("<i", TEXT) + text(v.encode())
    kind = 7 if isinstance(v, bool) else 4 if isinstance(v, int) else 6
    return struct.pack("<i" + NUMBERS[kind], kind, v)


def values(pairs):
    """Pairs of a file from {key: value} in Python's types."""
    return {key.encode(): value(v) for key, v in pairs.items()}


def write(path, pairs, tensors, alignment=None):
    """A file with this alignment, or with the format's own if there is none. The bytes of a tensor may be a function
    that makes them."""
    pairs = {key: v for key, v in pairs.items() if key != ALIGNMENT} | ({ALIGNMENT: value(alignment)} if alignment else {})
    alignment = alignment or DEFAULT
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(pairs)), *(text(key) + v for key, v in pairs.items())]
    offset = 0
    for name, (dims, kind, _) in tensors.items():
        head.append(text(name) + struct.pack(f"<I{len(dims)}qiQ", len(dims), *dims, kind, offset))
        offset += padded(size(dims, kind), alignment)
    with open(path, "wb") as f:
        for piece in (b"".join(head), *(data for _, _, data in tensors.values())):
            piece = piece() if callable(piece) else piece
            f.write(piece)
            f.write(bytes(padded(len(piece), alignment) - len(piece)))
