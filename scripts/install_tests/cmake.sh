# Part of test_install.sh: find_package(ggml), shared and static.

PATH=$PATH:$root/target/venv/bin
if ! command -v cmake > /dev/null; then
    echo "note: cmake is not here; its checks are left out"
    return 0
fi
packaged() { # FOLDER PREFIX FLAGS ...
    build=$1 where=$2
    shift 2
    cmake -S "$root/c_tests/install" -B "$build" -DCMAKE_PREFIX_PATH="$where" -DWANTED="$version" "$@" && cmake --build "$build" && (cd "$build" && ctest)
}
check "find_package(ggml)" packaged "$work/cmake/shared" "$prefix"
check "find_package(ggml), moved" sh -c 'mv "$1" "$2"' - "$prefix" "$work/moved"
check "in its new place" cmake -S "$root/c_tests/install" -B "$work/cmake/moved" -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="$version"
mv "$work/moved" "$prefix"
archived=${archives%/lib}
check "find_package(ggml), static" packaged "$work/cmake/static" "$archived" -Dggml_USE_STATIC_LIBS=ON
check "find_package(ggml), GGML_STATIC and -static" packaged "$work/cmake/all" "$archived" -DGGML_STATIC=ON "-DCMAKE_EXE_LINKER_FLAGS=${way:--static}"
check "the static hosts need no libggml" test -z "$(needed "$work/cmake/static/host-ggml")"
no_archive() { mv "$prefix/lib/libggml-cpu.a" "$work/" && packaged "$work/cmake/none" "$prefix" -Dggml_USE_STATIC_LIBS=ON; mv "$work/libggml-cpu.a" "$prefix/lib/"; }
check "a missing static library is reported" says "there is no library libggml-cpu.a" no_archive
if [ -f "$oracle/lib/cmake/ggml/ggml-config.cmake" ]; then
    # Two copies on one system: the package's own files, whatever is searched first.
    between() { cmake -S "$root/c_tests/install" -B "$work/cmake/two" "-DCMAKE_PREFIX_PATH=$prefix;$oracle" -DWANTED="$version" && grep GGML_LIBRARY "$work/cmake/two/CMakeCache.txt"; }
    check "not another copy's library" says "GGML_LIBRARY:FILEPATH=$prefix" between
fi
