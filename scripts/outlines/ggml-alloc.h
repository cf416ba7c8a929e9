// ggml-alloc.h: memory for tensors.
//
// The linear allocator (struct ggml_tallocr) places tensors in a buffer, one after the other. The graph allocator
// (ggml_gallocr_t) plans the memory of a graph: intermediate results that are not needed at the same time share
// memory.
//
//     ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
//     ggml_gallocr_reserve(galloc, largest_graph);      // optional: avoids allocations later
//     ggml_gallocr_alloc_graph(galloc, graph);          // now every tensor has memory
//     ggml_backend_graph_compute(backend, graph);
//
// Tensors marked with ggml_set_input() are allocated before all nodes, so that the host can write them before the graph
// runs; their memory may be reused after their last use. The memory of tensors marked with ggml_set_output() is not
// reused.

#pragma once

#include "ggml.h"

struct ggml_backend;
struct ggml_backend_buffer;
struct ggml_backend_buffer_type;

@{

@ ggml_backend_buffer_type_t ggml_backend_buffer_t ggml_backend_t

//
// Linear allocator
//

@ struct ggml_tallocr ggml_tallocr_new ggml_tallocr_alloc

//
// Graph allocator
//

@ struct ggml_gallocr ggml_gallocr_t ggml_gallocr_new ggml_gallocr_new_n ggml_gallocr_free ggml_gallocr_reserve
@ ggml_gallocr_reserve_n_size ggml_gallocr_reserve_n ggml_gallocr_alloc_graph ggml_gallocr_get_buffer_size

//
// All tensors of a context
//

@ ggml_backend_alloc_ctx_tensors_from_buft_size ggml_backend_alloc_ctx_tensors_from_buft
@ ggml_backend_alloc_ctx_tensors

@}
