#!/usr/bin/env bash
# The library for 64-bit ARM in qemu, beside that for x86-64: test_aarch64.sh [SECTION ...]
#
# Sections: files, units, c, levels, x86, llama. `all`: all of them, whole, as three processors; without any, what CI
# has time for. `run COMMAND ...`: a command in the same surroundings, in which programs for ARM start like any others,
# as the kernel passes them to qemu (binfmt_misc in a user namespace, since Linux 6.7; before, the package
# qemu-user-binfmt is needed). QEMU_CPU is the processor. The last line counts the checks.
#
# `debian`, only by itself and as root: packages for arm64 are installed in a root of Debian for ARM, and llama.cpp's
# tools use them there. While it runs, the kernel passes all programs for ARM to qemu.
set -u
export CARGO_TARGET=aarch64-unknown-linux-gnu QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu} QEMU_CPU=${QEMU_CPU:-max}
skip() { echo "aarch64: skipped: $*"; exit; }
if [ -z "${EMULATED:-}" ]; then
    qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1)
    for tool in ${qemu:-qemu-aarch64} aarch64-linux-gnu-gcc aarch64-linux-gnu-g++; do
        command -v "$tool" > /dev/null || skip "$tool is missing: install the packages qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu"
    done
    [ -d "$(rustc --print sysroot)/lib/rustlib/$CARGO_TARGET" ] || skip "Rust has no library for it: rustup target add $CARGO_TARGET"
    export EMULATED=1
    # The head of an ELF file for this processor, and which of its bits count.
    head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' bits='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    register="mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf '%s' ':arm64:M::$head:$bits:$qemu:F' > /proc/sys/fs/binfmt_misc/register"
    if [ "${1:-}" = debian ]; then
        [ "$(id -u)" = 0 ] || skip "debian: a root of another system needs root"
        # The other one loads libraries, which that root does not have.
        [ "${qemu%-static}" != "$qemu" ] || skip "debian: qemu-aarch64-static is missing: install the package qemu-user-static"
        exec unshare -m bash -c "${register//:arm64:/:ggml-arm64:}"' && trap "echo -1 > /proc/sys/fs/binfmt_misc/ggml-arm64" EXIT && "$@"' - "$0" "$@"
    fi
    ! unshare -Urm sh -c "$register" 2> /dev/null || exec unshare -Urm bash -c "$register"' && exec "$@"' - "$0" "$@"
fi
[ "${1:-}" != run ] || { shift; exec "$@"; }
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
here=$CC
export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ OBJCOPY=aarch64-linux-gnu-objcopy GGML_CACHE=${GGML_CACHE:-$root/target/cache}
out=$target/aarch64 ours=$target/aarch64/install x86=$target/install
mkdir -p "$out"
{ echo 'int main(void) { return 0; }' | $CC -x c - -o "$out/starts" && "$out/starts"; } ||
    skip "this kernel passes no program to qemu: install the package qemu-user-binfmt"
whole=1
case ${1:-} in '') set -- files c x86 units; whole= ;; all) set -- files c levels x86 llama units ;; esac
processors="cortex-a53 neoverse-n1 max"
[ -n "$whole" ] || processors="cortex-a53 max"

listed() { (cd "$1" && find . ! -name '*.manifest' | sort); }
same_files() { # as for x86-64, and all of them for ARM
    for file in "$ours"/lib/*.so "$ours"/bin/*; do readelf -h "$file" | grep -q 'Machine: *AArch64' || { echo "error: $file"; return 1; }; done
    diff <(listed "$ours") <(listed "$x86")
}
by_pkgconfig() {
    # shellcheck disable=SC2046
    $CC -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU c_tests/install/linked.c -o "$out/linked" -Wl,--no-as-needed -lggml-cpu \
        $(PKG_CONFIG_PATH=$ours/lib/pkgconfig pkg-config --cflags --libs ggml) -ldl && LD_LIBRARY_PATH=$ours/lib "$out/linked"
}
by_cmake() {
    cmake -S c_tests/install -B "$out/cmake" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_PREFIX_PATH="$ours" -DWANTED="$version" &&
        cmake --build "$out/cmake" && (cd "$out/cmake" && ctest --output-on-failure)
}
section_files() {
    check "the files are those for x86-64" same_files
    check "ggml-info" says neon_dot "$ours/bin/ggml-info"
    check "ggml-info as the smallest processor" env QEMU_CPU=cortex-a53 bash -c "'$ours/bin/ggml-info' | grep 'scalar neon)'"
    check "a host by pkg-config" by_pkgconfig
    ! command -v cmake > /dev/null || check "hosts by CMake" by_cmake
}
units() { # PROCESSOR ARGUMENT ...: of the tests
    QEMU_CPU=$1 CC_aarch64_unknown_linux_gnu=$CC CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC \
        cargo test --quiet --locked --target "$CARGO_TARGET" --profile tools --features internals --lib -- "${@:2}"
}
section_units() {
    for processor in $processors; do check "unit tests of kernels, as $processor" units "$processor" cpu::simd; done
    if [ -n "$whole" ]; then check "all other unit tests" units max --skip cpu::simd; else check "unit tests of formats" units max quant:: gguf::; fi
}
# On this library and on the original for ARM.
hosts() { GGML_PREFIX=$ours GGML_ORACLE_PREFIX=$GGML_CACHE/$CARGO_TARGET/original GGML_ORACLE_SRC=$GGML_CACHE/src/ggml/src C_TESTS_OUT=$out/c_tests bash c_tests/run.sh "$@"; }
section_c() {
    check "the original for ARM" scripts/oracle.sh original
    if [ -n "$whole" ]; then
        check "c_tests" hosts abi dump host sched async meta quant ops train plugin bad rs refuse
    else
        DIFF_SAMPLE=${DIFF_SAMPLE:-40} check "c_tests: layouts, names and operations" hosts abi ops
    fi
    grep 'passed' "$work/log"
}
# Every operation, at each level that the host's processor may lack.
section_levels() {
    DIFF_LEVELS="scalar neon neon_dot neon_i8mm" DIFF_SAMPLE=${DIFF_SAMPLE:-40} check "operations at every level" hosts ops
    grep 'passed' "$work/log"
}
of_both() { # SOURCE: a program of c_tests for either processor
    local name=${1##*/}
    $here -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$1" -o "$x86.${name%.c}" "-L$x86/lib" "-Wl,-rpath,$x86/lib" -lggml -lggml-base -lm &&
        $CC -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$1" -o "$ours.${name%.c}" "-L$ours/lib" "-Wl,-rpath,$ours/lib" -lggml -lggml-base -lm
}
cosines() { # PROCESSOR: the least one of MiniLM's vectors
    local model=$GGML_CACHE/models/minilm-f32.gguf
    [ -e "$model" ] || { mkdir -p "${model%/*}" && python3 scripts/fetch_minilm.py "$GGML_CACHE/src/minilm" "$model"; } || return 1
    "$x86.embed" --raw -t 2 "$model" > "$x86.vectors" && QEMU_CPU=$1 "$ours.embed" --raw -t 2 "$model" > "$ours.vectors" || return 1
    paste -d' ' "$x86.vectors" "$ours.vectors" | awk '
        { n = NF / 2; d = a = b = 0; for (i = 1; i <= n; i++) { d += $i * $(i + n); a += $i * $i; b += $(i + n) * $(i + n) }
          c = d / sqrt(a * b); if (NR == 1 || c < least) least = c }
        END { printf "least cosine of %d: %.9f\n", NR, least; exit !(NR > 5 && least >= 0.9999999) }'
}
served() { # PREFIX COMMAND ...: with a server of that installation; the endpoint is the last argument
    local port=$((20000 + $$ % 20000)) server status
    "$1/bin/ggml-rpc-server" -H 127.0.0.1 -p $port -d CPU -t 2 > "$out/server.log" 2>&1 &
    server=$!
    timeout 30 bash -c "until exec 3<> /dev/tcp/127.0.0.1/$port; do sleep 0.2; done" 2> /dev/null
    "${@:2}" "127.0.0.1:$port"
    status=$?
    kill $server
    wait $server
    return $status
}
section_x86() {
    check "hosts for both processors" eval "of_both examples/embed.c && of_both foreign/test_foreign.c"
    for processor in $processors; do check "MiniLM, as $processor" cosines "$processor"; grep cosine "$work/log"; done
    check "RPC: a client for ARM" served "$x86" timeout 300 "$ours.test_foreign" "$ours/lib/libggml-rpc.so" 1e-4
    check "RPC: a server for ARM" served "$ours" timeout 300 "$x86.test_foreign" "$x86/lib/libggml-rpc.so" 1e-4
}
prompt="People die when they are killed. The cat sits outside, and the dog plays in the garden."
results() { # PROCESSOR FORMAT ARGUMENT ...: llama-results of a random llama; as x86: not emulated
    local bin=$GGML_CACHE/$CARGO_TARGET/hosts/bin lib=$ours/lib
    [ "$1" != x86 ] || bin=$GGML_CACHE/hosts/bin lib=$x86/lib
    QEMU_CPU=$1 LD_LIBRARY_PATH=$lib:$bin timeout 1200 "$bin/llama-results" -m "$GGML_CACHE/models/llama-$2.gguf" -o "$out/logits-$2.gguf" \
        -p "$prompt" -t 2 "${@:3}"
}
section_llama() {
    check "llama.cpp's tools for ARM" scripts/oracle.sh hosts
    for format in f32 f16 Q8_0-original Q4_0-original Q4_K-original; do
        check "llama-results, $format on x86-64" results x86 "$format"
        for processor in $processors; do check "llama-results --check, $format as $processor" says OK results "$processor" "$format" --check; grep NMSE "$work/said"; done
        check "llama-results --check, $format: a client for ARM" says OK served "$x86" results max "$format" --check -ngl 99 --rpc
        check "llama-results --check, $format: a server for ARM" says OK served "$ours" results x86 "$format" --check -ngl 99 --rpc
    done
}
section_debian() {
    local lib=$GGML_CACHE/$CARGO_TARGET model=$GGML_CACHE/models/llama-Q8_0-original.gguf codename mirror rootfs
    rootfs=$lib/debian
    for tool in debootstrap dpkg-buildpackage dh; do command -v $tool > /dev/null || skip "debian: $tool is missing: install the packages debootstrap dpkg-dev debhelper"; done
    dpkg-query -W libc6:arm64 libgcc-s1:arm64 > /dev/null 2>&1 || skip "debian: packages are missing: dpkg --add-architecture arm64, and install libc6:arm64 libgcc-s1:arm64"
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # Where apt takes this system's packages from.
    mirror=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | awk -v of="$codename" '$1 == of { print $2; exit }')
    check "llama.cpp's tools for ARM" scripts/oracle.sh hosts
    check "the packages" env -u CC -u CXX -u OBJCOPY -u CARGO_TARGET scripts/test_debian.sh for arm64
    [ -e "$rootfs/done" ] || { rm -rf "$rootfs" && check "a root of Debian for ARM" debootstrap --arch=arm64 --variant=minbase --include=libstdc++6 "$codename" "$rootfs" "$mirror" && [ ! -e "$rootfs/debootstrap" ] && touch "$rootfs/done"; }
    rm -rf "$out/root" && cp -a "$rootfs" "$out/root" && mkdir "$out/root/debs" "$out/root/llama"
    cp target/debian-arm64/*.deb "$out/root/debs/"
    cp -L "$lib"/hosts/bin/llama-{results,bench} "$lib"/hosts/bin/*.so* "$out/root/llama/"
    cp --parents "$model" "$out/root" # a file of logits names its model
    inside() { chroot "$out/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LD_LIBRARY_PATH=/llama GGML_NO_BACKTRACE=1 QEMU_CPU=max "$@"; }
    check "dpkg -i" inside sh -c 'dpkg -i --force-depends debs/libggml0_*.deb debs/ggml-info_*.deb debs/ggml-rpc-server_*.deb'
    check "ggml-info: the tools get the package's libraries" says " /lib/aarch64-linux-gnu/libggml-base.so.0" inside ggml-info --check /llama/llama-results
    check "llama-results on x86-64" results x86 Q8_0-original
    cp "$out/logits-Q8_0-original.gguf" "$out/root/llama/logits.gguf"
    check "llama-results --check there" says OK inside timeout 1200 /llama/llama-results -m "$model" -o /llama/logits.gguf -p "$prompt" -t 2 --check
    grep NMSE "$work/said"
    check "llama-bench there" says 'tg8 ' inside timeout 1200 /llama/llama-bench -m "$model" -p 32 -n 8 -r 1 -t 2
    check "dpkg --purge" inside dpkg --purge ggml-rpc-server ggml-info libggml0
    check "nothing is left" test -z "$(find "$out/root/usr" -name '*ggml*')"
}

end=$(($(date +%s) + 480))
[ "${TEST_UNTIL:-$end}" -gt "$end" ] || end=${TEST_UNTIL:-$end}
check "make" scripts/build.sh if-needed
check "make install" env STRIP=1 scripts/install.sh "$ours"
[ "$failed" = 0 ] || finish aarch64
for section; do
    # CI has eight minutes for all of them.
    if [ -z "$whole" ] && [ "$(date +%s)" -ge "$end" ]; then echo "note: $section: left out for lack of time"; continue; fi
    echo "$section: $(date +%T)"
    "section_$section"
done
finish aarch64
