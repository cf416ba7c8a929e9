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
    macos) targets="aarch64-apple-darwin x86_64-apple-darwin" ;;
    android) targets=aarch64-linux-android ;;
    *) echo "usage: check_platform.sh macos|android" >&2; exit 2 ;;
esac
for triple in $targets aarch64-unknown-linux-musl; do
    [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$triple/lib" ] || rustup target add "$triple" || { echo "Rust has no library for $triple: rustup target add $triple" >&2; exit 1; }
done
tools=${GGML_CACHE:-$root/target/cache}/pack-tools-$(cksum < packaging/tools.txt | cut -d ' ' -f 1)
PYTHONPATH=scripts python3 -c 'import sys, processes; sys.exit(processes.packages(*sys.argv[1:])[1] or None)' "${tools##*/}" --require-hashes -r packaging/tools.txt || exit 1
made=$root/target/platforms tree=$root/target/platforms/$system
built=(cargo build --quiet --locked --manifest-path tools/platforms/Cargo.toml --target-dir "$made")
check "the tools" "${built[@]}" --bins
ln -sf cc "$made/debug/ar"
PLATFORM=$system ZIG=$tools/ziglang ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache RUST_SYSROOT=$("${RUSTC:-rustc}" --print sysroot) PLATFORM_WORK=$made/work-$system
export PLATFORM ZIG ZIG_GLOBAL_CACHE_DIR RUST_SYSROOT PLATFORM_WORK
# Optimised a little: nothing of it runs.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0
export CC=$made/debug/cc CARGO_TARGET=${targets%% *} CARGO_TARGET_DIR=$made SDKROOT=$temporary
export "AR_${CARGO_TARGET//-/_}=$made/debug/ar"

for triple in $targets; do
    check "$triple: compiles without warnings" env CARGO_TARGET_DIR="$root/target/targets/build" RUSTFLAGS=-Dwarnings "CC_$triple=$CC" \
        "AR_$triple=$made/debug/ar" cargo check --quiet --locked --target "$triple"
done
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64
command -v qemu-aarch64 > /dev/null || echo "qemu-aarch64 is missing: install the package qemu-user"
check "exceptions with LLVM's unwinder" cargo test --quiet --locked --manifest-path tools/platforms/Cargo.toml --target-dir "$made" --target aarch64-unknown-linux-musl
check "make" scripts/build.sh if-needed
rm -rf "$tree"
check "make install" scripts/install.sh "$tree"
[ $failed = 0 ] || finish "$system"
# Hosts in C. On Android a host is a library, too.
[ $system = macos ] && kind= || kind="-shared -fPIC -Wl,-z,defs,-z,max-page-size=16384"
programs=
mkdir -p "$tree/programs"
for source in host/test_core.c host/test_custom.c host/gguf.c examples/embed.c; do
    program=$tree/programs/$(basename "$source" .c)
    # shellcheck disable=SC2086
    check "$source is linked" "$CC" -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$source" -o "$program" $kind -L"$tree/lib" -lggml-cpu -lggml -lggml-base -lm
    programs="$programs $program"
done
# shellcheck disable=SC2086
check "files" "$made/debug/objects" $system "$tree" $programs
cat "$work/log"
if [ $system = macos ]; then
    cmake=(cmake -S c_tests/install -B "$temporary/cmake" -DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=arm64 "-DCMAKE_C_COMPILER=$CC"
        "-DCMAKE_AR=$made/debug/ar" "-DCMAKE_INSTALL_NAME_TOOL=$(command -v true)" "-DCMAKE_PREFIX_PATH=$tree" "-DWANTED=$version")
    check "find_package" "${cmake[@]}"
    check "hosts of CMake, one with the static library, are linked" cmake --build "$temporary/cmake"
    # What MoltenVK does with the shaders.
    check "the translator" env CC=cc "${built[@]}" --features msl
    check "the library's modules" env -u CARGO_TARGET CC=cc CARGO_TARGET_DIR="$target" cargo run --quiet --profile tools --features internals --example spirv -- "$temporary/spirv"
    check "shaders in Metal's language" "$made/debug/msl" "$temporary/spirv"
    cat "$work/log"
fi
finish "$system"
