//! Operations that the host computes. The function is called on each of `n_tasks` threads (`GGML_N_TASKS_MAX`: all).

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{dtype, need, out};
use crate::ggml_assert;
use crate::guard::guarded;
use crate::tensor::TensorRef;
use crate::tensor::ops::Place;
use crate::tensor::ops::custom::{self, Job};
use std::ffi::{c_int, c_void};

/// The tensors at `args`.
///
/// # Safety
/// `args` points to `n` pointers, each NULL or a valid tensor; anything when `n` is not positive.
unsafe fn list(args: *mut *mut ggml_tensor, n: c_int) -> Vec<Option<TensorRef>> {
    let n = usize::try_from(n).unwrap_or(0);
    ggml_assert!(n < GGML_MAX_SRC && (n == 0 || !args.is_null()), "{n} sources, {} at most", GGML_MAX_SRC - 1);
    // SAFETY: there are `n` pointers, each NULL or a valid tensor, by the caller's promise.
    (0..n).map(|i| unsafe { TensorRef::from_ptr(args.add(i).read_unaligned()) }).collect()
}

/// Custom operation on `a`. The result has its type and shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom1(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    fun: ggml_custom1_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(custom::map1(ctx, a, Job::new(fun, n_tasks, userdata), Place::New))
}

/// As `ggml_map_custom1`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom1_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    fun: ggml_custom1_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(custom::map1(ctx, a, Job::new(fun, n_tasks, userdata), Place::Inplace))
}

/// Custom operation on `a` and `b`. The result has the type and shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom2(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    fun: ggml_custom2_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(custom::map2(ctx, [a, b], Job::new(fun, n_tasks, userdata), Place::New))
}

/// As `ggml_map_custom2`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom2_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    fun: ggml_custom2_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(custom::map2(ctx, [a, b], Job::new(fun, n_tasks, userdata), Place::Inplace))
}

/// Custom operation on `a`, `b` and `c`. The result has the type and shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom3(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    fun: ggml_custom3_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a, b, c);
    out(custom::map3(ctx, [a, b, c], Job::new(fun, n_tasks, userdata), Place::New))
}

/// As `ggml_map_custom3`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_map_custom3_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    fun: ggml_custom3_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a, b, c);
    out(custom::map3(ctx, [a, b, c], Job::new(fun, n_tasks, userdata), Place::Inplace))
}

/// Custom operation on the `n_args` tensors at `args`, at most `GGML_MAX_SRC` - 1, with a result of any type and
/// shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_custom_4d(
    ctx: *mut ggml_context,
    ty: raw::ggml_type,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
    args: *mut *mut ggml_tensor,
    n_args: c_int,
    fun: ggml_custom_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx);
    // SAFETY: the header requires a list of `n_args` tensors.
    let args = unsafe { list(args, n_args) };
    out(custom::custom(ctx, dtype(ty), [ne0, ne1, ne2, ne3], &args, Job::new(fun, n_tasks, userdata)))
}

/// Custom operation that overwrites `a`, which is source 0, and reads the `n_args` tensors at `args`, at most
/// `GGML_MAX_SRC` - 2.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_custom_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    args: *mut *mut ggml_tensor,
    n_args: c_int,
    fun: ggml_custom_op_t,
    n_tasks: c_int,
    userdata: *mut c_void,
) -> *mut ggml_tensor {
    need!(ctx, a);
    // SAFETY: the header requires a list of `n_args` tensors.
    let args = unsafe { list(args, n_args) };
    out(custom::custom_inplace(ctx, a, &args, Job::new(fun, n_tasks, userdata)))
}
