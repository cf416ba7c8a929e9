/* GGUF: files made with every setter, read back with every getter, printed; the bytes of the files as hashes. The text
 * must be the same for every library with the version of ggml 0.28.0. */
#include "../common/data.h"

#include "ggml-backend.h"
#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void show_value(const struct gguf_context * g, int64_t i) {
    const enum gguf_type t = gguf_get_kv_type(g, i);
    printf("  %s: %s", gguf_get_key(g, i), gguf_type_name(t));
    switch ((int) t) {
        case GGUF_TYPE_UINT8:   printf(" %u", gguf_get_val_u8(g, i)); break;
        case GGUF_TYPE_INT8:    printf(" %d", gguf_get_val_i8(g, i)); break;
        case GGUF_TYPE_UINT16:  printf(" %u", gguf_get_val_u16(g, i)); break;
        case GGUF_TYPE_INT16:   printf(" %d", gguf_get_val_i16(g, i)); break;
        case GGUF_TYPE_UINT32:  printf(" %u", gguf_get_val_u32(g, i)); break;
        case GGUF_TYPE_INT32:   printf(" %d", gguf_get_val_i32(g, i)); break;
        case GGUF_TYPE_FLOAT32: printf(" %g", (double) gguf_get_val_f32(g, i)); break;
        case GGUF_TYPE_UINT64:  printf(" %llu", (unsigned long long) gguf_get_val_u64(g, i)); break;
        case GGUF_TYPE_INT64:   printf(" %lld", (long long) gguf_get_val_i64(g, i)); break;
        case GGUF_TYPE_FLOAT64: printf(" %g", gguf_get_val_f64(g, i)); break;
        case GGUF_TYPE_BOOL:    printf(" %d", gguf_get_val_bool(g, i)); break;
        case GGUF_TYPE_STRING:  printf(" '%s'", gguf_get_val_str(g, i)); break;
        case GGUF_TYPE_ARRAY: {
            const enum gguf_type e = gguf_get_arr_type(g, i);
            const size_t         n = gguf_get_arr_n(g, i);
            printf(" of %zu %s", n, gguf_type_name(e));
            if (e == GGUF_TYPE_STRING) {
                for (size_t k = 0; k < n; k++) { printf(" '%s'", gguf_get_arr_str(g, i, k)); }
            } else {
                static const size_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
                printf(" %016llx", (unsigned long long) data_hash(gguf_get_arr_data(g, i), n * size[e], DATA_HASH0));
            }
            break;
        }
        default: printf(" ?");
    }
    if (t != GGUF_TYPE_ARRAY && t != GGUF_TYPE_STRING) {
        static const size_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
        printf(" %016llx", (unsigned long long) data_hash(gguf_get_val_data(g, i), size[t], DATA_HASH0));
    }
    printf("\n");
}

static void show(const char * label, const struct gguf_context * g, const struct ggml_context * c) {
    if (g == NULL) {
        printf("%s: refused\n", label);
        return;
    }
    printf("%s: version %u alignment %zu data at %zu meta %zu, %lld values, %lld tensors\n", label, gguf_get_version(g), gguf_get_alignment(g), gguf_get_data_offset(g), gguf_get_meta_size(g),
           (long long) gguf_get_n_kv(g), (long long) gguf_get_n_tensors(g));
    for (int64_t i = 0; i < gguf_get_n_kv(g); i++) {
        show_value(g, i);
        if (gguf_find_key(g, gguf_get_key(g, i)) != i) { printf("  is not found\n"); }
    }
    for (int64_t i = 0; i < gguf_get_n_tensors(g); i++) {
        const int64_t * ne = gguf_get_tensor_ne(g, i);
        printf("  tensor %s %s %lld,%lld,%lld,%lld at %zu size %zu\n", gguf_get_tensor_name(g, i), ggml_type_name(gguf_get_tensor_type(g, i)), (long long) ne[0], (long long) ne[1], (long long) ne[2],
               (long long) ne[3], gguf_get_tensor_offset(g, i), gguf_get_tensor_size(g, i));
        if (gguf_find_tensor(g, gguf_get_tensor_name(g, i)) != i) { printf("  is not found\n"); }
    }
    printf("  nobody: key %lld tensor %lld\n", (long long) gguf_find_key(g, "nobody"), (long long) gguf_find_tensor(g, "nobody"));
    for (struct ggml_tensor * t = c == NULL ? NULL : ggml_get_first_tensor(c); t != NULL; t = ggml_get_next_tensor(c, t)) {
        printf("  in the context: '%s' %s %lld,%lld,%lld,%lld nb %zu,%zu,%zu,%zu", t->name, ggml_type_name(t->type), (long long) t->ne[0], (long long) t->ne[1], (long long) t->ne[2], (long long) t->ne[3],
               t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
        if (t->data == NULL) { printf(" no data\n"); }
        else { printf(" data %016llx%s\n", (unsigned long long) data_hash(t->data, ggml_nbytes(t), DATA_HASH0), t->view_src != NULL ? " view" : ""); }
    }
    if (c != NULL) { printf("  context: used %zu of %zu, no_alloc %d\n", ggml_used_mem(c), ggml_get_mem_size(c), ggml_get_no_alloc((struct ggml_context *) (uintptr_t) c)); }
}

static char path[64];

static unsigned char bytes[1 << 20];
static size_t        n_bytes;

static void slurp(const char * label) {
    FILE * f = fopen(path, "rb");
    n_bytes  = f == NULL ? 0 : fread(bytes, 1, sizeof bytes, f);
    if (f != NULL) { fclose(f); }
    printf("%s: %zu bytes %016llx\n", label, n_bytes, (unsigned long long) data_hash(bytes, n_bytes, DATA_HASH0));
}

static size_t from_memory(void * user, void * out, uint64_t offset, size_t len) {
    int * calls = user;
    (*calls)++;
    if (offset >= n_bytes) { return 0; }
    const size_t n = len < n_bytes - offset ? len : n_bytes - offset;
    memcpy(out, bytes + offset, n);
    return n;
}

static void fill(struct gguf_context * g) {
    gguf_set_val_u8(g, "a.u8", 200);
    gguf_set_val_i8(g, "a.i8", -100);
    gguf_set_val_u16(g, "a.u16", 60000);
    gguf_set_val_i16(g, "a.i16", -30000);
    gguf_set_val_u32(g, "a.u32", 4000000000u);
    gguf_set_val_i32(g, "a.i32", -2000000000);
    gguf_set_val_f32(g, "a.f32", 1.5f);
    gguf_set_val_u64(g, "a.u64", 1ull << 63);
    gguf_set_val_i64(g, "a.i64", -(1ll << 62));
    gguf_set_val_f64(g, "a.f64", 0.1);
    gguf_set_val_bool(g, "a.yes", true);
    gguf_set_val_bool(g, "a.no", false);
    gguf_set_val_str(g, "a.str", "a text with \xC3\xA4 and \"quotes\"");
    gguf_set_val_str(g, "a.empty", "");
    static const int8_t   i8[]  = { 1, -2, 3 };
    static const uint16_t u16[] = { 1, 2, 60000 };
    static const int32_t  i32[] = { 1, -2, 3, 4, 5 };
    static const float    f32[] = { 0.5f, -0.25f };
    static const double   f64[] = { 0.125 };
    static const uint64_t u64[] = { 1, 1ull << 60 };
    static const int8_t   yes[] = { 1, 0, 1, 1 };
    static const char *   str[] = { "one", "", "three and more" };
    gguf_set_arr_data(g, "r.i8", GGUF_TYPE_INT8, i8, 3);
    gguf_set_arr_data(g, "r.u16", GGUF_TYPE_UINT16, u16, 3);
    gguf_set_arr_data(g, "r.i32", GGUF_TYPE_INT32, i32, 5);
    gguf_set_arr_data(g, "r.f32", GGUF_TYPE_FLOAT32, f32, 2);
    gguf_set_arr_data(g, "r.f64", GGUF_TYPE_FLOAT64, f64, 1);
    gguf_set_arr_data(g, "r.u64", GGUF_TYPE_UINT64, u64, 2);
    gguf_set_arr_data(g, "r.bool", GGUF_TYPE_BOOL, yes, 4);
    gguf_set_arr_data(g, "r.none", GGUF_TYPE_INT32, i32, 0);
    gguf_set_arr_str(g, "r.str", str, 3);
}

static void read_all_ways(const char * label) {
    char l[80];
    for (int no_alloc = 0; no_alloc < 2; no_alloc++) {
        for (int with_context = 0; with_context < 2; with_context++) {
            struct ggml_context *         c      = NULL;
            const struct gguf_init_params params = { .no_alloc = no_alloc != 0, .ctx = with_context ? &c : NULL };
            struct gguf_context *         g      = gguf_init_from_file(path, params);
            snprintf(l, sizeof l, "%s, no_alloc %d, context %d", label, no_alloc, with_context);
            show(l, g, c);
            gguf_free(g);
            ggml_free(c);
        }
    }
    struct ggml_context *         c      = NULL;
    const struct gguf_init_params params = { .no_alloc = false, .ctx = &c };
    struct gguf_context *         g      = gguf_init_from_buffer(bytes, n_bytes, params);
    printf("from a buffer: %d\n", g != NULL && c != NULL && gguf_get_n_kv(g) > 0);
    gguf_free(g);
    ggml_free(c);
    static const size_t chunks[] = { 0, 1, 7, 4096 };
    for (size_t i = 0; i < 4; i++) {
        c = NULL;
        int calls = 0;
        g = gguf_init_from_callback(from_memory, &calls, chunks[i], n_bytes, params);
        printf("from a callback, %zu bytes at a time: %d, called %d\n", chunks[i], g != NULL && c != NULL, calls > 0);
        if (g != NULL && c != NULL) {
            uint64_t h = DATA_HASH0;
            for (struct ggml_tensor * t = ggml_get_first_tensor(c); t != NULL; t = ggml_get_next_tensor(c, t)) { h = data_hash(t->data, ggml_nbytes(t), h); }
            printf("  data %016llx\n", (unsigned long long) h);
        }
        gguf_free(g);
        ggml_free(c);
    }
    FILE * f = fopen(path, "rb");
    if (f != NULL) {
        g = gguf_init_from_file_ptr(f, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL });
        printf("from a FILE: %d at %ld\n", g != NULL, ftell(f) > 0 ? 1l : 0l);
        gguf_free(g);
        fclose(f);
    }
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/ggml-gguf-%d.gguf", (int) getpid());
    struct gguf_context * g = gguf_init_empty();
    show("empty", g, NULL);
    printf("written: %d\n", gguf_write_to_file(g, path, false));
    slurp("an empty file");
    read_all_ways("empty");
    fill(g);
    show("values", g, NULL);
    printf("written: %d\n", gguf_write_to_file(g, path, false));
    slurp("values");
    read_all_ways("values");

    /* overriding, removing, another context's values */
    gguf_set_val_u32(g, "a.u8", 7);
    const int64_t removed = gguf_remove_key(g, "a.str"), again = gguf_remove_key(g, "a.str");
    printf("removed %lld, again %lld\n", (long long) removed, (long long) again);
    struct gguf_context * other = gguf_init_empty();
    gguf_set_val_str(other, "a.i8", "now a text");
    gguf_set_val_f32(other, "b.new", 2.5f);
    gguf_set_arr_str(other, "r.i8", (const char *[]) { "x" }, 1);
    gguf_set_kv(g, other);
    gguf_free(other);
    show("changed", g, NULL);

    /* tensors */
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false };
    struct ggml_context * c = ggml_init(params);
    static const struct { const char * name; enum ggml_type type; int64_t ne[4]; int n_dims; } list[] = {
        { "scalar", GGML_TYPE_F32, { 1, 1, 1, 1 }, 1 }, { "vector", GGML_TYPE_F32, { 7, 1, 1, 1 }, 1 }, { "matrix.weight", GGML_TYPE_F16, { 5, 3, 1, 1 }, 2 }, { "cube", GGML_TYPE_BF16, { 4, 3, 2, 1 }, 3 },
        { "four", GGML_TYPE_I8, { 3, 2, 2, 2 }, 4 }, { "blocks", GGML_TYPE_Q4_0, { 64, 3, 1, 1 }, 2 }, { "superblocks", GGML_TYPE_Q6_K, { 256, 2, 1, 1 }, 2 }, { "integers", GGML_TYPE_I32, { 9, 1, 1, 1 }, 1 },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct ggml_tensor * t = ggml_set_name(ggml_new_tensor(c, list[i].type, list[i].n_dims, list[i].ne), list[i].name);
        uint64_t s = i;
        for (size_t k = 0; k < ggml_nbytes(t); k++) { ((unsigned char *) t->data)[k] = (unsigned char) data_next(&s); }
        gguf_add_tensor(g, t);
    }
    show("with tensors", g, NULL);
    printf("written: %d\n", gguf_write_to_file(g, path, false));
    slurp("with tensors");
    read_all_ways("with tensors");
    printf("written: %d\n", gguf_write_to_file(g, path, true));
    slurp("only meta");
    void * meta = malloc(gguf_get_meta_size(g));
    gguf_get_meta_data(g, meta);
    printf("meta data: same %d\n", n_bytes == gguf_get_meta_size(g) && memcmp(meta, bytes, n_bytes) == 0);
    free(meta);
    gguf_set_tensor_type(g, "vector", GGML_TYPE_F16);
    gguf_set_tensor_type(g, "matrix.weight", GGML_TYPE_F32);
    show("other types", g, NULL);
    static const unsigned char data[4096] = { 1, 2, 3 };
    gguf_set_tensor_data(g, "vector", data);
    gguf_set_tensor_data(g, "matrix.weight", data);
    printf("written: %d\n", gguf_write_to_file(g, path, false));
    slurp("other types");
    gguf_free(g);

    /* a file made by hand, with another alignment */
    g = gguf_init_empty();
    gguf_set_val_u32(g, "general.alignment", 64);
    /* 420 bytes: the next multiple of every alignment up to 64 is 448. */
    gguf_add_tensor(g, ggml_get_tensor(c, "superblocks"));
    FILE * f = fopen(path, "wb");
    printf("written to a FILE: %d\n", f != NULL && gguf_write_to_file_ptr(g, f, true));
    if (f != NULL) {
        fseek(f, 0, SEEK_END);
        const long n = ftell(f);
        for (long i = n; i % 64 != 0; i++) { fputc(0, f); }
        for (int i = 0; i < 448; i++) { fputc(i, f); }
        fclose(f);
    }
    read_all_ways("aligned to 64");
    gguf_free(g);
    ggml_free(c);
    remove(path);
    printf("a file that is not there: %d\n", gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL }) == NULL);
    return 0;
}
