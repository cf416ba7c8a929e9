/* ggml-rs.h as a host uses it: the last error, broken contracts as errors, placement reports of a graph over two
 * devices, fallbacks, timelines. Writes reports and timelines into a folder, where check.py checks them.
 * usage: test_rs FOLDER */
#define ACCEL_STATIC
#include "../plugin/accel.c"

/* The list of calls that break the contract, and all that they need. */
#define main asserts_main
#include "../host/asserts.c"
#undef main

#include "../common/check.h"

#include "ggml-alloc.h"
#include "ggml-rs.h"

#include <pthread.h>

static const char * folder;
static char         heard[4096]; /* what the log said at warning level or above */

static void hear(enum ggml_log_level level, const char * line, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) {
        const size_t n = strlen(heard);
        snprintf(heard + n, sizeof heard - n, "%s", line);
    }
}

static const char * in_folder(const char * name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char * file_text(const char * path) {
    FILE * f    = fopen(path, "rb");
    char * text = calloc(1, 1 << 20);
    if (f == NULL || text == NULL) { return text; }
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

/* ---- errors ---- */

static void * other_thread(void * out) {
    *(bool *) out = ggml_rs_last_error()[0] == '\0';
    return NULL;
}

static void an_error_is_remembered_by_its_thread(void) {
    ggml_rs_clear_error();
    CHECK_STR(ggml_rs_last_error(), "");
    heard[0] = '\0';
    CHECK(ggml_backend_load("/nonexistent/module.so") == NULL);
    CHECK(strstr(ggml_rs_last_error(), "/nonexistent/module.so") != NULL);
    CHECK(strstr(heard, ggml_rs_last_error()) != NULL);
    bool      empty = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, &empty), 0);
    pthread_join(thread, NULL);
    CHECK(empty);
    CHECK(strchr(ggml_rs_last_error(), '\n') == NULL);
    ggml_rs_clear_error();
    CHECK_STR(ggml_rs_last_error(), "");
}

static void bad_add(void * user) {
    (void) user;
    const struct ggml_init_params params = { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = false };
    c = ggml_init(params);
    ggml_add(c, F(4, 3, 1, 1), F(3, 3, 1, 1));
}

static void a_broken_contract_ends_the_process_by_default(void) {
    CHECK_STR(child_verdict(child_run(bad_add, NULL)), "aborts");
}

static void every_broken_contract_can_be_an_error(void) {
#define X(label, ...) #label,
    static const char * labels[] = { LIST };
#undef X
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false };
    CHECK_EQ(ggml_rs_set_policy(GGML_RS_POLICY_ERROR), GGML_RS_POLICY_ABORT);
    for (int i = 0; i < (int) (sizeof labels / sizeof *labels); i++) {
        c = ggml_init(params);
        ggml_rs_clear_error();
        run_case(&i);
        if (ggml_rs_last_error()[0] == '\0') { test_fails(__FILE__, __LINE__, "no error: %s", labels[i]); }
        /* the context goes on */
        struct ggml_tensor * x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 4);
        struct ggml_tensor * y = ggml_sqr(c, x);
        struct ggml_cgraph * g = ggml_new_graph(c);
        CHECK(x != NULL && y != NULL && g != NULL);
        for (int k = 0; k < 4; k++) { ((float *) x->data)[k] = (float) k; }
        ggml_build_forward_expand(g, y);
        CHECK_EQ(ggml_graph_compute_with_ctx(c, g, 2), GGML_STATUS_SUCCESS);
        CHECK_NEAR(((float *) y->data)[3], 9.0, 0.0);
        ggml_free(c);
    }
    CHECK_EQ(ggml_rs_set_policy(GGML_RS_POLICY_ABORT), GGML_RS_POLICY_ERROR);
}

/* Ranges that end after a tensor are errors, even inside its buffer. */
static void ranges_outside_of_a_tensor_are_errors(void) {
    static const size_t wrong[][2] = { { 0, 65 }, { 64, 1 }, { 60, 8 }, { SIZE_MAX, 1 }, { 8, SIZE_MAX - 4 }, { SIZE_MAX - 3, 8 } };
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 14, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x = F(16, 1, 1, 1), *behind = F(16, 1, 1, 1);
    ggml_backend_t        cpu    = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(c, cpu);
    ggml_backend_buffer_clear(buffer, 1);
    char bytes[256], more[64];
    memset(bytes, 2, sizeof bytes);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const size_t at = wrong[i][0], size = wrong[i][1];
        for (int way = 0; way < 4; way++) {
            ggml_rs_clear_error();
            switch (way) {
                case 0: ggml_backend_tensor_set(x, bytes, at, size); break;
                case 1: ggml_backend_tensor_get(x, bytes, at, size); break;
                case 2: ggml_backend_tensor_memset(x, 2, at, size); break;
                default: ggml_backend_tensor_set_2d(x, bytes, at, 1, 2, size, 1); break;
            }
            if (strstr(ggml_rs_last_error(), "out of bounds") == NULL && strstr(ggml_rs_last_error(), "overflow") == NULL) { test_fails(__FILE__, __LINE__, "%zu bytes at %zu, way %d: %s", size, at, way, ggml_rs_last_error()); }
        }
    }
    ggml_backend_tensor_get(behind, more, 0, sizeof more);
    for (size_t i = 0; i < sizeof more; i++) { CHECK_EQ(more[i], 1); }
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(cpu);
    ggml_free(c);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
}

static void a_call_inside_a_callback(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) ith; (void) nth;
    ggml_rs_clear_error();
    *(bool *) user = ggml_sqr(NULL, NULL) == NULL && ggml_rs_last_error()[0] != '\0';
    memcpy(dst->data, a->data, ggml_nbytes(a));
}

static void a_mistake_inside_a_callback_fails_there(void) {
    const struct ggml_init_params params = { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false };
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    c = ggml_init(params);
    bool seen = false;
    struct ggml_tensor * x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 4);
    memset(x->data, 0, ggml_nbytes(x));
    struct ggml_tensor * y = ggml_map_custom1(c, x, a_call_inside_a_callback, 1, &seen);
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    CHECK_EQ(ggml_graph_compute_with_ctx(c, g, 1), GGML_STATUS_SUCCESS);
    CHECK(seen);
    ggml_free(c);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
}

/* ---- a graph over two devices ---- */

enum { N = 16, COLUMNS = 3 };

struct world {
    ggml_backend_t        backends[2];
    ggml_backend_sched_t  sched;
    struct ggml_context * weights;
    struct ggml_context * c;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  x, *out;
    struct ggml_cgraph *  graph;
};

static bool failing; /* the accelerator loses its device in the middle */

static enum ggml_status compute_or_fail(ggml_backend_t b, struct ggml_cgraph * g) {
    return failing ? GGML_STATUS_FAILED : backend_compute(b, g);
}

static void world_graph(struct world * w) {
    const struct ggml_init_params params = { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true };
    w->c = ggml_init(params);
    w->x = ggml_set_name(ggml_new_tensor_2d(w->c, GGML_TYPE_F32, N, COLUMNS), "</script><b>\"in\\put\"");
    ggml_set_input(w->x);
    struct ggml_tensor * y = w->x;
    for (int i = 0; i < 4; i++) {
        struct ggml_tensor * m = ggml_get_tensor(w->weights, i % 2 == 0 ? "w0" : "w1");
        y = ggml_format_name(ggml_mul_mat(w->c, m, y), "product-%d", i);
        y = ggml_format_name(ggml_scale(w->c, y, 0.5f), "half-%d", i); /* not for the accelerator */
    }
    w->out = ggml_set_name(ggml_sqr(w->c, y), "out");
    ggml_set_output(w->out);
    w->graph = ggml_new_graph(w->c);
    ggml_build_forward_expand(w->graph, w->out);
}

static void world_begin(struct world * w) {
    memset(w, 0, sizeof *w);
    const struct ggml_init_params params = { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = true };
    w->backends[0] = ggml_backend_dev_init(the_device(), NULL);
    w->backends[0]->iface.graph_compute = compute_or_fail;
    w->backends[1] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    w->sched       = ggml_backend_sched_new(w->backends, NULL, 2, 64, false, true);
    w->weights     = ggml_init(params);
    for (int i = 0; i < 2; i++) { ggml_format_name(ggml_new_tensor_2d(w->weights, GGML_TYPE_F32, N, N), "w%d", i); }
    w->buffer = ggml_backend_alloc_ctx_tensors(w->weights, w->backends[0]);
    ggml_backend_buffer_set_usage(w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    float m[N * N];
    for (int i = 0; i < N * N; i++) { m[i] = i % (N + 1) == 0 ? 2.0f : 0.0f; }
    for (int i = 0; i < 2; i++) { ggml_backend_tensor_set(ggml_get_tensor(w->weights, i == 0 ? "w0" : "w1"), m, 0, sizeof m); }
    world_graph(w);
}

/* allocates and computes: the result is the square of the input */
static enum ggml_status world_run(struct world * w) {
    float x[N * COLUMNS], out[N * COLUMNS];
    for (int i = 0; i < N * COLUMNS; i++) { x[i] = (float) i; }
    if (!ggml_backend_sched_alloc_graph(w->sched, w->graph)) { return GGML_STATUS_ALLOC_FAILED; }
    ggml_backend_tensor_set(w->x, x, 0, sizeof x);
    const enum ggml_status status = ggml_backend_sched_graph_compute(w->sched, w->graph);
    if (status == GGML_STATUS_SUCCESS) {
        ggml_backend_tensor_get(w->out, out, 0, sizeof out);
        for (int i = 0; i < N * COLUMNS; i++) { CHECK_NEAR(out[i], x[i] * x[i], 1e-3); }
    }
    return status;
}

static void world_again(struct world * w) {
    ggml_backend_sched_reset(w->sched);
    ggml_free(w->c);
    world_graph(w);
}

static void world_end(struct world * w) {
    ggml_backend_sched_free(w->sched);
    ggml_free(w->c);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->weights);
    ggml_backend_free(w->backends[0]);
    ggml_backend_free(w->backends[1]);
}

static void a_scheduler_outlives_mistakes_and_failures(void) {
    struct world w;
    world_begin(&w);
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    CHECK(!ggml_backend_sched_alloc_graph(NULL, w.graph));
    CHECK(!ggml_backend_sched_alloc_graph(w.sched, NULL));
    CHECK(!ggml_backend_sched_reserve(w.sched, NULL));
    CHECK_EQ(ggml_backend_sched_graph_compute(w.sched, NULL), GGML_STATUS_FAILED);
    CHECK_EQ(ggml_backend_sched_graph_compute_async(NULL, w.graph), GGML_STATUS_FAILED);
    CHECK(ggml_backend_sched_new(NULL, NULL, 0, 16, false, false) == NULL);
    CHECK(ggml_backend_sched_new(w.backends, NULL, 1, 16, false, false) == NULL); /* the last one is no CPU */
    CHECK(strstr(ggml_rs_last_error(), "CPU") != NULL);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    CHECK(!ggml_backend_sched_alloc_graph(w.sched, w.graph)); /* it is allocated already */
    CHECK(strstr(ggml_rs_last_error(), "reset") != NULL);
    world_again(&w);
    failing = true;
    CHECK_EQ(world_run(&w), GGML_STATUS_FAILED);
    failing = false;
    world_again(&w);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
    world_end(&w);
    CHECK_EQ(stats.live_buffers, 0);
    CHECK_EQ(stats.live_backends, 0);
}

static int fail_at; /* the accelerator's k-th allocation from now on fails; 0: none */

static ggml_backend_buffer_t alloc_or_fail(ggml_backend_buffer_type_t type, size_t size) {
    return fail_at > 0 && --fail_at == 0 ? NULL : type_alloc(type, size);
}

static void any_allocation_may_fail(void) {
    for (int reserve = 0; reserve < 2; reserve++) {
        bool failed = true;
        for (int k = 1; failed; k++) {
            CHECK(k < 20);
            struct world w;
            world_begin(&w);
            const int live = stats.live_buffers;
            the_type()->iface.alloc_buffer = alloc_or_fail;
            ggml_rs_clear_error();
            fail_at = k;
            if (reserve) {
                failed = !ggml_backend_sched_reserve(w.sched, w.graph);
            } else {
                failed = ggml_backend_sched_graph_compute(w.sched, w.graph) == GGML_STATUS_ALLOC_FAILED;
            }
            fail_at = 0;
            CHECK(k > 1 || failed);
            CHECK(!failed || (ggml_rs_last_error()[0] != '\0' && stats.live_buffers == live));
            world_again(&w);
            CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
            the_type()->iface.alloc_buffer = type_alloc;
            world_end(&w);
            CHECK_EQ(stats.live_buffers, 0);
            if (test_why[0] != '\0') { return; }
        }
    }
}

/* Without any policy: errors that hosts can recover from never end the process. */
static void a_lost_backend_is_an_error_with_a_text(void) {
    struct world w;
    world_begin(&w);
    ggml_rs_clear_error();
    heard[0] = '\0';
    failing  = true;
    CHECK_EQ(world_run(&w), GGML_STATUS_FAILED);
    failing = false;
    CHECK(strstr(ggml_rs_last_error(), "Accel0") != NULL);
    CHECK(strstr(heard, "Accel0") != NULL);
    world_again(&w);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    world_end(&w);
}

/* Without the machine's free memory, which changes meanwhile. */
static char * without_free_memory(char * json) {
    static const char key[] = "free_bytes\":";
    for (char * at = json; at != NULL && (at = strstr(at, key)) != NULL;) {
        at += sizeof key - 1;
        const char * after = at + strspn(at, " 0123456789");
        memmove(at, after, strlen(after) + 1);
    }
    return json;
}

static void a_report_says_what_is_where(void) {
    struct world w;
    world_begin(&w);
    ggml_rs_clear_error();
    CHECK(ggml_rs_sched_report(w.sched, GGML_RS_FORMAT_JSON) == NULL);
    CHECK(strstr(ggml_rs_last_error(), "no graph is split") != NULL);
    CHECK(!ggml_rs_sched_write_report(w.sched, GGML_RS_FORMAT_HTML, in_folder("none.html")));
    CHECK_EQ(ggml_rs_sched_fallbacks(w.sched, NULL, 0), 0);
    ggml_backend_sched_split_graph(w.sched, w.graph);
    CHECK(ggml_rs_sched_write_report(w.sched, GGML_RS_FORMAT_JSON, in_folder("split.json")));
    world_again(&w);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    char * json = ggml_rs_sched_report(w.sched, GGML_RS_FORMAT_JSON);
    char * html = ggml_rs_sched_report(w.sched, GGML_RS_FORMAT_HTML);
    CHECK(json != NULL && json[0] == '{' && strstr(json, "product-3") != NULL);
    CHECK(html != NULL && strstr(html, "product-3") != NULL && strstr(html, "</script><b>") == NULL);
    CHECK(ggml_rs_sched_write_report(w.sched, GGML_RS_FORMAT_JSON, in_folder("report.json")));
    CHECK(ggml_rs_sched_write_report(w.sched, GGML_RS_FORMAT_HTML, in_folder("report.html")));
    CHECK(!ggml_rs_sched_write_report(w.sched, GGML_RS_FORMAT_HTML, "/nonexistent/report.html"));
    CHECK(strstr(ggml_rs_last_error(), "/nonexistent/report.html") != NULL);
    char * file = file_text(in_folder("report.json"));
    CHECK(json != NULL && file != NULL && strcmp(without_free_memory(json), without_free_memory(file)) == 0);
    free(file);
    ggml_rs_string_free(json);
    ggml_rs_string_free(html);
    ggml_rs_string_free(NULL);
    ggml_backend_sched_reset(w.sched);
    CHECK(ggml_rs_sched_report(w.sched, GGML_RS_FORMAT_JSON) == NULL);
    world_end(&w);
}

static void what_falls_back_to_the_cpu_is_said(void) {
    struct world w;
    world_begin(&w);
    heard[0] = '\0';
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    const char * first = strstr(heard, "SCALE");
    CHECK(first != NULL && strstr(heard, "Accel0") != NULL && strstr(heard, "SQR") != NULL);
    struct ggml_rs_fallback list[8];
    CHECK_EQ(ggml_rs_sched_fallbacks(w.sched, list, 2), 5);
    CHECK_EQ(ggml_rs_sched_fallbacks(w.sched, list, 8), 5);
    for (int i = 0; i < 5; i++) {
        CHECK_STR(list[i].node->name, i == 4 ? "out" : ggml_get_name(list[i].node));
        CHECK_EQ(list[i].cause, GGML_RS_FALLBACK_UNSUPPORTED);
        CHECK(strstr(list[i].reason, i == 4 ? "SQR" : "SCALE") != NULL && strstr(list[i].reason, "Accel0") != NULL);
    }
    /* once, not for every graph */
    heard[0] = '\0';
    world_again(&w);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    CHECK(strstr(heard, "SCALE") == NULL);
    world_again(&w);
    ggml_backend_sched_set_tensor_backend(w.sched, ggml_graph_node(w.graph, 0), w.backends[1]);
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    CHECK_EQ(ggml_rs_sched_fallbacks(w.sched, list, 8), 6);
    CHECK_EQ(list[0].cause, GGML_RS_FALLBACK_HOST);
    world_end(&w);
}

/* ---- timelines ---- */

static void a_timeline_is_written_while_it_is_wanted(void) {
    struct world w;
    world_begin(&w);
    CHECK(ggml_rs_trace_stop());
    CHECK(!ggml_rs_trace_start(NULL));
    CHECK(!ggml_rs_trace_start("/nonexistent/trace.json"));
    CHECK(strstr(ggml_rs_last_error(), "/nonexistent/trace.json") != NULL);
    CHECK(ggml_rs_trace_start(in_folder("trace.json")));
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
        world_again(&w);
    }
    CHECK(ggml_rs_trace_stop());
    CHECK_EQ(world_run(&w), GGML_STATUS_SUCCESS);
    char * text = file_text(in_folder("trace.json"));
    CHECK(text != NULL && strstr(text, "product-1") != NULL && strstr(text, "\"cat\":\"copy\"") != NULL && strstr(text, "\"cat\":\"split\"") != NULL);
    free(text);
    world_end(&w);
}

/* ---- limits of RPC servers ---- */

static void limits_of_servers_are_checked(void) {
    static const char * const names[] = { "memory", "client-memory", "client-work", "clients", "per-address", "idle", "graph-time", "cache-limit" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK(ggml_rs_set_rpc_server_limit(names[i], 4096));
        ggml_rs_clear_error();
        CHECK(!ggml_rs_set_rpc_server_limit(names[i], 0));
        CHECK(strstr(ggml_rs_last_error(), names[i]) != NULL);
        CHECK(!ggml_rs_set_rpc_server_limit(names[i], UINT64_MAX));
    }
    CHECK(!ggml_rs_set_rpc_server_limit("speed", 1));
    CHECK(strstr(ggml_rs_last_error(), "speed") != NULL && strstr(ggml_rs_last_error(), "cache-limit") != NULL);
    CHECK(!ggml_rs_set_rpc_server_limit(NULL, 1));
}

/* Ends without freeing anything: normally, by a broken contract, or killed. */
static void leave_in_the_middle(void * user) {
    struct world w;
    char         name[64];
    const int    way = *(const int *) user;
    snprintf(name, sizeof name, "trace-way%d.json", way);
    ggml_rs_trace_start(in_folder(name));
    world_begin(&w);
    world_run(&w);
    if (way == 0) { exit(0); }
    if (way == 1) { ggml_sqr(NULL, NULL); }
    end_by_signal(SIGKILL);
}

static void a_timeline_survives_every_end(void) {
    int way = 0;
    CHECK_EQ(child_run(leave_in_the_middle, &way), 0);
    way = 1;
    CHECK_EQ(child_run(leave_in_the_middle, &way), CHILD_HEARD);
    way = 2;
    CHECK_EQ(child_run(leave_in_the_middle, &way), -SIGKILL);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: test_rs FOLDER\n");
        return 2;
    }
    folder = argv[1];
    RUN(a_broken_contract_ends_the_process_by_default);
    RUN(a_timeline_survives_every_end); /* children first: no thread of ours runs yet */
    ggml_log_set(hear, NULL);
    RUN(an_error_is_remembered_by_its_thread);
    RUN(every_broken_contract_can_be_an_error);
    RUN(ranges_outside_of_a_tensor_are_errors);
    RUN(a_mistake_inside_a_callback_fails_there);
    RUN(a_scheduler_outlives_mistakes_and_failures);
    RUN(a_lost_backend_is_an_error_with_a_text);
    RUN(any_allocation_may_fail);
    RUN(a_report_says_what_is_where);
    RUN(what_falls_back_to_the_cpu_is_said);
    RUN(a_timeline_is_written_while_it_is_wanted);
    RUN(limits_of_servers_are_checked);
    return test_summary();
}
