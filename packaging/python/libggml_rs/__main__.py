"""python -m libggml_rs: prints a folder of the package, or is ggml-info."""
import os
import sys

import libggml_rs

FOLDERS = {
    "--prefix": libggml_rs.get_prefix,
    "--bindir": libggml_rs.get_bin,
    "--libdir": libggml_rs.get_lib,
    "--includedir": libggml_rs.get_include,
    "--cmake-dir": libggml_rs.get_cmake_dir,
    "--pkgconfig-dir": libggml_rs.get_pkgconfig_dir,
}


def run(name, arguments):
    """Becomes a program of the package."""
    program = os.path.join(libggml_rs.get_bin(), name)
    os.execv(program, [program] + arguments)


def info():
    run("ggml-info", sys.argv[1:])


def rpc_server():
    run("ggml-rpc-server", sys.argv[1:])


def main():
    arguments = sys.argv[1:]
    if arguments and all(a in FOLDERS for a in arguments):
        print("\n".join(FOLDERS[a]() for a in arguments))
        return
    if arguments in (["--help"], ["-h"]):
        print("usage: python -m libggml_rs " + " | ".join(FOLDERS) + "    prints a folder of this package\n"
              "       python -m libggml_rs ...    everything else is for ggml-info:\n", flush=True)
    info()


if __name__ == "__main__":
    main()
