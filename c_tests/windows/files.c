/* Files of Windows: paths in UTF-8, paths beyond 260 characters, a module at both, and files beyond 4 GiB, which take
 * room for their data only where the file system knows holes: files MODULE. In the current folder. */
#include "../common/check.h"

#include "ggml-backend.h"
#include "gguf.h"

#include <windows.h>

enum { FAR_AWAY = 5 }; /* GiB */

static char root[MAX_PATH];
static const char * module;

/* The wide form of a path, which the system takes at any length if it begins with these four characters. */
static const wchar_t * wide(const char * path) {
    static wchar_t text[2][2000];
    static int     turn;
    turn ^= 1;
    wcscpy(text[turn], L"\\\\?\\");
    MultiByteToWideChar(CP_UTF8, 0, path, -1, text[turn] + 4, 1990);
    for (wchar_t * at = text[turn]; *at != 0; at++) { *at = *at == L'/' ? L'\\' : *at; }
    return text[turn];
}

static struct gguf_context * example(void) {
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_u32(g, "answer", 42);
    return g;
}

static bool is_example(const struct gguf_context * g) {
    const int64_t key = g == NULL ? -1 : gguf_find_key(g, "answer");
    return key >= 0 && gguf_get_val_u32(g, key) == 42;
}

/* Writes, reads, opens and loads in a folder. */
static void use(const char * folder) {
    char path[2000], to[2000];
    snprintf(path, sizeof path, "%s\\model.gguf", folder);
    struct gguf_context * g = example();
    CHECK(gguf_write_to_file(g, path, false));
    gguf_free(g);
    g = gguf_init_from_file(path, (struct gguf_init_params) { true, NULL });
    CHECK(is_example(g));
    gguf_free(g);
    FILE * f = ggml_fopen(path, "rb");
    CHECK(f != NULL || strlen(path) > MAX_PATH); /* the C library's limit */
    if (f != NULL) { fclose(f); }
    CHECK(DeleteFileW(wide(path)));
    snprintf(to, sizeof to, "%s\\ggml-accel.dll", folder);
    CHECK(CopyFileW(wide(module), wide(to), FALSE));
    ggml_backend_reg_t reg = ggml_backend_load(to);
    CHECK(reg != NULL && ggml_backend_reg_dev_count(reg) == 1);
    if (reg != NULL) { ggml_backend_unload(reg); }
    DeleteFileW(wide(to));
}

static void paths_in_utf8(void) {
    char folder[1000];
    snprintf(folder, sizeof folder, "%s\\gr\xc3\xb6\xc3\x9f" "er-\xe4\xba\xba", root);
    CHECK(CreateDirectoryW(wide(folder), NULL) || GetLastError() == ERROR_ALREADY_EXISTS);
    use(folder);
    CHECK(RemoveDirectoryW(wide(folder)));
}

static void paths_beyond_260_characters(void) {
    char folder[1500];
    size_t lengths[4];
    strcpy(folder, root);
    for (int i = 0; i < 4; i++) {
        lengths[i] = strlen(folder);
        sprintf(folder + lengths[i], "\\%0100d", i);
        CHECK(CreateDirectoryW(wide(folder), NULL) || GetLastError() == ERROR_ALREADY_EXISTS);
    }
    CHECK(strlen(folder) > 400);
    use(folder);
    for (int i = 3; i >= 0; i--) {
        CHECK(RemoveDirectoryW(wide(folder)));
        folder[lengths[i]] = '\0';
    }
}

static void a_stream_beyond_4_gib(void) {
    FILE * f = fopen("far.gguf", "w+bTD");
    struct gguf_context * g = example();
    CHECK(f != NULL && _fseeki64(f, (int64_t) FAR_AWAY << 30, SEEK_SET) == 0 && gguf_write_to_file_ptr(g, f, false));
    gguf_free(g);
    CHECK(_fseeki64(f, (int64_t) FAR_AWAY << 30, SEEK_SET) == 0);
    g = gguf_init_from_file_ptr(f, (struct gguf_init_params) { true, NULL });
    CHECK(is_example(g));
    gguf_free(g);
    fclose(f);
}

/* A tensor of more than 4 GiB, and one after it. */
static void tensors_beyond_4_gib(void) {
    struct ggml_context * c     = ggml_init((struct ggml_init_params) { 1u << 16, NULL, true });
    struct ggml_tensor *  large = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_I8, 1 << 20, (FAR_AWAY << 10) - 512), "large");
    struct ggml_tensor *  last  = ggml_set_name(ggml_new_tensor_1d(c, GGML_TYPE_F32, 4), "last");
    struct gguf_context * g     = gguf_init_empty();
    static const float    values[4] = { 1, 2, 3, 4 };
    gguf_add_tensor(g, large);
    gguf_add_tensor(g, last);
    FILE * f = fopen("large.gguf", "wb");
    CHECK(f != NULL && gguf_write_to_file_ptr(g, f, true));
    CHECK(_fseeki64(f, (int64_t) (gguf_get_meta_size(g) + gguf_get_tensor_offset(g, 1)), SEEK_SET) == 0);
    char padded[32] = { 0 };
    memcpy(padded, values, sizeof values);
    CHECK(fwrite(padded, 1, sizeof padded, f) == sizeof padded);
    fclose(f);
    gguf_free(g);
    ggml_free(c);
    c = NULL;
    g = gguf_init_from_file("large.gguf", (struct gguf_init_params) { false, &c });
    CHECK(g != NULL && c != NULL);
    if (g != NULL) {
        last = ggml_get_tensor(c, "last");
        CHECK(last != NULL && memcmp(last->data, values, sizeof values) == 0);
        CHECK(gguf_get_tensor_offset(g, 1) > (uint64_t) 4 << 30);
        gguf_free(g);
        ggml_free(c);
    }
    remove("large.gguf");
}

int main(int argc, char ** argv) {
    module = argc > 1 ? argv[1] : "";
    GetCurrentDirectoryA(sizeof root, root);
    RUN(paths_in_utf8);
    RUN(paths_beyond_260_characters);
    RUN(a_stream_beyond_4_gib);
    RUN(tensors_beyond_4_gib);
    return test_summary();
}
