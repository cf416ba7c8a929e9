// ggml-backend.h: devices, their memory, their streams of work, and the scheduler that spreads a graph over them.
//
// The registry knows families of devices (ggml_backend_reg_t), built in or loaded from modules. A device
// (ggml_backend_dev_t) has buffer types (ggml_backend_buffer_type_t) that allocate buffers (ggml_backend_buffer_t), and
// streams (ggml_backend_t) that compute graphs. Functions whose name ends in _async only queue work where the stream can
// queue; ggml_backend_synchronize() waits for it.
//
// A scheduler runs each node where its weights lie or where it is supported, and copies between backends:
//
//     ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, GGML_DEFAULT_GRAPH_SIZE, false, true);
//     ggml_backend_sched_reserve(sched, largest_graph); // optional: no allocation later
//     ggml_backend_sched_reset(sched);                  // before each new graph
//     ggml_backend_sched_alloc_graph(sched, graph);     // then write the inputs with ggml_backend_tensor_set()
//     ggml_backend_sched_graph_compute(sched, graph);
//
// The first backends of the list are preferred; the last must be a CPU backend.

// The function comes from a shared library that holds a backend.
#if !defined(GGML_BACKEND_SHARED)
#    define GGML_BACKEND_API extern
#elif !defined(_WIN32) || defined(__MINGW32__)
#    define GGML_BACKEND_API __attribute__((visibility("default"))) extern
#elif defined(GGML_BACKEND_BUILD)
#    define GGML_BACKEND_API __declspec(dllexport) extern
#else
#    define GGML_BACKEND_API __declspec(dllimport) extern
#endif

struct ggml_backend_event;
struct ggml_backend_reg;
struct ggml_backend_device;
