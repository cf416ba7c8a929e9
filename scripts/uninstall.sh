#!/bin/sh
# Removes the files of install.sh: uninstall.sh PREFIX [LIBDIR]; DESTDIR as for install.sh.
#
# Reads the manifest: a file that has been changed or replaced since stays, and so does a folder that is not empty.
set -eu
prefix=${1:?usage: uninstall.sh PREFIX [LIBDIR]}
libdir=${2:-lib}
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
base=${DESTDIR:-}$prefix
manifest=$base/$libdir/cmake/ggml/libggml-rs.manifest
[ -f "$manifest" ] || { echo "uninstall: there is no $manifest" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$manifest" "$work/manifest"

kept() { echo "kept $1: it is not what was installed"; }
grep '^link ' "$work/manifest" | while read -r _ to path; do
    if [ "$(readlink "$base/$path" 2> /dev/null)" = "$to" ]; then
        rm -f "$base/$path"
    elif [ -e "$base/$path" ]; then
        kept "$base/$path"
    fi
done
grep '^file ' "$work/manifest" | while read -r _ sum bytes path; do
    [ -f "$base/$path" ] || continue
    if [ ! -L "$base/$path" ] && [ "$(cksum < "$base/$path")" = "$sum $bytes" ]; then
        rm -f "$base/$path"
    else
        kept "$base/$path"
    fi
done
rm -f "$manifest"
sed -n 's/^dir //p' "$work/manifest" | sort -r | while IFS= read -r path; do
    rmdir "$base/$path" 2> /dev/null || true
done
# If it was staged for a package, the folders above belong to the staging folder.
if [ -n "${DESTDIR:-}" ] || ! head -n 1 "$work/manifest" | grep -q ' staged$'; then
    above=$(sed -n 's/^above //p' "$work/manifest")
    while [ "${above:-0}" -gt 0 ]; do
        rmdir "$base" 2> /dev/null || break
        base=$(dirname "$base")
        above=$((above - 1))
    done
fi
echo "uninstalled $(head -n 1 "$work/manifest" | cut -d' ' -f1,2) from ${DESTDIR:-}$prefix"
