#!/bin/bash
# The packages of a release, in target/dist: dist.sh [sources] [tarball] [wheel] [npm] [windows]. All of them but that
# for Windows are made if none is named, and only from a commit (DIST_DIRTY=1: from what is there, for a try).
# docs/RELEASING.md says what is in them. Binaries for Linux are linked for glibc 2.28, whatever this system has
# (packaging/zig_cc.sh), in target/portable; with CARGO_TARGET=aarch64-unknown-linux-gnu for 64-bit ARM (needs
# gcc-aarch64-linux-gnu, for its libgcc_s and binutils).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
die() { echo "dist: $*" >&2; exit 1; }
export CARGO_TARGET=${CARGO_TARGET:-}
if [ $# = 0 ]; then
    [ -n "${DIST_DIRTY:-}" ] || [ -z "$(git status --porcelain)" ] || die "there are uncommitted changes"
    if [ -n "$CARGO_TARGET" ]; then set -- tarball wheel; else set -- sources tarball wheel npm; fi
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=${CARGO_TARGET:+${CARGO_TARGET%%-*}} binutils=${CARGO_TARGET:+${CARGO_TARGET%%-*}-linux-gnu-}
name=libggml-rs-$version tree=libggml-rs-$version-linux-${arch:=x86_64} out=$root/target/dist
# The same bytes for the same files: names in order, no owner, the time of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1
pack() { tar -C "$2" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$3" | gzip -9n > "$out/$1.tar.gz"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$out"

binaries() { # the tree of make install, the symbols apart, and the bill of materials
    [ "$(uname -sm)" = "Linux x86_64" ] || die "packages are built on Linux, x86-64"
    local file folder
    tools=${GGML_CACHE:-$root/target/cache}/pack-tools-$(cksum < packaging/tools.txt | cut -d ' ' -f 1)
    PYTHONPATH=scripts python3 -c 'import sys, processes; sys.exit(processes.packages(*sys.argv[1:])[1] or None)' "${tools##*/}" --require-hashes -r packaging/tools.txt
    export ZIG=$tools/ziglang ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache${CARGO_TARGET:+-$arch} PATH=$root/packaging:$PATH CC=zig_cc.sh
    [ -n "$CARGO_TARGET" ] || export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=zig_cc.sh
    export GGML_MAX_NAME=64 CARGO_FLAGS='' CARGO_TARGET_DIR=$root/target/portable
    zig_cc.sh prepare
    scripts/build.sh if-needed
    DESTDIR='' STRIP='' scripts/install.sh "$work/$tree" > /dev/null
    while IFS= read -r file; do
        # The place where debuggers look: the folder .debug beside the file.
        folder=$work/debug/$(dirname "${file#"$work"/}")/.debug
        mkdir -p "$folder"
        "${binutils}objcopy" --only-keep-debug "$file" "$folder/${file##*/}.debug"
        "${binutils}strip" --strip-unneeded "$file"
        "${binutils}objcopy" --add-gnu-debuglink="$folder/${file##*/}.debug" "$file"
    done < <(find "$work/$tree" \( -name '*.so.*' -o -path '*/bin/*' \) -type f | sort)
    find "$work/$tree" -name '*.a' -exec "${binutils}strip" --strip-debug {} +
    finish_tree
}
finish_tree() {
    # The pkg-config file and the manifest name no folder of this machine.
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$work/$tree/lib/pkgconfig/ggml.pc"
    rm -f "$work/$tree/lib/cmake/ggml/libggml-rs.manifest"
    ! grep -rslF -e "$work" -e "$root" -e "$HOME/" "$work/$tree" "$work/debug" || die "these files name a folder of this machine"
    python3 scripts/sbom.py
    cp "target/sbom/$name.cdx.json" "$work/libggml-rs.cdx.json"
}
# The tree for wheels and npm, which hold no links. Copies would be three times as large, and two libraries to a program
# that opens both. So each file has its soname, for which programs look. Linkers read a line of text instead of
# libggml-base.so, as for many a libc.so, and copies of the small files; CMake, which passes paths, gets the real ones.
flat() { # FOLDER
    local file
    cp -r "$work/$tree" "$1"
    rm "$1"/lib/*.a "$1"/lib/*.so
    for file in "$1"/lib/*.so.*.*; do
        mv "$file" "${file%.*.*}"
        cp "${file%.*.*}" "${file%.*.*.*}"
    done
    rm "$1/lib/libggml-base.so"
    echo "INPUT(libggml-base.so.${version%%.*})" > "$1/lib/libggml-base.so"
    sed -i "s|_ggml_find(\${_ggml_var} \${_ggml_name})|_ggml_find(\${_ggml_var} lib\${_ggml_name}.so.${version%%.*})|" "$1/lib/cmake/ggml/ggml-config.cmake"
}

sources() { git archive --format=tar --prefix="$name/" HEAD | gzip -9n > "$out/$name.tar.gz"; }
tarball() {
    mkdir "$work/tar"
    cp -r "$work/$tree" "$work/tar/"
    cp LICENSE README.md CHANGELOG.md "$work/libggml-rs.cdx.json" "$work/tar/$tree/"
    pack "$tree" "$work/tar" "$tree"
    pack "$tree-debug" "$work/debug" "$tree"
}
wheel() {
    cp -r packaging/python "$work/python"
    flat "$work/flat"
    cp -r "$work"/flat/* "$work/python/libggml_rs/"
    cp LICENSE Cargo.toml "$work/libggml-rs.cdx.json" "$work/python/"
    (cd "$work/python" && PYTHONPATH=$tools python3 -m hatchling build -t wheel -d "$out" > /dev/null)
    PYTHONPATH=$tools python3 -m auditwheel show "$out/libggml_rs-$version"-*"_$arch.whl" | tr '\n' ' ' | grep -F 'tag: "manylinux_2_28_'"$arch\"" > /dev/null || die "auditwheel does not agree with the wheel's name"
}
npm() {
    [ -z "$CARGO_TARGET" ] || die "the package for Node.js is for x86-64 only"
    flat "$work/npm"
    cp packaging/npm/* LICENSE "$work/libggml-rs.cdx.json" "$work/npm/"
    sed -i "s/\"version\": \".*\"/\"version\": \"$version\"/" "$work/npm/package.json"
    (cd "$out" && command npm pack --silent --offline "$work/npm" > /dev/null)
}
windows() { # by MinGW, whose libraries are those of every Windows
    tree=libggml-rs-$version-windows-x86_64
    export CARGO_TARGET=x86_64-pc-windows-gnu
    scripts/build.sh if-needed
    DESTDIR='' STRIP=1 scripts/install.sh "$work/$tree" > /dev/null
    finish_tree
    cp LICENSE README.md CHANGELOG.md "$work/libggml-rs.cdx.json" "$work/$tree/"
    python3 - "$work" "$tree" "$out/$tree.zip" "$SOURCE_DATE_EPOCH" << 'END'
import pathlib, sys, time, zipfile
work, tree, name, epoch = sys.argv[1:]
with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(p for p in pathlib.Path(work, tree).rglob("*") if p.is_file()):
        about = zipfile.ZipInfo(path.relative_to(work).as_posix(), time.gmtime(int(epoch))[:6])
        about.external_attr = 0o644 << 16
        archive.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
END
}
case "$*" in sources | windows) ;; *) binaries ;; esac
for part; do
    case $part in sources | tarball | wheel | npm | windows) "$part" ;; *) die "no part $part: sources, tarball, wheel, npm, windows" ;; esac
done
(cd "$out" && shopt -s nullglob && sha256sum -- *.tar.gz *.whl *.tgz *.zip > SHA256SUMS && ls -l)
