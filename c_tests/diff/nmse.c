/* Measures the error of matrix products and of attention, for every format of weights and of caches, against double
 * precision. nmse.py runs it with several libraries and compares.
 *
 *     nmse make FOLDER PART PARTS    writes a file for one in PARTS of the cases: the quantized numbers, and the
 *                                    results in double precision
 *     nmse run FOLDER [-c] [CASE ...]   computes the cases (default: all) with the library that it finds, and prints a
 *                                       line for each measurement
 *
 * The files make both libraries multiply the same bytes. The results are those of the dequantized weights and the
 * unquantized activations. NMSE is the sum of the squared errors over the sum of the squared results. -c rounds the
 * activations to six bits first: an error that nmse.py must detect. Everything is computed on one thread. */
#include "nmse_cases.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dlfcn.h>
#include <stdbool.h>

static const int columns_at_once[] = { 1, 4, COLUMNS };
static const int queries_at_once[] = { 1, QUERIES };

static bool coarse;

/* Makes activations coarse, for a library that must fail. */
static void blur(float * x, size_t n) {
    for (size_t i = 0; coarse && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits + 0x20000u) & ~0x3FFFFu;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

struct error {
    double wrong, whole;
};

static void add_error(struct error * e, const float * got, const double * want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double d = (double) got[i] - want[i];
        e->wrong += d * d;
        e->whole += want[i] * want[i];
    }
}

static struct ggml_context * context(void) {
    return ggml_init((struct ggml_init_params) { 16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true });
}

/* Whether the backend multiplies these weights in this type of buffer. Makes the same query as llama.cpp. */
static bool has_product(ggml_backend_t backend, enum ggml_type type, ggml_backend_buffer_type_t where) {
    struct ggml_context * c   = context();
    struct ggml_tensor *  w   = ggml_new_tensor_2d(c, type, K, ROWS);
    struct ggml_tensor *  dst = ggml_mul_mat(c, w, ggml_new_tensor_2d(c, GGML_TYPE_F32, K, COLUMNS));
    w->buffer                 = ggml_backend_buft_alloc_buffer(where, 0);
    const bool result         = ggml_backend_supports_op(backend, dst);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(c);
    return result;
}

static void measure_product(ggml_backend_t backend, ggml_backend_buffer_type_t where, enum ggml_type type, const char * data, const double * want,
                            const float * x) {
    struct ggml_context * cw      = context();
    struct ggml_tensor *  w       = ggml_new_tensor_2d(cw, type, K, ROWS);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(cw, where);
    float *               got     = room((size_t) COLUMNS * ROWS * sizeof *got);
    if (weights == NULL) { die("no buffer", ggml_backend_buft_name(where)); }
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(w, data, 0, ggml_nbytes(w));
    for (size_t i = 0; i < sizeof columns_at_once / sizeof *columns_at_once; i++) {
        const int             n      = columns_at_once[i];
        struct ggml_context * c      = context();
        struct ggml_tensor *  b      = ggml_new_tensor_2d(c, GGML_TYPE_F32, K, n);
        struct ggml_tensor *  dst    = ggml_mul_mat(c, w, b);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, backend);
        struct ggml_cgraph *  graph  = ggml_new_graph(c);
        struct error          e      = { 0, 0 };
        if (buffer == NULL) { die("no buffer", "columns"); }
        ggml_build_forward_expand(graph, dst);
        for (int first = 0; first < COLUMNS; first += n) {
            ggml_backend_tensor_set(b, x + first * K, 0, ggml_nbytes(b));
            if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) { die("not computed", ggml_type_name(type)); }
            ggml_backend_tensor_get(dst, got, 0, ggml_nbytes(dst));
            add_error(&e, got, want + first * ROWS, (size_t) n * ROWS);
        }
        printf("product\t%s\t%s\t%d\t%.9e\n", ggml_type_name(type), ggml_backend_buft_name(where), n, e.wrong / e.whole);
        ggml_backend_buffer_free(buffer);
        ggml_free(c);
    }
    free(got);
    ggml_backend_buffer_free(weights);
    ggml_free(cw);
}

static void run_product(ggml_backend_t backend, const struct test_case * t, const char * data, const double * want, const float * x) {
    ggml_backend_dev_t                 cpu   = ggml_backend_get_device(backend);
    ggml_backend_dev_get_extra_bufts_t get   = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *       extra = get != NULL ? get(cpu) : NULL;
    ggml_backend_buffer_type_t         plain = ggml_backend_get_default_buffer_type(backend);
    if (has_product(backend, t->type, plain)) { measure_product(backend, plain, t->type, data, want, x); }
    for (; extra != NULL && *extra != NULL; extra++) {
        if (has_product(backend, t->type, *extra)) { measure_product(backend, *extra, t->type, data, want, x); }
    }
}

static void run_attention(ggml_backend_t backend, const struct test_case * t, const char * data, const double * want) {
    const int size = t->head;
    float *   q    = make_queries(size);
    float *   got  = room(results_of(t) * sizeof *got);
    blur(q, (size_t) QUERIES * HEADS * (size_t) size);
    for (size_t i = 0; i < sizeof queries_at_once / sizeof *queries_at_once; i++) {
        const int             n    = queries_at_once[i];
        struct ggml_context * c    = context();
        struct ggml_tensor *  tq   = ggml_new_tensor_3d(c, GGML_TYPE_F32, size, n, HEADS);
        struct ggml_tensor *  tk   = ggml_new_tensor_3d(c, t->type, size, KEYS, KV_HEADS);
        struct ggml_tensor *  tv   = ggml_new_tensor_3d(c, t->type, size, KEYS, KV_HEADS);
        struct ggml_tensor *  mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, KEYS, n);
        struct ggml_tensor *  dst  = ggml_flash_attn_ext(c, tq, tk, tv, mask, 1.0f / sqrtf((float) size), 0.0f, 0.0f);
        struct error          e    = { 0, 0 };
        ggml_prec_set_acc(dst, GGML_PREC_F32); /* as llama.cpp does */
        if (!ggml_backend_supports_op(backend, dst)) {
            ggml_free(c);
            break;
        }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, backend);
        if (buffer == NULL) { die("no buffer", t->name); }
        ggml_backend_tensor_set(tk, data, 0, ggml_nbytes(tk));
        ggml_backend_tensor_set(tv, data + ggml_nbytes(tk), 0, ggml_nbytes(tv));
        struct ggml_cgraph * graph = ggml_new_graph(c);
        ggml_build_forward_expand(graph, dst);
        for (int first = 0; first < QUERIES; first += n) {
            for (int h = 0; h < HEADS; h++) {
                const size_t part = (size_t) n * (size_t) size * sizeof(float);
                ggml_backend_tensor_set(tq, q + (h * QUERIES + first) * size, (size_t) h * part, part);
            }
            for (int j = 0; j < n; j++) {
                ggml_fp16_t row[KEYS];
                for (int key = 0; key < KEYS; key++) { row[key] = ggml_fp32_to_fp16(key < keys_of(first + j) ? 0.0f : -INFINITY); }
                ggml_backend_tensor_set(mask, row, (size_t) j * sizeof row, sizeof row);
            }
            if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) { die("not computed", t->name); }
            ggml_backend_tensor_get(dst, got, 0, ggml_nbytes(dst));
            add_error(&e, got, want + first * HEADS * size, (size_t) n * HEADS * (size_t) size);
        }
        printf("attention\t%s\t%d\t%d\t%.9e\n", ggml_type_name(t->type), size, n, e.wrong / e.whole);
        ggml_backend_buffer_free(buffer);
        ggml_free(c);
    }
    free(got);
    free(q);
}

static void run_case(ggml_backend_t backend, const char * folder, const struct test_case * t, const float * activations) {
    const size_t bytes = bytes_of(t), results = results_of(t);
    char *       data = room(bytes);
    double *     want = room(results * sizeof *want);
    FILE *       f    = open_case(folder, t, "rb");
    if (fread(data, 1, bytes, f) != bytes || fread(want, sizeof *want, results, f) != results || fgetc(f) != EOF) { die("not of this program", t->name); }
    fclose(f);
    if (t->head > 0) {
        run_attention(backend, t, data, want);
    } else {
        run_product(backend, t, data, want, activations);
    }
    fflush(stdout);
    free(data);
    free(want);
}

/* Prints the name of the library, and its features of the processor. */
static void introduce(ggml_backend_t backend) {
    ggml_backend_reg_t         reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    ggml_backend_get_features_t get = (ggml_backend_get_features_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
    printf("library\t%s\n", dlsym(RTLD_DEFAULT, "ggml_rs_get_abi") != NULL ? "ours" : "original");
    printf("features\t");
    for (struct ggml_backend_feature * f = get != NULL ? get(reg) : NULL; f != NULL && f->name != NULL; f++) { printf("%s ", f->name); }
    printf("\n");
}

static bool is_named(const struct test_case * t, int n, char ** names) {
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], t->name) == 0) { return true; }
    }
    return n == 0;
}

int main(int argc, char ** argv) {
    const bool make = argc == 5 && strcmp(argv[1], "make") == 0;
    if (!make && (argc < 3 || strcmp(argv[1], "run") != 0)) {
        fprintf(stderr, "usage: nmse make FOLDER PART PARTS | nmse run FOLDER [-c] [CASE ...]\n");
        return 2;
    }
    ggml_cpu_init();
    list_cases();
    float * activations = make_activations();
    if (make) {
        const int part = atoi(argv[3]), parts = atoi(argv[4]);
        for (int i = part; i < n_cases && parts > 0; i += parts) { make_case(argv[2], &cases[i], activations); }
        ggml_quantize_free();
    } else {
        coarse = argc > 3 && strcmp(argv[3], "-c") == 0;
        blur(activations, (size_t) COLUMNS * K);
        ggml_backend_t backend = ggml_backend_cpu_init();
        if (backend == NULL) { die("no backend", "CPU"); }
        ggml_backend_cpu_set_n_threads(backend, 1);
        introduce(backend);
        for (int i = 0; i < n_cases; i++) {
            if (is_named(&cases[i], argc - 3 - coarse, argv + 3 + coarse)) { run_case(backend, argv[2], &cases[i], activations); }
        }
        ggml_backend_free(backend);
    }
    free(activations);
    return 0;
}
