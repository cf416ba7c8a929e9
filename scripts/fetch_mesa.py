#!/usr/bin/env python3
"""Fetches newer drivers for Vulkan than many systems have: those of Mesa 26, whose software driver has cooperative
matrices, with the validation layers, Mesa's no-op kernel devices (drm-shim) and every library that they need, the C
library too, as Debian's unstable suite has them. Nothing is installed, and root is not needed.

usage: fetch_mesa.py DIR [intel]

Afterwards `DIR/run PROGRAM ARGUMENT ...` starts a program with the software driver. With MESA_DRIVER=radeon (nouveau,
intel, freedreno, asahi), the program gets the driver of a card; MESA_SHIM=path of a library named *_noop_drm_shim.so,
which is preloaded, takes the place of the card. DIR/version is the version of Mesa. apt fetches the packages and checks
their signatures, in a state folder of its own below DIR, from the repository that this system takes its packages from.
What is in DIR already is kept.

`intel`: builds DIR/libintel_noop_drm_shim.so instead, the no-op kernel device for Intel's cards, which Debian does not
package, from Mesa's source in the first suite that has it. It need not be of the version of the drivers. The packages
gcc, bison, flex, pkg-config, dpkg-dev and python3-venv must be installed; pip fetches meson, ninja and what they need.

In the environment: DEBIAN_SUITES="sid" names the suites; of a package that is in several, the last one has it.
DEBIAN_MIRROR=URI names another repository; DEBIAN_PACKAGES="libvulkan-dev" fetches other packages, below DIR/root, in
the same way; DEBIAN_ARCHITECTURE=arm64: those for that processor, for which there is no `run`.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fetch import die, locked, quiet_ending

# Mesa 26.1 (suite "testing" in November 2026) has the matrices, too, but ends programs whose shaders GPU-assisted
# validation looks into: it reads the layers' descriptors where none are bound.
SUITES = os.environ.get("DEBIAN_SUITES", "sid").split()
PACKAGES = os.environ.get("DEBIAN_PACKAGES", "mesa-vulkan-drivers mesa-drm-shim libvulkan1 vulkan-validationlayers libstdc++6 libgomp1").split()
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHITECTURE = os.environ.get("DEBIAN_ARCHITECTURE", "amd64")
LIBRARIES = f"usr/lib/{dict(amd64='x86_64', arm64='aarch64')[ARCHITECTURE]}-linux-gnu"
RUN = f"""#!/bin/sh
# Starts a program with the libraries and the Vulkan driver of this folder; those of LD_LIBRARY_PATH come first.
here=$(cd "$(dirname "$0")" && pwd)
export VK_DRIVER_FILES="$here/driver.json" VK_LAYER_PATH="$here/root/usr/share/vulkan/explicit_layer.d${{VK_LAYER_PATH:+:$VK_LAYER_PATH}}"
[ -z "${{MESA_DRIVER:-}}" ] || VK_DRIVER_FILES="$here/root/usr/share/vulkan/icd.d/${{MESA_DRIVER}}_icd.json"
exec "$here/root/usr/lib64/ld-linux-x86-64.so.2" ${{MESA_SHIM:+--preload "$MESA_SHIM"}} --library-path "${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$here/root/{LIBRARIES}" "$@"
"""
DRIVER = '{"file_format_version": "1.0.1", "ICD": {"library_path": "root/%s/libvulkan_lvp.so", "api_version": "1.4.0"}}\n' % LIBRARIES
# For Intel's device: suites that may have the source, what it needs, and what of Mesa is built. The libraries are
# unpacked, not installed: the system may have other versions of them, beside which apt cannot install the headers.
SOURCE_SUITES = os.environ.get("DEBIAN_SUITES", "sid trixie").split()
NEEDED = "libdrm-dev libdrm2 libexpat1-dev libexpat1 zlib1g-dev zlib1g".split()
SHIM = "libintel_noop_drm_shim.so"
OPTIONS = ["-Dtools=drm-shim,intel", "-Dbuildtype=release", "-Dvulkan-drivers=", "-Dgallium-drivers=", "-Dplatforms=", "-Dopengl=false",
           *(f"-D{name}=disabled" for name in ("glx", "egl", "gbm", "gles1", "gles2", "llvm", "zstd", "shader-cache"))]


def output(command, folder=None, **variables):
    """Returns the output of a program that must succeed."""
    return subprocess.run(command, env=dict(os.environ, LC_ALL="C") | variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=True).stdout


def mirror():
    """The repository of the distribution itself among those that apt is configured to use."""
    if os.environ.get("DEBIAN_MIRROR"):
        return os.environ["DEBIAN_MIRROR"]
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        die("this system is not Debian: DEBIAN_MIRROR=URI names a repository of Debian whose keys apt trusts")
    lines = output(["apt-get", "indextargets", "--no-release-info", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"])
    main = [words for words in map(str.split, lines.splitlines()) if len(words) == 3 and words[1] == "main"]
    name = system.get("VERSION_CODENAME", "stable")
    # Others call their suites by Debian's names, too, but have no updates of them.
    for release in (name + "-updates", name, "stable", "testing", "unstable", "sid"):
        for words in main:
            if words[0] == release:
                return words[2]
    die("apt knows no repository of Debian here: DEBIAN_MIRROR=URI names one")


def configure(work, suites, *kinds):
    """Variables with which apt has everything of its own, except for the network and the keys that it trusts. Fetches
    the lists of what the suites have."""
    uri = mirror()
    print(f"fetching the lists of {' '.join(suites)} from {uri} ...", flush=True)
    for folder in ("etc/apt", "var/lib/apt/lists/partial", "var/lib/dpkg", "var/cache/apt/archives/partial"):
        (work / folder).mkdir(parents=True)
    keys = f" signed-by={KEYRING}" if os.path.exists(KEYRING) else ""
    (work / "etc/apt/sources.list").write_text("".join(f"{kind} [arch={ARCHITECTURE} target={target}{keys}] {uri} {suite} main\n" for suite in suites for kind, target in kinds))
    (work / "etc/apt/preferences").write_text("".join(f"Package: *\nPin: release {key}={suite}\nPin-Priority: {500 + n}\n\n"
                                                      for n, suite in enumerate(suites) for key in "an"))
    (work / "var/lib/dpkg/status").touch()
    # Settings of the network: proxies, certificates, whether a list may be old. Hooks and settings of the system's own
    # state stay out: no apt.conf, no apt.conf.d.
    network = [line for line in output(["apt-config", "dump", "Acquire"]).splitlines()
               if not re.match(r"Acquire::(IndexTargets|Languages)\b", line, re.I)]
    (work / "apt.conf").write_text("\n".join(network) + f"""
Dir "{work}";
Dir::State::status "{work}/var/lib/dpkg/status";
Dir::Etc::trusted "/etc/apt/trusted.gpg";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
APT::Architecture "{ARCHITECTURE}";
APT::Architectures {{ "{ARCHITECTURE}"; }};
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
""")
    config = {"APT_CONFIG": str(work / "apt.conf")}
    output(["apt-get", "-qq", "update"], **config)
    return config


def drivers(work):
    """The packages and everything they need."""
    config = configure(work, SUITES, ("deb", "Packages"))
    install = ["apt-get", "-qq", "-y", "--download-only", "install", *PACKAGES]
    found = [line.split() for line in output([*install, "--print-uris"], **config).splitlines() if line.startswith("'")]
    version = next((words[1].split("_")[1] for words in found if words[1].startswith(PACKAGES[0] + "_")), "?")
    size = sum(int(words[2]) for words in found)
    print(f"fetching Mesa {version} and what it needs: {len(found)} packages, {size >> 20} MB ...", flush=True)
    output(install, **config)
    for package in sorted(work.glob("var/cache/apt/archives/*.deb")):
        output(["dpkg-deb", "--extract", package, work / "root"])
    (work / "version").write_text(version + "\n")
    (work / "driver.json").write_text(DRIVER)
    (work / "run").write_text(RUN)
    (work / "run").chmod(0o755)


def source(work):
    """The folders of Mesa's source and of its libraries, from the first suite that has both: not every repository keeps
    the sources of all its packages."""
    for state in (work / suite for suite in SOURCE_SUITES):
        try:
            config = configure(state, [state.name], ("deb", "Packages"), ("deb-src", "Sources"))
            output(["apt-get", "-qq", "source", "--download-only", "mesa"], state, **config)
            output(["apt-get", "-qq", "download", *NEEDED], state, **config)
        except subprocess.CalledProcessError:
            continue
        for package in state.glob("*.deb"):
            output(["dpkg-deb", "--extract", package, state / "root"])
        output(["dpkg-source", "--no-check", "--extract", *state.glob("*.dsc"), state / "mesa"])
        return state / "mesa", state / "root"
    die("no repository of this system has the source of Mesa")


def intel(work):
    """Intel's no-op kernel device."""
    folder, root = source(work)
    python, build, target = work / "python", work / "build", f"src/intel/tools/{SHIM}"
    output([sys.executable, "-m", "venv", python])
    output([python / "bin/pip", "install", "--quiet", "meson", "ninja", "mako", "pyyaml", "packaging", "setuptools"])
    include, lib = f"-I{root}/usr/include", root / LIBRARIES
    variables = {"PATH": f"{python}/bin:{os.environ['PATH']}",
                 # Hides the libraries of the system, so that every system builds the same.
                 "PKG_CONFIG_LIBDIR": f"{lib}/pkgconfig:{root}/usr/share/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(root),
                 # pkg-config leaves out folders that it considers the compiler's own.
                 "CFLAGS": include, "CXXFLAGS": include, "LDFLAGS": f"-L{lib}"}
    print("building Intel's no-op kernel device (two minutes) ...", flush=True)
    output([python / "bin/meson", "setup", build, folder, *OPTIONS], **variables)
    output([python / "bin/ninja", "-C", build, target], **variables)
    shutil.copy(build / target, work / SHIM)


# What makes a folder, the programs that it takes, and the files. The last file shows that all of them exist.
KINDS = {"drivers": (drivers, "apt-get apt-config dpkg-deb", ("root", "version", "driver.json", "run")),
         "intel": (intel, "apt-get apt-config dpkg-deb dpkg-source bison flex pkg-config", (SHIM,))}


def fetch(folder, kind):
    make, tools, names = KINDS[kind]
    with locked(folder):
        last = folder / names[-1]
        if last.exists() and (kind == "intel" or last.read_text() == RUN):
            return
        for tool in tools.split():
            if not shutil.which(tool):
                die(f"{tool} is missing: Debian's packages are fetched with apt; on other systems give a driver of your own (VK_DRIVER_FILES)")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
            os.chmod(work, 0o755) # apt that runs as root fetches as a user without rights
            make(Path(work))
            shutil.rmtree(folder / "root", ignore_errors=True)
            for name in names:
                os.replace(Path(work, name), folder / name)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["intel"]):
        sys.exit(__doc__.strip())
    if platform.machine() != "x86_64":
        die("these packages are for x86-64")
    try:
        fetch(Path(sys.argv[1]).absolute(), *sys.argv[2:] or ["drivers"])
    except subprocess.CalledProcessError as e:
        sys.stderr.write("".join(f"  {line}\n" for line in e.stdout.strip().splitlines()[-8:]))
        die(f"{e.cmd[0]} failed, so Mesa could not be fetched (no network?)")
    except OSError as e:
        die(f"cannot fetch Mesa: {e}")


if __name__ == "__main__":
    quiet_ending(main)
