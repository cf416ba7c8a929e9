#!/bin/sh
# The C compiler and linker of the packages (scripts/dist.sh): zig's, which links for glibc 2.28 wherever it runs. Takes
# the arguments of cargo, of the crate cc and of our scripts. ZIG is the folder of the Python package ziglang.
set -eu
for argument; do
    shift
    case $argument in
        # Cargo's name for the target below.
        --target=x86_64-unknown-linux-gnu) continue ;;
        # Exceptions of a host pass the library, so the process must have one unwinder, that of the system. For this
        # name zig would link a static one of its own.
        -lgcc_s) argument=$(cc -print-file-name=libgcc_s.so.1) ;;
        # Zig knows only that for functions and data; of data the library exports only its own tables.
        -Wl,-Bsymbolic-functions) argument=-Wl,-Bsymbolic ;;
    esac
    set -- "$@" "$argument"
done
# The libgcc_s of this system may itself need a newer glibc.
exec "${ZIG:?}/zig" cc -target x86_64-linux-gnu.2.28 -Wl,--allow-shlib-undefined -Wl,--build-id=sha1 "$@"
