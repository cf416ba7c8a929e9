#!/bin/bash
# The packages of make dist: built, judged, installed and used, here and on an older system. On demand: test_packs.sh
#
# Needs the library in target/install, npm, cmake and pkg-config. PYTHONS="python3.8 python3.13": these instead of
# python3. The older system, for root only, is Debian 11 (glibc 2.31, binutils 2.35, CMake 3.18) in the cache.
set -u
. "$(dirname "$0")/checks.sh"
cache=${GGML_CACHE:-$root/target/cache}
dist=$root/target/dist
tree=$work/libggml-rs-$version-linux-x86_64 wheel=$dist/libggml_rs-$version-py3-none-manylinux_2_28_x86_64.whl
fails() { ! "$@"; }

check "built" scripts/dist.sh tarball wheel npm
again() { cp "$dist/SHA256SUMS" "$work/sums" && scripts/dist.sh tarball wheel npm && (cd "$dist" && sha256sum -c "$work/sums"); }
check "packed again: the same bytes" again
mkdir "$work/wheel" "$work/npm"
unpacked() { python3 -m zipfile -e "$wheel" "$work/wheel" && tar -C "$work" -xzf "$tree.tar.gz" && tar -C "$work" -xzf "$dist/libggml-rs-$version.tgz"; }
check "unpacked" unpacked

# What they need of a system.
judged() { PYTHONPATH=$(printf '%s\n' "$cache"/pack-tools-* | tail -n 1) python3 -m auditwheel show "$wheel" | tr '\n' ' '; }
check "auditwheel" says 'compatible with the following platform tag: "manylinux_2_28_x86_64"' judged
files() { find "$work/wheel" "$work/package" "$tree" -type f \( -name '*.so.?*' -o -path '*/bin/*' \); }
old_enough() { # the C library of 2018, the unwinder of GCC 4.2, and nothing of C++
    [ "$(files | wc -l)" = 21 ] && files | xargs objdump -T | grep -oE '[A-Z]+_[0-9][0-9.]+' | sort -uV | tee "$work/versions"
    grep -qx 'GLIBC_2.2[0-8]' "$work/versions" && ! grep -vxE 'GLIBC_2\.(1?[0-9]|2[0-8])(\.[0-9]+)?|GCC_(3\.[03]|4\.2\.0)' "$work/versions"
}
check "no file needs more than glibc 2.28" old_enough
names() { for f in "$1"/lib/*.so.0; do echo "${f##*/}" && nm -D --defined-only "$f" | sed 's/^[0-9a-f]* //'; done; }
same_names() { diff <(names "$root/target/install") <(names "$tree") && diff <(names "$tree") <(names "$work/wheel/libggml_rs"); }
check "the names that a build for this system exports" same_names
hosts() { GGML_PREFIX=$1 C_TESTS_OUT=$work/c_tests c_tests/run.sh host bad robust | tee "$work/c_tests.log" | grep -v ^PASS; grep -qE '^[1-9][0-9]* passed, 0 failed' "$work/c_tests.log"; }
check "hosts in C and C++, exceptions and cancelled threads among them" hosts "$tree"

# Programs that are built with a package, and run without LD_LIBRARY_PATH.
builds() { # PREFIX: with pkg-config, plain -l, and CMake
    local flags
    flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs ggml) && $CC c_tests/install/host.c -o "$work/host" $flags "-Wl,-rpath,$1/lib" && "$work/host" &&
        $CC -I "$1/include" c_tests/install/host.c -o "$work/host" -L "$1/lib" -lggml -lggml-base "-Wl,-rpath,$1/lib" && "$work/host" || return 1
    rm -rf "$work/cmake" && cmake -S c_tests/install -B "$work/cmake" -DCMAKE_PREFIX_PATH="$1" -DWANTED="$version" && cmake --build "$work/cmake" && (cd "$work/cmake" && ctest)
}
swaps() { # COMMAND ...: a host of ggml 0.13.1 from its registry, there and back
    local host=$work/host/pywhispercpp.libs version='import _pywhispercpp, re; print(re.findall("libggml-[a-z]*[^ ]*", open("/proc/self/maps").read()))'
    rm -rf "$work/host" && python3 -m pip install -q --no-deps --only-binary :all: --target "$work/host" pywhispercpp==1.5.1 || return 1
    (cd "$work/host" && find . -type f -exec sha256sum {} + | sort) > "$work/before"
    "$@" --swap "$host" && PYTHONPATH=$work/host python3 -c "$version" | tee "$work/maps" && grep -q ggml-swap "$work/maps" && "$@" --unswap "$host" &&
        (cd "$work/host" && find . -type f ! -name '*.pyc' -exec sha256sum {} + | sort) | diff "$work/before" -
}

for python in ${PYTHONS:-python3}; do
    venv="$work/an environment"
    environment() { rm -rf "$venv" && "$python" -m venv "$venv" && "$venv/bin/python" -m pip install -q -U pip && "$venv/bin/python" -m pip install -q --no-index "$wheel"; }
    check "$python: a clean environment" environment
    check "$python -m libggml_rs" ends 0 "libggml-rs $version" "$venv/bin/python" -m libggml_rs
    check "$python: ggml-info" ends 0 "an environment/" "$venv/bin/ggml-info"
    check "$python: opened by ctypes" "$venv/bin/python" -c 'import ctypes, libggml_rs; assert ctypes.CDLL(libggml_rs.get_lib() + "/libggml.so").ggml_backend_dev_count() > 0'
    prefix=$("$venv/bin/python" -m libggml_rs --prefix)
    check "$python: programs" builds "$prefix"
    check "$python: moved" mv "$prefix" "$work/libggml_rs"
    check "$python: programs, moved" builds "$work/libggml_rs"
    check "$python: a swap, moved" env PYTHONPATH="$work" "$venv/bin/python" -m libggml_rs --version
    rm -rf "$work/libggml_rs"
done
