// ggml-alloc.h: memory for tensors.
//
// The linear allocator (struct ggml_tallocr) puts tensors one after the other into a buffer. The graph allocator
// (ggml_gallocr_t) plans a graph, so that intermediate results share memory when their lives do not meet:
//
//     ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
//     ggml_gallocr_reserve(galloc, largest_graph);      // optional: no allocation later
//     ggml_gallocr_alloc_graph(galloc, graph);          // every tensor now has memory
//     ggml_backend_graph_compute(backend, graph);
//
// Tensors marked with ggml_set_input() are placed first and share with nobody; those marked with ggml_set_output() keep
// their memory to the end.

struct ggml_backend;
struct ggml_backend_buffer;
struct ggml_backend_buffer_type;
