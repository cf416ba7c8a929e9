//! What a tensor is: sizes, shape, name, flags.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{opt_tensor, put, tensor as need};
use crate::ggml_assert;
use crate::guard::guarded;
use crate::sys::cstr;
use crate::tensor::{TensorRef, names};
use std::ffi::{c_char, c_int, c_void};

fn desc(t: TensorRef) -> *const c_char {
    let name = match t.op() {
        ggml_op::GGML_OP_UNARY => t.unary_op().map(names::unary_c),
        ggml_op::GGML_OP_GLU => t.glu_op().map(names::glu_c),
        op => Some(names::op_c(op)),
    };
    name.unwrap_or_default().as_ptr()
}

/// Name of an operation, such as "MUL_MAT"; empty for a number that is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_name(op: raw::ggml_op) -> *const c_char {
    ggml_op::from_raw(op).map(names::op_c).unwrap_or_default().as_ptr()
}

/// Formula of an operation, such as "X*Y"; empty for a number that is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_symbol(op: raw::ggml_op) -> *const c_char {
    ggml_op::from_raw(op).map(names::op_symbol_c).unwrap_or_default().as_ptr()
}

/// Name of a unary function, such as "GELU"; empty for a number that is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_unary_op_name(op: raw::ggml_unary_op) -> *const c_char {
    ggml_unary_op::from_raw(op).map(names::unary_c).unwrap_or_default().as_ptr()
}

/// Name of a gated function, such as "SWIGLU"; empty for a number that is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_glu_op_name(op: raw::ggml_glu_op) -> *const c_char {
    ggml_glu_op::from_raw(op).map(names::glu_c).unwrap_or_default().as_ptr()
}

/// Number of elements. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nelements(tensor: *const ggml_tensor) -> i64 {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(0, TensorRef::nelements)
}

/// Number of rows: elements over the first dimension. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nrows(tensor: *const ggml_tensor) -> i64 {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(0, TensorRef::nrows)
}

/// Bytes from the first to behind the last byte of the data, strides followed. 0 for an empty tensor and for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nbytes(tensor: *const ggml_tensor) -> usize {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(0, TensorRef::nbytes)
}

/// As `ggml_nbytes`, rounded up to `GGML_MEM_ALIGN`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nbytes_pad(tensor: *const ggml_tensor) -> usize {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }
        .map_or(0, |t| t.nbytes().checked_next_multiple_of(GGML_MEM_ALIGN).unwrap_or(usize::MAX))
}

/// Bytes of an element, or of a block for quantized formats. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_element_size(tensor: *const ggml_tensor) -> usize {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(0, |t| t.dtype().type_size())
}

/// Name of what the tensor computes: the operation, or the unary or gated function where it is one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_desc(tensor: *const ggml_tensor) -> *const c_char {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(c"".as_ptr(), desc)
}

/// Whether the first two dimensions are swapped in memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_transposed(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_transposed)
}

/// Whether the strides do not rise from dimension to dimension.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_permuted(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_permuted)
}

/// Whether some dimension is 0. NULL is empty.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_empty(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_none_or(TensorRef::is_empty)
}

/// Whether the tensor shows data of another one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_view(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.view_src().is_some())
}

/// Whether all dimensions are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_scalar(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_scalar)
}

/// Whether all dimensions but the first are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_vector(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_vector)
}

/// Whether the third and fourth dimension are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_matrix(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_matrix)
}

/// Whether the fourth dimension is 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_3d(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_3d)
}

/// Number of dimensions up to the last that is larger than 1; at least 1. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_n_dims(tensor: *const ggml_tensor) -> c_int {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(0, |t| t.n_dims() as c_int)
}

/// Whether the elements lie one behind the other in the order of the dimensions, without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_contiguous)
}

/// The same as `ggml_is_contiguous`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_0(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_contiguous)
}

/// As `ggml_is_contiguous`, but there may be gaps between rows.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_1(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.is_contiguous_from(1))
}

/// As `ggml_is_contiguous`, but there may be gaps between rows and between matrices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_2(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.is_contiguous_from(2))
}

/// Whether each row lies without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_1(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.is_contiguous_to(1))
}

/// Whether each matrix lies without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_2(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.is_contiguous_to(2))
}

/// Whether each block of three dimensions lies without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_3(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(|t| t.is_contiguous_to(3))
}

/// Whether the elements fill one piece of memory without gaps, in any order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguously_allocated(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_contiguously_allocated)
}

/// Whether this is channel-innermost data (C, W, H, N in memory) permuted to W, H, C, N.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_channels(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_contiguous_channels)
}

/// Whether each row lies without gaps, or is one block.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_rows(tensor: *const ggml_tensor) -> bool {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.is_some_and(TensorRef::is_contiguous_rows)
}

/// Address of the data; what it means is the buffer's affair. NULL when not allocated.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_data(tensor: *const ggml_tensor) -> *mut c_void {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(std::ptr::null_mut(), |t| t.data().cast())
}

/// The name, a C string inside the tensor; empty when it has none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_name(tensor: *const ggml_tensor) -> *const c_char {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }.map_or(c"".as_ptr(), TensorRef::name_ptr)
}

/// Whether two tensors have the same number of elements in each dimension.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_are_same_shape(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    // SAFETY: NULL or valid tensors, by the contract.
    unsafe { opt_tensor(t0).zip(opt_tensor(t1)) }.is_some_and(|(a, b)| a.same_shape(b))
}

/// Whether two tensors have the same stride in each dimension.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_are_same_stride(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    // SAFETY: NULL or valid tensors, by the contract.
    unsafe { opt_tensor(t0).zip(opt_tensor(t1)) }.is_some_and(|(a, b)| a.same_stride(b))
}

/// Whether `t0` repeated a whole number of times in each dimension fills `t1`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_can_repeat(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    // SAFETY: NULL or valid tensors, by the contract.
    unsafe { opt_tensor(t0).zip(opt_tensor(t1)) }.is_some_and(|(a, b)| a.can_repeat(b))
}

/// Turns the flat index `i` of an element into its coordinates. Addresses may be NULL. Does nothing for an empty tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_unravel_index(
    tensor: *const ggml_tensor,
    i: i64,
    i0: *mut i64,
    i1: *mut i64,
    i2: *mut i64,
    i3: *mut i64,
) {
    // SAFETY: a valid tensor, by the contract.
    let ne = unsafe { need(tensor, "tensor") }.ne();
    if ne[..3].contains(&0) {
        return;
    }
    // SAFETY: NULL or valid for writing, by the contract.
    unsafe {
        put(i0, i % ne[0]);
        put(i1, i / ne[0] % ne[1]);
        put(i2, i / ne[0] / ne[1] % ne[2]);
        put(i3, i / ne[0] / ne[1] / ne[2]);
    }
}

/// The unary function of a tensor that computes one (the contract).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_unary_op(tensor: *const ggml_tensor) -> raw::ggml_unary_op {
    // SAFETY: a valid tensor, by the contract.
    let t = unsafe { need(tensor, "tensor") };
    ggml_assert!(t.op() == ggml_op::GGML_OP_UNARY);
    t.op_param_i32(0)
}

/// The gated function of a tensor that computes one (the contract).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_glu_op(tensor: *const ggml_tensor) -> raw::ggml_glu_op {
    // SAFETY: a valid tensor, by the contract.
    let t = unsafe { need(tensor, "tensor") };
    ggml_assert!(t.op() == ggml_op::GGML_OP_GLU);
    t.op_param_i32(0)
}

/// Address of the data of an F32 tensor; NULL for other formats and when not allocated.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_data_f32(tensor: *const ggml_tensor) -> *mut f32 {
    // SAFETY: NULL or a valid tensor, by the contract.
    unsafe { opt_tensor(tensor) }
        .filter(|t| t.dtype() == ggml_type::GGML_TYPE_F32)
        .map_or(std::ptr::null_mut(), |t| t.data().cast())
}

/// Names a tensor; what does not fit into 63 bytes is cut. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_name(tensor: *mut ggml_tensor, name: *const c_char) -> *mut ggml_tensor {
    // SAFETY: a valid tensor and a valid C string, by the contract.
    unsafe { need(tensor, "tensor").set_name(cstr::bytes(name).unwrap_or_default()) };
    tensor
}

/// Marks a tensor as an input of its graph: it is allocated so that it can be set before anything is computed.
/// It must not have an operation (the contract).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_input(tensor: *mut ggml_tensor) {
    // SAFETY: a valid tensor, by the contract.
    let t = unsafe { need(tensor, "tensor") };
    ggml_assert!(t.op() == ggml_op::GGML_OP_NONE, "an input has no operation");
    t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT);
}

/// Marks a tensor, and what it is a view of, as an output of its graph: its memory is not reused while the graph is computed.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_output(tensor: *mut ggml_tensor) {
    // SAFETY: a valid tensor, by the contract.
    unsafe { need(tensor, "tensor") }.mark_output();
}

/// Marks a tensor as a parameter to train. It must not have an operation (the contract).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_param(tensor: *mut ggml_tensor) {
    // SAFETY: a valid tensor, by the contract.
    let t = unsafe { need(tensor, "tensor") };
    ggml_assert!(t.op() == ggml_op::GGML_OP_NONE, "a parameter has no operation");
    t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM);
}

/// Marks a scalar F32 tensor (the contract) as a loss; several add up.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_loss(tensor: *mut ggml_tensor) {
    // SAFETY: a valid tensor, by the contract.
    let t = unsafe { need(tensor, "tensor") };
    ggml_assert!(t.is_scalar() && t.dtype() == ggml_type::GGML_TYPE_F32, "a loss is one F32 number");
    t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_LOSS);
}
