/* Log callbacks that call the library again, timelines of programs that fork, and names from files that get into a
 * log. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rs.h"
#include "gguf.h"

#include <dlfcn.h>
#include <stdint.h>

/* ---- timelines ---- */

static bool stopped; /* by the callback */

static void stop_when_it_fails(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) user;
    if (strstr(text, "tracing stopped") != NULL) {
        ggml_rs_trace_stop();
        stopped = true;
    }
}

/* computes `n` times a node with this name */
static void compute(const char * name, int n) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor *  x = ggml_set_zero(ggml_new_tensor_1d(c, GGML_TYPE_F32, 16));
    struct ggml_cgraph *  g = ggml_new_graph(c);
    ggml_build_forward_expand(g, ggml_set_name(ggml_sqr(c, x), name));
    struct ggml_cplan plan = ggml_graph_plan(g, 1, NULL);
    plan.work_data         = malloc(plan.work_size + 1);
    for (int i = 0; i < n; i++) {
        if (ggml_graph_compute(g, &plan) != GGML_STATUS_SUCCESS) { _exit(90); }
    }
    free(plan.work_data);
    ggml_free(c);
}

static void trace_into_a_small_file(void * path) {
    alarm(20);
    signal(SIGXFSZ, SIG_IGN);
    if (!ggml_rs_trace_start((const char *) path)) { _exit(91); }
    const struct rlimit small = { 4096, 4096 };
    setrlimit(RLIMIT_FSIZE, &small);
    ggml_log_set(stop_when_it_fails, NULL);
    for (int i = 0; i < 10000 && !stopped; i++) { compute("node", 100); }
    _exit(stopped ? 0 : 92);
}

static char trace_path[64];

static void a_callback_may_stop_the_trace_that_failed(void) {
    snprintf(trace_path, sizeof trace_path, "/tmp/ggml-robust-%d.json", (int) getpid());
    CHECK_EQ(child_run(trace_into_a_small_file, trace_path), 0);
    remove(trace_path);
}

static char * file_text(const char * path) {
    FILE * f    = fopen(path, "rb");
    char * text = calloc(1, 1 << 20);
    if (f != NULL && text != NULL) {
        const size_t n = fread(text, 1, (1 << 20) - 1, f);
        text[n]        = '\0';
    }
    if (f != NULL) { fclose(f); }
    return text;
}

static void child_computes(void) {
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        compute("of the child", 200);
        exit(0); /* with the functions of atexit, which write what is pending */
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void trace_beside_a_child(void * path) {
    if (!ggml_rs_trace_start((const char *) path)) { _exit(91); }
    compute("before the fork", 3);
    child_computes();
    compute("after the fork", 3);
    const bool complete = ggml_rs_trace_stop();
    if (test_why[0] != '\0') { _exit(93); }
    _exit(complete ? 0 : 94);
}

static int occurrences(const char * text, const char * word) {
    int n = 0;
    for (const char * at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) { n++; }
    return n;
}

static void a_child_leaves_its_parents_trace_alone(void) {
    snprintf(trace_path, sizeof trace_path, "/tmp/ggml-robust-%d.json", (int) getpid());
    CHECK_EQ(child_run(trace_beside_a_child, trace_path), 0);
    char *       text = file_text(trace_path);
    const size_t n    = strlen(text);
    CHECK_EQ(occurrences(text, "before the fork"), 3);
    CHECK_EQ(occurrences(text, "after the fork"), 3);
    CHECK_EQ(occurrences(text, "of the child"), 0);
    CHECK_EQ(occurrences(text, "]}"), 1);
    CHECK(n > 4 && strcmp(text + n - 4, "\n]}\n") == 0);
    int braces = 0;
    for (const char * p = text; *p != '\0'; p++) { braces += (*p == '{') - (*p == '}'); }
    CHECK_EQ(braces, 0);
    free(text);
    remove(trace_path);
}

static void trace_by_the_variable(void * unused) {
    (void) unused;
    char path[64], name[80];
    snprintf(path, sizeof path, "/tmp/ggml-robust-%d-", (int) getpid());
    snprintf(name, sizeof name, "%s%%p.json", path);
    setenv("GGML_TRACE", name, 1);
    compute("of the parent", 3);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        compute("of the child", 4); /* here the library sees that it is in a child */
        compute("of the child", 3);
        exit(0);
    }
    int status = 1;
    if (waitpid(pid, &status, 0) != pid || status != 0) { _exit(95); }
    if (!ggml_rs_trace_stop()) { _exit(96); }
    snprintf(name, sizeof name, "%s%d.json", path, (int) getpid());
    char * text = file_text(name);
    if (occurrences(text, "of the parent") != 3 || occurrences(text, "of the child") != 0) { _exit(97); }
    remove(name);
    snprintf(name, sizeof name, "%s%d.json", path, (int) pid);
    text = file_text(name);
    if (occurrences(text, "of the parent") != 0 || occurrences(text, "of the child") < 3) { _exit(98); }
    remove(name);
    _exit(0);
}

static void a_child_may_have_a_trace_of_its_own(void) {
    CHECK_EQ(child_run(trace_by_the_variable, NULL), 0);
}

/* ---- the registry ---- */

static int seen_regs = -1, seen_lines;

static void ask_the_registry(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) text; (void) user;
    seen_lines++;
    seen_regs = (int) ggml_backend_reg_count();
    ggml_backend_dev_by_name("CPU");
}

static void first_use(void * unused) {
    (void) unused;
    alarm(10);
    setenv("GGML_DISABLE_VULKAN", "1", 1); /* which the library mentions while it fills the registry */
    ggml_log_set(ask_the_registry, NULL);
    const size_t devices = ggml_backend_dev_count();
    ggml_log_set(child_quiet, NULL);
    if (devices == 0 || ggml_backend_dev_by_name("CPU") == NULL) { _exit(91); }
    _exit(seen_lines > 0 && seen_regs > 0 ? 0 : 92);
}

/* The other order: the Vulkan backend is used first. */
static void first_use_of_vulkan(void * unused) {
    (void) unused;
    union { void * object; void * (*function)(void); } reg = { .object = dlsym(RTLD_DEFAULT, "ggml_backend_vk_reg") };
    if (reg.object == NULL) { _exit(0); } /* a library without Vulkan */
    alarm(10);
    setenv("GGML_DISABLE_VULKAN", "1", 1);
    ggml_log_set(ask_the_registry, NULL);
    reg.function();
    ggml_log_set(child_quiet, NULL);
    _exit(seen_lines > 0 && seen_regs > 0 ? 0 : 92);
}

static void a_callback_may_ask_the_registry_while_it_is_filled(void) {
    CHECK_EQ(child_run(first_use, NULL), 0);
    CHECK_EQ(child_run(first_use_of_vulkan, NULL), 0);
}

/* ---- names ---- */

static const char hostile[] = "\033]0;owned\007\nerror: all is lost\r\033[2J\xc2\x9b" "31m\x7f";

static int lines_heard;

static void no_controls(const char * text) {
    const size_t n = strlen(text);
    lines_heard++;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char) text[i];
        const bool c1 = c == 0xC2 && (unsigned char) text[i + 1] < 0xA0;
        if ((c < 0x20 && c != '\t' && !(c == '\n' && i + 1 == n)) || c == 0x7F || c1) { test_fails(__FILE__, __LINE__, "byte %02x at %zu of a log line", c, i); }
    }
}

static void hear(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) user;
    no_controls(text);
}

static void hear_the_end(const char * text) {
    no_controls(text);
    _exit(test_why[0] != '\0' ? 1 : strstr(text, "owned") != NULL ? 0 : 2);
}

static struct ggml_tensor * named(struct ggml_tensor * t) {
    return ggml_set_name(t, hostile);
}

static void a_tensor_twice(void * tensor) {
    ggml_set_abort_callback(hear_the_end);
    struct gguf_context * g = gguf_init_empty();
    gguf_add_tensor(g, (const struct ggml_tensor *) tensor);
    gguf_add_tensor(g, (const struct ggml_tensor *) tensor);
}

static void names_do_not_drive_the_terminal(void) {
    setenv("GGML_SCHED_DEBUG", "2", 1);
    ggml_log_set(hear, NULL);
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  x = named(ggml_new_tensor_1d(c, GGML_TYPE_F32, 8));
    ggml_set_input(x);
    struct ggml_tensor * y = named(ggml_sqr(c, x));
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, y);
    lines_heard = 0;
    ggml_graph_print(g);
    ggml_print_objects(c);
    ggml_graph_dump_dot(g, NULL, "/nonexistent/\033[31m\nfile");
    CHECK(lines_heard > 5);
    lines_heard = 0;
    ggml_backend_t       backend = ggml_backend_cpu_init();
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    CHECK(ggml_backend_sched_alloc_graph(sched, g));
    CHECK(lines_heard >= 3);
    lines_heard = 0;
    y->op = (enum ggml_op) 77777; /* and errors that name a tensor */
    CHECK_EQ(ggml_backend_graph_compute(backend, g), GGML_STATUS_FAILED);
    CHECK(lines_heard > 0 && strstr(ggml_rs_last_error(), "owned") != NULL);
    no_controls(ggml_rs_last_error());
    lines_heard = 0;
    CHECK(gguf_init_from_file(hostile, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL }) == NULL);
    CHECK(ggml_backend_load(hostile) == NULL);
    CHECK(lines_heard >= 2);
    CHECK_EQ(child_run(a_tensor_twice, x), 0);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_free(c);
    ggml_log_set(NULL, NULL);
}

int main(void) {
    RUN(a_callback_may_ask_the_registry_while_it_is_filled); /* before this process has a registry */
    RUN(a_callback_may_stop_the_trace_that_failed);
    RUN(a_child_leaves_its_parents_trace_alone);
    RUN(a_child_may_have_a_trace_of_its_own);
    RUN(names_do_not_drive_the_terminal);
    return test_summary();
}
