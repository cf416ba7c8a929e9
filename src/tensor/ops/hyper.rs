//! Hyper-connections (DeepSeek V4; arXiv 2512.24880): a residual connection of several streams.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_shape, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Streams that [`comb`] is made for.
const STREAMS: i64 = 4;

/// The mixing matrices of each token, made doubly stochastic by `n_iter` normalisations: `mixes` [(2 + s) s, tokens],
/// `scale` [3 or more] and `base` [(2 + s) s] give [s, s, tokens], for s = 4 streams.
///
/// # Parameters
/// 0: `eps`, 1: `n_iter`.
pub fn comb(
    ctx: &mut Context,
    mixes: TensorRef,
    scale: TensorRef,
    base: TensorRef,
    eps: f32,
    n_iter: i32,
) -> Result<TensorRef> {
    const OP: &str = "dsv4_hc_comb";
    for (name, t) in [("mixes", mixes), ("scale", scale), ("base", base)] {
        require_type(OP, name, t, &[GGML_TYPE_F32]);
    }
    require(n_iter > 0, || format!("{OP}: {n_iter} iterations"));
    let rows = (2 + STREAMS) * STREAMS;
    let tokens = mixes.ne()[1];
    require_shape(OP, "mixes", mixes, [rows, tokens, 1, 1]);
    require(scale.ne()[0] >= 3 && scale.is_vector(), || format!("{OP}: scale {:?} must be 3 numbers", scale.ne()));
    require_shape(OP, "base", base, [rows, 1, 1, 1]);
    Node::new(GGML_OP_DSV4_HC_COMB, ctx.new_tensor(GGML_TYPE_F32, &[STREAMS, STREAMS, tokens])?)
        .param(0, eps)
        .param(1, n_iter)
        .of([mixes, scale, base])
}

/// How the streams are weighted before a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// One weight a stream: [streams, tokens].
    Stream,
    /// Gates for each element, [n, streams, tokens], of which the sigmoid times this scale is taken.
    Gated(f32),
}

/// The weighted sum of the streams `x` [n, streams, tokens], as F32 [n, tokens].
///
/// # Parameters
/// 0: scale, 1: gated.
pub fn pre(ctx: &mut Context, x: TensorRef, weights: TensorRef, kind: Weights) -> Result<TensorRef> {
    const OP: &str = "dsv4_hc_pre";
    require_type(OP, "x", x, &[GGML_TYPE_F32]);
    require_type(OP, "weights", weights, &[GGML_TYPE_F32]);
    let [n, streams, tokens, _] = x.ne();
    require(streams > 0, || format!("{OP}: x {:?} has no streams", x.ne()));
    require_shape(OP, "x", x, [n, streams, tokens, 1]);
    let (scale, gated) = match kind {
        Weights::Stream => (1.0, false),
        Weights::Gated(scale) => (scale, true),
    };
    let want = if gated { [n, streams, tokens, 1] } else { [streams, tokens, 1, 1] };
    require_shape(OP, "weights", weights, want);
    Node::new(GGML_OP_DSV4_HC_PRE, ctx.new_tensor(GGML_TYPE_F32, &[n, tokens])?)
        .param(0, scale)
        .param(1, gated)
        .of([x, weights])
}

/// The streams after a layer: its output `x` [n, tokens] goes into each by `post` [streams, tokens], and the `residual`
/// [n, streams, tokens] is mixed by `comb` [streams, streams, tokens] (the identity without it).
pub fn post(
    ctx: &mut Context,
    x: TensorRef,
    residual: TensorRef,
    post: TensorRef,
    comb: Option<TensorRef>,
) -> Result<TensorRef> {
    const OP: &str = "dsv4_hc_post";
    for (name, t) in [("x", x), ("residual", residual), ("post", post)] {
        require_type(OP, name, t, &[GGML_TYPE_F32]);
    }
    let [n, tokens, _, _] = x.ne();
    let streams = residual.ne()[1];
    require(streams > 0, || format!("{OP}: residual {:?} has no streams", residual.ne()));
    require_shape(OP, "x", x, [n, tokens, 1, 1]);
    require_shape(OP, "residual", residual, [n, streams, tokens, 1]);
    require_shape(OP, "post", post, [streams, tokens, 1, 1]);
    if let Some(comb) = comb {
        require_type(OP, "comb", comb, &[GGML_TYPE_F32]);
        require_shape(OP, "comb", comb, [streams, streams, tokens, 1]);
    }
    Node::new(GGML_OP_DSV4_HC_POST, ctx.new_tensor(GGML_TYPE_F32, &[n, streams, tokens])?).of([
        Some(x),
        Some(residual),
        Some(post),
        comb,
    ])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn streams_are_split_and_joined() {
        let c = &mut ctx();
        let (mixes, scale, base) = (f32s(c, &[24, 7]), f32s(c, &[3]), f32s(c, &[24]));
        let m = comb(c, mixes, scale, base, 1e-6, 20).unwrap();
        assert_eq!((m.ne(), m.op_param_f32(0), m.op_param_i32(1)), ([4, 4, 7, 1], 1e-6, 20));
        let (x, w) = (f32s(c, &[16, 4, 7]), f32s(c, &[4, 7]));
        let y = pre(c, x, w, Weights::Stream).unwrap();
        assert_eq!((y.ne(), y.op_param_f32(0), y.op_param_i32(1)), ([16, 7, 1, 1], 1.0, 0));
        let t = pre(c, x, x, Weights::Gated(2.0)).unwrap();
        assert_eq!((t.op_param_f32(0), t.op_param_i32(1)), (2.0, 1));
        let z = post(c, y, x, w, None).unwrap();
        assert_eq!((z.ne(), srcs(z).len()), (x.ne(), 3));
    }
}
