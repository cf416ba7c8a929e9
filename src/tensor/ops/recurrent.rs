//! Recurrent layers: state space models, RWKV, gated linear attention, delta nets. Each result is one tensor that holds
//! the outputs and, after them, the new states.
#![forbid(unsafe_code)]

use super::build::{
    ANY, Node, dim, product, require, require_contiguous, require_contiguous_rows, require_same_shape, require_shape,
    require_type,
};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};

/// Convolution of each channel of `sx` [width - 1 + tokens, channels, sequences] with its row of `c` [width, channels],
/// as F32 [channels, tokens, sequences].
pub fn ssm_conv(ctx: &mut Context, sx: TensorRef, c: TensorRef) -> Result<TensorRef> {
    let (nx, nc) = (sx.ne(), c.ne());
    require(sx.is_3d() && c.is_matrix() && nx[1] == nc[1], || {
        format!("ssm_conv: data {nx:?} does not match kernel {nc:?}")
    });
    let tokens = dim(i128::from(nx[0]) - i128::from(nc[0]) + 1)?;
    require(tokens >= 0, || format!("ssm_conv: data {nx:?} is shorter than the state of kernel {nc:?}"));
    Node::new(GGML_OP_SSM_CONV, ctx.new_tensor(GGML_TYPE_F32, &[nc[1], tokens, nx[2]])?).of([sx, c])
}

/// Sources of [`ssm_scan`].
#[derive(Clone, Copy, Debug)]
pub struct SsmScan {
    /// States [state, width, heads, any].
    pub s: TensorRef,
    /// Inputs [width, heads, tokens, sequences].
    pub x: TensorRef,
    /// Time steps [heads, tokens, sequences].
    pub dt: TensorRef,
    /// Decay [1 or state, heads].
    pub a: TensorRef,
    /// Input weights [state, groups, tokens, sequences].
    pub b: TensorRef,
    /// Output weights, like `b`.
    pub c: TensorRef,
    /// Which state each sequence starts from: one I32 for each.
    pub ids: TensorRef,
}

/// The selective scan of Mamba. The result is one F32 row: the outputs, shaped like `x`, then `snapshots` sets of
/// states.
///
/// # Parameters
/// 0: `snapshots`.
pub fn ssm_scan(ctx: &mut Context, src: &SsmScan, snapshots: i64) -> Result<TensorRef> {
    const OP: &str = "ssm_scan";
    let SsmScan { s, x, dt, a, b, c, ids } = *src;
    let in_range = i32::try_from(snapshots).ok().filter(|&k| k >= 1);
    require(in_range.is_some(), || format!("{OP}: {snapshots} snapshots"));
    let k = in_range.unwrap_or(1);
    require_contiguous(OP, &[("s", s), ("dt", dt), ("A", a)]);
    for (name, t) in [("x", x), ("B", b), ("C", c)] {
        let (ne, nb, size) = (t.ne(), t.nb(), t.dtype().type_size());
        require(nb[0] == size && nb[1] == (ne[0] as usize).wrapping_mul(size), || {
            format!("{OP}: the first two dimensions of {name} must be dense (elements {ne:?}, strides {nb:?})")
        });
    }
    require_same_shape(OP, ("B", b), ("C", c));
    require_type(OP, "ids", ids, &[GGML_TYPE_I32]);
    let state = s.ne()[0];
    let [width, heads, tokens, sequences] = x.ne();
    require_shape(OP, "s", s, [ANY, width, heads, ANY]);
    require_shape(OP, "dt", dt, [heads, tokens, sequences, 1]);
    require_shape(OP, "B", b, [state, ANY, tokens, sequences]);
    require_shape(OP, "ids", ids, [sequences, 1, 1, 1]);
    require_shape(OP, "A", a, [ANY, heads, 1, 1]);
    if a.ne()[0] != 1 {
        require_shape(OP, "A", a, [state, heads, 1, 1]);
        require(k == 1, || format!("{OP}: {k} snapshots need one decay for each head"));
    }
    let states = product(&[i64::from(k), state, width, heads, sequences])?;
    let n = dim(i128::from(x.nelements()) + i128::from(states))?;
    Node::new(GGML_OP_SSM_SCAN, ctx.new_tensor(GGML_TYPE_F32, &[n])?).param(0, k).of([s, x, dt, a, b, c, ids])
}

/// Checks what the linear recurrences share, with heads of size `k[0]`: `per_token` tensors shaped [size, heads,
/// tokens] and a state of size² elements for each head and sequence. Returns the dimensions of the result: outputs,
/// then states, in rows of all heads.
#[track_caller]
fn linear_recurrence(op: &str, k: TensorRef, per_token: &[(&str, TensorRef)], state: TensorRef) -> Result<[i64; 2]> {
    require_contiguous(op, &[("k", k), ("state", state)]);
    require_contiguous(op, per_token);
    let [size, heads, tokens, _] = k.ne();
    for &(name, t) in per_token {
        require_shape(op, name, t, [size, heads, tokens, ANY]);
    }
    let sequences = state.ne()[1];
    let want = product(&[size, size, heads, sequences])?;
    require(state.nelements() == want, || format!("{op}: state {:?} must have {want} elements", state.ne()));
    let rows = dim(i128::from(tokens) + i128::from(product(&[size, sequences])?))?;
    Ok([product(&[size, heads])?, rows])
}

/// The recurrence of RWKV 6. `k`, `v`, `r` and decay `td` are [size, heads, tokens], `tf` the bonus of the first
/// token, `state` [size² heads, sequences]. The result is F32 [size heads, tokens + size sequences].
pub fn rwkv_wkv6(
    ctx: &mut Context,
    [k, v, r]: [TensorRef; 3],
    tf: TensorRef,
    td: TensorRef,
    state: TensorRef,
) -> Result<TensorRef> {
    require_contiguous("rwkv_wkv6", &[("tf", tf)]);
    let ne = linear_recurrence("rwkv_wkv6", k, &[("v", v), ("r", r), ("td", td)], state)?;
    Node::new(GGML_OP_RWKV_WKV6, ctx.new_tensor(GGML_TYPE_F32, &ne)?).of([k, v, r, tf, td, state])
}

/// Gated linear attention, with the shapes of [`rwkv_wkv6`]: query `q`, gate `g`.
///
/// # Parameters
/// 0: `scale` of the outputs.
pub fn gated_linear_attn(
    ctx: &mut Context,
    [k, v, q]: [TensorRef; 3],
    g: TensorRef,
    state: TensorRef,
    scale: f32,
) -> Result<TensorRef> {
    let ne = linear_recurrence("gated_linear_attn", k, &[("v", v), ("q", q), ("g", g)], state)?;
    Node::new(GGML_OP_GATED_LINEAR_ATTN, ctx.new_tensor(GGML_TYPE_F32, &ne)?).param(0, scale).of([k, v, q, g, state])
}

/// The recurrence of RWKV 7, with the shapes of [`rwkv_wkv6`]: receptance `r`, decay `w`, key `k`, value `v`, and the
/// two factors `a` and `b` of the state's update.
pub fn rwkv_wkv7(
    ctx: &mut Context,
    [r, w, k, v]: [TensorRef; 4],
    a: TensorRef,
    b: TensorRef,
    state: TensorRef,
) -> Result<TensorRef> {
    // Of `r` only the layout is checked, as hosts of the original are used to.
    require_contiguous("rwkv_wkv7", &[("r", r)]);
    let ne = linear_recurrence("rwkv_wkv7", k, &[("w", w), ("v", v), ("a", a), ("b", b)], state)?;
    Node::new(GGML_OP_RWKV_WKV7, ctx.new_tensor(GGML_TYPE_F32, &ne)?).of([r, w, k, v, a, b, state])
}

/// Sources of [`gated_delta_net`], all F32.
#[derive(Clone, Copy, Debug)]
pub struct DeltaNet {
    /// Queries [size, heads', tokens, sequences], rows contiguous.
    pub q: TensorRef,
    /// Keys, like `q`.
    pub k: TensorRef,
    /// Values [size, heads, tokens, sequences], rows contiguous.
    pub v: TensorRef,
    /// Gates [1 or size, heads, tokens, sequences].
    pub g: TensorRef,
    /// Strength of the updates [1, heads, tokens, sequences].
    pub beta: TensorRef,
    /// First states [size, size, heads, sequences].
    pub state: TensorRef,
}

/// The gated delta rule. The result is F32 [size heads, tokens sequences + `snapshots` size sequences]: the outputs,
/// then the states, the last first.
///
/// # Parameters
/// 0: `snapshots`.
pub fn gated_delta_net(ctx: &mut Context, src: &DeltaNet, snapshots: i64) -> Result<TensorRef> {
    const OP: &str = "gated_delta_net";
    let DeltaNet { q, k, v, g, beta, state } = *src;
    require_contiguous_rows(OP, &[("q", q), ("k", k), ("v", v)]);
    require_contiguous(OP, &[("g", g), ("beta", beta), ("state", state)]);
    for (name, t) in [("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta), ("state", state)] {
        require_type(OP, name, t, &[GGML_TYPE_F32]);
    }
    let [size, heads, tokens, sequences] = v.ne();
    require(g.ne()[0] == 1 || g.ne()[0] == size, || format!("{OP}: gates {:?} for heads of {size}", g.ne()));
    require_shape(OP, "beta", beta, [1, ANY, ANY, ANY]);
    require_shape(OP, "state", state, [size, size, heads, sequences]);
    require(snapshots >= 1, || format!("{OP}: {snapshots} snapshots"));
    let word = i32::try_from(snapshots).map_err(|_| invalid!("{OP}: {snapshots} snapshots"))?;
    let states = product(&[snapshots, size, sequences])?;
    let rows = dim(i128::from(product(&[tokens, sequences])?) + i128::from(states))?;
    Node::new(GGML_OP_GATED_DELTA_NET, ctx.new_tensor(GGML_TYPE_F32, &[product(&[size, heads])?, rows])?)
        .param(0, word)
        .of([q, k, v, g, beta, state])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, i32s};
    use super::*;

    #[test]
    fn states_follow_the_outputs() {
        let c = &mut ctx();
        let k = f32s(c, &[8, 2, 5]);
        let (tf, state) = (f32s(c, &[8, 2]), f32s(c, &[8 * 8 * 2, 3]));
        assert_eq!(rwkv_wkv6(c, [k; 3], tf, k, state).unwrap().ne(), [16, 5 + 24, 1, 1]);
        assert_eq!(gated_linear_attn(c, [k; 3], k, state, 0.5).unwrap().op_param_f32(0), 0.5);
        assert_eq!(rwkv_wkv7(c, [k; 4], k, k, state).unwrap().ne(), [16, 29, 1, 1]);
        let (v, g, st) = (f32s(c, &[8, 2, 5, 3]), f32s(c, &[1, 2, 5, 3]), f32s(c, &[8, 8, 2, 3]));
        let t = gated_delta_net(c, &DeltaNet { q: v, k: v, v, g, beta: g, state: st }, 2).unwrap();
        assert_eq!((t.ne(), t.op_param_i32(0)), ([16, 15 + 48, 1, 1], 2));
    }

    #[test]
    fn scans_of_state_spaces() {
        let c = &mut ctx();
        let (sx, w) = (f32s(c, &[3 + 7, 6, 2]), f32s(c, &[4, 6]));
        assert_eq!(ssm_conv(c, sx, w).unwrap().ne(), [6, 7, 2, 1]);
        let src = SsmScan {
            s: f32s(c, &[16, 4, 3, 9]),
            x: f32s(c, &[4, 3, 7, 2]),
            dt: f32s(c, &[3, 7, 2]),
            a: f32s(c, &[1, 3]),
            b: f32s(c, &[16, 1, 7, 2]),
            c: f32s(c, &[16, 1, 7, 2]),
            ids: i32s(c, &[2]),
        };
        let t = ssm_scan(c, &src, 2).unwrap();
        assert_eq!((t.ne(), t.op_param_i32(0)), ([168 + 2 * 16 * 4 * 3 * 2, 1, 1, 1], 2));
    }
}
