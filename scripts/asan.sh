#!/usr/bin/env bash
# AddressSanitizer and LeakSanitizer over the library and C hosts: asan.sh
#
# Builds the library with it (a stable compiler with RUSTC_BOOTSTRAP is enough; the standard library is not
# instrumented) and hosts with gcc, whose run-time library serves both. A seeded overflow and a seeded leak, both inside
# the library, must be reported, so that a setup without effect fails. Then everything in a scheduler fails once
# (c_tests/async/test_faults.c), and those hosts of c_tests run that need neither a limit of memory nor a malloc of
# their own. They must have no report, and neither must the unit tests of modules that handle pointers of C (`sys`,
# `capi`), and of RPC's client and server. On demand: the builds take ten minutes of processor time. ASAN="units hosts"
# is the default. With `peers`, programs of the original run, too (after scripts/oracle.sh tests). ASAN=rpc: RPC alone,
# its unit tests and its host. ASAN_BUILT=1: with the last build.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/asan
host=$(rustc -vV | sed -n 's/^host: //p')
CC=${CC:-cc}
mkdir -p "$work/lib" "$work/rs"
what=${ASAN:-units hosts}
echo "building with AddressSanitizer ..."
build() { # SUBCOMMAND AND ITS ARGUMENTS
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers" CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo "$1" --release --lib --manifest-path "$root/Cargo.toml" --target "$host" --target-dir "$work" "${@:2}"
}
[ -z "${ASAN_BUILT:-}" ] || build() { # uses the last build
    case $1 in test) cat "$work/units.build" ;; esac
}
case $what in *hosts* | *peers* | *rpc*)
    build rustc --quiet --crate-type cdylib || { echo "asan: 0 passed, 1 failed"; exit 1; } ;;
esac
unit=
case $what in *units* | *rpc*)
    built=$(build test --no-run 2>&1)
    echo "$built" > "$work/units.build"
    unit=$(echo "$built" | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
    [ -x "$unit" ] || { tail -n 20 "$work/units.build"; echo "asan: 0 passed, 1 failed"; exit 1; } ;;
esac
# This file has all functions; the files beside it only forward to them.
ln -sfn "$work/$host/release/libggml.so" "$work/lib/libggml-base.so.0"
for name in libggml.so libggml.so.0 libggml-cpu.so libggml-cpu.so.0 libggml-base.so; do ln -sfn libggml-base.so.0 "$work/lib/$name"; done

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
    local name=$1 expected=$2 source=$3 log=$work/$1.log status program compiler="$CC -std=c11"
    case $3 in *.cpp) compiler="${CXX:-c++} -std=c++17" ;; esac
    shift 3
    program=$work/$(basename "${source%.*}")
    if ! $compiler -D_GNU_SOURCE -O1 -g -fsanitize=address -fno-omit-frame-pointer -I"$root/include" "$root/c_tests/$source" -o "$program" \
        -L"$work/lib" -lggml -lggml-cpu -lggml-base -lm -lpthread -ldl > "$log" 2>&1; then
        result "$name does not compile" 0 "$log"
        return
    fi
    LD_LIBRARY_PATH=$work/lib ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:exitcode=66 GGML_NO_BACKTRACE=1 GGML_DISABLE_VULKAN=1 \
        "$program" "$@" > "$log" 2>&1
    status=$?
    case $expected in
        silent) result "$name: $(grep -E '^[0-9]+ passed' "$log" || echo "it ends with $status")" $((status == 0 && $(grep -cE 'ERROR: (Address|Leak)Sanitizer' "$log") == 0)) "$log" ;;
        leak) result "$name is reported" $((status == 66 && $(grep -c 'ERROR: LeakSanitizer' "$log") > 0)) "$log" ;;
        overflow) result "$name is reported" $((status == 66 && $(grep -c 'heap-buffer-overflow' "$log") > 0)) "$log" ;;
    esac
}
units() { # MODULE ...: not what forks, limits its memory or ends its process
    local log="$work/units-$1.log" status filters=("${@/%/::}")
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:exitcode=66 GGML_NO_BACKTRACE=1 GGML_DISABLE_VULKAN=1 "$unit" "${filters[@]}" > "$log" 2>&1
    status=$?
    result "unit tests of $*: $(grep -oE '[0-9]+ passed' "$log" | head -n 1)" \
        $((status == 0 && $(grep -cE 'ERROR: (Address|Leak)Sanitizer' "$log") == 0 && $(grep -c '^test result: ok. [1-9]' "$log") == 1)) "$log"
}
case $what in *units*) units sys capi ;; esac
[ -z "$unit" ] || units rpc
end() {
    echo "asan: $passed passed, $failed failed"
    [ $failed = 0 ]
    exit
}
case $what in *peers*)
    # The programs are not instrumented, so the run-time library is loaded before them.
    PEERS_RUNNER="env LD_PRELOAD=$($CC -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:exitcode=66" \
        GGML_DISABLE_VULKAN=1 python3 "$root/scripts/test_peers.py" "${GGML_CACHE:-$root/target/cache}" "$work/lib" programs > "$work/peers.log" 2>&1
    status=$?
    result "peers: $(tail -n 1 "$work/peers.log")" $((status == 0)) "$work/peers.log" ;;
esac
seeded() {
    try seeded-overflow overflow asan/seeded.c overflow
    try seeded-leak leak asan/seeded.c leak
}
case $what in *hosts*) ;; *rpc*) seeded; try rpc silent rpc/test_rpc.c; end ;; *) end ;; esac
seeded
try every-failure silent async/test_faults.c
try regressions silent async/test_rows.c
try random-graphs silent async/test_results.c 1 40
try batches silent async/test_batches.c
try callbacks silent async/test_callbacks.c
for name in core backend custom repack; do try $name silent host/test_$name.c; done
try cpp silent host/test_cpp.cpp
for name in logs order self writes; do try $name silent robust/test_$name.c; done
for name in late leave throw; do try $name silent robust/test_$name.cpp; done
try training silent opt/train.c short
try meta silent meta/test_meta.c
try ggml-rs silent rs/test_rs.c "$work/rs"
try rpc silent rpc/test_rpc.c
try bad-input silent bad/test_bad.c
end
