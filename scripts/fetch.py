#!/usr/bin/env python3
"""Fetches what the tests compare with and unpacks it: the original ggml 0.26.0 and llama.cpp. Nothing is installed.

usage: fetch.py DIR

Afterwards DIR/ggml holds the original's sources (crate llama-cpp-sys-2 0.1.161 of crates.io) and DIR/llama.cpp a whole
llama.cpp tree (source distribution llama-cpp-python 0.3.36 of PyPI). Both archives are checked against the sums below;
ones that are already in DIR are reused, so they may also be put there by hand.
"""
import glob
import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

CRATE = "llama-cpp-sys-2-0.1.161.crate"
CRATE_URL = "https://static.crates.io/crates/llama-cpp-sys-2/" + CRATE
CRATE_SHA = "e9bea77fde41bbc15a278891cd5edd2ba07c5260d162614b41080ba1f100b39b"
SDIST = "llama_cpp_python-0.3.36.tar.gz"
SDIST_INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/llama-cpp-python/"
SDIST_SHA = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def die(message):
    sys.exit("fetch: " + message)


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if sys.version_info >= (3, 11) else slow_sha256(f)


def slow_sha256(f):
    h = hashlib.sha256()
    for block in iter(lambda: f.read(1 << 20), b""):
        h.update(block)
    return h.hexdigest()


def get(url, headers=None):
    roots = [os.environ.get("SSL_CERT_FILE"), os.environ.get("PIP_CERT"), "/etc/ssl/certs/ca-certificates.crt"]
    roots = [r for r in roots if r and os.path.exists(r)]
    context = ssl.create_default_context(cafile=roots[0] if roots else None)
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=180, context=context)


def download(url, path):
    with get(url) as response, open(path + ".part", "wb") as out:
        size = int(response.headers.get("Content-Length") or 0)
        done, shown = 0, 0
        for block in iter(lambda: response.read(1 << 20), b""):
            out.write(block)
            done += len(block)
            if size and done * 10 // size > shown:
                shown = done * 10 // size
                print(f"  {shown * 10}% of {size >> 20} MB", flush=True)
    os.replace(path + ".part", path)


def fetch_crate(path):
    """From cargo's own cache, from crates.io, or by cargo where only cargo knows the way (mirrors)."""
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    cached = lambda: glob.glob(os.path.join(home, "registry/cache/*", CRATE))
    if not cached():
        try:
            return download(CRATE_URL, path)
        except OSError as e:
            print(f"  {e}; trying cargo", flush=True)
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "Cargo.toml"), "w") as f:
                f.write('[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
                        '[dependencies]\nllama-cpp-sys-2 = "=0.1.161"\n')
            open(os.path.join(work, "lib.rs"), "w").close()
            subprocess.run(["cargo", "fetch", "--quiet"], cwd=work, check=False)
    if cached():
        shutil.copy(cached()[0], path)


def fetch_sdist(path):
    import html.parser
    import urllib.parse

    found = []

    class Links(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            href = dict(attrs).get("href", "")
            if tag == "a" and href.split("#")[0].endswith("/" + SDIST):
                found.append(urllib.parse.urljoin(SDIST_INDEX, href.split("#")[0]))

    with get(SDIST_INDEX, {"Accept": "text/html"}) as page:
        Links().feed(page.read().decode())
    if not found:
        die(f"{SDIST_INDEX} does not list {SDIST}")
    download(found[0], path)


def have(root, name, sha, fetch):
    path = os.path.join(root, name)
    if os.path.exists(path) and sha256(path) != sha:
        print(f"{path} is damaged; fetching it again")
        os.remove(path)
    if not os.path.exists(path):
        print(f"fetching {name} ...", flush=True)
        try:
            fetch(path)
        except OSError as e:
            die(f"cannot fetch {name}: {e}\n  (no network?) put it into {root} by hand and run this again")
    if not os.path.exists(path) or sha256(path) != sha:
        die(f"{name} could not be fetched, or is not the file whose sum is known ({sha})")
    return path


def unpack(archive, inside, target):
    """The folder `inside` of an archive, as `target`; whole or not at all."""
    if os.path.isdir(target):
        return
    print(f"unpacking {os.path.basename(target)} ...", flush=True)
    part = target + ".part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as tar:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(part, [m for m in tar.getmembers() if m.name.startswith(inside + "/")], **safe)
    os.rename(os.path.join(part, inside), target)
    shutil.rmtree(part)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    crate = have(root, CRATE, CRATE_SHA, fetch_crate)
    sdist = have(root, SDIST, SDIST_SHA, fetch_sdist)
    unpack(crate, "llama-cpp-sys-2-0.1.161/llama.cpp/ggml", os.path.join(root, "ggml"))
    unpack(sdist, "llama_cpp_python-0.3.36/vendor/llama.cpp", os.path.join(root, "llama.cpp"))
    # The crate leaves this template out; the original's build wants it.
    pc = os.path.join(root, "ggml", "ggml.pc.in")
    if not os.path.exists(pc):
        with open(pc, "w") as f:
            f.write("Name: ggml\nDescription: the original, for tests\nVersion: @GGML_VERSION@\n")


if __name__ == "__main__":
    main()
