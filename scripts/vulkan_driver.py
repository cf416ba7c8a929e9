#!/usr/bin/env python3
"""Mesa's driver for Vulkan in software, as programs get it here: vulkan_driver.py

Prints its version if it is too old for tests ("22.3.6"), and fails if there is none that can be loaded. Versions before
25 end long loops early (src/vulkan/device/workarounds.rs), and the one of Debian 12 compiles some pipelines for
minutes."""
import contextlib
import ctypes
import glob
import json
import os
import re
import sys
from pathlib import Path

TESTED_FROM = 25


def library():
    """Loads it: the path of its library, from the descriptions that Vulkan's loader reads; None if there is none."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    descriptions = named.split(":") if named else sorted(glob.glob("/etc/vulkan/icd.d/*.json") + glob.glob("/usr/share/vulkan/icd.d/*.json"))
    for description in filter(Path.is_file, map(Path, descriptions)):
        path = json.loads(description.read_text(encoding="utf-8"))["ICD"]["library_path"]
        if "lvp" in path:
            with contextlib.suppress(OSError): # one of another architecture
                ctypes.CDLL(str(description.parent / path) if "/" in path else path)
                return re.search(r"(/.*lvp.*)", Path("/proc/self/maps").read_text(encoding="utf-8"))[1]
    return None


if __name__ == "__main__":
    path = library() or sys.exit(1)
    version = re.search(rb"Mesa ((\d+)\.[0-9.]*)", Path(path).read_bytes())
    if version and int(version[2]) < TESTED_FROM:
        print(version[1].decode())
