#!/bin/sh
# Installs the release build: install.sh PREFIX [LIBDIR] [INCLUDEDIR]; DESTDIR is put before every path.
#
# One file, libggml.so.VERSION; the names that hosts link and load are links to it. LIBDIR and INCLUDEDIR are relative to
# PREFIX. Files that have not changed keep their times, so that builds which depend on them stay up to date.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:?usage: install.sh PREFIX [LIBDIR] [INCLUDEDIR]}
libdir=${2:-lib}
includedir=${3:-include}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
target=${CARGO_TARGET_DIR:-$root/target}
library=$target/release/libggml.so
[ -f "$library" ] || { echo "install: $library is missing; run make first" >&2; exit 1; }
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
to_prefix=$(printf '%s' "$libdir/cmake/ggml" | sed 's|[^/][^/]*|..|g')

put() { # SOURCE DESTINATION MODE
    if ! cmp -s "$1" "$2"; then
        mkdir -p "$(dirname "$2")"
        cp "$1" "$2.new"
        chmod "$3" "$2.new"
        mv "$2.new" "$2"
    fi
}
fill() { # TEMPLATE DESTINATION
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@INCLUDEDIR@|$includedir|g" \
        -e "s|@VERSION@|$version|g" -e "s|@TO_PREFIX@|$to_prefix|g" "$root/cmake/$1" > "$work/filled"
    put "$work/filled" "$2" 644
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lib=${DESTDIR:-}$prefix/$libdir
inc=${DESTDIR:-}$prefix/$includedir
put "$library" "$lib/libggml.so.$version" 755
for name in libggml libggml-base libggml-cpu; do
    [ "$name" = libggml ] || ln -sfn "libggml.so.$version" "$lib/$name.so.$version"
    ln -sfn "libggml.so.$version" "$lib/$name.so.${version%%.*}"
    ln -sfn "$name.so.${version%%.*}" "$lib/$name.so"
done
for header in "$root"/include/*.h; do
    put "$header" "$inc/$(basename "$header")" 644
done
fill ggml-config.cmake.in "$lib/cmake/ggml/ggml-config.cmake"
fill ggml-version.cmake.in "$lib/cmake/ggml/ggml-config-version.cmake"
fill ggml.pc.in "$lib/pkgconfig/ggml.pc"
echo "installed libggml $version in ${DESTDIR:-}$prefix"
