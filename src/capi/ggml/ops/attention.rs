//! Attention as one operation.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out, spoil};
use crate::ggml_abort;
use crate::guard::guarded;
use crate::tensor::ops::attention::{self, Picks};

/// Attention: softmax(`scale` * Q K^T + slope * mask) V. `q` is [d, n, heads, b], `k` [d, kv, heads', b], `v` [dv,
/// kv, heads', b], and `mask` is NULL or contiguous F16 [kv, n, heads'', b'']. heads must be a multiple of heads' and
/// heads'', and b a multiple of b''. The result is F32 [dv, heads, n, b]. `max_bias` > 0 gives each head its ALiBi
/// slope. `logit_softcap` > 0 replaces each score x by softcap * tanh(x / softcap). On the CPU, the value of a key
/// whose mask is minus infinity does not count, even if it is NaN; on Vulkan, a NaN or infinity there makes the result
/// NaN.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_ext(
    ctx: *mut ggml_context,
    q: *mut ggml_tensor,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    mask: *mut ggml_tensor,
    scale: f32,
    max_bias: f32,
    logit_softcap: f32,
) -> *mut ggml_tensor {
    need!(ctx, q, k, v; mask);
    out(attention::flash_attn(ctx, [q, k, v], mask, scale, max_bias, logit_softcap))
}

/// Sets the precision of the accumulator of an attention node.
#[deprecated(note = "use ggml_prec_set_acc() instead")]
#[guarded(spoil!(a))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_ext_set_prec(a: *mut ggml_tensor, prec: raw::ggml_prec) {
    need!(a);
    let prec = known(ggml_prec::from_raw(prec), "prec", prec);
    attention::set_prec(a, prec);
}

/// Returns the precision of the accumulator of an attention node.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_ext_get_prec(a: *const ggml_tensor) -> raw::ggml_prec {
    need!(a);
    attention::prec(a)
}

/// Promises that no row of the mask has more than `n_kv_max` finite elements, so that a backend may read only those.
/// 0 withdraws the promise.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_ext_set_n_kv_max(a: *mut ggml_tensor, n_kv_max: i32) {
    need!(a);
    attention::set_n_kv_max(a, n_kv_max);
}

/// Sets the sinks of an attention node: F32, one number per head, which counts as one more score in its softmax. NULL
/// removes them.
#[guarded(spoil!(a))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_ext_add_sinks(a: *mut ggml_tensor, sinks: *mut ggml_tensor) {
    need!(a; sinks);
    attention::add_sinks(a, sinks);
}

/// Gradient of attention. Not implemented, as in the original: ends the process.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_flash_attn_back(
    ctx: *mut ggml_context,
    q: *mut ggml_tensor,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    d: *mut ggml_tensor,
    masked: bool,
) -> *mut ggml_tensor {
    let _ = (ctx, q, k, v, d, masked);
    ggml_abort!("flash_attn_back: attention as one operation has no gradient")
}

/// Scores that select the keys of a sparse attention: F32 `q` [d, heads, n, b], `k` [d, 1, kv, b], F32 `weights`
/// [heads, n, 1, b], already scaled, and F16 `mask` [kv, n, 1, b'] give F32 [kv, n, 1, b]: the sum over heads of
/// weight * max(q k, 0), plus the mask.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_lightning_indexer(
    ctx: *mut ggml_context,
    q: *mut ggml_tensor,
    k: *mut ggml_tensor,
    weights: *mut ggml_tensor,
    mask: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, q, k, weights, mask);
    out(attention::lightning_indexer(ctx, q, k, weights, mask))
}

/// Mask of a sparse attention that keeps only the selected cells. `mask` [kv, m1, m2, m3], F16 or F32 with contiguous
/// rows, is repeated for the rows of I32 `top_k` [picks, n1, n2, n3]. The result [kv, n1, n2, n3] is `mask` in the
/// cells that a row keeps, and minus infinity elsewhere.
///
/// A row keeps the cells it picks in `top_k`. With F32 `score` [m, n1, n2, n3], a pick counts only if its score is
/// above minus infinity. With I32 `blocks` [cells, m], pick p selects the cells in row p of `blocks` instead of cell p.
/// A row also keeps the cells of I32 `extra` [cells, n1, n2, n3]. `score`, `blocks` and `extra` may be NULL. Picks and
/// cells out of range are ignored.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_top_k_mask(
    ctx: *mut ggml_context,
    mask: *mut ggml_tensor,
    top_k: *mut ggml_tensor,
    score: *mut ggml_tensor,
    blocks: *mut ggml_tensor,
    extra: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, mask, top_k; score, blocks, extra);
    out(attention::top_k_mask(ctx, mask, Picks { top_k, score, blocks, extra }))
}
