/* Calls that break the header's contract, each in a child process: those that the original asserts must reach the abort
 * callback. */
#include "../common/child.h"

#include "ggml-cpu.h"
#include "gguf.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct ggml_context * c;

static struct ggml_tensor * t(enum ggml_type type, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return ggml_new_tensor_4d(c, type, n0, n1, n2, n3);
}

#define F(...) t(GGML_TYPE_F32, __VA_ARGS__)
#define H(...) t(GGML_TYPE_F16, __VA_ARGS__)
#define I(...) t(GGML_TYPE_I32, __VA_ARGS__)

/* Each case is a function, so that it can run in a child. */
#define LIST                                                                                                   \
    X(add of shapes that do not repeat, ggml_add(c, F(4, 3, 1, 1), F(3, 3, 1, 1)))                             \
    X(mul of shapes that do not repeat, ggml_mul(c, F(4, 3, 1, 1), F(4, 2, 1, 1)))                             \
    X(sub of a smaller left side, ggml_sub(c, F(4, 1, 1, 1), F(4, 2, 1, 1)))                                   \
    X(div of shapes that do not repeat, ggml_div(c, F(4, 3, 1, 1), F(4, 2, 1, 1)))                             \
    X(add1 of a vector, ggml_add1(c, F(4, 1, 1, 1), F(4, 1, 1, 1)))                                            \
    X(add_id with F32 ids, ggml_add_id(c, F(8, 2, 5, 1), F(8, 4, 1, 1), F(2, 5, 1, 1)))                        \
    X(add_cast of F32, ggml_add_cast(c, F(8, 2, 1, 1), F(8, 2, 1, 1), GGML_TYPE_F32))                          \
    X(acc of F16, ggml_acc(c, H(8, 2, 1, 1), F(8, 2, 1, 1), 32, 64, 64, 0))                                    \
    X(acc far behind, ggml_acc(c, F(8, 2, 1, 1), F(8, 2, 1, 1), 32, 64, 64, (size_t) 1 << 30))                \
    X(scale of elements that are apart, ggml_scale(c, ggml_transpose(c, F(4, 6, 1, 1)), 2.0f))                 \
    X(top_k_mask of integers, ggml_top_k_mask(c, I(8, 2, 1, 1), I(3, 2, 1, 1), NULL, NULL, NULL))              \
    X(top_k_mask with F32 picks, ggml_top_k_mask(c, F(8, 2, 1, 1), F(3, 2, 1, 1), NULL, NULL, NULL))           \
    X(top_k_mask that does not repeat, ggml_top_k_mask(c, F(8, 2, 1, 1), I(3, 3, 1, 1), NULL, NULL, NULL))     \
    X(top_k_mask with scores of other rows, ggml_top_k_mask(c, F(8, 2, 1, 1), I(3, 2, 1, 1), F(8, 3, 1, 1), NULL, NULL)) \
    X(top_k_mask with blocks of other scores, ggml_top_k_mask(c, F(8, 2, 1, 1), I(3, 2, 1, 1), F(8, 2, 1, 1), I(2, 7, 1, 1), NULL)) \
    X(top_k_mask with more of other rows, ggml_top_k_mask(c, F(8, 2, 1, 1), I(3, 2, 1, 1), NULL, NULL, I(3, 1, 1, 1))) \
    X(argmax of a cube, ggml_argmax(c, F(4, 3, 2, 1)))                                                         \
    X(count_equal of two shapes, ggml_count_equal(c, I(4, 3, 1, 1), I(4, 2, 1, 1)))                            \
    X(repeat into what does not fit, ggml_repeat(c, F(3, 1, 1, 1), F(4, 1, 1, 1)))                             \
    X(repeat_4d into what does not fit, ggml_repeat_4d(c, F(3, 1, 1, 1), 4, 1, 1, 1))                          \
    X(repeat_back of what does not fit, ggml_repeat_back(c, F(4, 1, 1, 1), F(3, 1, 1, 1)))                     \
    X(concat along dimension 4, ggml_concat(c, F(4, 1, 1, 1), F(4, 1, 1, 1), 4))                               \
    X(concat along dimension -1, ggml_concat(c, F(4, 1, 1, 1), F(4, 1, 1, 1), -1))                             \
    X(concat of two types, ggml_concat(c, F(4, 1, 1, 1), H(4, 1, 1, 1), 0))                                    \
    X(concat of two widths, ggml_concat(c, F(4, 3, 1, 1), F(5, 3, 1, 1), 1))                                   \
    X(cumsum of F16, ggml_cumsum(c, H(4, 1, 1, 1)))                                                            \
    X(glu of rows that are apart, ggml_reglu(c, ggml_transpose(c, F(4, 6, 1, 1))))                             \
    X(glu_split of two shapes, ggml_reglu_split(c, F(4, 6, 1, 1), F(4, 5, 1, 1)))                              \
    X(glu_split of two types, ggml_reglu_split(c, F(4, 6, 1, 1), H(4, 6, 1, 1)))                               \
    X(unary of rows that are apart, ggml_relu(c, ggml_transpose(c, F(4, 6, 1, 1))))                            \
    X(mul_mat of two widths, ggml_mul_mat(c, F(4, 6, 1, 1), F(5, 6, 1, 1)))                                    \
    X(mul_mat of a transposed weight, ggml_mul_mat(c, ggml_transpose(c, F(4, 6, 1, 1)), F(6, 6, 1, 1)))        \
    X(mul_mat of batches that do not repeat, ggml_mul_mat(c, F(4, 6, 2, 1), F(4, 6, 3, 1)))                    \
    X(mul_mat_id with F32 ids, ggml_mul_mat_id(c, F(4, 6, 2, 1), F(4, 1, 3, 1), F(2, 3, 1, 1)))                \
    X(mul_mat_id with too few ids, ggml_mul_mat_id(c, F(4, 6, 2, 1), F(4, 1, 3, 1), I(2, 2, 1, 1)))            \
    X(out_prod of two heights, ggml_out_prod(c, F(4, 6, 1, 1), F(4, 5, 1, 1)))                                 \
    X(set of more than there is, ggml_set(c, F(4, 1, 1, 1), F(5, 1, 1, 1), 16, 16, 16, 0))                     \
    X(cpy of two sizes, ggml_cpy(c, F(4, 1, 1, 1), F(5, 1, 1, 1)))                                             \
    X(cont_2d of another size, ggml_cont_2d(c, F(4, 3, 1, 1), 4, 4))                                           \
    X(reshape of another size, ggml_reshape(c, F(4, 3, 1, 1), F(4, 4, 1, 1)))                                  \
    X(reshape_1d of another size, ggml_reshape_1d(c, F(4, 3, 1, 1), 11))                                       \
    X(reshape_3d of another size, ggml_reshape_3d(c, F(4, 3, 1, 1), 4, 3, 2))                                  \
    X(reshape of a transposed tensor, ggml_reshape_1d(c, ggml_transpose(c, F(4, 3, 1, 1)), 12))                \
    X(view behind the end, ggml_view_1d(c, F(4, 3, 1, 1), 4, 36))                                              \
    X(view larger than its source, ggml_view_1d(c, F(4, 3, 1, 1), 13, 0))                                      \
    X(permute with an axis twice, ggml_permute(c, F(4, 3, 1, 1), 0, 0, 2, 3))                                  \
    X(permute with axis 4, ggml_permute(c, F(4, 3, 1, 1), 0, 1, 2, 4))                                         \
    X(get_rows with F32 rows, ggml_get_rows(c, F(4, 3, 1, 1), F(2, 1, 1, 1)))                                  \
    X(get_rows with another batch, ggml_get_rows(c, F(4, 3, 2, 1), I(2, 1, 1, 1)))                             \
    X(get_rows_back of a cube, ggml_get_rows_back(c, F(4, 2, 2, 1), I(2, 1, 1, 1), F(4, 3, 1, 1)))             \
    X(set_rows of I32 data, ggml_set_rows(c, F(4, 3, 1, 1), I(4, 2, 1, 1), I(2, 1, 1, 1)))                     \
    X(set_rows with F32 rows, ggml_set_rows(c, F(4, 3, 1, 1), F(4, 2, 1, 1), F(2, 1, 1, 1)))                   \
    X(set_rows with too few rows, ggml_set_rows(c, F(4, 3, 1, 1), F(4, 2, 1, 1), I(1, 1, 1, 1)))               \
    X(diag of a matrix, ggml_diag(c, F(4, 3, 1, 1)))                                                           \
    X(tri of a rectangle, ggml_tri(c, F(4, 3, 1, 1), GGML_TRI_TYPE_LOWER))                                     \
    X(fill of I32, ggml_fill(c, I(4, 3, 1, 1), 1.0f))                                                          \
    X(soft_max of a transposed tensor, ggml_soft_max(c, ggml_transpose(c, F(4, 3, 1, 1))))                     \
    X(soft_max with an I32 mask, ggml_soft_max_ext(c, F(4, 3, 1, 1), I(4, 3, 1, 1), 1.0f, 0.0f))               \
    X(soft_max with a low mask, ggml_soft_max_ext(c, F(4, 3, 1, 1), F(4, 2, 1, 1), 1.0f, 0.0f))                \
    X(soft_max with ALiBi and no mask, ggml_soft_max_ext(c, F(4, 3, 1, 1), NULL, 1.0f, 8.0f))                  \
    X(sinks of an add, ggml_soft_max_add_sinks(ggml_add(c, F(4, 3, 2, 1), F(4, 3, 2, 1)), F(2, 1, 1, 1)))      \
    X(sinks of another number, ggml_soft_max_add_sinks(ggml_soft_max(c, F(4, 3, 2, 1)), F(3, 1, 1, 1)))        \
    X(rope with an odd mode, ggml_rope(c, F(8, 2, 3, 1), I(3, 1, 1, 1), 8, 1))                                 \
    X(rope with F32 positions, ggml_rope(c, F(8, 2, 3, 1), F(3, 1, 1, 1), 8, 0))                               \
    X(rope with too few positions, ggml_rope(c, F(8, 2, 3, 1), I(2, 1, 1, 1), 8, 0))                           \
    X(rope offset of an add, ggml_rope_set_offset(ggml_add(c, F(8, 1, 1, 1), F(8, 1, 1, 1)), 2))               \
    X(im2col of other channels, ggml_im2col(c, F(3, 3, 2, 4), F(8, 8, 3, 1), 1, 1, 0, 0, 1, 1, true, GGML_TYPE_F32)) \
    X(im2col of a small picture, ggml_im2col(c, F(3, 3, 2, 4), F(2, 2, 2, 1), 1, 1, 0, 0, 1, 1, true, GGML_TYPE_F32)) \
    X(conv_transpose_1d with padding, ggml_conv_transpose_1d(c, F(3, 2, 4, 1), F(8, 4, 1, 1), 1, 1, 1))        \
    X(conv_transpose_2d of other channels, ggml_conv_transpose_2d_p0(c, F(3, 3, 2, 4), F(8, 8, 3, 1), 1))      \
    X(pool_1d of nothing, ggml_pool_1d(c, F(2, 2, 1, 1), GGML_OP_POOL_MAX, 5, 1, 0))                           \
    X(upscale by one, ggml_upscale(c, F(4, 3, 1, 1), 1, GGML_SCALE_MODE_NEAREST))                              \
    X(interpolate in mode 7, ggml_interpolate(c, F(4, 3, 1, 1), 8, 6, 1, 1, 7))                                \
    X(pad_reflect wider than the row, ggml_pad_reflect_1d(c, F(4, 3, 1, 1), 4, 0))                             \
    X(roll by more than the row, ggml_roll(c, F(4, 3, 1, 1), 4, 0, 0, 0))                                      \
    X(top_k of more than there are, ggml_top_k(c, F(4, 3, 1, 1), 5))                                           \
    X(argsort_top_k of more than there are, ggml_argsort_top_k(c, F(4, 3, 1, 1), 5))                           \
    X(arange backwards, ggml_arange(c, 3.0f, 1.0f, 1.0f))                                                      \
    X(flash_attn of two widths, ggml_flash_attn_ext(c, F(8, 3, 4, 1), H(7, 6, 4, 1), H(7, 6, 4, 1), NULL, 1.0f, 0.0f, 0.0f)) \
    X(flash_attn with an F32 mask, ggml_flash_attn_ext(c, F(8, 3, 4, 1), H(8, 6, 4, 1), H(8, 6, 4, 1), F(6, 3, 1, 1), 1.0f, 0.0f, 0.0f)) \
    X(flash_attn with ALiBi and no mask, ggml_flash_attn_ext(c, F(8, 3, 4, 1), H(8, 6, 4, 1), H(8, 6, 4, 1), NULL, 1.0f, 8.0f, 0.0f)) \
    X(flash_attn_back, ggml_flash_attn_back(c, F(8, 3, 4, 1), F(8, 6, 4, 1), F(6, 8, 4, 1), F(8, 3, 4, 1), false)) \
    X(precision of a NULL flash attention, ggml_flash_attn_ext_get_prec(F(1, 1, 1, 1)))                        \
    X(hint of an add, ggml_mul_mat_set_hint(ggml_add(c, F(8, 1, 1, 1), F(8, 1, 1, 1)), GGML_HINT_NONE))        \
    X(ssm_conv of another width, ggml_ssm_conv(c, F(9, 6, 2, 1), F(4, 5, 1, 1)))                               \
    X(get_rel_pos of two heights, ggml_get_rel_pos(c, H(6, 7, 1, 1), 4, 3))                                    \
    X(wkv6 of other heads, ggml_rwkv_wkv6(c, F(4, 2, 6, 1), F(4, 3, 6, 1), F(4, 2, 6, 1), F(4, 2, 1, 1), F(4, 2, 6, 1), F(32, 3, 1, 1))) \
    X(custom with no tasks, ggml_map_custom1(c, F(4, 1, 1, 1), NULL, 0, NULL))                                 \
    X(cross entropy of two shapes, ggml_cross_entropy_loss(c, F(4, 1, 1, 1), F(5, 1, 1, 1)))                   \
    X(adamw of no parameter, ggml_opt_step_adamw(c, F(4, 1, 1, 1), F(4, 1, 1, 1), F(4, 1, 1, 1), F(4, 1, 1, 1), F(7, 1, 1, 1))) \
    X(solve_tri of the upper half, ggml_solve_tri(c, F(4, 4, 1, 1), F(2, 4, 1, 1), true, false, false))        \
    X(a type out of range, t((enum ggml_type) 99, 33, 1, 1, 1))                                                \
    X(unary op of an add, ggml_get_unary_op(ggml_add(c, F(8, 1, 1, 1), F(8, 1, 1, 1))))                        \
    X(glu op of an add, ggml_get_glu_op(ggml_add(c, F(8, 1, 1, 1), F(8, 1, 1, 1))))                            \
    X(loss of a vector, ggml_set_loss(F(8, 1, 1, 1)))                                                          \
    X(param of an op, ggml_set_param(ggml_sqr(c, F(8, 1, 1, 1))))                                              \
    X(backward without gradients, backward(false, true, true))                                                 \
    X(backward without parameters, backward(true, false, true))                                                \
    X(backward without a loss, backward(true, true, false))                                                    \
    X(node out of range, ggml_graph_node(ggml_new_graph(c), 0))                                                \
    X(a graph too small, small_graph())                                                                        \
    X(select out of range, select_none())                                                                      \
    X(view_src of another data size, ggml_view_2d(c, F(8, 4, 1, 1), 8, 5, 32, 0))                              \
    X(alignment that is no power of two, gguf_wrong_alignment())                                               \
    X(a tensor twice, gguf_twice())                                                                            \
    X(a tensor that is not there, gguf_no_tensor())

static void backward(bool grads, bool params, bool loss) {
    struct ggml_tensor * x = F(4, 1, 1, 1);
    if (params) { ggml_set_param(x); }
    struct ggml_tensor * y = ggml_sum(c, ggml_sqr(c, x));
    if (loss) { ggml_set_loss(y); }
    struct ggml_cgraph * g = ggml_new_graph_custom(c, 32, grads);
    ggml_build_forward_expand(g, y);
    ggml_build_backward_expand(c, g, NULL);
}

static void small_graph(void) {
    struct ggml_tensor * x = F(4, 1, 1, 1);
    struct ggml_cgraph * g = ggml_new_graph_custom(c, 2, false);
    for (int i = 0; i < 4; i++) { x = ggml_sqr(c, x); }
    ggml_build_forward_expand(g, x);
}

static void select_none(void) {
    struct ggml_tensor * x = F(4, 1, 1, 1);
    ggml_build_forward_select(ggml_new_graph(c), &x, 1, 1);
}

static void gguf_wrong_alignment(void) {
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_u32(g, "general.alignment", 48);
    gguf_free(g);
}

static void gguf_twice(void) {
    struct gguf_context * g = gguf_init_empty();
    struct ggml_tensor *  x = ggml_set_name(F(4, 1, 1, 1), "x");
    gguf_add_tensor(g, x);
    gguf_add_tensor(g, x);
    gguf_free(g);
}

static void gguf_no_tensor(void) {
    struct gguf_context * g = gguf_init_empty();
    gguf_set_tensor_type(g, "nobody", GGML_TYPE_F16);
    gguf_free(g);
}

static void run_case(void * user) {
    const int number = *(const int *) user;
    int       at     = 0;
#define X(label, ...) \
    if (at++ == number) { (void) (__VA_ARGS__); return; }
    LIST
#undef X
}

int main(void) {
#define X(label, ...) #label,
    static const char * labels[] = { LIST };
#undef X
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false };
    for (int i = 0; i < (int) (sizeof labels / sizeof *labels); i++) {
        c = ggml_init(params);
        printf("%s: %s\n", labels[i], child_verdict(child_run(run_case, &i)));
        ggml_free(c);
    }
    return 0;
}
