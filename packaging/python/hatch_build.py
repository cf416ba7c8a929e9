"""The tag of the wheel: any Python 3, and the system that packaging/zig_cc.sh links for."""
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_2_28_x86_64"
