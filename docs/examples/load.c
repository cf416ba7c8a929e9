/* Loads the weights of a GGUF file into the memory of a device. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file to load: one number, one tensor. */
static void write_file(const char * path) {
    struct ggml_context * ctx  = ggml_init((struct ggml_init_params) { .mem_size = 1 << 16, .mem_buffer = NULL, .no_alloc = false });
    struct gguf_context * gguf = gguf_init_empty();
    struct ggml_tensor *  w    = ggml_set_name(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2), "w");
    for (int i = 0; i < 8; i++) {
        ggml_get_data_f32(w)[i] = (float) i;
    }
    gguf_set_val_u32(gguf, "answer", 42);
    gguf_add_tensor(gguf, w);
    if (!gguf_write_to_file(gguf, path, false)) {
        exit(1);
    }
    gguf_free(gguf);
    ggml_free(ctx);
}

int main(void) {
    const char * path = "weights.gguf";
    write_file(path);
    ggml_backend_t backend = ggml_backend_init_best();
    // ANCHOR: load
    struct ggml_context *   weights = NULL;
    struct gguf_init_params params  = { .no_alloc = true, .ctx = &weights }; // shapes now, data later
    struct gguf_context *   gguf    = gguf_init_from_file(path, params);
    if (gguf == NULL) {
        return 1; // the log says why
    }
    int64_t key = gguf_find_key(gguf, "answer");
    if (key < 0 || gguf_get_kv_type(gguf, key) != GGUF_TYPE_UINT32) {
        return 1; // check what you rely on: the file may be anything
    }
    printf("answer: %u\n", gguf_get_val_u32(gguf, key));

    // One buffer for all weights, in the memory of the device.
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(weights, backend);
    if (buffer == NULL) {
        return 1;
    }
    // The scheduler computes where the weights are.
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

    FILE * file = fopen(path, "rb");
    for (int64_t i = 0; file != NULL && i < gguf_get_n_tensors(gguf); i++) {
        struct ggml_tensor * t    = ggml_get_tensor(weights, gguf_get_tensor_name(gguf, i));
        size_t               size = ggml_nbytes(t);
        void *               data = malloc(size);
        long                 at   = (long) (gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, i));
        if (data == NULL || fseek(file, at, SEEK_SET) != 0 || fread(data, 1, size, file) != size) {
            return 1;
        }
        ggml_backend_tensor_set(t, data, 0, size); // never write to t->data: it may be another machine's
        free(data);
    }
    // ANCHOR_END: load
    float last;
    ggml_backend_tensor_get(ggml_get_tensor(weights, "w"), &last, 7 * sizeof last, sizeof last);
    if (file != NULL) {
        fclose(file);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    gguf_free(gguf);
    ggml_backend_free(backend);
    printf("last weight: %g\n", (double) last);
    return last != 7.0f;
}
