"""Writes GGUF files of the llama architecture with random weights, and LoRA adapters for them.

usage: random_llama.py VOCAB.gguf OUT.gguf f32|f16|q4_0|q8_0
           [N_EMBD N_FF N_LAYER N_HEAD N_HEAD_KV [N_EXPERT N_EXPERT_USED]]

VOCAB.gguf has the tokenizer. The same arguments give the same file. A weight is made of random bytes, the upper ones
looked up in a table of 256 normally distributed numbers. Blocks of Q4_0 and Q8_0 have random values, all equally
probable, and scales that differ by a few per cent; vectors and routers are F32.
"""
import math
import random
import statistics
import struct
import sys

import gguf_file

TYPES = {"f32": gguf_file.F32, "f16": gguf_file.F16, "q4_0": gguf_file.Q4_0, "q8_0": gguf_file.Q8_0}
# llama.cpp's numbers for whole files, where they are not those of the type; deviations of random blocks of scale 1
FILES = {"q8_0": 7}
BLOCKS = {"q4_0": 4.61, "q8_0": 73.9}
SHAPE = (256, 704, 4, 4, 2)


class Weights:
    """Random matrices: normally distributed with a given deviation."""

    def __init__(self, kind):
        self.random = random.Random(42)
        self.kind = kind
        self.form, self.width = ("<f", 4) if kind == "f32" else ("<e", 2)

    def blocks(self, shape, deviation):
        size = gguf_file.BLOCKS[TYPES[self.kind]][1]
        out = bytearray(self.random.randbytes(gguf_file.size(shape, TYPES[self.kind])))
        # The upper byte of a scale; the lower one has bits of its fraction.
        out[1::size] = struct.pack("<e", deviation / BLOCKS[self.kind])[1:] * (len(out) // size)
        return out

    def matrix(self, shape, deviation):
        if self.kind in BLOCKS:
            return self.blocks(shape, deviation)
        normal = statistics.NormalDist(0, deviation)
        table = [struct.pack(self.form, normal.inv_cdf((i + 0.5) / 256))[-2:] for i in range(256)]
        low, high = (bytes(t[i] for t in table) for i in (0, 1))
        out = bytearray(self.random.randbytes(self.width * math.prod(shape)))
        if self.width == 4: # sixteen bits from the table; then sixteen bits of fraction
            out[2::4] = out[3::4].translate(low)
        # Of two bytes: sign, exponent and two bits from the table; then eight bits of fraction.
        out[self.width - 1::self.width] = out[self.width - 1::self.width].translate(high)
        return bytes(out)

    def around_one(self, shape):
        return struct.pack(f"<{shape[0]}f", *(1 + 0.1 * self.random.gauss(0, 1) for _ in range(shape[0])))


def layer(embd, ff, heads, heads_kv, *experts):
    """Shapes of a layer's weights, the dimension that changes fastest first."""
    kv, exps, each = embd * heads_kv // heads, "_exps" if experts else "", experts[:1]
    return {"attn_norm": (embd,), "attn_q": (embd, embd), "attn_k": (embd, kv), "attn_v": (embd, kv), "attn_output": (embd, embd), "ffn_norm": (embd,),
            **({"ffn_gate_inp": (embd, *each)} if experts else {}),
            f"ffn_gate{exps}": (embd, ff, *each), f"ffn_up{exps}": (embd, ff, *each), f"ffn_down{exps}": (ff, embd, *each)}


def llama(out, vocabulary, kind, *shape):
    embd, ff, layers, heads, heads_kv, *experts = shape or SHAPE
    pairs = {key: value for key, value in gguf_file.read(vocabulary)[0].items() if key.startswith(b"tokenizer.")}
    n_vocab = struct.unpack_from("<iiQ", pairs[b"tokenizer.ggml.tokens"])[2]
    sizes = {"context_length": 2048, "embedding_length": embd, "feed_forward_length": ff, "block_count": layers, "attention.head_count": heads,
             "attention.head_count_kv": heads_kv, "rope.dimension_count": embd // heads, "vocab_size": n_vocab,
             **dict(zip(("expert_count", "expert_used_count"), experts)), "attention.layer_norm_rms_epsilon": 1e-5}
    pairs |= gguf_file.values({"general.architecture": "llama", "general.name": f"random llama {embd}x{layers}",
                               **{f"llama.{name}": n for name, n in sizes.items()}, "general.file_type": FILES.get(kind, TYPES[kind])})

    shapes = {"token_embd": (embd, n_vocab), "output_norm": (embd,), "output": (embd, n_vocab)}
    shapes |= {f"blk.{i}.{name}": shape for i in range(layers) for name, shape in layer(embd, ff, heads, heads_kv, *experts).items()}
    weights, floats = Weights(kind), Weights("f32")

    def tensor(name, shape): # its bytes are made when they are written: a model may be larger than the memory
        if len(shape) == 1:
            return shape, gguf_file.F32, lambda: weights.around_one(shape)
        deviation = 0.5 if name == "token_embd" else 0.7 / shape[0]**0.5
        if kind in BLOCKS and name.endswith("ffn_gate_inp"):
            return shape, gguf_file.F32, lambda: floats.matrix(shape, deviation)
        return shape, TYPES[kind], lambda: weights.matrix(shape, deviation)

    gguf_file.write(out, pairs, {f"{name}.weight".encode(): tensor(name, shape) for name, shape in shapes.items()})


def lora(out, kind, rank):
    """An adapter for a model of the usual shape."""
    embd, ff, layers, heads, heads_kv = SHAPE
    weights, tensors = Weights(kind), {}
    matrices = {name: shape for name, shape in layer(embd, ff, heads, heads_kv).items() if len(shape) == 2}
    for i in range(layers):
        for name, (inputs, outputs) in matrices.items():
            for part, shape in (("a", (inputs, rank)), ("b", (rank, outputs))):
                tensors[f"blk.{i}.{name}.weight.lora_{part}".encode()] = (shape, TYPES[kind], weights.matrix(shape, 0.3 / shape[0]**0.5))
    gguf_file.write(out, gguf_file.values({"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                                           "adapter.lora.alpha": 2.0 * rank}), tensors)


if __name__ == "__main__":
    vocabulary, out, kind, *shape = sys.argv[1:]
    llama(out, vocabulary, kind, *map(int, shape))
