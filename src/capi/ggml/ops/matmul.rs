//! Products of matrices, and their precision.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{ctx as need_ctx, known, need, out, tensor as need};
use crate::guard::guarded;
use crate::tensor::ops::matmul;
use std::ffi::c_int;

/// Sets the precision that the sums of a product or of attention must keep at least: F32, BF16 or F16. False for nodes
/// of other operations.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_set_acc(a: *mut ggml_tensor, prec: raw::ggml_prec) -> bool {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::set_acc_precision(a, prec)
}

/// Sets how far a product may convert its source `idx` down: to formats of the rank of `prec` or better. Only source 1
/// of `ggml_mul_mat` and `ggml_mul_mat_id` has a choice; false for all else.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_set_src(a: *mut ggml_tensor, prec: raw::ggml_prec, idx: c_int) -> bool {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::set_src_precision(a, prec, idx)
}

/// The precision that `ggml_prec_set_acc` set; `GGML_PREC_UNDEFINED` for nodes of other operations.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_get_acc(a: *const ggml_tensor) -> raw::ggml_prec {
    // SAFETY: a valid tensor, by the contract.
    matmul::acc_precision(unsafe { need(a, "a") })
}

/// The precision that `ggml_prec_set_src` set for source `idx`; `GGML_PREC_UNDEFINED` for sources that have no choice.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_prec_get_src(a: *const ggml_tensor, idx: c_int) -> raw::ggml_prec {
    // SAFETY: a valid tensor, by the contract.
    matmul::src_precision(unsafe { need(a, "a") }, idx)
}

/// Matrix product: `a` [k, n, p', q'] and `b` [k, m, p, q] give F32 [n, m, p, q], each element the dot product of a
/// row of `a` and a row of `b`. p' and q' divide p and q. `a` may be quantized and must not be transposed.
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

/// Sets the precision of the sums of a `ggml_mul_mat` node.
#[deprecated(note = "use ggml_prec_set_acc() instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_set_prec(a: *mut ggml_tensor, prec: raw::ggml_prec) {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    matmul::mul_mat_set_prec(a, prec);
}

/// Tells the backend what is known about the sources of a `ggml_mul_mat` node.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_set_hint(a: *mut ggml_tensor, hint: raw::ggml_op_hint) {
    need!(a);
    let hint = known(ggml_op_hint::from_raw(hint), "hint", hint);
    matmul::mul_mat_set_hint(a, hint);
}

/// Matrix products with experts chosen for each token: `as` [k, n, experts], `b` [k, used', tokens] and I32 `ids`
/// [used, tokens] give F32 [n, used, tokens]: column (i, t) is expert `ids`(i, t) times column (i mod used', t) of
/// `b`. used' divides used. An id of -1 chooses no expert: its column is zero. A token must not name an expert twice: not every backend
/// can compute that.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_mat_id(
    ctx: *mut ggml_context,
    r#as: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ids: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, experts, b, ids) = unsafe { (need_ctx(ctx), need(r#as, "as"), need(b, "b"), need(ids, "ids")) };
    out(matmul::mul_mat_id(ctx, experts, b, ids))
}

/// Sums of outer products: `a` [n, k, p', q'] and `b` [m, k, p, q] give F32 [n, m, p, q]. p' and q' divide p and q.
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
