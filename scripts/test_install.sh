#!/bin/sh
# Checks the files of make install, that hosts find it in every way hosts do, and what happens beside other copies of
# ggml.
#
# The parts are in scripts/install_tests/. With GGML_ORACLE_PREFIX, an installation of the original, hosts are linked to
# that. Without it, they are linked to replacements with the same names and functions (c_tests/abi/files.txt). Needs a
# build; takes seconds.
set -u
. "$(dirname "$0")/checks.sh"
oracle=${GGML_ORACLE_PREFIX:-}
fails() { ! "$@"; }
needed() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(libggml.*\)\]/\1/p' | tr '\n' ' '; }
install() { "$root/scripts/install.sh" "$@"; }
uninstall() { install -r "$@"; }
libraries="libggml-base libggml libggml-cpu libggml-rpc"
vulkan= # whether the library has the backend
[ ! -e "$target/release/small/libggml-vulkan.so" ] || { vulkan=y; libraries="$libraries libggml-vulkan"; }

prefix=$work/some\ where
check "install into a folder with a space in its name" install "$prefix"
for part in layout link load static cmake ldconfig; do
    . "$root/scripts/install_tests/$part.sh"
done
finish install
