//! Square matrices: diagonals, triangles, systems of equations.
#![forbid(unsafe_code)]

use super::build::{Node, Place, require, require_contiguous, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tri_type;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Square matrices with the rows of `a` [n, 1, ...] on their diagonals.
pub fn diag(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    let ne = a.ne();
    require(ne[1] == 1, || format!("diag: a must have one row in each matrix, not {ne:?}"));
    Node::new(GGML_OP_DIAG, ctx.new_tensor(a.dtype(), &[ne[0], ne[0], ne[2], ne[3]])?).of([a])
}

/// The value of the masked elements.
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

/// X with A X = B, for F32 lower triangular `a` [n, n, p, q] and `b` [m, n, p, q].
pub fn solve_tri(
    ctx: &mut Context,
    a: TensorRef,
    b: TensorRef,
    left: bool,
    lower: bool,
    unit: bool,
) -> Result<TensorRef> {
    require_type("solve_tri", "a", a, &[GGML_TYPE_F32]);
    require_type("solve_tri", "b", b, &[GGML_TYPE_F32]);
    let (na, nb) = (a.ne(), b.ne());
    require(na[0] == na[1], || format!("solve_tri: a must be square, not {na:?}"));
    require(na[1..] == nb[1..], || format!("solve_tri: b {nb:?} has not as many rows and batches as a {na:?}"));
    require_contiguous("solve_tri", &[("a", a), ("b", b)]);
    require(left && lower && !unit, || "solve_tri: only left, lower, not unit triangular systems".into());
    Node::new(GGML_OP_SOLVE_TRI, ctx.new_tensor(GGML_TYPE_F32, &nb)?).of([a, b])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn a_row_becomes_a_diagonal() {
        let c = &mut ctx();
        let row = f32s(c, &[4, 1, 2]);
        assert_eq!(diag(c, row).unwrap().ne(), [4, 4, 2, 1]);
    }
}
