// ggml-backend.h: devices, their memory, their streams of work, and the scheduler.
//
// The registry lists backends (ggml_backend_reg_t), which are built in or loaded from modules. A backend has devices
// (ggml_backend_dev_t). A device has buffer types (ggml_backend_buffer_type_t), which allocate buffers
// (ggml_backend_buffer_t), and streams of work (ggml_backend_t, also called backends), which compute graphs. Functions
// with the suffix _async only queue work, if the backend is asynchronous; ggml_backend_synchronize() waits for it.
//
// The scheduler splits a graph over several backends. It runs each node where its weights are, or where the operation
// is supported, and copies tensors between backends:
//
//     ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, GGML_DEFAULT_GRAPH_SIZE, false, true);
//     ggml_backend_sched_reserve(sched, largest_graph); // optional: avoids allocations later
//     ggml_backend_sched_reset(sched);                  // before each new graph
//     ggml_backend_sched_alloc_graph(sched, graph);     // then write the inputs with ggml_backend_tensor_set()
//     ggml_backend_sched_graph_compute(sched, graph);
//
// Earlier backends in the list have priority. The last one must be a CPU backend.

#pragma once

#include "ggml.h"
#include "ggml-alloc.h"

// Linkage of the functions of a backend, which may be in a shared library of their own.
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

@{

@ ggml_backend_event_t ggml_backend_graph_plan_t ggml_backend_reg_t ggml_backend_dev_t

//
// Buffer types
//

@ ggml_backend_buft_name ggml_backend_buft_alloc_buffer ggml_backend_buft_alloc_buffer_n
@ ggml_backend_buft_get_alignment ggml_backend_buft_get_max_size ggml_backend_buft_get_alloc_size
@ ggml_backend_buft_get_alloc_size_n ggml_backend_buft_is_host ggml_backend_buft_get_device

//
// Buffers
//

@ enum ggml_backend_buffer_usage ggml_backend_buffer_name ggml_backend_buffer_free ggml_backend_buffer_get_base
@ ggml_backend_buffer_get_size ggml_backend_buffer_init_tensor ggml_backend_buffer_get_alignment
@ ggml_backend_buffer_get_max_size ggml_backend_buffer_get_alloc_size ggml_backend_buffer_clear
@ ggml_backend_buffer_is_host ggml_backend_buffer_set_usage ggml_backend_buffer_get_usage ggml_backend_buffer_get_type
@ ggml_backend_buffer_reset

// Copies between tensors

@ ggml_backend_tensor_copy ggml_backend_tensor_copy_n

//
// Backends (streams of work)
//

@ ggml_backend_guid ggml_backend_name ggml_backend_free ggml_backend_get_default_buffer_type ggml_backend_alloc_buffer
@ ggml_backend_get_alignment ggml_backend_get_max_size ggml_backend_tensor_set_async ggml_backend_tensor_get_async
@ ggml_backend_tensor_set_2d_async ggml_backend_tensor_get_2d_async ggml_backend_tensor_set ggml_backend_tensor_get
@ ggml_backend_tensor_set_2d ggml_backend_tensor_get_2d ggml_backend_tensor_set_n ggml_backend_tensor_get_n
@ ggml_backend_tensor_memset ggml_backend_synchronize ggml_backend_graph_plan_create ggml_backend_graph_plan_free
@ ggml_backend_graph_plan_compute ggml_backend_graph_compute ggml_backend_graph_compute_async ggml_backend_supports_op
@ ggml_backend_supports_buft ggml_backend_offload_op ggml_backend_tensor_copy_async ggml_backend_get_device

//
// Events
//

@ ggml_backend_event_new ggml_backend_event_free ggml_backend_event_record ggml_backend_event_synchronize
@ ggml_backend_event_wait

//
// Devices
//

@ enum ggml_backend_dev_type struct ggml_backend_dev_caps struct ggml_backend_dev_props ggml_backend_dev_name
@ ggml_backend_dev_description ggml_backend_dev_memory ggml_backend_dev_type ggml_backend_dev_get_props
@ ggml_backend_dev_backend_reg ggml_backend_dev_init ggml_backend_dev_buffer_type ggml_backend_dev_host_buffer_type
@ ggml_backend_dev_buffer_from_host_ptr ggml_backend_dev_supports_op ggml_backend_dev_supports_buft
@ ggml_backend_dev_offload_op

//
// Registrations
//

@ ggml_backend_reg_name ggml_backend_reg_dev_count ggml_backend_reg_dev_get ggml_backend_reg_get_proc_address

// Functions for ggml_backend_reg_get_proc_address(), by name

@ ggml_backend_comm_init_t ggml_backend_comm_free_t ggml_backend_comm_allreduce_tensor_t
@ ggml_backend_split_buffer_type_t ggml_backend_set_n_threads_t ggml_backend_dev_get_extra_bufts_t
@ ggml_backend_set_abort_callback_t struct ggml_backend_feature ggml_backend_get_features_t

//
// Registry
//

@ ggml_backend_register ggml_backend_device_register

// Registrations

@ ggml_backend_reg_count ggml_backend_reg_get ggml_backend_reg_by_name

// Devices

@ ggml_backend_dev_count ggml_backend_dev_get ggml_backend_dev_by_name ggml_backend_dev_by_type

// Direct creation of backends

@ ggml_backend_init_by_name ggml_backend_init_by_type ggml_backend_init_best

// Loading from shared libraries

@ ggml_backend_load ggml_backend_unload ggml_backend_load_all ggml_backend_load_all_from_path

//
// Scheduler
//

@ struct ggml_backend_sched ggml_backend_sched_t ggml_backend_sched_eval_callback ggml_backend_sched_copy_callback
@ ggml_backend_sched_realloc_callback ggml_backend_sched_new ggml_backend_sched_free ggml_backend_sched_reserve_size
@ ggml_backend_sched_reserve ggml_backend_sched_get_n_backends ggml_backend_sched_get_backend
@ ggml_backend_sched_get_n_splits ggml_backend_sched_get_n_copies ggml_backend_sched_get_buffer_type
@ ggml_backend_sched_get_buffer_size ggml_backend_sched_set_tensor_backend ggml_backend_sched_get_tensor_backend
@ ggml_backend_sched_split_graph ggml_backend_sched_alloc_graph ggml_backend_sched_graph_compute
@ ggml_backend_sched_graph_compute_async ggml_backend_sched_synchronize ggml_backend_sched_reset
@ ggml_backend_sched_set_eval_callback ggml_backend_sched_set_copy_callback ggml_backend_sched_set_realloc_callback

//
// Meta devices: one device made of several
//

@ GGML_BACKEND_META_MAX_DEVICES enum ggml_backend_meta_split_axis ggml_backend_meta_split_axis_name
@ struct ggml_backend_meta_split_state ggml_backend_meta_get_split_state_t ggml_backend_meta_device

//
// Utilities
//

@ struct ggml_backend_graph_copy ggml_backend_graph_copy ggml_backend_graph_copy_free ggml_backend_eval_callback
@ ggml_backend_compare_graph_backend

// Memory of tensors

@ ggml_backend_tensor_alloc ggml_backend_view_init

// Buffers in host memory

@ ggml_backend_cpu_buffer_from_ptr ggml_backend_cpu_buffer_type

@}
