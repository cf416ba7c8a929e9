/* Threads that end inside of the library: pthread_exit in a callback, and cancellation in a callback or while the
 * library waits. The frames of the host unwind as without the library, and other threads go on with the same
 * objects. */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/calculation.hpp"

#include "gguf.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace {

std::atomic<int> left{0}; /* frames and handlers of threads that have ended */

struct leaves {
    ~leaves() { left++; }
};

void handler(void *) {
    left++;
}

void * run_work(void * work) {
    leaves frame;
    pthread_cleanup_push(handler, nullptr);
    (*(const std::function<void()> *) work)();
    pthread_cleanup_pop(0);
    return nullptr;
}

/* Runs `work` on a thread, cancels it as soon as `when` is true, and returns the result of the thread. */
void * on_a_thread(const std::function<void()> & work, std::atomic<bool> * when = nullptr) {
    left = 0;
    pthread_t id;
    std::function<void()> copy = work;
    CHECK_EQ(pthread_create(&id, nullptr, run_work, &copy), 0);
    if (when != nullptr) {
        while (!*when) { sched_yield(); }
        pthread_cancel(id);
    }
    void * result = nullptr;
    CHECK_EQ(pthread_join(id, &result), 0);
    return result;
}

void * const GONE = (void *) 77;

bool eval_leaves(struct ggml_tensor * t, bool ask, void * last) {
    leaves frame;
    if (!ask && t == last) { pthread_exit(GONE); }
    return true;
}

void pthread_exit_in_an_eval_callback() {
    calculation it;
    for (int i = 0; i < 3; i++) {
        ggml_backend_sched_set_eval_callback(it.sched, eval_leaves, it.y);
        CHECK(on_a_thread([&] { it.run(); }) == GONE);
        CHECK_EQ(left, 2 * calculation::N_NODES + 2);
        ggml_backend_sched_set_eval_callback(it.sched, nullptr, nullptr);
        it.run();
        CHECK(on_a_thread([&] { it.run(); }) == nullptr);
    }
}

void log_leaves(enum ggml_log_level, const char *, void *) {
    pthread_exit(GONE);
}

void abort_leaves(const char *) {
    pthread_exit(GONE);
}

bool stop_leaves(void *) {
    pthread_exit(GONE);
}

void pthread_exit_in_other_callbacks() {
    calculation it;
    it.run();
    ggml_log_set(log_leaves, nullptr);
    CHECK(on_a_thread([] { gguf_init_from_buffer("GGUF", 4, { true, nullptr }); }) == GONE);
    CHECK_EQ(left, 2);
    ggml_log_set(child_quiet, nullptr);
    ggml_set_abort_callback(abort_leaves);
    CHECK(on_a_thread([&] { ggml_backend_sched_alloc_graph(it.sched, it.graph); }) == GONE);
    CHECK(on_a_thread([] { GGML_ABORT("%s", std::string(5000, 'x').c_str()); }) == GONE);
    ggml_set_abort_callback(nullptr);
    ggml_log_set(nullptr, nullptr);
    ggml_backend_cpu_set_n_threads(it.backend, 3);
    ggml_backend_cpu_set_abort_callback(it.backend, stop_leaves, nullptr);
    CHECK(on_a_thread([&] { it.run(); }) == GONE);
    ggml_backend_cpu_set_abort_callback(it.backend, nullptr, nullptr);
    it.run();
}

std::atomic<bool> waits{false};

bool eval_waits(struct ggml_tensor *, bool, void *) {
    waits = true;
    for (;;) { usleep(1000); }
}

void cancellation_in_an_eval_callback() {
    calculation it;
    waits = false;
    ggml_backend_sched_set_eval_callback(it.sched, eval_waits, nullptr);
    CHECK(on_a_thread([&] { it.run(); }, &waits) == PTHREAD_CANCELED);
    CHECK_EQ(left, 2);
    ggml_backend_sched_set_eval_callback(it.sched, nullptr, nullptr);
    it.run();
}

/* The thread is cancelled in the middle of a call that reads, writes and logs. It ends at the first cancellation point
 * after the call. */
void cancellation_while_files_are_read() {
    char path[] = "/tmp/robust_leave_XXXXXX";
    close(mkstemp(path));
    gguf_context * g = gguf_init_empty();
    for (int i = 0; i < 100; i++) { gguf_set_val_str(g, ("key" + std::to_string(i)).c_str(), "value"); }
    CHECK(gguf_write_to_file(g, path, false));
    gguf_free(g);
    for (int i = 0; i < 20; i++) {
        std::atomic<bool> ready{false};
        std::atomic<int>  calls{0};
        void * const result = on_a_thread(
            [&] {
                for (;;) {
                    gguf_context * c = gguf_init_from_file(path, { true, nullptr });
                    const bool     is_read = c != nullptr && gguf_get_n_kv(c) == 100;
                    const bool     is_written = is_read && gguf_write_to_file(c, path, false);
                    gguf_free(c);
                    if (!is_read || !is_written) { return; }
                    calls++;
                    ready = true;
                    pthread_testcancel();
                }
            },
            &ready);
        CHECK(result == PTHREAD_CANCELED);
        CHECK_EQ(left, 2);
    }
    unlink(path);
}

/* A thread that waits for the other end of a pipe, at any place where it can. */
void cancellation_while_a_pipe_is_waited_for() {
    char path[] = "/tmp/robust_leave_XXXXXX";
    CHECK(mkdtemp(path) != nullptr);
    const std::string pipe = std::string(path) + "/pipe";
    CHECK_EQ(mkfifo(pipe.c_str(), 0600), 0);
    gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "key", std::string(1 << 20, 'v').c_str());
    const std::function<void()> calls[] = {
        [&] { gguf_init_from_file(pipe.c_str(), { true, nullptr }); },
        [&] { gguf_write_to_file(g, pipe.c_str(), false); },
    };
    for (int opened = 0; opened < 2; opened++) {
        for (const auto & call : calls) {
            /* both ends open, so that opening does not wait */
            const int fd = opened ? open(pipe.c_str(), O_RDWR) : -1;
            std::atomic<bool> begun{false};
            std::thread       later([&] {
                while (!begun) { sched_yield(); }
                usleep(100000);
            });
            left = 0;
            pthread_t             id;
            std::function<void()> work = [&] {
                begun = true;
                call();
                /* It may have failed at once: nothing is read from a pipe that is open. */
                while (begun) { sched_yield(); }
                pthread_testcancel();
            };
            CHECK_EQ(pthread_create(&id, nullptr, run_work, &work), 0);
            later.join();
            pthread_cancel(id);
            begun = false;
            void * result = nullptr;
            struct timespec limit;
            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_sec += 10;
            const int joined = pthread_timedjoin_np(id, &result, &limit);
            CHECK_EQ(joined, 0);
            if (joined != 0) { /* lets the thread go */
                close(open(pipe.c_str(), O_RDWR));
                _exit(1);
            }
            CHECK(result == PTHREAD_CANCELED);
            CHECK_EQ(left, 2);
            if (fd >= 0) { close(fd); }
        }
    }
    gguf_free(g);
    unlink(pipe.c_str());
    rmdir(path);
}

void cancellation_while_graphs_are_computed() {
    for (int i = 0; i < 10; i++) {
        std::atomic<bool> ready{false};
        void * const      result = on_a_thread(
            [&] {
                for (;;) {
                    calculation it;
                    ggml_backend_cpu_set_n_threads(it.backend, 3);
                    it.run();
                    ready = true;
                    pthread_testcancel();
                }
            },
            &ready);
        CHECK(result == PTHREAD_CANCELED);
    }
    calculation it;
    it.run();
}

/* A thread of the library has no host that would join it. */
void custom_leaves(ggml_tensor *, const ggml_tensor *, int ith, int, void *) {
    if (ith == 1) { pthread_exit(nullptr); }
}

void in_a_worker(void *) {
    ggml_context * c = ggml_init({ 1u << 20, nullptr, false });
    ggml_cgraph *  g = ggml_new_graph(c);
    ggml_build_forward_expand(g, ggml_map_custom1(c, ggml_new_tensor_1d(c, GGML_TYPE_F32, 1000), custom_leaves, 2, nullptr));
    ggml_graph_compute_with_ctx(c, g, 2);
}

void pthread_exit_on_a_thread_of_the_library() {
    CHECK_EQ(child_run(in_a_worker, nullptr), -SIGABRT);
}

} // namespace

int main() {
    RUN(pthread_exit_in_an_eval_callback);
    RUN(pthread_exit_in_other_callbacks);
    RUN(cancellation_in_an_eval_callback);
    RUN(cancellation_while_files_are_read);
    RUN(cancellation_while_a_pipe_is_waited_for);
    RUN(cancellation_while_graphs_are_computed);
    RUN(pthread_exit_on_a_thread_of_the_library);
    return test_summary();
}
