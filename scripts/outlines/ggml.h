// ggml.h: tensors, the operations on them, and compute graphs.
//
// A tensor (struct ggml_tensor) is created in a context, which owns it. Functions such as ggml_add() do not compute
// anything: they create a tensor that records its operation and its sources. ggml_build_forward_expand() collects
// everything that a result depends on in a graph. A backend or a scheduler (ggml-backend.h), or ggml_graph_compute()
// (ggml-cpu.h), computes the graph.
//
//     struct ggml_init_params params = { /* mem_size */ 1 << 20, /* mem_buffer */ NULL, /* no_alloc */ false };
//     struct ggml_context * ctx = ggml_init(params);
//     struct ggml_tensor  * x   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
//     struct ggml_tensor  * y   = ggml_add(ctx, ggml_mul(ctx, x, x), x); // y = x*x + x
//     struct ggml_cgraph  * g   = ggml_new_graph(ctx);
//     ggml_build_forward_expand(g, y);
//     ...                                                                // write x->data
//     ggml_graph_compute_with_ctx(ctx, g, 4);                            // then read y->data
//     ggml_free(ctx);
//
// Comments write shapes innermost dimension first: [ne0, ne1, ne2, ne3], where the elements of a row (dimension 0) are
// neighbours in memory. "Repeated" means that a source is used several times along a dimension in which the size of the
// result is a multiple of its own.
//
// Unless a comment says otherwise, pointers must be valid, and the context owns what a function returns. Functions with
// the suffix _inplace store the result in the memory of their first source. A shape or type that an operation does not
// accept ends the process with ggml_abort().
//
// NaN is never hidden, on the CPU and with Vulkan: an element that depends on a NaN is NaN, also of functions with
// max() or clamp() in their formula. Infinities follow the formula, computed in F32 step by step: x * sigmoid(x) of
// minus infinity is NaN. What is sorted, selected or counted says where NaN and equal elements go. Conversions to
// quantized types other than Q8_0 ignore NaN, unless a comment says otherwise.

#pragma once

// Linkage of the functions: static, or in a shared library.
#if !defined(GGML_SHARED)
#    define GGML_API extern
#elif !defined(_WIN32) || defined(__MINGW32__)
#    define GGML_API __attribute__((visibility("default"))) extern
#elif defined(GGML_BUILD)
#    define GGML_API __declspec(dllexport) extern
#else
#    define GGML_API __declspec(dllimport) extern
#endif

// GGML_DEPRECATED(declaration, "use ... instead"), and the attribute alone, for use before a declaration.
#if defined(__GNUC__)
#    define GGML_DEPRECATED_NOTE(hint) __attribute__((deprecated(hint)))
#    define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#elif defined(_MSC_VER)
#    define GGML_DEPRECATED_NOTE(hint) __declspec(deprecated(hint))
#    define GGML_DEPRECATED(func, hint) __declspec(deprecated(hint)) func
#else
#    define GGML_DEPRECATED_NOTE(hint)
#    define GGML_DEPRECATED(func, hint) func
#endif

// Before a function like printf: the numbers of the format parameter and of the first value.
#if defined(__MINGW32__) && defined(__GNUC__) && !defined(__clang__)
#    define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(gnu_printf, __VA_ARGS__)))
#elif defined(__GNUC__)
#    define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(printf, __VA_ARGS__)))
#else
#    define GGML_ATTRIBUTE_FORMAT(...)
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

//
// Limits and constants
//

/// "ggml" as a little-endian number: the magic of files from before GGUF.
#define GGML_FILE_MAGIC 0x67676d6c

@ GGML_FILE_VERSION GGML_QNT_VERSION GGML_QNT_VERSION_FACTOR
@ GGML_MAX_DIMS GGML_MAX_PARAMS GGML_MAX_SRC GGML_MAX_N_THREADS GGML_MAX_OP_PARAMS

/// Size of a tensor's name in bytes, including the terminating zero byte. The library must be built with the same size.
#if !defined(GGML_MAX_NAME)
#    define GGML_MAX_NAME 64
#elif GGML_MAX_NAME != 64
#    error "this libggml is built with GGML_MAX_NAME 64: the layout of struct ggml_tensor depends on it"
#endif

@ GGML_DEFAULT_N_THREADS GGML_DEFAULT_GRAPH_SIZE

/// Alignment in bytes of the objects in a context.
#if UINTPTR_MAX == 0xFFFFFFFF
#    define GGML_MEM_ALIGN 4
#else
#    define GGML_MEM_ALIGN 16
#endif

@ GGML_EXIT_SUCCESS GGML_EXIT_ABORTED
@ GGML_ROPE_TYPE_NORMAL GGML_ROPE_TYPE_NEOX GGML_ROPE_TYPE_MROPE GGML_ROPE_TYPE_VISION GGML_ROPE_TYPE_IMROPE
@ GGML_MROPE_SECTIONS

//
// Macros
//

// Silences warnings about unused names.
#define GGML_UNUSED(x) (void) (x)
#if defined(__CUDACC__)
template <typename... T> __host__ __device__ constexpr void ggml_unused_vars_impl(T &&...) noexcept {}
#    define GGML_UNUSED_VARS(...) ggml_unused_vars_impl(__VA_ARGS__)
#else
#    define GGML_UNUSED_VARS(...) (void) sizeof(((int (*)(int, ...)) NULL)(0, __VA_ARGS__))
#endif

// x rounded up to a multiple of n, a power of two.
#define GGML_PAD(x, n) (((x) + (n) - 1) & ~((n) - 1))

// Marks code that is never reached.
#if !defined(NDEBUG)
#    define GGML_UNREACHABLE() GGML_ABORT("unreachable statement reached")
#elif defined(__GNUC__)
#    define GGML_UNREACHABLE() __builtin_unreachable()
#elif defined(_MSC_VER)
#    define GGML_UNREACHABLE() __assume(0)
#else
#    define GGML_UNREACHABLE() ((void) 0)
#endif

// The function does not return.
#if defined(__cplusplus)
#    define GGML_NORETURN [[noreturn]]
#elif defined(_MSC_VER)
#    define GGML_NORETURN __declspec(noreturn)
#else
#    define GGML_NORETURN _Noreturn
#endif

// Ends the process with a formatted message. GGML_ASSERT does so if the condition is false.
#define GGML_ABORT(...) ggml_abort(__FILE__, __LINE__, __VA_ARGS__)
#define GGML_ASSERT(x)                                \
    do {                                              \
        if (!(x)) {                                   \
            GGML_ABORT("GGML_ASSERT(%s) failed", #x); \
        }                                             \
    } while (0)

// GGML_TENSOR_LOCALS(int64_t, ne, t, ne) declares the variables ne0 ... ne3 with the elements of t->ne (0 if t is
// NULL). The macros with a number declare only the first one, two or three.
#define GGML_TENSOR_LOCAL_(type, name, index, pointer, array)               \
    const type name##index = (pointer) ? (pointer)->array[index] : 0;       \
    GGML_UNUSED(name##index);
#define GGML_TENSOR_LOCALS_1(type, prefix, pointer, array) GGML_TENSOR_LOCAL_(type, prefix, 0, pointer, array)
#define GGML_TENSOR_LOCALS_2(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_1(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL_(type, prefix, 1, pointer, array)
#define GGML_TENSOR_LOCALS_3(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_2(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL_(type, prefix, 2, pointer, array)
#define GGML_TENSOR_LOCALS(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_3(type, prefix, pointer, array)   \
    GGML_TENSOR_LOCAL_(type, prefix, 3, pointer, array)

// Declare the shapes and strides of dst, src0, src1 and src2, for the code of an operation: ne0, nb0 ... of dst; ne00,
// nb00 ... of src0; ne10, nb10 ... of src1; ne20, nb20 ... of src2.
#define GGML_TENSOR_SHAPE_(number, tensor)            \
    GGML_TENSOR_LOCALS(int64_t, ne##number, tensor, ne) \
    GGML_TENSOR_LOCALS(size_t, nb##number, tensor, nb)
#define GGML_TENSOR_DST_LOCALS_                \
    GGML_TENSOR_LOCALS(int64_t, ne, dst, ne)   \
    GGML_TENSOR_LOCALS(size_t, nb, dst, nb)
#define GGML_TENSOR_UNARY_OP_LOCALS GGML_TENSOR_SHAPE_(0, src0) GGML_TENSOR_DST_LOCALS_
#define GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_SHAPE_(0, src0) GGML_TENSOR_SHAPE_(1, src1)
#define GGML_TENSOR_BINARY_OP_LOCALS GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_DST_LOCALS_
#define GGML_TENSOR_TERNARY_OP_LOCALS \
    GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_SHAPE_(2, src2) GGML_TENSOR_DST_LOCALS_

@{

//
// Abort callback
//

@ ggml_abort_callback_t

@ ggml_set_abort_callback

/// Ends the process with a message, formatted as by printf. Calls the abort callback first; without one, prints the
/// message and a backtrace to standard error.
GGML_NORETURN GGML_ATTRIBUTE_FORMAT(3, 4)
GGML_API void ggml_abort(const char *file, int line, const char *fmt, ...);

//
// Status
//

@ enum ggml_status ggml_status_to_string

//
// Half precision: IEEE 754 binary16
//

@ ggml_fp16_t ggml_fp16_to_fp32 ggml_fp32_to_fp16 ggml_fp16_to_fp32_row ggml_fp32_to_fp16_row

//
// bfloat16 and FP8
//

/// bfloat16: the upper half of a single-precision number.
typedef struct {
    /// Sign, 8 exponent bits, 7 fraction bits.
    uint16_t bits;
} ggml_bf16_t;

@ ggml_fp32_to_bf16 ggml_bf16_to_fp32 ggml_bf16_to_fp32_row ggml_fp32_to_bf16_row_ref ggml_fp32_to_bf16_row

/// 8-bit float, E4M3 of OCP FP8.
typedef struct {
    /// Sign, 4 exponent bits (bias 7), 3 fraction bits. NaN if all exponent and fraction bits are set.
    uint8_t bits;
} ggml_fp8_e4m3_t;

//
// Types
//

@ struct ggml_object struct ggml_context struct ggml_cgraph

struct ggml_backend_buffer;

@ enum ggml_type enum ggml_prec enum ggml_op_hint
@ enum ggml_ftype enum ggml_op enum ggml_unary_op enum ggml_glu_op enum ggml_object_type enum ggml_log_level
@ enum ggml_tensor_flag enum ggml_tri_type struct ggml_init_params struct ggml_tensor

/// Size of a tensor in bytes, without its data.
static const size_t GGML_TENSOR_SIZE = sizeof(struct ggml_tensor);

@ ggml_abort_callback

//
// GUID
//

@ ggml_guid ggml_guid_t ggml_guid_matches

//
// Version, time, files
//

@ ggml_version ggml_commit ggml_time_init ggml_time_ms ggml_time_us ggml_cycles ggml_cycles_per_ms ggml_fopen

//
// Sizes, names and layouts
//

@ ggml_print_object ggml_print_objects ggml_nelements ggml_nrows ggml_nbytes ggml_nbytes_pad ggml_blck_size
@ ggml_type_size ggml_row_size ggml_type_sizef ggml_type_name ggml_op_name ggml_op_symbol ggml_unary_op_name
@ ggml_glu_op_name ggml_op_desc ggml_element_size ggml_is_quantized ggml_ftype_to_ggml_type ggml_is_transposed
@ ggml_is_permuted ggml_is_empty ggml_is_view ggml_is_scalar ggml_is_vector ggml_is_matrix ggml_is_3d ggml_n_dims
@ ggml_is_contiguous ggml_is_contiguous_0 ggml_is_contiguous_1 ggml_is_contiguous_2 ggml_is_contiguous_to_1
@ ggml_is_contiguous_to_2 ggml_is_contiguous_to_3 ggml_is_contiguously_allocated ggml_is_contiguous_channels
@ ggml_is_contiguous_rows ggml_are_same_shape ggml_are_same_stride ggml_can_repeat ggml_tensor_overhead
@ ggml_validate_row_data

//
// Contexts and tensors
//

@ ggml_init ggml_reset ggml_free ggml_used_mem ggml_get_no_alloc ggml_set_no_alloc ggml_get_mem_buffer
@ ggml_get_mem_size ggml_get_max_tensor_size ggml_new_tensor ggml_new_tensor_1d ggml_new_tensor_2d ggml_new_tensor_3d
@ ggml_new_tensor_4d ggml_new_buffer ggml_dup_tensor ggml_view_tensor

//
// Tensors of a context
//

@ ggml_get_first_tensor ggml_get_next_tensor ggml_get_tensor

//
// Data, parameters and name of a tensor
//

@ ggml_unravel_index ggml_get_unary_op ggml_get_glu_op ggml_get_data ggml_get_data_f32 ggml_get_name ggml_set_name

/// Sets the name of a tensor, formatted as by printf and cut to `GGML_MAX_NAME` - 1 bytes. Returns the tensor.
GGML_ATTRIBUTE_FORMAT(2, 3)
GGML_API struct ggml_tensor *ggml_format_name(struct ggml_tensor *tensor, const char *fmt, ...);

//
// Tensor flags
//

@ ggml_set_input ggml_set_output ggml_set_param ggml_set_loss

//
// Operations on tensors: arithmetic, activations, norms, products
//

// Arithmetic

@ ggml_dup ggml_dup_inplace ggml_add ggml_add_inplace ggml_add_cast ggml_add_id ggml_add1 ggml_add1_inplace ggml_acc
@ ggml_acc_inplace ggml_sub ggml_sub_inplace ggml_mul ggml_mul_inplace ggml_div ggml_div_inplace ggml_sqr
@ ggml_sqr_inplace ggml_sqrt ggml_sqrt_inplace ggml_log ggml_log_inplace ggml_expm1 ggml_expm1_inplace ggml_softplus
@ ggml_softplus_inplace ggml_sin ggml_sin_inplace ggml_cos ggml_cos_inplace

// Reductions, repetition and concatenation

@ ggml_sum ggml_sum_rows ggml_cumsum ggml_mean ggml_argmax ggml_count_equal ggml_repeat ggml_repeat_4d
@ ggml_repeat_back ggml_concat

// Functions of each element

@ ggml_abs ggml_abs_inplace ggml_sgn ggml_sgn_inplace ggml_neg ggml_neg_inplace ggml_step ggml_step_inplace ggml_tanh
@ ggml_tanh_inplace ggml_elu ggml_elu_inplace ggml_relu ggml_leaky_relu ggml_relu_inplace ggml_sigmoid
@ ggml_sigmoid_inplace ggml_gelu ggml_gelu_inplace ggml_gelu_erf ggml_gelu_erf_inplace ggml_gelu_quick
@ ggml_gelu_quick_inplace ggml_silu ggml_silu_inplace ggml_silu_back ggml_hardswish ggml_hardsigmoid ggml_exp
@ ggml_exp_inplace ggml_floor ggml_floor_inplace ggml_ceil ggml_ceil_inplace ggml_round ggml_round_inplace ggml_trunc
@ ggml_trunc_inplace ggml_xielu

// Gated linear units

@ ggml_glu ggml_reglu ggml_reglu_swapped ggml_geglu ggml_geglu_swapped ggml_swiglu ggml_swiglu_swapped ggml_geglu_erf
@ ggml_geglu_erf_swapped ggml_geglu_quick ggml_geglu_quick_swapped ggml_glu_split ggml_reglu_split ggml_geglu_split
@ ggml_swiglu_split ggml_geglu_erf_split ggml_geglu_quick_split ggml_swiglu_oai ggml_swiglu_clamp

// Normalization

@ ggml_norm ggml_norm_inplace ggml_rms_norm ggml_rms_norm_inplace ggml_group_norm ggml_group_norm_inplace ggml_l2_norm
@ ggml_l2_norm_inplace ggml_rms_norm_back

// Precision

@ ggml_prec_set_acc ggml_prec_set_src ggml_prec_get_acc ggml_prec_get_src

// Matrix products

@ ggml_mul_mat ggml_mul_mat_set_prec ggml_mul_mat_set_hint ggml_mul_mat_id ggml_out_prod

//
// Operations on tensors: copies, views, softmax, convolution, attention and the rest
//

// Scaling, and writing into a part

@ ggml_scale ggml_scale_inplace ggml_scale_bias ggml_scale_bias_inplace ggml_set ggml_set_inplace ggml_set_1d
@ ggml_set_1d_inplace ggml_set_2d ggml_set_2d_inplace

// Copies

@ ggml_cpy ggml_cast ggml_cont ggml_cont_1d ggml_cont_2d ggml_cont_3d ggml_cont_4d

// Reshaping and views

@ ggml_reshape ggml_reshape_1d ggml_reshape_2d ggml_reshape_3d ggml_reshape_4d ggml_view_1d ggml_view_2d ggml_view_3d
@ ggml_view_4d ggml_permute ggml_transpose

// Rows

@ ggml_get_rows ggml_get_rows_back ggml_set_rows

// Diagonals and clamping

@ ggml_diag ggml_diag_mask_inf ggml_diag_mask_inf_inplace ggml_diag_mask_zero ggml_diag_mask_zero_inplace ggml_clamp
@ ggml_clamp_inplace

// Softmax

@ ggml_soft_max ggml_soft_max_inplace ggml_soft_max_ext ggml_soft_max_ext_inplace ggml_soft_max_add_sinks
@ ggml_soft_max_ext_back ggml_soft_max_ext_back_inplace

// Rotary position embedding (RoPE)

@ ggml_rope ggml_rope_inplace ggml_rope_ext ggml_rope_multi ggml_rope_ext_inplace ggml_rope_multi_inplace
@ ggml_rope_custom ggml_rope_custom_inplace ggml_rope_yarn_corr_dims ggml_rope_ext_back ggml_rope_multi_back
@ ggml_rope_set_offset

// Convolution

@ ggml_im2col ggml_im2col_back ggml_col2im_1d ggml_conv_1d ggml_conv_1d_ph ggml_conv_1d_dw ggml_conv_1d_dw_ph
@ ggml_conv_transpose_1d ggml_conv_2d ggml_im2col_3d ggml_conv_3d ggml_conv_2d_sk_p0 ggml_conv_2d_s1_ph
@ ggml_conv_2d_dw ggml_conv_2d_dw_direct ggml_conv_transpose_2d_p0 ggml_conv_2d_direct ggml_conv_3d_direct

// Pooling

@ enum ggml_op_pool ggml_pool_1d ggml_pool_2d ggml_pool_2d_back

// Resampling, padding and filling

@ enum ggml_scale_mode enum ggml_scale_flag ggml_upscale ggml_upscale_ext ggml_interpolate ggml_pad ggml_pad_circular
@ ggml_pad_ext ggml_pad_ext_circular ggml_pad_reflect_1d ggml_roll ggml_tri ggml_fill ggml_fill_inplace
@ ggml_timestep_embedding

// Sorting

@ enum ggml_sort_order ggml_argsort ggml_argsort_top_k ggml_top_k ggml_arange

// Attention

@ ggml_flash_attn_ext ggml_flash_attn_ext_set_prec ggml_flash_attn_ext_get_prec ggml_flash_attn_ext_set_n_kv_max
@ ggml_flash_attn_ext_add_sinks ggml_flash_attn_back

// State-space models

@ ggml_ssm_conv ggml_ssm_scan

// Windows

@ ggml_win_part ggml_win_unpart

// Unary operations by their number

@ ggml_unary ggml_unary_inplace

// Relative positions

@ ggml_get_rel_pos ggml_add_rel_pos ggml_add_rel_pos_inplace

// Recurrent and linear attention

@ ggml_rwkv_wkv6 ggml_gated_linear_attn ggml_rwkv_wkv7 ggml_solve_tri ggml_gated_delta_net

// Sparse attention and hyper-connections

@ ggml_lightning_indexer ggml_dsv4_hc_comb ggml_dsv4_hc_pre ggml_dsv4_hc_pre_gated ggml_dsv4_hc_post ggml_top_k_mask

//
// Custom operations
//

@ ggml_custom1_op_t ggml_custom2_op_t ggml_custom3_op_t GGML_N_TASKS_MAX ggml_map_custom1 ggml_map_custom1_inplace
@ ggml_map_custom2 ggml_map_custom2_inplace ggml_map_custom3 ggml_map_custom3_inplace ggml_custom_op_t ggml_custom_4d
@ ggml_custom_inplace

//
// Loss functions
//

@ ggml_cross_entropy_loss ggml_cross_entropy_loss_back

//
// Optimizer steps
//

@ ggml_opt_step_adamw ggml_opt_step_sgd

//
// Building graphs
//

@ ggml_build_forward_select ggml_build_forward_expand ggml_build_forward_order ggml_build_backward_expand

//
// Graphs in a context
//

@ ggml_new_graph ggml_new_graph_custom ggml_graph_dup ggml_graph_cpy ggml_graph_reset ggml_graph_clear ggml_graph_size
@ ggml_graph_node ggml_graph_nodes ggml_graph_n_nodes ggml_graph_add_node ggml_graph_overhead
@ ggml_graph_overhead_custom ggml_graph_get_tensor ggml_graph_get_grad ggml_graph_get_grad_acc

//
// Printing and dumping graphs
//

@ ggml_graph_print ggml_graph_dump_dot

//
// Log
//

@ ggml_log_callback ggml_log_get ggml_log_set

// Zeroing

@ ggml_set_zero

//
// Quantization
//

@ ggml_quantize_init ggml_quantize_free ggml_quantize_requires_imatrix ggml_quantize_chunk

// Number formats

// restrict, also in C++.
#if !defined(__cplusplus) && !defined(_MSC_VER)
#    define GGML_RESTRICT restrict
#elif defined(__GNUC__) || defined(_MSC_VER)
#    define GGML_RESTRICT __restrict
#else
#    define GGML_RESTRICT
#endif

@ ggml_to_float_t ggml_from_float_t struct ggml_type_traits ggml_get_type_traits

//
// Thread pools
//

@ enum ggml_sched_priority struct ggml_threadpool_params struct ggml_threadpool ggml_threadpool_t
@ ggml_threadpool_params_default ggml_threadpool_params_init ggml_threadpool_params_match

@}
