//! Sums, means, greatest elements and sorting: what runs along rows, or over everything.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_type};
use super::view;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_sort_order;
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
fn require_indexable_rows(op: &str, a: TensorRef) {
    let n = a.ne()[0];
    require(n <= i64::from(i32::MAX), || format!("{op}: rows of {n} elements are too long for 32-bit indices"));
}

/// The index of the greatest element of each row of a matrix, as I32.
pub fn argmax(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    require(a.is_matrix(), || format!("argmax: a must be a matrix, not {:?}", a.ne()));
    require_indexable_rows("argmax", a);
    Node::new(GGML_OP_ARGMAX, ctx.new_tensor(GGML_TYPE_I32, &[a.ne()[1]])?).of([a])
}

/// The indices that sort each row, as I32.
///
/// # Parameters
/// 0: the order.
pub fn argsort(ctx: &mut Context, a: TensorRef, order: ggml_sort_order) -> Result<TensorRef> {
    require_indexable_rows("argsort", a);
    Node::new(GGML_OP_ARGSORT, ctx.new_tensor(GGML_TYPE_I32, &a.ne())?).param(0, order as i32).of([a])
}

#[track_caller]
fn require_k(op: &str, a: TensorRef, k: i32) {
    require(a.ne()[0] >= i64::from(k), || format!("{op}: rows of {} elements have no {k} greatest", a.ne()[0]));
}

/// The indices of the `k` greatest elements of each row, greatest first: a view of a full sort.
pub fn argsort_top_k(ctx: &mut Context, a: TensorRef, k: i32) -> Result<TensorRef> {
    require_k("argsort_top_k", a, k);
    let sorted = argsort(ctx, a, ggml_sort_order::GGML_SORT_ORDER_DESC)?;
    let (mut ne, nb) = (sorted.ne(), sorted.nb());
    ne[0] = i64::from(k);
    view::view(ctx, sorted, &ne, &nb[1..], 0)
}

/// The indices of the `k` greatest elements of each row, in no particular order.
pub fn top_k(ctx: &mut Context, a: TensorRef, k: i32) -> Result<TensorRef> {
    require_k("top_k", a, k);
    let mut ne = a.ne();
    ne[0] = i64::from(k);
    Node::new(GGML_OP_TOP_K, ctx.new_tensor(GGML_TYPE_I32, &ne)?).of([a])
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
        assert_eq!(top_k(c, a, 2).unwrap().ne(), [2, 3, 2, 1]);
        assert!(top_k(c, a, -1).is_err());
    }

    #[test]
    fn the_first_of_a_sort_are_a_view_of_it() {
        let c = &mut ctx();
        let a = f32s(c, &[8, 3]);
        let t = argsort_top_k(c, a, 2).unwrap();
        let sort = t.src(0).unwrap();
        assert_eq!((t.op(), sort.op(), sort.op_param_i32(0)), (GGML_OP_VIEW, GGML_OP_ARGSORT, 1));
        assert_eq!((t.ne(), t.nb()), ([2, 3, 1, 1], sort.nb()));
    }
}
