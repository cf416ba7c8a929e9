# Part of test_install.sh: find_package(ggml), shared and static.

PATH=$PATH:$root/target/venv/bin
if ! command -v cmake > /dev/null; then
    echo "note: cmake is not here; its checks are left out"
    return 0
fi
mkdir "$work/cmake"
cat > "$work/cmake/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.14)
project(host C)
find_package(ggml ${WANTED} EXACT REQUIRED)
foreach(name CPU BACKEND_DL LIBRARY BASE_LIBRARY CPU_LIBRARY INCLUDE_DIR LIB_DIR VERSION VERSION_MAJOR VERSION_MINOR VERSION_PATCH VERSION_BASE
        AVAILABLE_BACKENDS BUILD_COMMIT BUILD_NUMBER SHARED_LIB STATIC VULKAN CUDA METAL RPC OPENMP_ENABLED BACKEND_DIR PUBLIC_HEADERS)
    if(NOT DEFINED GGML_${name})
        message(FATAL_ERROR "GGML_${name} is not set")
    endif()
endforeach()
if(NOT GGML_VERSION STREQUAL WANTED OR NOT "${GGML_VERSION_MAJOR}.${GGML_VERSION_MINOR}.${GGML_VERSION_PATCH}" STREQUAL WANTED)
    message(FATAL_ERROR "the version is ${GGML_VERSION}")
endif()
if((ggml_USE_STATIC_LIBS OR GGML_STATIC) AND (GGML_SHARED_LIB OR NOT GGML_LIBRARY MATCHES "libggml[.]a$"))
    message(FATAL_ERROR "asked for static libraries, got ${GGML_LIBRARY}")
endif()
find_package(ggml 0.20 REQUIRED)
find_package(ggml 1.0 QUIET)
if(ggml_FOUND)
    message(FATAL_ERROR "another major version was accepted")
endif()
find_package(ggml QUIET COMPONENTS nothing)
if(ggml_FOUND)
    message(FATAL_ERROR "a component that is not there was found")
endif()
find_package(GGML REQUIRED CONFIG NAMES ggml)
enable_testing()
function(host name)
    add_executable(host-${name} ../host.c)
    target_link_libraries(host-${name} PRIVATE ${ARGN})
    add_test(NAME ${name} COMMAND host-${name})
endfunction()
# For hosts that link every backend.
set(backends)
foreach(backend IN LISTS GGML_AVAILABLE_BACKENDS)
    if(NOT TARGET ggml::${backend})
        message(FATAL_ERROR "there is no target ggml::${backend}")
    endif()
    string(TOUPPER "${backend}_LIBRARY" library)
    string(REPLACE "-" "_" library "${library}")
    if(NOT EXISTS "${${library}}")
        message(FATAL_ERROR "${library} is '${${library}}'")
    endif()
    list(APPEND backends ggml::${backend})
endforeach()
if(GGML_VULKAN AND NOT TARGET ggml::ggml-vulkan OR NOT GGML_VULKAN AND TARGET ggml::ggml-vulkan)
    message(FATAL_ERROR "GGML_VULKAN is ${GGML_VULKAN}")
endif()
host(ggml ggml::ggml)
host(loop ggml::ggml-base ${backends} ggml::ggml)
if(GGML_SHARED_LIB)
    host(reverse ggml::ggml-base ggml::ggml)
    host(all ggml::ggml-base ggml::all ggml::ggml)
    host(static ggml::static)
endif()
# The original's package has these names, too.
foreach(header IN LISTS GGML_PUBLIC_HEADERS)
    get_filename_component(header "${header}" NAME)
    if(NOT EXISTS "${GGML_INCLUDE_DIR}/${header}")
        message(FATAL_ERROR "${header} is not there")
    endif()
endforeach()
CMAKE
packaged() { # FOLDER PREFIX FLAGS ...
    build=$1 where=$2
    shift 2
    cmake -S "$work/cmake" -B "$build" -DCMAKE_PREFIX_PATH="$where" -DWANTED="$version" "$@" && cmake --build "$build" && (cd "$build" && ctest)
}
check "find_package(ggml)" packaged "$work/cmake/shared" "$prefix"
check "find_package(ggml), moved" sh -c 'mv "$1" "$2"' - "$prefix" "$work/moved"
check "in its new place" cmake -S "$work/cmake" -B "$work/cmake/moved.build" -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="$version"
mv "$work/moved" "$prefix"
archived=${archives%/lib}
check "find_package(ggml), static" packaged "$work/cmake/static" "$archived" -Dggml_USE_STATIC_LIBS=ON
check "find_package(ggml), GGML_STATIC and -static" packaged "$work/cmake/all" "$archived" -DGGML_STATIC=ON "-DCMAKE_EXE_LINKER_FLAGS=${way:--static}"
check "the static hosts need no libggml" fails says libggml sh -c 'readelf -d "$1"/host-ggml | grep NEEDED' - "$work/cmake/static"
no_archive() { mv "$prefix/lib/libggml-cpu.a" "$work/" && packaged "$work/cmake/none" "$prefix" -Dggml_USE_STATIC_LIBS=ON; mv "$work/libggml-cpu.a" "$prefix/lib/"; }
check "a missing static library is reported" says "there is no library libggml-cpu.a" no_archive
if [ -f "$oracle/lib/cmake/ggml/ggml-config.cmake" ]; then
    # Two copies on one system: the package finds its own files, whatever folder is searched first.
    check "not another copy's library" says "GGML_LIBRARY:FILEPATH=$prefix" sh -c 'cmake -S "$1/cmake" -B "$1/cmake/two" "-DCMAKE_PREFIX_PATH=$2;$3" -DWANTED="$4" && grep GGML_LIBRARY "$1/cmake/two/CMakeCache.txt"' - "$work" "$prefix" "$oracle" "$version"
fi
