//! Images: padding, rolling, resizing.
#![forbid(unsafe_code)]

use super::build::{Node, dim, require, require_contiguous, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{GGML_MAX_DIMS, ggml_scale_flag, ggml_scale_mode};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// `a` with more elements along each dimension `i`: `pad[2 * i]` before and `pad[2 * i + 1]` after those of `a`. They
/// are zeros or, if `circular`, the elements from the other end.
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

/// Rows of contiguous F32 `a` with `p0` mirrored elements before and `p1` after them; both are smaller than a row.
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

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn shapes_of_images() {
        let c = &mut ctx();
        let a = f32s(c, &[4, 2]);
        let t = pad(c, a, [1, 2, 0, 3, 0, 0, 0, 0], true).unwrap();
        assert_eq!((t.ne(), &t.op_params()[..9]), ([7, 5, 1, 1], &[1, 2, 0, 3, 0, 0, 0, 0, 1][..]));
        assert_eq!(pad_reflect_1d(c, a, 3, 2).unwrap().ne(), [9, 2, 1, 1]);
        assert_eq!(upscale(c, a, 3, 1).unwrap().ne(), [12, 6, 1, 1]);
        let empty = f32s(c, &[0, 2]);
        assert!(pad(c, empty, [-1, 0, 0, 0, 0, 0, 0, 0], false).is_err());
    }
}
