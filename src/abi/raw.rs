//! Integers that represent enums in C signatures and structs. C code may pass any bits, so they are checked with
//! `from_raw` before use.

use std::ffi::c_int;
/// Any bits a C caller may pass as `enum ggml_status`.
pub type ggml_status = c_int;
/// Any bits a C caller may pass as `enum ggml_type`.
pub type ggml_type = c_int;
/// Any bits a C caller may pass as `enum ggml_prec`.
pub type ggml_prec = c_int;
/// Any bits a C caller may pass as `enum ggml_op_hint`.
pub type ggml_op_hint = c_int;
/// Any bits a C caller may pass as `enum ggml_ftype`.
pub type ggml_ftype = c_int;
/// Any bits a C caller may pass as `enum ggml_op`.
pub type ggml_op = c_int;
/// Any bits a C caller may pass as `enum ggml_unary_op`.
pub type ggml_unary_op = c_int;
/// Any bits a C caller may pass as `enum ggml_glu_op`.
pub type ggml_glu_op = c_int;
/// Any bits a C caller may pass as `enum ggml_object_type`.
pub type ggml_object_type = c_int;
/// Any bits a C caller may pass as `enum ggml_log_level`.
pub type ggml_log_level = c_int;
/// Any bits a C caller may pass as `enum ggml_tensor_flag`.
pub type ggml_tensor_flag = c_int;
/// Any bits a C caller may pass as `enum ggml_tri_type`.
pub type ggml_tri_type = c_int;
/// Any bits a C caller may pass as `enum ggml_op_pool`.
pub type ggml_op_pool = c_int;
/// Any bits a C caller may pass as `enum ggml_scale_mode`.
pub type ggml_scale_mode = c_int;
/// Any bits a C caller may pass as `enum ggml_scale_flag`.
pub type ggml_scale_flag = c_int;
/// Any bits a C caller may pass as `enum ggml_sort_order`.
pub type ggml_sort_order = c_int;
/// Any bits a C caller may pass as `enum ggml_sched_priority`.
pub type ggml_sched_priority = c_int;
/// Any bits a C caller may pass as `enum ggml_backend_buffer_usage`.
pub type ggml_backend_buffer_usage = c_int;
/// Any bits a C caller may pass as `enum ggml_backend_dev_type`.
pub type ggml_backend_dev_type = c_int;
/// Any bits a C caller may pass as `enum ggml_backend_meta_split_axis`.
pub type ggml_backend_meta_split_axis = c_int;
/// Any bits a C caller may pass as `enum ggml_numa_strategy`.
pub type ggml_numa_strategy = c_int;
/// Any bits a C caller may pass as `enum ggml_opt_loss_type`.
pub type ggml_opt_loss_type = c_int;
/// Any bits a C caller may pass as `enum ggml_opt_build_type`.
pub type ggml_opt_build_type = c_int;
/// Any bits a C caller may pass as `enum ggml_opt_optimizer_type`.
pub type ggml_opt_optimizer_type = c_int;
/// Any bits a C caller may pass as `enum gguf_type`.
pub type gguf_type = c_int;
/// Any bits a C caller may pass as `enum ggml_rs_policy`.
pub type ggml_rs_policy = c_int;
/// Any bits a C caller may pass as `enum ggml_rs_format`.
pub type ggml_rs_format = c_int;
