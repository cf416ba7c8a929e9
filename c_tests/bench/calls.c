/* Nanoseconds of exported calls that do next to nothing: the cost of the guard around each exported function
 * (src/guard/). The same program runs with the original.
 *
 *   calls [MILLIONS] */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>
#include <stdlib.h>

static double best(double (*run)(long), long n) {
    double least = 1e9;
    for (int i = 0; i < 7; i++) {
        const double t = run(n);
        if (t < least) { least = t; }
    }
    return least;
}

static struct ggml_tensor *    tensor;
static ggml_backend_buffer_t   buffer;
static volatile size_t         sink;

#define CALL(name, expression)                                   \
    static double name(long n) {                                 \
        const int64_t begun = ggml_time_us();                    \
        size_t        sum   = 0;                                 \
        for (long i = 0; i < n; i++) { sum += (size_t) (expression); } \
        sink = sum;                                              \
        return 1e3 * (double) (ggml_time_us() - begun) / (double) n; \
    }
CALL(of_type_size, ggml_type_size(GGML_TYPE_F32))
CALL(of_nelements, ggml_nelements(tensor))
CALL(of_nbytes, ggml_nbytes(tensor))
CALL(of_contiguous, ggml_is_contiguous(tensor))
CALL(of_buffer_size, ggml_backend_buffer_get_size(buffer))
static float number;
CALL(of_tensor_set, (ggml_backend_tensor_set(tensor, &number, 0, 4), 1))
CALL(of_tensor_get, (ggml_backend_tensor_get(tensor, &number, 0, 4), 1))

int main(int argc, char ** argv) {
    const long n = (argc > 1 ? atol(argv[1]) : 5) * 1000000;
    ggml_time_init();
    struct ggml_context * c       = ggml_init((struct ggml_init_params) { 1u << 14, NULL, true });
    ggml_backend_t        backend = ggml_backend_cpu_init();
    tensor                        = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 8);
    buffer                        = ggml_backend_alloc_ctx_tensors(c, backend);
    const struct { const char * name; double (*run)(long); } all[] = {
        { "ggml_type_size", of_type_size },   { "ggml_nelements", of_nelements }, { "ggml_nbytes", of_nbytes }, { "ggml_is_contiguous", of_contiguous },
        { "ggml_backend_buffer_get_size", of_buffer_size }, { "ggml_backend_tensor_set", of_tensor_set }, { "ggml_backend_tensor_get", of_tensor_get },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) { printf("%-30s %6.2f ns\n", all[i].name, best(all[i].run, n)); }
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(backend);
    ggml_free(c);
    return 0;
}
