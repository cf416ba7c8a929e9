#!/usr/bin/env bash
# make test: everything that CI checks: test.sh [SUITE ...]. docs/TESTS.md lists the suites, whose last line counts
# their checks. Downloads and builds are kept in GGML_CACHE (default: target/cache).
# shellcheck disable=SC2086
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
# Without those that take five minutes of processor time and more, most of them because they build everything again, or
# the original twice more (nmse).
# `vulkan` runs beside the suites that follow it, and needs the builds of `hosts`.
all=(fmt clippy unit headers hosts vulkan shaders install info package run upstream abi c status docs rpc invariance peers placement swaps drivers aarch64 windows tsan fuzz)
# Those that do not begin after TEST_UNTIL (seconds since 1970), as some parts of others: CI has so much time on any
# machine. The last line names them.
may_wait=" rpc invariance peers placement swaps drivers aarch64 windows tsan fuzz "
suites=("$@")
[ $# -gt 0 ] || suites=("${all[@]}")
cache=${GGML_CACHE:-$root/target/cache}
export GGML_CACHE=$cache PYTHONDONTWRITEBYTECODE=1
logs=$root/target/test-logs
mkdir -p "$logs" "$cache"

need() { command -v "$1" > /dev/null 2>&1 || { echo "test: $1 is missing: install $2"; exit 1; }; }
need cargo "Rust 1.89 or later (https://rustup.rs)"
need "${CC:-cc}" "the package gcc"
need "${CXX:-c++}" "the package g++"
need make "the package make"
need python3 "the package python3"
# What the suites fetch, and cmake where the system has none.
for suite in "${suites[@]}"; do
    case $suite in c | hosts | rpc | invariance | vulkan | peers | placement | swaps | abi | nmse | memory)
        { [ -e "$cache/original/done" ] && [ -e "$cache/tests/configured" ]; } || python3 -c 'import pip' 2> /dev/null ||
            { echo "test: pip is missing, which the suite $suite needs for downloads: install the package python3-pip"; exit 1; } ;;
    esac
done

# A step that only can work or not.
once() { # NAME COMMAND ...
    local name=$1
    shift
    if "$@" > "$logs/$name.log" 2>&1; then
        echo "$name: 1 passed, 0 failed"
    else
        tail -n 40 "$logs/$name.log"
        echo "$name: 0 passed, 1 failed"
        return 1
    fi
}

# Mesa's software driver before version 25 ends long loops early (src/vulkan/device/workarounds.rs), and Debian 12's
# compiles some pipelines for minutes, so that the suite `unit` alone would take more than 20. Tests then get the driver
# of the distribution's backports, which is fetched into the cache; if that cannot be, they have no driver.
# OLD_DRIVER=1: tests with the driver that is there.
no_driver="no Vulkan driver (install mesa-vulkan-drivers)"
driver() {
    local old codename fetched log=$logs/driver.log
    [ -z "${OLD_DRIVER:-}" ] && old=$(python3 scripts/vulkan_driver.py) && [ -n "$old" ] || return 0
    codename=$(sed -n 's/^VERSION_CODENAME="*\([a-z]*\)"*$/\1/p' /etc/os-release 2> /dev/null)
    fetched=$cache/mesa-${codename:-none}-backports
    echo "note: the Vulkan driver here is Mesa $old, too old for tests: fetching a newer one ..."
    export VK_DRIVER_FILES=$fetched/driver.json VK_ICD_FILENAMES=$fetched/driver.json
    if DEBIAN_SUITES="$codename $codename-backports" DEBIAN_PACKAGES=mesa-vulkan-drivers timeout 900 python3 scripts/fetch_mesa.py "$fetched" > "$log" 2>&1 &&
        [ -z "$(python3 scripts/vulkan_driver.py || echo "it cannot be loaded" | tee "$log")" ]; then
        echo "note: tests use Mesa $(cat "$fetched/version") in $fetched"
        return
    fi
    no_driver="Mesa $old is too old, and no newer driver could be fetched: $(tail -n 1 "$log" 2> /dev/null)"
    echo "note: Vulkan is left out of all suites: $no_driver (OLD_DRIVER=1 tests with Mesa $old)"
    # As if there were none, for all programs.
    export VK_DRIVER_FILES=$logs/no-driver.json VK_ICD_FILENAMES=$logs/no-driver.json
}

built=
library() { # builds and installs the library once
    [ -z "$built" ] || return 0
    echo "building the library ..."
    scripts/build.sh 2>&1 | tail -n 3
    [ "${PIPESTATUS[0]}" = 0 ] && scripts/install.sh target/install && built=1
}

suite_fmt() { once fmt cargo fmt --all --check && python3 scripts/comments.py && python3 scripts/mutants.py check; }
lints() { # what everybody gets, and what this repository's tools see
    cargo clippy --quiet --workspace --all-targets -- $refused && cargo clippy --quiet --all-targets --features internals -- $refused &&
        RUSTDOCFLAGS="$refused" cargo doc --quiet --no-deps
}
# A newer Rust has lints that nothing here was checked with: its warnings are no failures.
suite_clippy() {
    local known=95 minor refused="-D warnings"
    minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
    if [ "${minor:-0}" -gt $known ]; then
        echo "note: Rust 1.$minor is newer than 1.$known, whose lints these sources satisfy: its warnings are only in $logs/clippy.log"
        refused=
    fi
    once clippy lints
}
counted() { # NAME COMMAND ...: cargo's tests
    local name=$1 status
    shift
    "$@" > "$logs/$name.log" 2>&1
    status=$?
    [ "$status" = 0 ] || grep -A 3 -E '^(error|failures:|---- |    [a-z_:]+$|thread|assertion)' "$logs/$name.log" | head -n 60
    awk -v name="$name" -v status="$status" '/^test result/ { p += $4; f += $6 } END { if (status && !f) f = 1; print name ": " p + 0 " passed, " f + 0 " failed" }' "$logs/$name.log"
    return $status
}
# What needs the library beside its tests gets one with the profile of the tools, which other suites use, too.
units() {
    local test=(cargo test --quiet --features internals)
    "${test[@]}" --lib -- $elsewhere && "${test[@]}" --bin ggml-info --profile tools && "${test[@]}" --doc --profile tools
}
# Mesa's software driver compiles hundreds of pipelines here, each for a moment's work: without optimising them it takes
# half the time, if its cache is empty. The suite vulkan has them optimised, and if it follows, they are its alone.
suite_unit() {
    local elsewhere=
    [[ " ${suites[*]} " != *" vulkan "* ]] || elsewhere="--skip vulkan::"
    GALLIVM_PERF=${GALLIVM_PERF-nopt} counted unit units
}
suite_package() { library && scripts/test_package.sh; }
suite_headers() {
    local status=0
    once headers-current make -s check-headers || status=1
    python3 -B c_tests/abi/abi.py headers include | sed '/^PASS/d; s/^[0-9]* passed/headers: &/'
    return $((status | PIPESTATUS[0]))
}
built_original() { [ ! -e "$cache/original/done" ] || echo "$cache/original"; }
# Tests in tools/tests, with the installed library.
installed() { GGML_PREFIX=$root/target/install GGML_ORACLE_PREFIX=${GGML_ORACLE_PREFIX:-$(built_original)} counted "$1" cargo test --quiet --profile tools --features internals --test "$1"; }
suite_install() {
    local status=0
    library || return 1
    GGML_ORACLE_PREFIX=${GGML_ORACLE_PREFIX:-$(built_original)} scripts/test_install.sh || status=1
    installed install || status=1
    rm -rf "$root/target/tmp/install"
    return $status
}
suite_info() { library && installed info; }
suite_run() { library && scripts/test_run.sh; }
suite_upstream() { python3 scripts/test_upstream_diff.py 2>&1; }
# Our library with debug information is not optimised: layouts and signatures are those of any build. Names have 64
# bytes, as in the original's build.
suite_abi() {
    if ! command -v gdb > /dev/null && [ "$(id -u)" != 0 ] && [ -z "${CI:-}" ]; then echo "abi: skipped: gdb is missing"; return; fi
    against abi debug || return 1
    echo "building the library with debug information (the first time: a minute) ..."
    env -u GGML_MAX_NAME CARGO_TARGET_DIR="$cache/abi-rust" CARGO_INCREMENTAL=0 cargo rustc --quiet --locked --lib --crate-type cdylib \
        --config profile.dev.opt-level=0 --config profile.dev.debug=2 --config 'profile.dev.package."*".debug=0' &&
        python3 scripts/abi_diff.py "$cache" target/install/lib "$cache/abi-rust/debug/libggml.so"
}
against() { # SUITE NAME ...: the library, and what scripts/oracle.sh builds
    local suite=$1 name
    shift
    library || return 1
    for name; do scripts/oracle.sh "$name" || { echo "$suite: 0 passed, 1 failed"; return 1; }; done
}
suite_c() {
    against c original modules former whisper &&
        GGML_MESA=$cache/mesa-sid GGML_WHISPER=$cache/src/whisper.cpp GGML_FORMER=$cache/former GGML_MODULES=$cache/modules GGML_PREFIX=$root/target/install GGML_ORACLE_PREFIX=$cache/original GGML_ORACLE_SRC=$cache/src/ggml/src bash c_tests/run.sh ${C_TESTS:-}
}
suite_hosts() { against hosts original peers hosts tests && python3 scripts/test_hosts.py "$cache" target/install/lib; }
# RPC, PEERS: sections; none means those of CI. INVARIANCE: formats of weights, PLACEMENT: architectures of
# test-llama-archs; empty for all.
suite_rpc() { against rpc original modules hosts tests && python3 scripts/test_rpc.py "$cache" target/install/lib ${RPC:-}; }
suite_invariance() { against invariance original hosts tests && python3 scripts/test_invariance.py "$cache" target/install/lib ${INVARIANCE-Q4_K}; }
suite_peers() { against peers original tests && python3 scripts/test_peers.py "$cache" target/install/lib ${PEERS:-}; }
suite_placement() {
    against placement original tests && python3 scripts/test_placement.py "$cache" target/install/lib ${PLACEMENT-llama gemma3 deepseek2 qwen3moe mamba2 t5}
}
# SWAPS: hosts of scripts/swaps.toml, all for each of them, --write for the results in the documentation.
suite_swaps() { against swaps original hosts && python3 scripts/test_swaps.py "$cache" target/install/lib ${SWAPS:-}; }
suite_shaders() {
    local log=$logs/shaders.log status
    # A target folder in the cache: glslang takes minutes to build.
    CARGO_TARGET_DIR=$cache/shaders-tool cargo run --quiet --release --locked --manifest-path tools/shaders/Cargo.toml -- --check . > "$log" 2>&1
    status=$?
    [ "$status" = 0 ] || tail -n 20 "$log"
    awk -v status="$status" '/ sources compiled, / { p = $5 - $8; f = $8 } END { if (status && !f) f = 1; print "shaders: " p + 0 " passed, " f + 0 " failed" }' "$log"
    [ "$status" = 0 ]
}
# Memory, copies, streams and recording from Rust, then everything else from C. Without a driver, the suite fails only
# with GGML_TEST_VULKAN=1; otherwise it reports that there is none.
suite_vulkan() {
    GGML_RS_DEBUG=vk-validation=log counted vulkan-unit cargo test --quiet --features internals --lib vulkan:: || return 1
    if grep -q '^skipped: no Vulkan driver' "$logs/vulkan-unit.log"; then
        echo "vulkan: skipped: $no_driver"
        return 0
    fi
    library && python3 scripts/test_vulkan.py "$cache" target/install/lib "${VULKAN_EXTENT:-quick}"
}
suite_drivers() { # DRIVERS: quick (the default), all or write, and names of cards
    library || return 1
    local extent=${DRIVERS:-quick} log=$logs/drivers-fetch.log
    if ! { python3 scripts/fetch_mesa.py "$cache/mesa-sid" && DEBIAN_PACKAGES="spirv-tools spirv-cross" python3 scripts/fetch_mesa.py "$cache/spirv-tools"; } > "$log" 2>&1; then
        # No network is no fault of the library.
        echo "drivers: skipped: $(tail -n 1 "$log")"
        [ "$extent" = quick ]
        return
    fi
    # It builds a part of Mesa. Without it, Intel's drivers are not tested, and the suite says so.
    [ "$extent" = quick ] || python3 scripts/fetch_mesa.py "$cache/intel-shim" intel || true
    python3 scripts/test_drivers.py "$cache" target/install $extent
}
suite_aarch64() { library && scripts/test_aarch64.sh ${AARCH64:-}; } # AARCH64=all: everything, on three processors
suite_windows() { library && scripts/test_windows.sh ${WINDOWS:-}; } # WINDOWS=all: everything but the soak
suite_fuzz() { python3 scripts/fuzz.py -t "${FUZZ_SECONDS:-20}"; }
suite_tsan() { python3 scripts/sanitizers.py tsan; }
suite_memory() { against memory bench hosts && python3 scripts/test_memory.py "$cache" target/install/lib; }

suite_nmse() { # against the original as hosts build it, for this processor and for AVX2 only
    library || return 1
    local tests=$root/target/c_tests lib=target/install/lib status=0 level test builds=()
    local flags="-Wall -Wextra -Werror -Wno-deprecated-declarations -Itarget/install/include"
    local link="-L$lib -Wl,-rpath-link,$lib -lggml -lggml-cpu -lggml-base -lm -ldl"
    mkdir -p target/c_tests
    scripts/oracle.sh bench && ${CC:-cc} -std=c11 -D_GNU_SOURCE -O3 $flags c_tests/diff/nmse.c -o "$tests/nmse" $link &&
        ${CXX:-c++} -std=c++17 -O2 $flags c_tests/diff/errors*.cpp -o "$tests/errors" $link || { echo "nmse: 0 passed, 1 failed"; return 1; }
    for level in native avx2; do
        [ ! -e "$cache/bench-$level/done" ] || builds+=("$level=$cache/bench-$level/lib")
    done
    for test in nmse errors; do
        python3 "c_tests/diff/$test.py" "$tests/$test" $lib "${builds[@]}" ${NMSE:-} || status=1
    done
    return $status
}
suite_asan() { python3 scripts/sanitizers.py asan; }
suite_valgrind() { library && python3 scripts/sanitizers.py valgrind; }
suite_mutants() { python3 scripts/mutants.py; }
suite_max_name() { scripts/test_max_name.sh; }
suite_reproducible() { scripts/test_reproducible.sh; }
suite_msrv() { scripts/test_msrv.sh; }
suite_cinstall() { library && scripts/test_cinstall.sh; }
suite_packs() { library && scripts/test_packs.sh; }
suite_debian() { scripts/test_debian.sh; }
suite_status() { make -s check-status; }
suite_docs() { library && python3 scripts/test_docs.py "$cache" ${DOCS:-}; }
suite_book() { # Debian's package chromium; the first time builds mdbook
    library && rm -rf target/pictures && python3 scripts/book.py && python3 scripts/test_pages.py
}

remember() { # SUITE SECONDS: written beside and renamed, so that an interruption leaves a whole file
    { grep -v "^$1 " "$logs/times" 2> /dev/null; echo "$1 $2"; } > "$logs/times.$$" && mv "$logs/times.$$" "$logs/times"
}
# Prints every BEAT seconds (30) that a suite still runs, and how long it may take: as long as the last time. It waits
# for a pipe that is never written, not for a program that would outlive it.
beat() { # SUITE
    local usual start=$SECONDS fd left
    usual=$(sed -n "s/^$1 //p" "$logs/times" 2> /dev/null)
    exec {fd}<> <(:)
    while :; do
        read -rt "${BEAT:-30}" -u "$fd"
        left=
        [ -z "$usual" ] || [ "$usual" -le $((SECONDS - start)) ] || left=", about $((usual - SECONDS + start)) s left"
        echo "   ... $1: $((SECONDS - start)) s$left"
    done
}

watched() { # COMMAND ...: of the suite
    beat "$suite" &
    pulse=$!
    "$@"
    local status=$?
    kill "$pulse" 2> /dev/null
    wait "$pulse" 2> /dev/null
    pulse=
    return $status
}

failed=() waiting=()
n=0
beside= began= pulse=
ended() { # what runs in the background ends with this script
    [ -z "$pulse" ] || kill "$pulse" 2> /dev/null
    [ -z "$beside" ] || kill "$beside" 2> /dev/null
    rm -f "$logs/times.$$"
}
trap ended EXIT
trap 'echo "test: interrupted${suite:+ in the suite $suite}; the next run starts from the beginning"; exit 130' INT
trap 'exit 143' TERM
# Suites that start programs which may use Vulkan.
for suite in "${suites[@]}"; do
    case $suite in unit | install | info | c | hosts | rpc | invariance | vulkan | peers | placement | fuzz | tsan | asan | valgrind | docs | book | debian)
        driver
        break ;;
    esac
done
for suite in "${suites[@]}"; do
    n=$((n + 1))
    declare -F "suite_$suite" > /dev/null || { echo "test: no suite $suite; there are: $(declare -F | sed -n 's/.* suite_//p' | xargs)"; exit 2; }
    if [[ $may_wait = *" $suite "* ]] && [ "$(date +%s)" -ge "${TEST_UNTIL:-9999999999}" ]; then
        echo "== [$n/${#suites[@]}] $suite: left out for lack of time"
        waiting+=("$suite")
        continue
    fi
    # A software driver uses one processor: what comes after has the others.
    if [ "$suite" = vulkan ] && [ "$n" -lt ${#suites[@]} ] && library; then
        echo "== [$n/${#suites[@]}] vulkan, beside the others: see the end"
        began=$SECONDS
        suite_vulkan > "$logs/vulkan.out" 2>&1 &
        beside=$!
        continue
    fi
    echo "== [$n/${#suites[@]}] $suite"
    start=$SECONDS
    if watched "suite_$suite"; then remember "$suite" $((SECONDS - start)); else failed+=("$suite"); fi
    echo "   ($((SECONDS - start)) s)"
done
if [ -n "$beside" ]; then
    suite=vulkan
    watched wait "$beside" || failed+=(vulkan)
    echo "== vulkan"
    cat "$logs/vulkan.out"
    echo "   ($((SECONDS - began)) s)"
fi
suite=
if [ ${#failed[@]} -eq 0 ]; then
    [ ${#waiting[@]} -eq 0 ] || echo "left out for lack of time (make test SUITES=\"${waiting[*]}\"): ${waiting[*]}"
    echo "all suites passed${waiting:+ but those}: ${suites[*]}"
else
    echo "FAILED: ${failed[*]}"
    exit 1
fi
