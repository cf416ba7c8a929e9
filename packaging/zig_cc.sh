#!/bin/sh
# The C compiler and linker of the packages (scripts/dist.sh): zig's, which links for glibc 2.28 wherever it runs. Takes
# the arguments of cargo, of the crate cc and of our scripts. ZIG is the folder of the Python package ziglang,
# ZIG_GLOBAL_CACHE_DIR that of what zig has compiled. CARGO_TARGET: for another processor. `zig_cc.sh prepare`
# comes first.
set -eu
arch=${CARGO_TARGET:-x86_64} cross=${CARGO_TARGET:+${CARGO_TARGET%%-*}-linux-gnu-}
arch=${arch%%-*}
# Zig itself compiles start-up files and some functions of glibc for the first program. Their debug information names
# folders of that moment, so it is removed: the same commit then gives the same bytes.
if [ "${1:-}" = prepare ]; then
    made=$ZIG_GLOBAL_CACHE_DIR
    [ ! -d "$made/prepared" ] || exit 0
    rm -rf "$made"
    mkdir -p "$made"
    for kind in -shared -pie; do echo 'int main(void) { return 0; }' | "$0" -x c - -fPIC $kind -lm -lpthread -ldl -o "$made/none"; done
    find "$made/o" -name '*.o' -exec "${cross}strip" --strip-debug {} +
    find "$made/o" -name '*.a' | while IFS= read -r archive; do # the members are files of this folder
        ar t "$archive" > "$made/members"
        rm "$archive"
        tr '\n' '\0' < "$made/members" | xargs -0 ar rcsD "$archive"
    done
    exec mkdir "$made/prepared"
fi
for argument; do
    shift
    case $argument in
        # Cargo's name for the target below.
        --target=$arch-unknown-linux-gnu) continue ;;
        # Exceptions of a host pass the library, so the process must have one unwinder, that of the system. For this
        # name zig would link a static one of its own.
        -lgcc_s) argument=$(${cross:+${cross}g}cc -print-file-name=libgcc_s.so.1) ;;
        # Zig knows only that for functions and data; of data the library exports only its own tables.
        -Wl,-Bsymbolic-functions) argument=-Wl,-Bsymbolic ;;
    esac
    set -- "$@" "$argument"
done
# The libgcc_s of this system may itself need a newer glibc. Later arguments override the optimisation, and -g0.
exec "${ZIG:?}/zig" cc -target "$arch-linux-gnu.2.28" -Wl,--allow-shlib-undefined -Wl,--build-id=sha1 -O2 -g0 "-ffile-prefix-map=$ZIG=/zig" "$@"
