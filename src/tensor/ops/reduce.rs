//! Sums, means, greatest elements and counts: what runs along rows, or over everything.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_same_shape, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

fn one_per_row(a: TensorRef) -> [i64; 4] {
    let mut ne = a.ne();
    ne[0] = 1;
    ne
}

/// The sum of all elements, as one element of the same format.
pub fn sum(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_SUM, ctx.new_tensor(a.dtype(), &[1])?).of([a])
}

/// The sum of each row.
pub fn sum_rows(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_SUM_ROWS, ctx.new_tensor(a.dtype(), &one_per_row(a))?).of([a])
}

/// Sums from the start of each row up to each element, F32.
pub fn cumsum(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    require_type("cumsum", "a", a, &[GGML_TYPE_F32]);
    Node::new(GGML_OP_CUMSUM, ctx.new_like(a)?).of([a])
}

/// The mean of each row, as F32.
pub fn mean(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_MEAN, ctx.new_tensor(GGML_TYPE_F32, &one_per_row(a))?).of([a])
}

#[track_caller]
pub(super) fn require_indexable_rows(op: &str, a: TensorRef) {
    let n = a.ne()[0];
    require(n <= i64::from(i32::MAX), || format!("{op}: rows of {n} elements are too long for 32-bit indices"));
}

/// The index of the greatest element of each row of a matrix, as I32.
pub fn argmax(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    require(a.is_matrix(), || format!("argmax: a must be a matrix, not {:?}", a.ne()));
    require_indexable_rows("argmax", a);
    Node::new(GGML_OP_ARGMAX, ctx.new_tensor(GGML_TYPE_I32, &[a.ne()[1]])?).of([a])
}

/// How many elements are equal, as one I64.
pub fn count_equal(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require_same_shape("count_equal", ("a", a), ("b", b));
    Node::new(GGML_OP_COUNT_EQUAL, ctx.new_tensor(GGML_TYPE_I64, &[1])?).of([a, b])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;

    #[test]
    fn shapes_of_reductions() {
        let c = &mut ctx();
        let a = f32s(c, &[8, 3, 2]);
        assert_eq!(sum(c, a).unwrap().ne(), [1; 4]);
        assert_eq!(sum_rows(c, a).unwrap().ne(), [1, 3, 2, 1]);
        assert_eq!(mean(c, a).unwrap().ne(), [1, 3, 2, 1]);
        let m = f32s(c, &[8, 3]);
        assert_eq!((argmax(c, m).unwrap().ne(), argmax(c, m).unwrap().dtype()), ([3, 1, 1, 1], GGML_TYPE_I32));
        assert_eq!(count_equal(c, a, a).unwrap().dtype(), GGML_TYPE_I64);
    }
}
