//! Sums, means, greatest elements and sorting.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{ctx as need_ctx, known, out, tensor as need};
use crate::guard::guarded;
use crate::tensor::ops::reduce;
use std::ffi::c_int;

/// Sum of all elements of `a`, as one element of the same type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sum(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::sum(ctx, a))
}

/// Sum of each row: `a` [n, m, p, q] gives [1, m, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sum_rows(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::sum_rows(ctx, a))
}

/// Sum of each row of F32 `a` up to each element, that element included.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cumsum(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::cumsum(ctx, a))
}

/// Mean of each row: `a` [n, m, p, q] gives F32 [1, m, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mean(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::mean(ctx, a))
}

/// Index of the greatest element of each row: a matrix [n, m] gives m I32 numbers.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argmax(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::argmax(ctx, a))
}

/// Indices that sort each row of `a`, as I32 of the same shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argsort(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    order: raw::ggml_sort_order,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    let order = known(ggml_sort_order::from_raw(order), "order", order);
    out(reduce::argsort(ctx, a, order))
}

/// Indices of the `k` greatest elements of each row, greatest first: a view [k, ...] of `ggml_argsort`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argsort_top_k(ctx: *mut ggml_context, a: *mut ggml_tensor, k: c_int) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::argsort_top_k(ctx, a, k))
}

/// Indices of the `k` greatest elements of each row, in no particular order: I32 [k, ...].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_top_k(ctx: *mut ggml_context, a: *mut ggml_tensor, k: c_int) -> *mut ggml_tensor {
    // SAFETY: a valid context and a valid tensor, by the contract.
    let (ctx, a) = unsafe { (need_ctx(ctx), need(a, "a")) };
    out(reduce::top_k(ctx, a, k))
}
