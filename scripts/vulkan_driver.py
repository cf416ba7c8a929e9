#!/usr/bin/env python3
"""Lists the Vulkan drivers that programs get here: a line for each device, with its kind (cpu for software drivers),
its name and its driver.

usage: vulkan_driver.py [old]

old: only the version of Mesa's software driver if programs get one that is too old for tests ("22.3.6"), and nothing
otherwise. Versions before 25 end long loops early (src/vulkan/device/workarounds.rs), and the one of Debian 12 compiles some
pipelines for minutes.
"""
import ctypes
import re
import subprocess
import sys

TESTED_FROM = 25
KINDS = {1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}


class ApplicationInfo(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("name", ctypes.c_char_p), ("version", ctypes.c_uint32),
                ("engine", ctypes.c_char_p), ("engine_version", ctypes.c_uint32), ("api", ctypes.c_uint32)]


class InstanceCreateInfo(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("flags", ctypes.c_uint32), ("application", ctypes.c_void_p),
                ("n_layers", ctypes.c_uint32), ("layers", ctypes.c_void_p), ("n_extensions", ctypes.c_uint32), ("extensions", ctypes.c_void_p)]


class DriverProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("id", ctypes.c_int), ("name", ctypes.c_char * 256),
                ("info", ctypes.c_char * 256), ("conformance", ctypes.c_uint8 * 4)]


class DeviceProperties(ctypes.Structure):
    # Only the beginning of VkPhysicalDeviceProperties has names here; all of it has less than 1024 bytes.
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("api", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("vendor", ctypes.c_uint32), ("device", ctypes.c_uint32), ("kind", ctypes.c_int), ("name", ctypes.c_char * 256),
                ("rest", ctypes.c_uint8 * 1024)]


def devices():
    """Kind, name and driver of each device."""
    vulkan = ctypes.CDLL("libvulkan.so.1")
    application = ApplicationInfo(type=0, api=(1 << 22) | (2 << 12))
    create = InstanceCreateInfo(type=1, application=ctypes.addressof(application))
    instance = ctypes.c_void_p()
    if vulkan.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance)) != 0:
        return []
    n = ctypes.c_uint32()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(n), None)
    found = (ctypes.c_void_p * max(n.value, 1))()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(n), found)
    result = []
    for device in found[:n.value]:
        driver = DriverProperties(type=1000196000)
        properties = DeviceProperties(type=1000059001, next=ctypes.addressof(driver))
        vulkan.vkGetPhysicalDeviceProperties2(ctypes.c_void_p(device), ctypes.byref(properties))
        text = f"{driver.name.decode(errors='replace')} {driver.info.decode(errors='replace')}"
        result.append((KINDS.get(properties.kind, "other"), properties.name.decode(errors="replace"), text))
    vulkan.vkDestroyInstance(instance, None)
    return result


def main():
    if sys.argv[1:] == ["here"]:
        for device in devices():
            print("\t".join(device))
        return
    if sys.argv[1:] not in ([], ["old"]):
        sys.exit(__doc__.strip())
    # In a process of its own: a driver that ends it counts as none.
    try:
        lines = subprocess.run([sys.executable, __file__, "here"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return
    if lines.returncode != 0:
        return
    if not sys.argv[1:]:
        print(lines.stdout, end="")
        return
    # Tests use the first software driver.
    driver = next((line.split("\t")[2] for line in lines.stdout.splitlines() if line.startswith("cpu\t")), "")
    version = re.search(r"\bMesa (\d+)[0-9.]*", driver)
    if version and int(version[1]) < TESTED_FROM:
        print(version[0].split()[1])


if __name__ == "__main__":
    main()
