#!/usr/bin/env bash
# ThreadSanitizer over the thread pool and the computation of graphs: tsan.sh [ROUNDS]
#
# Builds the library, fuzz/threads and the standard library with it (a stable compiler with RUSTC_BOOTSTRAP is enough)
# and runs that four times: two seeded races must be reported, and the stress test and the RPC server with its clients
# must not be. If the sources of the standard library are missing (the component rust-src of rustup), it is not built
# with the sanitizer. scripts/tsan.supp says which reports that leads to, and why they may be left out.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-300}
work=$root/target/tsan
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$work"
build() { # [-Zbuild-std]
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg ggml_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo build --quiet --release "$@" --manifest-path "$root/fuzz/threads/Cargo.toml" --target "$host" --target-dir "$work/build"
}
library() { [ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]; }
library || rustup component add rust-src > /dev/null 2>&1
echo "building with ThreadSanitizer ..."
suppressions=
if ! library || ! build -Zbuild-std; then
    echo "note: the standard library is not built with ThreadSanitizer"
    suppressions="suppressions=$root/scripts/tsan.supp"
    build || { echo "tsan: 0 passed, 4 failed"; exit 1; }
fi
passed=0 failed=0
try() { # NAME EXPECTED(silent|loud) ARGUMENT
    local log=$work/$1.log status races
    TSAN_OPTIONS="$suppressions exitcode=66 halt_on_error=0" "$work/build/$host/release/libggml-rs-threads" "$3" > "$log" 2>&1
    status=$?
    races=$(grep -c 'WARNING: ThreadSanitizer: data race' "$log")
    if { [ "$2" = silent ] && [ $status = 0 ]; } || { [ "$2" = loud ] && [ $status = 66 ] && [ "$races" -gt 0 ]; }; then
        passed=$((passed + 1))
        echo "PASS tsan $1: $races races reported, as expected"
    else
        failed=$((failed + 1))
        grep -E -A12 'WARNING: ThreadSanitizer|FAIL' "$log" | head -n 60
        echo "FAIL tsan $1: status $status, $races races reported, expected $2; see $log"
    fi
}
try seeded-race-of-computations loud tensor
try seeded-race-of-threads loud region
try stress silent "$rounds"
try rpc silent rpc
echo "tsan: $passed passed, $failed failed"
[ $failed = 0 ]
