//! Hyper-connections (DeepSeek V4, arXiv 2512.24880): a residual connection of several streams.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::hyper::{self, Weights};

/// Hyper-connections: the mixing matrices of 4 streams for each token, from F32 `mixes` [24, tokens], `scale` with 3
/// and `base` with 24 elements. The logit of matrix element (dst, src) is element 8 + dst + 4 * src of a column of
/// `mixes` * `scale`(2) + `base`. Computes a softmax over dst, adds `eps`, normalises over src, and then `n_iter` - 1
/// times over dst and src. The result is F32 [4, 4, tokens].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dsv4_hc_comb(
    ctx: *mut ggml_context,
    mixes: *mut ggml_tensor,
    scale: *mut ggml_tensor,
    base: *mut ggml_tensor,
    eps: f32,
    n_iter: i32,
) -> *mut ggml_tensor {
    need!(ctx, mixes, scale, base);
    out(hyper::comb(ctx, mixes, scale, base, eps, n_iter))
}

/// Hyper-connections: weighted sum of the streams. F32 `x` [n, streams, tokens] and `weights` [streams, tokens] give
/// [n, tokens].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dsv4_hc_pre(
    ctx: *mut ggml_context,
    x: *mut ggml_tensor,
    weights: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, x, weights);
    out(hyper::pre(ctx, x, weights, Weights::Stream))
}

/// Hyper-connections: gated sum of the streams, `scale` times the sum over streams of `x` * sigmoid(`gate`). Both are
/// F32 [n, streams, tokens]; the result is [n, tokens].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dsv4_hc_pre_gated(
    ctx: *mut ggml_context,
    x: *mut ggml_tensor,
    gate: *mut ggml_tensor,
    scale: f32,
) -> *mut ggml_tensor {
    need!(ctx, x, gate);
    out(hyper::pre(ctx, x, gate, Weights::Gated(scale)))
}

/// Hyper-connections: the streams after a layer. `x` [n, tokens] times `post` [streams, tokens], plus `residual` [n,
/// streams, tokens] mixed by `comb` [dst streams, src streams, tokens], or unchanged if `comb` is NULL. All are F32;
/// the result has the shape of `residual`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dsv4_hc_post(
    ctx: *mut ggml_context,
    x: *mut ggml_tensor,
    residual: *mut ggml_tensor,
    post: *mut ggml_tensor,
    comb: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, x, residual, post; comb);
    out(hyper::post(ctx, x, residual, post, comb))
}
