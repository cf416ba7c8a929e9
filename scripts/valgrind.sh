#!/usr/bin/env bash
# valgrind over C and C++ hosts: valgrind.sh [NAME ...]
#
# Invalid accesses, reads of values that were never written, and leaked blocks, in the library and in hosts of it.
# GGML_PREFIX is the library (default: target/install, which is installed first). Programs that use a limit of memory, a
# replaced malloc or deadlines of milliseconds are left out: robust test_memory, test_faults, test_cancel and soak,
# async test_heap. The last line counts the programs. On demand: it takes minutes.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${GGML_PREFIX:-}
command -v valgrind > /dev/null || { echo "valgrind: 0 passed, 1 failed: install the package valgrind"; exit 1; }
if [ -z "$prefix" ]; then
    prefix=$root/target/install
    "$root/scripts/install.sh" "$prefix" > /dev/null || { echo "valgrind: 0 passed, 1 failed"; exit 1; }
fi
work=$root/target/valgrind
mkdir -p "$work/rs-files" "$work/modules"
flags="-D_GNU_SOURCE -O1 -g -I$prefix/include -L$prefix/lib -Wl,-rpath,$prefix/lib"
# The good module, and those that must be refused: c_tests/run.sh.
module() { # FILE FLAG
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 $flags -shared -fPIC "$2" "$root/c_tests/plugin/accel.c" -o "$work/modules/$1.so" -lggml-base
}
module accel -DACCEL_SCORE=10 && module old -DACCEL_API_VERSION=2 && module newer -DACCEL_API_VERSION=99 && module noinit -DACCEL_NO_INIT &&
    module noreg -DACCEL_NO_REG && module score0 -DACCEL_SCORE=0 && module small -DACCEL_MAX_SIZE=4096 && echo text > "$work/modules/text.so" ||
    { echo "valgrind: 0 passed, 1 failed"; exit 1; }

# Name, source, arguments.
programs="
core            host/test_core.c
backend         host/test_backend.c
custom          host/test_custom.c
repack          host/test_repack.c
cpp             host/test_cpp.cpp
async-results   async/test_results.c 1 25
async-rows      async/test_rows.c
async-batches   async/test_batches.c
async-callbacks async/test_callbacks.c
async-faults    async/test_faults.c quick
meta            meta/test_meta.c
bad             bad/test_bad.c quick
rs              rs/test_rs.c $work/rs-files
plugin          plugin/test_plugin.c $work/modules
training        opt/train.c short
logs            robust/test_logs.c
order           robust/test_order.c
self            robust/test_self.c
writes          robust/test_writes.c
late            robust/test_late.cpp
leave           robust/test_leave.cpp
throw           robust/test_throw.cpp
unload          robust/test_unload.c $prefix/lib
"
passed=0 failed=0
while read -r name source arguments; do
    [ -n "$name" ] || continue
    if [ $# -gt 0 ]; then case " $* " in *" $name "*) ;; *) continue ;; esac; fi
    compiler="${CC:-cc} -std=c11"
    case $source in *.cpp) compiler="${CXX:-c++} -std=c++17" ;; esac
    define=
    [ "$name" != meta ] || define=-DGGML_RS
    log=$work/$name.log
    # Children of these end in the middle of their work, and leave memory of the test.
    leaks=full
    case $name in async-results | logs) leaks=no ;; esac
    # shellcheck disable=SC2086
    if $compiler $define $flags "$root/c_tests/$source" -o "$work/$name" -lggml -lggml-cpu -lggml-base -lm -lpthread -ldl > "$log" 2>&1 &&
        GGML_DISABLE_VULKAN=1 GGML_NO_BACKTRACE=1 valgrind -q --error-exitcode=9 --leak-check=$leaks --errors-for-leak-kinds=definite "$work/$name" $arguments > "$log" 2>&1; then
        passed=$((passed + 1))
        echo "PASS valgrind $name: $(grep -E '^[0-9]+ passed' "$log" || echo "it ends with 0")"
    else
        failed=$((failed + 1))
        echo "FAIL valgrind $name, see $log"
        grep -m 8 -E '^==|^FAIL|error:' "$log"
    fi
done <<< "$programs"
echo "valgrind: $passed passed, $failed failed"
[ $failed = 0 ]
