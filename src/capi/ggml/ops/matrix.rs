//! Square matrices: diagonals, triangles, systems of equations.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::matrix::{self, Mask};
use std::ffi::c_int;

/// Square matrices with the rows of `a` [n, 1, p, q] on their diagonals and zeros elsewhere: [n, n, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(matrix::diag(ctx, a))
}

/// `a` with minus infinity where the column is greater than the row + `n_past`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_inf(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(matrix::diag_mask(ctx, a, n_past, Mask::NegInf, Place::New))
}

/// As `ggml_diag_mask_inf`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_inf_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(matrix::diag_mask(ctx, a, n_past, Mask::NegInf, Place::Inplace))
}

/// `a` with zero where the column is greater than the row + `n_past`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_zero(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(matrix::diag_mask(ctx, a, n_past, Mask::Zero, Place::New))
}

/// As `ggml_diag_mask_zero`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_diag_mask_zero_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    n_past: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(matrix::diag_mask(ctx, a, n_past, Mask::Zero, Place::Inplace))
}

/// A triangle of the square matrices of F32 `a`, which must be contiguous, with zeros elsewhere.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tri(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ty: raw::ggml_tri_type,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let ty = known(ggml_tri_type::from_raw(ty), "ty", ty);
    out(matrix::tri(ctx, a, ty))
}

/// X with A X = B, for F32 `a` [n, n, p, q] and `b` [m, n, p, q], both contiguous. Only the lower triangle of `a` is
/// used. Supports only `left` and `lower` without `uni` (ones on the diagonal).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_solve_tri(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    left: bool,
    lower: bool,
    uni: bool,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(matrix::solve_tri(ctx, a, b, left, lower, uni))
}
