#!/usr/bin/env python3
"""Turns the sentence-embedding model all-MiniLM-L6-v2 (safetensors) into a BERT GGUF file. Python's standard library
only.

usage: minilm_to_gguf.py MODEL_DIR OUT.gguf [f32|f16]

MODEL_DIR holds config.json, vocab.txt and model.safetensors. With f16 (the default) the two-dimensional weights of the
layers and the token embedding are stored as half precision. Vectors and the position and type embeddings stay f32, as
hosts expect of a BERT file.
"""
import json
import os
import struct
import sys
import time

ALIGN = 32
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
GGML_F32, GGML_F16 = 0, 1

# safetensors name of a layer's part -> GGUF name
LAYER_PARTS = (
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
)


def die(message):
    sys.exit("minilm_to_gguf: " + message)


class Progress:
    """A line on stderr about the current work, and how long the rest may take. On a terminal it changes four times a
    second; elsewhere a new one comes every ten."""

    def __init__(self):
        self.begun = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.before, self.after = ("\r\033[K", "") if self.terminal else ("", "\n")

    def say(self, what, done, of):
        now = time.monotonic()
        if now - self.shown < (0.25 if self.terminal else 10):
            return
        self.shown = now
        left = f", {(now - self.begun) / done * (of - done):.0f} s left" if done else ""
        print(f"{self.before}{what} tensor {done + 1} of {of}{left}", end=self.after, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print(self.before, end="", file=sys.stderr, flush=True)


class Safetensors:
    """The tensors of one .safetensors file: a JSON header (length in the first 8 bytes), then raw little-endian
    data."""

    def __init__(self, path):
        self.path = path
        size = os.path.getsize(path)
        with open(path, "rb") as f:
            raw = f.read(8)
            if len(raw) != 8:
                die(f"{path}: too short to be a safetensors file")
            (n,) = struct.unpack("<Q", raw)
            if n > size - 8:
                die(f"{path}: the header says {n} bytes, the file has {size}")
            try:
                self.entries = json.loads(f.read(n))
            except ValueError as e:
                die(f"{path}: the header is not JSON ({e})")
        self.entries.pop("__metadata__", None)
        self.base = 8 + n
        self.size = size

    def __contains__(self, name):
        return name in self.entries

    def load(self, name):
        """Returns the shape, and the data as bytes of f32."""
        if name not in self.entries:
            die(f"{self.path}: no tensor named {name}")
        e = self.entries[name]
        begin, end = e["data_offsets"]
        if not 0 <= begin <= end or self.base + end > self.size:
            die(f"{self.path}: {name} lies outside the file (is the download complete?)")
        with open(self.path, "rb") as f:
            f.seek(self.base + begin)
            data = f.read(end - begin)
        count = 1
        for d in e["shape"]:
            count *= d
        if e["dtype"] == "F16":
            data = struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", data))
        elif e["dtype"] == "BF16":
            data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, 2 * count, 2))
        elif e["dtype"] != "F32":
            die(f"{self.path}: {name} has the unsupported type {e['dtype']}")
        if len(data) != 4 * count:
            die(f"{self.path}: {name} has {len(data)} bytes for {count} values")
        return e["shape"], data


def to_f16(data):
    out = []
    step = 1 << 16
    for i in range(0, len(data), 4 * step):
        part = data[i:i + 4 * step]
        n = len(part) // 4
        out.append(struct.pack(f"<{n}e", *struct.unpack(f"<{n}f", part)))
    return b"".join(out)


def gguf_string(s):
    b = s.encode("utf-8")
    return struct.pack("<Q", len(b)) + b


class Gguf:
    """Collects and writes a GGUF version 3 file: key/value pairs, then tensors."""

    def __init__(self):
        self.kv = []
        self.tensors = []

    def put(self, key, kind, payload):
        self.kv.append(gguf_string(key) + struct.pack("<I", kind) + payload)

    def u32(self, key, v):
        self.put(key, U32, struct.pack("<I", v))

    def f32(self, key, v):
        self.put(key, F32, struct.pack("<f", v))

    def boolean(self, key, v):
        self.put(key, BOOL, struct.pack("<B", 1 if v else 0))

    def string(self, key, v):
        self.put(key, STRING, gguf_string(v))

    def strings(self, key, vs):
        self.put(key, ARRAY, struct.pack("<IQ", STRING, len(vs)) + b"".join(map(gguf_string, vs)))

    def i32s(self, key, vs):
        self.put(key, ARRAY, struct.pack("<IQ", I32, len(vs)) + struct.pack(f"<{len(vs)}i", *vs))

    def tensor(self, name, shape, kind, data):
        self.tensors.append((name, shape, kind, data))

    def write(self, path):
        head = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.kv))] + self.kv
        offset = 0
        for name, shape, kind, data in self.tensors:
            # GGUF lists the fastest dimension first, safetensors last
            head.append(gguf_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)))
            head.append(struct.pack("<IQ", kind, offset))
            offset += -(-len(data) // ALIGN) * ALIGN
        head = b"".join(head)
        tmp = path + ".part"
        with open(tmp, "wb") as f:
            f.write(head + b"\0" * (-len(head) % ALIGN))
            progress = Progress()
            for n, (_, _, _, data) in enumerate(self.tensors):
                progress.say("writing", n, len(self.tensors))
                f.write(data + b"\0" * (-len(data) % ALIGN))
        progress.end()
        os.replace(tmp, path)  # a broken run leaves no half file under the final name


def read_vocab(path, size):
    """Reads vocab.txt. Returns the tokens as hosts expect them ("##x" becomes "x", a word start gets U+2581), and token
    types."""
    with open(path, encoding="utf-8") as f:
        words = f.read().split("\n")
    if words and words[-1] == "":
        words.pop()
    if len(words) != size:
        die(f"{path}: {len(words)} words, config.json says {size}")
    tokens, types = [], []
    for w in words:
        if len(w) > 2 and w.startswith("[") and w.endswith("]"):
            tokens.append(w)
            types.append(3)  # control
            continue
        tokens.append(w[2:] if w.startswith("##") else "\u2581" + w)
        types.append(1)  # normal
    return words, tokens, types


def convert(src, out, ftype):
    for name in ("config.json", "vocab.txt", "model.safetensors"):
        if not os.path.isfile(os.path.join(src, name)):
            die(f"{src}: {name} is missing")
    with open(os.path.join(src, "config.json"), encoding="utf-8") as f:
        cfg = json.load(f)
    weights = Safetensors(os.path.join(src, "model.safetensors"))
    words, tokens, types = read_vocab(os.path.join(src, "vocab.txt"), cfg["vocab_size"])
    ids = {w: i for i, w in enumerate(words)}
    for special in ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"):
        if special not in ids:
            die(f"the vocabulary has no {special}")

    g = Gguf()
    g.string("general.architecture", "bert")
    g.string("general.name", "all-MiniLM-L6-v2")
    g.u32("bert.context_length", cfg["max_position_embeddings"])
    g.u32("bert.embedding_length", cfg["hidden_size"])
    g.u32("bert.feed_forward_length", cfg["intermediate_size"])
    g.u32("bert.block_count", cfg["num_hidden_layers"])
    g.u32("bert.attention.head_count", cfg["num_attention_heads"])
    g.f32("bert.attention.layer_norm_epsilon", cfg["layer_norm_eps"])
    g.boolean("bert.attention.causal", False)
    g.u32("bert.pooling_type", 1)  # mean
    g.u32("general.file_type", 1 if ftype == "f16" else 0)
    g.string("tokenizer.ggml.model", "bert")
    g.string("tokenizer.ggml.pre", "jina-v2-en")
    g.strings("tokenizer.ggml.tokens", tokens)
    g.i32s("tokenizer.ggml.token_type", types)
    g.u32("tokenizer.ggml.token_type_count", cfg.get("type_vocab_size", 2))
    g.u32("tokenizer.ggml.unknown_token_id", ids["[UNK]"])
    g.u32("tokenizer.ggml.seperator_token_id", ids["[SEP]"])  # the key is spelled like this everywhere
    g.u32("tokenizer.ggml.padding_token_id", ids["[PAD]"])
    g.u32("tokenizer.ggml.cls_token_id", ids["[CLS]"])
    g.u32("tokenizer.ggml.mask_token_id", ids["[MASK]"])
    g.u32("tokenizer.ggml.bos_token_id", ids["[CLS]"])
    g.u32("tokenizer.ggml.eos_token_id", ids["[SEP]"])

    progress, of = Progress(), len(weights.entries)

    def put(name, source):
        progress.say("converting", len(g.tensors), of)
        shape, data = weights.load(source)
        half = ftype == "f16" and len(shape) == 2 and not name.startswith(("position", "token_types"))
        g.tensor(name, shape, GGML_F16 if half else GGML_F32, to_f16(data) if half else data)

    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    put("token_embd.weight", prefix + "embeddings.word_embeddings.weight")
    put("position_embd.weight", prefix + "embeddings.position_embeddings.weight")
    put("token_types.weight", prefix + "embeddings.token_type_embeddings.weight")
    put("token_embd_norm.weight", prefix + "embeddings.LayerNorm.weight")
    put("token_embd_norm.bias", prefix + "embeddings.LayerNorm.bias")
    for layer in range(cfg["num_hidden_layers"]):
        for part, short in LAYER_PARTS:
            for s in ("weight", "bias"):
                put(f"blk.{layer}.{short}.{s}", f"{prefix}encoder.layer.{layer}.{part}.{s}")
    progress.end()
    g.write(out)
    print(f"{out}: {len(g.tensors)} tensors, {os.path.getsize(out)} bytes, {ftype}")


def main():
    if len(sys.argv) not in (3, 4) or (len(sys.argv) == 4 and sys.argv[3] not in ("f32", "f16")):
        sys.exit(__doc__.strip())
    convert(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "f16")


if __name__ == "__main__":
    main()
