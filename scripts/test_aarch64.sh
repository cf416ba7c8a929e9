#!/usr/bin/env bash
# The library for 64-bit ARM in qemu, beside that for x86-64: test_aarch64.sh [SECTION ...]
#
# Sections: files, c, levels, x86, llama, units. `all`: all of them; without any, `files` and `x86`, for which CI has
# time. `run COMMAND ...`: a command in the same surroundings, in which programs for ARM start like any others (before
# Linux 6.7 with the package qemu-user-binfmt). QEMU_CPU is the processor. The last line counts the checks.
#
# `debian`, only by itself and as root: packages for arm64 are installed in a root of Debian for ARM, and llama.cpp's
# tools use them there. While it runs, the kernel passes all programs for ARM to qemu.
set -u
export CARGO_TARGET=aarch64-unknown-linux-gnu QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu} QEMU_CPU=${QEMU_CPU:-max}
suite=aarch64
# shellcheck source=/dev/null
. "$(dirname "$0")/emulated.sh"
if [ -z "${EMULATED:-}" ]; then
    qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1)
    missing "qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu" "${qemu:-qemu-aarch64}" aarch64-linux-gnu-gcc aarch64-linux-gnu-g++
    # The head of an ELF file for this processor, and which of its bits count.
    head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' bits='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    if [ "${1:-}" = debian ]; then
        [ "$(id -u)" = 0 ] || skip "debian: a root of another system needs root"
        # The other one loads libraries, which that root does not have.
        [ "${qemu%-static}" != "$qemu" ] || skip "debian: qemu-aarch64-static is missing: install the package qemu-user-static"
        namespace=-m emulated "$qemu" "$head" "$bits" F "$0" "$@"
    fi
    emulated "$qemu" "$head" "$bits" F "$0" "$@"
fi
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
here=$CC
export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ OBJCOPY=aarch64-linux-gnu-objcopy GGML_CACHE=${GGML_CACHE:-$root/target/cache}
# Where the package libc6:arm64 is installed, too, a program would get the dynamic linker of this folder and the C
# library of that package: if the two are not of one build, starting a thread may never end.
export LD_LIBRARY_PATH=$QEMU_LD_PREFIX/lib
[ "${1:-}" != run ] || { shift; rm -rf "$temporary"; exec "$@"; }
system=Linux exe= linked=-Wl,-rpath,$target/aarch64/install/lib rpc=$target/aarch64/install/lib/libggml-rpc.so
out=$target/aarch64 ours=$target/aarch64/install x86=$target/install
mkdir -p "$out"
{ echo 'int main(void) { return 0; }' | $CC -x c - -o "$out/starts" && "$out/starts"; } ||
    skip "this kernel passes no program to qemu: install the package qemu-user-binfmt"
case ${1:-} in '') set -- files x86 ;; all) set -- files c levels x86 llama units ;; esac
processors="cortex-a53 neoverse-n1 max"

listed() { (cd "$1" && find . ! -name '*.manifest' | sort); }
same_files() { # as for x86-64, and all of them for ARM
    for file in "$ours"/lib/*.so "$ours"/bin/*; do readelf -h "$file" | grep -q 'Machine: *AArch64' || { echo "error: $file"; return 1; }; done
    diff <(listed "$ours") <(listed "$x86")
}
by_pkgconfig() {
    # shellcheck disable=SC2046
    $CC -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU c_tests/install/linked.c -o "$out/linked" -Wl,--no-as-needed -lggml-cpu \
        $(PKG_CONFIG_PATH=$ours/lib/pkgconfig pkg-config --cflags --libs ggml) -ldl && LD_LIBRARY_PATH=$ours/lib:$LD_LIBRARY_PATH "$out/linked"
}
section_files() {
    check "the files are those for x86-64" same_files
    check "ggml-info" says neon_dot "$ours/bin/ggml-info"
    check "ggml-info as the smallest processor" env QEMU_CPU=cortex-a53 bash -c "'$ours/bin/ggml-info' | grep 'scalar neon)'"
    check "a host by pkg-config" by_pkgconfig
    ! command -v cmake > /dev/null || check "hosts by CMake" by_cmake
}
units() { # PROCESSOR ARGUMENT ...: of the tests. Each has a process: qemu keeps memory of threads that have ended
    local exe
    exe=$(CC_aarch64_unknown_linux_gnu=$CC CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC cargo test --locked --target "$CARGO_TARGET" --release \
        --features internals --lib --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p') && [ -e "$exe" ] || return 1
    "$exe" --list "${@:2}" 2> /dev/null | sed -n 's/: test$//p' > "$out/units"
    # The race checker is on in builds that are not optimised.
    [ -s "$out/units" ] && GGML_SCHED_SANITIZE=1 QEMU_CPU=$1 xargs -a "$out/units" -P "$(nproc)" -I{} \
        sh -c 'timeout 1800 "$1" --exact "$2" --test-threads=1 > "$3" 2>&1 || { echo "error: $2"; tail -n 20 "$3"; exit 1; }' - "$exe" {} "$out/units-{}.log" &&
        wc -l < "$out/units"
    local status=$?
    rm -f "$out"/units-*.log
    return $status
}
section_units() {
    for processor in $processors; do check "unit tests of kernels, as $processor" units "$processor" cpu::simd && tail -n 1 "$work/log"; done
    # qemu has the program's pages at other addresses than the program; Vulkan has no driver there.
    check "all other unit tests" units max --skip cpu::simd --skip vulkan:: --skip whole_file::tests::a_file_is_memory && tail -n 1 "$work/log"
}
# On this library and on the original for ARM.
hosts() { GGML_PREFIX=$ours GGML_ORACLE_PREFIX=$GGML_CACHE/$CARGO_TARGET/original GGML_ORACLE_SRC=$GGML_CACHE/src/ggml/src ORACLE_FOR=arm C_TESTS_OUT=$out/c_tests bash c_tests/run.sh "$@"; }
section_c() {
    check "the original for ARM" scripts/oracle.sh original
    # shellcheck disable=SC2086
    check "c_tests" hosts ${C_SUITES:-abi dump host sched async meta quant ops train plugin bad rs refuse}
    grep 'passed' "$work/log"
}
# Every operation, at each level that the host's processor may lack.
section_levels() {
    DIFF_LEVELS="scalar neon neon_dot neon_i8mm" DIFF_SAMPLE=${DIFF_SAMPLE:-40} check "operations at every level" hosts ops
    grep 'passed' "$work/log"
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

check "make" scripts/build.sh if-needed
check "make install" env STRIP=1 scripts/install.sh "$ours"
[ "$failed" = 0 ] || finish aarch64
for section; do
    echo "$section: $(date +%T)"
    "section_$section"
done
finish aarch64
