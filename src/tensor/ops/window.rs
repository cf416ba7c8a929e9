//! Windows of planes and relative positions, as the segment-anything encoder uses them.
#![forbid(unsafe_code)]

use super::build::{Node, Place, dim, product, require, require_contiguous, require_same_shape, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};

/// F32 `a` [c, width, height] cut into windows of `w` x `w`, the last ones padded with zeros: [c, w, w, windows].
///
/// # Parameters
/// 0: windows across, 1: windows down, 2: `w`.
pub fn win_part(ctx: &mut Context, a: TensorRef, w: i32) -> Result<TensorRef> {
    let ne = a.ne();
    require(ne[3] == 1, || format!("win_part: a must have 3 dimensions, not {ne:?}"));
    require_type("win_part", "a", a, &[GGML_TYPE_F32]);
    require(w > 0, || format!("win_part: windows of {w}"));
    let side = i64::from(w);
    let windows = |n: i64| -> Result<i32> {
        let count = n / side + i64::from(n % side != 0);
        i32::try_from(count).map_err(|_| invalid!("win_part: {n} elements make too many windows"))
    };
    let (across, down) = (windows(ne[1])?, windows(ne[2])?);
    let count = product(&[across.into(), down.into()])?;
    Node::new(GGML_OP_WIN_PART, ctx.new_tensor(GGML_TYPE_F32, &[ne[0], side, side, count])?)
        .params(0, [across, down, w])
        .of([a])
}

/// The windows of [`win_part`] put together to [c, `width`, `height`].
///
/// # Parameters
/// 0: `w`.
pub fn win_unpart(ctx: &mut Context, a: TensorRef, width: i32, height: i32, w: i32) -> Result<TensorRef> {
    require_type("win_unpart", "a", a, &[GGML_TYPE_F32]);
    let t = ctx.new_tensor(GGML_TYPE_F32, &[a.ne()[0], width.into(), height.into()])?;
    Node::new(GGML_OP_WIN_UNPART, t).param(0, w).of([a])
}

/// The rows of `a` [c, 2 n - 1] for each pair of n positions, by their distance: F16 [c, n, n].
pub fn get_rel_pos(ctx: &mut Context, a: TensorRef, qh: i32, kh: i32) -> Result<TensorRef> {
    let ne = a.ne();
    require(qh == kh && 2 * i64::from(qh) - 1 == ne[1], || {
        format!("get_rel_pos: {qh} and {kh} positions do not match {ne:?}")
    });
    Node::new(GGML_OP_GET_REL_POS, ctx.new_tensor(GGML_TYPE_F16, &[ne[0], kh.into(), qh.into()])?).of([a])
}

/// Scores `a` [k², h w, batches] plus `pw` and `ph` [k, w, h, batches], one along each axis of the keys.
///
/// # Parameters
/// 0: in place.
pub fn add_rel_pos(ctx: &mut Context, a: TensorRef, pw: TensorRef, ph: TensorRef, place: Place) -> Result<TensorRef> {
    const OP: &str = "add_rel_pos";
    require_same_shape(OP, ("pw", pw), ("ph", ph));
    require_contiguous(OP, &[("a", a), ("pw", pw), ("ph", ph)]);
    require_type(OP, "pw", pw, &[GGML_TYPE_F32]);
    require_type(OP, "ph", ph, &[GGML_TYPE_F32]);
    let (na, np) = (a.ne(), pw.ne());
    let fits = np[3] == na[2]
        && dim(i128::from(np[0]) * i128::from(np[0])).is_ok_and(|n| n == na[0])
        && dim(i128::from(np[1]) * i128::from(np[2])).is_ok_and(|n| n == na[1]);
    require(fits, || format!("{OP}: positions {np:?} do not match scores {na:?}"));
    Node::new(GGML_OP_ADD_REL_POS, place.result(ctx, a)?).param(0, place.is_inplace()).of([a, pw, ph])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn windows_are_padded() {
        let c = &mut ctx();
        let a = f32s(c, &[3, 10, 7]);
        let t = win_part(c, a, 4).unwrap();
        assert_eq!((t.ne(), &t.op_params()[..3]), ([3, 4, 4, 6], &[3, 2, 4][..]));
        assert_eq!(win_unpart(c, t, 10, 7, 4).unwrap().ne(), a.ne());
        let table = f32s(c, &[8, 9]);
        assert_eq!(get_rel_pos(c, table, 5, 5).unwrap().ne(), [8, 5, 5, 1]);
        let (s, p) = (f32s(c, &[16, 12, 2]), f32s(c, &[4, 3, 4, 2]));
        assert_eq!(add_rel_pos(c, s, p, p, Place::Inplace).unwrap().op_param_i32(0), 1);
    }
}
