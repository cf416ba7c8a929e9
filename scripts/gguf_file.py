"""Reads and writes GGUF files with any alignment, for tests: by the description of the format, and without this library
or the original."""
import struct

ALIGNMENT = b"general.alignment"
# Of the types of values; 8 is a text, 9 an array.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
BLOCKS = {0: (1, 4), 1: (1, 2), 8: (32, 34)} # of F32, F16 and Q8_0: values and bytes


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError(f"{n} bytes at {self.at} are behind the end of the file, {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            kind, n = self.number("i"), self.number("Q")
            for _ in range(n):
                self.skip_value(kind)
        else:
            self.take(SIZES[kind])


def padded(n, alignment):
    return -(-n // alignment) * alignment


def read(path):
    """The pairs {key: the bytes of type and value} and the tensors {name: (dimensions, type, bytes)} of a file of F32,
    F16 and Q8_0."""
    with open(path, "rb") as f:
        r = Reader(f.read())
    if r.take(4) != b"GGUF":
        raise ValueError(f"{path} is no GGUF file")
    r.number("I")
    n_tensors, n_pairs = r.number("Q"), r.number("Q")
    pairs, described = {}, []
    for _ in range(n_pairs):
        key, at = r.text(), r.at
        r.skip_value(r.number("i"))
        pairs[key] = r.data[at:r.at]
    for _ in range(n_tensors):
        name = r.text()
        dims = [r.number("q") for _ in range(r.number("I"))]
        described.append((name, dims, r.number("i"), r.number("Q")))
    alignment = struct.unpack("<iI", pairs[ALIGNMENT])[1] if ALIGNMENT in pairs else 32
    start, tensors = padded(r.at, alignment), {}
    for name, dims, kind, offset in described:
        values, size = BLOCKS[kind]
        for n in dims[1:]:
            size *= n
        if offset % alignment != 0:
            raise ValueError(f"{name!r} is at {offset}, which is no multiple of {alignment}")
        r.at = start + offset
        tensors[name] = (dims, kind, r.take(dims[0] // values * size))
    return pairs, tensors


def text(data):
    return struct.pack("<Q", len(data)) + data


def write(path, pairs, tensors, alignment=None):
    """A file with the pairs and tensors of `read`, and with this alignment; without one, the format's own."""
    pairs = {key: value for key, value in pairs.items() if key != ALIGNMENT}
    if alignment:
        pairs[ALIGNMENT] = struct.pack("<iI", 4, alignment)
    alignment = alignment or 32
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(pairs))]
    head += [text(key) + value for key, value in pairs.items()]
    offset = 0
    for name, (dims, kind, data) in tensors.items():
        head.append(text(name) + struct.pack(f"<I{len(dims)}qiQ", len(dims), *dims, kind, offset))
        offset += padded(len(data), alignment)
    with open(path, "wb") as f:
        for piece in (b"".join(head), *(data for _, _, data in tensors.values())):
            f.write(piece + bytes(padded(len(piece), alignment) - len(piece)))
