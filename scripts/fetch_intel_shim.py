#!/usr/bin/env python3
"""Builds Mesa's no-op kernel device for Intel's cards (libintel_noop_drm_shim.so), which Debian does not package.
Nothing is installed.

usage: fetch_intel_shim.py DIR

apt fetches Mesa's source, and the headers and libraries that it is built with, as scripts/fetch_mesa.py fetches
packages; DEBIAN_SUITES="trixie sid" names the suites to try. pip fetches meson, ninja and what they need. All of it
goes to a folder that is removed afterwards. The packages gcc, bison, flex, pkg-config, dpkg-dev and python3-venv must
be installed. The device need not be of the version of the drivers. What is in DIR already is kept.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from fetch import die, locked, quiet_ending
from fetch_mesa import LIBRARIES, configure, mirror, output

SUITES = os.environ.get("DEBIAN_SUITES", "sid trixie").split()
# Unpacked, not installed: the system may have other versions of these libraries, beside which apt cannot install the
# headers of its own.
LIBRARY_PACKAGES = ["libdrm-dev", "libdrm2", "libexpat1-dev", "libexpat1", "zlib1g-dev", "zlib1g"]
SHIM = "libintel_noop_drm_shim.so"
TARGET = "src/intel/tools/" + SHIM
OPTIONS = ["-Dtools=drm-shim,intel", "-Dbuildtype=release", "-Dvulkan-drivers=", "-Dgallium-drivers=", "-Dplatforms=", "-Dopengl=false",
           *(f"-D{name}=disabled" for name in ("glx", "egl", "gbm", "gles1", "gles2", "llvm", "zstd", "shader-cache"))]


def fetch(work, uri):
    """The folders of Mesa's source and of its libraries, from the first suite that has both: not every repository keeps
    the sources of all its packages."""
    for suite in SUITES:
        print(f"fetching the source of Mesa from {suite} ...", flush=True)
        state = os.path.join(work, suite)
        if (apt(os.path.join(state, "source"), uri, suite, ("deb-src", "Sources"), ["source", "--download-only", "mesa"])
                and apt(os.path.join(state, "libraries"), uri, suite, ("deb", "Packages"), ["download", *LIBRARY_PACKAGES])):
            folder, libraries = os.path.join(state, "mesa"), os.path.join(state, "root")
            output(["dpkg-source", "--no-check", "--extract", *glob.glob(os.path.join(state, "source/*.dsc")), folder])
            for package in glob.glob(os.path.join(state, "libraries/*.deb")):
                output(["dpkg-deb", "--extract", package, libraries])
            return folder, libraries
    die("no repository of this system has the source of Mesa")


def apt(state, uri, suite, kind, command):
    """Whether a command of apt-get succeeds, which fetches into the folder `state`."""
    os.makedirs(state)
    env = dict(os.environ, APT_CONFIG=configure(state, uri, [suite], *kind), LC_ALL="C")
    return all(subprocess.run(["apt-get", "-qq", *words], cwd=state, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
               for words in (["update"], command))


def build(folder, libraries, work):
    python = os.path.join(work, "python")
    output([sys.executable, "-m", "venv", python])
    output([os.path.join(python, "bin/pip"), "install", "--quiet", "meson", "ninja", "mako", "pyyaml", "packaging", "setuptools"])
    usr, lib = os.path.join(libraries, "usr"), os.path.join(libraries, LIBRARIES)
    os.environ.update(
        PATH=os.path.join(python, "bin") + ":" + os.environ["PATH"],
        # Hides the libraries of the system, so that every system builds the same.
        PKG_CONFIG_LIBDIR=f"{lib}/pkgconfig:{usr}/share/pkgconfig", PKG_CONFIG_SYSROOT_DIR=libraries,
        # pkg-config leaves out folders that it considers the compiler's own.
        CFLAGS=f"-I{usr}/include", CXXFLAGS=f"-I{usr}/include", LDFLAGS=f"-L{lib}")
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
        for tool in ("apt-get", "dpkg-source", "dpkg-deb", "bison", "flex", "pkg-config"):
            if not shutil.which(tool):
                die(f"{tool} is missing, so Intel's no-op kernel device cannot be built")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
            os.chmod(work, 0o755) # apt that runs as root fetches as a user without rights
            shutil.copy(build(*fetch(work, mirror()), work), os.path.join(work, SHIM))
            os.replace(os.path.join(work, SHIM), os.path.join(folder, SHIM))


if __name__ == "__main__":
    quiet_ending(main)
