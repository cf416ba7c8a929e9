//! Pooling of lines and planes.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::pool::{self, Planes};
use std::ffi::c_int;

/// Maximum or average of each window of `k0` elements of a row, with a stride of `s0` and a padding of `p0` elements
/// at both ends, as F32. The maximum of a window with a NaN is NaN, and otherwise at least -FLT_MAX.
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

/// Maximum or average of each window [k0, k1] of a plane, with strides [s0, s1], as F32. The size of the result is
/// computed with the exact paddings `p0` and `p1`; the windows are placed with their integer parts. Maxima are those of
/// `ggml_pool_1d`.
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

/// Gradient of `ggml_pool_2d`: `a` is the gradient of its result, `af` its source. The gradient of a maximum goes to
/// the first of equal elements, or to the first NaN.
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
