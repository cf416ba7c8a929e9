#!/bin/sh
# Installs the release build: install.sh PREFIX [LIBDIR] [INCLUDEDIR]. It copies; scripts/build.sh builds.
# docs/INSTALL.md says what goes where, and what happens beside other copies of ggml.
#
#   LIBDIR, INCLUDEDIR   below PREFIX (default: lib, include)     DESTDIR   is put before every path
#   STRIP=1              without names and lines for debuggers; STRIP_PROGRAM names the tool (default: strip)
#
# Every file appears whole, by a rename. Unchanged files keep their times, so that builds which depend on them stay up
# to date. uninstall.sh reads the manifest in LIBDIR/cmake/ggml.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:?usage: install.sh PREFIX [LIBDIR] [INCLUDEDIR]}
libdir=${2:-lib}
includedir=${3:-include}
target=${CARGO_TARGET_DIR:-$root/target}
release=$target/release
die() { echo "install: $*" >&2; exit 1; }

[ -f "$release/small/built" ] && [ -f "$release/ggml-info" ] && [ -f "$release/libggml.so" ] && [ -f "$release/libggml.a" ] ||
    die "there is no build in $release: run make first"
[ -z "$(find "$release/libggml.so" -newer "$release/small/built")" ] || die "$release/libggml.so was built alone: run make first"
build=$(cat "$release/small/built")
version=${build#*version=}
version=${version%% *}
max_name=${build#*max_name=}
max_name=${max_name%%;*}
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
while [ "$prefix" != / ] && [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
libdir=${libdir%/} includedir=${includedir%/}
for name in "$libdir" "$includedir"; do # CMake and pkg-config find one from the other
    case /$name/ in //* | */../* | */./*) die "LIBDIR and INCLUDEDIR are folders below PREFIX, such as lib64: $name is not" ;; esac
done
to_prefix=$(printf '%s' "$libdir/cmake/ggml" | sed 's|[^/][^/]*|..|g')
base=${DESTDIR:-}$prefix
lib=$base/$libdir
manifest=$libdir/cmake/ggml/libggml-rs.manifest

work=$(mktemp -d)
half= # what is being written beside its place
trap 'rm -rf "$work"; [ -z "$half" ] || rm -f "$half"' EXIT
trap 'exit 1' HUP INT TERM
: > "$work/plan"

# The plan: `file MODE SOURCE` or `link TARGET`, with the path below PREFIX in the line before.
plan_file() { printf '%s\nfile %s %s\n' "$3" "$2" "$1" >> "$work/plan"; }
plan_link() { printf '%s\nlink %s\n' "$2" "$1" >> "$work/plan"; }

library() { # SOURCE NAME: a shared and a static library
    from=$1 name=$2
    if [ -n "${STRIP:-}" ] && [ "$STRIP" != 0 ]; then
        mkdir -p "$work/$name"
        "${STRIP_PROGRAM:-strip}" --strip-unneeded -o "$work/$name/so" "$from.so" || die "STRIP is set, and ${STRIP_PROGRAM:-strip} failed"
        if [ "$(wc -c < "$from.a")" -gt 8 ]; then # some tools refuse an archive without objects
            "${STRIP_PROGRAM:-strip}" --strip-debug -o "$work/$name/a" "$from.a" || die "STRIP is set, and ${STRIP_PROGRAM:-strip} failed"
        else
            cp "$from.a" "$work/$name/a"
        fi
        plan_file "$work/$name/so" 755 "$libdir/$name.so.$version"
        plan_file "$work/$name/a" 644 "$libdir/$name.a"
    else
        plan_file "$from.so" 755 "$libdir/$name.so.$version"
        plan_file "$from.a" 644 "$libdir/$name.a"
    fi
    plan_link "$name.so.$version" "$libdir/$name.so.${version%%.*}"
    plan_link "$name.so.${version%%.*}" "$libdir/$name.so"
}

# The code first: the small files need it.
library "$release/libggml" libggml-base
backends="ggml-cpu;ggml-rpc" vulkan=OFF
for path in "$release"/small/libggml*.so; do
    name=$(basename "$path" .so)
    library "${path%.so}" "$name"
    if [ "$name" = libggml-vulkan ]; then
        backends="$backends;ggml-vulkan" vulkan=ON
    fi
done

plan_file "$release/small/ggml-rpc-server" 755 bin/ggml-rpc-server
info=$release/ggml-info
if [ -n "${STRIP:-}" ] && [ "$STRIP" != 0 ]; then
    "${STRIP_PROGRAM:-strip}" -o "$work/ggml-info" "$info" || die "STRIP is set, and ${STRIP_PROGRAM:-strip} failed"
    info=$work/ggml-info
fi
plan_file "$info" 755 bin/ggml-info

mkdir "$work/include"
for path in "$root"/include/*.h; do
    header=$(basename "$path")
    if [ "$header" = ggml.h ] && [ "$max_name" != 64 ]; then
        sed "s/\(GGML_MAX_NAME \(!= \)\{0,1\}\)64/\1$max_name/" "$path" > "$work/include/ggml.h"
        path=$work/include/ggml.h
    fi
    plan_file "$path" 644 "$includedir/$header"
done
headers=$(cd "$root/include" && printf 'include/%s;' *.h)
plain() { printf '%s' "$1" | sed 's/[\\&|]/\\&/g'; } # for the right side of s|||
fill() { # TEMPLATE DESTINATION
    sed -e "s|@PREFIX@|$(plain "$prefix")|g" -e "s|@LIBDIR@|$(plain "$libdir")|g" -e "s|@INCLUDEDIR@|$(plain "$includedir")|g" \
        -e "s|@VERSION@|$version|g" -e "s|@MAX_NAME@|$max_name|g" -e "s|@TO_PREFIX@|$to_prefix|g" -e "s|@BACKENDS@|$backends|g" \
        -e "s|@VULKAN@|$vulkan|g" -e "s|@HEADERS@|${headers%;}|g" "$root/cmake/$1" > "$work/$1"
    plan_file "$work/$1" 644 "$2"
}
fill ggml-config.cmake.in "$libdir/cmake/ggml/ggml-config.cmake"
fill ggml-version.cmake.in "$libdir/cmake/ggml/ggml-config-version.cmake"
fill ggml.pc.in "$libdir/pkgconfig/ggml.pc"

# The manifest: `file CKSUM BYTES PATH`, `link TARGET PATH`, `dir PATH` for folders made here, `above N` for PREFIX and
# folders above it made here, outermost first.
each() { # FUNCTION: calls it with PATH KIND REST for every line of the plan
    while IFS= read -r path && IFS= read -r what; do
        "$1" "$path" "${what%% *}" "${what#* }"
    done < "$work/plan"
}
entry() {
    if [ "$2" = file ]; then
        set -- "$1" "$(cksum < "${3#* }")"
        echo "file $2 $1"
    else
        echo "link $3 $1"
    fi
}
: > "$work/old"
[ ! -f "$base/$manifest" ] || cp "$base/$manifest" "$work/old"
above=0 missing=$base
while [ ! -d "$missing" ]; do
    above=$((above + 1))
    missing=$(dirname "$missing")
done
folders() {
    sed -n 's/^dir //p' "$work/old"
    each path_of | while IFS= read -r path; do
        while [ "$path" != . ]; do
            [ -d "$base/$path" ] || printf '%s\n' "$path"
            path=$(dirname "$path")
        done
    done
}
path_of() { dirname "$1"; }
{
    echo "libggml-rs $version${DESTDIR:+ staged}"
    old_above=$(sed -n 's/^above //p' "$work/old")
    [ "$above" -gt 0 ] || above=${old_above:-0}
    echo "above $above"
    folders | sort -u | sed 's/^/dir /'
    each entry
} > "$work/manifest"

place() { # SOURCE DESTINATION MODE: the file, whole or not at all
    if [ -L "$2" ] || ! cmp -s "$1" "$2"; then
        mkdir -p "$(dirname "$2")"
        # No name that ldconfig takes for a library.
        half=$(dirname "$2")/.libggml-rs.$$
        cp "$1" "$half"
        chmod "$3" "$half"
        mv -f "$half" "$2"
        half=
    fi
}
put() {
    if [ "$2" = file ]; then
        place "${3#* }" "$base/$1" "${3%% *}"
    elif [ "$(readlink "$base/$1" 2> /dev/null)" != "$3" ]; then
        half=$base/$(dirname "$1")/.libggml-rs.$$
        ln -s "$3" "$half"
        mv -f "$half" "$base/$1"
        half=
    fi
}
# First with the former entries, too, so that uninstall.sh knows all files if this is stopped halfway.
if ! cmp -s "$work/manifest" "$work/old"; then
    cat "$work/manifest" > "$work/both"
    grep -E '^(file|link) ' "$work/old" >> "$work/both" || true
    place "$work/both" "$base/$manifest" 644
fi
each put

# Files that an older or newer libggml-rs left here, and that this one does not have.
known() { awk 'NR % 2 == 1' "$work/plan" | grep -Fqx "$1"; }
grep '^link ' "$work/old" | while read -r _ to path; do
    known "$path" || [ "$(readlink "$base/$path")" != "$to" ] || rm -f "$base/$path"
done
grep '^file ' "$work/old" | while read -r _ sum bytes path; do
    known "$path" || [ "$(cksum 2> /dev/null < "$base/$path")" != "$sum $bytes" ] || rm -f "$base/$path"
done
# From versions without a manifest: one library, and links to it. No file of the original has these names in it.
for path in "$lib"/libggml.so.* "$lib"/libggml-base.so.* "$lib"/libggml-cpu.so.*; do
    if [ -f "$path" ] && ! known "$libdir/${path##*/}" && grep -q ggml_rs_ "$path"; then printf '%s\n' "$path"; fi
done > "$work/former"
while IFS= read -r path; do rm -f "$path"; done < "$work/former"
place "$work/manifest" "$base/$manifest" 644

echo "installed libggml $version in $base"
# ldconfig gives each name to the file with the highest version.
for path in "$lib"/libggml.so.*.* "$lib"/libggml-base.so.*.* "$lib"/libggml-cpu.so.*.* "$lib"/libggml-rpc.so.*.* "$lib"/libggml-vulkan.so.*.*; do
    if [ -f "$path" ] && [ ! -L "$path" ]; then printf '%s %s\n' "${path##*.so.}" "$path"; fi
done | awk -v ours="$version" '
    function above(a, b,   i, n, x, y) {
        n = split(a, x, "."); split(b, y, ".")
        for (i = 1; i <= n; i++) if (x[i] + 0 != y[i] + 0) return x[i] + 0 > y[i] + 0
        return 0
    }
    above($1, ours) { sub(/^[^ ]* /, ""); print "note: " $0 " is newer: after the next ldconfig programs use that ggml" }'
