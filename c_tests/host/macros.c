/* The macros of the headers, used as hosts use them; only compiled (c_tests/abi/abi.py headers). */
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
