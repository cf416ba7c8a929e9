#!/usr/bin/env bash
# Whether the library builds for a system that is not here, and whether its files are as that system needs them:
# check_platform.sh macos|android. Nothing of it runs. Prints what was found (docs/measurements/0.28.0-macos.md).
#
# Needs the standard libraries of Rust for the targets (rustup target add TARGET), and pip, which fetches zig: compiler
# and linker. Zig has the names of macOS's libraries. Those of Android are made from tools/platforms/bionic.txt.
set -u
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
system=${1:-}
case $system in
    macos) targets="aarch64-apple-darwin x86_64-apple-darwin" zig_target=aarch64-macos ;;
    android) targets=aarch64-linux-android zig_target=aarch64-linux-musl ;;
    *) echo "usage: check_platform.sh macos|android" >&2; exit 2 ;;
esac
sysroot=$("${RUSTC:-rustc}" --print sysroot)
for triple in $targets; do
    [ -d "$sysroot/lib/rustlib/$triple/lib" ] || rustup target add "$triple" || { echo "Rust has no library for $triple: rustup target add $triple" >&2; exit 1; }
done
tools=${GGML_CACHE:-$root/target/cache}/pack-tools-$(cksum < packaging/tools.txt | cut -d ' ' -f 1)
PYTHONPATH=scripts python3 -c 'import sys, processes; sys.exit(processes.packages(*sys.argv[1:])[1] or None)' "${tools##*/}" --require-hashes -r packaging/tools.txt || exit 1
export ZIG=$tools/ziglang ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache ZIG_TARGET=$zig_target CC=$root/packaging/zig_cc.sh
export CARGO_TARGET=${targets%% *} CARGO_TARGET_DIR=$root/target/platform SDKROOT=$work/sdk
tree=$root/target/platform/$system

for triple in $targets; do
    check "$triple: compiles without warnings" env CARGO_TARGET_DIR="$root/target/targets/build" RUSTFLAGS=-Dwarnings "CC_$triple=$CC" \
        cargo check --quiet --locked --target "$triple"
done
check "make" scripts/build.sh if-needed
rm -rf "$tree"
check "make install" scripts/install.sh "$tree"
# Hosts in C and C++.
programs=
for source in host/test_core.c host/test_custom.c host/gguf.c examples/embed.c; do
    program=$tree/programs/$(basename "$source" .c)
    mkdir -p "$tree/programs"
    check "$source is linked" "$CC" -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$source" -o "$program" -L"$tree/lib" -lggml-cpu -lggml -lggml-base -lm
    programs="$programs $program"
done
# shellcheck disable=SC2086
check "files" env -u CARGO_TARGET CARGO_TARGET_DIR="$target/platforms" CC=cc cargo run --quiet --locked --manifest-path tools/platforms/Cargo.toml --bin objects -- "$system" "$tree" $programs
cat "$work/log"
finish "$system"
