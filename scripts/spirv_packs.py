"""The SPIR-V modules of the packs in src/vulkan/spirv, which `make shaders` writes."""
import array
import lzma
import os

# Where an instruction has ids that a pack stores as distances from the last result (src/vulkan/shaders/id_deltas.rs):
# the word of its result, or 0, and the words of its operands, from one up to another. A wrong line makes modules that
# spirv-val refuses, and that no library has.
END = 1 << 16
SHAPES = {op: (0, 0, 0) for op in (*range(54), 71, 72, 332)}
SHAPES.update({op: (1, 0, 0) for op in (11, *range(19, 40), 248, 4456)})
SHAPES.update({op: (2, 0, 0) for op in (*range(41, 53), 54, 59)})
SHAPES.update({op: (0, 1, END) for op in (56, 63, 224, 225, 249, 251, 253, 254, 255)})
SHAPES.update({12: (2, 5, END), 62: (0, 1, 3), 246: (0, 1, 3), 247: (0, 1, 2), 250: (0, 1, 4), 4458: (0, 1, 6)})


def absolute(data):
    """A module with ids instead of distances."""
    words = array.array("I", data)
    last, at = 0, 5
    while at < len(words):
        n = max(words[at] >> 16, 1)
        result, first, end = SHAPES.get(words[at] & 0xffff, (2, 3, END))
        following = last
        for i in range(at + 1, min(at + n, len(words))):
            if i - at == result or first <= i - at < end:
                words[i] = last - words[i] & 0xffffffff
                if i - at == result:
                    following = words[i]
        last = following
        at += n
    return words.tobytes()


def modules(root):
    """All modules by name."""
    found = {}
    folder = os.path.join(root, "src/vulkan/spirv")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pack"):
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            body = lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(data[data.index(b"\n\n") + 2:])
            at = 0
            while at < len(body):
                n = body[at]
                size = 4 * int.from_bytes(body[at + 1 + n:at + 5 + n], "little")
                found[body[at + 1:at + 1 + n].decode()] = absolute(body[at + 5 + n:at + 5 + n + size])
                at += 5 + n + size
    return found
