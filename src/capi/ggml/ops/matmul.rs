//! Products of matrices, and their precision.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out, spoil, tensor as need_tensor};
use crate::guard::guarded;
use crate::tensor::ops::matmul;
use std::ffi::c_int;

/// Sets the lowest precision of the accumulator of a matrix product or of attention: F32, BF16 or F16. Returns false
/// for other operations.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_set_acc(a: *mut ggml_tensor, prec: raw::ggml_prec) -> bool {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::set_acc_precision(a, prec)
}

/// Sets the lowest precision that a matrix product may convert its source `idx` to. Applies only to source 1 of
/// `ggml_mul_mat` and `ggml_mul_mat_id`; otherwise returns false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_set_src(a: *mut ggml_tensor, prec: raw::ggml_prec, idx: c_int) -> bool {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::set_src_precision(a, prec, idx)
}

/// Returns the precision set by `ggml_prec_set_acc`. `GGML_PREC_UNDEFINED` for other operations.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_get_acc(a: *const ggml_tensor) -> raw::ggml_prec {
    need!(a);
    matmul::acc_precision(a)
}

/// Returns the precision set by `ggml_prec_set_src` for source `idx`. `GGML_PREC_UNDEFINED` for sources that have
/// none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_get_src(a: *const ggml_tensor, idx: c_int) -> raw::ggml_prec {
    need!(a);
    matmul::src_precision(a, idx)
}

/// Matrix product: `a` [k, n, p', q'] and `b` [k, m, p, q] give F32 [n, m, p, q]. Each element is the dot product of
/// a row of `a` and a row of `b`. p and q must be multiples of p' and q'. `a` may be quantized, and must not be
/// transposed. NaN in a row makes its products NaN. An infinity makes them infinite, or NaN: the CPU gives NaN if `a`
/// is quantized, because it multiplies bytes with a scale.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(matmul::mul_mat(ctx, a, b))
}

/// Sets the precision of the accumulator of a `ggml_mul_mat` node.
#[deprecated(note = "use ggml_prec_set_acc() instead")]
#[guarded(spoil!(a))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_set_prec(a: *mut ggml_tensor, prec: raw::ggml_prec) {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::mul_mat_set_prec(a, prec);
}

/// Sets what the backend may assume about the sources of a `ggml_mul_mat` node.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_set_hint(a: *mut ggml_tensor, hint: raw::ggml_op_hint) {
    need!(a);
    let hint = known(ggml_op_hint::from_raw(hint), "hint", hint);
    matmul::mul_mat_set_hint(a, hint);
}

/// Matrix products with experts selected per token: `as` [k, n, experts], `b` [k, used', tokens] and I32 `ids` [used,
/// tokens] give F32 [n, used, tokens]. Column (i, t) is expert `ids`(i, t) times column (i mod used', t) of `b`. used
/// must be a multiple of used'. An id of -1 selects no expert: its column is zero. The experts of a token must all be
/// different: not every backend supports repetitions.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_id(
    ctx: *mut ggml_context,
    r#as: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ids: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx);
    // SAFETY: the header requires a valid tensor. (`need!` would say "r#as" in its message.)
    let experts = unsafe { need_tensor(r#as, "as") };
    need!(b, ids);
    out(matmul::mul_mat_id(ctx, experts, b, ids))
}

/// Sum of outer products: `a` [n, k, p', q'] and `b` [m, k, p, q] give F32 [n, m, p, q]. p and q must be multiples of
/// p' and q'.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_out_prod(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(matmul::out_prod(ctx, a, b))
}
