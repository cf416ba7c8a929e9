#!/bin/sh
# Compiles each header alone, as C11 and as C++17, with warnings as errors: check_headers_compile.sh [INCLUDE_DIR]
set -u
dir=${1:-include}
CC=${CC:-cc} CXX=${CXX:-c++}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
try() { # name, command...
    name=$1
    shift
    if "$@" 2> "$tmp/err"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$tmp/err"
    fi
}
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$dir"
for path in "$dir"/*.h; do
    header=$(basename "$path")
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" > "$tmp/one.c"
    cp "$tmp/one.c" "$tmp/one.cpp"
    for define in "" -DGGML_SHARED -DGGML_BACKEND_DL; do
        [ "$header" = ggml-cpp.h ] || try "$header as C11 $define" $CC -std=c11 $strict $define "$tmp/one.c"
        try "$header as C++17 $define" $CXX -std=c++17 $strict $define "$tmp/one.cpp"
    done
done
# The layout of tensors depends on this number: a host with another one must not compile.
other() { ! $CC -std=c11 $strict -DGGML_MAX_NAME=1040 "$tmp/max_name.c" 2> "$tmp/said" && grep -q 'is built with GGML_MAX_NAME' "$tmp/said"; }
echo '#include "ggml.h"' > "$tmp/max_name.c"
try "a host of another GGML_MAX_NAME is refused" other
# The macros, used as hosts use them.
cat > "$tmp/macros.c" <<'C'
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
int64_t shapes(const struct ggml_tensor *src0, const struct ggml_tensor *src1, const struct ggml_tensor *src2,
               const struct ggml_tensor *dst);
int64_t shapes(const struct ggml_tensor *src0, const struct ggml_tensor *src1, const struct ggml_tensor *src2,
               const struct ggml_tensor *dst) {
    GGML_TENSOR_TERNARY_OP_LOCALS
    GGML_ASSERT(ne00 == ne0 && "with a text");
    if (ne1 > 4) GGML_ASSERT(nb1 > 0);
    else GGML_ASSERT(nb2 > 0);
    GGML_UNUSED(nb23);
    GGML_UNUSED_VARS(ne01, ne11);
    if (ne0 < 0) GGML_ABORT("negative: %d", (int) ne0);
    return GGML_PAD(ne0 + ne10 + ne20, 16) + (int64_t) GGML_TENSOR_SIZE + GGML_PREC_DEFAULT + GGML_N_TASKS_MAX;
}
GGML_DEPRECATED(GGML_API int old_way(int x), "use another");
int never(void);
int never(void) { GGML_UNREACHABLE(); }
static ggml_backend_reg_t reg(void) { return NULL; }
static int score(void) { return 1; }
GGML_BACKEND_DL_IMPL(reg)
GGML_BACKEND_DL_SCORE_IMPL(score)
void used(void);
void used(void) { (void) reg; (void) score; }
C
cp "$tmp/macros.c" "$tmp/macros.cpp"
for define in "" "-DGGML_BACKEND_DL -DNDEBUG -DGGML_BACKEND_SHARED"; do
    try "macros as C11 $define" $CC -std=c11 $strict $define "$tmp/macros.c"
    try "macros as C++17 $define" $CXX -std=c++17 $strict $define "$tmp/macros.cpp"
done
echo "headers: $passed passed, $failed failed"
[ "$failed" = 0 ]
