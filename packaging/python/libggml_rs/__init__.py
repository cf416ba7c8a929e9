"""libggml-rs: ggml rewritten in Rust. The functions return the folders of its files, for programs that are built with
it. `python -m libggml_rs` puts it into programs that have a ggml of their own.

The package has no bindings: programs and other packages load the libraries, or are linked to them.
"""
import os

__all__ = ["get_prefix", "get_bin", "get_lib", "get_include", "get_cmake_dir", "get_pkgconfig_dir"]


def get_prefix():
    """The folder with bin, include and lib, for CMAKE_PREFIX_PATH."""
    return os.path.dirname(os.path.abspath(__file__))


def get_bin():
    """The folder of ggml-info and ggml-rpc-server."""
    return os.path.join(get_prefix(), "bin")


def get_lib():
    """The folder of the shared libraries: libggml.so.0, libggml-base.so.0 and those of the backends."""
    return os.path.join(get_prefix(), "lib")


def get_include():
    """The folder of the headers."""
    return os.path.join(get_prefix(), "include")


def get_cmake_dir():
    """The folder of ggml-config.cmake, for ggml_DIR."""
    return os.path.join(get_lib(), "cmake", "ggml")


def get_pkgconfig_dir():
    """The folder of ggml.pc, for PKG_CONFIG_PATH."""
    return os.path.join(get_lib(), "pkgconfig")
