#!/usr/bin/env bash
# The library for 64-bit ARM under qemu, beside that for x86-64: test_aarch64.sh [SECTION ...]
#
# Sections: files, units, c, x86, llama; without one, all but llama, and samples of the longer ones: what CI has time
# for. `all`: every section, whole. `run COMMAND ...`: a command in the same surroundings, where programs for ARM start
# like any other: the kernel hands them to qemu (binfmt_misc in a user namespace of this script's own, from Linux 6.7
# on; older ones need the package qemu-user-binfmt). QEMU_CPU names the processor. The last line counts the checks.
set -u
export CARGO_TARGET=aarch64-unknown-linux-gnu QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
skip() { echo "aarch64: skipped: $*"; [ -z "${CI:-}" ]; exit; }
if [ -z "${AARCH64_INSIDE:-}" ]; then
    qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1)
    { [ -n "$qemu" ] && command -v aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ > /dev/null; } ||
        skip "install the packages qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu"
    [ -d "$(rustc --print sysroot)/lib/rustlib/$CARGO_TARGET" ] || skip "rustup target add $CARGO_TARGET"
    export AARCH64_INSIDE=1
    register="mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf '%s' \
':arm64:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\
\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$qemu:F' > /proc/sys/fs/binfmt_misc/register"
    ! unshare -Urm sh -c "$register" 2> /dev/null || exec unshare -Urm bash -c "$register"'; exec "$@"' - "$0" "$@"
fi
[ "${1:-}" != run ] || { shift; exec "$@"; }
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
cache=${GGML_CACHE:-$root/target/cache}
work=$target/aarch64 ours=$target/aarch64/install x86=$target/install original=$cache/$CARGO_TARGET/original
native="${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -I$root/include"
export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ OBJCOPY=aarch64-linux-gnu-objcopy GGML_CACHE=$cache QEMU_CPU=max
mkdir -p "$work"
$CC -x c - -o "$work/starts" <<< 'int main(void) { return 0; }' && "$work/starts" ||
    skip "this kernel passes no program to qemu: install the package qemu-user-binfmt"
case ${1:-} in
    '') set -- files units c x86; whole= ;;
    all) set -- files units c x86 llama; whole=1 ;;
    *) whole=1 ;;
esac

echo "building the library for $CARGO_TARGET ..."
check "make, for another processor" scripts/build.sh if-needed
check "make install" env STRIP=1 scripts/install.sh "$ours"
[ "$failed" = 0 ] || finish aarch64

elf() { # the files of one processor; and no symbol that none of its libraries has
    local file
    for file in "$ours"/lib/*.so.*.* "$ours"/bin/*; do
        [ -L "$file" ] || readelf -h "$file" | grep -q 'Machine: *AArch64' || { echo "error: $file"; return 1; }
    done
    diff <(cd "$ours" && find . ! -name '*.manifest' | sort) <(cd "$x86" && find . ! -name '*.manifest' | sort)
}
linked() { # FLAG ...: a host of the original's functions
    $CC -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU c_tests/install/linked.c -o "$work/linked" -Wl,--no-as-needed "$@" -ldl && LD_LIBRARY_PATH=$ours/lib "$work/linked"
}
section_files() {
    check "the files of make install are those of x86, for ARM" elf
    check "ggml-info describes the library" says "neon_dot" "$ours/bin/ggml-info"
    check "ggml-info --check: a host finds its functions" says "libggml-base" "$ours/bin/ggml-info" --check "$ours/bin/ggml-rpc-server"
    # shellcheck disable=SC2046
    check "a host that pkg-config links" linked $(PKG_CONFIG_PATH=$ours/lib/pkgconfig pkg-config --cflags --libs ggml) -lggml-cpu
    check "jumps are in the small files" says br aarch64-linux-gnu-objdump -d --disassemble=ggml_backend_load_all "$ours/lib/libggml.so"
}

units() { # PROCESSOR TEST ...: their names begin so
    echo "unit tests as $1 ..."
    QEMU_CPU=$1 CC_aarch64_unknown_linux_gnu=$CC CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC \
        cargo test --quiet --locked --target "$CARGO_TARGET" --profile tools --features internals --lib -- "${@:2}"
}
section_units() {
    local processor
    for processor in max neoverse-n1 cortex-a53; do
        [ -n "$whole" ] || [ $processor != neoverse-n1 ] || continue
        check "unit tests of kernels, as $processor" units $processor cpu::simd
    done
    if [ -n "$whole" ]; then
        check "all unit tests, as max" units max --skip vulkan::
    else
        check "unit tests of formats and files" units max quant:: gguf:: alloc::
    fi
}
# The hosts of c_tests on this library and on the original's for this processor, under the same qemu. The processors
# without its instructions run what needs no original.
hosts() { # SUITE ...
    env GGML_PREFIX="$ours" GGML_ORACLE_PREFIX="$original" GGML_ORACLE_SRC="$cache/src/ggml/src" C_TESTS_OUT="$work/c_tests" DIFF_SAMPLE="${DIFF_SAMPLE:-40}" \
        bash c_tests/run.sh "$@"
}
section_c() {
    echo "the original for $CARGO_TARGET ..."
    check "the original is built" scripts/oracle.sh original
    if [ -n "$whole" ]; then
        check "c_tests" hosts abi dump host sched async quant ops train plugin bad robust rs
    else
        check "c_tests: layouts, names, all operations" hosts abi quant ops
    fi
}

of_both() { # SOURCE: a program of c_tests for either processor
    local prefix compiler=$native
    for prefix in "$x86" "$ours"; do
        $compiler "c_tests/$1" -o "$prefix.$(basename "$1" .c)" "-L$prefix/lib" "-Wl,-rpath,$prefix/lib" -lggml -lggml-base -lm || return 1
        compiler="$CC ${native#* }"
    done
}
cosines() { # the least of MiniLM's sentences, between the vectors of either processor
    local model=$cache/models/minilm-f32.gguf prefix
    [ -e "$model" ] || { mkdir -p "$cache/models" && python3 scripts/fetch_minilm.py "$cache/src/minilm" "$model"; } || return 1
    of_both examples/embed.c || return 1
    for prefix in "$x86" "$ours"; do QEMU_CPU=$1 "$prefix.embed" --raw -t 2 "$model" > "$prefix.vectors" || return 1; done
    paste -d' ' "$x86.vectors" "$ours.vectors" | awk '
        { n = NF / 2; dot = a = b = 0; for (i = 1; i <= n; i++) { dot += $i * $(i + n); a += $i * $i; b += $(i + n) * $(i + n) }
          least = NR == 1 || dot / sqrt(a * b) < least ? dot / sqrt(a * b) : least }
        END { printf "least cosine %.9f of %d sentences\n", least, NR; exit !(NR > 5 && least >= 0.9999999) }'
}
served() { # PREFIX COMMAND ...: with a server of this installation, whose endpoint is the last argument
    local port=$((20000 + $$ % 20000)) server status
    "$1/bin/ggml-rpc-server" -H 127.0.0.1 -p $port -d CPU -t 2 > "$work/server.log" 2>&1 &
    server=$!
    timeout 30 bash -c "until exec 3<> /dev/tcp/127.0.0.1/$port; do sleep 0.2; done" 2> /dev/null
    "${@:2}" "127.0.0.1:$port"
    status=$?
    kill $server
    wait $server
    return $status
}
section_x86() {
    for processor in max neoverse-n1 cortex-a53; do
        [ -n "$whole" ] || [ $processor = cortex-a53 ] || continue
        check "MiniLM, as on x86-64, as $processor" cosines $processor
        cat "$work/log"
    done
    check "a host of devices over RPC, for both processors" of_both foreign/test_foreign.c
    check "RPC: a client for ARM, a server on x86-64" served "$x86" timeout 300 "$ours.test_foreign" "$ours/lib/libggml-rpc.so" 1e-4
    check "RPC: a client on x86-64, a server for ARM" served "$ours" timeout 300 "$x86.test_foreign" "$x86/lib/libggml-rpc.so" 1e-4
}

# llama.cpp's llama-results, unmodified: logits of random llamas, alone and over RPC, against those that x86-64 wrote.
results() { # PROCESSOR SIDE FORMAT ARGUMENT ...
    local bin=$cache/hosts/bin lib=$x86/lib
    [ "$2" = x86 ] || bin=$cache/$CARGO_TARGET/hosts/bin lib=$ours/lib
    QEMU_CPU=$1 LD_LIBRARY_PATH=$lib:$bin timeout 1200 "$bin/llama-results" -m "$cache/models/llama-$3.gguf" -o "$work/logits-$3.gguf" \
        -p "People die when they are killed. The cat sits outside, and the dog plays in the garden." -t 2 "${@:4}"
}
section_llama() {
    local processor format
    check "llama.cpp's tools for ARM are built" scripts/oracle.sh hosts
    for format in f32 f16 Q8_0-original Q4_0-original Q4_K-original; do
        check "llama-results writes logits of $format on x86-64" results max x86 $format
        for processor in max neoverse-n1 cortex-a53; do
            check "llama-results --check, $format, as $processor" says OK results $processor arm $format --check
            grep NMSE "$work/said"
        done
        check "llama-results --check, $format: a client for ARM, a server on x86-64" served "$x86" results max arm $format --check -ngl 99 --rpc
        check "llama-results --check, $format: a client on x86-64, a server for ARM" served "$ours" results max x86 $format --check -ngl 99 --rpc
    done
}

for section; do
    echo "$section:"
    "section_$section"
done
finish aarch64
