#!/bin/bash
# make dist: the archives of a release in target/dist. docs/RELEASING.md says what is in them. DIST_DIRTY=1: also with
# uncommitted changes, for a try.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
die() { echo "dist: $*" >&2; exit 1; }
[ -n "${DIST_DIRTY:-}" ] || [ -z "$(git status --porcelain)" ] || die "there are uncommitted changes"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=libggml-rs-$version
system=linux-$(uname -m)
out=$root/target/dist
when=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
# The same bytes for the same files: names in order, no owner, the time of the commit.
pack() { tar -C "$2" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" -cf - "$3" | gzip -9n > "$out/$1.tar.gz"; }

echo "sources ..."
git archive --format=tar --prefix="$name/" HEAD | gzip -9n > "$out/$name.tar.gz"

echo "binaries ..."
tree=$name-$system
scripts/install.sh "$work/$tree" > /dev/null
while IFS= read -r file; do
    # The place where debuggers look: the folder .debug beside the file.
    folder=$work/debug/$(dirname "${file#"$work"/}")/.debug
    symbols=$folder/$(basename "$file").debug
    mkdir -p "$folder"
    objcopy --only-keep-debug "$file" "$symbols"
    strip --strip-unneeded "$file"
    objcopy --add-gnu-debuglink="$symbols" "$file"
done < <(find "$work/$tree" \( -name '*.so.*' -o -path '*/bin/*' \) -type f | sort)
find "$work/$tree" -name '*.a' -exec strip --strip-debug {} +
# The pkg-config file and the manifest name no folder of this machine.
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$work/$tree/lib/pkgconfig/ggml.pc"
rm -f "$work/$tree/lib/cmake/ggml/libggml-rs.manifest"
cp LICENSE README.md CHANGELOG.md "$work/$tree/"
! grep -rIl "$work" "$work/$tree" || die "these files name the folder they were made in"
pack "$tree" "$work" "$tree"
pack "$tree-debug" "$work/debug" "$tree"

echo "checks ..."
mkdir "$work/check"
for archive in "$name" "$tree" "$tree-debug"; do tar -C "$work/check" -xzf "$out/$archive.tar.gz"; done
[ -f "$work/check/$name/Cargo.lock" ] || die "the source archive has no Cargo.lock"
"${CC:-cc}" -std=c11 c_tests/bench/start.c -o "$work/start" $(PKG_CONFIG_PATH=$work/check/$tree/lib/pkgconfig pkg-config --cflags --libs ggml) -Wl,-rpath,"$work/check/$tree/lib"
GGML_DISABLE_VULKAN=1 "$work/start" > /dev/null || die "a program does not run on the unpacked library"
# Debuggers find the symbols: the link names a file that exists, and its build ID is that of the library.
link=$(readelf --string-dump=.gnu_debuglink "$work/check/$tree/lib/libggml-base.so.$version" | sed -n 's/.*]  *//p' | head -n 1)
[ -f "$work/check/$tree/lib/.debug/$link" ] || die "there is no $link"
if command -v gdb > /dev/null; then
    gdb -batch -nx -ex 'info line ggml_init' "$work/check/$tree/lib/libggml-base.so.$version" 2> /dev/null | grep -q '^Line ' || die "gdb does not find the lines of ggml_init"
fi
(cd "$out" && sha256sum ./*.tar.gz > SHA256SUMS)
(cd "$out" && ls -l ./*.tar.gz)
