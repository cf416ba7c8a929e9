#!/usr/bin/env python3
"""Fetches and unpacks the sources that the tests compare with: the original ggml 0.28.0 and two trees of llama.cpp.
Nothing is installed.

usage: fetch.py DIR [former | whisper | diffusion]

Afterwards DIR/ggml holds the original's sources and DIR/llama-new llama.cpp 0.8.0, both from one crate; DIR/llama.cpp
holds an older llama.cpp whole, with its tests and its server, and DIR/llama_cpp the Python package above it, from a
source distribution. With `former`, DIR/ggml-former is ggml 0.26.0, whose modules must be refused; with `whisper`,
DIR/whisper.cpp is a whisper.cpp that was written for ggml 0.9; with `diffusion`, DIR/stable-diffusion.cpp is one with
its ggml 0.12.0.
cargo and pip fetch them as this machine configures them. Archives are checked against the sums below; those that are
already in DIR are reused, so they may also be put there by hand."""
import contextlib
import fcntl
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

CRATE = ("llama-cpp-sys-4", "0.11.0", "814738cddce0c910aa0f5192fd9d3e2ff7e447453e66326dd2f5df7f1375aea3")
FORMER = ("llama-cpp-sys-2", "0.1.161", "e9bea77fde41bbc15a278891cd5edd2ba07c5260d162614b41080ba1f100b39b")
WHISPER = ("whisper-rs-sys", "0.15.0", "6986c0fe081241d391f09b9a071fbcbb59720c3563628c3c829057cf69f2a56f")
DIFFUSION = ("diffusion-rs-sys", "0.1.20", "1947b40e9b457a11baef32b105b5047227911ac48ae050e5828c5980e6a12af4")
SDIST = ("llama-cpp-python", "0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")


def die(message):
    sys.exit("fetch: " + message)


def is_whole(path, digest):
    """Whether a file has this sum; None: any will do."""
    with open(path, "rb") as f:
        return digest in (None, hashlib.sha256(f.read()).hexdigest())


@contextlib.contextmanager
def locked(root):
    """One process at a time fetches into a folder. The others wait, and then find its files."""
    os.makedirs(root, exist_ok=True)
    with open(os.path.join(root, ".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that fetches into {root} ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def quiet_ending(main):
    """Runs main; Ctrl-C and SIGTERM end with one line instead of a traceback, after all private folders are removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("fetch: interrupted; nothing half fetched is left, run it again")


def client(command, work):
    """Runs cargo or pip, which show how far they are. Returns what it says when it fails, which is also shown."""
    try:
        # pip's temporary files go with the folder if it is stopped. Our output is for what was fetched.
        r = subprocess.run(command, cwd=work, env=dict(os.environ, TMPDIR=work), stdout=sys.stderr, stderr=subprocess.PIPE, text=True, errors="replace")
    except FileNotFoundError:
        die(f"{command[0]} is missing")
    if r.returncode == 0:
        return ""
    sys.stderr.write("".join("  " + line + "\n" for line in r.stderr.strip().splitlines()[-8:]))
    return r.stderr


def cause(name, version, said):
    """Why cargo or pip could not fetch a version, in a line; None if they do not say that the registry lacks it."""
    if "offline mode" in said:
        return "cargo is offline (CARGO_NET_OFFLINE or net.offline) and looked only at what it has fetched before"
    if f"no matching package named `{name}` found" in said:
        return f"there is no crate of the name {name}"
    versions = re.search(r"candidate versions found which didn't match: (.*)", said) or re.search(r"from versions: (?!none)(.*)\)", said)
    if not versions:
        return None
    # pip lists the oldest first, cargo the newest.
    listed = versions.group(1).split(", ")
    newest = ", ".join(listed if "candidate versions" in versions.group(0) else listed[:-4:-1])
    return f"{name} has no version {version}; the newest are {newest}"


def crate(work, name, version):
    """A crate's archive from cargo's cache, and why there is none. cargo fetches it as a dependency of a package."""
    cached = os.path.join(os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")), "registry/cache/*", f"{name}-{version}.crate")
    said = ""
    if not glob.glob(cached):
        with open(os.path.join(work, "Cargo.toml"), "w") as f:
            f.write('[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n'
                    f'[dependencies]\n{name} = "={version}"\n')
        open(os.path.join(work, "lib.rs"), "w").close()
        said = client(["cargo", "fetch", "--quiet"], work)
    return glob.glob(cached), cause(name, version, said)


def sdist(work, name, version):
    """A source distribution's archive, and why there is none. pip also prepares the build, which is not needed; the
    programs for that come built, or it would compile a whole CMake first."""
    said = client([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--no-binary", name,
                   "--dest", work, f"{name}=={version}"], work)
    return glob.glob(os.path.join(work, f"{name.replace('-', '_')}-{version}.tar.gz")), cause(name, version, said)


def archive(root, how, name, version, digest):
    """The checked archive of a package in root; `digest` is its sum, None when any will do."""
    path = os.path.join(root, f"{name}-{version}" + (".crate" if how is crate else ".tar.gz"))
    if os.path.exists(path) and not is_whole(path, digest):
        print(f"{path} is damaged; fetching it again")
        os.remove(path)
    if not os.path.exists(path):
        print(f"fetching {name} {version} ...", flush=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as work:
            found, why = how(work, name, version)
            if not found:
                why = why or f"(no network?) put {os.path.basename(path)} into {root} by hand and run this again"
                die(f"cannot fetch {name} {version}\n  {why}")
            shutil.copy(found[0], os.path.join(work, "whole"))
            os.replace(os.path.join(work, "whole"), path)
    if not is_whole(path, digest):
        die(f"{path} is not the file whose sum is known ({digest})")
    return path


def unpack(path, inside, target, without=()):
    """Unpacks a folder below the one that an archive has as `target`, whole or not at all. Replaces what an older
    archive left there."""
    archived, stamp = os.path.basename(path), os.path.join(target, ".unpacked-from")
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.read() == archived:
                return
    print(f"unpacking {os.path.basename(target)} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target), prefix=".unpack-") as work, tarfile.open(path) as tar:
        members = tar.getmembers()
        inside = f"{members[0].name.split('/')[0]}/{inside}"
        unwanted = tuple(f"{inside}/{w}/" for w in without)
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(work, [m for m in members if m.name.startswith(inside + "/") and not m.name.startswith(unwanted)], **safe)
        with open(os.path.join(work, inside, ".unpacked-from"), "w") as f:
            f.write(archived)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(os.path.join(work, inside), target)


def ggml(root, name=CRATE[0], version=CRATE[1], digest=CRATE[2], target="ggml"):
    """The tree of the original ggml that a llama-cpp-sys crate holds, as root/target."""
    path = archive(root, crate, name, version, digest)
    target = os.path.join(root, target)
    unpack(path, "llama.cpp/ggml", target)
    # The crates leave this template out, but the original's build needs it.
    pc = os.path.join(target, "ggml.pc.in")
    if not os.path.exists(pc):
        with open(pc, "w") as f:
            f.write("Name: ggml\nDescription: the original, for tests\nVersion: @GGML_VERSION@\n")
    return path


def usual(root):
    """The original and both trees of llama.cpp."""
    new = os.path.join(root, "llama-new")
    unpack(ggml(root), "llama.cpp", new, without=["ggml/include", "ggml/src"])
    # Folders that the crate leaves out and that its build files name.
    for folder in ("tools/ui", "app"):
        os.makedirs(os.path.join(new, folder), exist_ok=True)
        open(os.path.join(new, folder, "CMakeLists.txt"), "a").close()
    path = archive(root, sdist, *SDIST)
    unpack(path, "vendor/llama.cpp", os.path.join(root, "llama.cpp"))
    unpack(path, "llama_cpp", os.path.join(root, "llama_cpp"))


WAYS = {"usual": usual, "former": lambda root: ggml(root, *FORMER, target="ggml-former"),
        "whisper": lambda root: unpack(archive(root, crate, *WHISPER), "whisper.cpp", os.path.join(root, "whisper.cpp"), without=["ggml"]),
        "diffusion": lambda root: unpack(archive(root, crate, *DIFFUSION), "stable-diffusion.cpp", os.path.join(root, "stable-diffusion.cpp"))}


def main():
    what = sys.argv[2:] or ["usual"]
    if len(sys.argv) < 2 or len(what) > 1 or what[0] not in WAYS:
        sys.exit(__doc__.strip())
    root = os.path.abspath(sys.argv[1])
    with locked(root):
        WAYS[what[0]](root)


if __name__ == "__main__":
    quiet_ending(main)
