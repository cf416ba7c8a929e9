/* A broken contract ends the process, or reaches the abort callback, in every state of the host's streams. Training
 * goes on if its progress cannot be written. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"

#include <fcntl.h>
#include <pthread.h>

static int broken_pipe(void) {
    int ends[2];
    if (pipe(ends) != 0) { _exit(90); }
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    return ends[1];
}

static void break_a_contract(void) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = true });
    ggml_reshape_1d(c, ggml_new_tensor_1d(c, GGML_TYPE_F32, 4), 5);
}

static void * read_for_ever(void * stream) {
    return (void *) (intptr_t) fgetc((FILE *) stream);
}

static void * print_for_ever(void * unused) {
    (void) unused;
    static char text[1 << 20];
    memset(text, '.', sizeof text - 1);
    for (;;) { fputs(text, stdout); }
    return NULL;
}

/* A thread that holds the lock of a stream and never releases it, as a thread that reads from a console does. */
static void hold(void * (*work)(void *), void * argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, argument) != 0) { _exit(91); }
    usleep(200000);
}

static void silent_stdin(void) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[0], 0) != 0) { _exit(92); }
    hold(read_for_ever, stdin);
}

static void with_a_reader(void * callback) {
    alarm(10);
    silent_stdin();
    if (callback == NULL) { ggml_set_abort_callback(NULL); }
    break_a_contract();
}

static void with_a_full_stdout(void * callback) {
    alarm(10);
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], 1) != 1) { _exit(93); }
    hold(print_for_ever, NULL);
    if (callback == NULL) { ggml_set_abort_callback(NULL); }
    break_a_contract();
}

static void a_thread_that_waits_for_a_stream_hinders_nobody(void) {
    setenv("GGML_NO_BACKTRACE", "1", 1);
    CHECK_EQ(child_run(with_a_reader, ""), CHILD_HEARD);
    CHECK_EQ(child_run(with_a_reader, NULL), -SIGABRT);
    CHECK_EQ(child_run(with_a_full_stdout, ""), CHILD_HEARD);
    CHECK_EQ(child_run(with_a_full_stdout, NULL), -SIGABRT);
}

static void print_and_break(void * path) {
    const int file = open((const char *) path, O_WRONLY);
    if (file < 0 || dup2(file, 1) != 1) { _exit(94); }
    printf("what the host printed");
    ggml_set_abort_callback(NULL);
    break_a_contract();
}

static void what_was_printed_is_not_lost(void) {
    char path[] = "/tmp/ggml-printed-XXXXXX", text[64] = "";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQ(child_run(print_and_break, path), -SIGABRT);
    CHECK(read(file, text, sizeof text - 1) > 0);
    CHECK_STR(text, "what the host printed");
    close(file);
    remove(path);
}

static void into_a_pipe(void * unused) {
    (void) unused;
    if (dup2(broken_pipe(), 2) != 2) { _exit(95); }
    ggml_set_abort_callback(NULL);
    break_a_contract();
}

static void into_a_full_disk(void * unused) {
    (void) unused;
    if (dup2(open("/dev/full", O_WRONLY), 2) != 2) { _exit(96); }
    ggml_set_abort_callback(NULL);
    break_a_contract();
}

static void nowhere(void * unused) {
    (void) unused;
    close(2);
    ggml_set_abort_callback(NULL);
    break_a_contract();
}

static void a_message_that_cannot_be_written_ends_the_process_too(void) {
    for (int backtrace = 0; backtrace < 2; backtrace++) {
        if (backtrace == 0) { setenv("GGML_NO_BACKTRACE", "1", 1); } else { unsetenv("GGML_NO_BACKTRACE"); }
        CHECK_EQ(child_run(into_a_pipe, NULL), -SIGABRT);
        CHECK_EQ(child_run(into_a_full_disk, NULL), -SIGABRT);
        CHECK_EQ(child_run(nowhere, NULL), -SIGABRT);
    }
}


static struct ggml_opt_optimizer_params rate(void * unused) {
    struct ggml_opt_optimizer_params p = ggml_opt_get_default_optimizer_params(unused);
    p.adamw.alpha = 0.1f;
    return p;
}

/* exits with 0 if the weight has moved from 0 towards 2 */
static void train(void * where) {
    if (where != NULL && dup2(open((const char *) where, O_WRONLY), 2) != 2) { _exit(97); }
    ggml_backend_t       backend = ggml_backend_cpu_init();
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    ggml_opt_dataset_t   data    = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 1, 1, 8, 1);
    for (int i = 0; i < 8; i++) {
        ((float *) ggml_opt_dataset_data(data)->data)[i]   = (float) (i + 1);
        ((float *) ggml_opt_dataset_labels(data)->data)[i] = 2.0f * (float) (i + 1);
    }
    struct ggml_context * own    = ggml_init((struct ggml_init_params) { 4 * ggml_tensor_overhead(), NULL, true });
    struct ggml_tensor *  inputs = ggml_new_tensor_2d(own, GGML_TYPE_F32, 1, 4);
    struct ggml_tensor *  weight = ggml_new_tensor_2d(own, GGML_TYPE_F32, 1, 1);
    ggml_set_param(weight);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(own, backend);
    ggml_backend_buffer_clear(buffer, 0);
    struct ggml_context * compute = ggml_init((struct ggml_init_params) { 1u << 22, NULL, true });
    struct ggml_tensor *  outputs = ggml_mul_mat(compute, weight, inputs);
    ggml_opt_fit(sched, compute, inputs, outputs, data, GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR, GGML_OPT_OPTIMIZER_TYPE_ADAMW, rate, 10, 8, 0.0f, false);
    float trained = 0.0f;
    ggml_backend_tensor_get(weight, &trained, 0, sizeof trained);
    ggml_free(compute);
    ggml_backend_buffer_free(buffer);
    ggml_free(own);
    ggml_opt_dataset_free(data);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    _exit(trained > 0.5f ? 0 : 98);
}

static void training_does_not_need_a_reader(void) {
    CHECK_EQ(child_run(train, "/dev/null"), 0);
    CHECK_EQ(child_run(train, "/dev/full"), 0);
}

int main(void) {
    RUN(a_thread_that_waits_for_a_stream_hinders_nobody);
    RUN(what_was_printed_is_not_lost);
    RUN(a_message_that_cannot_be_written_ends_the_process_too);
    RUN(training_does_not_need_a_reader);
    return test_summary();
}
