#!/bin/sh
# Installs the release build, or removes it: install.sh [-r] PREFIX [LIBDIR] [INCLUDEDIR]. It copies; scripts/build.sh
# builds. docs/INSTALL.md says what goes where, and what happens beside other copies of ggml.
#
#   LIBDIR, INCLUDEDIR   below PREFIX (default: lib, include)     DESTDIR   is put before every path
#   STRIP=1              without names and lines for debuggers; STRIP_PROGRAM names the tool (default: strip)
#   CARGO_TARGET=...     the build for this target of Rust (scripts/build.sh)
#   GGML_MAX_NAME=128    the build for names of this size, in LIBDIR/ggml-128 and INCLUDEDIR/ggml-128: beside the usual
#                        one (docs/INSTALL.md)
#   -r                   removes what has been installed with the same PREFIX, LIBDIR, DESTDIR and GGML_MAX_NAME
#
# Every file appears whole, by a rename. Unchanged files keep their times, so that builds which depend on them stay up
# to date. The manifest in LIBDIR/cmake/ggml (ggml-128) has lines `file CKSUM BYTES PATH`, `link TARGET PATH`, `dir
# PATH` for folders made here, and `above N` for PREFIX and folders above it made here.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
die() { echo "install: $*" >&2; exit 1; }
remove=
[ "${1:-}" != -r ] || { remove=1; shift; }
prefix=${1:?usage: install.sh [-r] PREFIX [LIBDIR] [INCLUDEDIR]} libdir=${2:-lib} includedir=${3:-include}
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
while [ "$prefix" != / ] && [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
libdir=${libdir%/} includedir=${includedir%/}
for name in "$libdir" "$includedir"; do # CMake and pkg-config find one from the other
    case /$name/ in //* | */../* | */./*) die "LIBDIR and INCLUDEDIR are folders below PREFIX, such as lib64: $name is not" ;; esac
done
base=${DESTDIR:-}$prefix
variant= # the end of all names, if the size of tensors' names is another one: -128
[ "${GGML_MAX_NAME:-64}" = 64 ] || variant=-$GGML_MAX_NAME
package=$libdir/cmake/ggml$variant
manifest=$package/libggml-rs.manifest

work=$(mktemp -d)
half= # what is being written beside its place
trap 'rm -rf "$work"; [ -z "$half" ] || rm -f "$half"' EXIT
trap 'exit 1' HUP INT TERM
tree=$work/tree # what is to be installed, and below its paths in order
: > "$work/paths"
: > "$work/old"
[ ! -f "$base/$manifest" ] || cp "$base/$manifest" "$work/old"

entry() { # FOLDER PATH: the line of a file or link in the manifest
    if [ -L "$1/$2" ]; then
        echo "link $(readlink "$1/$2") $2"
    elif [ -f "$1/$2" ]; then
        echo "file $(cksum < "$1/$2") $2"
    fi
}
# Removes what the old manifest lists and is not to be installed, unless it has been changed or replaced since.
remove_old() {
    while IFS= read -r line; do
        case $line in
            "link "*) path=${line#link * } ;;
            "file "*) path=${line#file * * } ;;
            *) continue ;;
        esac
        ! grep -Fqx "$path" "$work/paths" || continue
        now=$(entry "$base" "$path")
        if [ "$now" = "$line" ]; then
            rm -f "$base/$path"
        elif [ -n "$now" ]; then
            echo "kept $base/$path: it is not what was installed"
        fi
    done < "$work/old"
}

above=$(sed -n 's/^above //p' "$work/old")
if [ -n "$remove" ]; then
    [ -s "$work/old" ] || die "there is no $base/$manifest"
    remove_old
    rm -f "$base/$manifest"
    sed -n 's/^dir //p' "$work/old" | sort -r | while IFS= read -r path; do rmdir "$base/$path" 2> /dev/null || true; done
    # If it was staged for a package, the folders above belong to the staging folder.
    if [ -z "${DESTDIR:-}" ] && head -n 1 "$work/old" | grep -q ' staged$'; then above=0; fi
    while [ "${above:-0}" -gt 0 ] && rmdir "$base" 2> /dev/null; do
        base=$(dirname "$base")
        above=$((above - 1))
    done
    echo "uninstalled $(head -n 1 "$work/old" | cut -d' ' -f1,2) from ${DESTDIR:-}$prefix"
    exit
fi

. "$root/scripts/target.sh"
for name in "$built" "$release/ggml-info$exe" "$library" "$release/libggml.a"; do
    [ -f "$name" ] || die "there is no build in $release: run make first"
done
[ -z "$(find "$library" -newer "$built")" ] || die "$library was built alone: run make first"
. "$built" # sets version and max_name
[ "$max_name" = "${GGML_MAX_NAME:-64}" ] || die "$release was built for GGML_MAX_NAME=$max_name: run make first"
major=${version%%.*}
# Nothing of a variant is where programs and compilers look for the usual one.
lib=$libdir${variant:+/ggml$variant} include=$includedir${variant:+/ggml$variant}

add() { # MODE SOURCE PATH
    mkdir -p "$tree/$(dirname "$3")"
    cp "$2" "$tree/$3"
    chmod "$1" "$tree/$3"
    printf '%s\n' "$3" >> "$work/paths"
}
link() { # TARGET PATH
    ln -s "$1" "$tree/$2"
    printf '%s\n' "$2" >> "$work/paths"
}
named() { # NAME [NUMBER]: the file of a shared library
    if [ $end = so ]; then echo "$1.so${2:+.$2}"; else echo "$1${2:+.$2}.dylib"; fi
}
library() { # SOURCE NAME: a shared and a static library
    if [ $end = dll ]; then # whose compilers look for names with lib
        add 644 "$(dirname "$1")/lib${1##*/}.a" "$lib/lib$2.a"
        add 644 "$(dirname "$1")/lib${1##*/}.dll.a" "$lib/lib$2.dll.a"
        add 644 "$release/small/$2.lib" "$lib/$2.lib" # for Visual C++
        add 755 "$1.dll" "bin/$2$variant.dll"
        return
    fi
    add 644 "$1.a" "$lib/$2.a"
    case $cross in *-android*) add 755 "$1.so" "$lib/$2.so" && return ;; esac # packages of apps have no links
    add 755 "$1.$end" "$lib/$(named "$2" "$version")"
    # A variant has another soname. Programs that are linked to the original of this variant need the usual name.
    [ -z "$variant" ] || link "$(named "$2" "$version")" "$lib/$(named "$2$variant" "$major")"
    link "$(named "$2" "$version")" "$lib/$(named "$2" "$major")"
    link "$(named "$2" "$major")" "$lib/$(named "$2")"
}
# The code first: the small files need it.
library "${library%."$end"}" ${front}ggml-base
libraries=${front}ggml-base backends= vulkan=OFF
for path in "$release/small/${front}ggml"*."$end"; do
    name=$(basename "$path" ".$end")
    library "${path%."$end"}" "$name"
    libraries="$libraries $name"
    [ "$name" = ${front}ggml ] || backends="$backends${backends:+;}${name#lib}"
    [ "$name" != ${front}ggml-vulkan ] || vulkan=ON
done
if [ -z "$variant" ]; then # these programs do for the variants, too
    add 755 "$release/small/ggml-rpc-server$exe" "bin/ggml-rpc-server$exe"
    add 755 "$release/ggml-info$exe" "bin/ggml-info$exe"
fi
if [ -n "${STRIP:-}" ] && [ "$STRIP" != 0 ]; then
    strip=${STRIP_PROGRAM:-${tools}strip}
    unneeded=--strip-unneeded debug=--strip-debug
    [ $end != dylib ] || unneeded=-x debug=-S # Apple's
    # The other static libraries are empty. MinGW's tool refuses this one, which has members without sections.
    find "$tree" -type f ! -name '*.a' ! -name '*.lib' -exec "$strip" $unneeded {} + && { [ $end = dll ] || "$strip" $debug "$tree/$lib/libggml-base.a"; } ||
        die "STRIP is set, and $strip failed"
fi

for path in "$root"/include/*.h; do add 644 "$path" "$include/$(basename "$path")"; done
sed "s/\(GGML_MAX_NAME \(!= \)\{0,1\}\)64/\1$max_name/" "$root/include/ggml.h" > "$tree/$include/ggml.h"
headers=$(cd "$root/include" && printf 'include/%s;' *.h)
to_prefix=$(printf '%s' "$package" | sed 's|[^/][^/]*|..|g')
plain() { printf '%s' "$1" | sed 's/[\\&|]/\\&/g'; } # for the right side of s|||
fill() { # TEMPLATE PATH
    add 644 "$root/cmake/$1" "$2"
    sed -e "s|@PREFIX@|$(plain "$prefix")|g" -e "s|@LIBDIR@|$(plain "$lib")|g" -e "s|@INCLUDEDIR@|$(plain "$include")|g" \
        -e "s|@VERSION@|$version|g" -e "s|@MAX_NAME@|$max_name|g" -e "s|@VARIANT@|$variant|g" -e "s|@FLAGS@|$flags|g" -e "s|@RPATH@|$(plain "$rpath")|g" \
        -e "s|@SYSTEM@|$system|g" -e "s|@TO_PREFIX@|$to_prefix|g" -e "s|@BACKENDS@|$backends|g" \
        -e "s|@VULKAN@|$vulkan|g" -e "s|@HEADERS@|${headers%;}|g" "$root/cmake/$1" > "$tree/$2"
}
system='-lutil -lrt -lpthread -lm -ldl' # for programs with the static library
case ${cross:-$(uname)} in
    *-darwin | Darwin) system='-liconv -lm' ;;
    *-android*) system='-ldl -llog -lm' ;;
    *-windows-*) system='-lws2_32 -lntdll -luserenv -lbcrypt -lsynchronization' ;;
esac
flags= rpath= # programs for a variant find it by a path of their own, as no system searches its folder
[ -z "$variant" ] || { flags=" -DGGML_MAX_NAME=$max_name" rpath=' -Wl,-rpath,${libdir}'; }
fill ggml-config.cmake.in "$package/ggml-config.cmake"
fill ggml-version.cmake.in "$package/ggml-config-version.cmake"
fill ggml.pc.in "$libdir/pkgconfig/ggml$variant.pc"

made=0 missing=$base
while [ ! -d "$missing" ]; do
    made=$((made + 1))
    missing=$(dirname "$missing")
done
[ "$made" -eq 0 ] || above=$made
folders() { # that are made here, or were by the old installation
    sed -n 's/^dir //p' "$work/old"
    (cd "$tree" && find ./* -type d) | while IFS= read -r path; do [ -d "$base/$path" ] || printf '%s\n' "${path#./}"; done
}
{
    echo "libggml-rs $version${DESTDIR:+ staged}"
    echo "above ${above:-0}"
    folders | sort -u | sed 's/^/dir /'
    while IFS= read -r path; do entry "$tree" "$path"; done < "$work/paths"
} > "$work/new"

place() { # PATH: whole or not at all; nothing changes if the same is there
    [ "$(entry "$tree" "$1")" != "$(entry "$base" "$1")" ] || return 0
    mkdir -p "$(dirname "$base/$1")"
    half=$(dirname "$base/$1")/.libggml-rs.$$ # no name that ldconfig takes for a library
    if [ -L "$tree/$1" ]; then
        ln -s "$(readlink "$tree/$1")" "$half"
    else
        cp "$tree/$1" "$half"
        chmod "$(if [ -x "$tree/$1" ]; then echo 755; else echo 644; fi)" "$half"
    fi
    mv -f "$half" "$base/$1"
    half=
}
# The manifest comes first, with the old entries, too, so that -r knows all files if this is stopped halfway.
grep -E '^(file|link) ' "$work/old" | cat "$work/new" - | awk '!seen[$0]++' > "$tree/$manifest"
place "$manifest"
while IFS= read -r path; do place "$path"; done < "$work/paths"
remove_old
cp "$work/new" "$tree/$manifest"
place "$manifest"

echo "installed libggml $version in $base"
# ldconfig gives each name to the file with the highest version.
for name in $libraries; do
    for path in "$base/$lib/$name".so.*.*; do
        highest=$(printf '%s\n' "$version" "${path##*.so.}" | sort -V | tail -n 1)
        if [ -f "$path" ] && [ ! -L "$path" ] && [ "$highest" != "$version" ]; then
            echo "note: $path is newer: after the next ldconfig programs use that ggml"
        fi
    done
done
