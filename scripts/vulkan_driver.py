#!/usr/bin/env python3
"""Mesa's driver for Vulkan in software, as programs get it here: vulkan_driver.py [old]

Prints the path of its library if that can be loaded. old: only its version if it is too old for tests ("22.3.6"), and
nothing otherwise. Versions before 25 end long loops early (src/vulkan/device/workarounds.rs), and the one of Debian 12
compiles some pipelines for minutes."""
import ctypes
import glob
import json
import os
import re
import subprocess
import sys

TESTED_FROM = 25


def library():
    """The path of its library, from the descriptions that Vulkan's loader reads; None if there is none."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    for description in named.split(":") if named else sorted(glob.glob("/etc/vulkan/icd.d/*.json") + glob.glob("/usr/share/vulkan/icd.d/*.json")):
        if not os.path.isfile(description):
            continue
        with open(description, encoding="utf-8") as f:
            path = json.load(f)["ICD"]["library_path"]
        if "/" in path:
            path = os.path.join(os.path.dirname(description), path)
        else:
            listed = subprocess.run(["ldconfig", "-p"], env=dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin"), capture_output=True, text=True).stdout
            path = next(iter(re.findall(rf"{re.escape(path)} .*=> (.*)", listed)), "")
        if "lvp" in os.path.basename(path) and os.path.isfile(path):
            return path
    return None


def main():
    path = library()
    if path and sys.argv[1:] == ["old"]:
        with open(path, "rb") as f:
            version = re.search(rb"Mesa ((\d+)\.[0-9.]*)", f.read())
        if version and int(version[2]) < TESTED_FROM:
            print(version[1].decode())
    elif path:
        ctypes.CDLL(path)
        print(path)


if __name__ == "__main__":
    main()
