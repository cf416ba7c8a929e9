#!/bin/sh
# Checks the files of make install, that hosts find it in every way hosts do, and what happens beside other copies of
# ggml.
#
# The parts are in scripts/install_tests/. With GGML_ORACLE_PREFIX, an installation of the original, hosts are linked to
# that. Without it, they are linked to replacements with the same names and functions (c_tests/abi/files.txt). Needs a
# build; takes seconds.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
CC=${CC:-cc}
oracle=${GGML_ORACLE_PREFIX:-}
target=${CARGO_TARGET_DIR:-$root/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Tests about devices must hold on every machine. No setting of the user changes what is installed or found.
export GGML_DISABLE_VULKAN=1 GGML_NO_BACKTRACE=1
unset DESTDIR STRIP LD_LIBRARY_PATH GGML_MAX_NAME
# shellcheck source=/dev/null
. "$root/scripts/checks.sh"
fails() { ! "$@"; }
says() { # TEXT COMMAND ...: the command works or not, its output has the text
    text=$1
    shift
    "$@" > "$work/said" 2>&1
    cat "$work/said"
    grep -qF -- "$text" "$work/said"
}
install() { "$root/scripts/install.sh" "$@"; }
uninstall() { "$root/scripts/uninstall.sh" "$@"; }
libraries="libggml-base libggml libggml-cpu libggml-rpc"
[ ! -e "$target/release/small/libggml-vulkan.so" ] || libraries="$libraries libggml-vulkan"

prefix=$work/some\ where
check "install into a folder with a space in its name" install "$prefix"
for part in layout link load static cmake ldconfig; do
    # shellcheck source=/dev/null
    . "$root/scripts/install_tests/$part.sh"
done
finish install
