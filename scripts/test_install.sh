#!/bin/sh
# Checks what make install puts where, and that hosts find it with CMake and with pkg-config.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # WHAT COMMAND ...
    what=$1
    shift
    if "$@" > "$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 15 "$work/log"
    fi
}
cat > "$work/host.c" <<'C'
#include "ggml.h"
#include <string.h>
int main(void) { return strcmp(ggml_type_name(GGML_TYPE_Q4_0), "q4_0") != 0; }
C
prefix=$work/some\ where
check "install into a folder with a space in its name" "$root/scripts/install.sh" "$prefix"
for name in libggml libggml-base libggml-cpu; do
    for end in .so .so.0; do
        check "$name$end" test -e "$prefix/lib/$name$end"
    done
done
check "one file" sh -c '[ "$(find "$1" -type f -name "lib*.so*" | wc -l)" = 1 ]' - "$prefix/lib"
command -v readelf > /dev/null && check "soname" sh -c 'readelf -d "$1" | grep -q "soname: .libggml\.so\.0."' - "$prefix/lib/libggml.so"
check "DESTDIR and another LIBDIR" env DESTDIR="$work/stage" "$root/scripts/install.sh" /usr lib/x86_64-linux-gnu
check "the staged package" test -e "$work/stage/usr/lib/x86_64-linux-gnu/cmake/ggml/ggml-config.cmake"

for name in libggml libggml-base libggml-cpu; do # a host that names any of them
    check "link and run, -l${name#lib}" sh -c '"$1" "$2/host.c" -o "$2/host" -I"$3/include" -L"$3/lib" "-l$4" && LD_LIBRARY_PATH="$3/lib" "$2/host"' \
        - "$CC" "$work" "$prefix" "${name#lib}"
done
if command -v pkg-config > /dev/null; then
    "$root/scripts/install.sh" "$work/plain" > /dev/null
    check "pkg-config" sh -c 'export PKG_CONFIG_PATH="$2/plain/lib/pkgconfig"; "$1" "$2/host.c" -o "$2/host" $(pkg-config --cflags --libs ggml) &&
        LD_LIBRARY_PATH="$2/plain/lib" "$2/host" && [ "$(pkg-config --modversion ggml)" = "$(sed -n "s/^version = \"\(.*\)\"/\1/p" "$3/Cargo.toml" | head -n 1)" ]' - "$CC" "$work" "$root"
else
    echo "note: pkg-config is not here; its check is left out"
fi
PATH=$PATH:$root/target/venv/bin
if command -v cmake > /dev/null; then
    mkdir "$work/cmake"
    cat > "$work/cmake/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.14)
project(host C)
find_package(ggml 0.20 REQUIRED)
foreach(name CPU BACKEND_DL LIBRARY BASE_LIBRARY CPU_LIBRARY INCLUDE_DIR LIB_DIR VERSION AVAILABLE_BACKENDS)
    if(NOT DEFINED GGML_${name} AND NOT DEFINED GGML_${name}_LIBRARY)
        message(FATAL_ERROR "GGML_${name} is not set")
    endif()
endforeach()
find_package(ggml 0.28.0 EXACT REQUIRED)
find_package(ggml 1.0 QUIET)
if(ggml_FOUND)
    message(FATAL_ERROR "another major version was accepted")
endif()
foreach(target ggml ggml-base ggml-cpu all)
    add_executable(host-${target} ../host.c)
    target_link_libraries(host-${target} PRIVATE ggml::${target})
    enable_testing()
    add_test(NAME ${target} COMMAND host-${target})
endforeach()
CMAKE
    check "cmake finds the package" cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix"
    check "cmake builds with its targets" cmake --build "$work/cmake/build"
    check "its hosts run" sh -c 'cd "$1" && ctest' - "$work/cmake/build"
else
    echo "note: cmake is not here; its checks are left out"
fi
echo "install: $passed passed, $failed failed"
[ "$failed" = 0 ]
