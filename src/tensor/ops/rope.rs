//! Rotary position embedding.
#![forbid(unsafe_code)]

use super::build::{Node, Place, require, require_type};
use crate::abi::ggml::ggml_op::{GGML_OP_ROPE, GGML_OP_ROPE_BACK};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{GGML_MROPE_SECTIONS, GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_VISION};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// How positions become angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// How many elements of a row are rotated.
    pub n_dims: i32,
    /// `GGML_ROPE_TYPE_*`: which elements form a pair.
    pub mode: i32,
    /// Context length that the model was trained with, for YaRN.
    pub n_ctx_orig: i32,
    /// Base of the frequencies.
    pub freq_base: f32,
    /// Factor of all positions.
    pub freq_scale: f32,
    /// Share of extrapolation, for YaRN.
    pub ext_factor: f32,
    /// Factor of the result.
    pub attn_factor: f32,
    /// Rotations from which YaRN extrapolates.
    pub beta_fast: f32,
    /// Rotations below which YaRN interpolates.
    pub beta_slow: f32,
    /// How the rotated pairs are shared among the positions of a token, in the multi-section modes.
    pub sections: [i32; GGML_MROPE_SECTIONS],
}

impl Rope {
    /// The plain embedding: base 10000, nothing scaled.
    pub fn plain(n_dims: i32, mode: i32) -> Self {
        Self {
            n_dims,
            mode,
            n_ctx_orig: 0,
            freq_base: 10000.0,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            beta_fast: 0.0,
            beta_slow: 0.0,
            sections: [0; GGML_MROPE_SECTIONS],
        }
    }

    /// The parameters of a `ROPE` or `ROPE_BACK` node.
    pub fn of_node(node: TensorRef) -> Self {
        let f = |i| node.op_param_f32(i);
        Self {
            n_dims: node.op_param_i32(1),
            mode: node.op_param_i32(2),
            n_ctx_orig: node.op_param_i32(4),
            freq_base: f(5),
            freq_scale: f(6),
            ext_factor: f(7),
            attn_factor: f(8),
            beta_fast: f(9),
            beta_slow: f(10),
            sections: [11, 12, 13, 14].map(|i| node.op_param_i32(i)),
        }
    }

    /// Whether a token has four positions.
    pub fn is_multi(&self) -> bool {
        self.mode & GGML_ROPE_TYPE_MROPE != 0
    }
}

/// Rotates the rows of `a` [n, heads, tokens, batches] by the I32 positions `b`: one for each token, four in the
/// multi-section modes. `factors`, F32, divides the frequencies of the pairs.
///
/// # Parameters
/// 1: `n_dims`, 2: `mode`, 4: `n_ctx_orig`, 5 to 10: the floats of [`Rope`] in their order, 11 to 14: sections, 15:
/// first rotated element (see [`set_offset`]).
pub fn rope(
    ctx: &mut Context,
    a: TensorRef,
    b: TensorRef,
    factors: Option<TensorRef>,
    rope: &Rope,
    place: Place,
) -> Result<TensorRef> {
    require(rope.mode & 1 == 0, || format!("rope: mode {} with bit 0 is no longer supported", rope.mode));
    require(b.is_vector(), || format!("rope: positions must be one row, not {:?}", b.ne()));
    require_type("rope", "b", b, &[GGML_TYPE_I32]);
    let per_token = if rope.is_multi() { 4 } else { 1 };
    require(a.ne()[2].checked_mul(per_token) == Some(b.ne()[0]), || {
        format!("rope: {} positions for {} tokens, {per_token} each", b.ne()[0], a.ne()[2])
    });
    if let Some(c) = factors {
        require_type("rope", "c", c, &[GGML_TYPE_F32]);
        require(c.ne()[0] >= i64::from(rope.n_dims / 2), || {
            format!("rope: {} frequency factors for {} pairs", c.ne()[0], rope.n_dims / 2)
        });
    }
    let sections = if rope.is_multi() { rope.sections } else { [0; GGML_MROPE_SECTIONS] };
    Node::new(GGML_OP_ROPE, place.result(ctx, a)?)
        .params(0, [0, rope.n_dims, rope.mode, 0, rope.n_ctx_orig])
        .params(5, [rope.freq_base, rope.freq_scale, rope.ext_factor, rope.attn_factor, rope.beta_fast, rope.beta_slow])
        .params(11, sections)
        .of([Some(a), Some(b), factors])
}

/// The rotation back: the gradient of [`rope`].
pub fn rope_back(
    ctx: &mut Context,
    a: TensorRef,
    b: TensorRef,
    factors: Option<TensorRef>,
    params: &Rope,
) -> Result<TensorRef> {
    let t = rope(ctx, a, b, factors, params, Place::New)?;
    t.set_op(GGML_OP_ROPE_BACK);
    Ok(t)
}

/// Makes the rotated elements start at `n_offs` of each row instead of 0.
pub fn set_offset(node: TensorRef, n_offs: i32) -> TensorRef {
    require(matches!(node.op(), GGML_OP_ROPE | GGML_OP_ROPE_BACK), || {
        format!("rope_set_offset: the node is {:?}", node.op())
    });
    require(n_offs >= 0, || format!("rope_set_offset: offset {n_offs} is negative"));
    require(node.op_param_i32(2) != GGML_ROPE_TYPE_VISION, || "rope_set_offset: not for the vision mode".into());
    node.set_op_param_i32(15, n_offs);
    node
}

/// The first rotated element of each row, see [`set_offset`].
pub fn offset_of(node: TensorRef) -> i32 {
    node.op_param_i32(15)
}

/// The pair that turns `n_rot` times within the original context, solved from `base^(2 * pair / n_dims)`.
fn corrected_dim(n_dims: i32, n_ctx_orig: i32, n_rot: f32, base: f32) -> f32 {
    n_dims as f32 * (n_ctx_orig as f32 / (n_rot * 2.0 * std::f32::consts::PI)).ln() / (2.0 * base.ln())
}

/// First and last element between which YaRN goes from extrapolation to interpolation.
pub fn yarn_corr_dims(n_dims: i32, n_ctx_orig: i32, freq_base: f32, beta_fast: f32, beta_slow: f32) -> [f32; 2] {
    let start = corrected_dim(n_dims, n_ctx_orig, beta_fast, freq_base).floor();
    let end = corrected_dim(n_dims, n_ctx_orig, beta_slow, freq_base).ceil();
    // Comparisons, not `max` and `min`: a NaN stays one, so that a wrong base shows.
    let last = n_dims as f32 - 1.0;
    [if start < 0.0 { 0.0 } else { start }, if end > last { last } else { end }]
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, i32s, srcs};
    use super::*;
    use crate::abi::ggml::GGML_ROPE_TYPE_NEOX;

    #[test]
    fn parameters_survive_the_round_trip() {
        let c = &mut ctx();
        let (a, pos, factors) = (f32s(c, &[64, 4, 7]), i32s(c, &[7]), f32s(c, &[32]));
        let params = Rope { n_ctx_orig: 4096, beta_fast: 32.0, ..Rope::plain(64, GGML_ROPE_TYPE_NEOX) };
        let t = rope(c, a, pos, Some(factors), &params, Place::New).unwrap();
        assert_eq!(Rope::of_node(t), params);
        assert_eq!(srcs(t), [(0, a), (1, pos), (2, factors)]);
        assert_eq!(offset_of(set_offset(t, 8)), 8);
    }

    #[test]
    fn sections_are_kept_in_multi_modes_only() {
        let c = &mut ctx();
        let (a, four, one) = (f32s(c, &[64, 4, 7]), i32s(c, &[28]), i32s(c, &[7]));
        let params = Rope { sections: [1, 2, 3, 4], ..Rope::plain(64, GGML_ROPE_TYPE_MROPE) };
        let t = rope_back(c, a, four, None, &params).unwrap();
        assert_eq!((t.op(), Rope::of_node(t).sections), (GGML_OP_ROPE_BACK, [1, 2, 3, 4]));
        let t = rope(c, a, one, None, &Rope { mode: 0, ..params }, Place::Inplace).unwrap();
        assert_eq!(Rope::of_node(t).sections, [0; 4]);
    }

    #[test]
    fn yarn_range_stays_inside_the_row() {
        let [start, end] = yarn_corr_dims(128, 4096, 10000.0, 32.0, 1.0);
        assert_eq!((start, end), (20.0, 46.0));
        assert_eq!(yarn_corr_dims(16, 1 << 20, 2.0, 1e9, 1e-9), [0.0, 15.0]);
    }
}
