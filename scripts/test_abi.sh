#!/bin/sh
# The binary interface against the original's, from the builds of both: test_abi.sh [LIB_DIR]
#
# LIB_DIR holds our installed libraries (default: target/install/lib). scripts/abi_diff.py makes the comparisons. Builds
# the original with debug information (scripts/oracle.sh debug), and this library too, not optimised: layouts and
# signatures are those of any build.
#
# Without abidiff (package abigail-tools) the suite is skipped, except for root, which could have installed it, and in
# CI.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lib=${1:-$root/target/install/lib}
cache=${GGML_CACHE:-$root/target/cache}
export GGML_CACHE="$cache" PYTHONDONTWRITEBYTECODE=1
logs=$root/target/test-logs
mkdir -p "$logs"

for tool in abidiff abidw; do
    command -v $tool > /dev/null && continue
    if [ "$(id -u)" = 0 ] || [ -n "${CI:-}" ]; then
        echo "FAIL $tool is missing: install the package abigail-tools"
        echo "abi: 0 passed, 1 failed"
        exit 1
    fi
    echo "abi: 0 passed, 0 failed, 1 skipped: $tool is missing (install abigail-tools)"
    exit 0
done
[ -f "$lib/libggml-base.so" ] || { echo "FAIL no library in $lib: run make install PREFIX=$root/target/install"; echo "abi: 0 passed, 1 failed"; exit 1; }
"$root/scripts/oracle.sh" debug || { echo "abi: 0 passed, 1 failed"; exit 1; }

# The dependencies are built once, and stay in the cache. Names have 64 bytes, as in the original's build.
unset GGML_MAX_NAME
echo "building the library with debug information (the first time: a minute) ..."
cd "$root"
CARGO_TARGET_DIR=$cache/abi-rust CARGO_INCREMENTAL=0 ${CARGO:-cargo} rustc --quiet --locked --lib --crate-type cdylib --config profile.dev.opt-level=0 \
    --config profile.dev.debug=2 --config 'profile.dev.package."*".debug=0' > "$logs/abi-build.log" 2>&1 || {
    tail -n 20 "$logs/abi-build.log"
    echo "abi: 0 passed, 1 failed"
    exit 1
}
exec python3 scripts/abi_diff.py "$cache/debug/lib" "$lib" "$cache/abi-rust/debug/libggml.so" "$cache/src/ggml"
