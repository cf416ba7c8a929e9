//! The order of nodes before memory is planned: products of the same columns follow each other. So one dispatch can
//! compute them, or several without a barrier between them, and none of their results takes memory that another one
//! still needs: with norms of queries between the products, as in graphs of llama.cpp, keys would get the memory of the
//! queries.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::backend::op_is_empty;
use crate::environment::VK_DISABLE_GRAPH_OPTIMIZE;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::sync::OnceLock;

/// How many nodes after a product are looked at.
const AHEAD: usize = 16;

/// Whether a node multiplies the same columns as `first`, and for the same experts.
fn shares_columns(node: TensorRef, first: TensorRef) -> bool {
    node.op() == first.op() && node.src(1) == first.src(1) && node.src(2) == first.src(2)
}

/// Whether two tensors share memory, or may do so: before memory is planned, only what the host has placed has an
/// address. A view has none either, so what counts is the memory of its root.
fn share(a: TensorRef, b: TensorRef) -> bool {
    let (a, b) = (a.root(), b.root());
    let placed = |t: TensorRef| {
        let start = Some(t.data().addr()).filter(|&a| a != 0)?;
        Some(start..start.saturating_add(t.nbytes_checked().unwrap_or(usize::MAX)))
    };
    a == b || placed(a).zip(placed(b)).is_some_and(|(a, b)| a.start < b.end && b.start < a.end)
}

/// Whether a node may be computed before `earlier`, which precedes it now.
fn may_pass(node: TensorRef, earlier: TensorRef) -> bool {
    let reads = |by: TensorRef, what: TensorRef| by.srcs().any(|(_, s)| share(s, what));
    let needs = node.srcs().any(|(_, s)| s == earlier);
    !needs && (op_is_empty(earlier.op()) || !share(node, earlier) && !reads(node, earlier) && !reads(earlier, node))
}

/// Whether a node rotates a product, or a product with a bias. For one column, the dispatch of the products also
/// computes the rotation, at any position of their nodes. If all products preceded the rotation, it could get the
/// memory of their columns, which that dispatch still reads.
fn rotates_product(node: TensorRef) -> bool {
    let of = |t: TensorRef| matches!(t.root().op(), GGML_OP_MUL_MAT | GGML_OP_ADD);
    node.op() == GGML_OP_ROPE && node.src(0).is_some_and(of)
}

/// Whether nodes are moved.
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *crate::sys::sync::once(&ON, || !VK_DISABLE_GRAPH_OPTIMIZE.is_set())
}

/// Moves products to the first one of the same columns.
pub fn reorder(graph: GraphRef) {
    for i in 0..graph.n_nodes() {
        let first = graph.node(i);
        if !matches!(first.op(), GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID) {
            continue;
        }
        let mut next = i + 1;
        for k in i + 1..graph.n_nodes().min(i + 1 + AHEAD) {
            let node = graph.node(k);
            if first.ne()[1] == 1 && rotates_product(node) {
                break;
            }
            if !shares_columns(node, first) {
                continue;
            }
            if (next..k).all(|j| may_pass(node, graph.node(j))) {
                for j in (next..k).rev() {
                    graph.set_node(j + 1, graph.node(j));
                }
                graph.set_node(next, node);
                next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::ops::matmul::mul_mat;
    use crate::tensor::ops::norm::{Norm, norm};
    use crate::tensor::ops::rope::{Rope, rope};
    use crate::tensor::ops::{Place, rows, view};
    use crate::vulkan::tests::lab::Lab;

    fn order(lab: &mut Lab, ends: &[TensorRef]) -> Vec<TensorRef> {
        let graph = lab.graph(ends);
        reorder(graph);
        graph.nodes().collect()
    }

    fn place_of(nodes: &[TensorRef], t: TensorRef) -> usize {
        nodes.iter().position(|n| *n == t).unwrap()
    }

    #[test]
    fn products_of_the_same_columns_follow_each_other() {
        let mut l = Lab::new();
        let x = l.noise(&[32, 1], 1);
        let [q, k, v] = [2, 3, 4].map(|seed| l.noise(&[32, 32], seed));
        let products = [q, v, k].map(|w| mul_mat(&mut l.ctx, w, x).unwrap());
        let normed = products.map(|p| {
            let p = view::reshape(&mut l.ctx, p, &[8, 4]).unwrap();
            norm(&mut l.ctx, Norm::Rms, p, 1e-5, Place::New).unwrap()
        });
        let nodes = order(&mut l, &normed);
        let places = products.map(|p| place_of(&nodes, p));
        assert_eq!(places, [0, 1, 2]);
        // All nodes are there, and each comes after its sources.
        assert_eq!(nodes.len(), 9);
        for (i, n) in nodes.iter().enumerate() {
            assert!(n.srcs().all(|(_, s)| nodes.iter().position(|m| *m == s).is_none_or(|at| at < i)));
        }
    }

    #[test]
    fn a_product_of_one_column_does_not_pass_the_rotation_of_another() {
        for (columns, places) in [(1, [0, 3, 4]), (2, [0, 1, 2])] {
            let mut l = Lab::new();
            let (x, at) = (l.noise(&[32, columns], 1), l.i32s(&[columns], &vec![7; columns as usize]));
            let [q, k, v] = [2, 3, 4].map(|seed| l.noise(&[32, 32], seed));
            let products = [q, v, k].map(|w| mul_mat(&mut l.ctx, w, x).unwrap());
            let heads = view::reshape(&mut l.ctx, products[0], &[8, 4, columns]).unwrap();
            let turned = rope(&mut l.ctx, heads, at, None, &Rope::plain(8, 0), Place::New).unwrap();
            let nodes = order(&mut l, &[turned, products[1], products[2]]);
            assert_eq!(products.map(|p| place_of(&nodes, p)), places, "{columns} columns");
        }
    }

    #[test]
    fn a_product_passes_no_node_that_writes_what_it_reads() {
        let mut l = Lab::new();
        let (x, w) = (l.noise(&[32, 1], 1), l.noise(&[32, 32], 2));
        let first = mul_mat(&mut l.ctx, w, x).unwrap();
        // A row of the second matrix is written from the first product.
        let cache = l.noise(&[32, 32], 3);
        let at = l.i64s(&[1], &[5]);
        let set = rows::set_rows(&mut l.ctx, cache, first, at).unwrap();
        let second = mul_mat(&mut l.ctx, cache, x).unwrap();
        let free = mul_mat(&mut l.ctx, w, x).unwrap();
        let nodes = order(&mut l, &[set, second, free]);
        assert_eq!([first, free, set, second].map(|t| place_of(&nodes, t)), [0, 1, 2, 3]);
    }

    #[test]
    fn addresses_count_where_the_host_has_placed_tensors() {
        let mut l = Lab::new();
        let (x, w) = (l.noise(&[32, 1], 1), l.noise(&[32, 32], 2));
        let first = mul_mat(&mut l.ctx, w, x).unwrap();
        let [cache, twin] = [(); 2].map(|()| l.ctx.new_tensor(GGML_TYPE_F32, &[32, 32]).unwrap());
        let at = l.i64s(&[1], &[5]);
        let set = rows::set_rows(&mut l.ctx, cache, first, at).unwrap();
        let seen = view::reshape(&mut l.ctx, twin, &[32, 32]).unwrap();
        let second = mul_mat(&mut l.ctx, seen, x).unwrap();
        let memory = vec![0.0f32; 33 * 32];
        for (t, offset) in [(cache, 0), (twin, 32)] {
            t.set_data(memory[offset..].as_ptr().cast_mut().cast());
        }
        let nodes = order(&mut l, &[seen, set, second]);
        assert_eq!([seen, first, set, second].map(|t| place_of(&nodes, t)), [0, 1, 2, 3]);
        twin.set_data(std::ptr::null_mut());
        let nodes = order(&mut l, &[seen, set, second]);
        assert_eq!([seen, first, second, set].map(|t| place_of(&nodes, t)), [0, 1, 2, 3]);
    }
}
