#!/usr/bin/env bash
# cargo cinstall, and the lines of docs/INSTALL.md that add what it cannot make, against make install.
#
# On demand: a release build of its own. Without cargo-c (cargo install cargo-c, 15 minutes) there is a line, and no
# failure; CARGO_C names the folder of a copy that is not in PATH. Needs the build of make. The last line counts the
# checks.
set -u
. "$(dirname "$0")/checks.sh"
work=$root/target/cinstall
PATH=${CARGO_C:-$root/target/cargo-c/bin}:$PATH
command -v cargo-cinstall > /dev/null || { echo "cinstall: skipped: cargo-c is missing (cargo install cargo-c)"; exit 0; }
mkdir -p "$work"
rm -rf "$work/cargo" "$work/make"
export PREFIX=$work/cargo
lib=$PREFIX/lib

lines=$(awk '/^## / { on = $0 == "## cargo cinstall" } on && /^```/ { code = !code; next } on && code' docs/INSTALL.md)
first=$(echo "$lines" | head -n 1) rest=$(echo "$lines" | tail -n +2)
case $first in "cargo cinstall "*) ;; *) echo "docs/INSTALL.md has no line for cargo cinstall"; echo "cinstall: 0 passed, 1 failed"; exit 1 ;; esac
echo "building with cargo cinstall ..."
check "$first" env CARGO_TARGET_DIR="$work/build" sh -ec "$first"
check "make install" env CARGO_TARGET_DIR="$target" scripts/install.sh "$work/make"
[ "$failed" = 0 ] || finish cinstall

check "the same headers" diff -r "$work/make/include" "$PREFIX/include"
check "the soname of libggml-base" says "soname: [libggml-base.so.0]" readelf -d "$lib/libggml-base.so"
check "its link" test "$(readlink -f "$lib/libggml-base.so.0")" = "$lib/libggml-base.so.$version"
same() { diff <("$@" "$work/make") <("$@" "$PREFIX"); }
exports() { nm -D --defined-only "$1/lib/libggml-base.so" | awk '{ print $NF }' | sort; }
check "it exports the same" same exports
compile() { # FLAGS ...
    $CC -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU c_tests/install/linked.c -o "$work/host" "$@" -ldl -Wl,-rpath,"$lib"
}
starts() { "$work/host" | grep "version=$version devices=1 vlen=0 copies=1"; }
by_pkg_config() { compile $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs ggml) && starts; }
if command -v pkg-config > /dev/null; then check "a host by pkg-config" by_pkg_config; fi
check "a host by the static library" $CC -std=c11 -D_GNU_SOURCE c_tests/examples/embed.c -I"$PREFIX/include" -o "$work/static" "$lib/libggml-base.a" -lm
check "it runs" says usage "$work/static" --help

# Existing programs need the small files.
check "a host that asks for all the original's files" compile -I"$work/make/include" -L"$work/make/lib" -Wl,--no-as-needed -lggml -lggml-cpu -lggml-base
check "it does not start yet" ends 127 "cannot open shared object file" "$work/host"
check "the lines of docs/INSTALL.md" sh -ec "$rest"
check "it starts" starts
files() { (cd "$1" && find . \( -type f -o -type l \) ! -path '*/cmake/*' ! -path './bin/*' | sort); }
check "but for CMake's and the programs, the files are those of make install" same files
finish cinstall
