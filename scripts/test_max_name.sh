#!/usr/bin/env bash
# A library with another GGML_MAX_NAME, and hosts that are compiled with it: test_max_name.sh [NUMBER]
#
# Builds a second library (128 by default), in target/max-name, and runs with it hosts with names that long, and those
# of c_tests/ that are for any length. On demand: a release build, some minutes. The last line counts the checks.
set -u
. "$(dirname "$0")/checks.sh"
number=${1:-128}
work=$root/target/max-name
prefix=$work/install
fails() { says "$@" && [ "$status" != 0 ]; } # TEXT COMMAND ...
compiles() { echo '#include "ggml.h"' | $CC -x c -std=c11 -fsyntax-only "$@" -; }

export CARGO_TARGET_DIR=$work
for wrong in 0 16 63 100 1040 -64 many; do
    check "GGML_MAX_NAME=$wrong is refused" fails "it must be a multiple of 16 from 32 to 1024" env GGML_MAX_NAME="$wrong" scripts/build.sh
done
echo "building with GGML_MAX_NAME=$number ..."
check "the build" env GGML_MAX_NAME="$number" scripts/build.sh
check "make install does not build it again" make CARGO=none install PREFIX="$prefix" GGML_MAX_NAME="$number"
check "nor without the variable" make CARGO=none install PREFIX="$prefix"
check "but for another number it would" fails "GGML_MAX_NAME has changed" make CARGO=none install PREFIX="$prefix" GGML_MAX_NAME=$((number + 16))
check "a host of the same number" compiles -I"$prefix/include" -DGGML_MAX_NAME="$number"
check "a host that does not say" compiles -I"$prefix/include"
for other in 64 $((number + 16)); do
    check "a host of $other" fails "this libggml is built with GGML_MAX_NAME $number" compiles -I"$prefix/include" -DGGML_MAX_NAME="$other"
done
check "the headers differ in that alone" test "$(diff "$root/include/ggml.h" "$prefix/include/ggml.h" | grep -c '^>')" = 3

host() { # FLAGS ...: compiles the host of long names and runs it
    $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" c_tests/install/long_names.c -o "$work/long_names" "$@" \
        -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lggml -lggml-cpu -lggml-base -lm && "$work/long_names" "$work/names.gguf"
}
check "names of $number bytes" host -DGGML_MAX_NAME="$number"
check "and without the macro" host
if command -v valgrind > /dev/null; then
    check "and under valgrind" valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$work/long_names" "$work/names.gguf"
fi
# Hosts of all kinds, compiled with the macro.
log=$work/c_tests.log
CC="$CC -DGGML_MAX_NAME=$number" CXX="${CXX:-c++} -DGGML_MAX_NAME=$number" GGML_PREFIX=$prefix GGML_ORACLE_PREFIX='' C_TESTS_OUT=$work/c_tests ASYNC_SEEDS=40 \
    c_tests/run.sh host async meta plugin bad rs > "$log" 2>&1
grep '^FAIL' "$log"
passed=$((passed + $(grep -c '^PASS' "$log"))) failed=$((failed + $(grep -c '^FAIL' "$log")))
check "all of c_tests ran" grep -qE '^[0-9]+ passed, 0 failed$' "$log"
finish max-name
