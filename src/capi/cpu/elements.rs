//! Single numbers of tensors in host memory.

use crate::abi::ggml::{ggml_context, ggml_tensor, ggml_type};
use crate::capi::convert::{need, out};
use crate::cpu::elements;
use crate::ggml_assert;
use crate::guard::guarded;
use std::ffi::c_int;

/// Creates a tensor of one integer. The context must not have `no_alloc`. Returns NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_i32(ctx: *mut ggml_context, value: i32) -> *mut ggml_tensor {
    need!(ctx);
    ggml_assert!(!ctx.no_alloc(), "the context gives tensors no data");
    let made = ctx.new_tensor(ggml_type::GGML_TYPE_I32, &[1]);
    // SAFETY: the context gives the new tensor data in its own memory, which is host memory, writable.
    out(made.inspect(|&t| unsafe { elements::set_all(t, value.into()) }))
}

/// Creates a tensor of one float. The context must not have `no_alloc`. Returns NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_f32(ctx: *mut ggml_context, value: f32) -> *mut ggml_tensor {
    need!(ctx);
    ggml_assert!(!ctx.no_alloc(), "the context gives tensors no data");
    let made = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[1]);
    // SAFETY: the context gives the new tensor data in its own memory, which is host memory, writable.
    out(made.inspect(|&t| unsafe { elements::set_all(t, value.into()) }))
}

/// Sets every element of a tensor of 8, 16 or 32-bit numbers in host memory. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_i32(tensor: *mut ggml_tensor, value: i32) -> *mut ggml_tensor {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set_all(tensor, value.into()) };
    tensor.as_ptr()
}

/// Sets every element of a tensor of 8, 16 or 32-bit numbers in host memory. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_f32(tensor: *mut ggml_tensor, value: f32) -> *mut ggml_tensor {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set_all(tensor, value.into()) };
    tensor.as_ptr()
}

/// Returns element `i`, in row-major order, as an integer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_i32_1d(tensor: *const ggml_tensor, i: c_int) -> i32 {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory.
    let value = unsafe { elements::get(tensor, elements::unravel(tensor, i.into())) };
    value as i32
}

/// Sets element `i`, in row-major order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_i32_1d(tensor: *const ggml_tensor, i: c_int, value: i32) {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set(tensor, elements::unravel(tensor, i.into()), value.into()) };
}

/// Returns the element at these indices, innermost first, as an integer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_i32_nd(
    tensor: *const ggml_tensor,
    i0: c_int,
    i1: c_int,
    i2: c_int,
    i3: c_int,
) -> i32 {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory.
    let value = unsafe { elements::get(tensor, [i0, i1, i2, i3].map(i64::from)) };
    value as i32
}

/// Sets the element at these indices, innermost first.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_i32_nd(
    tensor: *const ggml_tensor,
    i0: c_int,
    i1: c_int,
    i2: c_int,
    i3: c_int,
    value: i32,
) {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set(tensor, [i0, i1, i2, i3].map(i64::from), value.into()) };
}

/// Returns element `i`, in row-major order, as a float.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_f32_1d(tensor: *const ggml_tensor, i: c_int) -> f32 {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory.
    let value = unsafe { elements::get(tensor, elements::unravel(tensor, i.into())) };
    value as f32
}

/// Sets element `i`, in row-major order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_f32_1d(tensor: *const ggml_tensor, i: c_int, value: f32) {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set(tensor, elements::unravel(tensor, i.into()), value.into()) };
}

/// Returns the element at these indices, innermost first, as a float.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_f32_nd(
    tensor: *const ggml_tensor,
    i0: c_int,
    i1: c_int,
    i2: c_int,
    i3: c_int,
) -> f32 {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory.
    let value = unsafe { elements::get(tensor, [i0, i1, i2, i3].map(i64::from)) };
    value as f32
}

/// Sets the element at these indices, innermost first.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_f32_nd(
    tensor: *const ggml_tensor,
    i0: c_int,
    i1: c_int,
    i2: c_int,
    i3: c_int,
    value: f32,
) {
    need!(tensor);
    // SAFETY: the header requires a tensor in host memory, with writable data, because the function sets it.
    unsafe { elements::set(tensor, [i0, i1, i2, i3].map(i64::from), value.into()) };
}
