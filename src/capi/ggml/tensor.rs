//! What a tensor is: sizes, shape, name, flags.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{need, optional, outputs};
use crate::ggml_assert;
use crate::guard::guarded;
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

/// Returns the name of an operation, such as "MUL_MAT". Empty for an unknown operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_name(op: raw::ggml_op) -> *const c_char {
    ggml_op::from_raw(op).map(names::op_c).unwrap_or_default().as_ptr()
}

/// Returns the formula of an operation, such as "X*Y". Empty for an unknown operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_symbol(op: raw::ggml_op) -> *const c_char {
    ggml_op::from_raw(op).map(names::op_symbol_c).unwrap_or_default().as_ptr()
}

/// Returns the name of a unary function, such as "GELU". Empty for an unknown function.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_unary_op_name(op: raw::ggml_unary_op) -> *const c_char {
    ggml_unary_op::from_raw(op).map(names::unary_c).unwrap_or_default().as_ptr()
}

/// Returns the name of a gated linear unit, such as "SWIGLU". Empty for an unknown unit.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_glu_op_name(op: raw::ggml_glu_op) -> *const c_char {
    ggml_glu_op::from_raw(op).map(names::glu_c).unwrap_or_default().as_ptr()
}

/// Returns the number of elements; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nelements(tensor: *const ggml_tensor) -> i64 {
    optional!(tensor);
    tensor.map_or(0, TensorRef::nelements)
}

/// Returns the number of rows: the product of all dimensions but the first. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nrows(tensor: *const ggml_tensor) -> i64 {
    optional!(tensor);
    tensor.map_or(0, TensorRef::nrows)
}

/// Returns the size in bytes from the first to the last byte of the data, gaps between strides included. 0 for an
/// empty tensor and for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nbytes(tensor: *const ggml_tensor) -> usize {
    optional!(tensor);
    tensor.map_or(0, TensorRef::nbytes)
}

/// As `ggml_nbytes`, rounded up to a multiple of `GGML_MEM_ALIGN`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_nbytes_pad(tensor: *const ggml_tensor) -> usize {
    optional!(tensor);
    tensor.map_or(0, |t| t.nbytes().checked_next_multiple_of(GGML_MEM_ALIGN).unwrap_or(usize::MAX))
}

/// Returns the size in bytes of an element, or of a block for quantized formats. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_element_size(tensor: *const ggml_tensor) -> usize {
    optional!(tensor);
    tensor.map_or(0, |t| t.dtype().type_size())
}

/// Returns the name of what the tensor computes: its unary function, its gated linear unit, or else its operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_desc(tensor: *const ggml_tensor) -> *const c_char {
    optional!(tensor);
    tensor.map_or(c"".as_ptr(), desc)
}

/// Returns whether the first two dimensions are swapped in memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_transposed(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_transposed)
}

/// Returns whether the strides are not in ascending order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_permuted(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_permuted)
}

/// Returns whether a dimension is 0. NULL is empty.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_empty(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_none_or(TensorRef::is_empty)
}

/// Returns whether the tensor is a view of another one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_view(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.view_src().is_some())
}

/// Returns whether all dimensions are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_scalar(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_scalar)
}

/// Returns whether all dimensions but the first are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_vector(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_vector)
}

/// Returns whether the third and fourth dimensions are 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_matrix(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_matrix)
}

/// Returns whether the fourth dimension is 1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_3d(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_3d)
}

/// Returns the number of dimensions up to the last one that is larger than 1; at least 1. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_n_dims(tensor: *const ggml_tensor) -> c_int {
    optional!(tensor);
    tensor.map_or(0, |t| t.n_dims() as c_int)
}

/// Returns whether the elements are stored without gaps, in the order of the dimensions.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_contiguous)
}

/// The same as `ggml_is_contiguous`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_0(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_contiguous)
}

/// As `ggml_is_contiguous`, but there may be gaps between rows.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_1(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.is_contiguous_from(1))
}

/// As `ggml_is_contiguous`, but there may be gaps between rows and between matrices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_2(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.is_contiguous_from(2))
}

/// Returns whether each row is stored without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_1(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.is_contiguous_to(1))
}

/// Returns whether each matrix (dimensions 0 and 1) is stored without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_2(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.is_contiguous_to(2))
}

/// Returns whether each block of dimensions 0 to 2 is stored without gaps.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_to_3(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(|t| t.is_contiguous_to(3))
}

/// Returns whether the elements fill one block of memory without gaps, in any order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguously_allocated(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_contiguously_allocated)
}

/// Returns whether the data is stored with the channels innermost (C, W, H, N) and permuted to W, H, C, N.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_channels(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_contiguous_channels)
}

/// Returns whether each row is stored without gaps, or is a single block.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_contiguous_rows(tensor: *const ggml_tensor) -> bool {
    optional!(tensor);
    tensor.is_some_and(TensorRef::is_contiguous_rows)
}

/// Returns the address of the data, which only the buffer may be able to interpret. NULL if not allocated.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_data(tensor: *const ggml_tensor) -> *mut c_void {
    optional!(tensor);
    tensor.map_or(std::ptr::null_mut(), |t| t.data().cast())
}

/// Returns the name, a string inside the tensor. Empty if the tensor has no name.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_name(tensor: *const ggml_tensor) -> *const c_char {
    optional!(tensor);
    tensor.map_or(c"".as_ptr(), TensorRef::name_ptr)
}

/// Returns whether two tensors have the same number of elements in each dimension.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_are_same_shape(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    optional!(t0, t1);
    t0.zip(t1).is_some_and(|(a, b)| a.same_shape(b))
}

/// Returns whether two tensors have the same stride in each dimension.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_are_same_stride(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    optional!(t0, t1);
    t0.zip(t1).is_some_and(|(a, b)| a.same_stride(b))
}

/// Returns whether `t0`, repeated a whole number of times in each dimension, fills `t1`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_can_repeat(t0: *const ggml_tensor, t1: *const ggml_tensor) -> bool {
    optional!(t0, t1);
    t0.zip(t1).is_some_and(|(a, b)| a.can_repeat(b))
}

/// Converts the flat index `i` of an element to coordinates. Each of `i0` to `i3` may be NULL. Does nothing for an
/// empty tensor.
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
    need!(tensor);
    let ne = tensor.ne();
    if ne[..3].contains(&0) {
        return;
    }
    outputs!(i0, i1, i2, i3);
    i0.put(i % ne[0]);
    i1.put(i / ne[0] % ne[1]);
    i2.put(i / ne[0] / ne[1] % ne[2]);
    i3.put(i / ne[0] / ne[1] / ne[2]);
}

/// Returns the unary function of a tensor. Its operation must be `GGML_OP_UNARY`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_unary_op(tensor: *const ggml_tensor) -> raw::ggml_unary_op {
    need!(tensor);
    ggml_assert!(tensor.op() == ggml_op::GGML_OP_UNARY);
    tensor.op_param_i32(0)
}

/// Returns the gated linear unit of a tensor. Its operation must be `GGML_OP_GLU`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_glu_op(tensor: *const ggml_tensor) -> raw::ggml_glu_op {
    need!(tensor);
    ggml_assert!(tensor.op() == ggml_op::GGML_OP_GLU);
    tensor.op_param_i32(0)
}

/// Returns the address of the data of an F32 tensor. NULL for other types, and if not allocated.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_data_f32(tensor: *const ggml_tensor) -> *mut f32 {
    optional!(tensor);
    tensor.filter(|t| t.dtype() == ggml_type::GGML_TYPE_F32).map_or(std::ptr::null_mut(), |t| t.data().cast())
}

/// Sets the name, cut to `GGML_MAX_NAME` - 1 bytes. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_name(tensor: *mut ggml_tensor, name: *const c_char) -> *mut ggml_tensor {
    need!(tensor; name);
    tensor.set_name(name.unwrap_or_default().to_bytes());
    tensor.as_ptr()
}

/// Marks a tensor as a graph input: it has its own memory, which can be written before the graph runs. The tensor
/// must not have an operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_input(tensor: *mut ggml_tensor) {
    need!(tensor);
    ggml_assert!(tensor.op() == ggml_op::GGML_OP_NONE, "an input has no operation");
    tensor.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT);
}

/// Marks a tensor, and the tensor it is a view of, as a graph output: its memory is not reused while the graph runs.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_output(tensor: *mut ggml_tensor) {
    need!(tensor);
    tensor.mark_output();
}

/// Marks a tensor as a trainable parameter. It must not have an operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_param(tensor: *mut ggml_tensor) {
    need!(tensor);
    ggml_assert!(tensor.op() == ggml_op::GGML_OP_NONE, "a parameter has no operation");
    tensor.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM);
}

/// Marks a tensor, which must be a scalar F32, as a loss. Several losses add up.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_loss(tensor: *mut ggml_tensor) {
    need!(tensor);
    ggml_assert!(tensor.is_scalar() && tensor.dtype() == ggml_type::GGML_TYPE_F32, "a loss is one F32 number");
    tensor.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_LOSS);
}
