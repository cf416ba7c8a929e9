#!/usr/bin/env bash
# Whether the library compiles for other systems and processors: check_targets.sh [TARGET ...]. Nothing is linked,
# nothing runs, and warnings are no failures: a processor without kernels of its own leaves code unused.
# The last line counts the checks.
#
# Needs the targets' standard libraries (rustup target add TARGET), and for the C shim a compiler for each (packages
# gcc-mingw-w64-x86-64 and gcc-aarch64-linux-gnu). There is none for macOS here: its shim is left out, and the Rust
# sources are checked.
set -u
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
work=$root/target/targets
mkdir -p "$work"
targets=("$@")
[ $# -gt 0 ] || targets=(x86_64-pc-windows-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin)

# An archive without objects is enough where nothing is linked.
cat > "$work/no-cc" << 'END'
#!/bin/sh
for last; do :; done
[ "$1" != cq ] || printf '!<arch>\n' > "$2"
exit 0
END
chmod +x "$work/no-cc"

compiles() { # TARGET FLAG ...
    local target=$1 name=${1//-/_}
    shift
    case $target in
    *-apple-*) export "CC_$name=$work/no-cc" "AR_$name=$work/no-cc" ;;
    esac
    cargo check --quiet --locked --target "$target" --target-dir "$work/build" "$@"
}

for target in "${targets[@]}"; do
    check "$target: the library" compiles "$target"
    check "$target: without the Vulkan backend" compiles "$target" --no-default-features
    # Unit tests build modules with the system's compiler, and map pages that fault: on Unix.
    case $target in
    *-windows-*) check "$target: the internals" compiles "$target" --features internals --lib --examples ;;
    *) check "$target: unit tests and examples" compiles "$target" --features internals --all-targets ;;
    esac
done
finish targets
