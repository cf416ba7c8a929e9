//! Contexts, and tensors without an operation.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{ctx_into_raw, dtype, list, logged, need, opt_out, optional, out, take};
use crate::guard::guarded;
use crate::tensor::{Context, context};
use crate::{ggml_assert, log_info};
use std::ffi::{c_char, c_int, c_void};

/// Creates a context: a memory pool for tensors and graphs. The pool is `params.mem_buffer` (aligned to 16 bytes,
/// owned by the caller) or, if that is NULL, memory of the context. With `params.no_alloc`, tensors get no data. Free
/// it with `ggml_free`. Returns NULL when out of memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_init(params: ggml_init_params) -> *mut ggml_context {
    // SAFETY: the header requires that `params.mem_buffer`, unless it is NULL, outlives the context.
    let ctx = logged("ggml_init", unsafe { Context::new(params) });
    ctx.map_or(std::ptr::null_mut(), ctx_into_raw)
}

/// Removes all objects from a context, so that it can be filled again. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reset(ctx: *mut ggml_context) {
    optional!(ctx);
    if let Some(ctx) = ctx {
        ctx.reset();
    }
}

/// Frees a context and everything in it. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_free(ctx: *mut ggml_context) {
    take!(ctx);
    drop(ctx);
}

/// Returns the number of bytes of the pool in use; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_used_mem(ctx: *const ggml_context) -> usize {
    optional!(ctx);
    ctx.map_or(0, Context::used_mem)
}

/// Returns whether new tensors get no data.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_no_alloc(ctx: *mut ggml_context) -> bool {
    let ctx = ctx.cast_const();
    optional!(ctx);
    ctx.is_some_and(Context::no_alloc)
}

/// Sets whether new tensors get no data.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_no_alloc(ctx: *mut ggml_context, no_alloc: bool) {
    need!(ctx);
    ctx.set_no_alloc(no_alloc);
}

/// Returns the address of the pool; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_mem_buffer(ctx: *const ggml_context) -> *mut c_void {
    optional!(ctx);
    ctx.map_or(std::ptr::null_mut(), |c| c.mem_buffer().cast())
}

/// Returns the size of the pool in bytes; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_mem_size(ctx: *const ggml_context) -> usize {
    optional!(ctx);
    ctx.map_or(0, Context::mem_size)
}

/// Returns the size in bytes of the largest tensor in the context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_max_tensor_size(ctx: *const ggml_context) -> usize {
    optional!(ctx);
    ctx.and_then(|c| c.tensors().map(|t| t.nbytes()).max()).unwrap_or(0)
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
    // SAFETY: the header requires NULL or an object of a valid context.
    if let Some(text) = unsafe { context::describe_object(obj.cast()) } {
        log_info!("{text}");
    }
}

/// Logs all objects of a context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_print_objects(ctx: *const ggml_context) {
    optional!(ctx);
    if let Some(c) = ctx {
        log_info!("ggml_print_objects: objects in context {c:p}:");
        c.describe_objects().iter().for_each(|line| log_info!("{line}"));
        log_info!("ggml_print_objects: --- end ---");
    }
}

#[track_caller]
fn new_tensor(ctx: &mut Context, ty: raw::ggml_type, ne: &[i64]) -> *mut ggml_tensor {
    out(ctx.new_tensor(dtype(ty), ne))
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
    need!(ctx);
    list!(n_dims as usize; ne);
    new_tensor(ctx, r#type, ne)
}

/// Creates a one-dimensional tensor; see `ggml_new_tensor`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_tensor_1d(
    ctx: *mut ggml_context,
    r#type: raw::ggml_type,
    ne0: i64,
) -> *mut ggml_tensor {
    need!(ctx);
    new_tensor(ctx, r#type, &[ne0])
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
    need!(ctx);
    new_tensor(ctx, r#type, &[ne0, ne1])
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
    need!(ctx);
    new_tensor(ctx, r#type, &[ne0, ne1, ne2])
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
    need!(ctx);
    new_tensor(ctx, r#type, &[ne0, ne1, ne2, ne3])
}

/// Returns `nbytes` uninitialised bytes of the pool, aligned to 16. NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_buffer(ctx: *mut ggml_context, nbytes: usize) -> *mut c_void {
    need!(ctx);
    let r = ctx.new_object(ggml_object_type::GGML_OBJECT_TYPE_WORK_BUFFER, nbytes);
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
    optional!(ctx);
    opt_out(ctx.and_then(|c| c.tensors().next()))
}

/// Returns the tensor that was created after `tensor`, which must belong to the context, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_next_tensor(ctx: *const ggml_context, tensor: *mut ggml_tensor) -> *mut ggml_tensor {
    optional!(ctx, tensor);
    opt_out(ctx.zip(tensor).and_then(|(c, t)| c.next_tensor(t)))
}

/// Returns the first tensor with this name, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_tensor(ctx: *mut ggml_context, name: *const c_char) -> *mut ggml_tensor {
    let ctx = ctx.cast_const();
    optional!(ctx, name);
    opt_out(ctx.zip(name).and_then(|(c, name)| c.tensors().find(|t| t.name_is(name.to_bytes()))))
}
