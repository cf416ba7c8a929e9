#!/usr/bin/env bash
# Whether the library compiles for other systems and processors: check_targets.sh [TARGET ...]. Nothing is linked,
# nothing runs, and warnings are no failures: a processor without kernels of its own leaves code unused.
#
# Needs the targets' standard libraries (rustup target add TARGET), and for the C shim a compiler for each (packages
# gcc-mingw-w64-x86-64 and gcc-aarch64-linux-gnu). There is none for macOS here, whose shim is left out.
set -u
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
[ $# -gt 0 ] || set -- x86_64-pc-windows-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin
# An archive without objects is enough where nothing is linked.
printf '#!/bin/sh\n[ "$1" != cq ] || echo "!<arch>" > "$2"\n' > "$temporary/no-cc"
chmod +x "$temporary/no-cc"
for name in x86_64 aarch64; do
    export "CC_${name}_apple_darwin=$temporary/no-cc" "AR_${name}_apple_darwin=$temporary/no-cc"
done
for target; do
    compiles=(cargo check --quiet --locked --target "$target" --target-dir "$root/target/targets/build")
    check "$target: the library" "${compiles[@]}"
    check "$target: without the Vulkan backend" "${compiles[@]}" --no-default-features
    # Unit tests build modules with the system's compiler, and map pages that fault: on Unix.
    case $target in
    *-windows-*) check "$target: the internals" "${compiles[@]}" --features internals --lib --examples ;;
    *) check "$target: unit tests and examples" "${compiles[@]}" --features internals --all-targets ;;
    esac
done
finish targets
