//! Contexts, and tensors without an operation.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{
    ctx as need_ctx, ctx_from_raw, ctx_into_raw, dtype, logged, need, opt_ctx, opt_out, opt_tensor, out,
};
use crate::guard::guarded;
use crate::sys::cstr;
use crate::tensor::{Context, context};
use crate::{ggml_assert, log_info};
use std::ffi::{c_char, c_int, c_void};

/// Creates a context: a memory pool for tensors and graphs. The pool is `params.mem_buffer` (aligned to 16 bytes,
/// owned by the caller) or, if that is NULL, memory of the context. With `params.no_alloc`, tensors get no data. Free
/// it with `ggml_free`. Returns NULL when out of memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_init(params: ggml_init_params) -> *mut ggml_context {
    // SAFETY: the memory, if any, is the caller's and stays so, by the contract.
    let ctx = logged("ggml_init", unsafe { Context::new(params) });
    ctx.map_or(std::ptr::null_mut(), ctx_into_raw)
}

/// Removes all objects from a context, so that it can be filled again. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reset(ctx: *mut ggml_context) {
    if !ctx.is_null() {
        // SAFETY: a valid context, by the contract.
        unsafe { need_ctx(ctx) }.reset();
    }
}

/// Frees a context and everything in it. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_free(ctx: *mut ggml_context) {
    // SAFETY: NULL or made by `ggml_init`, and nobody uses it any more, by the contract.
    drop(unsafe { ctx_from_raw(ctx) });
}

/// Returns the number of bytes of the pool in use; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_used_mem(ctx: *const ggml_context) -> usize {
    // SAFETY: NULL or a valid context, by the contract.
    unsafe { opt_ctx(ctx) }.map_or(0, Context::used_mem)
}

/// Returns whether new tensors get no data.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_no_alloc(ctx: *mut ggml_context) -> bool {
    // SAFETY: NULL or a valid context, by the contract.
    unsafe { opt_ctx(ctx) }.is_some_and(Context::no_alloc)
}

/// Sets whether new tensors get no data.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_no_alloc(ctx: *mut ggml_context, no_alloc: bool) {
    // SAFETY: a valid context, by the contract.
    unsafe { need_ctx(ctx) }.set_no_alloc(no_alloc);
}

/// Returns the address of the pool; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_mem_buffer(ctx: *const ggml_context) -> *mut c_void {
    // SAFETY: NULL or a valid context, by the contract.
    unsafe { opt_ctx(ctx) }.map_or(std::ptr::null_mut(), |c| c.mem_buffer().cast())
}

/// Returns the size of the pool in bytes; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_mem_size(ctx: *const ggml_context) -> usize {
    // SAFETY: NULL or a valid context, by the contract.
    unsafe { opt_ctx(ctx) }.map_or(0, Context::mem_size)
}

/// Returns the size in bytes of the largest tensor in the context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_max_tensor_size(ctx: *const ggml_context) -> usize {
    // SAFETY: NULL or a valid context, by the contract.
    unsafe { opt_ctx(ctx) }.and_then(|c| c.tensors().map(|t| t.nbytes()).max()).unwrap_or(0)
}

/// Returns the size in bytes that a tensor takes in a context, in addition to its data.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tensor_overhead() -> usize {
    context::OBJECT_SIZE + context::TENSOR_SIZE
}

/// Logs one object of a context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_print_object(obj: *const ggml_object) {
    // SAFETY: NULL or an object of a valid context, by the contract.
    if let Some(text) = unsafe { context::describe_object(obj.cast()) } {
        log_info!("{text}");
    }
}

/// Logs all objects of a context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_print_objects(ctx: *const ggml_context) {
    // SAFETY: NULL or a valid context, by the contract.
    if let Some(c) = unsafe { opt_ctx(ctx) } {
        log_info!("ggml_print_objects: objects in context {ctx:p}:");
        c.describe_objects().iter().for_each(|line| log_info!("{line}"));
        log_info!("ggml_print_objects: --- end ---");
    }
}

/// # Safety
/// `ctx` is a valid context.
unsafe fn new_tensor(ctx: *mut ggml_context, ty: raw::ggml_type, ne: &[i64]) -> *mut ggml_tensor {
    // SAFETY: forwarded to the caller.
    out(unsafe { need_ctx(ctx) }.new_tensor(dtype(ty), ne))
}

/// Creates a tensor with `n_dims` (1 to 4) dimensions of `ne` elements, innermost first. A row of a quantized type
/// must be whole blocks. The context holds the data, unless it has `no_alloc`. Returns NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    n_dims: c_int,
    ne: *const i64,
) -> *mut ggml_tensor {
    ggml_assert!((1..=GGML_MAX_DIMS as c_int).contains(&n_dims), "a tensor has 1 to 4 dimensions, not {n_dims}");
    ggml_assert!(!ne.is_null());
    // SAFETY: `ne` holds `n_dims` numbers and `ctx` is a valid context, by the contract.
    unsafe { new_tensor(ctx, r#type, std::slice::from_raw_parts(ne, n_dims as usize)) }
}

/// Creates a one-dimensional tensor; see `ggml_new_tensor`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor_1d(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    ne0: i64,
) -> *mut ggml_tensor {
    // SAFETY: a valid context, by the contract.
    unsafe { new_tensor(ctx, r#type, &[ne0]) }
}

/// Creates a two-dimensional tensor; see `ggml_new_tensor`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor_2d(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    ne0: i64,
    ne1: i64,
) -> *mut ggml_tensor {
    // SAFETY: a valid context, by the contract.
    unsafe { new_tensor(ctx, r#type, &[ne0, ne1]) }
}

/// Creates a three-dimensional tensor; see `ggml_new_tensor`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor_3d(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    ne0: i64,
    ne1: i64,
    ne2: i64,
) -> *mut ggml_tensor {
    // SAFETY: a valid context, by the contract.
    unsafe { new_tensor(ctx, r#type, &[ne0, ne1, ne2]) }
}

/// Creates a four-dimensional tensor; see `ggml_new_tensor`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor_4d(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
) -> *mut ggml_tensor {
    // SAFETY: a valid context, by the contract.
    unsafe { new_tensor(ctx, r#type, &[ne0, ne1, ne2, ne3]) }
}

/// Returns `nbytes` uninitialised bytes of the pool, aligned to 16. NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_buffer(ctx: *mut ggml_context, nbytes: usize) -> *mut c_void {
    // SAFETY: a valid context, by the contract.
    let r = unsafe { need_ctx(ctx) }.new_object(ggml_object_type::GGML_OBJECT_TYPE_WORK_BUFFER, nbytes);
    logged("ggml_new_buffer", r).map_or(std::ptr::null_mut(), |p| p.as_ptr().cast())
}

/// Creates a tensor with the type and shape of `src`, but not its data, name or operation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dup_tensor(ctx: *mut ggml_context, src: *const ggml_tensor) -> *mut ggml_tensor {
    need!(src, ctx);
    out(ctx.new_tensor(src.dtype(), &src.ne()))
}

/// Creates a view of all of `src`, with its strides.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_view_tensor(ctx: *mut ggml_context, src: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(src, ctx);
    out(ctx.new_view_of(src))
}

/// Returns the tensor that was created first, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_first_tensor(ctx: *const ggml_context) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid context, by the contract.
    opt_out(unsafe { opt_ctx(ctx) }.and_then(|c| c.tensors().next()))
}

/// Returns the tensor that was created after `tensor`, which must belong to the context, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_next_tensor(ctx: *const ggml_context, tensor: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid context and a tensor of it, by the contract.
    opt_out(unsafe { opt_ctx(ctx).zip(opt_tensor(tensor)) }.and_then(|(c, t)| c.next_tensor(t)))
}

/// Returns the first tensor with this name, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_tensor(ctx: *mut ggml_context, name: *const c_char) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid context and a valid C string, by the contract.
    let found = unsafe { opt_ctx(ctx).zip(cstr::bytes(name)) };
    opt_out(found.and_then(|(c, name)| c.tensors().find(|t| t.name_is(name))))
}
