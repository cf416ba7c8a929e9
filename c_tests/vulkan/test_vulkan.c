/* The Vulkan backend through the public interface: devices, buffers, computing, events, threads, too much memory, and
 * backends made and freed a hundred times. Needs a driver: GGML_VK_VISIBLE_DEVICES=0 names it. */
#include "check.h"
#include "resident.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-vulkan.h"
#include "ggml.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

enum { N = 5000 };

static ggml_backend_dev_t device(void) {
    return ggml_backend_dev_by_name("Vulkan0");
}

static float number(unsigned seed, int i) {
    return (float) ((seed * 2654435761u + (unsigned) i * 40503u) >> 8 & 0xffff) / 65536.0f - 0.5f;
}

/* x * 2 + y, ten times over, in one graph; NULL or what went wrong. */
static const char * compute(ggml_backend_t backend, unsigned seed) {
    static _Thread_local char why[200];
    struct ggml_init_params   params = { ggml_tensor_overhead() * 64 + ggml_graph_overhead(), NULL, true };
    struct ggml_context *     ctx    = ggml_init(params);
    struct ggml_tensor *      x      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor *      y      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor *      t      = x;
    for (int i = 0; i < 10; i++) {
        t = ggml_add(ctx, ggml_scale(ctx, t, 0.5f), y);
    }
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, t);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    why[0] = '\0';
    if (buffer == NULL) {
        ggml_free(ctx);
        return "no buffer";
    }
    static _Thread_local float a[N], b[N], out[N];
    for (int i = 0; i < N; i++) {
        a[i] = number(seed, i);
        b[i] = number(seed + 1, i);
    }
    ggml_backend_tensor_set_async(backend, x, a, 0, sizeof a);
    ggml_backend_tensor_set_async(backend, y, b, 0, sizeof b);
    const enum ggml_status status = ggml_backend_graph_compute_async(backend, graph);
    ggml_backend_tensor_get_async(backend, t, out, 0, sizeof out);
    ggml_backend_synchronize(backend);
    if (status != GGML_STATUS_SUCCESS) {
        snprintf(why, sizeof why, "status %d", (int) status);
    }
    for (int i = 0; i < N && why[0] == '\0'; i++) {
        float want = a[i];
        for (int k = 0; k < 10; k++) {
            want = want * 0.5f + b[i];
        }
        const float off = out[i] - want;
        if (!(off < 1e-5f && off > -1e-5f)) {
            snprintf(why, sizeof why, "element %d is %g, expected %g", i, out[i], want);
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return why[0] == '\0' ? NULL : why;
}

static void devices_are_listed(void) {
    CHECK(ggml_backend_vk_get_device_count() >= 1);
    CHECK(device() != NULL);
    CHECK_STR(ggml_backend_reg_name(ggml_backend_vk_reg()), "Vulkan");
    CHECK(ggml_backend_reg_by_name("vulkan") == ggml_backend_vk_reg());
    char text[256] = "x", two[4] = "abc";
    ggml_backend_vk_get_device_description(0, text, sizeof text);
    CHECK_STR(text, ggml_backend_dev_description(device()));
    ggml_backend_vk_get_device_description(0, two, 3);
    CHECK(strlen(two) == 2 && strncmp(two, text, 2) == 0);
    ggml_backend_vk_get_device_description(99, text, sizeof text);
    CHECK_STR(text, "");
    size_t free = 0, total = 0;
    ggml_backend_vk_get_device_memory(0, &free, &total);
    CHECK(free > 0 && total >= free);
    CHECK(ggml_backend_vk_buffer_type(0) == ggml_backend_dev_buffer_type(device()));
    CHECK(ggml_backend_vk_buffer_type(99) == NULL && ggml_backend_vk_init(99) == NULL);
    CHECK_STR(ggml_backend_buft_name(ggml_backend_vk_buffer_type(0)), "Vulkan0");
    CHECK_STR(ggml_backend_buft_name(ggml_backend_vk_host_buffer_type()), "Vulkan_Host");
    CHECK(ggml_backend_buft_is_host(ggml_backend_vk_host_buffer_type()));
    CHECK(!ggml_backend_is_vk(NULL));
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device(), &props);
    CHECK(props.caps.async && props.caps.events && props.caps.host_buffer);
}

static void a_graph_is_computed(void) {
    ggml_backend_t backend = ggml_backend_vk_init(0);
    CHECK(backend != NULL && ggml_backend_is_vk(backend));
    for (unsigned seed = 0; seed < 20; seed++) {
        const char * why = compute(backend, seed);
        if (why != NULL) { test_fails(__FILE__, __LINE__, "%s", why); }
    }
    ggml_backend_free(backend);
}

static void a_hundred_backends_leave_nothing(void) {
    long before = 0;
    for (int i = 0; i < 110; i++) {
        if (i == 10) { before = resident_kib(); }
        ggml_backend_t backend = ggml_backend_dev_init(device(), NULL);
        const char *   why     = backend == NULL ? "no backend" : compute(backend, (unsigned) i);
        if (why != NULL) { test_fails(__FILE__, __LINE__, "round %d: %s", i, why); }
        ggml_backend_event_t event = ggml_backend_event_new(device());
        ggml_backend_event_record(event, backend);
        ggml_backend_event_synchronize(event);
        ggml_backend_event_free(event);
        ggml_backend_free(backend);
    }
    const long grown = resident_kib() - before;
    if (grown > 16 << 10) { test_fails(__FILE__, __LINE__, "%ld KiB more after 100 rounds", grown); }
}

static void * thread_works(void * seed) {
    for (unsigned round = 0; round < 8; round++) {
        ggml_backend_t backend = ggml_backend_dev_init(device(), NULL);
        if (backend == NULL) { return "no backend"; }
        for (unsigned i = 0; i < 3; i++) {
            const char * why = compute(backend, (unsigned) (uintptr_t) seed + 100 * round + i);
            if (why != NULL) { return strdup(why); }
        }
        ggml_backend_free(backend);
    }
    return NULL;
}

static void threads_have_contexts_of_their_own(void) {
    pthread_t threads[6];
    for (uintptr_t i = 0; i < 6; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread_works, (void *) (i * 1000)) == 0);
    }
    for (int i = 0; i < 6; i++) {
        void * why = NULL;
        pthread_join(threads[i], &why);
        if (why != NULL) { test_fails(__FILE__, __LINE__, "thread %d: %s", i, (char *) why); }
    }
}

static void too_much_memory_is_refused(void) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(device());
    CHECK(ggml_backend_buft_alloc_buffer(type, (size_t) 1 << 46) == NULL);
    ggml_backend_t       backend = ggml_backend_vk_init(0);
    struct ggml_context * ctx    = ggml_init((struct ggml_init_params) { ggml_tensor_overhead() * 8, NULL, true });
    ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 1 << 20, 1 << 20, 64, 1);
    CHECK(ggml_backend_alloc_ctx_tensors(ctx, backend) == NULL);
    /* larger than any buffer: no op is promised */
    struct ggml_tensor * big = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 1 << 20, 1 << 20, 64, 1);
    CHECK(!ggml_backend_dev_supports_op(device(), ggml_scale(ctx, big, 2.0f)));
    ggml_free(ctx);
    const char * why = compute(backend, 7);
    if (why != NULL) { test_fails(__FILE__, __LINE__, "afterwards: %s", why); }
    ggml_backend_free(backend);
}

static void two_streams_take_turns(void) {
    ggml_backend_t        one  = ggml_backend_vk_init(0), two = ggml_backend_vk_init(0);
    ggml_backend_event_t  ping = ggml_backend_event_new(device()), pong = ggml_backend_event_new(device());
    struct ggml_context * ctx  = ggml_init((struct ggml_init_params) { ggml_tensor_overhead() * 8 + ggml_graph_overhead() * 4, NULL, true });
    struct ggml_tensor *  x    = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor *  up   = ggml_scale_bias_inplace(ctx, x, 1.0f, 1.0f);
    struct ggml_tensor *  dbl  = ggml_scale_bias_inplace(ctx, x, 2.0f, 0.0f);
    struct ggml_cgraph *  add  = ggml_new_graph_custom(ctx, 8, false);
    struct ggml_cgraph *  mul  = ggml_new_graph_custom(ctx, 8, false);
    ggml_build_forward_expand(add, up);
    ggml_build_forward_expand(mul, dbl);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, one);
    CHECK(buffer != NULL && ping != NULL && pong != NULL);
    static float out[N];
    for (int round = 0; round < 20; round++) {
        memset(out, 0, sizeof out);
        ggml_backend_tensor_set(x, out, 0, sizeof out);
        for (int k = 0; k < 10; k++) { /* x = (x + 1) * 2: order matters */
            CHECK_EQ(ggml_backend_graph_compute_async(one, add), GGML_STATUS_SUCCESS);
            ggml_backend_event_record(ping, one);
            ggml_backend_event_wait(two, ping);
            CHECK_EQ(ggml_backend_graph_compute_async(two, mul), GGML_STATUS_SUCCESS);
            ggml_backend_event_record(pong, two);
            ggml_backend_event_wait(one, pong);
        }
        ggml_backend_event_synchronize(pong);
        ggml_backend_tensor_get(x, out, 0, sizeof out);
        CHECK_EQ(out[0], 2046);
        CHECK_EQ(out[N - 1], 2046);
        ggml_backend_synchronize(one);
        ggml_backend_synchronize(two);
    }
    ggml_backend_event_free(ping);
    ggml_backend_event_free(pong);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(one);
    ggml_backend_free(two);
}

/* Ten thousand nodes in one graph: submitted in pieces, and right. */
static void a_long_graph_is_computed(void) {
    enum { NODES = 10000 };
    ggml_backend_t        backend = ggml_backend_vk_init(0);
    struct ggml_context * ctx =
        ggml_init((struct ggml_init_params) { ggml_tensor_overhead() * (NODES + 8) + ggml_graph_overhead_custom(NODES + 8, false), NULL, true });
    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64), * t = x;
    for (int i = 0; i < NODES; i++) {
        t = ggml_scale_bias_inplace(ctx, t, 1.0f, 1.0f);
    }
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, NODES + 8, false);
    ggml_build_forward_expand(graph, t);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(buffer != NULL);
    float out[64] = { 0 };
    ggml_backend_tensor_set(x, out, 0, sizeof out);
    CHECK_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(t, out, 0, sizeof out);
    CHECK_EQ(out[0], NODES);
    CHECK_EQ(out[63], NODES);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
}

/* With names, runs only those tests; with "none", only checks whether there is a device. */
int main(int argc, char ** argv) {
    if (device() == NULL) {
        printf("FAIL no Vulkan device: is there a driver, and GGML_VK_VISIBLE_DEVICES=0?\n0 passed, 1 failed\n");
        return 1;
    }
#define CHOSEN(test)                                                                                        \
    do {                                                                                                    \
        bool chosen = argc < 2;                                                                             \
        for (int i = 1; i < argc; i++) { chosen = chosen || strcmp(argv[i], #test) == 0; }                  \
        if (chosen) { RUN(test); }                                                                          \
    } while (0)
    CHOSEN(devices_are_listed);
    CHOSEN(a_graph_is_computed);
    CHOSEN(a_hundred_backends_leave_nothing);
    CHOSEN(threads_have_contexts_of_their_own);
    CHOSEN(too_much_memory_is_refused);
    CHOSEN(two_streams_take_turns);
    CHOSEN(a_long_graph_is_computed);
    return test_summary();
}
