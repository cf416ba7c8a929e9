#!/usr/bin/env python3
"""Fetches a newer software driver for Vulkan than many systems have: that of Mesa 26, which has cooperative matrices, with the validation
layers and every library that they need, the C library too, as Debian's unstable suite has them. Nothing is installed.

usage: fetch_mesa.py DIR

Afterwards `DIR/run PROGRAM ARGUMENT ...` starts a program with them. Packages are checked against the sums of Debian's lists; what is in DIR
already is kept.
"""
import io
import lzma
import os
import platform
import shutil
import sys
import tarfile

sys.dont_write_bytecode = True
from fetch import die, download, get, sha256

MIRROR = os.environ.get("DEBIAN_MIRROR", "https://deb.debian.org/debian").rstrip("/")
# Of a package that is in several, the last one has it. Mesa 26.1 (suite "testing" in November 2026) has the matrices, too, but ends programs whose
# shaders GPU-assisted validation looks into: it reads the layers' descriptors where none are bound.
SUITES = os.environ.get("DEBIAN_SUITES", "sid").split()
WANTED = ("mesa-vulkan-drivers", "libvulkan1", "vulkan-validationlayers", "libstdc++6", "libgomp1")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
RUN = f"""#!/bin/sh
# Starts a program with the libraries and the Vulkan driver of this folder; those of LD_LIBRARY_PATH come first.
here=$(cd "$(dirname "$0")" && pwd)
export VK_DRIVER_FILES="$here/driver.json" VK_LAYER_PATH="$here/root/usr/share/vulkan/explicit_layer.d${{VK_LAYER_PATH:+:$VK_LAYER_PATH}}"
exec "$here/root/usr/lib64/ld-linux-x86-64.so.2" --library-path "${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$here/root/{LIBRARIES}" "$@"
"""


def packages():
    """Name of a package -> its fields."""
    found = {}
    for suite in SUITES:
        with get(f"{MIRROR}/dists/{suite}/main/binary-amd64/Packages.xz") as response:
            text = lzma.decompress(response.read()).decode()
        for paragraph in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in paragraph.split("\n") if ": " in line and line[0] != " ")
            if "Package" in fields:
                found[fields["Package"]] = fields
    return found


def closure(known):
    """The wanted packages and all that they need, the first one where there is a choice."""
    provided = {}
    for name, fields in known.items():
        for other in fields.get("Provides", "").split(","):
            provided.setdefault(other.strip().split(" ")[0], name)
    chosen, open_ = {}, list(WANTED)
    while open_:
        name = open_.pop()
        name = name if name in known else provided.get(name, name)
        # libc-bin and the like configure systems; nothing is configured here.
        if name in chosen or name not in known or not known[name].get("Filename", "").endswith(".deb"):
            continue
        chosen[name] = known[name]
        for kind in ("Depends", "Pre-Depends"):
            wants = known[name].get(kind, "").split(",")
            open_ += [w.split("|")[0].strip().split(" ")[0].split(":")[0] for w in wants if w.strip()]
    return chosen


def members(path):
    """Names and contents of an ar archive, which a package is."""
    with open(path, "rb") as f:
        if f.read(8) != b"!<arch>\n":
            die(f"{path} is no package")
        while head := f.read(60):
            size = int(head[48:58])
            yield head[:16].decode().strip().rstrip("/"), f.read(size)
            f.read(size % 2)


def unpack(path, root):
    for name, data in members(path):
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                safe = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
                tar.extractall(root, **safe)
            return
    die(f"{path} holds no files")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    folder = os.path.abspath(sys.argv[1])
    if platform.machine() != "x86_64":
        die("these packages are for x86-64")
    if os.path.exists(os.path.join(folder, "run")):
        return
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(os.path.join(part, "root"))
    try:
        chosen = closure(packages())
        for name in WANTED:
            if name not in chosen:
                die(f"{MIRROR} does not list {name}")
        total = sum(int(f["Size"]) for f in chosen.values())
        print(f"fetching Mesa {chosen['mesa-vulkan-drivers']['Version']} and what it needs: {len(chosen)} packages, {total >> 20} MB ...", flush=True)
        for name, fields in sorted(chosen.items()):
            path = os.path.join(part, name + ".deb")
            download(f"{MIRROR}/{fields['Filename']}", path)
            if sha256(path) != fields["SHA256"]:
                die(f"{name} is not the package that the list names")
            unpack(path, os.path.join(part, "root"))
            os.remove(path)
    except OSError as e:
        die(f"cannot fetch Mesa: {e}")
    with open(os.path.join(part, "driver.json"), "w") as f:
        f.write('{"file_format_version": "1.0.1", "ICD": {"library_path": "root/%s/libvulkan_lvp.so", "api_version": "1.4.0"}}\n' % LIBRARIES)
    with open(os.path.join(part, "run"), "w") as f:
        f.write(RUN)
    os.chmod(os.path.join(part, "run"), 0o755)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)


if __name__ == "__main__":
    main()
