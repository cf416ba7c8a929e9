#!/bin/sh
# Builds what the tests compare with, in GGML_CACHE (default: target/cache); what is there already is reused.
#
#   oracle.sh fetch      sources of the original ggml and of llama.cpp            -> src/
#   oracle.sh original   the original's libraries and headers                     -> original/
#   oracle.sh debug      its libraries again, not optimised, with debug information -> debug/
#   oracle.sh bench      its libraries as hosts build them, for this processor and for AVX2 only -> bench-native/,
#                        bench-avx2/
#   oracle.sh hosts      llama.cpp 0.8.0's tools, built against the installed library -> hosts/bin
#   oracle.sh tests      tests, server and embedding of the older llama.cpp, likewise -> tests/bin
#   oracle.sh peers      the original's own test programs, built against IT       -> peers/
#   oracle.sh modules    the original's loadable CPU and RPC modules, its RPC server -> modules/
#   oracle.sh former     the CPU and RPC modules of ggml 0.26.0, which must be refused -> former/
#   oracle.sh whisper    unpacks a whisper.cpp, for c_tests -> src/whisper.cpp
#   oracle.sh vulkan-module   its Vulkan module (glslc and Vulkan headers needed; half an hour) -> modules/
#
# With CARGO_TARGET=aarch64-unknown-linux-gnu or x86_64-pc-windows-gnu it is built for that, in the folder of this name
# in GGML_CACHE.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${GGML_CACHE:-$root/target/cache}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc 2> /dev/null || echo 2)}
compilers= front=lib end=so
if [ -n "${CARGO_TARGET:-}" ]; then # the sources are the same
    mkdir -p "$cache/src" "$cache/$CARGO_TARGET"
    cache=$cache/$CARGO_TARGET
    [ -e "$cache/src" ] || ln -s ../src "$cache/src"
    . "$root/scripts/target.sh"
    compilers=$tools system=Linux CC=${tools}gcc CXX=${tools}g++
    # MinGW's compilers have C++'s threads in one variant only.
    [ "$end" != dll ] || system=Windows CC=$CC-posix CXX=$CXX-posix
fi
CC=${CC:-cc} CXX=${CXX:-c++}
mkdir -p "$cache"
export PYTHONDONTWRITEBYTECODE=1

die() {
    echo "oracle: $*" >&2
    exit 1
}
need() { # TOOL PACKAGE
    command -v "$1" > /dev/null 2>&1 || die "$1 is missing: install the package $2"
}
prepare() { # what every build with cmake needs: that of the system, or from Python's packages, without root or venv
    tools=$cache/tools/cmake
    if ! command -v cmake > /dev/null 2>&1; then
        if [ ! -x "$tools/cmake/data/bin/cmake" ]; then
            need python3 python3
            echo "cmake is missing; pip puts it into the cache ..."
            mkdir -p "$cache/tools"
            rm -rf "$tools" "$tools.new"
            python3 -m pip install -q --disable-pip-version-check --target "$tools.new" cmake ninja > "$cache/tools/cmake.log" 2>&1 ||
                die "cmake is missing: install the package cmake, or python3-pip and run this again (pip's last line: $(tail -n 1 "$cache/tools/cmake.log"))"
            mv "$tools.new" "$tools"
        fi
        export PATH="$tools/cmake/data/bin:$tools/bin:$PATH"
    fi
    [ -n "${CMAKE_GENERATOR:-}" ] || ! command -v ninja > /dev/null 2>&1 || export CMAKE_GENERATOR=Ninja
}

cmake_for() { # ARGUMENTS: cmake, for another processor if there is one
    [ -z "$compilers" ] || set -- "$@" -DCMAKE_SYSTEM_NAME=$system -DCMAKE_SYSTEM_PROCESSOR="${compilers%%-*}" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX"
    cmake "$@"
}

# A build shows a line for each tenth of its way; all of it is in the log.
build() { # NAME FOLDER TARGET ...; no target: all of it
    log=$cache/$1-build.log folder=$cache/$2
    shift 2
    { cmake --build "$folder" ${1:+--target} "$@" --parallel "$jobs" 2>&1 && echo "build complete"; } | tee "$log" | awk '
        match($0, /^\[ *[0-9]+%\]/) { p = substr($0, 2) + 0 }
        match($0, /^\[[0-9]+\/[0-9]+\]/) { split(substr($0, 2, RLENGTH - 2), a, "/"); p = 100 * a[1] / a[2] }
        { t = int(p / 10); if (t > shown) { shown = t; printf "  %d%%\n", t * 10; fflush() } }'
    tail -n 1 "$log" | grep -q '^build complete$' || {
        grep -E -A8 'error|undefined reference' "$log" | head -n 40 >&2
        die "the build failed; see $log"
    }
}

# Builds a folder of the cache, unless it has been built from the sources of this version.
version=0.28.0
once() { # NAME FUNCTION ARGUMENTS
    [ "$(cat "$cache/$1/done" 2> /dev/null)" = "$version" ] && return
    made=$1 function=$2
    shift 2
    fetch
    rm -rf "${cache:?}/$made" "$cache/$made-build"
    "$function" "$made" "$@"
    echo "$version" > "$cache/$made/done"
}

fetch() { # [former | whisper]
    need python3 python3
    python3 "$root/scripts/fetch.py" "$cache/src" "$@"
}

# GCC before 12.4, 13.3 and 14 lets its own _tile_loadconfig read 8 bytes only and drops what was written to the other
# 56 (its bug 114098): the original's AMX kernels then end with an illegal instruction.
amx_flags() {
    "$CXX" -march=native -dM -E -x c++ /dev/null 2> /dev/null | grep -q __AMX_TILE__ || return 0
    cat > "$cache/amx.h" << 'END'
#include <immintrin.h>
struct tile_config_bytes { char bytes[64]; };
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(const struct tile_config_bytes *) (config)))
END
    echo "-include $cache/amx.h"
}

# OpenMP is left out: its threads spin, and take the processors from the programs under test. Benchmarks build their own
# original with the defaults.
configure_ggml() { # NAME SOURCE ARGUMENTS: a tree of ggml, to be built in NAME-build
    name=$1 source=$2
    shift 2
    prepare
    mkdir -p "$cache/$name"
    # Debian 12's headers lack a type that the original uses for Windows 8 and later.
    [ "${system:-}" != Windows ] || set -- "$@" -DCMAKE_C_FLAGS=-D_WIN32_WINNT=0x601
    cmake_for -S "$cache/src/$source" -B "$cache/$name-build" -DCMAKE_INSTALL_PREFIX="$cache/$name" -DCMAKE_INSTALL_LIBDIR=lib \
        -DBUILD_SHARED_LIBS=ON -DGGML_OPENMP=OFF -DGGML_RPC=ON -DGGML_CCACHE=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF \
        "$@" > "$cache/$name-configure.log" 2>&1 || die "$source cannot be configured; see $cache/$name-configure.log"
}
libraries() { # NAME ARGUMENTS: the original's libraries and headers, in NAME
    name=$1
    shift
    echo "building the original ggml $version as $name (some minutes) ..."
    configure_ggml "$name" ggml "$@"
    build "$name" "$name-build"
    cmake --install "$cache/$name-build" > /dev/null
    cp "$cache/src/ggml/src/ggml-backend-impl.h" "$cache/$name/include/"
    rm -rf "$cache/$name-build"
}
loadable() { # NAME SOURCE ARGUMENTS: its CPU and RPC modules, in NAME
    configure_ggml "$@" -DCMAKE_BUILD_TYPE=Release -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF
    echo "building the CPU and RPC modules of $source as $name (some minutes) ..."
    build "$name" "$name-build" ggml-cpu ggml-rpc
    cp "$cache/$name-build/bin/${front}ggml-cpu.$end" "$cache/$name-build/bin/${front}ggml-rpc.$end" "$cache/$name/"
}

original() {
    # For ARM, what makes its results exact and equal to those on x86-64: without fp16 it does not add products as
    # halves, and no compiler fuses the additions of its quantization.
    set -- -DCMAKE_CXX_FLAGS="$(amx_flags)"
    [ "${compilers%%-*}" != aarch64 ] || set -- -DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod -DCMAKE_C_FLAGS=-ffp-contract=off -DCMAKE_CXX_FLAGS=-ffp-contract=off
    once original libraries -DCMAKE_BUILD_TYPE=Release -DGGML_LLAMAFILE=ON "$@"
}

# The original as hosts build it: with OpenMP, repacking, and the kernels of llamafile.
bench() {
    levels=native
    [ "$(uname -m)" != x86_64 ] || levels="native avx2"
    ! grep -qsw avx_vnni /proc/cpuinfo || levels="$levels avx_vnni"
    for level in $levels; do
        flags=-DGGML_NATIVE=ON
        [ "$level" = native ] || flags="-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
        [ "$level" != avx_vnni ] || flags="$flags -DGGML_AVX_VNNI=ON"
        # shellcheck disable=SC2086
        once "bench-$level" libraries -DCMAKE_BUILD_TYPE=Release -DGGML_OPENMP=ON -DGGML_LLAMAFILE=ON -DCMAKE_CXX_FLAGS="$(amx_flags)" $flags
    done
}

# For scripts/abi_diff.py, which reads the libraries' debug information and runs no code of them: no code for this
# processor only.
debug() {
    once debug libraries -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-g -O0" -DCMAKE_CXX_FLAGS_DEBUG="-g -O0" -DGGML_NATIVE=OFF -DGGML_LLAMAFILE=ON
}

# For programs whose time is ggml's. The tree of the tests compiles in half the time of -O3.
fast_to_compile="-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"

configure() { # NAME SOURCE ARGUMENTS: a llama.cpp tree, configured for the installed library
    name=$1 source=$2
    shift 2
    fetch
    prepare
    "$root/scripts/install.sh" "$cache/ours"
    set -- "$@" "$fast_to_compile"
    [ "$(cat "$cache/$name/configured" 2> /dev/null)" = "$version $*" ] && return
    rm -rf "${cache:?}/$name"
    echo "configuring $source with -DLLAMA_USE_SYSTEM_GGML=ON ..."
    cmake_for -S "$cache/src/$source" -B "$cache/$name" -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA_USE_SYSTEM_GGML=ON -DCMAKE_PREFIX_PATH="$cache/ours" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DLLAMA_OPENSSL=OFF \
        "$@" > "$cache/$name-configure.log" 2>&1 || die "llama.cpp cannot be configured; see $cache/$name-configure.log"
    echo "$version $*" > "$cache/$name/configured"
}
programs() { # TARGET ...: of the tree that is configured
    echo "building programs of $source against the installed library (first time: some minutes) ..."
    build "$name" "$name" "$@"
    # Warnings of former, partial builds count too.
    cat "$cache/$name-build.log" >> "$cache/$name/all.log"
}

hosts() {
    configure hosts llama-new -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
    programs llama-results llama-completion llama-bench llama-quantize llama-gguf-split llama-perplexity
}

tests() {
    configure tests llama.cpp -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
    programs llama-embedding llama-server test-c test-quantize-fns test-rope test-barrier \
        test-backend-ops test-llama-archs test-col2im-1d test-tiled-mulmat test-thread-safety test-save-load-state \
        test-recurrent-state-rollback test-state-restore-fragmented test-backend-sampler test-export-graph-ops test-opt
}

tests_of_original() { # FOLDER
    mkdir -p "$cache/$1/tests"
    ln -sfn "$cache/src/ggml" "$cache/$1/ggml" # test-gguf and test-alloc include ../ggml/src/*.h
    for name in gguf alloc rope barrier quantize-fns opt; do
        echo "building test-$name against the original ..."
        cp "$cache/src/llama.cpp/tests/test-$name.cpp" "$cache/$1/tests/"
        $CXX -std=c++17 -O2 -w -I"$cache/original/include" "$cache/$1/tests/test-$name.cpp" -o "$cache/$1/test-$name" \
            -L"$cache/original/lib" -lggml -lggml-base -lggml-cpu -lpthread -Wl,-rpath-link,"$cache/original/lib"
    done
}
peers() { original; once peers tests_of_original; }

modules_and_server() { # FOLDER
    loadable "$1" ggml
    near=-Wl,-rpath-link,$cache/original/lib
    [ "$end" != dll ] || near=-lws2_32
    $CXX -std=c++17 -O2 -w -I"$cache/src/ggml/include" "$cache/src/llama-new/tools/rpc/rpc-server.cpp" -o "$cache/$1/ggml-rpc-server" \
        -L"$cache/original/lib" -lggml -lggml-base -lpthread "$near"
}
modules() { original; once modules modules_and_server; }

former_modules() { # FOLDER
    fetch former
    # They are refused before they run, so they need not be fast.
    loadable "$1" ggml-former -DCMAKE_C_FLAGS_RELEASE="-O0 -DNDEBUG" -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG"
}
former() { once former former_modules; }

whisper() { fetch whisper; }

vulkan_module() {
    modules
    [ -e "$cache/modules/libggml-vulkan.so" ] && return
    need glslc glslc
    # It needs headers of Vulkan 1.3.272 at least.
    headers=
    if ! grep -qs VK_EXT_layer_settings /usr/include/vulkan/vulkan_core.h; then
        DEBIAN_PACKAGES="libvulkan-dev" python3 "$root/scripts/fetch_mesa.py" "$cache/vulkan-headers"
        headers=-DVulkan_INCLUDE_DIR=$cache/vulkan-headers/root/usr/include
    fi
    configure_ggml modules ggml -DGGML_VULKAN=ON -DGGML_BACKEND_DL=ON ${headers:+"$headers"}
    echo "building the original's Vulkan module (half an hour) ..."
    build modules modules-build ggml-vulkan
    cp "$cache/modules-build/bin/libggml-vulkan.so" "$cache/modules/"
}

need "$CC" gcc
need "$CXX" g++
case ${1:-} in
fetch | original | bench | debug | hosts | tests | peers | modules | former | whisper) "$1" ;;
vulkan-module) vulkan_module ;;
*) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
