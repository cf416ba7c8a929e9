#!/usr/bin/env bash
# cargo cinstall, and the lines of docs/INSTALL.md that add what it cannot make, against make install.
#
# On demand: a release build of its own. Without cargo-c (cargo install cargo-c, ten minutes) there is a line, and no
# failure; CARGO_C names the folder of a copy that is not in PATH. Needs the build of make. The last line counts the
# checks.
set -u
. "$(dirname "$0")/checks.sh"
work=$root/target/cinstall
PATH=${CARGO_C:-$root/target/cargo-c/bin}:$PATH
command -v cargo-cinstall > /dev/null || { echo "cinstall: skipped: cargo-c is missing (cargo install cargo-c)"; exit 0; }
mkdir -p "$work"
rm -rf "$work/cargo" "$work/make"
PREFIX=$work/cargo lib=$work/cargo/lib

lines=$(awk '/^## / { on = $0 == "## cargo cinstall" } on && /^```/ { code = !code; next } on && code' docs/INSTALL.md)
first=$(echo "$lines" | head -n 1) rest=$(echo "$lines" | tail -n +2)
case $first in "cargo cinstall "*) ;; *) echo "docs/INSTALL.md has no line for cargo cinstall"; echo "cinstall: 0 passed, 1 failed"; exit 1 ;; esac
export PREFIX
echo "building with cargo cinstall ..."
check "$first" env CARGO_TARGET_DIR="$work/build" sh -ec "$first"
check "make install" env CARGO_TARGET_DIR="$target" scripts/install.sh "$work/make"
[ "$failed" = 0 ] || finish cinstall

check "the same headers" diff -r "$work/make/include" "$PREFIX/include"
named() {
    readelf -d "$lib/libggml-base.so" | grep 'SONAME.*\[libggml-base.so.0\]' && [ "$(readlink -f "$lib/libggml-base.so.0")" = "$lib/libggml-base.so.$version" ]
}
check "libggml-base has its soname and its links" named
exports() { nm -D --defined-only "$1" | awk '{ print $NF }' | sort; }
same_functions() {
    exports "$work/make/lib/libggml-base.so" > "$work/ours" && exports "$lib/libggml-base.so" > "$work/theirs" && diff "$work/ours" "$work/theirs"
}
check "it exports the same" same_functions
compile() { # OUTPUT FLAGS ...
    local out=$1
    shift
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU c_tests/install/linked.c -o "$work/$out" "$@" -ldl -Wl,-rpath,"$lib"
}
by_pkg_config() {
    compile pkg $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs ggml) && "$work/pkg" | grep "version=$version devices=1 vlen=0 copies=1"
}
if command -v pkg-config > /dev/null; then check "a host by pkg-config" by_pkg_config; fi
static() {
    ${CC:-cc} -std=c11 -D_GNU_SOURCE c_tests/examples/embed.c -I"$PREFIX/include" -o "$work/static" "$lib/libggml-base.a" -lm &&
        "$work/static" --help 2>&1 | grep usage
}
check "a host by the static library" static

# Existing programs need the small files.
host() { compile host -I"$work/make/include" -L"$work/make/lib" -Wl,--no-as-needed -lggml -lggml-cpu -lggml-base; }
check "a host that asks for all the original's files" host
no_start() { ! "$work/host" > "$work/said" 2>&1 && grep -q "cannot open shared object file" "$work/said"; }
check "it does not start yet" no_start
check "the lines of docs/INSTALL.md" sh -ec "$rest"
starts() { "$work/host" | grep "version=$version devices=1 vlen=0 copies=1"; }
check "it starts" starts
files() { (cd "$1" && find . \( -type f -o -type l \) ! -path '*/cmake/*' | sort); }
same_files() { files "$work/make" > "$work/ours" && files "$PREFIX" > "$work/theirs" && diff "$work/ours" "$work/theirs"; }
check "but for CMake's, the files are those of make install" same_files
finish cinstall
