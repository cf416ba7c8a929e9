"""The tag of the wheel: any Python 3, and the system that packaging/zig_cc.sh links for."""
import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        processor = (os.environ.get("CARGO_TARGET") or "x86_64").split("-")[0]
        build_data["tag"] = f"py3-none-manylinux_2_28_{processor}"
