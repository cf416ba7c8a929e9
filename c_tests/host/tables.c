/* Everything that the library only looks up: names, sizes and traits of number formats and ops, shape predicates, small
 * conversions. One fact a line. */
#include "../common/data.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "gguf.h"

#include <stdio.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const char * text(const char * s) {
    return s == NULL ? "NULL" : s;
}

static void formats(void) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const enum ggml_type t = (enum ggml_type) i;
        const struct ggml_type_traits * traits = ggml_get_type_traits(t);
        printf("type %d: %s block %lld of %zu bytes, quantized %d, sizef %.6f, row of 512: %zu", i, text(ggml_type_name(t)), (long long) ggml_blck_size(t), ggml_type_size(t),
               ggml_is_quantized(t), ggml_blck_size(t) > 0 ? ggml_type_sizef(t) : 0.0, ggml_blck_size(t) > 0 ? ggml_row_size(t, 512) : 0);
        printf("; traits %s %lld %lld %zu %d%s%s", text(traits->type_name), (long long) traits->blck_size, (long long) traits->blck_size_interleave, traits->type_size,
               traits->is_quantized, traits->to_float != NULL ? " to_float" : "", traits->from_float_ref != NULL ? " from_float_ref" : "");
        const struct ggml_type_traits_cpu * cpu = ggml_get_type_traits_cpu(t);
        printf("; cpu%s%s %d; imatrix %d\n", cpu->from_float != NULL ? " from_float" : "", cpu->vec_dot != NULL ? " vec_dot" : "", cpu->vec_dot != NULL ? (int) cpu->vec_dot_type : -1,
               ggml_quantize_requires_imatrix(t));
    }
    for (int i = -1; i < 30; i++) {
        if (i != 4 && i != 5 && i != 6 && i != -1 && i < 29) {
            printf("ftype %d: %d\n", i, (int) ggml_ftype_to_ggml_type((enum ggml_ftype) i));
        }
    }
}

static void names(void) {
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        printf("op %d: %s %s\n", i, text(ggml_op_name((enum ggml_op) i)), text(ggml_op_symbol((enum ggml_op) i)));
    }
    for (int i = 0; i < GGML_UNARY_OP_COUNT; i++) {
        printf("unary %d: %s\n", i, text(ggml_unary_op_name((enum ggml_unary_op) i)));
    }
    for (int i = 0; i < GGML_GLU_OP_COUNT; i++) {
        printf("glu %d: %s\n", i, text(ggml_glu_op_name((enum ggml_glu_op) i)));
    }
    for (int i = -3; i < 3; i++) {
        printf("status %d: %s\n", i, text(ggml_status_to_string((enum ggml_status) i)));
    }
    for (int i = 0; i <= GGUF_TYPE_COUNT; i++) {
        printf("gguf type %d: %s\n", i, text(gguf_type_name((enum gguf_type) i)));
    }
    for (int i = 0; i < 2; i++) {
        printf("optimizer %d: %s\n", i, text(ggml_opt_optimizer_name((enum ggml_opt_optimizer_type) i)));
    }
    static const int axes[] = { 0, 1, 2, 3, 10, 11, 98, 99 };
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        printf("split axis %d: %s\n", axes[i], text(ggml_backend_meta_split_axis_name((enum ggml_backend_meta_split_axis) axes[i])));
    }
    printf("version: %s\n", ggml_version());
}

static void predicates(const char * label, const struct ggml_tensor * t, const struct ggml_tensor * like) {
    printf("%s: n %lld rows %lld bytes %zu padded %zu element %zu dims %d | transposed %d permuted %d empty %d view %d scalar %d vector %d matrix %d 3d %d", label,
           (long long) ggml_nelements(t), (long long) ggml_nrows(t), ggml_nbytes(t), ggml_nbytes_pad(t), ggml_element_size(t), ggml_n_dims(t), ggml_is_transposed(t),
           ggml_is_permuted(t), ggml_is_empty(t), ggml_is_view(t), ggml_is_scalar(t), ggml_is_vector(t), ggml_is_matrix(t), ggml_is_3d(t));
    printf(" | contiguous %d %d %d %d to %d %d %d allocated %d channels %d rows %d | like the first: shape %d stride %d repeat %d %d\n", ggml_is_contiguous(t), ggml_is_contiguous_0(t),
           ggml_is_contiguous_1(t), ggml_is_contiguous_2(t), ggml_is_contiguous_to_1(t), ggml_is_contiguous_to_2(t), ggml_is_contiguous_to_3(t), ggml_is_contiguously_allocated(t),
           ggml_is_contiguous_channels(t), ggml_is_contiguous_rows(t), ggml_are_same_shape(like, t), ggml_are_same_stride(like, t), ggml_can_repeat(like, t), ggml_can_repeat(t, like));
}

static void shapes(void) {
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * c = ggml_init(params);
    static const struct { enum ggml_type type; int64_t ne[4]; } list[] = {
        { GGML_TYPE_F32, { 6, 5, 4, 3 } }, { GGML_TYPE_F16, { 6, 5, 1, 1 } }, { GGML_TYPE_F32, { 1, 1, 1, 1 } }, { GGML_TYPE_F32, { 7, 1, 1, 1 } }, { GGML_TYPE_F32, { 1, 5, 1, 3 } },
        { GGML_TYPE_Q4_0, { 64, 5, 2, 1 } }, { GGML_TYPE_Q6_K, { 256, 1, 2, 1 } }, { GGML_TYPE_F32, { 6, 0, 2, 1 } }, { GGML_TYPE_I8, { 5, 3, 2, 1 } },
    };
    struct ggml_tensor * first = NULL;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct ggml_tensor * t = ggml_new_tensor(c, list[i].type, 4, list[i].ne);
        first = first == NULL ? t : first;
        char label[64];
        snprintf(label, sizeof label, "shape %zu", i);
        predicates(label, t, first);
        static const int axes[][4] = { { 1, 0, 2, 3 }, { 0, 2, 1, 3 }, { 2, 0, 1, 3 }, { 3, 2, 1, 0 }, { 1, 2, 0, 3 }, { 0, 1, 3, 2 } };
        for (size_t k = 0; k < sizeof axes / sizeof *axes; k++) {
            snprintf(label, sizeof label, "shape %zu permuted %d%d%d%d", i, axes[k][0], axes[k][1], axes[k][2], axes[k][3]);
            predicates(label, ggml_permute(c, t, axes[k][0], axes[k][1], axes[k][2], axes[k][3]), first);
        }
        if (t->ne[1] > 2 && ggml_blck_size(t->type) == 1) {
            snprintf(label, sizeof label, "shape %zu rows 1 to 2", i);
            predicates(label, ggml_view_2d(c, t, t->ne[0], 2, t->nb[1], t->nb[1]), first);
            snprintf(label, sizeof label, "shape %zu every second row", i);
            predicates(label, ggml_view_2d(c, t, t->ne[0], 2, 2 * t->nb[1], 0), first);
            snprintf(label, sizeof label, "shape %zu a column", i);
            predicates(label, ggml_view_2d(c, t, 1, t->ne[1], t->nb[1], t->nb[0]), first);
        }
    }
    for (int64_t i = 0; i < 360; i += 37) {
        int64_t at[4];
        ggml_unravel_index(first, i, &at[0], &at[1], &at[2], &at[3]);
        printf("unravel %lld: %lld %lld %lld %lld\n", (long long) i, (long long) at[0], (long long) at[1], (long long) at[2], (long long) at[3]);
    }
    printf("max tensor size: %zu\n", ggml_get_max_tensor_size(c));
    ggml_free(c);
}

static void conversions(void) {
    uint64_t half = DATA_HASH0, to = DATA_HASH0, brain = DATA_HASH0, state = 1;
    for (int i = 0; i < 65536; i++) {
        const float a = ggml_fp16_to_fp32((ggml_fp16_t) i);
        const ggml_bf16_t bits = { (uint16_t) i };
        const float b = ggml_bf16_to_fp32(bits);
        half  = a == a ? data_hash(&a, 4, half) : half;
        brain = b == b ? data_hash(&b, 4, brain) : brain;
    }
    printf("fp16_to_fp32: %016llx\nbf16_to_fp32: %016llx\n", (unsigned long long) half, (unsigned long long) brain);
    half = brain = DATA_HASH0;
    for (int i = 0; i < 1 << 20; i++) {
        const uint32_t bits = (uint32_t) data_next(&state);
        float x;
        memcpy(&x, &bits, 4);
        if (x != x) { continue; }
        const ggml_fp16_t h = ggml_fp32_to_fp16(x);
        const ggml_bf16_t b = ggml_fp32_to_bf16(x);
        half  = data_hash(&h, 2, half);
        brain = data_hash(&b, 2, brain);
    }
    printf("fp32_to_fp16: %016llx\nfp32_to_bf16: %016llx\n", (unsigned long long) half, (unsigned long long) brain);
    static float       x[1003], y[1003];
    static ggml_fp16_t h[1003];
    static ggml_bf16_t b[1003], r[1003];
    for (int i = 0; i < 1003; i++) { x[i] = data_float(&state, -100.0f, 100.0f); }
    ggml_fp32_to_fp16_row(x, h, 1003);
    printf("fp32_to_fp16_row: %016llx\n", (unsigned long long) data_hash(h, sizeof h, DATA_HASH0));
    ggml_fp16_to_fp32_row(h, y, 1003);
    printf("fp16_to_fp32_row: %016llx\n", (unsigned long long) data_hash(y, sizeof y, DATA_HASH0));
    ggml_fp32_to_bf16_row(x, b, 1003);
    ggml_fp32_to_bf16_row_ref(x, r, 1003);
    printf("fp32_to_bf16_row: %016llx, same as the reference %d\n", (unsigned long long) data_hash(b, sizeof b, DATA_HASH0), memcmp(b, r, sizeof b) == 0);
    ggml_bf16_to_fp32_row(b, y, 1003);
    printf("bf16_to_fp32_row: %016llx\n", (unsigned long long) data_hash(y, sizeof y, DATA_HASH0));
    ggml_cpu_fp32_to_fp16(x, h, 1003);
    printf("cpu_fp32_to_fp16: %016llx\n", (unsigned long long) data_hash(h, sizeof h, DATA_HASH0));
    ggml_cpu_fp16_to_fp32(h, y, 1003);
    printf("cpu_fp16_to_fp32: %016llx\n", (unsigned long long) data_hash(y, sizeof y, DATA_HASH0));
    ggml_cpu_fp32_to_bf16(x, b, 1003);
    printf("cpu_fp32_to_bf16: %016llx\n", (unsigned long long) data_hash(b, sizeof b, DATA_HASH0));
    ggml_cpu_bf16_to_fp32(b, y, 1003);
    printf("cpu_bf16_to_fp32: %016llx\n", (unsigned long long) data_hash(y, sizeof y, DATA_HASH0));
    static int32_t whole[1003];
    ggml_cpu_fp32_to_i32(x, whole, 1003);
    printf("cpu_fp32_to_i32: %016llx\n", (unsigned long long) data_hash(whole, sizeof whole, DATA_HASH0));
    ggml_cpu_fp32_to_fp32(x, y, 1003);
    printf("cpu_fp32_to_fp32: %d\n", memcmp(x, y, sizeof x) == 0);
    to = DATA_HASH0;
    for (int i = 0; i < 4; i++) {
        float dims[2];
        ggml_rope_yarn_corr_dims(128 >> i, 4096, 10000.0f, 32.0f, 1.0f, dims);
        printf("yarn_corr_dims of %d: %.5f %.5f\n", 128 >> i, (double) dims[0], (double) dims[1]);
        to = data_hash(dims, 0, to);
    }
    ggml_guid one = { 1, 2, 3 }, two = { 1, 2, 4 };
    printf("guid: %d %d\n", ggml_guid_matches(&one, &one), ggml_guid_matches(&one, &two));
    struct ggml_threadpool_params p = ggml_threadpool_params_default(3), q;
    ggml_threadpool_params_init(&q, 3);
    printf("threadpool params: %d threads, prio %d, poll %u, strict %d, paused %d, same %d", p.n_threads, (int) p.prio, p.poll, p.strict_cpu, p.paused, ggml_threadpool_params_match(&p, &q));
    q.poll = 7;
    printf(", other poll %d", ggml_threadpool_params_match(&p, &q));
    q = p;
    q.cpumask[5] = true;
    printf(", other mask %d", ggml_threadpool_params_match(&p, &q));
    q = p;
    q.n_threads = 4;
    printf(", other number %d\n", ggml_threadpool_params_match(&p, &q));
}

static void rows(void) {
    /* ggml_validate_row_data: good blocks, and blocks with a scale that is infinite or not a number */
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const enum ggml_type t = (enum ggml_type) i;
        if (ggml_blck_size(t) <= 0 || ggml_type_size(t) == 0) { continue; }
        static uint8_t data[8192];
        const size_t   n = ggml_type_size(t) * (ggml_blck_size(t) == 1 ? 64 : 2);
        memset(data, 0, sizeof data);
        data_blocks(t, data, n, 3);
        if (!ggml_is_quantized(t)) { memset(data, 0, sizeof data); }
        printf("validate %s: %d", ggml_type_name(t), ggml_validate_row_data(t, data, n));
        printf(" short by a byte %d", ggml_validate_row_data(t, data, n - 1));
        int found = 0;
        for (size_t at = 0; at + 2 <= ggml_type_size(t) && ggml_is_quantized(t); at++) {
            uint8_t keep[2];
            memcpy(keep, data + at, 2);
            memcpy(data + at, "\0\x7c", 2); /* an infinite half */
            if (!ggml_validate_row_data(t, data, n)) { found++; printf(" bad at %zu", at); }
            memcpy(data + at, keep, 2);
        }
        printf(" (%d)\n", found);
    }
}

int main(void) {
    ggml_cpu_init();
    formats();
    names();
    shapes();
    conversions();
    ggml_log_set(NULL, NULL);
    rows();
    return 0;
}
