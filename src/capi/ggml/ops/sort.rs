//! Orders of rows.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::sort;
use std::ffi::c_int;

/// Indices that sort each row of `a`: I32, in the shape of `a`. Equal elements keep their order, and -0 equals 0. NaN
/// comes after all numbers, in ascending and in descending order.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argsort(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    order: raw::ggml_sort_order,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let order = known(ggml_sort_order::from_raw(order), "order", order);
    out(sort::argsort(ctx, a, order))
}

/// Indices of the `k` largest elements of each row, largest first: a view [k, ...] of `ggml_argsort`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argsort_top_k(ctx: *mut ggml_context, a: *mut ggml_tensor, k: c_int) -> *mut ggml_tensor {
    need!(ctx, a);
    out(sort::argsort_top_k(ctx, a, k))
}

/// Indices of the `k` largest elements of each row, in no particular order: I32 [k, ...]. Of equal elements, the first
/// ones are taken. NaN is taken only if a row has fewer than `k` numbers.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_top_k(ctx: *mut ggml_context, a: *mut ggml_tensor, k: c_int) -> *mut ggml_tensor {
    need!(ctx, a);
    out(sort::top_k(ctx, a, k))
}
