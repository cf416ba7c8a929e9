// ggml-cpu.h: computing on the CPU.
//
// Compute a graph with a CPU backend (ggml_backend_cpu_init(), see ggml-backend.h), or directly:
//
//     struct ggml_cplan plan = ggml_graph_plan(graph, n_threads, NULL);
//     plan.work_data = malloc(plan.work_size);
//     enum ggml_status status = ggml_graph_compute(graph, &plan);
//
// The library selects kernels for the processor at run time. The ggml_cpu_has_...() functions return what it supports.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

@{

//
// Plan of a computation
//

@ struct ggml_cplan

//
// NUMA
//

@ enum ggml_numa_strategy ggml_numa_init ggml_is_numa

//
// Access to elements, for tensors in host memory
//

@ ggml_new_i32 ggml_new_f32 ggml_set_i32 ggml_set_f32 ggml_get_i32_1d ggml_set_i32_1d ggml_get_i32_nd ggml_set_i32_nd
@ ggml_get_f32_1d ggml_set_f32_1d ggml_get_f32_nd ggml_set_f32_nd

//
// Thread pools
//

@ ggml_threadpool_new ggml_threadpool_free ggml_threadpool_get_n_threads ggml_threadpool_pause ggml_threadpool_resume

//
// Computing graphs
//

@ ggml_graph_plan ggml_graph_compute ggml_graph_compute_with_ctx

//
// Instruction sets
//

// x86

@ ggml_cpu_has_sse3 ggml_cpu_has_ssse3 ggml_cpu_has_avx ggml_cpu_has_avx_vnni ggml_cpu_has_avx2 ggml_cpu_has_bmi2
@ ggml_cpu_has_f16c ggml_cpu_has_fma ggml_cpu_has_avx512 ggml_cpu_has_avx512_vbmi ggml_cpu_has_avx512_vnni
@ ggml_cpu_has_avx512_bf16 ggml_cpu_has_amx_int8

// ARM

@ ggml_cpu_has_neon ggml_cpu_has_arm_fma ggml_cpu_has_fp16_va ggml_cpu_has_dotprod ggml_cpu_has_matmul_int8
@ ggml_cpu_has_sve ggml_cpu_get_sve_cnt ggml_cpu_has_sme ggml_cpu_has_sme2

// Others

@ ggml_cpu_has_riscv_v ggml_cpu_get_rvv_vlen ggml_cpu_has_vsx ggml_cpu_has_vxe ggml_cpu_has_wasm_simd
@ ggml_cpu_has_llamafile

//
// For tests and benchmarks
//

@ ggml_vec_dot_t struct ggml_type_traits_cpu ggml_get_type_traits_cpu ggml_cpu_init

//
// CPU backend
//

@ ggml_backend_cpu_init ggml_backend_is_cpu ggml_backend_cpu_set_n_threads ggml_backend_cpu_set_threadpool
@ ggml_backend_cpu_set_abort_callback ggml_backend_cpu_set_use_ref ggml_backend_cpu_reg

// Conversion of rows

@ ggml_cpu_fp32_to_fp32 ggml_cpu_fp32_to_i32 ggml_cpu_fp32_to_fp16 ggml_cpu_fp16_to_fp32 ggml_cpu_fp32_to_bf16
@ ggml_cpu_bf16_to_fp32

@}
