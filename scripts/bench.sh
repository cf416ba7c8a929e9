#!/usr/bin/env bash
# make bench: what building, splitting and allocating graphs costs, against the original, in turns. Writes docs/BENCHMARKS.md.
#
#   bench.sh [rounds] [milliseconds a measurement] [most nodes]
#   bench.sh cpu [options of c_tests/bench/cpu.py]: make bench-cpu, whole models on the CPU
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export GGML_CACHE=${GGML_CACHE:-$root/target/cache} PYTHONDONTWRITEBYTECODE=1
scripts/build.sh
scripts/install.sh target/install
if [ "${1:-}" = cpu ]; then
    shift
    scripts/oracle.sh bench
    scripts/oracle.sh hosts
    exec python3 c_tests/bench/cpu.py "$GGML_CACHE" target/install/lib "$@"
fi
scripts/oracle.sh original
mkdir -p target/bench
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Iinclude c_tests/bench/bench_sched.c -o target/bench/bench_sched -Ltarget/install/lib -lggml -lggml-base -lm
python3 c_tests/bench/bench.py target/bench/bench_sched target/install/lib "$GGML_CACHE/original/lib" "$@"
