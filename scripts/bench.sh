#!/usr/bin/env bash
# make bench: the cost of building, splitting and allocating graphs, against the original, in turns. Writes
# docs/BENCHMARKS.md.
#
#   bench.sh [rounds] [milliseconds a measurement] [most nodes]
#   bench.sh cpu [options of c_tests/bench/cpu.py]: make bench-cpu, whole models on the CPU
#   bench.sh memory [options of c_tests/bench/memory.py]: make bench-memory, peak memory, starts, large models
#   bench.sh ops [options of c_tests/bench/turns.py]: make bench-ops, all other ops of the CPU, with all instructions
#            and with AVX2 only
#   bench.sh experts [options of c_tests/bench/bench_experts.py]: make bench-experts, models larger than a simulated
#            card
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export GGML_CACHE=${GGML_CACHE:-$root/target/cache} PYTHONDONTWRITEBYTECODE=1
scripts/build.sh
scripts/install.sh target/install
mkdir -p target/bench
built() { # COMPILER SOURCE: a program of c_tests/bench
    $1 -D_GNU_SOURCE -O2 -Iinclude "c_tests/bench/$2" -o "target/bench/${2%.*}" -Wl,--no-as-needed -Ltarget/install/lib -lggml -lggml-base -lggml-cpu -lm
}
what=${1:-}
case $what in
cpu | memory | ops)
    shift
    scripts/oracle.sh bench
    [ "$what" = ops ] || scripts/oracle.sh hosts ;;
experts)
    shift
    scripts/oracle.sh original
    scripts/oracle.sh hosts ;;
*) scripts/oracle.sh original ;;
esac
case $what in
cpu)
    built "${CC:-cc} -std=c11" gemv.c
    built "${CC:-cc} -std=c11" encoders.c
    printf '#!/bin/sh\nexec "%s/target/install/bin/ggml-info" --peaks\n' "$root" > target/bench/peak
    chmod +x target/bench/peak
    python3 c_tests/bench/cpu.py "$GGML_CACHE" target/install/lib "$@"
    # Draws only what is new.
    git diff --quiet -- docs/measurements/cpu.md 2> /dev/null || exec python3 c_tests/bench/plot.py ;;
memory) exec python3 c_tests/bench/memory.py "$GGML_CACHE" target/install/lib "$@" ;;
experts) exec python3 c_tests/bench/bench_experts.py "$GGML_CACHE" target/install/lib "$@" ;;
ops)
    built "${CXX:-c++} -std=c++17" ops.cpp
    for level in native avx2; do
        [ -d "$GGML_CACHE/bench-$level" ] || continue
        echo "== $level"
        [ "$level" = native ] || export GGML_RS_CPU_LEVEL=$level
        python3 c_tests/bench/turns.py target/bench/ops target/install/lib "$GGML_CACHE/bench-$level/lib" "$@"
    done ;;
*)
    built "${CC:-cc} -std=c11" bench_sched.c
    python3 c_tests/bench/bench.py target/bench/bench_sched target/install/lib "$GGML_CACHE/original/lib" "$@" ;;
esac
