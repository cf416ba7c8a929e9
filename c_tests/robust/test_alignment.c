/* Files that hosts write themselves: the library gives the bytes before the tensor data, and the host pads each tensor:
 * to 32 bytes, as llama-gguf-split and llama-quantize do, to `gguf_get_alignment`, or to `gguf_get_tensor_offset`. All
 * must read back. */
#include "../common/check.h"

#include "gguf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum pads { TO_32, TO_ALIGNMENT, TO_OFFSET, BY_LIBRARY, PADS };

static char source[64], target[64];

static struct ggml_context * ctx;
static struct ggml_tensor *  tensors[3];

static void make_tensors(void) {
    ctx = ggml_init((struct ggml_init_params) { 1u << 16, NULL, false });
    for (int i = 0; i < 3; i++) {
        tensors[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 5 + 2 * i);
        ggml_format_name(tensors[i], "tensor %d", i);
        for (int k = 0; k < 5 + 2 * i; k++) {
            ((float *) tensors[i]->data)[k] = (float) (100 * i + k + 1);
        }
    }
}

static void write_data(FILE * f, const struct gguf_context * g, long start, enum pads pads) {
    for (int i = 0; i < 3; i++) {
        const size_t n         = ggml_nbytes(tensors[i]);
        const size_t alignment = pads == TO_32 ? GGUF_DEFAULT_ALIGNMENT : gguf_get_alignment(g);
        if (pads == TO_OFFSET) {
            fseek(f, start + (long) gguf_get_tensor_offset(g, i), SEEK_SET);
        }
        fwrite(tensors[i]->data, 1, n, f);
        for (size_t k = n; k % alignment != 0; k++) {
            fputc(0, f);
        }
    }
}

static bool write_file(const struct gguf_context * g, enum pads pads) {
    if (pads == BY_LIBRARY) {
        return gguf_write_to_file(g, target, false);
    }
    const size_t size = gguf_get_meta_size(g);
    void *       meta = malloc(size);
    gguf_get_meta_data(g, meta);
    FILE * f = fopen(target, "wb");
    if (f == NULL) {
        free(meta);
        return false;
    }
    fwrite(meta, 1, size, f);
    free(meta);
    write_data(f, g, (long) size, pads);
    return fclose(f) == 0;
}

/* whether the file has the data of all tensors */
static bool reads_back(void) {
    struct ggml_context * read = NULL;
    struct gguf_context * g    = gguf_init_from_file(target, (struct gguf_init_params) { .no_alloc = false, .ctx = &read });
    bool                  same = g != NULL;
    for (int i = 0; i < 3 && same; i++) {
        const struct ggml_tensor * t = ggml_get_tensor(read, tensors[i]->name);
        same                         = t != NULL && memcmp(t->data, tensors[i]->data, ggml_nbytes(t)) == 0;
    }
    gguf_free(g);
    ggml_free(read);
    return same;
}

static void add_tensors(struct gguf_context * g) {
    for (int i = 0; i < 3; i++) {
        gguf_add_tensor(g, tensors[i]);
    }
}

/* A file with an alignment that the library does not write, by hand. */
static void write_source(uint32_t alignment) {
    FILE *         f       = fopen(source, "wb");
    const uint64_t counts[] = { 0, 1 };
    const uint32_t head[]   = { 3 }, type = GGUF_TYPE_UINT32;
    const char *   key      = "general.alignment";
    const uint64_t length   = strlen(key);
    CHECK(f != NULL);
    if (f == NULL) { return; }
    fwrite("GGUF", 1, 4, f);
    fwrite(head, 4, 1, f);
    fwrite(counts, 8, 2, f);
    fwrite(&length, 8, 1, f);
    fwrite(key, 1, length, f);
    fwrite(&type, 4, 1, f);
    fwrite(&alignment, 4, 1, f);
    fclose(f);
}

static void alignments_that_the_host_sets(void) {
    for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2) {
        for (int pads = 0; pads < PADS; pads++) {
            if (alignment > GGUF_DEFAULT_ALIGNMENT && pads == TO_32) {
                continue; /* not what it has set */
            }
            struct gguf_context * g = gguf_init_empty();
            gguf_set_val_u32(g, "general.alignment", alignment);
            add_tensors(g);
            if (!write_file(g, pads) || !reads_back()) { test_fails(__FILE__, __LINE__, "alignment %u, padding %d", alignment, pads); }
            gguf_free(g);
        }
    }
}

static void alignments_that_the_host_copies(void) {
    for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2) {
        write_source(alignment);
        struct gguf_context * from = gguf_init_from_file(source, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL });
        CHECK(from != NULL && gguf_get_alignment(from) == alignment);
        for (int pads = 0; pads < PADS && from != NULL; pads++) {
            struct gguf_context * g = gguf_init_empty();
            gguf_set_kv(g, from);
            add_tensors(g);
            CHECK(gguf_get_alignment(g) == GGUF_DEFAULT_ALIGNMENT && gguf_find_key(g, "general.alignment") >= 0);
            if (!write_file(g, pads) || !reads_back()) { test_fails(__FILE__, __LINE__, "alignment %u, padding %d", alignment, pads); }
            gguf_free(g);
        }
        gguf_free(from);
    }
}

int main(void) {
    snprintf(source, sizeof source, "/tmp/ggml-alignment-%d-source.gguf", (int) getpid());
    snprintf(target, sizeof target, "/tmp/ggml-alignment-%d-target.gguf", (int) getpid());
    make_tensors();
    RUN(alignments_that_the_host_sets);
    RUN(alignments_that_the_host_copies);
    ggml_free(ctx);
    remove(source);
    remove(target);
    return test_summary();
}
