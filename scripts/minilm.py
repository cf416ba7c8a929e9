"""The sentence-embedding model all-MiniLM-L6-v2 as a BERT GGUF file of f32 numbers, from its files of safetensors.
Needs Python's standard library only."""
import json
import os
import struct

import gguf_file
from fetch import die

FILES = ("config.json", "vocab.txt", "model.safetensors")
# Our name of a part -> that of safetensors; the parts of each layer.
EMBEDDINGS = {"token_embd.weight": "word_embeddings.weight", "position_embd.weight": "position_embeddings.weight",
              "token_types.weight": "token_type_embeddings.weight", "token_embd_norm.weight": "LayerNorm.weight", "token_embd_norm.bias": "LayerNorm.bias"}
PARTS = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
         "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
# The keys of the tokenizer are spelled like this everywhere.
SPECIAL = {"unknown": "[UNK]", "seperator": "[SEP]", "padding": "[PAD]", "cls": "[CLS]", "mask": "[MASK]", "bos": "[CLS]", "eos": "[SEP]"}


def safetensors(path):
    """Name -> (shape, bytes) of the F32 tensors of a file: the length of a JSON header in the first 8 bytes, the
    header, then raw little-endian data."""
    with open(path, "rb") as f:
        data = memoryview(f.read())
    start = 8 + struct.unpack_from("<Q", data)[0]
    entries = json.loads(bytes(data[8:start]))
    entries.pop("__metadata__", None)
    return {name: (e["shape"], data[start:][slice(*e["data_offsets"])]) for name, e in entries.items() if e["dtype"] == "F32"}


def vocabulary(path, size):
    """The ids of words, the tokens in the form that hosts expect ("##x" becomes "x", a word start gets U+2581), and
    their types."""
    with open(path, encoding="utf-8") as f:
        words = f.read().removesuffix("\n").split("\n")
    if len(words) != size:
        die(f"{path}: {len(words)} words, config.json says {size}")
    control = [len(w) > 2 and w.startswith("[") and w.endswith("]") for w in words]
    tokens = [w if c else w[2:] if w.startswith("##") else "\u2581" + w for w, c in zip(words, control)]
    return {w: i for i, w in enumerate(words)}, tokens, [3 if c else 1 for c in control]


def convert(folder, out):
    """Writes the model of a folder with FILES to `out`."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    ids, tokens, types = vocabulary(os.path.join(folder, "vocab.txt"), config["vocab_size"])
    # Pooling type 1 is the mean.
    bert = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
            "block_count": config["num_hidden_layers"], "attention.head_count": config["num_attention_heads"],
            "attention.layer_norm_epsilon": config["layer_norm_eps"], "attention.causal": False, "pooling_type": 1}
    tokenizer = {"model": "bert", "pre": "jina-v2-en", "tokens": tokens, "token_type": types, "token_type_count": config.get("type_vocab_size", 2),
                 **{f"{name}_token_id": ids[word] for name, word in SPECIAL.items()}}
    pairs = {"general.architecture": "bert", "general.name": "all-MiniLM-L6-v2", **{f"bert.{k}": v for k, v in bert.items()}, "general.file_type": 0,
             **{f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()}}

    weights = safetensors(os.path.join(folder, "model.safetensors"))
    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    names = {name: f"embeddings.{theirs}" for name, theirs in EMBEDDINGS.items()}
    names |= {f"blk.{layer}.{name}.{s}": f"encoder.layer.{layer}.{part}.{s}" for layer in range(config["num_hidden_layers"])
              for name, part in PARTS.items() for s in ("weight", "bias")}
    if missing := [theirs for theirs in names.values() if prefix + theirs not in weights]:
        die(f"{folder}: there are no F32 tensors named {', '.join(missing)}")
    # GGUF lists the fastest dimension first, safetensors last.
    tensors = {name.encode(): (weights[prefix + theirs][0][::-1], gguf_file.F32, weights[prefix + theirs][1]) for name, theirs in names.items()}
    gguf_file.write(out, gguf_file.values(pairs), tensors)
    print(f"{out}: {len(tensors)} tensors, {os.path.getsize(out)} bytes")
