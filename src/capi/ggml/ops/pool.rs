//! Pooling of lines and planes.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::pool::{self, Planes};
use std::ffi::c_int;

/// The maximum or the mean of each window of `k0` elements along rows, `s0` apart, with `p0` absent elements at both
/// ends, as F32.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pool_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    op: raw::ggml_op_pool,
    k0: c_int,
    s0: c_int,
    p0: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let op = known(ggml_op_pool::from_raw(op), "op", op);
    out(pool::pool_1d(ctx, a, op, k0, s0, p0))
}

/// The maximum or the mean of each window [k0, k1] of planes, [s0, s1] apart, with absent elements around the plane,
/// as F32. The paddings take part in the size of the result with their fractions, elsewhere as integers.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pool_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    op: raw::ggml_op_pool,
    k0: c_int,
    k1: c_int,
    s0: c_int,
    s1: c_int,
    p0: f32,
    p1: f32,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let op = known(ggml_op_pool::from_raw(op), "op", op);
    out(pool::pool_2d(ctx, a, op, &Planes { kernel: [k0, k1], stride: [s0, s1], pad: [p0, p1] }))
}

/// Gradient of `ggml_pool_2d`: `a` is the gradient of its result, `af` was its source.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_pool_2d_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    af: *mut ggml_tensor,
    op: raw::ggml_op_pool,
    k0: c_int,
    k1: c_int,
    s0: c_int,
    s1: c_int,
    p0: f32,
    p1: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, af);
    let op = known(ggml_op_pool::from_raw(op), "op", op);
    out(pool::pool_2d_back(ctx, a, af, op, &Planes { kernel: [k0, k1], stride: [s0, s1], pad: [p0, p1] }))
}
