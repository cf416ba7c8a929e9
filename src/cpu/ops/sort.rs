//! Sorting of rows by indices.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader};
use super::super::check::{CheckedNode, ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_sort_order;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use std::cmp::Ordering;

/// For each row, calls `f` with the elements and their indices in ascending order of index. `f` sorts the indices, and as many as the
/// node has columns are written.
fn each_row(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, mut f: impl FnMut(&[f32], &mut Vec<i32>)) {
    let mut x = Reader::new(node.source(0), &d);
    let mut order: Vec<i32> = Vec::new();
    for r in w.share(d.nrows()) {
        let row = d.row_index(r);
        let x = x.row(row);
        order.clear();
        order.extend(0..x.len() as i32);
        f(x, &mut order);
        order.iter().take(d.ne[0]).enumerate().for_each(|(i, &at)| d.set(i, row, at));
    }
}

/// Indices of the elements of each row in ascending or, by parameter 0, descending order. The sort is stable.
pub fn argsort(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let falling = node.op_param_i32(0) == ggml_sort_order::GGML_SORT_ORDER_DESC as i32;
    each_row(w, node, d, |x, order| {
        order.sort_by(|&a, &b| {
            let (a, b) = (x[a as usize], x[b as usize]);
            if falling { b.total_cmp(&a) } else { a.total_cmp(&b) }
        });
    });
}

/// Requires single precision, indices of the same shape, and a valid order.
pub fn check_argsort(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_I32)?;
    ensure!(s.same_shape(node), "{:?} into {:?}", s.ne(), node.ne());
    ensure!(ggml_sort_order::from_raw(node.op_param_i32(0)).is_some(), "order {}", node.op_param_i32(0));
    Ok(())
}

/// Indices of the largest elements of each row, as many as the node has columns. Their order is unspecified: the first two are
/// swapped, as in the original, so that nobody relies on it.
pub fn top_k(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = d.ne[0];
    each_row(w, node, d, |x, order| {
        let largest_first =
            |&a: &i32, &b: &i32| -> Ordering { x[b as usize].total_cmp(&x[a as usize]).then(a.cmp(&b)) };
        if 0 < k && k < order.len() {
            order.select_nth_unstable_by(k - 1, largest_first);
        }
        order.truncate(k);
        order.sort_unstable_by(largest_first);
        if k > 1 {
            order.swap(0, 1);
        }
    });
}

/// Requires single precision, and at most as many indices as the row has elements.
pub fn check_top_k(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_I32)?;
    ensure!(node.ne()[0] <= s.ne()[0] && node.ne()[1..] == s.ne()[1..], "{:?} into {:?}", s.ne(), node.ne());
    Ok(())
}
