#!/usr/bin/env bash
# AddressSanitizer and LeakSanitizer over the library and C hosts: asan.sh
#
# Builds the library with it (a stable compiler will do: RUSTC_BOOTSTRAP; the standard library is not instrumented) and hosts with gcc, whose
# run-time library serves both. A seeded overflow and a seeded leak, both inside the library, must be reported, so a set-up that sees
# nothing fails. Then everything fails once in a scheduler (c_tests/async/test_faults.c), and the regressions, some random graphs, meta
# devices, ggml-rs.h, an RPC server with its clients, and bad input run: that must be silent. On demand: the build takes five minutes of processor time.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/asan
host=$(rustc -vV | sed -n 's/^host: //p')
CC=${CC:-cc}
mkdir -p "$work/lib" "$work/rs"
echo "building with AddressSanitizer ..."
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers" CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
    cargo rustc --quiet --release --lib --crate-type cdylib --manifest-path "$root/Cargo.toml" --target "$host" --target-dir "$work" ||
    { echo "asan: 0 passed, 1 failed"; exit 1; }
# All functions are in this one; the files beside it only lead there.
ln -sfn "$work/$host/release/libggml.so" "$work/lib/libggml-base.so.0"
ln -sfn libggml-base.so.0 "$work/lib/libggml-base.so"

passed=0 failed=0
result() { # NAME GOOD(0|1) LOG
    if [ "$2" = 1 ]; then
        passed=$((passed + 1))
        echo "PASS asan $1"
    else
        failed=$((failed + 1))
        echo "FAIL asan $1, see $3"
        grep -m 12 -E 'ERROR|SUMMARY|^FAIL|error:|    #[0-9] ' "$3"
    fi
}
try() { # NAME EXPECTED(silent|leak|overflow) SOURCE [ARGUMENT ...]
    local name=$1 expected=$2 source=$3 log=$work/$1.log status program
    shift 3
    program=$work/$(basename "${source%.c}")
    if ! $CC -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=address -fno-omit-frame-pointer -I"$root/include" "$root/c_tests/$source" -o "$program" \
        -L"$work/lib" -lggml-base -lm -lpthread -ldl > "$log" 2>&1; then
        result "$name does not compile" 0 "$log"
        return
    fi
    LD_LIBRARY_PATH=$work/lib ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:exitcode=66 GGML_NO_BACKTRACE=1 GGML_DISABLE_VULKAN=1 \
        "$program" "$@" > "$log" 2>&1
    status=$?
    case $expected in
        silent) result "$name: $(grep -E '^[0-9]+ passed' "$log")" $((status == 0 && $(grep -cE 'ERROR: (Address|Leak)Sanitizer' "$log") == 0)) "$log" ;;
        leak) result "$name is reported" $((status == 66 && $(grep -c 'ERROR: LeakSanitizer' "$log") > 0)) "$log" ;;
        overflow) result "$name is reported" $((status == 66 && $(grep -c 'heap-buffer-overflow' "$log") > 0)) "$log" ;;
    esac
}
try seeded-overflow overflow asan/seeded.c overflow
try seeded-leak leak asan/seeded.c leak
try every-failure silent async/test_faults.c
try regressions silent async/test_rows.c
try random-graphs silent async/test_results.c 1 40
try meta silent meta/test_meta.c
try ggml-rs silent rs/test_rs.c "$work/rs"
try rpc silent rpc/test_rpc.c
try bad-input silent bad/test_bad.c
echo "asan: $passed passed, $failed failed"
[ $failed = 0 ]
