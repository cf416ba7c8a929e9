//! Tensors made of pieces of others, or of a formula: repeating, joining, padding, rolling, resizing, masking, ranges.
#![forbid(unsafe_code)]

use super::build::{Node, Place, dim, divides, require, require_contiguous, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{GGML_MAX_DIMS, ggml_scale_flag, ggml_scale_mode, ggml_tri_type};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// `a` repeated to fill `dims`, each a multiple of its own.
pub fn repeat(ctx: &mut Context, a: TensorRef, dims: [i64; GGML_MAX_DIMS]) -> Result<TensorRef> {
    require(a.is_empty() || std::iter::zip(a.ne(), dims).all(|(n, d)| divides(n, d)), || {
        format!("repeat: a {:?} cannot be repeated to fill {dims:?}", a.ne())
    });
    Node::new(GGML_OP_REPEAT, ctx.new_tensor(a.dtype(), &dims)?).of([a])
}

/// `a` repeated to the shape of `b`.
pub fn repeat_like(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require(a.can_repeat(b), || format!("repeat: a {:?} cannot be repeated to fill {:?}", a.ne(), b.ne()));
    repeat(ctx, a, b.ne())
}

/// The sum of all repetitions of the shape of `b` in `a`.
pub fn repeat_back(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require(b.can_repeat(a), || format!("repeat_back: b {:?} cannot be repeated to fill a {:?}", b.ne(), a.ne()));
    Node::new(GGML_OP_REPEAT_BACK, ctx.new_tensor(a.dtype(), &b.ne())?).of([a])
}

/// `b` behind `a` along dimension `axis`; the other dimensions are the same.
///
/// # Parameters
/// 0: the axis.
pub fn concat(ctx: &mut Context, a: TensorRef, b: TensorRef, axis: i32) -> Result<TensorRef> {
    require((0..GGML_MAX_DIMS as i32).contains(&axis), || format!("concat: there is no dimension {axis}"));
    require(a.dtype() == b.dtype(), || format!("concat: types {:?} and {:?} differ", a.dtype(), b.dtype()));
    let along = axis as usize;
    let (mut ne, nb) = (a.ne(), b.ne());
    require((0..GGML_MAX_DIMS).all(|i| i == along || ne[i] == nb[i]), || {
        format!("concat: a {:?} and b {nb:?} differ in more than dimension {axis}", a.ne())
    });
    ne[along] = dim(i128::from(ne[along]) + i128::from(nb[along]))?;
    Node::new(GGML_OP_CONCAT, ctx.new_tensor(a.dtype(), &ne)?).param(0, axis).of([a, b])
}

/// `a` with elements around it: `pad[2 * i]` before and `pad[2 * i + 1]` behind dimension `i`, zeros, or, when `circular`,
/// from the other end.
///
/// # Parameters
/// 0 to 7: the counts, 8: circular.
pub fn pad(ctx: &mut Context, a: TensorRef, pad: [i32; 2 * GGML_MAX_DIMS], circular: bool) -> Result<TensorRef> {
    let mut ne = a.ne();
    for (n, p) in ne.iter_mut().zip(pad.chunks_exact(2)) {
        *n = dim(i128::from(*n) + i128::from(p[0]) + i128::from(p[1]))?;
    }
    Node::new(GGML_OP_PAD, ctx.new_tensor(a.dtype(), &ne)?).params(0, pad).param(8, circular).of([a])
}

/// Rows of contiguous F32 `a` with `p0` mirrored elements before and `p1` behind; both are smaller than a row.
///
/// # Parameters
/// 0: `p0`, 1: `p1`.
pub fn pad_reflect_1d(ctx: &mut Context, a: TensorRef, p0: i32, p1: i32) -> Result<TensorRef> {
    let mut ne = a.ne();
    for p in [p0, p1] {
        require(p >= 0 && i64::from(p) < ne[0], || {
            format!("pad_reflect_1d: {p} mirrored elements of rows of {}: must be 0 or more, and fewer", ne[0])
        });
    }
    require_contiguous("pad_reflect_1d", &[("a", a)]);
    require_type("pad_reflect_1d", "a", a, &[GGML_TYPE_F32]);
    ne[0] = dim(i128::from(ne[0]) + i128::from(p0) + i128::from(p1))?;
    Node::new(GGML_OP_PAD_REFLECT_1D, ctx.new_tensor(a.dtype(), &ne)?).params(0, [p0, p1]).of([a])
}

/// `a` shifted along each dimension; what leaves at one end comes back at the other.
///
/// # Parameters
/// 0 to 3: the shifts.
pub fn roll(ctx: &mut Context, a: TensorRef, shifts: [i32; GGML_MAX_DIMS]) -> Result<TensorRef> {
    require(a.nb()[0] == a.dtype().type_size(), || format!("roll: rows of a have strides {:?}", a.nb()));
    require(std::iter::zip(shifts, a.ne()).all(|(s, n)| i64::from(s).abs() < n), || {
        format!("roll: shifts {shifts:?} must be smaller than a {:?}", a.ne())
    });
    Node::new(GGML_OP_ROLL, ctx.new_like(a)?).params(0, shifts).of([a])
}

/// F32 `a` resized to `dims`. `mode` is a `ggml_scale_mode` in the low byte and `ggml_scale_flag` bits above.
///
/// # Parameters
/// 0: the mode.
pub fn interpolate(ctx: &mut Context, a: TensorRef, dims: [i64; GGML_MAX_DIMS], mode: u32) -> Result<TensorRef> {
    let kind = mode & 0xff;
    require(kind < ggml_scale_mode::GGML_SCALE_MODE_COUNT as u32, || format!("interpolate: there is no mode {kind}"));
    let antialias = mode & ggml_scale_flag::GGML_SCALE_FLAG_ANTIALIAS as u32 != 0;
    require(!antialias || kind == ggml_scale_mode::GGML_SCALE_MODE_BILINEAR as u32, || {
        "interpolate: antialiasing is for the bilinear mode only".into()
    });
    require_type("interpolate", "a", a, &[GGML_TYPE_F32]);
    Node::new(GGML_OP_UPSCALE, ctx.new_tensor(a.dtype(), &dims)?).param(0, mode as i32).of([a])
}

/// F32 `a` with the first two dimensions `factor` (2 or more) times as large.
pub fn upscale(ctx: &mut Context, a: TensorRef, factor: i32, mode: u32) -> Result<TensorRef> {
    require(factor > 1, || format!("upscale: a factor of {factor} makes nothing larger"));
    let mut ne = a.ne();
    for n in &mut ne[..2] {
        *n = dim(i128::from(*n) * i128::from(factor))?;
    }
    interpolate(ctx, a, ne, mode)
}

/// Square matrices with the rows of `a` [n, 1, ...] on their diagonals.
pub fn diag(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    let ne = a.ne();
    require(ne[1] == 1, || format!("diag: a must have one row in each matrix, not {ne:?}"));
    Node::new(GGML_OP_DIAG, ctx.new_tensor(a.dtype(), &[ne[0], ne[0], ne[2], ne[3]])?).of([a])
}

/// What stands above the diagonal after masking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Minus infinity.
    NegInf,
    /// Zero.
    Zero,
}

/// `a` with the elements of column > `n_past` + row masked.
///
/// # Parameters
/// 0: `n_past`.
pub fn diag_mask(ctx: &mut Context, a: TensorRef, n_past: i32, mask: Mask, place: Place) -> Result<TensorRef> {
    let op = match mask {
        Mask::NegInf => GGML_OP_DIAG_MASK_INF,
        Mask::Zero => GGML_OP_DIAG_MASK_ZERO,
    };
    Node::new(op, place.result(ctx, a)?).param(0, n_past).of([a])
}

/// A triangle of the square matrices of contiguous F32 `a`, zeros elsewhere.
///
/// # Parameters
/// 0: the kind.
pub fn tri(ctx: &mut Context, a: TensorRef, kind: ggml_tri_type) -> Result<TensorRef> {
    require_type("tri", "a", a, &[GGML_TYPE_F32]);
    require_contiguous("tri", &[("a", a)]);
    require(a.ne()[0] == a.ne()[1], || format!("tri: a must be square, not {:?}", a.ne()));
    Node::new(GGML_OP_TRI, ctx.new_like(a)?).param(0, kind as i32).of([a])
}

/// `start`, `start` + `step`, ... below `stop`, as F32.
///
/// # Parameters
/// 0: `start`, 1: `stop`, 2: `step`.
pub fn arange(ctx: &mut Context, start: f32, stop: f32, step: f32) -> Result<TensorRef> {
    require(stop > start, || format!("arange: stop {stop} is not behind start {start}"));
    let steps = ((stop - start) / step).ceil() as i64;
    let t = ctx.new_tensor(GGML_TYPE_F32, &[steps])?;
    Node::new(GGML_OP_ARANGE, t).params(0, [start, stop, step]).of([None; 0])
}

/// Sinusoidal embeddings of `width` numbers of each of the time steps.
///
/// # Parameters
/// 0: `width`, 1: `max_period`.
pub fn timestep_embedding(ctx: &mut Context, timesteps: TensorRef, width: i32, max_period: i32) -> Result<TensorRef> {
    let t = ctx.new_tensor(GGML_TYPE_F32, &[i64::from(width), timesteps.ne()[0]])?;
    Node::new(GGML_OP_TIMESTEP_EMBEDDING, t).params(0, [width, max_period]).of([timesteps])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn shapes_of_arrangements() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[4, 2]), f32s(c, &[4, 3]));
        assert_eq!(concat(c, a, b, 1).unwrap().ne(), [4, 5, 1, 1]);
        assert_eq!(repeat(c, a, [8, 4, 3, 1]).unwrap().ne(), [8, 4, 3, 1]);
        let big = f32s(c, &[8, 4]);
        assert_eq!(repeat_back(c, big, a).unwrap().ne(), a.ne());
        let t = pad(c, a, [1, 2, 0, 3, 0, 0, 0, 0], true).unwrap();
        assert_eq!((t.ne(), &t.op_params()[..9]), ([7, 5, 1, 1], &[1, 2, 0, 3, 0, 0, 0, 0, 1][..]));
        assert_eq!(pad_reflect_1d(c, a, 3, 2).unwrap().ne(), [9, 2, 1, 1]);
        assert_eq!(upscale(c, a, 3, 1).unwrap().ne(), [12, 6, 1, 1]);
        let row = f32s(c, &[4, 1, 2]);
        assert_eq!(diag(c, row).unwrap().ne(), [4, 4, 2, 1]);
        assert_eq!(arange(c, 0.0, 5.0, 2.0).unwrap().ne(), [3, 1, 1, 1]);
    }

    #[test]
    fn nothing_repeats_to_nothing_only() {
        let c = &mut ctx();
        let empty = f32s(c, &[0, 2]);
        assert!(repeat_like(c, empty, empty).is_ok());
        assert!(arange(c, 0.0, 5.0, 0.0).is_err());
        assert!(pad(c, empty, [-1, 0, 0, 0, 0, 0, 0, 0], false).is_err());
    }
}
