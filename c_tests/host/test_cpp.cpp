// A C++ host: the owners of ggml-cpp.h free what they hold, and the headers are good C++17.
#include "../common/check.h"

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

static void owners() {
    ggml_backend_ptr backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    CHECK(backend != nullptr);
    ggml_context_ptr ctx(ggml_init({ /*.mem_size =*/ 1u << 18, /*.mem_buffer =*/ nullptr, /*.no_alloc =*/ true }));
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 4, 3);
    ggml_tensor * y = ggml_scale(ctx.get(), ggml_sqr(ctx.get(), x), 0.5f);
    ggml_set_input(x);
    ggml_set_output(y);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend.get())));
    CHECK(ggml_gallocr_alloc_graph(allocator.get(), graph));
    std::vector<float> in(12, 4.0f), out(12);
    ggml_backend_tensor_set(x, in.data(), 0, ggml_nbytes(x));
    CHECK(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
    for (float v : out) { CHECK_NEAR(v, 8.0, 1e-6); }

    ggml_backend_t list[] = { backend.get() };
    ggml_backend_sched_ptr sched(ggml_backend_sched_new(list, nullptr, 1, 64, false, true));
    CHECK(sched != nullptr && ggml_backend_sched_get_n_backends(sched.get()) == 1);
    ggml_backend_buffer_ptr buffer(ggml_backend_alloc_buffer(backend.get(), 128));
    ggml_backend_buffer_ptr moved = std::move(buffer);
    CHECK(buffer == nullptr && ggml_backend_buffer_get_size(moved.get()) == 128);
    gguf_context_ptr gguf(gguf_init_empty());
    gguf_set_val_str(gguf.get(), "name", "value");
    CHECK(gguf_get_n_kv(gguf.get()) == 1);
    ggml_backend_event_ptr none;
    CHECK(none == nullptr);
}

static void threads_of_cpp() { // contexts of their own in threads of the host
    std::vector<std::thread> threads;
    std::vector<int>         good(8, 0);
    for (int t = 0; t < 8; t++) {
        threads.emplace_back([t, &good] {
            for (int round = 0; round < 50; round++) {
                ggml_context_ptr ctx(ggml_init({ 1u << 16, nullptr, false }));
                ggml_tensor *    x = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, 100);
                ggml_set_f32(x, (float) t);
                ggml_tensor * s = ggml_sum(ctx.get(), x);
                ggml_cgraph * g = ggml_new_graph_custom(ctx.get(), 16, false);
                ggml_build_forward_expand(g, s);
                good[(size_t) t] += ggml_graph_compute_with_ctx(ctx.get(), g, 1) == GGML_STATUS_SUCCESS && ggml_get_f32_1d(s, 0) == 100.0f * (float) t;
            }
        });
    }
    for (auto & t : threads) { t.join(); }
    for (int n : good) { CHECK_EQ(n, 50); }
}

#ifndef _WIN32
// What the original's libggml-base exports without a public header; on Windows it does not.
void gguf_write_to_buf(const gguf_context * ctx, std::vector<int8_t> & buf, bool only_meta);

static void a_file_in_a_vector() {
    gguf_context_ptr gguf(gguf_init_empty());
    gguf_set_val_str(gguf.get(), "name", "value");
    for (int i = 0; i < 300; i++) { gguf_set_val_u32(gguf.get(), ("key." + std::to_string(i)).c_str(), (uint32_t) i); }
    std::vector<int8_t> buf{ 1, 2, 3 }; // the file is appended
    gguf_write_to_buf(gguf.get(), buf, true);
    std::vector<int8_t> want(gguf_get_meta_size(gguf.get()));
    gguf_get_meta_data(gguf.get(), want.data());
    CHECK_EQ(buf.size(), want.size() + 3);
    CHECK(buf[0] == 1 && buf[2] == 3 && std::equal(want.begin(), want.end(), buf.begin() + 3));
    std::vector<int8_t> empty;
    gguf_write_to_buf(gguf.get(), empty, true);
    CHECK(empty == want);
    empty.insert(empty.end(), 100000, 7); // the vector goes on as any other
    CHECK_EQ(empty.size(), want.size() + 100000);
}
#endif

int main() {
#ifndef _WIN32
    RUN(a_file_in_a_vector);
#endif
    RUN(owners);
    RUN(threads_of_cpp);
    return test_summary();
}
