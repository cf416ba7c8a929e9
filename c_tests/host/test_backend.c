/* The registry, the CPU device, buffers and transfers; the graph allocator; thread pools, plans and the abort callback
 * of the CPU. */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <pthread.h>
#include <stdint.h>

static struct ggml_context * meta(size_t size) {
    return ggml_init((struct ggml_init_params) { .mem_size = size, .mem_buffer = NULL, .no_alloc = true });
}

static void registry(void) {
    ggml_backend_load_all();
    CHECK(ggml_backend_reg_count() >= 1 && ggml_backend_dev_count() >= 1);
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    CHECK(cpu != NULL && ggml_backend_dev_by_name("CPU") == cpu);
    CHECK_STR(ggml_backend_dev_name(cpu), "CPU");
    CHECK(strlen(ggml_backend_dev_description(cpu)) > 0);
    CHECK(ggml_backend_dev_by_name("nobody") == NULL && ggml_backend_reg_by_name("nobody") == NULL);
    CHECK(ggml_backend_init_by_name("nobody", NULL) == NULL);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu);
    CHECK_STR(ggml_backend_reg_name(reg), "CPU");
    CHECK(reg == ggml_backend_cpu_reg() && ggml_backend_reg_by_name("cpu") == reg);
    CHECK(ggml_backend_reg_dev_count(reg) == 1 && ggml_backend_reg_dev_get(reg, 0) == cpu);
    size_t free_bytes = 0, total = 0;
    ggml_backend_dev_memory(cpu, &free_bytes, &total);
    CHECK(total > 0 && free_bytes <= total);
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(cpu, &props);
    CHECK_STR(props.name, "CPU");
    CHECK_EQ(props.type, GGML_BACKEND_DEVICE_TYPE_CPU);
    CHECK(!props.caps.async && !props.caps.events && props.caps.buffer_from_host_ptr);
    CHECK(ggml_backend_event_new(cpu) == NULL);
    static const char * const addresses[] = { "ggml_backend_set_n_threads", "ggml_backend_dev_get_extra_bufts", "ggml_backend_get_features", "ggml_backend_set_abort_callback",
        "ggml_backend_cpu_numa_init", "ggml_backend_cpu_is_numa", "ggml_threadpool_new", "ggml_threadpool_free", "ggml_backend_cpu_set_threadpool" };
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        if (ggml_backend_reg_get_proc_address(reg, addresses[i]) == NULL) { test_fails(__FILE__, __LINE__, "no address of %s", addresses[i]); }
    }
    CHECK(ggml_backend_reg_get_proc_address(reg, "nobody") == NULL);
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
    ggml_backend_get_features_t features;
    memcpy(&features, &address, sizeof features);
    int n = 0;
    for (struct ggml_backend_feature * f = features(reg); f->name != NULL; f++) { n += f->value != NULL; }
    CHECK(n >= 1);
    address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_dev_get_extra_bufts_t extra;
    memcpy(&extra, &address, sizeof extra);
    for (ggml_backend_buffer_type_t * t = extra(cpu); t != NULL && *t != NULL; t++) { CHECK(strlen(ggml_backend_buft_name(*t)) > 0); }
    ggml_backend_t b = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    CHECK(b != NULL && ggml_backend_is_cpu(b) && ggml_backend_get_device(b) == cpu);
    CHECK_STR(ggml_backend_name(b), "CPU");
    CHECK(ggml_backend_guid(b) != NULL);
    CHECK_STR(ggml_backend_buft_name(ggml_backend_get_default_buffer_type(b)), "CPU");
    CHECK(ggml_backend_supports_buft(b, ggml_backend_cpu_buffer_type()));
    ggml_backend_synchronize(b);
    ggml_backend_free(b);
    b = ggml_backend_init_by_name("CPU", NULL);
    CHECK(b != NULL);
    ggml_backend_free(b);
    b = ggml_backend_cpu_init();
    CHECK(b != NULL);
    ggml_backend_free(b);
    ggml_backend_free(NULL);
    CHECK(!ggml_backend_is_cpu(NULL));
}

static void buffers(void) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    CHECK(ggml_backend_buft_is_host(type));
    CHECK(ggml_backend_buft_get_alignment(type) >= 16);
    CHECK(ggml_backend_buft_get_max_size(type) == SIZE_MAX);
    CHECK(ggml_backend_buft_alloc_buffer(type, SIZE_MAX / 2) == NULL);
    ggml_backend_buffer_t none = ggml_backend_buft_alloc_buffer(type, 0);
    CHECK(none != NULL && ggml_backend_buffer_get_size(none) == 0);
    ggml_backend_buffer_free(none);
    ggml_backend_buffer_free(NULL);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, 4096);
    CHECK(buffer != NULL && ggml_backend_buffer_get_size(buffer) == 4096);
    CHECK(ggml_backend_buffer_is_host(buffer) && ggml_backend_buffer_get_type(buffer) == type);
    CHECK_STR(ggml_backend_buffer_name(buffer), "CPU");
    CHECK_EQ(ggml_backend_buffer_get_usage(buffer), GGML_BACKEND_BUFFER_USAGE_ANY);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    CHECK_EQ(ggml_backend_buffer_get_usage(buffer), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    char * base = ggml_backend_buffer_get_base(buffer);
    CHECK((uintptr_t) base % ggml_backend_buffer_get_alignment(buffer) == 0);
    ggml_backend_buffer_clear(buffer, 0x5A);
    CHECK(base[0] == 0x5A && base[4095] == 0x5A);

    struct ggml_context * c = meta(1u << 16);
    struct ggml_tensor *t = ggml_new_tensor_2d(c, GGML_TYPE_F32, 10, 6), *u = ggml_new_tensor_2d(c, GGML_TYPE_F32, 10, 6), *q = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, 32, 3);
    struct ggml_tallocr linear = ggml_tallocr_new(buffer);
    CHECK_EQ(ggml_tallocr_alloc(&linear, t), GGML_STATUS_SUCCESS);
    CHECK_EQ(ggml_tallocr_alloc(&linear, u), GGML_STATUS_SUCCESS);
    CHECK_EQ(ggml_tallocr_alloc(&linear, q), GGML_STATUS_SUCCESS);
    const size_t align = linear.alignment;
    CHECK(t->data == base && t->buffer == buffer);
    CHECK_EQ((char *) u->data - base, (240 + align - 1) / align * align);
    CHECK_EQ((char *) q->data - (char *) u->data, (240 + align - 1) / align * align);
    CHECK_EQ(linear.offset, (char *) q->data - base + (long) ((102 + align - 1) / align * align));
    CHECK_EQ(ggml_backend_buffer_get_alloc_size(buffer, t), 240);

    float in[60], out[60];
    for (int i = 0; i < 60; i++) { in[i] = (float) i; }
    ggml_backend_tensor_set(t, in, 0, sizeof in);
    ggml_backend_tensor_get(t, out, 40, 80);
    CHECK(out[0] == 10 && out[19] == 29);
    ggml_backend_tensor_copy(t, u);
    CHECK(memcmp(u->data, in, sizeof in) == 0);
    ggml_backend_tensor_memset(u, 0, 4, 8);
    CHECK(((float *) u->data)[0] == 0 && ((float *) u->data)[1] == 0 && ((float *) u->data)[3] == 3);
    memset(out, 0, sizeof out);
    ggml_backend_tensor_get_2d(t, out, 8, 12, 4, 40, 16); /* 3 numbers of each of 4 rows */
    CHECK(out[0] == 2 && out[2] == 4 && out[3] == 0 && out[4] == 12 && out[12] == 32 && out[15] == 0);
    ggml_backend_tensor_set_2d(u, in, 0, 8, 3, 40, 4);
    CHECK(((float *) u->data)[0] == 0 && ((float *) u->data)[1] == 1 && ((float *) u->data)[10] == 1 && ((float *) u->data)[21] == 3 && ((float *) u->data)[3] == 3);
    ggml_backend_t b = ggml_backend_cpu_init();
    memset(out, 0, sizeof out);
    ggml_backend_tensor_set_async(b, t, in, 0, 40);
    ggml_backend_tensor_get_async(b, t, out, 0, 40);
    ggml_backend_tensor_set_2d_async(b, t, in, 0, 8, 2, 40, 8);
    ggml_backend_tensor_get_2d_async(b, t, out + 10, 0, 8, 2, 40, 8);
    ggml_backend_synchronize(b);
    CHECK(out[9] == 9 && out[10] == 0 && out[11] == 1 && out[12] == 2 && out[13] == 3);
    ggml_backend_tensor_copy_async(b, b, t, u);
    ggml_backend_synchronize(b);
    CHECK(memcmp(t->data, u->data, 240) == 0);
    ggml_backend_tensor_set(t, in, 240, 0); /* nothing, at the end */
    struct ggml_tensor * v = ggml_view_2d(c, t, 4, 2, t->nb[1], 44);
    CHECK_EQ(ggml_backend_view_init(v), GGML_STATUS_SUCCESS);
    CHECK(v->buffer == buffer && (char *) v->data == base + 44);
    ggml_backend_tensor_get(v, out, 0, 4);
    struct ggml_tensor * by_hand = ggml_new_tensor_1d(c, GGML_TYPE_F32, 4);
    CHECK_EQ(ggml_backend_tensor_alloc(buffer, by_hand, base + 4096 - 64), GGML_STATUS_SUCCESS);
    CHECK(by_hand->data == base + 4096 - 64 && by_hand->buffer == buffer);
    ggml_backend_free(b);
    ggml_backend_buffer_reset(buffer);
    ggml_backend_buffer_free(buffer);

    static _Alignas(64) char own[1024];
    buffer = ggml_backend_cpu_buffer_from_ptr(own, sizeof own);
    CHECK(buffer != NULL && ggml_backend_buffer_get_base(buffer) == own && ggml_backend_buffer_is_host(buffer));
    CHECK_STR(ggml_backend_buffer_name(buffer), "CPU_Mapped");
    ggml_backend_buffer_free(buffer);
    buffer = ggml_backend_dev_buffer_from_host_ptr(ggml_backend_dev_by_name("CPU"), own, sizeof own, sizeof own);
    CHECK(buffer != NULL && ggml_backend_buffer_get_base(buffer) == own);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
}

static void contexts_in_buffers(void) {
    struct ggml_context * c = meta(1u << 16);
    struct ggml_tensor * a = ggml_new_tensor_2d(c, GGML_TYPE_F16, 33, 5), *v = ggml_view_1d(c, a, 10, 66), *b = ggml_new_tensor_1d(c, GGML_TYPE_Q6_K, 512), *e = ggml_new_tensor_1d(c, GGML_TYPE_F32, 0);
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    const size_t size = ggml_backend_alloc_ctx_tensors_from_buft_size(c, type);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(c, type);
    CHECK(buffer != NULL && ggml_backend_buffer_get_size(buffer) == size);
    CHECK(a->data != NULL && (char *) v->data == (char *) a->data + 66 && b->buffer == buffer && v->buffer == buffer);
    CHECK(e->data != NULL || ggml_nbytes(e) == 0);
    CHECK(ggml_backend_alloc_ctx_tensors_from_buft(c, type) == NULL); /* all have memory already */
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    c = meta(1u << 16);
    CHECK(ggml_backend_alloc_ctx_tensors_from_buft(c, type) == NULL); /* none */
    CHECK_EQ(ggml_backend_alloc_ctx_tensors_from_buft_size(c, type), 0);
    ggml_free(c);
}

/* ---- the graph allocator ---- */

static struct ggml_tensor * random_input(struct ggml_context * c, int64_t n0, int64_t n1) {
    struct ggml_tensor * t = ggml_new_tensor_2d(c, GGML_TYPE_F32, n0, n1);
    ggml_set_input(t);
    return t;
}

/* A graph with branches, views, tensors of many sizes and things that can be computed in place. */
static struct ggml_cgraph * tangle(struct ggml_context * c, uint64_t seed, int n_ops, struct ggml_tensor ** inputs) {
    struct ggml_cgraph * g = ggml_new_graph_custom(c, 512, false);
    struct ggml_tensor * pool[128];
    int n = 0;
    for (int i = 0; i < 3; i++) { pool[n++] = inputs[i] = random_input(c, 16, 16); }
    for (int i = 0; i < n_ops; i++) {
        struct ggml_tensor * a = pool[data_next(&seed) % (uint64_t) n], *b = pool[n - 1], *t;
        switch (data_next(&seed) % 8) {
            case 0: t = ggml_add(c, a, b); break;
            case 1: t = ggml_mul(c, b, a); break;
            case 2: t = ggml_mul_mat(c, a, b); break;
            case 3: t = ggml_scale(c, b, 0.25f); break;
            case 4: t = ggml_cont(c, ggml_transpose(c, a)); break;
            case 5: t = ggml_reshape_2d(c, ggml_view_1d(c, ggml_concat(c, a, b, 1), 256, 256), 16, 16); break;
            case 6: t = ggml_soft_max(c, ggml_reshape_2d(c, b, 16, 16)); break;
            default: t = ggml_sum_rows(c, ggml_repeat_4d(c, ggml_reshape_3d(c, a, 1, 16, 16), 4, 16, 16, 1)); t = ggml_reshape_2d(c, t, 16, 16); break;
        }
        if (data_next(&seed) % 10 == 0) { ggml_set_output(t); ggml_build_forward_expand(g, t); }
        pool[n++] = t;
    }
    ggml_set_output(pool[n - 1]);
    ggml_build_forward_expand(g, pool[n - 1]);
    return g;
}

static void fill_inputs(struct ggml_tensor ** inputs) {
    uint64_t s = 5;
    for (int i = 0; i < 3; i++) {
        float x[256];
        for (int k = 0; k < 256; k++) { x[k] = data_float(&s, -1, 1); }
        /* The graph may leave an input out. */
        if (inputs[i]->buffer != NULL) { ggml_backend_tensor_set(inputs[i], x, 0, sizeof x); }
    }
}

/* The graph gives the same results with reused memory as with memory of its own for each tensor. */
static void reuses_memory_rightly(void) {
    ggml_backend_t b = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(b, 1);
    size_t reused = 0, separate = 0;
    ggml_gallocr_t kept = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct ggml_context * c1 = meta(1u << 20), *c2 = meta(1u << 20);
        struct ggml_tensor *in1[3], *in2[3];
        const int n_ops = 5 + (int) (seed % 40);
        struct ggml_cgraph *g1 = tangle(c1, seed, n_ops, in1), *g2 = tangle(c2, seed, n_ops, in2);
        CHECK(ggml_gallocr_alloc_graph(kept, g1));
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c2, b);
        CHECK(buffer != NULL);
        reused   += ggml_gallocr_get_buffer_size(kept, 0);
        separate += ggml_backend_buffer_get_size(buffer);
        fill_inputs(in1);
        fill_inputs(in2);
        CHECK_EQ(ggml_backend_graph_compute(b, g1), GGML_STATUS_SUCCESS);
        CHECK_EQ(ggml_backend_graph_compute(b, g2), GGML_STATUS_SUCCESS);
        for (int i = 0; i < ggml_graph_n_nodes(g1); i++) {
            struct ggml_tensor *t1 = ggml_graph_node(g1, i), *t2 = ggml_graph_node(g2, i);
            if ((t1->flags & GGML_TENSOR_FLAG_OUTPUT) == 0 || t1->view_src != NULL) { continue; }
            if (memcmp(t1->data, t2->data, ggml_nbytes(t1)) != 0) { test_fails(__FILE__, __LINE__, "seed %llu: node %d (%s) differs", (unsigned long long) seed, i, ggml_op_name(t1->op)); }
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(c1);
        ggml_free(c2);
    }
    CHECK(reused < separate);
    ggml_gallocr_free(kept);
    ggml_gallocr_free(NULL);
    ggml_backend_free(b);
}

/* The library must never need more memory than the original plans for the same graphs: seed, operations, bytes of the
 * original. */
#define ORIGINAL_SIZES                                                                                                       \
    { { 1, 12, 9216 }, { 2, 19, 14336 }, { 3, 26, 8192 }, { 4, 33, 11264 }, { 5, 40, 10240 }, { 6, 47, 14336 }, \
      { 7, 54, 19456 }, { 8, 61, 13312 }, { 9, 8, 8192 }, { 10, 15, 10240 }, { 11, 22, 12288 }, { 12, 29, 14336 }, \
      { 13, 36, 16384 }, { 14, 43, 16384 }, { 15, 50, 17408 }, { 16, 57, 22528 }, { 17, 64, 15360 }, { 18, 11, 7168 }, \
      { 19, 18, 7168 }, { 20, 25, 12288 }, { 21, 32, 12288 }, { 22, 39, 14336 }, { 23, 46, 16384 }, { 24, 53, 15360 }, \
      { 25, 60, 15360 }, { 26, 7, 3072 }, { 27, 14, 7168 }, { 28, 21, 10240 }, { 29, 28, 13312 }, { 30, 35, 7168 } }

static void plans_are_small(void) {
    static const struct { uint64_t seed; int n_ops; size_t original; } graphs[] = ORIGINAL_SIZES;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        struct ggml_context * c = meta(1u << 20);
        struct ggml_tensor * in[3];
        struct ggml_cgraph * g = tangle(c, graphs[i].seed, graphs[i].n_ops, in);
        ggml_gallocr_t a = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        size_t size = 0;
        ggml_gallocr_reserve_n_size(a, g, NULL, NULL, &size);
        CHECK(ggml_gallocr_reserve(a, g));
        CHECK_EQ(ggml_gallocr_get_buffer_size(a, 0), size);
        if (size > graphs[i].original) { test_fails(__FILE__, __LINE__, "graph %zu takes %zu bytes, the original %zu", i, size, graphs[i].original); }
        CHECK(ggml_gallocr_alloc_graph(a, g));
        CHECK_EQ(ggml_gallocr_get_buffer_size(a, 0), size);
        ggml_gallocr_free(a);
        ggml_free(c);
    }
}

static void several_buffers(void) {
    ggml_backend_buffer_type_t types[2] = { ggml_backend_cpu_buffer_type(), ggml_backend_cpu_buffer_type() };
    struct ggml_context * c = meta(1u << 20);
    struct ggml_tensor * in[3];
    struct ggml_cgraph * g = tangle(c, 3, 20, in);
    int nodes[512], leafs[512];
    for (int i = 0; i < 512; i++) { nodes[i] = i % 2; leafs[i] = 1; }
    ggml_gallocr_t a = ggml_gallocr_new_n(types, 2);
    CHECK(ggml_gallocr_reserve_n(a, g, nodes, leafs));
    CHECK(ggml_gallocr_alloc_graph(a, g));
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) { CHECK(ggml_graph_node(g, i)->data != NULL); }
    ggml_gallocr_free(a);
    ggml_free(c);
}

/* ---- computing ---- */

struct sum_graph {
    struct ggml_context * c;
    struct ggml_cgraph *  g;
    struct ggml_tensor *  out;
};

static struct sum_graph sum_graph(int depth) {
    struct sum_graph s;
    s.c = ggml_init((struct ggml_init_params) { .mem_size = 64u << 20, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor * w = ggml_new_tensor_2d(s.c, GGML_TYPE_F32, 64, 64), *x = ggml_new_tensor_2d(s.c, GGML_TYPE_F32, 64, 32);
    ggml_set_f32(w, 1.0f / 64.0f);
    ggml_set_f32(x, 3.0f);
    for (int i = 0; i < depth; i++) { x = ggml_add(s.c, ggml_mul_mat(s.c, w, x), x); }
    s.out = ggml_sum(s.c, ggml_scale(s.c, x, 1.0f / (float) (1 << depth)));
    s.g = ggml_new_graph(s.c);
    ggml_build_forward_expand(s.g, s.out);
    return s;
}

static void thread_pools(void) {
    struct ggml_threadpool_params params = ggml_threadpool_params_default(3);
    params.poll = 10;
    struct ggml_threadpool * pool = ggml_threadpool_new(&params);
    CHECK(pool != NULL);
    struct sum_graph s = sum_graph(6);
    for (int n = 1; n <= 3; n++) {
        struct ggml_cplan plan = ggml_graph_plan(s.g, n, pool);
        CHECK_EQ(plan.n_threads, n);
        CHECK(plan.threadpool == pool && plan.abort_callback == NULL && !plan.use_ref);
        plan.work_data = plan.work_size > 0 ? malloc(plan.work_size) : NULL;
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_SUCCESS);
            CHECK_NEAR(ggml_get_f32_1d(s.out, 0), 64 * 32 * 3, 1e-2);
        }
        free(plan.work_data);
    }
    ggml_threadpool_pause(pool);
    ggml_threadpool_pause(pool);
    ggml_threadpool_resume(pool);
    ggml_threadpool_resume(pool);
    struct ggml_cplan plan = ggml_graph_plan(s.g, 3, pool);
    plan.work_data = malloc(plan.work_size + 1);
    ggml_threadpool_pause(pool); /* computing resumes it */
    CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_SUCCESS);
    plan.use_ref = true;
    CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_SUCCESS);
    free(plan.work_data);
    ggml_backend_t b = ggml_backend_cpu_init();
    ggml_backend_cpu_set_threadpool(b, pool);
    ggml_backend_cpu_set_n_threads(b, 3);
    CHECK_EQ(ggml_backend_graph_compute(b, s.g), GGML_STATUS_SUCCESS);
    ggml_backend_cpu_set_use_ref(b, true);
    CHECK_EQ(ggml_backend_graph_compute(b, s.g), GGML_STATUS_SUCCESS);
    CHECK_NEAR(ggml_get_f32_1d(s.out, 0), 64 * 32 * 3, 1e-2);
    ggml_backend_cpu_set_threadpool(b, NULL);
    ggml_backend_free(b);
    ggml_threadpool_free(pool);
    params.paused = true;
    pool = ggml_threadpool_new(&params);
    CHECK(pool != NULL);
    ggml_threadpool_free(pool); /* while it sleeps */
    params = ggml_threadpool_params_default(2);
    params.strict_cpu = true;
    params.cpumask[0] = true;
    params.prio = GGML_SCHED_PRIO_NORMAL;
    params.poll = 0;
    pool = ggml_threadpool_new(&params);
    plan = ggml_graph_plan(s.g, 2, pool);
    plan.work_data = malloc(plan.work_size + 1);
    CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_SUCCESS);
    free(plan.work_data);
    ggml_threadpool_free(pool);
    ggml_free(s.c);
}

static bool stop_at(void * data) {
    return --*(int *) data < 0;
}

static void aborts_on_request(void) {
    struct sum_graph s = sum_graph(8);
    struct ggml_cplan plan = ggml_graph_plan(s.g, 2, NULL);
    int left = 3;
    plan.work_data           = malloc(plan.work_size + 1);
    plan.abort_callback      = stop_at;
    plan.abort_callback_data = &left;
    CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_ABORTED);
    left = 1 << 30;
    CHECK_EQ(ggml_graph_compute(s.g, &plan), GGML_STATUS_SUCCESS);
    CHECK_NEAR(ggml_get_f32_1d(s.out, 0), 64 * 32 * 3, 1e-2);
    free(plan.work_data);
    ggml_backend_t b = ggml_backend_cpu_init();
    left = 3;
    ggml_backend_cpu_set_abort_callback(b, stop_at, &left);
    CHECK_EQ(ggml_backend_graph_compute(b, s.g), GGML_STATUS_ABORTED);
    ggml_backend_cpu_set_abort_callback(b, NULL, NULL);
    CHECK_EQ(ggml_backend_graph_compute(b, s.g), GGML_STATUS_SUCCESS);
    ggml_backend_free(b);
    ggml_free(s.c);
}

static void graph_plans(void) {
    struct sum_graph s = sum_graph(4);
    ggml_backend_t b = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(b, 2);
    ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(b, s.g);
    CHECK(plan != NULL);
    for (int i = 0; i < 3; i++) { CHECK_EQ(ggml_backend_graph_plan_compute(b, plan), GGML_STATUS_SUCCESS); }
    CHECK_NEAR(ggml_get_f32_1d(s.out, 0), 64 * 32 * 3, 1e-2);
    ggml_backend_graph_plan_free(b, plan);
    CHECK_EQ(ggml_backend_graph_compute_async(b, s.g), GGML_STATUS_SUCCESS);
    ggml_backend_synchronize(b);
    ggml_backend_free(b);
    ggml_free(s.c);
}

static void * compute_often(void * user) {
    int * good = user;
    struct sum_graph s = sum_graph(5);
    ggml_backend_t b = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(b, 2);
    for (int i = 0; i < 30; i++) {
        const bool ok = ggml_backend_graph_compute(b, s.g) == GGML_STATUS_SUCCESS;
        const double d = (double) ggml_get_f32_1d(s.out, 0) - 64 * 32 * 3;
        *good += ok && d < 1e-2 && d > -1e-2;
    }
    ggml_backend_free(b);
    ggml_free(s.c);
    return NULL;
}

static void several_at_once(void) {
    pthread_t threads[4];
    int       good[4] = { 0 };
    for (int i = 0; i < 4; i++) { CHECK(pthread_create(&threads[i], NULL, compute_often, &good[i]) == 0); }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(good[i], 30);
    }
}

static void same_for_every_number_of_threads(void) {
    float first[48 * 16];
    for (int n = 1; n <= 4; n++) {
        struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 8u << 20, .mem_buffer = NULL, .no_alloc = false });
        struct ggml_tensor *w = ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, 256, 48), *x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 256, 16);
        data_blocks(GGML_TYPE_Q4_0, w->data, ggml_nbytes(w), 1);
        uint64_t s = 2;
        for (int i = 0; i < 256 * 16; i++) { ((float *) x->data)[i] = data_float(&s, -1, 1); }
        struct ggml_tensor * y = ggml_soft_max(c, ggml_rms_norm(c, ggml_mul_mat(c, w, x), 1e-5f));
        struct ggml_cgraph * g = ggml_new_graph(c);
        ggml_build_forward_expand(g, y);
        CHECK_EQ(ggml_graph_compute_with_ctx(c, g, n), GGML_STATUS_SUCCESS);
        if (n == 1) { memcpy(first, y->data, sizeof first); }
        CHECK(memcmp(first, y->data, sizeof first) == 0);
        ggml_free(c);
    }
}

static bool look(int index, struct ggml_tensor * t1, struct ggml_tensor * t2, void * user) {
    (void) index;
    *(int *) user += memcmp(t1->data, t2->data, ggml_nbytes(t1)) == 0;
    return true;
}

static void copied_graphs(void) {
    struct sum_graph s = sum_graph(3);
    ggml_backend_t b = ggml_backend_cpu_init(), b2 = ggml_backend_cpu_init();
    /* the graph's tensors must be in a backend's buffer */
    struct ggml_context * c = meta(1u << 18);
    struct ggml_tensor *x = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 8), "x"), *y = ggml_add(c, ggml_mul_mat(c, x, x), ggml_view_2d(c, x, 8, 8, 32, 0));
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, b);
    ggml_set_f32(x, 0.5f);
    struct ggml_backend_graph_copy copy = ggml_backend_graph_copy(b2, g);
    CHECK(copy.buffer != NULL && copy.graph != NULL && ggml_graph_n_nodes(copy.graph) == ggml_graph_n_nodes(g));
    CHECK_EQ(ggml_backend_graph_compute(b2, copy.graph), GGML_STATUS_SUCCESS);
    CHECK_NEAR(ggml_get_f32_1d(ggml_graph_node(copy.graph, -1), 0), 8 * 0.25 + 0.5, 1e-6);
    ggml_backend_graph_copy_free(copy);
    int same = 0;
    CHECK(ggml_backend_compare_graph_backend(b, b2, g, look, &same, NULL, 0));
    CHECK(same >= 2);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    /* The result of ggml_cast is its own second source. */
    c = meta(1u << 18);
    struct ggml_tensor *w = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 8), *half = ggml_cast(c, w, GGML_TYPE_F16), *back = ggml_cast(c, half, GGML_TYPE_F32);
    CHECK(half->src[1] == half);
    g = ggml_new_graph(c);
    ggml_build_forward_expand(g, back);
    buffer = ggml_backend_alloc_ctx_tensors(c, b);
    ggml_set_f32(w, 0.25f);
    copy = ggml_backend_graph_copy(b2, g);
    CHECK(copy.graph != NULL && ggml_graph_n_nodes(copy.graph) == 2);
    CHECK_EQ(ggml_backend_graph_compute(b2, copy.graph), GGML_STATUS_SUCCESS);
    CHECK_NEAR(ggml_get_f32_1d(ggml_graph_node(copy.graph, 1), 63), 0.25, 0);
    ggml_backend_graph_copy_free(copy);
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    ggml_backend_free(b);
    ggml_backend_free(b2);
    ggml_free(s.c);
}

static void two_cpus(void) {
    ggml_backend_t both[2] = { ggml_backend_cpu_init(), ggml_backend_cpu_init() };
    ggml_backend_sched_t sched = ggml_backend_sched_new(both, NULL, 2, 128, false, true);
    CHECK(sched != NULL);
    for (int round = 0; round < 3; round++) {
        struct ggml_context * c = meta(1u << 18);
        struct ggml_tensor * x = random_input(c, 8, 4);
        struct ggml_tensor * y = ggml_sqr(c, x), *z = ggml_add(c, y, x), *r = ggml_sum(c, z);
        ggml_set_output(r);
        struct ggml_cgraph * g = ggml_new_graph_custom(c, 128, false);
        ggml_build_forward_expand(g, r);
        ggml_backend_sched_reset(sched);
        ggml_backend_sched_set_tensor_backend(sched, y, both[0]);
        ggml_backend_sched_set_tensor_backend(sched, z, both[1]);
        CHECK(ggml_backend_sched_alloc_graph(sched, g));
        CHECK(ggml_backend_sched_get_tensor_backend(sched, y) == both[0]);
        CHECK(ggml_backend_sched_get_n_splits(sched) >= 1);
        float in[32];
        for (int i = 0; i < 32; i++) { in[i] = (float) (round + 1); }
        ggml_backend_tensor_set(x, in, 0, sizeof in);
        CHECK_EQ(ggml_backend_sched_graph_compute_async(sched, g), GGML_STATUS_SUCCESS);
        ggml_backend_sched_synchronize(sched);
        float out = 0;
        ggml_backend_tensor_get(r, &out, 0, 4);
        CHECK_NEAR(out, 32 * ((round + 1) * (round + 1) + round + 1), 1e-3);
        ggml_free(c);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_sched_free(NULL);
    ggml_backend_free(both[0]);
    ggml_backend_free(both[1]);
}

int main(void) {
    RUN(registry);
    RUN(buffers);
    RUN(contexts_in_buffers);
    RUN(reuses_memory_rightly);
    RUN(plans_are_small);
    RUN(several_buffers);
    RUN(thread_pools);
    RUN(aborts_on_request);
    RUN(graph_plans);
    RUN(several_at_once);
    RUN(same_for_every_number_of_threads);
    RUN(copied_graphs);
    RUN(two_cpus);
    return test_summary();
}
