#!/usr/bin/env bash
# Builds the C and C++ tests and runs them against an installed library.
#
#   GGML_PREFIX=DIR          the library under test: DIR/include and DIR/lib (default: target/install)
#   GGML_ORACLE_PREFIX=DIR   the original ggml 0.28.0, installed likewise; without it the tests that need it are
#                            skipped, with a note
#   GGML_ORACLE_SRC=DIR      the original's ggml/src, for the headers that it does not install (optional)
#   usage: c_tests/run.sh [suite ...]     suites: abi dump host sched async card meta quant ops train plugin bad robust
#                                         rs foreign refuse whisper examples (default: all), soak (a part of robust),
#                                         soak_card (a part of card), windows
#
# Prints PASS or FAIL for each test and, last, `N passed, M failed`. The exit status is 0 if none has failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
prefix=${GGML_PREFIX:-$root/target/install}
oracle=${GGML_ORACLE_PREFIX:-}
oracle_src=${GGML_ORACLE_SRC:-}
out=${C_TESTS_OUT:-$root/target/c_tests}
suites=${*:-abi dump host sched async card meta quant ops train plugin bad robust rs foreign refuse whisper examples}
CC=${CC:-cc} CXX=${CXX:-c++}
export CC CXX GGML_NO_BACKTRACE=1 GGML_RS_DEBUG=threads=all ABI_OUT=$out/abi
passed=0 failed=0 notes=()

need() { command -v "$1" > /dev/null || { echo "c_tests: $1 is missing: install the package $2"; exit 2; }; }
need "${CC%% *}" gcc
need "${CXX%% *}" g++
need python3 python3
need nm binutils
[ -f "$prefix/include/ggml.h" ] || { echo "c_tests: no library in $prefix (make install PREFIX=$prefix, or set GGML_PREFIX)"; exit 2; }
if [ -n "$oracle" ] && [ ! -f "$oracle/include/ggml.h" ]; then
    echo "c_tests: no original in $oracle"; exit 2
fi
mkdir -p "$out"/{ours,oracle,abi,text}
# Programs for Windows, in Wine.
system_libs="-lm -lpthread -ldl" windows=
case $($CC -dumpmachine) in *-mingw*) windows=1 system_libs="-lm -lpthread" ;; esac
# Programs that Windows cannot have.
posix_only() { # SOURCE
    [ -n "$windows" ] && grep -qE '#include <(sys/|dirent|dlfcn|fcntl|netinet)|[rs]limit|fork\(|pthread_cancel|clockid_t' "$here/$1" && note "$1 is for POSIX"
}
# Not for programs under qemu.
has_valgrind() { [ -z "$windows" ] && command -v valgrind > /dev/null && [ "$($CC -dumpmachine | cut -d- -f1)" = "$(uname -m)" ]; }

ok() { passed=$((passed + 1)); echo "PASS $1"; }
bad() { failed=$((failed + 1)); echo "FAIL $1: $2"; }
note() { notes+=("$1"); }

# Counts the PASS and FAIL lines of a command that prints them; a command that dies counts as one failure.
# usage: counted NAME COMMAND ...
counted() {
    local name=$1 log status n
    shift
    log=$out/text/$(echo "$name" | tr -c 'A-Za-z0-9.\n-' _).log
    "$@" > "$log" 2> "$log.err"
    status=$?
    # Indented, with the name of the program.
    grep -E '^(PASS|FAIL|note)' "$log" | sed "s|^\(PASS\|FAIL\) |\1 $name: |"
    n=$(grep -c '^PASS' "$log"); passed=$((passed + n))
    n=$(grep -c '^FAIL' "$log"); failed=$((failed + n))
    if ! grep -qE '^[0-9]+ passed, [0-9]+ failed$' "$log"; then
        bad "$name" "ended with status $status before its last line; $(tail -n 1 "$log.err" | cut -c1-200)"
    elif [ "$status" -ne 0 ] && [ "$n" -eq 0 ]; then
        bad "$name" "ended with status $status"
    fi
}

lib_of() { [ "$1" = ours ] && echo "$prefix/lib" || echo "$oracle/lib"; }
inc_of() { [ "$1" = ours ] && echo "$prefix/include" || echo "$oracle/include"; }
on() { # on LIBRARY COMMAND ...: runs with that library
    local which=$1 lib
    shift
    lib=$(lib_of "$which")
    if [ -n "$windows" ]; then # with lines as elsewhere
        (set -o pipefail && WINEPATH="Z:${lib%/lib}/bin;${WINEPATH:-}" "$@" | tr -d '\r')
        return
    fi
    LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

# Where the linker finds what the libraries of a folder need.
rpath_link() { [ -n "$windows" ] || echo "-Wl,-rpath-link,$1"; }
# MinGW's programs get a name with .exe; here all have the same names.
plain() { [ -z "$windows" ] || mv "$1.exe" "$1"; } # PROGRAM

# build HEADERS(ours|oracle) SOURCE NAME [flags ...]: strict C11 or C++17, linked against the same installation
build() {
    local which=$1 source=$2 name=$3 compiler std dir libs="-lggml -lggml-cpu -lggml-base"
    shift 3
    dir=$(lib_of "$which")
    case $source in
        *.cpp) compiler=$CXX; std=c++17 ;;
        *) compiler=$CC; std=c11 ;;
    esac
    # shellcheck disable=SC2086
    $compiler -std=$std -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$(inc_of "$which")" "$here/$source" -o "$out/$which/$name" \
        -L"$dir" $(rpath_link "$dir") $libs $system_libs "$@" 2> "$out/text/build.err" && plain "$out/$which/$name" && return 0
    bad "build $source against $which" "$(grep -m 3 -E 'error|undefined' "$out/text/build.err" | tr '\n' '|' | cut -c1-400)"
    return 1
}

# same NAME FILE FACTS: checks that two texts are equal.
same() {
    if [ ! -s "$2" ]; then bad "$1" "it printed nothing"; return; fi
    if cmp -s "$2" "$3"; then ok "$1"; return; fi
    diff "$3" "$2" > "$out/text/diff.txt"
    cp "$out/text/diff.txt" "$2.diff"
    bad "$1" "$(grep -c '^[<>]' "$2.diff") lines differ from the facts, see $2.diff: $(grep -m 2 '^[<>]' "$2.diff" | cut -c1-160 | tr '\n' '|')"
}

# What the original prints. Its compiler for ARM makes two tensors of a convolution in the other order (arguments of one
# call), so their numbers are left out there.
same_original() { # WHAT FILE FACTS
    [ "${ORACLE_FOR:-}:${3##*/}" = arm:constructors.txt ] || { same "$@"; return; }
    sed 's/#[0-9]*/#/g' "$2" | sort > "$2.unordered" && sed 's/#[0-9]*/#/g' "$3" | sort > "$out/text/facts.unordered"
    same "$1" "$2.unordered" "$out/text/facts.unordered"
}

suite_abi() {
    counted "abi headers" python3 "$here/abi/abi.py" headers "$prefix/include"
    counted "abi layout" python3 "$here/abi/abi.py" layout "$prefix/include"
    counted "abi signatures" python3 "$here/abi/abi.py" signatures "$prefix/include"
    counted "abi symbols" python3 "$here/abi/abi.py" symbols "$prefix/lib/libggml-base.so"
    counted "abi files" python3 "$here/abi/abi.py" files "$prefix/lib"
    counted "abi backends" python3 "$here/abi/abi.py" backends "$prefix/include"
    if [ -n "$oracle" ]; then # the facts themselves, against the original's headers
        counted "abi layout of the original" python3 "$here/abi/abi.py" layout "$oracle/include" $oracle_src
        counted "abi signatures of the original" python3 "$here/abi/abi.py" signatures "$oracle/include"
        counted "abi files of the original" python3 "$here/abi/abi.py" files "$oracle/lib"
        counted "abi backends of the original" python3 "$here/abi/abi.py" backends "$oracle/include"
    fi
    # every constructor is in the dump
    local missing
    missing=$(grep -E ' ggml_tensor\*\(\*\)\(ggml_context\*' "$here/abi/signatures.txt" | cut -d' ' -f1 | grep -vxE 'ggml_get_tensor|ggml_flash_attn_back' |
        while read -r n; do grep -qw "$n" "$here/host/constructors.c" || echo "$n"; done)
    if [ -z "$missing" ]; then ok "every constructor is in the dump"; else bad "every constructor is in the dump" "missing: $missing"; fi
}

# Programs that print the results of their calls. facts/NAME.txt has the original's results.
suite_dump() {
    local name text internal
    for name in $(cd "$here/host/facts" && ls -- *.txt | sed 's/\.txt$//'); do
        build ours "host/$name.c" "$name" || continue
        text=$out/text/$name
        internal= # the original does not install ggml-backend-impl.h
        if grep -q 'plugin/accel.c' "$here/host/$name.c"; then internal=-I$oracle_src; fi
        on ours "$out/ours/$name" > "$text.txt" 2> "$text.err" || bad "dump $name" "ended with status $?: $(tail -n 1 "$text.err" | cut -c1-200)"
        case $name in
            asserts|tables|quantize) # one fact a line: each is reported by itself
                counted "dump $name" python3 "$here/common/facts.py" "$text.txt" "$here/host/facts/$name.txt" "$here/host/pending.txt" ;;
            *) same "dump $name" "$text.txt" "$here/host/facts/$name.txt" ;;
        esac
        [ -n "$oracle" ] || continue
        # Its searches take long in the original. The other programs show that a swap works.
        if [ "$name" = quantize ]; then
            build oracle "host/$name.c" "$name" && on oracle "$out/oracle/$name" > "$text.original.txt" 2> "$text.err"
            same "dump $name: the original agrees with the facts" "$text.original.txt" "$here/host/facts/$name.txt"
            continue
        fi
        on oracle "$out/ours/$name" > "$text.back.txt" 2> "$text.err"
        same_original "dump $name: built for this library, run on the original" "$text.back.txt" "$here/host/facts/$name.txt"
        if [ "$internal" = -I ]; then note "$name is not built for the original (GGML_ORACLE_SRC)"; continue; fi
        # shellcheck disable=SC2086
        build oracle "host/$name.c" "$name" $internal || continue
        on oracle "$out/oracle/$name" > "$text.original.txt" 2> "$text.err"
        same_original "dump $name: the original agrees with the facts" "$text.original.txt" "$here/host/facts/$name.txt"
        on ours "$out/oracle/$name" > "$text.swap.txt" 2> "$text.err"
        same "dump $name: built for the original, run on this library" "$text.swap.txt" "$here/host/facts/$name.txt"
    done
}

# Programs that check by themselves; those that are written against the public interface run with both installations.
suite_host() {
    local source name
    for source in "$here"/host/test_*.c "$here"/host/test_*.cpp; do
        name=$(basename "$source")
        name=${name%.*}
        source=host/$(basename "$source")
        ! posix_only "$source" || continue
        build ours "$source" "$name" || continue
        counted "$name" on ours "$out/ours/$name"
        [ -n "$oracle" ] || continue
        build oracle "$source" "$name" || continue
        counted "$name of the original" on oracle "$out/oracle/$name"
        counted "$name built for the original" on ours "$out/oracle/$name"
    done
}

# Random graphs over random devices: placement, splits, copies, offsets and every call to a device, on both libraries;
# then with small plans, the default, whose buffers must not be larger. SCHED_SEEDS: how many graphs. A thousand at a
# time, because the text about each has a hundred kilobytes. Nodes that write into the memory of others do not need the
# original: WRITERS_SEEDS and WRITERS_WITH.
suite_sched() {
    local which first=1 n seeds=${SCHED_SEEDS:-300}
    ! posix_only sched/test_writers.c && build ours sched/test_writers.c test_writers -lggml-rpc &&
        counted "sched writers" on ours env WRITERS_WITH="${WRITERS_WITH-rpc}" "$out/ours/test_writers" 1 "${WRITERS_SEEDS:-300}"
    if [ -z "$oracle" ]; then note "sched is skipped without the original"; return; fi
    ! posix_only sched/sched_diff.c || return
    build ours sched/sched_diff.c sched_diff || return
    while [ "$first" -le "$seeds" ]; do
        n=$((seeds - first + 1 < 1000 ? seeds - first + 1 : 1000))
        for which in oracle ours; do
            GGML_RS_EXPERT_CACHE=0 GGML_RS_DEBUG=planner=online,threads=all,ahead=off,inputs=apart on "$which" "$out/ours/sched_diff" "$first" "$n" 100 > "$out/text/sched.$which.txt" 2> "$out/text/sched.$which.err"
        done
        # Reading ahead takes memory (docs/scheduler.md).
        GGML_RS_EXPERT_CACHE=0 GGML_RS_DEBUG=threads=all,ahead=off,inputs=apart on ours "$out/ours/sched_diff" "$first" "$n" 100 > "$out/text/sched.small.txt" 2> "$out/text/sched.small.err"
        counted "sched plans" python3 "$here/sched/compare_plans.py" "$out/text/sched.oracle.txt" "$out/text/sched.small.txt"
        counted "sched" python3 "$here/sched/compare.py" "$out/text/sched.oracle.txt" "$out/text/sched.ours.txt"
        grep -h '^seed' "$out/text/sched.log" "$out/text/sched_plans.log" 2> /dev/null
        first=$((first + n))
    done
}

# Devices with queues and threads: results, regressions by name, failures; with the race checker, and on the original as
# far as that goes. ASYNC_SEEDS: how many random graphs.
suite_async() {
    local seeds=${ASYNC_SEEDS:-150} part
    for part in results rows batches callbacks races faults heap experts; do
        build ours async/test_$part.c async_$part || return
    done
    export GGML_SCHED_SANITIZE=1
    counted "async results" on ours "$out/ours/async_results" 1 "$seeds"
    counted "async regressions" on ours "$out/ours/async_rows"
    counted "async batches" on ours "$out/ours/async_batches"
    counted "async callbacks" on ours "$out/ours/async_callbacks"
    counted "async races" on ours "$out/ours/async_races"
    counted "async failures" on ours "$out/ours/async_faults"
    counted "async experts" on ours "$out/ours/async_experts"
    unset GGML_SCHED_SANITIZE
    counted "async memory of the process" on ours env GGML_DISABLE_VULKAN=1 "$out/ours/async_heap"
    if has_valgrind; then
        counted "async failures under valgrind" on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/async_faults" quick
    fi
    [ -n "$oracle" ] || return
    export ASYNC_CAREFUL=1
    counted "async results on the original" on oracle "$out/ours/async_results" 1 40
    counted "async regressions on the original" on oracle "$out/ours/async_rows"
    counted "async batches on the original" on oracle "$out/ours/async_batches"
    counted "async callbacks on the original" on oracle "$out/ours/async_callbacks"
    unset ASYNC_CAREFUL
}

# A simulated card: what it computes, and experts in a cache on it, with the race checker.
suite_card() {
    if posix_only card/test_experts.c; then return; fi
    the_card && build ours card/test_card.c test_card && build ours card/test_experts.c card_experts && build ours card/test_offload.c card_offload && build ours card/test_ahead.c card_ahead || return
    counted "card" on ours env CARD_MODE=values "$out/ours/test_card" "$out/ours/libcard.so"
    counted "card experts" on_card "$out/ours/card_experts" CARD0
    counted "card experts, weights in pages of the host" on_card CARD_HOST_COPIES=1 "$out/ours/card_experts" CARD0
    # What has to wait for something is wrong if it does not: the device is late, or what comes to it.
    for slow in CARD_LAUNCH_US=1000 CARD_H2D_GBPS=0.5 CARD_LATE_EVERY=20; do counted "card experts, $slow" on_card $slow "$out/ours/card_experts" CARD0; done
    counted "card reads ahead" on_card "$out/ours/card_ahead" CARD0
    counted "card experts by default" on_card CARD_MEMORY_MIB=4096 "$out/ours/card_experts" CARD0 default
    for n in 45 100 200; do counted "card experts, lost after $n" on_card CARD_LOSE_AFTER=$n "$out/ours/card_experts" CARD0 lost; done
    # By the size of the batch; by cost: over a fast bus, over a slow one, or if a batch is set.
    for offload in "31 cpu" "32 device" "16 device cost" "96 cpu cost CARD_H2D_GBPS=0.005" "31 cpu cost GGML_OP_OFFLOAD_MIN_BATCH=32" "16 any cost CARD_MODE=values"; do
        # shellcheck disable=SC2086
        set -- $offload
        counted "card offload${3:+ by $3}${4:+, $4}" on_card CARD_MODE=timing GGML_RS_OFFLOAD="${3:-}" ${4:+"$4"} "$out/ours/card_offload" CARD0 "$1" "$2"
    done
    counted "card experts for a while" on_card "$out/ours/card_experts" CARD0 soak 15
}
the_card() {
    $CC -std=gnu11 -O2 -g -Wall -Wextra -Werror -shared -fPIC "-I$prefix/include" "$here/card/card.c" -o "$out/ours/libcard.so" -Wl,-z,nodelete -lpthread -lm 2> "$out/text/build.err" ||
        { bad "build the card" "$(grep -m 3 error "$out/text/build.err" | tr '\n' '|')"; return 1; }
}
# Fast: its times do not matter here.
on_card() { # [VARIABLE=VALUE ...] PROGRAM ...
    on ours env GGML_BACKEND_PATH="$out/ours/libcard.so" GGML_DISABLE_VULKAN=1 GGML_SCHED_SANITIZE=1 CARD_MODE=values CARD_REALTIME=0 CARD_MEMORY_MIB=512 \
        CARD_H2D_GBPS=100 CARD_COPY_LATENCY_US=1 CARD_LAUNCH_US=1 CARD_KERNEL_US=0 CARD_SPIN_US=0 "$@"
}

# Every format, quantized in every way from many kinds of rows on both libraries: bytes. QUANT_SEEDS: rows of each kind.
suite_quant() {
    local which
    if [ -z "$oracle" ]; then note "quant is skipped without the original"; return; fi
    build ours quant/quant_diff.c quant_diff || return
    for which in oracle ours; do
        on "$which" "$out/ours/quant_diff" "$out/text/quant.$which.bin" 1 "${QUANT_SEEDS:-2}" 2> "$out/text/quant.err" || bad "quantizing on $which" "ended with status $?: $(tail -n 1 "$out/text/quant.err" | cut -c1-200)"
    done
    python3 "$here/quant/compare.py" "$out/text/quant.oracle.bin" "$out/text/quant.ours.bin" > "$out/text/quant.table"
    grep -vE '^(PASS|FAIL)|passed' "$out/text/quant.table"
    counted "quant" cat "$out/text/quant.table"
    rm -f "$out/text/quant.oracle.bin" "$out/text/quant.ours.bin"
}

# Several CPUs as one device: results, bytes, and errors where the original ends the process.
suite_meta() {
    build ours meta/test_meta.c test_meta -DGGML_RS || return
    counted "meta" on ours "$out/ours/test_meta"
    if has_valgrind; then
        counted "meta under valgrind" on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/test_meta"
    fi
}

suite_ops() {
    local level threads
    ! posix_only diff/ops.cpp || return
    build ours diff/ops.cpp ops -Wno-deprecated-declarations || return
    if [ -z "$oracle" ]; then
        on ours "$out/ours/ops" "$out/text/ops.bin" -t 2 -s 1000000000 > "$out/text/ops.log" 2>&1
        if grep -qE 'CRASHED|FAILED' "$out/text/ops.log"; then bad "ops" "$(grep -E 'CRASHED|FAILED' "$out/text/ops.log" | head -n 5 | tr '\n' '|')"; else ok "ops run: $(tail -n 1 "$out/text/ops.log")"; fi
        return
    fi
    local part=-s\ ${DIFF_SAMPLE:-4} # one in so many cases of the grid
    [ -z "${DIFF_ALL:-}" ] || part=-s\ 1
    # shellcheck disable=SC2086
    on oracle "$out/ours/ops" "$out/text/ops.original.bin" -r -t 1 $part > "$out/text/ops.original.log" 2>&1
    # As this processor, or as smaller ones.
    for level in ${DIFF_LEVELS:-all}; do
        [ "$level" = all ] || set -- env GGML_RS_CPU_LEVEL="$level"
        for threads in 1 2; do
            on ours "$@" "$out/ours/ops" "$out/text/ops.$threads.bin" -t $threads $part > "$out/text/ops.$threads.log" 2>&1
            python3 "$here/diff/compare.py" "$out/text/ops.original.bin" "$out/text/ops.$threads.bin" > "$out/text/ops.$threads.table"
            # The table of ops by types, once; the long one, by format, stays in the file.
            [ "$threads" = 2 ] || sed -n '/^worst error/,/^$/p' "$out/text/ops.$threads.table"
            grep -vE '^(PASS|FAIL|note)|passed' "$out/text/ops.$threads.table" | grep -E 'wrong|not supported|^op ' | head -n 60
            counted "ops with $threads threads$([ "$level" = all ] || echo ", level $level")" cat "$out/text/ops.$threads.table"
        done
    done
    echo "every format by itself: $out/text/ops.1.table"
}

# What a host may do, and what may happen to it, must not end it.
suite_robust() {
    local source name
    for source in "$here"/robust/test_*.c "$here"/robust/test_*.cpp; do
        name=$(basename "$source")
        name=${name%.*}
        [ "$name" != test_unload ] || continue
        ! posix_only "robust/$(basename "$source")" || continue
        # A set-uid program among them finds the library by this path alone.
        [ -n "$windows" ] || set -- "-Wl,-rpath,$(cd "$prefix" && pwd)/lib"
        build ours "robust/$(basename "$source")" "robust_$name" "$@" || continue
        counted "robust $name" on ours "$out/ours/robust_$name"
    done
    suite_soak GGML_DISABLE_VULKAN=1
}

# Alone, as make soak runs it, with Vulkan0 if there is one. What it prints is in text/robust_soak.log.
suite_soak() { # [VARIABLE=VALUE ...]
    local accel=$out/ours/robust_accel.so unload=() libs=()
    if [ -n "$windows" ]; then
        accel=$out/ours/robust_accel.dll libs=(-lpsapi -lntdll)
    else # a host that opens the library by itself
        unload=("$out/ours/robust_test_unload" "$prefix/lib")
        $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" "$here/robust/test_unload.c" -o "${unload[0]}" -ldl &&
            counted "robust test_unload" "${unload[@]}"
    fi
    module ours "$accel" -DACCEL_SCORE=10 && build ours robust/soak.c robust_soak "${libs[@]}" &&
        counted "robust soak" on ours env "$@" "$out/ours/robust_soak" "${SOAK_SECONDS:-15}" 1 "${windows:+Z:}$accel" "${unload[@]}"
}
# Experts on a card, with changing budgets.
suite_soak_card() {
    the_card && build ours card/test_experts.c card_experts && counted "card soak" on_card GGML_SCHED_SANITIZE=0 "$out/ours/card_experts" CARD0 soak "${SOAK_SECONDS:-15}"
}

# Training: regression and classifier, both optimizers, with and without static graphs, on both libraries.
suite_train() {
    local which
    build ours opt/train.c train || return
    if has_valgrind; then
        on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/train" short > /dev/null 2> "$out/text/train.valgrind"
        if [ $? -eq 0 ]; then ok "training under valgrind"; else bad "training under valgrind" "$(grep -m 2 '^==' "$out/text/train.valgrind" | tr '\n' '|')"; fi
    fi
    [ -n "$oracle" ] || { note "training is not compared without the original"; return; }
    for which in oracle ours; do
        on "$which" "$out/ours/train" > "$out/text/train.$which.txt" 2> "$out/text/train.$which.err" || bad "training on $which" "ended with status $?: $(tail -n 1 "$out/text/train.$which.err" | cut -c1-200)"
    done
    counted "training" python3 "$here/opt/compare.py" "$out/text/train.oracle.txt" "$out/text/train.oracle.err" "$out/text/train.ours.txt" "$out/text/train.ours.err"
}

# module HEADERS OUTPUT [flags]: the accelerator as a loadable module
module() {
    local which=$1 output=$2 dir include
    shift 2
    dir=$(lib_of "$which")
    include=-I$(inc_of "$which")
    [ "$which" = oracle ] && include="$include -I$oracle_src"
    # shellcheck disable=SC2086
    $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -shared -fPIC $include "$here/plugin/accel.c" -o "$output" "$@" -L"$dir" $(rpath_link "$dir") \
        -lggml-base 2> "$out/text/build.err" && return 0
    bad "build the module against $which" "$(grep -m 3 -E 'error|undefined' "$out/text/build.err" | tr '\n' '|' | cut -c1-400)"
    return 1
}

modules() { # modules HEADERS: the good one and those that must be refused
    local dir=$out/$1/modules
    mkdir -p "$dir"
    module "$1" "$dir/accel.so" -DACCEL_SCORE=10 && module "$1" "$dir/old.so" -DACCEL_API_VERSION=2 && module "$1" "$dir/newer.so" -DACCEL_API_VERSION=99 &&
        module "$1" "$dir/noinit.so" -DACCEL_NO_INIT && module "$1" "$dir/noreg.so" -DACCEL_NO_REG && module "$1" "$dir/score0.so" -DACCEL_SCORE=0 &&
        module "$1" "$dir/small.so" -DACCEL_MAX_SIZE=4096 && echo text > "$dir/text.so"
}

suite_plugin() {
    modules ours && build ours plugin/test_plugin.c test_plugin || return
    counted "plugin" on ours "$out/ours/test_plugin" "$out/ours/modules"
    if has_valgrind; then
        counted "plugin under valgrind" on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/test_plugin" "$out/ours/modules"
    else
        note "no valgrind: install the package valgrind to look for leaks"
    fi
    [ -n "$oracle" ] && [ -n "$oracle_src" ] || { note "a module built for the original was not tried (GGML_ORACLE_PREFIX and GGML_ORACLE_SRC)"; return; }
    modules oracle && build oracle plugin/test_plugin.c test_plugin || return
    # The header of the original writes no note into a module, but its table of buffer functions identifies it. Files
    # for Windows do not say how large a table is.
    counted "plugin and host of the original" on ours env ${windows:+GGML_RS_ANY_MODULE=1} "$out/oracle/test_plugin" "$out/oracle/modules"
    counted "plugin of this library on the original" on oracle "$out/oracle/test_plugin" "$out/ours/modules"
}

suite_bad() {
    build ours bad/test_bad.c test_bad || return
    counted "bad input" on ours "$out/ours/test_bad"
    if has_valgrind; then
        counted "bad input under valgrind" on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/test_bad" quick
    fi
}

# ggml-rs.h: errors, placement reports, timelines.
suite_rs() {
    local files=$out/text/rs
    rm -rf "$files" && mkdir -p "$files"
    build ours rs/test_rs.c test_rs || return
    counted "rs" on ours "$out/ours/test_rs" "$files"
    counted "rs files" python3 "$here/rs/check.py" "$files"
    if has_valgrind; then
        mkdir -p "$files/valgrind"
        counted "rs under valgrind" on ours env GGML_DISABLE_VULKAN=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$out/ours/test_rs" "$files/valgrind"
    fi
}

# Modules from other builds: the original's CPU and RPC modules (and Vulkan's, if it is there) on this library, two of
# the original's RPC servers on this library, and this library as a CPU module of the original. GGML_MODULES: folder
# with libggml-cpu.so, libggml-rpc.so, ggml-rpc-server and, perhaps, libggml-vulkan.so (scripts/oracle.sh modules).
# GGML_MESA: that of scripts/fetch_mesa.py.
suite_foreign() {
    local modules=${GGML_MODULES:-} port ports pids= i begin=libggml- end=.so server=ggml-rpc-server
    [ -z "$windows" ] || { begin=ggml- end=.dll server=ggml-rpc-server.exe; }
    if [ ! -e "$modules/${begin}cpu$end" ]; then note "foreign modules were not tried (GGML_MODULES, from scripts/oracle.sh modules)"; return; fi
    build ours foreign/test_foreign.c test_foreign || return
    counted "foreign: the original's CPU module" on ours "$out/ours/test_foreign" "$modules/${begin}cpu$end" 1e-4
    port=$((20000 + $$ % 20000)) ports=
    for i in 0 1; do
        # Not with `on`: $! would be the shell that runs the function, and the server would outlive it.
        GGML_BACKEND_PATH=$modules/${begin}rpc$end LD_LIBRARY_PATH=$(lib_of ours)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
            "$modules/$server" -H 127.0.0.1 -p $((port + i)) -d CPU > "$out/text/rpc-server.$i.log" 2>&1 &
        pids="$pids $!" ports="$ports 127.0.0.1:$((port + i))"
    done
    for i in $(seq 50); do # until both listen
        python3 -c "import socket,sys; [socket.create_connection(('127.0.0.1', p), 1) for p in ($port, $port + 1)]" 2> /dev/null && break
        sleep 0.2
    done
    # shellcheck disable=SC2086
    counted "foreign: two RPC servers" on ours "$out/ours/test_foreign" "$modules/${begin}rpc$end" 1e-4 $ports
    # shellcheck disable=SC2086
    kill $pids
    # shellcheck disable=SC2086
    wait $pids 2> /dev/null
    # Needs a device, or a software driver of Mesa 26: those of Debian 12 take minutes for its pipelines, or wait for
    # ever.
    if [ -e "$modules/libggml-vulkan.so" ]; then
        local driver=
        if [ -z "${GGML_VK_VISIBLE_DEVICES:-}" ] && [ -x "${GGML_MESA:-}/run" ]; then driver=$GGML_MESA/run; fi
        counted "foreign: the original's Vulkan module" on ours env GGML_DISABLE_VULKAN=1 GGML_VK_VISIBLE_DEVICES="${GGML_VK_VISIBLE_DEVICES:-0}" timeout 600 $driver "$out/ours/test_foreign" "$modules/libggml-vulkan.so" 2e-2
    else
        note "the original's Vulkan module was not tried (scripts/oracle.sh vulkan-module builds it)"
    fi
    [ -n "$oracle" ] || return
    build oracle foreign/test_foreign.c test_foreign || return
    mkdir -p "$out/text/module"
    local own=$prefix/lib/libggml-base.so
    [ -z "$windows" ] || own=$prefix/bin/ggml-base.dll
    cp "$own" "$out/text/module/${begin}cpu-rs$end"
    counted "foreign: this library as a module of the original" on oracle "$out/oracle/test_foreign" "$out/text/module/${begin}cpu-rs$end" 1e-4
}

# A host of another kind, unmodified, written for a ggml that is years older: whisper.cpp with a small random model,
# with and without flash attention. GGML_WHISPER: folder with its sources (scripts/oracle.sh whisper).
suite_whisper() {
    local source=${GGML_WHISPER:-} which way model=$out/text/whisper.bin error
    if [ ! -e "$source/src/whisper.cpp" ]; then note "whisper.cpp was not built (GGML_WHISPER, from scripts/oracle.sh whisper)"; return; fi
    if $CXX -std=c++17 -O1 -Wno-unused-function -Werror=deprecated-declarations -DWHISPER_VERSION='"of a test"' "-I$prefix/include" "-I$source/include" "-I$source/src" \
        "$source/src/whisper.cpp" "$here/foreign/whisper.cpp" -o "$out/ours/whisper" "-L$prefix/lib" -lggml -lggml-cpu -lggml-base -lpthread 2> "$out/text/build.err"; then
        plain "$out/ours/whisper"
        ok "whisper.cpp compiles against these headers"
    else
        bad "whisper.cpp compiles against these headers" "$(grep -m 3 -E 'error|undefined' "$out/text/build.err" | tr '\n' '|' | cut -c1-400)"
        return
    fi
    python3 "$here/foreign/random_whisper.py" "$model"
    for way in plain flash; do
        for which in ours ${oracle:+oracle}; do
            on "$which" env GGML_DISABLE_VULKAN=1 "$out/ours/whisper" "$model" 2 $([ $way = plain ] || echo flash) > "$out/text/whisper.$which.txt" 2> "$out/text/whisper.err" ||
                bad "whisper.cpp, $way" "on $which: $(tail -n 1 "$out/text/whisper.err" | cut -c1-200)"
        done
        [ -n "$oracle" ] || { [ "$(sort -u "$out/text/whisper.ours.txt" | wc -l)" -gt 1000 ] && ok "whisper.cpp, $way"; continue; }
        error=$(paste "$out/text/whisper.ours.txt" "$out/text/whisper.oracle.txt" | awk 'NF == 2 { d = $1 - $2; e += d * d; s += $2 * $2; n++ } END { print (n == 1280 && s > 0) ? e / s : 1 }')
        if awk "BEGIN { exit !($error < 1e-5) }"; then ok "whisper.cpp, $way: logits as on the original, NMSE $error"; else bad "whisper.cpp, $way" "NMSE $error"; fi
    done
}

# Modules for another ggml are refused in one line, before any of their code runs, and those that fit are not.
# GGML_FORMER: folder with the CPU and RPC modules of ggml 0.26.0 (scripts/oracle.sh former).
suite_refuse() {
    local former=${GGML_FORMER:-} modules=${GGML_MODULES:-} dir=$out/text/refuse file
    build ours foreign/load.c load || return
    rm -rf "$dir" && mkdir -p "$dir/all"
    says() { # says WHAT EXPECTED FILE [environment]: what load prints about it
        local what=$1 expected=$2 file=$3 line
        shift 3
        line=$(on ours env "$@" "$out/ours/load" "$file" 2>&1)
        # shellcheck disable=SC2254
        case $line in $expected) ok "$what" ;; *) bad "$what" "$line" ;; esac
    }
    local toy="$CC -std=c11 -Wall -Wextra -Werror -shared -fPIC -I$prefix/include $here/modules/toy_module.c"
    # Headers of another version, and of another length of names.
    mkdir -p "$dir/names" && cp -r "$prefix/include" "$dir/other"
    sed 's/GGML_RS_ABI_DIGEST [0-9]*/GGML_RS_ABI_DIGEST 471100000000000/; s/GGML_RS_VERSION .*/GGML_RS_VERSION "0.27.1"/' "$prefix/include/ggml-rs.h" > "$dir/other/ggml-rs.h"
    sed 's/GGML_MAX_NAME, GGML_RS_VERSION/128, GGML_RS_VERSION/' "$prefix/include/ggml-backend-impl.h" > "$dir/names/ggml-backend-impl.h"
    local toy="$CC -std=c11 -Wall -Wextra -Werror -shared -fPIC $here/modules/toy_module.c" own=-I$prefix/include
    $toy "$own" -o "$dir/note.so" && $toy "$own" -DNO_NOTE -o "$dir/no-note.so" && $toy "-I$dir/names" "$own" -o "$dir/names.so" &&
        $toy "-I$dir/other" "$own" -o "$dir/other.so" || { bad "refuse" "the modules cannot be compiled"; return; }
    says "a module with a note" "loaded Module (1 devices)" "$dir/note.so"
    ${OBJCOPY:-objcopy} --strip-all "$dir/note.so" "$dir/stripped.so" && says "a stripped module with a note" "loaded Module (1 devices)" "$dir/stripped.so"
    says "a module without a note" "refused, 1 lines: *nothing in it says for which version*GGML_RS_ANY_MODULE=1*" "$dir/no-note.so"
    says "a module without a note that the user wants" "loaded Module (1 devices)" "$dir/no-note.so" GGML_RS_ANY_MODULE=1
    says "GGML_RS_ANY_MODULE=0" "refused, 1 lines: *" "$dir/no-note.so" GGML_RS_ANY_MODULE=0
    says "a module for other names" "refused, 1 lines: *GGML_MAX_NAME=128*" "$dir/names.so"
    says "a module built with headers of 0.27.1" "refused, 1 lines: *ggml 0.27.1*" "$dir/other.so"
    says "this library" "loaded CPU (1 devices)" "$prefix/lib/libggml-base.so" GGML_DISABLE_VULKAN=1
    says "the small file of the CPU beside it" "loaded CPU (1 devices)" "$prefix/lib/libggml-cpu.so" GGML_DISABLE_VULKAN=1
    says "the small file of RPC beside it" "loaded RPC (0 devices)" "$prefix/lib/libggml-rpc.so" GGML_DISABLE_VULKAN=1
    says "that of Vulkan without a device" "refused, 0 lines: " "$prefix/lib/libggml-vulkan.so" GGML_DISABLE_VULKAN=1
    says "that without a backend" "refused, 1 lines: *ggml_backend_init*" "$prefix/lib/libggml.so" GGML_DISABLE_VULKAN=1
    if [ -e "$modules/libggml-cpu.so" ]; then
        for file in cpu rpc vulkan; do
            [ -e "$modules/libggml-$file.so" ] || continue
            ${OBJCOPY:-objcopy} --strip-all "$modules/libggml-$file.so" "$dir/libggml-$file.so"
            says "the original's $file module" "loaded *" "$modules/libggml-$file.so" GGML_VK_VISIBLE_DEVICES=0
            says "the original's $file module, stripped" "loaded *" "$dir/libggml-$file.so" GGML_VK_VISIBLE_DEVICES=0
        done
    fi
    if [ ! -e "$former/libggml-cpu.so" ]; then note "modules of ggml 0.26.0 were not tried (GGML_FORMER, from scripts/oracle.sh former)"; return; fi
    for file in cpu rpc; do
        ${OBJCOPY:-objcopy} --strip-all "$former/libggml-$file.so" "$dir/former-$file.so"
        says "the $file module of 0.26.0" "refused, 1 lines: *not loaded*libggml-$file.so*GGML_RS_ANY_MODULE=1*" "$former/libggml-$file.so"
        says "the $file module of 0.26.0, stripped" "refused, 1 lines: *not loaded*former-$file.so*GGML_RS_ANY_MODULE=1*" "$dir/former-$file.so"
    done
    # Kinds that are built in are not looked for, so it has the name of another one.
    cp "$former/libggml-rpc.so" "$dir/all/libggml-sycl.so"
    local all
    all=$(on ours env GGML_DISABLE_VULKAN=1 "$out/ours/load" -a "$dir/all" 2>&1)
    case $all in
        "loaded RPC
loaded CPU
1 lines: "*libggml-sycl.so*) ok "a module of 0.26.0 among all" ;;
        *) bad "a module of 0.26.0 among all" "$all" ;;
    esac
}

# Windows alone: streams of two C libraries, paths and sizes of files. DAMAGED: copies of a damaged file that are read.
suite_windows() {
    if [ -z "$windows" ]; then note "windows is for Windows"; return; fi
    local folder=$out/text/windows line
    rm -rf "$folder" && mkdir -p "$folder"
    module ours "$folder/accel.dll" -DACCEL_SCORE=10 && build ours windows/files.c files && build ours bench/mutate.c mutate && build ours windows/streams.c streams && build ours windows/test_seh.c test_seh || return
    $CC -std=c11 -O1 -Wall -Wextra -Werror -DUCRT -D_UCRT -D__USE_MINGW_ANSI_STDIO=0 -I"$prefix/include" "$here/windows/streams.c" -o "$out/ours/streams_ucrt" \
        -nostdlib -Wl,-e,begin "-L$prefix/lib" -lggml-base -lucrtbase -lgcc && plain "$out/ours/streams_ucrt" ||
        { bad "build windows/streams.c" "with the Universal C Runtime"; return; }
    cd "$folder" || return
    counted "streams" on ours "$out/ours/streams"
    counted "streams of the Universal C Runtime" on ours "$out/ours/streams_ucrt"
    counted "exceptions" on ours "$out/ours/test_seh"
    counted "files" on ours "$out/ours/files" "Z:$folder/accel.dll"
    line=$(on ours "$out/ours/mutate" "${DAMAGED:-1000}" 2> /dev/null)
    case $line in refused*"crashed 0, stuck 0") ok "damaged files: $line" ;; *) bad "damaged files" "${line:-the process ended}" ;; esac
    cd - > /dev/null || return
}

# The sentence-embedding host: its messages, and its vectors if the model is in the cache (make run fetches it).
suite_examples() {
    local which model=${MINILM_GGUF:-$root/target/minilm/f32.gguf} line
    build ours examples/embed.c embed -Wpedantic || return
    on ours "$out/ours/embed" > /dev/null 2> "$out/text/embed.err"
    if [ $? -eq 2 ] && grep -q usage "$out/text/embed.err"; then ok "embed says how it is used"; else bad "embed says how it is used" "$(head -n 1 "$out/text/embed.err")"; fi
    on ours "$out/ours/embed" /nonexistent.gguf > /dev/null 2> "$out/text/embed.err"
    if [ $? -eq 1 ] && grep -q 'cannot read /nonexistent.gguf' "$out/text/embed.err"; then ok "embed reports a missing file"; else bad "embed reports a missing file" "$(head -n 1 "$out/text/embed.err")"; fi
    on ours "$out/ours/embed" /dev/null > /dev/null 2> "$out/text/embed.err"
    if [ $? -eq 1 ]; then ok "embed reports a file that is no model"; else bad "embed reports a file that is no model" "$(head -n 1 "$out/text/embed.err")"; fi
    if [ ! -f "$model" ]; then note "no model in $model: make run fetches it"; return; fi
    on ours "$out/ours/embed" --raw -t 2 "$model" "The cat sits outside" > "$out/text/embed.txt" 2> "$out/text/embed.err"
    line=$(awk '{ printf "%.4f %.4f %.4f", $1, $2, $3 }' "$out/text/embed.txt")
    if [ "$line" = "0.1393 0.0029 0.0470" ]; then ok "embed gives the known vector"; else bad "embed gives the known vector" "begins with $line $(head -n 1 "$out/text/embed.err")"; fi
    [ -n "$oracle" ] || return
    on oracle "$out/ours/embed" --raw -t 2 "$model" > "$out/text/embed.original.txt" 2> /dev/null
    on ours "$out/ours/embed" --raw -t 2 "$model" > "$out/text/embed.txt" 2> /dev/null
    line=$(paste -d' ' "$out/text/embed.txt" "$out/text/embed.original.txt" | awk 'BEGIN { worst = 1 } { n = NF / 2; s = 0; for (i = 1; i <= n; i++) s += $i * $(i + n); if (s < worst) worst = s } END { printf("%.7f", (NR > 0) ? worst : 0) }')
    if awk "BEGIN { exit !($line >= 0.99999) }"; then ok "embed agrees with the original: cosine $line"; else bad "embed agrees with the original" "cosine $line"; fi
}

for suite in $suites; do
    case $suite in
        abi|dump|host|sched|async|card|meta|quant|ops|train|plugin|bad|robust|soak|soak_card|rs|foreign|refuse|whisper|examples|windows) echo "--- $suite"; "suite_$suite" ;;
        *) echo "c_tests: no suite $suite"; exit 2 ;;
    esac
done
[ -n "$oracle" ] || note "no original (GGML_ORACLE_PREFIX): its comparisons were skipped"
for n in ${notes[@]+"${notes[@]}"}; do echo "note: $n"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
