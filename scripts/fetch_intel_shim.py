#!/usr/bin/env python3
"""Builds Mesa's no-op kernel device for Intel's cards (libintel_noop_drm_shim.so), which Debian does not package. Nothing is installed.

usage: fetch_intel_shim.py DIR

apt fetches Mesa's source as scripts/fetch_mesa.py fetches packages; DEBIAN_SUITES="trixie sid" names the suites to try. pip fetches meson and what it needs
to a folder that is removed afterwards. The packages gcc, bison, flex, ninja-build, pkg-config, dpkg-dev, libdrm-dev, libexpat1-dev and zlib1g-dev must
be installed. The device need not be of the version of the drivers. What is in DIR already is kept.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from fetch import die, locked, quiet_ending
from fetch_mesa import configure, mirror, output

SUITES = os.environ.get("DEBIAN_SUITES", "sid trixie").split()
SHIM = "libintel_noop_drm_shim.so"
TARGET = "src/intel/tools/" + SHIM
OPTIONS = ["-Dtools=drm-shim,intel", "-Dbuildtype=release", "-Dvulkan-drivers=", "-Dgallium-drivers=", "-Dplatforms=", "-Dopengl=false",
           *(f"-D{name}=disabled" for name in ("glx", "egl", "gbm", "gles1", "gles2", "llvm", "zstd", "shader-cache"))]


def source(work, uri):
    """The folder of Mesa's source, from the first suite that has it: not every repository keeps the sources of all its packages."""
    for suite in SUITES:
        state = os.path.join(work, suite)
        config = configure(state, uri, [suite], "deb-src", "Sources")
        folder = os.path.join(state, "mesa")
        env = dict(os.environ, APT_CONFIG=config, LC_ALL="C")
        quiet = {"cwd": state, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        print(f"fetching the source of Mesa from {suite} ...", flush=True)
        if (subprocess.run(["apt-get", "-qq", "update"], **quiet).returncode == 0
                and subprocess.run(["apt-get", "-qq", "source", "--download-only", "mesa"], **quiet).returncode == 0):
            description = next(name for name in os.listdir(state) if name.endswith(".dsc"))
            output(["dpkg-source", "--no-check", "--extract", os.path.join(state, description), folder])
            return folder
    die("no repository of this system has the source of Mesa")


def build(folder, work):
    python = os.path.join(work, "python")
    output([sys.executable, "-m", "venv", python])
    output([os.path.join(python, "bin/pip"), "install", "--quiet", "meson", "mako", "pyyaml", "packaging", "setuptools"])
    os.environ["PATH"] = os.path.join(python, "bin") + ":" + os.environ["PATH"]
    print("building Intel's no-op kernel device (two minutes) ...", flush=True)
    out = os.path.join(work, "build")
    output(["meson", "setup", out, folder, *OPTIONS])
    output(["ninja", "-C", out, TARGET])
    return os.path.join(out, TARGET)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    folder = os.path.abspath(sys.argv[1])
    with locked(folder):
        if os.path.exists(os.path.join(folder, SHIM)):
            return
        for tool in ("apt-get", "dpkg-source", "bison", "flex", "ninja", "pkg-config"):
            if not shutil.which(tool):
                die(f"{tool} is missing, so Intel's no-op kernel device cannot be built")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
            os.chmod(work, 0o755) # apt that runs as root fetches as a user without rights
            shutil.copy(build(source(work, mirror()), work), os.path.join(work, SHIM))
            os.replace(os.path.join(work, SHIM), os.path.join(folder, SHIM))


if __name__ == "__main__":
    quiet_ending(main)
