/* Contexts, logs, the abort callback, time, elements of tensors: what a host relies on and no dump shows. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-cpu.h"
#include "gguf.h"

#include <stdint.h>

static void contexts(void) {
    static _Alignas(16) char own[65536];
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = sizeof own, .mem_buffer = own, .no_alloc = false });
    CHECK(c != NULL);
    CHECK(ggml_get_mem_buffer(c) == own);
    CHECK_EQ(ggml_get_mem_size(c), sizeof own);
    CHECK_EQ(ggml_used_mem(c), 0);
    CHECK(ggml_get_first_tensor(c) == NULL);
    struct ggml_tensor * t = ggml_new_tensor_2d(c, GGML_TYPE_F32, 5, 3);
    CHECK((char *) t->data >= own && (char *) t->data + ggml_nbytes(t) <= own + sizeof own);
    CHECK_EQ((uintptr_t) t->data % GGML_MEM_ALIGN, 0);
    CHECK_EQ(ggml_used_mem(c), ggml_tensor_overhead() + 64);
    struct ggml_tensor * u = ggml_new_tensor_1d(c, GGML_TYPE_I32, 4);
    CHECK(ggml_get_first_tensor(c) == t && ggml_get_next_tensor(c, t) == u && ggml_get_next_tensor(c, u) == NULL);
    ggml_set_name(u, "second");
    CHECK(ggml_get_tensor(c, "second") == u && ggml_get_tensor(c, "third") == NULL);
    CHECK_EQ(ggml_get_max_tensor_size(c), 60);
    memset(t->data, 0xFF, ggml_nbytes(t));
    CHECK(ggml_set_zero(t) == t && ((float *) t->data)[14] == 0.0f);
    ggml_reset(c);
    CHECK_EQ(ggml_used_mem(c), 0);
    CHECK(ggml_get_first_tensor(c) == NULL);
    ggml_free(c);
    ggml_free(NULL);
    for (int i = 0; i < 200; i++) { /* more contexts than any table might hold */
        struct ggml_context * many = ggml_init((struct ggml_init_params) { .mem_size = 1024, .mem_buffer = NULL, .no_alloc = true });
        CHECK(many != NULL && ggml_new_tensor_1d(many, GGML_TYPE_F32, 1) != NULL);
        ggml_free(many);
    }
}

static int  heard;
static char last_text[512];

static void listen(enum ggml_log_level level, const char * text, void * user) {
    heard += *(int *) user;
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_INFO) { snprintf(last_text, sizeof last_text, "%s", text); }
}

static void logs(void) {
    int one = 1;
    ggml_log_callback callback = NULL;
    void * user = NULL;
    ggml_log_set(listen, &one);
    ggml_log_get(&callback, &user);
    CHECK(callback == listen && user == &one);
    heard = 0;
    CHECK(gguf_init_from_file("/nonexistent/file", (struct gguf_init_params) { .no_alloc = true, .ctx = NULL }) == NULL);
    CHECK(heard > 0 && strstr(last_text, "/nonexistent/file") != NULL);
    ggml_log_set(NULL, NULL);
    ggml_log_get(&callback, &user);
    CHECK(callback != NULL); /* the one that prints to stderr */
}

static void abort_with_text(void * user) {
    (void) user;
    ggml_abort("file.c", 12, "number %d and %s", 7, "text");
}

static void keep_and_exit(const char * text) {
    _exit(strstr(text, "number 7 and text") != NULL && strstr(text, "file.c:12") != NULL ? 33 : 34);
}

static void abort_and_look(void * user) {
    ggml_set_abort_callback(keep_and_exit);
    abort_with_text(user);
}

static void abort_without_callback(void * user) {
    ggml_set_abort_callback(NULL);
    abort_with_text(user);
}

static void ignored(const char * text) {
    (void) text;
}

static void aborts(void) {
    CHECK_EQ(child_run(abort_with_text, NULL), CHILD_HEARD);
    CHECK_EQ(child_run(abort_and_look, NULL), 33);
    setenv("GGML_NO_BACKTRACE", "1", 1);
    CHECK_EQ(child_run(abort_without_callback, NULL), -SIGABRT);
    ggml_abort_callback_t before = ggml_set_abort_callback(ignored);
    CHECK(ggml_set_abort_callback(before) == ignored);
}

static void elements(void) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false });
    static const enum ggml_type types[] = { GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32 };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct ggml_tensor * t = ggml_new_tensor_3d(c, types[i], 5, 4, 3);
        ggml_set_i32(t, 3);
        if (ggml_get_i32_1d(t, 59) != 3) { test_fails(__FILE__, __LINE__, "%s: set_i32 does not set", ggml_type_name(types[i])); }
        ggml_set_f32(t, 2.0f);
        CHECK_EQ(ggml_get_f32_1d(t, 59), 2);
        ggml_set_i32_1d(t, 27, -5);
        CHECK_EQ(ggml_get_i32_1d(t, 27), -5);
        CHECK_EQ(ggml_get_i32_nd(t, 2, 1, 1, 0), -5);
        ggml_set_f32_nd(t, 4, 3, 2, 0, 7.0f);
        CHECK_EQ(ggml_get_f32_1d(t, 59), 7);
        CHECK_EQ(ggml_get_f32_nd(t, 4, 3, 2, 0), 7);
        ggml_set_i32_nd(t, 0, 0, 1, 0, 9);
        CHECK_EQ(ggml_get_i32_1d(t, 20), 9);
        ggml_set_f32_1d(t, 0, 1.0f);
        CHECK_EQ(ggml_get_i32_1d(t, 0), 1);
        if (types[i] == GGML_TYPE_F32) { /* through a transposed view, by flat index too */
            struct ggml_tensor * v = ggml_transpose(c, t);
            CHECK_EQ(ggml_get_f32_1d(v, 59), 7);
            CHECK_EQ(ggml_get_f32_nd(v, 1, 2, 1, 0), -5);
            CHECK(ggml_get_data_f32(t) == t->data && ggml_get_data(t) == t->data);
        }
    }
    struct ggml_tensor * f = ggml_new_f32(c, 1.25f), *n = ggml_new_i32(c, -9);
    CHECK(ggml_get_f32_1d(f, 0) == 1.25f && f->type == GGML_TYPE_F32);
    CHECK(ggml_get_i32_1d(n, 0) == -9 && n->type == GGML_TYPE_I32);
    ggml_free(c);
}

static void clocks(void) {
    ggml_time_init();
    const int64_t us = ggml_time_us(), ms = ggml_time_ms();
    CHECK(us >= 0 && ms >= 0);
    usleep(3000);
    CHECK(ggml_time_us() - us >= 2500 && ggml_time_us() - us < 60000000);
    CHECK(ggml_time_ms() >= ms);
    CHECK(ggml_cycles() > 0 && ggml_cycles_per_ms() > 0);
    CHECK_STR(ggml_version(), "0.28.0");
    CHECK(ggml_commit() != NULL);
}

static void files(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/ggml-file-%d", (int) getpid());
    FILE * f = ggml_fopen(path, "wb");
    CHECK(f != NULL);
    if (f != NULL) { fclose(f); }
    remove(path);
    CHECK(ggml_fopen("/nonexistent/file", "rb") == NULL);
}

static int32_t leaf_counts[2];

static void count_rows(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    __atomic_fetch_add((int32_t *) user, 1, __ATOMIC_SEQ_CST);
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) { ((float *) dst->data)[i] = 2.0f * ((const float *) a->data)[i] + (float) leaf_counts[1]; }
}

static void sum_of_three(struct ggml_tensor * dst, int ith, int nth, void * user) {
    (void) user;
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) {
        ((float *) dst->data)[i] = ((float *) dst->src[0]->data)[i] + ((float *) dst->src[1]->data)[i] + ((float *) dst->src[2]->data)[i];
    }
}

static void custom_ops(void) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 22, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor *  x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1001);
    for (int i = 0; i < 1001; i++) { ggml_set_f32_1d(x, i, (float) i); }
    struct ggml_tensor * y = ggml_map_custom1(c, x, count_rows, 3, leaf_counts);
    struct ggml_tensor * args[3] = { x, y, x };
    struct ggml_tensor * z = ggml_custom_4d(c, GGML_TYPE_F32, 1001, 1, 1, 1, args, 3, sum_of_three, GGML_N_TASKS_MAX, NULL);
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, z);
    leaf_counts[0] = 0;
    CHECK_EQ(ggml_graph_compute_with_ctx(c, g, 4), GGML_STATUS_SUCCESS);
    CHECK(leaf_counts[0] >= 1 && leaf_counts[0] <= 4);
    CHECK(ggml_get_f32_1d(z, 1000) == 4000.0f && ggml_get_f32_1d(z, 1) == 4.0f);
    ggml_free(c);
}

int main(void) {
    ggml_cpu_init(); /* fills the table that elements of F16 tensors are read with */
    RUN(contexts);
    RUN(logs);
    RUN(aborts);
    RUN(elements);
    RUN(clocks);
    RUN(files);
    RUN(custom_ops);
    return test_summary();
}
