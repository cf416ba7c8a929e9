//! Sorting of rows by indices.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_sort_order;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::argsort::key;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Writes a key for each element: that of the order, above its index. So elements in the order of their keys are
/// sorted, with the first of equal ones first.
fn fill_keys(x: &[f32], falling: bool, keys: &mut Vec<i64>) {
    keys.clear();
    keys.extend(x.iter().enumerate().map(|(i, &x)| i64::from(key(x, falling)) << 32 | i as i64));
}

/// For each row, calls `f` with the elements, memory for keys, and the indices to write.
fn each_row(
    w: &Worker<'_>,
    node: CheckedNode<'_>,
    mut d: Dest<'_>,
    mut f: impl FnMut(&[f32], &mut Vec<i64>, &mut [i32]),
) {
    let mut x = Reader::new(node.source(0), &d);
    let (mut keys, mut order) = (Vec::new(), Vec::new());
    let direct = d.is_sliceable::<i32>();
    for row in rows(w, &d) {
        let x = x.row(row);
        if direct {
            f(x, &mut keys, d.row_mut::<i32>(row));
        } else {
            order.resize(d.ne[0], 0);
            f(x, &mut keys, &mut order);
            order.iter().enumerate().for_each(|(i, &at)| d.set(i, row, at));
        }
    }
}

/// Writes the indices in the keys.
fn indices(keys: &[i64], order: &mut [i32]) {
    order.iter_mut().zip(keys).for_each(|(to, &key)| *to = key as i32);
}

/// Indices of the elements of each row in ascending or, by parameter 0, descending order. The sort is stable, zeros of
/// both signs are equal, and NaN comes after all numbers in both orders.
pub fn argsort(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let falling = node.op_param_i32(0) == ggml_sort_order::GGML_SORT_ORDER_DESC as i32;
    each_row(w, node, d, |x, keys, order| {
        if !vec::sort_few(x, falling, order) {
            fill_keys(x, falling, keys);
            keys.sort_unstable();
            indices(keys, order);
        }
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

/// Indices of the largest elements of each row, as many as the node has columns. NaN is taken only if there are too few
/// numbers. The order is unspecified: the first two are swapped, as in the original, so that no host relies on it.
pub fn top_k(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let k = d.ne[0];
    each_row(w, node, d, |x, keys, order| {
        if !vec::top_few(x, keys, order) {
            fill_keys(x, true, keys);
            if 0 < k && k < keys.len() {
                keys.select_nth_unstable(k - 1);
                keys.truncate(k);
            }
            keys.sort_unstable();
            indices(keys, order);
        }
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
