//! Orders of rows.
#![forbid(unsafe_code)]

use super::build::{Node, require};
use super::reduce::require_indexable_rows;
use super::view;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_sort_order;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

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
    fn the_first_of_a_sort_are_a_view_of_it() {
        let c = &mut ctx();
        let a = f32s(c, &[8, 3]);
        let t = argsort_top_k(c, a, 2).unwrap();
        let sort = t.src(0).unwrap();
        assert_eq!((t.op(), sort.op(), sort.op_param_i32(0)), (GGML_OP_VIEW, GGML_OP_ARGSORT, 1));
        assert_eq!((t.ne(), t.nb()), ([2, 3, 1, 1], sort.nb()));
    }

    #[test]
    fn no_fewer_than_no_elements_are_taken() {
        let c = &mut ctx();
        let a = f32s(c, &[8, 3, 2]);
        assert_eq!(top_k(c, a, 2).unwrap().ne(), [2, 3, 2, 1]);
        assert!(top_k(c, a, -1).is_err());
    }
}
