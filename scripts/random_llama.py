#!/usr/bin/env python3
"""Writes a GGUF file of the llama architecture with random weights and the tokenizer of another GGUF file.

usage: random_llama.py VOCAB.gguf OUT.gguf f32|f16 [N_EMBD N_FF N_LAYER N_HEAD N_HEAD_KV [N_EXPERT N_EXPERT_USED]]

The same arguments give the same file. Python's standard library only: a weight is made of random bytes, the upper ones
looked up in a table of 256 normally distributed numbers.
"""
import math
import random
import statistics
import struct
import sys

U32, F32, STRING, ARRAY = 4, 6, 8, 9
TYPES = {"f32": 0, "f16": 1}
SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
ALIGN = 32


def text(s):
    return struct.pack("<Q", len(s)) + s


class Vocabulary:
    """The pairs of a GGUF file: key, and the bytes of type and value."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        magic, version, _, n_kv = struct.unpack_from("<4sIQQ", self.data)
        if magic != b"GGUF" or version not in (2, 3):
            sys.exit(f"random_llama: {path} is no GGUF file")
        self.at, self.pairs, self.n_tokens = 24, [], 0
        for _ in range(n_kv):
            key = self.string()
            start = self.at
            kind = self.number("<I")
            n = self.skip(kind)
            if key == b"tokenizer.ggml.tokens":
                self.n_tokens = n
            self.pairs.append((key, self.data[start:self.at]))

    def number(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def string(self):
        n = self.number("<Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, n = self.number("<I"), self.number("<Q")
            for _ in range(n if inner == STRING else 0):
                self.string()
            if inner != STRING:
                self.at += n * struct.calcsize("<" + SIZES[inner])
            return n
        else:
            self.at += struct.calcsize("<" + SIZES[kind])
        return 1


class Weights:
    """Random matrices: normally distributed with a given deviation."""

    def __init__(self, kind):
        self.random = random.Random(42)
        self.form, self.width = ("<f", 4) if kind == "f32" else ("<e", 2)

    def matrix(self, n, deviation):
        normal = statistics.NormalDist(0, deviation)
        table = [struct.pack(self.form, normal.inv_cdf((i + 0.5) / 256))[-2:] for i in range(256)]
        if self.width == 2:  # one byte of sign, exponent and two bits; then eight bits of fraction
            out = bytearray(self.random.randbytes(2 * n))
            out[1::2] = out[1::2].translate(bytes(t[1] for t in table))
        else:  # sixteen bits from the table; then sixteen bits of fraction
            out = bytearray(self.random.randbytes(4 * n))
            index = bytes(out[3::4])
            out[2::4] = index.translate(bytes(t[0] for t in table))
            out[3::4] = index.translate(bytes(t[1] for t in table))
        return bytes(out)

    def around_one(self, n):
        return struct.pack(f"<{n}f", *(1 + 0.1 * self.random.gauss(0, 1) for _ in range(n)))


def main():
    if len(sys.argv) not in (4, 9, 11) or sys.argv[3] not in TYPES:
        sys.exit(__doc__.strip())
    vocabulary, out, kind = Vocabulary(sys.argv[1]), sys.argv[2], sys.argv[3]
    embd, ff, layers, heads, heads_kv = map(int, sys.argv[4:9]) if len(sys.argv) > 4 else (256, 704, 4, 4, 2)
    experts = tuple(map(int, sys.argv[9:]))
    kv = embd * heads_kv // heads
    n_vocab = vocabulary.n_tokens

    pairs = [p for p in vocabulary.pairs if p[0].startswith(b"tokenizer.")]
    pairs.append((b"general.architecture", struct.pack("<I", STRING) + text(b"llama")))
    pairs.append((b"general.name", struct.pack("<I", STRING) + text(b"random llama %dx%d" % (embd, layers))))
    for name, value in (("context_length", 2048), ("embedding_length", embd), ("feed_forward_length", ff),
                        ("block_count", layers), ("attention.head_count", heads), ("attention.head_count_kv", heads_kv),
                        ("rope.dimension_count", embd // heads), ("vocab_size", n_vocab),
                        *zip(("expert_count", "expert_used_count"), experts)):
        pairs.append((b"llama." + name.encode(), struct.pack("<II", U32, value)))
    pairs.append((b"llama.attention.layer_norm_rms_epsilon", struct.pack("<If", F32, 1e-5)))
    pairs.append((b"general.file_type", struct.pack("<II", U32, TYPES[kind])))

    # (name, shape innermost first, deviation; None: a norm's weights)
    tensors = [("token_embd", (embd, n_vocab), 0.5), ("output_norm", (embd,), None), ("output", (embd, n_vocab), 0.7 / embd**0.5)]
    for i in range(layers):
        exps, each = ("_exps", experts[:1]) if experts else ("", ())
        router = [("ffn_gate_inp", (embd, *each))] if experts else []
        for name, shape in (("attn_norm", (embd,)), ("attn_q", (embd, embd)), ("attn_k", (embd, kv)), ("attn_v", (embd, kv)),
                            ("attn_output", (embd, embd)), ("ffn_norm", (embd,)), *router, ("ffn_gate" + exps, (embd, ff, *each)),
                            ("ffn_up" + exps, (embd, ff, *each)), ("ffn_down" + exps, (ff, embd, *each))):
            tensors.append((f"blk.{i}.{name}", shape, 0.7 / shape[0]**0.5 if len(shape) > 1 else None))

    weights = Weights(kind)
    info, offset, sizes = b"", 0, []
    for name, shape, deviation in tensors:
        n = math.prod(shape)
        size = n * (weights.width if deviation else 4)
        info += text(name.encode() + b".weight") + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        info += struct.pack("<IQ", TYPES[kind] if deviation else 0, offset)
        sizes.append((n, size))
        offset += -(-size // ALIGN) * ALIGN
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(text(k) + v for k, v in pairs) + info
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for (_, _, deviation), (n, size) in zip(tensors, sizes):
            f.write(weights.matrix(n, deviation) if deviation else weights.around_one(n))
            f.write(b"\0" * (-size % ALIGN))


if __name__ == "__main__":
    main()
