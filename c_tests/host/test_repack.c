/* Weights in the additional buffer types of the CPU device, found and used as llama.cpp does: it queries the device
 * about each operation with a tensor in an empty buffer of the type, then sets the weights with
 * ggml_backend_tensor_set. */
#include "../common/check.h"
#include "../common/system.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <math.h>

enum { K = 512, ROWS = 96, EXPERTS = 3 };

static const enum ggml_type formats[] = { GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0, GGML_TYPE_Q2_K,  GGML_TYPE_Q3_K,
                                          GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4 };

static float noise(unsigned * seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float) (*seed >> 8) / (1 << 23) - 1.0f;
}

static ggml_backend_dev_t cpu(void) {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

static ggml_backend_buffer_type_t * extra_types(void) {
    ggml_backend_dev_get_extra_bufts_t get =
        (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu()), "ggml_backend_dev_get_extra_bufts");
    return get != NULL ? get(cpu()) : NULL;
}

/* This library, which also gives the bytes back and computes the same bits. */
static bool is_ours(void) {
    return symbol((void *) (size_t) ggml_backend_buffer_get_type, "ggml_rs_get_abi") != NULL;
}

static struct ggml_context * context(void) {
    return ggml_init((struct ggml_init_params) { 64 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true });
}

/* Whether the device multiplies weights of this type in this buffer type. */
static bool is_supported(ggml_backend_buffer_type_t type, enum ggml_type format, bool experts) {
    struct ggml_context * c = context();
    struct ggml_tensor *  w = experts ? ggml_new_tensor_3d(c, format, K, ROWS, EXPERTS) : ggml_new_tensor_2d(c, format, K, ROWS);
    struct ggml_tensor *  op;
    if (experts) {
        struct ggml_tensor * ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, 2, 4);
        op                       = ggml_mul_mat_id(c, w, ggml_new_tensor_3d(c, GGML_TYPE_F32, K, 2, 4), ids);
    } else {
        op = ggml_mul_mat(c, w, ggml_new_tensor_2d(c, GGML_TYPE_F32, K, 4));
    }
    ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(type, 0);
    CHECK(empty != NULL);
    w->buffer         = empty;
    const bool result = ggml_backend_dev_supports_op(cpu(), op);
    if (result && !experts) { CHECK(!ggml_backend_dev_supports_op(cpu(), ggml_get_rows(c, w, ggml_new_tensor_1d(c, GGML_TYPE_I32, 2)))); }
    ggml_backend_buffer_free(empty);
    ggml_free(c);
    return result;
}

/* The product of the weights in `type` and `columns` columns; with experts, that many tokens. */
static float * product(ggml_backend_buffer_type_t type, enum ggml_type format, const void * data, size_t size, int columns, bool experts, void * back) {
    struct ggml_context * cw = context();
    struct ggml_context * c  = context();
    struct ggml_tensor *  w  = experts ? ggml_new_tensor_3d(cw, format, K, ROWS, EXPERTS) : ggml_new_tensor_2d(cw, format, K, ROWS);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(cw, type);
    CHECK(weights != NULL);
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(w, data, 0, size);
    if (back != NULL) { ggml_backend_tensor_get(w, back, 0, size); }

    struct ggml_tensor *x, *op, *ids = NULL;
    if (experts) {
        x   = ggml_new_tensor_3d(c, GGML_TYPE_F32, K, 2, columns);
        ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, 2, columns);
        op  = ggml_mul_mat_id(c, w, x, ids);
    } else {
        x  = ggml_new_tensor_2d(c, GGML_TYPE_F32, K, columns);
        op = ggml_mul_mat(c, w, x);
    }
    struct ggml_cgraph * graph = ggml_new_graph(c);
    ggml_set_input(x);
    ggml_set_output(op);
    ggml_build_forward_expand(graph, op);
    ggml_backend_t       backend = ggml_backend_dev_init(cpu(), NULL);
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));

    unsigned seed = 7;
    float *  in   = malloc(ggml_nbytes(x));
    for (int64_t i = 0; i < ggml_nelements(x); i++) { in[i] = noise(&seed); }
    ggml_backend_tensor_set(x, in, 0, ggml_nbytes(x));
    for (int i = 0; experts && i < 2 * columns; i++) {
        const int32_t id = (i * 5 + i / 3) % EXPERTS;
        ggml_backend_tensor_set(ids, &id, (size_t) i * sizeof id, sizeof id);
    }
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS);
    float * out = malloc(ggml_nbytes(op));
    ggml_backend_tensor_get(op, out, 0, ggml_nbytes(op));
    free(in);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_backend_buffer_free(weights);
    ggml_free(c);
    ggml_free(cw);
    return out;
}

static void compare(ggml_backend_buffer_type_t type, enum ggml_type format, bool experts) {
    const int64_t rows = experts ? ROWS * EXPERTS : ROWS;
    const size_t  size = (size_t) rows * ggml_row_size(format, K);
    float *       from = malloc((size_t) rows * K * sizeof *from);
    char *        data = malloc(size), *back = malloc(size);
    unsigned      seed = 11;
    for (int64_t i = 0; i < rows * K; i++) { from[i] = noise(&seed); }
    CHECK_EQ(ggml_quantize_chunk(format, from, data, 0, rows, K, NULL), size);
    static const int columns[] = { 1, 2, 3, 7, 40 };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const size_t n    = (size_t) columns[i] * ROWS * (experts ? 2 : 1);
        float *      want = product(ggml_backend_cpu_buffer_type(), format, data, size, columns[i], experts, NULL);
        float *      got  = product(type, format, data, size, columns[i], experts, is_ours() ? back : NULL);
        double       error = 0, norm = 0;
        for (size_t j = 0; j < n; j++) {
            error += pow((double) got[j] - want[j], 2);
            norm += pow(want[j], 2);
        }
        if (!(error <= 5e-4 * norm)) { test_fails(__FILE__, __LINE__, "%s, %d columns: error %g of %g", ggml_type_name(format), columns[i], error, norm); }
        if (is_ours()) {
            if (memcmp(want, got, n * sizeof *got) != 0) { test_fails(__FILE__, __LINE__, "%s, %d columns: other bits", ggml_type_name(format), columns[i]); }
            if (memcmp(data, back, size) != 0) { test_fails(__FILE__, __LINE__, "%s: other bytes come back", ggml_type_name(format)); }
        }
        free(want);
        free(got);
    }
    free(from);
    free(data);
    free(back);
}

static void weights_in_additional_buffer_types(void) {
    ggml_backend_buffer_type_t * types = extra_types();
    CHECK(types != NULL);
    int products = 0;
    for (; types != NULL && *types != NULL; types++) {
        CHECK(!ggml_backend_buft_is_host(*types));
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
            for (int experts = 0; experts < 2; experts++) {
                if (is_supported(*types, formats[i], experts != 0)) {
                    compare(*types, formats[i], experts != 0);
                    products++;
                }
            }
        }
    }
    printf("  %d products of formats\n", products);
    const char * level = getenv("GGML_RS_CPU_LEVEL");
    if (is_ours() && ggml_cpu_has_avx2() && (level == NULL || strcmp(level, "scalar") != 0)) {
        CHECK_EQ(products, 2 * (int) (sizeof formats / sizeof *formats));
    }
}

int main(void) {
    RUN(weights_in_additional_buffer_types);
    return test_summary();
}
