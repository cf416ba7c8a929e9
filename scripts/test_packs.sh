#!/bin/bash
# The packages of make dist: built, installed and used, here and, as root, on Debian 11 (glibc 2.31), which is fetched
# into the cache. Needs target/install, npm, cmake, pkg-config and gdb. PYTHONS="python3.8 python3.13": these Pythons.
set -u
. "$(dirname "$0")/checks.sh"
cache=${GGML_CACHE:-$root/target/cache} dist=$root/target/dist
tree=$work/libggml-rs-$version-linux-x86_64 wheel=$dist/libggml_rs-$version-py3-none-manylinux_2_28_x86_64.whl
both() { scripts/dist.sh tarball wheel npm && cp "$dist/SHA256SUMS" "$work/sums" && scripts/dist.sh tarball wheel npm && (cd "$dist" && sha256sum -c "$work/sums"); }
check "packed twice: the same bytes" both
unpacked() {
    for file in "$tree.tar.gz" "$tree-debug.tar.gz" "libggml-rs-$version.tgz"; do tar -C "$work" -xzf "$dist/${file##*/}" || return 1; done
    python3 -m zipfile -e "$wheel" "$work/wheel" && chmod +x "$work"/wheel/libggml_rs/bin/* && grep -q '"bomFormat": "CycloneDX"' "$tree/libggml-rs.cdx.json" &&
        gdb -batch -nx -ex 'info line ggml_init' "$tree/lib/libggml-base.so.$version" | grep '^Line '
}
check "unpacked, and debuggers find the lines" unpacked
old_enough() { # the C library of 2018, the unwinder of GCC 4.2, and nothing of C++
    find "$work/wheel" "$work/package" "$tree" -type f ! -name '*.debug' \( -name '*.so.?*' -o -path '*/bin/*' \) -exec objdump -T {} + > "$work/symbols"
    grep -oE '\b[A-Z]+_[0-9][0-9.]+' "$work/symbols" | sort -uV | tee "$work/versions"
    [ "$(grep -c 'file format elf64-x86-64' "$work/symbols")" = 21 ] && grep -qx 'GLIBC_2.28' "$work/versions" &&
        ! grep -vxE 'GLIBC_2\.(1?[0-9]|2[0-8])(\.[0-9]+)?|GCC_(3\.[03]|4\.2\.0)' "$work/versions"
}
check "no file needs more than glibc 2.28" old_enough
names() { for f in "$1"/lib/*.so.0; do echo "${f##*/}" && nm -D --defined-only "$f" | sed 's/^[0-9a-f]* //'; done; }
same_names() { diff <(names "$root/target/install") <(names "$tree") && diff <(names "$tree") <(names "$work/wheel/libggml_rs"); }
check "the names that a build for this system exports" same_names

# Programs that are built with a package, and run without LD_LIBRARY_PATH.
builds() { # PREFIX: with pkg-config, -l, and CMake
    local with
    for with in "$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs ggml)" "-I$1/include -L$1/lib -lggml -lggml-base"; do
        $CC c_tests/install/host.c -o "$work/host" $with "-Wl,-rpath,$1/lib" && "$work/host" || return 1
    done
    rm -rf "$work/cmake" && cmake -S c_tests/install -B "$work/cmake" -DCMAKE_PREFIX_PATH="$1" -DWANTED="$version" && cmake --build "$work/cmake" && (cd "$work/cmake" && ctest)
}
hosts() { GGML_PREFIX=$1 C_TESTS_OUT=$work/c_tests c_tests/run.sh host bad robust > "$work/hosts"; grep -v ^PASS "$work/hosts"; grep -qE '^[1-9][0-9]+ passed, 0 failed' "$work/hosts"; }
check "hosts in C and C++: exceptions, cancelled threads, damaged files" hosts "$tree"
check "programs with the tarball" builds "$tree"
host=$work/host.of.another
swaps() { # COMMAND ...: a package of ggml 0.13.1, there and back
    rm -rf "$host" && python3 -m pip install -q --no-deps --no-compile --only-binary :all: --target "$host" pywhispercpp==1.5.1 && listing "$host" > "$work/before" &&
        "$@" --swap "$host" && PYTHONPATH=$host python3 -Bc 'import _pywhispercpp; print(open("/proc/self/maps").read())' | grep ggml-swap && "$@" --unswap "$host" && listing "$host" | diff "$work/before" -
}
venv=$work/environment
for python in ${PYTHONS:-python3}; do
    environment() { rm -rf "$venv" "$work/moved" && "$python" -m venv "$venv" && "$venv/bin/python" -m pip install -q -U pip && "$venv/bin/python" -m pip install -q --no-index "$wheel"; }
    check "$python: a clean environment" environment
    check "$python: ggml-info" ends 0 "$venv/" "$venv/bin/ggml-info"
    prefix=$("$venv/bin/python" -m libggml_rs --prefix)
    check "$python: programs" builds "$prefix"
    check "$python: a swap" swaps "$venv/bin/python" -m libggml_rs
    moved() { mkdir "$work/moved" && mv "$prefix" "$work/moved/" && PYTHONPATH=$work/moved "$venv/bin/python" -c 'import ctypes, libggml_rs; ctypes.CDLL(libggml_rs.get_lib() + "/libggml.so").ggml_backend_dev_count() or 1 / 0'; }
    check "$python: moved" moved
    check "$python: programs, moved" builds "$work/moved/libggml_rs"
done

in_project() { mkdir -p "$work/project" && (cd "$work/project" && "$@"); }
check "npm install" in_project npm install --silent --offline "$dist/libggml-rs-$version.tgz"
check "npx" ends 0 "libggml-rs $version" in_project npx --offline libggml-rs
check "npm: programs" builds "$(in_project node -p 'require("libggml-rs").prefix')"
check "npm: a swap" swaps in_project npx --offline libggml-rs

[ "$(id -u)" = 0 ] || finish packs
old=$cache/debian-11
check "Debian 11" env DEBIAN_SUITES=bullseye DEBIAN_PACKAGES="g++ python3-minimal bash dash coreutils grep sed mawk findutils diffutils cmake pkg-config make" python3 scripts/fetch_mesa.py "$old"
mkdir -p "$old/root/mnt" && ln -sf mawk "$old/root/usr/bin/awk" && cp -r c_tests scripts include "$work"
there() { # COMMAND: with a C library, compiler, linker and CMake of 2021, and $work as /mnt
    unshare -m bash -c 'mount --bind "$1" "$2/mnt" && mount --rbind /dev "$2/dev" && mount -t proc proc "$2/proc" && exec chroot "$2" env -i PATH=/usr/bin:/bin HOME=/tmp \
        CC=gcc CXX=g++ GGML_DISABLE_VULKAN=1 work=/mnt version="$3" bash -c "$4"' - "$work" "$old/root" "$version" "$(declare -f builds hosts); cd /mnt && $1"
}
check "there: python3 -m libggml_rs" ends 0 "libggml-rs $version" there 'PYTHONPATH=wheel python3 -m libggml_rs'
check "there: programs" there 'builds /mnt/wheel/libggml_rs'
check "there: hosts in C and C++" there "hosts /mnt/${tree##*/}"
finish packs
