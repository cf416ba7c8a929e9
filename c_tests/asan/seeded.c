/* Bugs that sanitizers must find inside the library: seeded overflow | leak (AddressSanitizer), seeded race
 * (ThreadSanitizer). scripts/sanitizers.py runs this. */
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static ggml_fp16_t halves[4096];

static void * convert(void * from) {
    for (int i = 0; i < 1000; i++) { ggml_fp32_to_fp16_row(from, halves, 4096); }
    return NULL;
}

int main(int argc, char ** argv) {
    if (argc == 2 && strcmp(argv[1], "overflow") == 0) { /* the library writes four numbers too many */
        float *       x = calloc(64, sizeof *x);
        ggml_fp16_t * y = malloc(60 * sizeof *y);
        ggml_fp32_to_fp16_row(x, y, 64);
        free(x);
        free(y);
    } else if (argc == 2 && strcmp(argv[1], "leak") == 0) { /* a scheduler that is never freed */
        ggml_backend_t       b = ggml_backend_cpu_init();
        ggml_backend_sched_t s = ggml_backend_sched_new(&b, NULL, 1, 64, false, false);
        if (s == NULL) { return 2; }
        ggml_backend_free(b);
        s = NULL;
        b = NULL;
    } else if (argc == 2 && strcmp(argv[1], "race") == 0) { /* two threads let it write the same numbers */
        float *   x = calloc(4096, sizeof *x);
        pthread_t other;
        if (x == NULL || pthread_create(&other, NULL, convert, x) != 0) { return 2; }
        convert(x);
        pthread_join(other, NULL);
        free(x);
    }
    return 0;
}
