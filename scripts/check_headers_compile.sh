#!/bin/sh
# Compiles each header alone, as C11 and as C++17, with warnings as errors: check_headers_compile.sh [INCLUDE_DIR]
set -u
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
dir=${1:-include}
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$dir"
c() { ${CC:-cc} -std=c11 $strict "$@"; }
cpp() { ${CXX:-c++} -std=c++17 $strict -x c++ "$@"; }
for path in "$dir"/*.h; do
    header=$(basename "$path")
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" > "$work/one.c"
    for define in "" -DGGML_SHARED -DGGML_BACKEND_DL; do
        [ "$header" = ggml-cpp.h ] || check "$header as C11 $define" c $define "$work/one.c"
        check "$header as C++17 $define" cpp $define "$work/one.c"
    done
done
# The layout of tensors depends on this number: a host of another one must not compile.
other() { echo '#include "ggml.h"' | c -DGGML_MAX_NAME=1040 -x c - > "$work/said" 2>&1 && return 1; grep -q 'is built with GGML_MAX_NAME' "$work/said"; }
check "a host of another GGML_MAX_NAME is refused" other
for define in "" "-DGGML_BACKEND_DL -DNDEBUG -DGGML_BACKEND_SHARED"; do
    check "macros as C11 $define" c $define "$root/c_tests/host/macros.c"
    check "macros as C++17 $define" cpp $define "$root/c_tests/host/macros.c"
done
finish headers
