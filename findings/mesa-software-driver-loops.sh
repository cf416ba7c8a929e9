#!/usr/bin/env bash
# Mesa's software driver for Vulkan (lavapipe) 22.3.6, Debian 12's, ends the loops of a shader after 65,535 iterations,
# without an error: a loop that counts to 100,000 counts to 65,535. Mesa 25.0.7 and 26.2.6 count to the end. This
# library is not used: the shader runs with wgpu 0.19.3 from PyPI.
#
# Seen 2026-11-27 on Debian 12: expected [1000, 65534, 65535, 65536, 100000], done [1000, 65534, 65535, 65535, 65535]
#
# Fails if this changes, or if the packages cannot be had. Needs Debian 12 on x86-64 with libvulkan1 and the libraries
# of mesa-vulkan-drivers, and python3-venv. Nothing is installed outside of a temporary folder.
set -eu
mesa=22.3.6-1+deb12u2 wgpu=0.19.3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download "mesa-vulkan-drivers=$mesa" 2> apt.log || { cat apt.log; exit 1; }
dpkg-deb -x mesa-vulkan-drivers_*.deb root
echo "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"api_version\": \"1.3.0\", \"library_path\": \"$work/root/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so\"}}" > driver.json
python3 -m venv python
python/bin/pip -q install "wgpu==$wgpu"
cat > loop.py << 'PYTHON'
from array import array
from wgpu.utils import get_default_device
from wgpu.utils.compute import compute_with_buffers

SHADER = """
@group(0) @binding(0) var<storage, read> wanted: array<u32>;
@group(0) @binding(1) var<storage, read_write> done: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var n = 0u;
    // The memory is zero, so each iteration adds 1; the compiler does not know that.
    for (var i = 0u; i < wanted[id.x]; i++) { n += 1u + done[id.x]; }
    done[id.x] = n;
}
"""
wanted = [1000, 65534, 65535, 65536, 100000]
inputs = {0: memoryview(array("I", wanted)), 1: memoryview(array("I", [0] * len(wanted)))}
done = compute_with_buffers(inputs, {1: (len(wanted), "I")}, SHADER, n=len(wanted))[1].tolist()
driver = get_default_device().adapter.info["description"]
print(f"{driver}: wanted {wanted}, done {done}")
assert "Mesa 22.3.6" in driver, "another driver"
assert done == [min(n, 65535) for n in wanted], "the behaviour has changed"
PYTHON
VK_DRIVER_FILES=$work/driver.json VK_ICD_FILENAMES=$work/driver.json NODEVICE_SELECT=1 python/bin/python loop.py 2> python.log || { tail -n 5 python.log; exit 1; }
