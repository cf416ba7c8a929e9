//! Hyper-connections (DeepSeek V4, arXiv 2512.24880): a residual connection of several streams.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::hyper::{self, Weights};

/// Mixing matrices of 4 streams for each token, from F32 `mixes` [24, tokens], `scale` of 3 and `base` of 24 elements:
/// the logits of matrix element (dst, src) are element 8 + dst + 4 src of a column of `mixes` * `scale`(2) + `base`. A
/// softmax over dst, plus `eps`, is normalised over src, then `n_iter` - 1 times over dst and src. The result is F32
/// [4, 4, tokens].
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

/// Weighted sum of the streams: F32 `x` [n, streams, tokens] and `weights` [streams, tokens] give [n, tokens].
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

/// Gated sum of the streams: `scale` times the sum over streams of `x` * sigmoid(`gate`), both F32 [n, streams,
/// tokens], is [n, tokens].
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

/// Streams after a layer: `x` [n, tokens] times `post` [streams, tokens], plus the `residual` [n, streams, tokens]
/// mixed by `comb` [dst streams, src streams, tokens]; NULL leaves the streams as they are. All F32; the result is
/// shaped like `residual`.
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
