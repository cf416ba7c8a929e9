#!/usr/bin/env python3
"""Mesa's driver for Vulkan in software, as programs get it here: vulkan_driver.py

Prints its version if it is too old for tests ("22.3.6"), and fails if there is none that can be loaded. Versions before
25 end long loops early (src/vulkan/device/workarounds.rs), and the one of Debian 12 compiles some pipelines for
minutes."""
import ctypes
import glob
import json
import os
import re
import sys

TESTED_FROM = 25


def library():
    """Loads it: the path of its library, from the descriptions that Vulkan's loader reads; None if there is none."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    for description in named.split(":") if named else sorted(glob.glob("/etc/vulkan/icd.d/*.json") + glob.glob("/usr/share/vulkan/icd.d/*.json")):
        if not os.path.isfile(description):
            continue
        with open(description, encoding="utf-8") as f:
            path = json.load(f)["ICD"]["library_path"]
        if "lvp" not in path:
            continue
        try:
            ctypes.CDLL(os.path.join(os.path.dirname(description), path) if "/" in path else path)
        except OSError: # of another architecture
            continue
        with open("/proc/self/maps", encoding="utf-8") as f:
            return re.search(r"(/.*lvp.*)", f.read())[1]
    return None


if __name__ == "__main__":
    path = library() or sys.exit(1)
    with open(path, "rb") as f:
        version = re.search(rb"Mesa ((\d+)\.[0-9.]*)", f.read())
    if version and int(version[2]) < TESTED_FROM:
        print(version[1].decode())
