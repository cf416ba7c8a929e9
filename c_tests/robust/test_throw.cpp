/* C++ exceptions that leave functions of the host: the host catches them where it called the library, and goes on with
 * the same objects. */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/calculation.hpp"

#include "ggml-backend.h"
#include "ggml-opt.h"
#include "gguf.h"

#ifndef _WIN32
#include <malloc.h>
#endif

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

extern "C" void ggml_log_internal(enum ggml_log_level level, const char * format, ...);

namespace {

/* What the callbacks throw. */
struct thrown {
    static std::atomic<int> alive;
    int number;
    explicit thrown(int n) : number(n) { alive++; }
    thrown(const thrown & other) : number(other.number) { alive++; }
    ~thrown() { alive--; }
};
std::atomic<int> thrown::alive{0};

int throws_at = 0; /* the call of a callback that throws; 0 for none */
int calls     = 0;

void maybe_throw() {
    if (++calls == throws_at) { throw thrown(calls); }
}

/* Returns the number of the exception that leaves `work`, 0 for none. */
int caught(const std::function<void()> & work) {
    int number = 0;
    try {
        work();
    } catch (const thrown & t) {
        number = t.number;
    }
    CHECK_EQ(thrown::alive, 0);
    CHECK_EQ(std::uncaught_exceptions(), 0);
    return number;
}

/* Makes the n-th call of a callback throw, for n = 1, 2, ... until `work` succeeds. Each exception must arrive here,
 * and `again` must find all objects in order. */
int each_call_throws(const std::function<void()> & work, const std::function<void()> & again) {
    int n = 1;
    for (; n < 1000; n++) {
        calls         = 0;
        throws_at     = n;
        const int got = caught(work);
        throws_at     = 0;
        if (got == 0) { break; }
        CHECK_EQ(got, n);
        again();
    }
    return n - 1;
}

void log_throws(enum ggml_log_level, const char *, void *) { maybe_throw(); }
void abort_throws(const char *) { maybe_throw(); }
bool eval_throws(struct ggml_tensor *, bool ask, void *) {
    maybe_throw();
    return !ask || calls % 2 == 1;
}
bool stop_throws(void *) {
    maybe_throw();
    return false;
}

void exceptions_of_log_callbacks() {
    const std::string missing = "/nonexistent/" + std::string(3000, 'x');
    ggml_log_set(log_throws, nullptr);
    const gguf_init_params params = { true, nullptr };
    const int n = each_call_throws([&] { CHECK(gguf_init_from_file(missing.c_str(), params) == nullptr); }, [] {});
    CHECK_EQ(n, 1);
    CHECK_EQ(each_call_throws([&] { CHECK(gguf_init_from_buffer("GGUF", 4, params) == nullptr); }, [] {}), 1);
    /* a variadic function, with a text that is too long for the stack */
    const auto variadic = [&] { ggml_log_internal(GGML_LOG_LEVEL_WARN, "%s", missing.c_str()); };
    CHECK_EQ(each_call_throws(variadic, variadic), 1);
    ggml_log_set(nullptr, nullptr);
}

void exceptions_of_abort_callbacks() {
    ggml_set_abort_callback(abort_throws);
    ggml_log_set(child_quiet, nullptr);
    calculation it;
    it.run();
    const int n = each_call_throws(
        [&] {
            ggml_tensor * t = ggml_new_tensor_1d(it.ctx, GGML_TYPE_F32, 3);
            if (throws_at == 1) { ggml_mul_mat(it.ctx, it.w, t); }
        },
        [&] { it.run(); });
    CHECK_EQ(n, 1);
    /* a broken contract inside of a scheduler */
    calls     = 0;
    throws_at = 1;
    CHECK_EQ(caught([&] { ggml_backend_sched_alloc_graph(it.sched, it.graph); }), 1);
    it.run();
    /* one that the host finds itself, with a text that is too long for the stack */
    const std::string text(5000, 'x');
    calls     = 0;
    throws_at = 1;
    CHECK_EQ(caught([&] { GGML_ABORT("%s", text.c_str()); }), 1);
    throws_at = 0;
    ggml_set_abort_callback(nullptr);
    ggml_log_set(nullptr, nullptr);
}

void exceptions_of_eval_callbacks() {
    calculation it;
    it.run();
    ggml_backend_sched_set_eval_callback(it.sched, eval_throws, nullptr);
    const int n = each_call_throws([&] { it.run(); },
                                   [&] {
                                       ggml_backend_sched_set_eval_callback(it.sched, nullptr, nullptr);
                                       it.run();
                                       ggml_backend_sched_set_eval_callback(it.sched, eval_throws, nullptr);
                                   });
    CHECK(n >= calculation::N_NODES);
}

void exceptions_of_stop_callbacks() {
    for (int threads = 1; threads <= 4; threads += 3) {
        calculation it;
        ggml_backend_cpu_set_n_threads(it.backend, threads);
        ggml_backend_cpu_set_abort_callback(it.backend, stop_throws, nullptr);
        const int n = each_call_throws([&] { it.run(); },
                                       [&] {
                                           ggml_backend_cpu_set_abort_callback(it.backend, nullptr, nullptr);
                                           it.run();
                                           ggml_backend_cpu_set_abort_callback(it.backend, stop_throws, nullptr);
                                       });
        CHECK(n >= 1);
    }
}

std::string bytes_of_a_file() {
    gguf_context * g = gguf_init_empty();
    for (int i = 0; i < 20; i++) { gguf_set_val_str(g, ("key" + std::to_string(i)).c_str(), "value"); }
    ggml_context * c = ggml_init({ 1u << 16, nullptr, false });
    for (int i = 0; i < 5; i++) {
        ggml_tensor * t = ggml_new_tensor_1d(c, GGML_TYPE_F32, 100);
        ggml_format_name(t, "t%d", i);
        memset(t->data, i, ggml_nbytes(t));
        gguf_add_tensor(g, t);
    }
    FILE * f = tmpfile();
    CHECK(gguf_write_to_file_ptr(g, f, false));
    std::string bytes((size_t) ftell(f), '\0');
    rewind(f);
    CHECK_EQ(fread(&bytes[0], 1, bytes.size(), f), bytes.size());
    fclose(f);
    ggml_free(c);
    gguf_free(g);
    return bytes;
}

size_t read_throws(void * user, void * out, uint64_t offset, size_t len) {
    maybe_throw();
    const std::string & bytes = *(const std::string *) user;
    const size_t        n     = offset >= bytes.size() ? 0 : std::min(len, bytes.size() - (size_t) offset);
    memcpy(out, bytes.data() + offset, n);
    return n;
}

void exceptions_of_readers() {
    std::string  bytes = bytes_of_a_file();
    const auto   read  = [&] {
        ggml_context * c = nullptr;
        gguf_context * g = gguf_init_from_callback(read_throws, &bytes, 0, bytes.size(), { false, &c });
        CHECK(g != nullptr && c != nullptr && gguf_get_n_tensors(g) == 5);
        ggml_free(c);
        gguf_free(g);
    };
    CHECK(each_call_throws(read, read) >= 20);
}

std::atomic<int> thrower{0}; /* number of the thread whose custom operation throws; -1 for none */

void custom_throws(ggml_tensor * dst, const ggml_tensor * a, int ith, int nth, void *) {
    if (ith == thrower) { throw thrown(100 + ith); }
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) { ((float *) dst->data)[i] = 2 * ((const float *) a->data)[i]; }
}

void exceptions_of_custom_operations() {
    for (int threads = 1; threads <= 4; threads++) {
        ggml_context * c = ggml_init({ 1u << 20, nullptr, false });
        ggml_tensor *  x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 1000);
        for (int i = 0; i < 1000; i++) { ((float *) x->data)[i] = 1.0f; }
        ggml_tensor * y = x;
        for (int i = 0; i < 3; i++) { y = ggml_map_custom1(c, y, custom_throws, GGML_N_TASKS_MAX, nullptr); }
        ggml_cgraph * g = ggml_new_graph(c);
        ggml_build_forward_expand(g, y);
        ggml_backend_t backend = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(backend, threads);
        for (int round = 0; round < 20; round++) {
            for (thrower = 0; thrower < threads; thrower++) {
                CHECK_EQ(caught([&] { ggml_backend_graph_compute(backend, g); }), 100 + thrower);
                CHECK_EQ(caught([&] { ggml_graph_compute_with_ctx(c, g, threads); }), 100 + thrower);
            }
            thrower = -1;
            memset(y->data, 0, ggml_nbytes(y));
            CHECK_EQ(ggml_backend_graph_compute(backend, g), GGML_STATUS_SUCCESS);
            CHECK_EQ(((float *) y->data)[999], 8);
        }
        ggml_backend_free(backend);
        ggml_free(c);
    }
}

bool compare_throws(int, ggml_tensor *, ggml_tensor *, void *) {
    maybe_throw();
    return true;
}

void exceptions_of_comparisons() {
    calculation    it;
    ggml_backend_t other = ggml_backend_cpu_init();
    it.run();
    const auto compare = [&] { CHECK(ggml_backend_compare_graph_backend(it.backend, other, it.graph, compare_throws, nullptr, nullptr, 0)); };
    CHECK(each_call_throws(compare, compare) >= calculation::N_NODES);
    ggml_backend_free(other);
}

ggml_opt_optimizer_params params_throw(void * user) {
    maybe_throw();
    return ggml_opt_get_default_optimizer_params(user);
}
void batch_throws(bool, ggml_opt_context_t, ggml_opt_dataset_t, ggml_opt_result_t, int64_t, int64_t, int64_t) { maybe_throw(); }

void exceptions_of_training() {
    ggml_backend_t       backend = ggml_backend_cpu_init();
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, false);
    ggml_opt_dataset_t   data    = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 1, 1, 12, 1);
    for (int i = 0; i < 12; i++) {
        ggml_get_data_f32(ggml_opt_dataset_data(data))[i]   = (float) i;
        ggml_get_data_f32(ggml_opt_dataset_labels(data))[i] = 2.0f * (float) i;
    }
    ggml_context * fixed = ggml_init({ 1u << 16, nullptr, true });
    ggml_tensor *  w     = ggml_new_tensor_1d(fixed, GGML_TYPE_F32, 1);
    ggml_set_param(w);
    ggml_tensor *         x       = ggml_new_tensor_2d(fixed, GGML_TYPE_F32, 1, 3);
    ggml_backend_buffer_t buffer  = ggml_backend_alloc_ctx_tensors(fixed, backend);
    ggml_backend_buffer_clear(buffer, 0);
    ggml_context *    ctx    = ggml_init({ 1u << 20, nullptr, true });
    ggml_tensor *     y      = ggml_mul(ctx, x, w);
    ggml_opt_params   params = ggml_opt_default_params(sched, GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR);
    params.ctx_compute = ctx;
    params.inputs      = x;
    params.outputs     = y;
    params.get_opt_pars = params_throw;
    ggml_opt_context_t opt    = ggml_opt_init(params);
    ggml_opt_result_t  result = ggml_opt_result_init();
    const auto train = [&] { ggml_opt_epoch(opt, data, result, nullptr, -1, batch_throws, nullptr); };
    CHECK(each_call_throws(train, [&] { ggml_opt_reset(opt, false); train(); }) >= 8);
    ggml_opt_result_free(result);
    ggml_opt_free(opt);
    ggml_free(ctx);
    ggml_backend_buffer_free(buffer);
    ggml_free(fixed);
    ggml_opt_dataset_free(data);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
}

/* The exception passes a frame of C++ between two calls of the library, which unwinds as usual. */
bool eval_calls_again(struct ggml_tensor *, bool ask, void * user) {
    struct leaves {
        int * n;
        ~leaves() { ++*n; }
    } on_the_way{ (int *) user };
    if (!ask) { gguf_init_from_buffer("GGUF", 4, { true, nullptr }); }
    return true;
}

void exceptions_of_calls_in_callbacks() {
    calculation it;
    it.run();
    int left = 0;
    ggml_log_set(log_throws, nullptr);
    ggml_backend_sched_set_eval_callback(it.sched, eval_calls_again, &left);
    calls     = 0;
    throws_at = 2;
    CHECK_EQ(caught([&] { it.run(); }), 2);
    CHECK_EQ(left, 4); /* two calls for each of two nodes */
    throws_at = 0;
    ggml_backend_sched_set_eval_callback(it.sched, nullptr, nullptr);
    ggml_log_set(nullptr, nullptr);
    it.run();
}

/* A module in C++ throws, in what it does for the scheduler. */
ggml_backend_i module_before;
ggml_status module_throws(ggml_backend_t b, ggml_cgraph * g) {
    maybe_throw();
    return module_before.graph_compute(b, g);
}

void exceptions_of_modules() {
    calculation it;
    it.run();
    module_before                   = it.backend->iface;
    it.backend->iface.graph_compute = module_throws;
    CHECK_EQ(each_call_throws([&] { it.run(); }, [&] { it.run(); }), 1);
    it.backend->iface = module_before;
}

/* Throws while data is written. The tensor cannot be computed with until it is written. */
ggml_backend_buffer_i buffer_before;
void set_throws(ggml_backend_buffer_t b, ggml_tensor * t, const void * data, size_t offset, size_t size) {
    maybe_throw();
    buffer_before.set_tensor(b, t, data, offset, size);
}

void exceptions_of_modules_that_write() {
    calculation it;
    it.run();
    std::vector<float> two(it.N * it.N);
    for (int i = 0; i < it.N; i++) { two[(size_t) (i * (it.N + 1))] = 2.0f; }
    buffer_before              = it.buffer->iface;
    it.buffer->iface.set_tensor = set_throws;
    const auto write = [&] { ggml_backend_tensor_set(it.w, two.data(), 0, ggml_nbytes(it.w)); };
    CHECK_EQ(each_call_throws(write, [&] {
        CHECK_EQ(ggml_backend_sched_graph_compute(it.sched, it.graph), GGML_STATUS_FAILED);
        write();
        it.run();
    }), 1);
    it.buffer->iface = buffer_before;
}

/* Bytes that the process has from malloc. */
size_t allocated() {
#ifdef _WIN32
    size_t             size = 0;
    PROCESS_HEAP_ENTRY entry{};
    while (HeapWalk(GetProcessHeap(), &entry)) { size += entry.wFlags & PROCESS_HEAP_ENTRY_BUSY ? entry.cbData : 0; }
    return size;
#elif __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return (unsigned) mallinfo().uordblks;
#endif
}

/* Nothing is lost with an exception: the process is no larger after 2000 of them. */
void exceptions_leave_no_memory_behind() {
    calculation it;
    it.run();
    ggml_backend_sched_set_eval_callback(it.sched, eval_throws, nullptr);
    std::string bytes = bytes_of_a_file();
    size_t      used  = 0;
    for (int i = 0; i < 1000; i++) {
        calls     = 0;
        throws_at = 1 + i % 4;
        CHECK_EQ(caught([&] { it.run(); }), throws_at);
        calls     = 0;
        throws_at = 1 + i % 12;
        CHECK_EQ(caught([&] { gguf_init_from_callback(read_throws, &bytes, 0, bytes.size(), { false, nullptr }); }), throws_at);
        if (i == 100) { used = allocated(); }
    }
    CHECK(allocated() <= used + 1000);
    throws_at = 0;
    ggml_backend_sched_set_eval_callback(it.sched, nullptr, nullptr);
    it.run();
}

/* As in C++, the process ends. */
void nobody_catches(void *) {
    ggml_log_set(log_throws, nullptr);
    calls     = 0;
    throws_at = 1;
    [&]() noexcept { gguf_init_from_buffer("GGUF", 4, { true, nullptr }); }();
}

void exceptions_that_nobody_catches() {
    CHECK_EQ(child_run(nobody_catches, nullptr), -SIGABRT);
}

} // namespace

int main() {
    RUN(exceptions_of_log_callbacks);
    RUN(exceptions_of_abort_callbacks);
    RUN(exceptions_of_eval_callbacks);
    RUN(exceptions_of_stop_callbacks);
    RUN(exceptions_of_readers);
    RUN(exceptions_of_custom_operations);
    RUN(exceptions_of_comparisons);
    RUN(exceptions_of_training);
    RUN(exceptions_of_calls_in_callbacks);
    RUN(exceptions_of_modules);
    RUN(exceptions_of_modules_that_write);
    RUN(exceptions_leave_no_memory_behind);
    RUN(exceptions_that_nobody_catches);
    return test_summary();
}
