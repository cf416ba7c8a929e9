#!/usr/bin/env bash
# make bench: the cost of building, splitting and allocating graphs, against the original, in turns. Writes
# docs/BENCHMARKS.md.
#
#   bench.sh [rounds] [milliseconds a measurement] [most nodes]
#   bench.sh cpu [options of c_tests/bench/cpu.py]: make bench-cpu, whole models on the CPU
#   bench.sh memory [options of c_tests/bench/memory.py]: make bench-memory, peak memory, starts, large models
#   bench.sh ops [options of c_tests/bench/turns.py]: make bench-ops, all other ops of the CPU, with all instructions
#            and with AVX2 only
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
    mkdir -p target/bench
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Iinclude c_tests/bench/gemv.c -o target/bench/gemv -Wl,--no-as-needed -Ltarget/install/lib -lggml -lggml-base -lggml-cpu -lm
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Iinclude c_tests/bench/encoders.c -o target/bench/encoders -Wl,--no-as-needed -Ltarget/install/lib -lggml -lggml-base -lggml-cpu -lm
    printf '#!/bin/sh\nexec "%s/target/install/bin/ggml-info" --peaks\n' "$root" > target/bench/peak
    chmod +x target/bench/peak
    python3 c_tests/bench/cpu.py "$GGML_CACHE" target/install/lib "$@"
    if git diff --quiet -- docs/measurements/cpu.md 2> /dev/null; then exit; fi # nothing new to draw
    plot=$GGML_CACHE/plot
    [ -x "$plot/bin/python" ] || python3 -m venv "$plot"
    "$plot/bin/python" -c 'import matplotlib' 2> /dev/null || "$plot/bin/pip" install --quiet matplotlib==3.11.2 || { echo "bench: no plot without matplotlib"; exit; }
    exec "$plot/bin/python" c_tests/bench/plot.py
fi
if [ "${1:-}" = memory ]; then
    shift
    scripts/oracle.sh bench
    scripts/oracle.sh hosts
    exec python3 c_tests/bench/memory.py "$GGML_CACHE" target/install/lib "$@"
fi
mkdir -p target/bench
if [ "${1:-}" = ops ]; then
    shift
    scripts/oracle.sh bench
    ${CXX:-c++} -std=c++17 -O2 -Iinclude c_tests/bench/ops.cpp -o target/bench/ops -Wl,--no-as-needed -Ltarget/install/lib -lggml -lggml-base -lggml-cpu
    for level in native avx2; do
        [ -d "$GGML_CACHE/bench-$level" ] || continue
        echo "== $level"
        [ "$level" = native ] || export GGML_RS_CPU_LEVEL=$level
        python3 c_tests/bench/turns.py target/bench/ops target/install/lib "$GGML_CACHE/bench-$level/lib" "$@"
    done
    exit
fi
scripts/oracle.sh original
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Iinclude c_tests/bench/bench_sched.c -o target/bench/bench_sched -Ltarget/install/lib -lggml -lggml-base -lm
python3 c_tests/bench/bench.py target/bench/bench_sched target/install/lib "$GGML_CACHE/original/lib" "$@"
