#!/usr/bin/env bash
# Fuzzing with libFuzzer and AddressSanitizer: fuzz.sh [-t SECONDS | -h HOURS | -c] [TARGET ...]
#
# Builds the targets of fuzz/ (a stable compiler with RUSTC_BOOTSTRAP is enough), then runs each over its seeds and over
# the inputs that earlier runs found (target/fuzz/corpus). `cargo fuzz run TARGET` does the same if cargo-fuzz is
# installed. Inputs that fail stay in target/fuzz/findings. With -h all targets run at once, and their inputs are kept
# outside of the tree (FUZZ_OUT, default ~/.cache/libggml-rs-fuzz), with the number of executions so far; inputs that
# reach no code of their own are left out first. -c does not search: it runs the inputs that -h has kept, and the seeds,
# once in a build that counts lines (rustup component add llvm-tools), and scripts/fuzz_table.py writes the table in
# docs/measurements/fuzz.md. vulkan_node needs a software driver (the package mesa-vulkan-drivers), which must be the first device
# of GGML_VK_VISIBLE_DEVICES (0). Without it, that target is left out; with GGML_TEST_VULKAN=1 it fails. The last line
# counts the targets.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
seconds=25
together=
# The short form does the same on every machine, as far as its time allows. 0: another number each time.
seed=1
if [ "${1:-}" = -t ]; then seconds=$2; shift 2; fi
if [ "${1:-}" = -h ]; then
    together=1 seed=0
    seconds=$(awk -v hours="$2" 'BEGIN { printf "%d", hours * 3600 }')
    shift 2
fi
counts=
if [ "${1:-}" = -c ]; then counts=1; shift; fi
if [ -n "$together$counts" ]; then FUZZ_OUT=${FUZZ_OUT:-${XDG_CACHE_HOME:-$HOME/.cache}/libggml-rs-fuzz}; fi
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(gguf_read gguf_sources gguf_write_read quantize ops cpu_node scheduler alloc lies opt meta text rpc_message rpc_server rpc_client vulkan_node)
work=${FUZZ_OUT:-$root/target/fuzz}
mkdir -p "$work" || exit 1
host=$(rustc -vV | sed -n 's/^host: //p')

# Flags as in cargo-fuzz: coverage of branches with counters, and the sanitizer. Comparisons are not traced: that makes
# the build half as long again, and the seeds contain the magic numbers.
pass() { printf ' -Cllvm-args=%s' "$@"; }
flags="--cfg fuzzing -Cpasses=sancov-module$(pass -sanitizer-coverage-level=3 -sanitizer-coverage-inline-8bit-counters \
    -sanitizer-coverage-pc-table) -Zsanitizer=address -Cforce-frame-pointers"
build=$root/target/fuzz/build features=leaks,vulkan
if [ -n "$counts" ]; then
    flags=${flags/-Zsanitizer=address/-Cinstrument-coverage} build=$root/target/fuzz/build-counts features=vulkan
fi
# FUZZ_BUILT=1: the targets of the last build.
if [ -z "${FUZZ_BUILT:-}" ]; then
    echo "building the fuzz targets ..."
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags cargo build --quiet --release --manifest-path "$root/fuzz/Cargo.toml" --target "$host" \
        --target-dir "$build" --features "$features" --bins || { echo "fuzz: 0 passed, ${#targets[@]} failed"; exit 1; }
fi

# The result of fuzzing one target, on the last line of its file.
one() { # TARGET SECONDS
    local target=$1 log=$work/$1.log leaks=1 patience=20 status runs cover speed program=$build/$host/release/$1
    local found=$work/corpus/$1
    TIMEFORMAT='%U %S'
    # libFuzzer's limit for one input is in seconds of the clock, and a long run may have to wait for other programs of
    # the machine.
    [ -z "$together" ] || patience=900
    # A server's threads end during the next input, and the memory of a thread that is ending looks like a leak then.
    # These targets are checked for leaks once, at the end of the process. A driver keeps its compiled code, which is no
    # leak, and compiles for seconds.
    local minimum=100 at_end=1
    case $target in
        rpc_client | rpc_server) leaks=0 ;;
        vulkan_node) leaks=0 at_end=0 minimum=10 patience=900 ;;
    esac
    if [ $leaks = 0 ] && [ $at_end = 1 ] && { FUZZ_LEAK=1 ASAN_OPTIONS=detect_leaks=1 "$program" "$root/fuzz/seeds/$target" -runs=1 -detect_leaks=0 -artifact_prefix="$work/" > "$log.leak" 2>&1 ||
        ! grep -q 'ERROR: LeakSanitizer' "$log.leak"; }; then
        echo "FAIL fuzz $target: a leak is not found at the end of the process, see $log.leak"
        return
    fi
    mkdir -p "$found" "$work/findings"
    # A host may request more memory than there is, and must get an error, so the sanitizer must not report it. Freed
    # memory is kept for a while, to find its use: 16 MiB of it, which stay in the processor's cache longer than 256.
    # Reports show eight callers of an allocation. The choice of inputs by how rare their paths are (-entropic) costs
    # time for each of the many counters.
    local options=allocator_may_return_null=1:detect_leaks=$at_end:abort_on_error=1:quarantine_size_mb=16:malloc_context_size=8:${ASAN_OPTIONS:-}
    # Frames that have returned are watched in the short form only, because each exception that ends a call of the
    # library searches all of them.
    [ -z "$together" ] || options=detect_stack_use_after_return=0:$options
    if [ -n "$together" ] && [ -n "$(ls -A "$found")" ]; then
        rm -rf "$found.less"
        mkdir "$found.less"
        # If an input fails, it is kept, and the run below fails on it, too.
        if ASAN_OPTIONS=$options "$program" -merge=1 "$found.less" "$found" "$root/fuzz/seeds/$target" -max_len=4096 -rss_limit_mb=3000 \
            -timeout=$patience -artifact_prefix="$work/findings/$target-" > "$log.less" 2>&1 && [ -n "$(ls -A "$found.less")" ] &&
            ! compgen -G "$work/findings/$target-*" > /dev/null; then
            rm -rf "$found"
            mv "$found.less" "$found"
        fi
    fi
    { time ASAN_OPTIONS=$options "$program" "$found" "$root/fuzz/seeds/$target" -max_total_time="$2" -timeout=$patience -report_slow_units=$patience \
        -seed="$seed" -detect_leaks=$leaks -rss_limit_mb=3000 -max_len=4096 -reload=0 -entropic=0 -print_final_stats=1 -artifact_prefix="$work/findings/$target-" \
        > "$log" 2>&1; } 2> "$log.time"
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    cover=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1)
    # Per second of processor time, because targets share the machine.
    speed=$(awk -v runs="${runs:-0}" '{ t = $1 + $2; print int(runs / (t > 0 ? t : 1)) }' "$log.time")
    [ -z "$together" ] || echo "${runs:-0} $speed" >> "$work/$target.runs"
    if [ $status = 0 ] && [ "${runs:-0}" -gt $minimum ]; then
        echo "PASS fuzz $target: $runs executions, $speed a second of processor time, $cover"
    else
        grep -E 'ERROR|panicked|SUMMARY|Test unit written' "$log" | head -n 8
        echo "FAIL fuzz $target: status $status after ${runs:-no} executions, see $log"
    fi
}

# The Vulkan backend is tested on a software driver.
export GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES:-0}
case " ${targets[*]} " in *" vulkan_node "*)
    # An input that computes nothing.
    printf '\0' > "$work/none"
    if [ -z "${GGML_TEST_VULKAN:-}" ] && ! ASAN_OPTIONS=detect_leaks=0 "$build/$host/release/vulkan_node" "$work/none" > "$work/vulkan_node.log" 2>&1 &&
        grep -q 'there is no software driver' "$work/vulkan_node.log"; then
        echo "fuzz: vulkan_node is left out: no software driver for Vulkan (install mesa-vulkan-drivers)"
        read -ra targets <<< "${targets[*]/vulkan_node/}"
    fi ;;
esac

# The lines that the inputs of all targets reach.
count() {
    local tools target profiles=$work/profiles objects=()
    tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
    [ -x "$tools/llvm-cov" ] || { echo "fuzz: llvm-cov is missing: rustup component add llvm-tools"; return 1; }
    rm -rf "$profiles"
    for target in "${targets[@]}"; do
        mkdir -p "$work/corpus/$target"
        LLVM_PROFILE_FILE=$profiles/$target.profraw "$build/$host/release/$target" "$work/corpus/$target" "$root/fuzz/seeds/$target" \
            -runs=0 -timeout=60 -max_len=4096 > "$work/$target.counts.log" 2>&1 || { echo "FAIL fuzz $target: see $work/$target.counts.log"; return 1; }
        [ ${#objects[@]} -eq 0 ] || objects+=(-object)
        objects+=("$build/$host/release/$target")
    done
    "$tools/llvm-profdata" merge -sparse "$profiles"/*.profraw -o "$work/all.profdata" &&
        "$tools/llvm-cov" export -summary-only -instr-profile="$work/all.profdata" "${objects[@]}" > "$work/counts.json" &&
        python3 "$root/scripts/fuzz_table.py" "$work" "${targets[@]}"
}
if [ -n "$counts" ]; then count; exit; fi

# Prints every BEAT seconds (30) how long is left. It waits for a pipe that is never written, not for a program that
# would outlive it.
alive() { # SECONDS IN ALL
    local fd start=$SECONDS left
    exec {fd}<> <(:)
    while :; do
        read -rt "${BEAT:-30}" -u "$fd"
        left=$(($1 - SECONDS + start))
        echo "   ... fuzz: $((SECONDS - start)) s, about $((left > 0 ? left : 0)) s left, $(find "$work/findings" -type f 2> /dev/null | wc -l) findings so far"
    done
}
# Ctrl-C ends all of them; what they have found is kept.
trap 'kill $(jobs -p) 2> /dev/null' EXIT
trap 'echo "fuzz: interrupted; findings are in $work/findings"; exit 130' INT
trap 'exit 143' TERM
pids=()
if [ "$together" = 1 ]; then # all at once, a process each
    alive "$seconds" &
    for target in "${targets[@]}"; do
        one "$target" "$seconds" > "$work/$target.result" &
        pids+=($!)
    done
else
    # As many at once as there are processors.
    alive $(((${#targets[@]} + $(nproc) - 1) / $(nproc) * seconds)) &
    for target in "${targets[@]}"; do
        while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do wait -n; done # one job is alive's
        one "$target" "$seconds" > "$work/$target.result" &
        pids+=($!)
    done
fi
wait "${pids[@]}"
kill $(jobs -p) 2> /dev/null
trap - EXIT INT TERM
passed=0 failed=0
for target in "${targets[@]}"; do
    cat "$work/$target.result"
    if grep -q '^PASS' "$work/$target.result"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "fuzz: $passed passed, $failed failed"
[ $failed = 0 ]
