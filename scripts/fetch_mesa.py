#!/usr/bin/env python3
"""Fetches newer drivers for Vulkan than many systems have: those of Mesa 26, whose software driver has cooperative
matrices, with the validation layers, Mesa's no-op kernel devices (drm-shim) and every library that they need, the C
library too, as Debian's unstable suite has them. Nothing is installed, and root is not needed.

usage: fetch_mesa.py DIR

Afterwards `DIR/run PROGRAM ARGUMENT ...` starts a program with the software driver. With MESA_DRIVER=radeon (nouveau,
intel, freedreno, asahi), the program gets the driver of a card; MESA_SHIM=path of a library named *_noop_drm_shim.so,
which is preloaded, takes the place of the card. DIR/version is the version of Mesa. apt fetches the packages and checks
their signatures, in a state folder of its own below DIR, from the repository that this system takes its packages from.
What is in DIR already is kept.

In the environment: DEBIAN_SUITES="sid" names the suites; of a package that is in several, the last one has it.
DEBIAN_MIRROR=URI names another repository; DEBIAN_PACKAGES="libvulkan-dev" fetches other packages, below DIR/root, in
the same way.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from fetch import die, locked, quiet_ending

# Mesa 26.1 (suite "testing" in November 2026) has the matrices, too, but ends programs whose shaders GPU-assisted
# validation looks into: it reads the layers' descriptors where none are bound.
SUITES = os.environ.get("DEBIAN_SUITES", "sid").split()
PACKAGES = os.environ.get("DEBIAN_PACKAGES", "mesa-vulkan-drivers mesa-drm-shim libvulkan1 vulkan-validationlayers libstdc++6 libgomp1").split()
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
RUN = f"""#!/bin/sh
# Starts a program with the libraries and the Vulkan driver of this folder; those of LD_LIBRARY_PATH come first.
here=$(cd "$(dirname "$0")" && pwd)
export VK_DRIVER_FILES="$here/driver.json" VK_LAYER_PATH="$here/root/usr/share/vulkan/explicit_layer.d${{VK_LAYER_PATH:+:$VK_LAYER_PATH}}"
[ -z "${{MESA_DRIVER:-}}" ] || VK_DRIVER_FILES="$here/root/usr/share/vulkan/icd.d/${{MESA_DRIVER}}_icd.json"
exec "$here/root/usr/lib64/ld-linux-x86-64.so.2" ${{MESA_SHIM:+--preload "$MESA_SHIM"}} --library-path "${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$here/root/{LIBRARIES}" "$@"
"""
DRIVER = '{"file_format_version": "1.0.1", "ICD": {"library_path": "root/%s/libvulkan_lvp.so", "api_version": "1.4.0"}}\n' % LIBRARIES


def output(command, config=None):
    """Returns the output of a program. If it fails, ends with the end of its error output."""
    env = dict(os.environ, LC_ALL="C", **({"APT_CONFIG": config} if config else {}))
    r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if r.returncode != 0:
        sys.stderr.write("".join("  " + line + "\n" for line in r.stdout.strip().splitlines()[-8:]))
        die(f"{command[0]} failed, so Mesa could not be fetched (no network?)")
    return r.stdout


def mirror():
    """The repository of the distribution itself among those that apt is configured to use."""
    if os.environ.get("DEBIAN_MIRROR"):
        return os.environ["DEBIAN_MIRROR"]
    system = {}
    if os.path.exists("/etc/os-release"):
        with open("/etc/os-release", encoding="utf-8") as f:
            system = dict(line.rstrip("\n").replace('"', "").split("=", 1) for line in f if "=" in line)
    if system.get("ID") != "debian":
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


def configure(work, uri, suites=SUITES, kind="deb", target="Packages"):
    """A configuration under which apt has everything of its own, except for the network and the keys that it trusts."""
    for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
        os.makedirs(os.path.join(work, folder))
    keys = f" signed-by={KEYRING}" if os.path.exists(KEYRING) else ""
    with open(os.path.join(work, "etc/sources.list"), "w") as f:
        f.writelines(f"{kind} [arch=amd64 target={target}{keys}] {uri} {suite} main\n" for suite in suites)
    with open(os.path.join(work, "etc/preferences"), "w") as f:
        f.writelines(f"Package: *\nPin: release {key}={suite}\nPin-Priority: {500 + n}\n\n"
                     for n, suite in enumerate(suites) for key in "an")
    open(os.path.join(work, "state/status"), "w").close()
    # Settings of the network: proxies, certificates, whether a list may be old.
    network = [line for line in output(["apt-config", "dump", "Acquire"]).splitlines()
               if not re.match(r"Acquire::(IndexTargets|Languages)\b", line, re.I)]
    config = os.path.join(work, "apt.conf")
    with open(config, "w") as f:
        # Hooks and settings of the system's own state stay out: no apt.conf, no apt.conf.d.
        f.write("\n".join(network) + f"""
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{work}/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "{work}/etc/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{work}/state";
Dir::State::status "{work}/state/status";
Dir::Cache "{work}/cache";
Dir::Log "{work}";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
""")
    return config


def download(work):
    """Paths of the packages and of everything they need, and the version of the first."""
    uri = mirror()
    config = configure(work, uri)
    print(f"fetching the lists of {' '.join(SUITES)} from {uri} ...", flush=True)
    output(["apt-get", "-qq", "update"], config)
    install = ["apt-get", "-qq", "-y", "--download-only", "install", *PACKAGES]
    found = [line.split() for line in output([*install, "--print-uris"], config).splitlines() if line.startswith("'")]
    version = next((words[1].split("_")[1] for words in found if words[1].startswith(PACKAGES[0] + "_")), "?")
    size = sum(int(words[2]) for words in found)
    print(f"fetching Mesa {version} and what it needs: {len(found)} packages, {size >> 20} MB ...", flush=True)
    output(install, config)
    archives = os.path.join(work, "cache/archives")
    return [os.path.join(archives, name) for name in sorted(os.listdir(archives)) if name.endswith(".deb")], version


def complete(folder):
    """Whether all files exist, from this version of the script."""
    path = os.path.join(folder, "run")
    return os.path.exists(path) and open(path, encoding="utf-8").read() == RUN


def fetch(folder):
    with locked(folder):
        if complete(folder):
            return
        for tool in ("apt-get", "apt-config", "dpkg-deb"):
            if not shutil.which(tool):
                die(f"{tool} is missing: Debian's packages are fetched with apt; on other systems give a driver of your own (VK_DRIVER_FILES)")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
            os.chmod(work, 0o755) # apt that runs as root fetches as a user without rights
            packages, version = download(work)
            for package in packages:
                output(["dpkg-deb", "--extract", package, os.path.join(work, "root")])
            for name, text, mode in (("version", version + "\n", 0o644), ("driver.json", DRIVER, 0o644), ("run", RUN, 0o755)):
                with open(os.path.join(work, name), "w") as f:
                    f.write(text)
                os.chmod(os.path.join(work, name), mode)
            shutil.rmtree(os.path.join(folder, "root"), ignore_errors=True)
            for name in ("root", "version", "driver.json", "run"): # `run` shows that all is complete, so it comes last
                os.replace(os.path.join(work, name), os.path.join(folder, name))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    if platform.machine() != "x86_64":
        die("these packages are for x86-64")
    try:
        fetch(os.path.abspath(sys.argv[1]))
    except OSError as e:
        die(f"cannot fetch Mesa: {e}")


if __name__ == "__main__":
    quiet_ending(main)
