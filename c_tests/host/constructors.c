/* Builds every op constructor with several shapes and prints the resulting tensors: op, parameter words, shapes,
 * strides, sources, views, flags, names, place in the context's memory. The text must be the same for every library
 * with the version of ggml 0.28.0. */
#include "../common/dump.h"

#include "ggml-cpu.h"

/* hosts still call the deprecated constructors */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct shape {
    enum ggml_type type;
    int64_t        ne[4];
};

#define F32(...)  { GGML_TYPE_F32, { __VA_ARGS__ } }
#define F16(...)  { GGML_TYPE_F16, { __VA_ARGS__ } }
#define BF16(...) { GGML_TYPE_BF16, { __VA_ARGS__ } }
#define I32(...)  { GGML_TYPE_I32, { __VA_ARGS__ } }
#define I64(...)  { GGML_TYPE_I64, { __VA_ARGS__ } }
#define Q8(...)   { GGML_TYPE_Q8_0, { __VA_ARGS__ } }
#define Q4K(...)  { GGML_TYPE_Q4_K, { __VA_ARGS__ } }

static struct ggml_context * c;
static struct ggml_tensor *  in[8]; /* the case's inputs; a.. below are their short names */
#define a in[0]
#define b in[1]
#define d in[2]
#define e in[3]
#define f in[4]
#define g in[5]
#define h in[6]

static void begin(const char * label, const struct shape * shapes, size_t n) {
    ggml_reset(c);
    memset(in, 0, sizeof in);
    printf("%s\n", label);
    for (size_t i = 0; i < n; i++) {
        int n_dims = 4;
        while (n_dims > 1 && shapes[i].ne[n_dims - 1] == 0) {
            n_dims--;
        }
        in[i] = ggml_new_tensor(c, shapes[i].type, n_dims, shapes[i].ne);
        ggml_format_name(in[i], "in%zu", i);
    }
}

static void end(const struct ggml_tensor * result) {
    dump_context(stdout, c);
    printf("  -> #%d used %zu\n", dump_index(c, result), ggml_used_mem(c));
}

/* CASE(expression, the shapes of a, b, d, ...): shapes list their dimensions, fastest first. */
#define CASE(expression, ...)                                              \
    do {                                                                   \
        const struct shape shapes[] = { __VA_ARGS__ };                     \
        begin(#expression, shapes, sizeof shapes / sizeof *shapes);        \
        end(expression);                                                   \
    } while (0)

typedef struct ggml_tensor * (*unary)(struct ggml_context *, struct ggml_tensor *);
typedef struct ggml_tensor * (*binary)(struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *);

#define U(name) { #name, name }

static void unary_constructors(void) {
    static const struct { const char * name; unary make; } table[] = {
        U(ggml_dup), U(ggml_dup_inplace), U(ggml_sqr), U(ggml_sqr_inplace), U(ggml_sqrt), U(ggml_sqrt_inplace), U(ggml_log), U(ggml_log_inplace),
        U(ggml_expm1), U(ggml_expm1_inplace), U(ggml_softplus), U(ggml_softplus_inplace), U(ggml_sin), U(ggml_sin_inplace), U(ggml_cos), U(ggml_cos_inplace),
        U(ggml_sum), U(ggml_sum_rows), U(ggml_mean), U(ggml_abs), U(ggml_abs_inplace), U(ggml_sgn), U(ggml_sgn_inplace), U(ggml_neg), U(ggml_neg_inplace),
        U(ggml_step), U(ggml_step_inplace), U(ggml_tanh), U(ggml_tanh_inplace), U(ggml_elu), U(ggml_elu_inplace), U(ggml_relu), U(ggml_relu_inplace),
        U(ggml_sigmoid), U(ggml_sigmoid_inplace), U(ggml_gelu), U(ggml_gelu_inplace), U(ggml_gelu_erf), U(ggml_gelu_erf_inplace), U(ggml_gelu_quick),
        U(ggml_gelu_quick_inplace), U(ggml_silu), U(ggml_silu_inplace), U(ggml_hardswish), U(ggml_hardsigmoid), U(ggml_exp), U(ggml_exp_inplace),
        U(ggml_floor), U(ggml_floor_inplace), U(ggml_ceil), U(ggml_ceil_inplace), U(ggml_round), U(ggml_round_inplace), U(ggml_trunc), U(ggml_trunc_inplace),
        U(ggml_cont), U(ggml_transpose), U(ggml_soft_max), U(ggml_soft_max_inplace),
        U(ggml_reglu), U(ggml_reglu_swapped), U(ggml_geglu), U(ggml_geglu_swapped), U(ggml_swiglu), U(ggml_swiglu_swapped), U(ggml_geglu_erf),
        U(ggml_geglu_erf_swapped), U(ggml_geglu_quick), U(ggml_geglu_quick_swapped),
    };
    static const struct shape shapes[] = { F32(8), F32(6, 5), F16(4, 3, 2), BF16(10, 1, 3, 2) };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            begin(table[i].name, &shapes[s], 1);
            end(table[i].make(c, a));
        }
    }
    CASE(ggml_sqr(c, ggml_permute(c, a, 0, 2, 1, 3)), F32(6, 5, 4));
    CASE(ggml_dup(c, ggml_transpose(c, a)), F16(6, 5));
    CASE(ggml_relu(c, ggml_view_2d(c, a, 3, 2, a->nb[1] * 2, 8)), F32(6, 5));
    CASE(ggml_cumsum(c, a), F32(6, 5, 2));
    CASE(ggml_argmax(c, a), F32(6, 5));
    CASE(ggml_leaky_relu(c, a, 0.125f, false), F32(6, 5));
    CASE(ggml_leaky_relu(c, a, 0.25f, true), F16(6, 5));
    CASE(ggml_xielu(c, a, 0.5f, 0.75f, 1.5f, 1e-3f), F32(6, 5));
    CASE(ggml_xielu(c, a, -0.5f, 25.0f, 0.5f, 1e-6f), F16(6, 5));
    CASE(ggml_unary(c, a, GGML_UNARY_OP_TANH), F32(6, 5));
    CASE(ggml_unary_inplace(c, a, GGML_UNARY_OP_GELU_ERF), F32(6, 5));
    CASE(ggml_diag(c, a), F32(6, 1, 3, 2));
    CASE(ggml_diag_mask_inf(c, a, 3), F32(6, 5));
    CASE(ggml_diag_mask_inf_inplace(c, a, 4), F32(6, 5, 2));
    CASE(ggml_diag_mask_zero(c, a, 0), F32(6, 5));
    CASE(ggml_diag_mask_zero_inplace(c, a, 1), F32(6, 5, 2));
    CASE(ggml_tri(c, a, GGML_TRI_TYPE_LOWER_DIAG), F32(5, 5, 2));
    CASE(ggml_tri(c, a, GGML_TRI_TYPE_UPPER), F32(4, 4));
    CASE(ggml_fill(c, a, 3.5f), F32(5, 4));
    CASE(ggml_fill_inplace(c, a, -1.0f), F16(5, 4));
    CASE(ggml_clamp(c, a, -1.5f, 2.5f), F32(5, 4));
    CASE(ggml_clamp_inplace(c, a, 0.0f, 6.0f), F16(5, 4));
    CASE(ggml_argsort(c, a, GGML_SORT_ORDER_ASC), F32(5, 4));
    CASE(ggml_argsort(c, a, GGML_SORT_ORDER_DESC), F32(5, 4, 2));
    CASE(ggml_argsort_top_k(c, a, 3), F32(5, 4, 2));
    CASE(ggml_top_k(c, a, 3), F32(5, 4, 2));
    CASE(ggml_timestep_embedding(c, a, 10, 10000), F32(5));
    CASE(ggml_timestep_embedding(c, a, 7, 100), F32(3));
    CASE(ggml_arange(c, 1.0f, 9.5f, 0.5f), F32(1));
    CASE(ggml_arange(c, 0.0f, 1.0f, 0.3f), F32(1));
}

static void binary_constructors(void) {
    static const struct { const char * name; binary make; } table[] = {
        U(ggml_add), U(ggml_add_inplace), U(ggml_sub), U(ggml_sub_inplace), U(ggml_mul), U(ggml_mul_inplace), U(ggml_div), U(ggml_div_inplace),
    };
    static const struct shape pairs[][2] = {
        { F32(8, 3), F32(8, 3) }, { F32(8, 4, 3, 2), F32(8) }, { F32(8, 4, 3, 2), F32(1, 2, 3, 1) }, { F16(8, 4), F32(8, 1) }, { F32(9, 5), F16(3, 5) }, { Q8(64, 4), F32(64, 4) },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (size_t s = 0; s < sizeof pairs / sizeof *pairs; s++) {
            begin(table[i].name, pairs[s], 2);
            end(table[i].make(c, a, b));
        }
    }
    static const struct { const char * name; binary make; } gated[] = {
        U(ggml_reglu_split), U(ggml_geglu_split), U(ggml_swiglu_split), U(ggml_geglu_erf_split), U(ggml_geglu_quick_split),
    };
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) {
        const struct shape two[] = { F32(6, 5, 2), F32(6, 5, 2) };
        begin(gated[i].name, two, 2);
        end(gated[i].make(c, a, b));
    }
    CASE(ggml_glu(c, a, GGML_GLU_OP_SWIGLU, false), F32(6, 5, 2));
    CASE(ggml_glu(c, a, GGML_GLU_OP_GEGLU_QUICK, true), F16(6, 5));
    CASE(ggml_glu_split(c, a, b, GGML_GLU_OP_GEGLU), F16(6, 5), F16(6, 5));
    CASE(ggml_swiglu_oai(c, a, b, 1.702f, 7.0f), F32(6, 5), F32(6, 5));
    CASE(ggml_swiglu_clamp(c, a, b, 5.0f), F32(6, 5), F32(6, 5));
    CASE(ggml_add_cast(c, a, b, GGML_TYPE_F32), F16(6, 5), F32(6, 1));
    CASE(ggml_add_cast(c, a, b, GGML_TYPE_F16), Q8(32, 5), F32(32, 5));
    CASE(ggml_add_id(c, a, b, d), F32(8, 2, 5), F32(8, 4), I32(2, 5));
    CASE(ggml_add1(c, a, b), F32(8, 5), F32(1));
    CASE(ggml_add1_inplace(c, a, b), F32(8, 5), F32(1));
    CASE(ggml_acc(c, a, b, a->nb[1], a->nb[2], a->nb[3], 16), F32(8, 6, 2), F32(4, 3));
    CASE(ggml_acc_inplace(c, a, b, a->nb[1], a->nb[2], a->nb[3], 0), F32(8, 6), F32(8, 6));
    CASE(ggml_count_equal(c, a, b), I32(8, 6), I32(8, 6));
    CASE(ggml_repeat(c, a, b), F32(4, 1, 2), F32(8, 3, 2, 5));
    CASE(ggml_repeat(c, a, b), F16(4, 2), F32(4, 2));
    CASE(ggml_repeat_4d(c, a, 8, 3, 4, 1), F32(4, 1, 2));
    CASE(ggml_repeat_back(c, a, b), F32(8, 3, 2, 5), F32(4, 1, 2));
    CASE(ggml_repeat_back(c, a, b), F32(4, 2), F32(4, 2));
    CASE(ggml_concat(c, a, b, 0), F32(4, 3), F32(5, 3));
    CASE(ggml_concat(c, a, b, 2), F16(4, 3, 2), F16(4, 3, 7));
    CASE(ggml_concat(c, a, b, 3), F32(4, 3, 2, 1), F32(4, 3, 2, 2));
    CASE(ggml_silu_back(c, a, b), F32(6, 5), F32(6, 5));
    CASE(ggml_out_prod(c, a, b), F32(6, 5, 2), F32(7, 5, 4));
    CASE(ggml_cross_entropy_loss(c, a, b), F32(6, 5), F32(6, 5));
    CASE(ggml_cross_entropy_loss_back(c, a, b, d), F32(1), F32(6, 5), F32(6, 5));
    CASE(ggml_solve_tri(c, a, b, true, true, false), F32(5, 5, 2), F32(3, 5, 2));
}

static void norms_and_scales(void) {
    CASE(ggml_norm(c, a, 1e-5f), F32(8, 3, 2));
    CASE(ggml_norm_inplace(c, a, 1e-12f), F32(8, 3));
    CASE(ggml_rms_norm(c, a, 1e-6f), F32(8, 3, 2));
    CASE(ggml_rms_norm_inplace(c, a, 1e-5f), F32(8, 3));
    CASE(ggml_rms_norm_back(c, a, b, 1e-5f), F32(8, 3), F32(8, 3));
    CASE(ggml_group_norm(c, a, 4, 1e-6f), F32(8, 3, 8));
    CASE(ggml_group_norm_inplace(c, a, 2, 1e-5f), F32(8, 3, 8));
    CASE(ggml_l2_norm(c, a, 1e-6f), F32(8, 3));
    CASE(ggml_l2_norm_inplace(c, a, 1e-5f), F32(8, 3));
    CASE(ggml_scale(c, a, 0.5f), F32(8, 3));
    CASE(ggml_scale_inplace(c, a, 2.5f), F16(8, 3));
    CASE(ggml_scale_bias(c, a, 0.5f, 1.25f), F32(8, 3));
    CASE(ggml_scale_bias_inplace(c, a, 0.5f, -1.25f), F32(8, 3));
    CASE(ggml_scale(c, ggml_view_2d(c, a, 5, 3, a->nb[1], 4), 0.5f), F32(8, 3));
    CASE(ggml_scale(c, ggml_permute(c, a, 0, 2, 1, 3), 0.5f), F32(8, 3, 4));
    CASE(ggml_soft_max_ext(c, a, NULL, 0.125f, 0.0f), F32(8, 3, 4));
    CASE(ggml_soft_max_ext(c, a, b, 0.25f, 8.0f), F32(8, 3, 4, 2), F16(8, 5, 2, 1));
    CASE(ggml_soft_max_ext_inplace(c, a, b, 1.0f, 0.0f), F32(8, 3), F32(8, 3));
    CASE((ggml_soft_max_add_sinks(d = ggml_soft_max_ext(c, a, NULL, 1.0f, 0.0f), b), d), F32(8, 3, 4), F32(4));
    CASE((ggml_soft_max_add_sinks(d = ggml_soft_max_ext(c, a, NULL, 1.0f, 0.0f), NULL), d), F32(8, 3, 4));
    CASE(ggml_soft_max_ext_back(c, a, b, 0.25f, 0.0f), F32(8, 3), F32(8, 3));
    CASE(ggml_soft_max_ext_back_inplace(c, a, b, 0.25f, 4.0f), F32(8, 3), F32(8, 3));
}

static void products(void) {
    CASE(ggml_mul_mat(c, a, b), F32(8, 5), F32(8, 3));
    CASE(ggml_mul_mat(c, a, b), F16(8, 5, 2), F32(8, 3, 4, 3));
    CASE(ggml_mul_mat(c, a, b), Q4K(256, 5), F32(256, 1));
    CASE(ggml_mul_mat(c, a, ggml_permute(c, b, 0, 2, 1, 3)), BF16(8, 5), F32(8, 3, 4));
    CASE((ggml_mul_mat_set_prec(d = ggml_mul_mat(c, a, b), GGML_PREC_F32), d), F32(8, 5), F32(8, 3));
    CASE((ggml_mul_mat_set_hint(d = ggml_mul_mat(c, a, b), GGML_HINT_SRC0_IS_HADAMARD), d), F32(8, 5), F32(8, 3));
    CASE((printf("  acc f32 %d\n", ggml_prec_set_acc(d = ggml_mul_mat(c, a, b), GGML_PREC_F32)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  acc bf16 %d\n", ggml_prec_set_acc(d = ggml_mul_mat(c, a, b), GGML_PREC_BF16)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  acc q8 %d\n", ggml_prec_set_acc(d = ggml_mul_mat(c, a, b), GGML_PREC_Q8)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  acc of an add %d\n", ggml_prec_set_acc(d = ggml_add(c, a, b), GGML_PREC_F32)), d), F32(8, 5), F32(8, 5));
    CASE((printf("  src1 q8 %d\n", ggml_prec_set_src(d = ggml_mul_mat(c, a, b), GGML_PREC_Q8, 1)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  src0 f16 %d\n", ggml_prec_set_src(d = ggml_mul_mat(c, a, b), GGML_PREC_F16, 0)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  src1 undefined %d\n", ggml_prec_set_src(d = ggml_mul_mat(c, a, b), GGML_PREC_UNDEFINED, 1)), d), F32(8, 5), F32(8, 3));
    CASE((ggml_prec_set_acc(d = ggml_mul_mat(c, a, b), GGML_PREC_BF16), ggml_prec_set_src(d, GGML_PREC_Q8, 1), printf("  acc %d src0 %d src1 %d\n", ggml_prec_get_acc(d), ggml_prec_get_src(d, 0), ggml_prec_get_src(d, 1)), d), F32(8, 5), F32(8, 3));
    CASE((d = ggml_add(c, a, b), printf("  of an add: acc %d src1 %d\n", ggml_prec_get_acc(d), ggml_prec_get_src(d, 1)), d), F32(8, 5), F32(8, 5));
    CASE((printf("  src5 %d\n", ggml_prec_set_src(d = ggml_mul_mat(c, a, b), GGML_PREC_Q4, 5)), d), F32(8, 5), F32(8, 3));
    CASE((printf("  src1 of an id product %d\n", ggml_prec_set_src(e = ggml_mul_mat_id(c, a, b, d), GGML_PREC_Q4, 1)), e), F32(8, 5, 4), F32(8, 1, 3), I32(2, 3));
    CASE(ggml_mul_mat_id(c, a, b, d), F32(8, 5, 4), F32(8, 1, 3), I32(2, 3));
    CASE(ggml_mul_mat_id(c, a, b, d), Q8(32, 5, 4), F32(32, 2, 3), I32(2, 3));
    CASE((printf("  acc of an id product %d\n", ggml_prec_set_acc(e = ggml_mul_mat_id(c, a, b, d), GGML_PREC_F32)), e), F32(8, 5, 4), F32(8, 1, 3), I32(2, 3));
    CASE(ggml_flash_attn_ext(c, a, b, d, NULL, 0.25f, 0.0f, 0.0f), F32(8, 3, 4, 2), F16(8, 6, 2, 2), F16(10, 6, 2, 2));
    CASE(ggml_flash_attn_ext(c, a, b, d, e, 0.125f, 8.0f, 30.0f), F32(8, 3, 4), F16(8, 6, 4), F16(8, 6, 4), F16(6, 3));
    CASE((ggml_flash_attn_ext_set_prec(f = ggml_flash_attn_ext(c, a, b, d, e, 1.0f, 0.0f, 0.0f), GGML_PREC_F32), printf("  prec %d\n", ggml_flash_attn_ext_get_prec(f)), f), F32(8, 3, 4), F16(8, 6, 4), F16(8, 6, 4), F16(6, 3));
    CASE((g = ggml_new_tensor_1d(c, GGML_TYPE_F32, 4), ggml_flash_attn_ext_add_sinks(f = ggml_flash_attn_ext(c, a, b, d, e, 1.0f, 0.0f, 0.0f), g), f), F32(8, 3, 4), F16(8, 6, 4), F16(8, 6, 4), F16(6, 3));
    CASE((ggml_flash_attn_ext_set_n_kv_max(f = ggml_flash_attn_ext(c, a, b, d, e, 1.0f, 0.0f, 0.0f), 17), f), F32(8, 3, 4), F16(8, 6, 4), F16(8, 6, 4), F16(6, 3));
    CASE((printf("  acc %d\n", (ggml_prec_set_acc(f = ggml_flash_attn_ext(c, a, b, d, e, 1.0f, 0.0f, 0.0f), GGML_PREC_F32), ggml_prec_get_acc(f))), f), F32(8, 3, 4), F16(8, 6, 4), F16(8, 6, 4), F16(6, 3));
    CASE(ggml_top_k_mask(c, a, b, NULL, NULL, NULL), F16(16, 5), I32(3, 5));
    CASE(ggml_top_k_mask(c, a, b, d, NULL, NULL), F32(16, 1, 2), I32(3, 5, 4), F32(9, 5, 4));
    CASE(ggml_top_k_mask(c, a, b, d, e, f), F32(16, 5), I32(3, 5), F32(9, 5), I32(2, 9), I32(4, 5));
    CASE(ggml_lightning_indexer(c, a, b, d, e), F32(8, 4, 3, 2), F16(8, 1, 6, 2), F32(4, 3, 1, 2), F16(6, 3, 1, 1));
}

static void shapes_and_views(void) {
    CASE(ggml_cpy(c, a, b), F32(6, 5), F16(5, 6));
    CASE(ggml_cpy(c, a, b), F32(32, 5), Q8(32, 5));
    CASE((ggml_set_name(b, ""), ggml_cpy(c, a, b)), F32(6, 5), F32(6, 5));
    CASE(ggml_cast(c, a, GGML_TYPE_F16), F32(6, 5, 2));
    CASE(ggml_cast(c, a, GGML_TYPE_Q8_0), F32(64, 2));
    CASE(ggml_cast(c, ggml_transpose(c, a), GGML_TYPE_I32), F32(6, 5));
    CASE(ggml_cont_1d(c, a, 30), F32(6, 5));
    CASE(ggml_cont_2d(c, ggml_transpose(c, a), 3, 10), F32(6, 5));
    CASE(ggml_cont_3d(c, a, 3, 2, 5), F32(6, 5));
    CASE(ggml_cont_4d(c, a, 3, 2, 5, 2), F16(6, 5, 2));
    CASE(ggml_reshape(c, a, b), F32(6, 5), F32(3, 10));
    CASE(ggml_reshape_1d(c, a, 30), F32(6, 5));
    CASE(ggml_reshape_2d(c, a, 10, 3), F32(6, 5));
    CASE(ggml_reshape_3d(c, a, 5, 2, 3), F16(6, 5));
    CASE(ggml_reshape_4d(c, a, 5, 1, 2, 3), F32(6, 5));
    CASE(ggml_reshape_2d(c, ggml_view_2d(c, a, 6, 2, a->nb[1], a->nb[1]), 3, 4), F32(6, 5));
    CASE(ggml_reshape_2d(c, a, 64, 4), Q8(32, 8));
    CASE(ggml_view_1d(c, a, 7, 8), F32(6, 5));
    CASE(ggml_view_2d(c, a, 3, 4, a->nb[1], 12), F32(6, 5));
    CASE(ggml_view_3d(c, a, 3, 4, 2, a->nb[1], a->nb[2], 4), F32(6, 5, 2));
    CASE(ggml_view_4d(c, a, 3, 4, 2, 2, a->nb[1], a->nb[2], a->nb[3], 0), F16(6, 5, 2, 2));
    CASE(ggml_view_1d(c, ggml_view_1d(c, a, 20, 16), 5, 24), F32(6, 5));
    CASE(ggml_view_2d(c, a, 32, 3, a->nb[1], a->nb[1]), Q8(64, 6));
    CASE(ggml_view_tensor(c, a), F32(6, 5));
    CASE(ggml_view_tensor(c, ggml_transpose(c, a)), F32(6, 5));
    CASE(ggml_dup_tensor(c, ggml_transpose(c, a)), F32(6, 5));
    CASE(ggml_permute(c, a, 1, 0, 2, 3), F32(6, 5, 4, 3));
    CASE(ggml_permute(c, a, 2, 3, 0, 1), F32(6, 5, 4, 3));
    CASE(ggml_permute(c, ggml_permute(c, a, 0, 2, 1, 3), 3, 1, 0, 2), F16(6, 5, 4, 3));
    CASE(ggml_transpose(c, ggml_transpose(c, a)), F32(6, 5, 4, 3));
    CASE(ggml_get_rows(c, a, b), F32(6, 5), I32(3));
    CASE(ggml_get_rows(c, a, b), Q4K(256, 5, 2), I32(3, 2));
    CASE(ggml_get_rows(c, a, b), I32(6, 5), I32(3));
    CASE(ggml_get_rows(c, a, b), F16(6, 5, 3, 2), I32(7, 3, 2));
    CASE(ggml_get_rows_back(c, a, b, d), F32(6, 3), I32(3), F32(6, 5));
    CASE(ggml_set_rows(c, a, b, d), F16(6, 5), F32(6, 3), I64(3));
    CASE(ggml_set_rows(c, a, b, d), Q8(32, 5, 4), F32(32, 3, 4), I32(3, 2));
    CASE(ggml_set(c, a, b, a->nb[1], a->nb[2], a->nb[3], 8), F32(6, 5, 2), F32(2, 3));
    CASE(ggml_set_inplace(c, a, b, a->nb[1], a->nb[2], a->nb[3], 0), F32(6, 5, 2), F32(2, 3));
    CASE(ggml_set_1d(c, a, b, 12), F32(6, 5), F32(4));
    CASE(ggml_set_1d_inplace(c, a, b, 12), F32(6, 5), F32(4));
    CASE(ggml_set_2d(c, a, b, a->nb[1], 4), F32(6, 5), F32(4, 2));
    CASE(ggml_set_2d_inplace(c, a, b, a->nb[1], 4), F32(6, 5), F32(4, 2));
    CASE(ggml_pad(c, a, 1, 2, 0, 3), F32(6, 5));
    CASE(ggml_pad_circular(c, a, 1, 2, 0, 3), F32(6, 5));
    CASE(ggml_pad_ext(c, a, 1, 2, 3, 4, 5, 6, 7, 8), F32(6, 5));
    CASE(ggml_pad_ext_circular(c, a, 1, 2, 3, 4, 0, 0, 0, 0), F32(6, 5));
    CASE(ggml_pad_reflect_1d(c, a, 2, 3), F32(6, 5));
    CASE(ggml_roll(c, a, 1, -2, 0, 0), F32(6, 5));
    CASE(ggml_roll(c, a, 0, 1, 2, -1), F32(6, 5, 4, 3));
    CASE(ggml_upscale(c, a, 2, GGML_SCALE_MODE_NEAREST), F32(6, 5, 3));
    CASE(ggml_upscale_ext(c, a, 7, 9, 3, 2, GGML_SCALE_MODE_BILINEAR), F32(6, 5, 3));
    CASE(ggml_interpolate(c, a, 12, 7, 3, 1, GGML_SCALE_MODE_BICUBIC), F32(6, 5, 3));
    CASE(ggml_interpolate(c, a, 12, 7, 3, 1, GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ALIGN_CORNERS), F32(6, 5, 3));
    CASE(ggml_interpolate(c, a, 3, 2, 3, 1, GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ANTIALIAS), F32(6, 5, 3));
    CASE(ggml_win_part(c, a, 4), F32(6, 9, 10));
    CASE(ggml_win_unpart(c, a, 9, 10, 4), F32(6, 4, 4, 9));
    CASE(ggml_get_rel_pos(c, a, 4, 4), F16(6, 7));
    CASE(ggml_add_rel_pos(c, a, b, d), F32(16, 6, 2), F32(4, 3, 2, 2), F32(4, 3, 2, 2));
    CASE(ggml_add_rel_pos_inplace(c, a, b, d), F32(16, 6, 2), F32(4, 3, 2, 2), F32(4, 3, 2, 2));
    CASE(ggml_new_tensor_1d(c, GGML_TYPE_Q4_K, 512), F32(1));
    CASE(ggml_new_tensor_2d(c, GGML_TYPE_I8, 5, 3), F32(1));
    CASE(ggml_new_tensor_3d(c, GGML_TYPE_F64, 5, 3, 2), F32(1));
    CASE(ggml_new_tensor_4d(c, GGML_TYPE_I16, 5, 3, 2, 2), F32(1));
    CASE(ggml_new_tensor_2d(c, GGML_TYPE_F32, 0, 3), F32(1));
    CASE(ggml_set_name(a, "a name that is much longer than the sixty-three characters that a tensor has room for"), F32(1));
    CASE(ggml_format_name(a, "%s-%d", "block", 12), F32(1));
    CASE((ggml_set_input(a), ggml_set_output(b), ggml_set_param(d), ggml_set_loss(ggml_sum(c, e)), a), F32(1), F32(1), F32(4), F32(3));
    CASE(ggml_new_f32(c, 1.5f), F32(1));
    CASE(ggml_new_i32(c, 7), F32(1));
    CASE((ggml_new_buffer(c, 100), ggml_new_tensor_1d(c, GGML_TYPE_F32, 3)), F32(1));
}

static void rotations(void) {
    static int sections[4] = { 2, 1, 1, 0 }, four[4] = { 1, 1, 1, 1 };
    CASE(ggml_rope(c, a, b, 8, GGML_ROPE_TYPE_NORMAL), F32(8, 4, 3), I32(3));
    CASE(ggml_rope(c, a, b, 6, GGML_ROPE_TYPE_NEOX), F16(8, 4, 3), I32(3));
    CASE(ggml_rope_inplace(c, a, b, 8, GGML_ROPE_TYPE_NORMAL), F32(8, 4, 3), I32(3));
    CASE(ggml_rope_ext(c, a, b, NULL, 8, GGML_ROPE_TYPE_NEOX, 4096, 10000.0f, 0.5f, 1.0f, 1.25f, 32.0f, 1.0f), F32(8, 4, 3), I32(3));
    CASE(ggml_rope_ext(c, a, b, d, 8, GGML_ROPE_TYPE_NORMAL, 2048, 500000.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f), F32(8, 4, 3), I32(3), F32(4));
    CASE(ggml_rope_ext_inplace(c, a, b, d, 8, GGML_ROPE_TYPE_NORMAL, 2048, 500000.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f), F32(8, 4, 3), I32(3), F32(4));
    CASE(ggml_rope_custom(c, a, b, 8, GGML_ROPE_TYPE_NEOX, 4096, 10000.0f, 0.5f, 1.0f, 1.25f, 32.0f, 1.0f), F32(8, 4, 3), I32(3));
    CASE(ggml_rope_custom_inplace(c, a, b, 8, GGML_ROPE_TYPE_NEOX, 4096, 10000.0f, 0.5f, 1.0f, 1.25f, 32.0f, 1.0f), F32(8, 4, 3), I32(3));
    CASE(ggml_rope_multi(c, a, b, NULL, 8, sections, GGML_ROPE_TYPE_MROPE, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12));
    CASE(ggml_rope_multi(c, a, b, d, 4, sections, GGML_ROPE_TYPE_VISION, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12), F32(4));
    CASE(ggml_rope_multi_inplace(c, a, b, NULL, 8, sections, GGML_ROPE_TYPE_IMROPE, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12));
    CASE(ggml_rope_ext_back(c, a, b, NULL, 8, GGML_ROPE_TYPE_NEOX, 4096, 10000.0f, 0.5f, 1.0f, 1.25f, 32.0f, 1.0f), F32(8, 4, 3), I32(3));
    CASE(ggml_rope_multi_back(c, a, b, NULL, 8, sections, GGML_ROPE_TYPE_MROPE, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12));
    CASE(ggml_rope_multi(c, a, b, d, 8, four, GGML_ROPE_TYPE_MROPE, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12), F32(4));
    CASE(ggml_rope_multi_back(c, a, b, d, 8, four, GGML_ROPE_TYPE_MROPE, 4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f), F32(8, 4, 3), I32(12), F32(4));
    CASE(ggml_rope_set_offset(ggml_rope(c, a, b, 4, GGML_ROPE_TYPE_NORMAL), 2), F32(10, 4, 3), I32(3));
}

static void convolutions(void) {
    static int64_t ne[4] = { 12, 10, 3, 2 };
    CASE(ggml_im2col(c, a, b, 1, 2, 0, 1, 1, 1, true, GGML_TYPE_F16), F16(3, 3, 3, 4), F32(12, 10, 3, 2));
    CASE(ggml_im2col(c, a, b, 2, 0, 1, 0, 1, 0, false, GGML_TYPE_F32), F16(3, 4, 5), F32(12, 4, 2));
    CASE(ggml_im2col_back(c, a, b, ne, 1, 1, 0, 0, 1, 1, true), F32(3, 3, 3, 4), F32(27, 10, 8, 2));
    CASE(ggml_im2col_back(c, a, b, ne, 1, 1, 1, 1, 1, 1, true), F32(3, 3, 3, 4), F32(27, 12, 10, 2));
    CASE(ggml_im2col_3d(c, a, b, 3, 1, 2, 1, 1, 2, 1, 1, 1, 1, GGML_TYPE_F32), F16(3, 3, 2, 12), F32(8, 7, 6, 3));
    CASE(ggml_im2col_3d(c, a, b, 3, 1, 1, 1, 0, 0, 0, 1, 1, 1, GGML_TYPE_F16), F16(3, 3, 2, 12), F32(8, 7, 6, 3));
    CASE(ggml_col2im_1d(c, a, 2, 3, 1), F32(12, 5));
    CASE(ggml_conv_1d(c, a, b, 1, 1, 1), F16(3, 4, 5), F32(12, 4));
    CASE(ggml_conv_1d(c, a, b, 2, 1, 1), F16(3, 4, 5), F32(12, 4, 3));
    CASE(ggml_conv_1d_ph(c, a, b, 2, 1), F16(3, 4, 5), F32(12, 4));
    CASE(ggml_conv_1d_dw(c, a, b, 1, 1, 1), F16(3, 1, 4), F32(12, 4));
    CASE(ggml_conv_1d_dw_ph(c, a, b, 1, 1), F16(3, 1, 4), F32(12, 4));
    CASE(ggml_conv_transpose_1d(c, a, b, 2, 0, 1), F16(3, 5, 4), F32(12, 4));
    CASE(ggml_conv_2d(c, a, b, 1, 2, 0, 1, 1, 1), F16(3, 3, 3, 4), F32(12, 10, 3, 2));
    CASE(ggml_conv_3d(c, a, b, 3, 1, 1, 1, 0, 0, 0, 1, 1, 1), F16(3, 3, 2, 12), F32(8, 7, 6, 3));
    CASE(ggml_conv_2d_sk_p0(c, a, b), F16(4, 4, 3, 5), F32(16, 16, 3));
    CASE(ggml_conv_2d_s1_ph(c, a, b), F16(3, 3, 3, 5), F32(16, 16, 3));
    CASE(ggml_conv_2d_dw(c, a, b, 1, 1, 1, 1, 1, 1), F16(3, 3, 1, 4), F32(12, 10, 4, 2));
    CASE(ggml_conv_2d_dw_direct(c, a, b, 1, 1, 1, 1, 1, 1), F32(3, 3, 1, 4), F32(12, 10, 4, 2));
    CASE(ggml_conv_2d_dw_direct(c, a, ggml_permute(c, b, 2, 0, 1, 3), 2, 1, 0, 1, 1, 2), F32(3, 3, 1, 12), F32(12, 10, 9, 2));
    CASE(ggml_conv_transpose_2d_p0(c, a, b, 2), F16(3, 3, 5, 4), F32(12, 10, 4));
    CASE(ggml_conv_2d_direct(c, a, b, 2, 1, 1, 0, 1, 2), F32(3, 3, 3, 4), F32(12, 10, 3, 2));
    CASE(ggml_conv_3d_direct(c, a, b, 1, 2, 1, 0, 1, 0, 1, 1, 1, 3, 2, 4), F16(3, 3, 2, 12), F32(8, 7, 6, 6));
    CASE(ggml_conv_3d_direct(c, a, b, 2, 1, 2, 1, 0, 1, 1, 2, 1, 3, 2, 4), F16(3, 3, 2, 12), F32(8, 7, 6, 6));
    CASE(ggml_pool_1d(c, a, GGML_OP_POOL_AVG, 3, 2, 1), F32(12, 5));
    CASE(ggml_pool_2d(c, a, GGML_OP_POOL_MAX, 3, 2, 2, 1, 1.0f, 0.0f), F32(12, 10, 3));
    CASE(ggml_pool_2d(c, a, GGML_OP_POOL_AVG, 3, 3, 2, 2, 1.0f, 1.0f), F32(12, 10, 3));
    CASE(ggml_pool_2d_back(c, a, b, GGML_OP_POOL_MAX, 3, 3, 2, 2, 1.0f, 1.0f), F32(6, 5, 3), F32(12, 10, 3));
    CASE(ggml_pool_2d_back(c, a, b, GGML_OP_POOL_AVG, 2, 2, 2, 2, 0.0f, 0.0f), F32(6, 5, 3), F32(12, 10, 3));
}

static void recurrent(void) {
    CASE(ggml_ssm_conv(c, a, b), F32(9, 6, 2), F32(4, 6));
    CASE(ggml_ssm_scan(c, a, b, d, e, f, g, h, 1), F32(16, 4, 2, 3), F32(4, 2, 5, 3), F32(2, 5, 3), F32(16, 2), F32(16, 1, 5, 3), F32(16, 1, 5, 3), I32(3));
    CASE(ggml_ssm_scan(c, a, b, d, e, f, g, h, 2), F32(16, 4, 2, 3), F32(4, 2, 5, 3), F32(2, 5, 3), F32(1, 2), F32(16, 1, 5, 3), F32(16, 1, 5, 3), I32(3));
    CASE(ggml_rwkv_wkv6(c, a, b, d, e, f, g), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2), F32(4, 2, 6), F32(32, 3));
    CASE(ggml_gated_linear_attn(c, a, b, d, e, f, 0.5f), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(32, 3));
    CASE(ggml_rwkv_wkv7(c, a, b, d, e, f, g, h), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(4, 2, 6), F32(32, 3));
    CASE(ggml_gated_delta_net(c, a, b, d, e, f, g, 1), F32(4, 2, 6, 3), F32(4, 2, 6, 3), F32(4, 4, 6, 3), F32(1, 4, 6, 3), F32(1, 4, 6, 3), F32(4, 4, 4, 3));
    CASE(ggml_gated_delta_net(c, a, b, d, e, f, g, 3), F32(4, 2, 6, 3), F32(4, 2, 6, 3), F32(4, 4, 6, 3), F32(4, 4, 6, 3), F32(1, 4, 6, 3), F32(4, 4, 4, 3));
    CASE(ggml_dsv4_hc_comb(c, a, b, d, 1e-5f, 20), F32(24, 5), F32(3), F32(24));
    CASE(ggml_dsv4_hc_pre(c, a, b), F32(8, 4, 5), F32(4, 5));
    CASE(ggml_dsv4_hc_pre_gated(c, a, b, 2.0f), F32(8, 4, 5), F32(8, 4, 5));
    CASE(ggml_dsv4_hc_post(c, a, b, d, e), F32(8, 5), F32(8, 4, 5), F32(4, 5), F32(4, 4, 5));
    CASE(ggml_dsv4_hc_post(c, a, b, d, NULL), F32(8, 5), F32(8, 4, 5), F32(4, 5));
    CASE((ggml_set_param(a), ggml_opt_step_adamw(c, a, b, d, e, f)), F32(6, 5), F32(6, 5), F32(6, 5), F32(6, 5), F32(7));
    CASE((ggml_set_param(a), ggml_opt_step_sgd(c, a, b, d)), F32(6, 5), F32(6, 5), F32(2));
}

static void one(struct ggml_tensor * dst, const struct ggml_tensor * x, int ith, int nth, void * user) {
    (void) dst; (void) x; (void) ith; (void) nth; (void) user;
}

static void two(struct ggml_tensor * dst, const struct ggml_tensor * x, const struct ggml_tensor * y, int ith, int nth, void * user) {
    (void) y;
    one(dst, x, ith, nth, user);
}

static void three(struct ggml_tensor * dst, const struct ggml_tensor * x, const struct ggml_tensor * y, const struct ggml_tensor * z, int ith, int nth, void * user) {
    (void) z;
    two(dst, x, y, ith, nth, user);
}

static void any(struct ggml_tensor * dst, int ith, int nth, void * user) {
    one(dst, NULL, ith, nth, user);
}

static void custom(void) {
    static int datum;
    CASE(ggml_map_custom1(c, a, one, GGML_N_TASKS_MAX, &datum), F32(6, 5));
    CASE(ggml_map_custom1_inplace(c, a, one, 2, NULL), F32(6, 5));
    CASE(ggml_map_custom2(c, a, b, two, 3, &datum), F32(6, 5), F32(6, 5));
    CASE(ggml_map_custom2_inplace(c, a, b, two, 1, NULL), F32(6, 5), F32(6, 5));
    CASE(ggml_map_custom3(c, a, b, d, three, 1, &datum), F32(6, 5), F32(6, 5), F32(2));
    CASE(ggml_map_custom3_inplace(c, a, b, d, three, 1, NULL), F32(6, 5), F32(6, 5), F32(2));
    CASE(ggml_custom_4d(c, GGML_TYPE_F16, 2, 3, 4, 5, in, 3, any, 2, &datum), F32(6, 5), F32(6, 5), F32(2));
    CASE(ggml_custom_inplace(c, a, in + 1, 2, any, 4, NULL), F32(6, 5), F32(6, 5), F32(2));
}

int main(void) {
    ggml_cpu_init(); /* the F16 tables that a few constructors rely on */
    const struct ggml_init_params params = { .mem_size = 4u << 20, .mem_buffer = NULL, .no_alloc = false };
    c = ggml_init(params);
    if (c == NULL) {
        return 1;
    }
    unary_constructors();
    binary_constructors();
    norms_and_scales();
    products();
    shapes_and_views();
    rotations();
    convolutions();
    recurrent();
    custom();
    ggml_set_no_alloc(c, true);
    printf("without memory for data: %d\n", ggml_get_no_alloc(c));
    CASE(ggml_add(c, a, ggml_view_1d(c, b, 4, 4)), F32(4, 3), F32(5));
    CASE(ggml_cpy(c, a, ggml_transpose(c, b)), F32(4, 3), F32(4, 3));
    CASE(ggml_view_1d(c, a, 4, (size_t) 5 << 30), F32(2048, 1048576));
    ggml_free(c);
    return 0;
}
