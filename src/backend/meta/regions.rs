//! Where a graph over several devices must stop to add up summands.
//!
//! A product whose inner dimension is divided leaves a summand on every device. Adding up costs a transfer, so it is
//! put off while the graph only does linear things with the summands: what follows works on summands just as well. It
//! is done where the fewest bytes have to be moved.

#![forbid(unsafe_code)]

use crate::abi::ggml::{ggml_op, ggml_tensor_flag, ggml_type};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::collections::HashMap;
use std::ops::Range;

/// What this room needs to know of a node.
pub struct Node {
    /// The node.
    pub tensor: TensorRef,
    /// It leaves summands.
    pub partial: bool,
    /// Devices on which it has nothing to do.
    pub idle: Vec<bool>,
}

/// Consecutive nodes, and what has to be added up after them.
#[derive(Debug, PartialEq)]
pub struct Region {
    /// The nodes.
    pub nodes: Range<usize>,
    /// Whether the last one's summands are added up.
    pub reduce: bool,
}

/// How a node's second source is spread.
pub enum Operand {
    /// The whole everywhere.
    Whole,
    /// A summand everywhere.
    Summand,
    /// Something else, or nothing.
    Other,
}

/// Nodes to look ahead.
const HORIZON: usize = 256;

/// Cuts the graph into regions. Nodes that work on summands of an idle device become idle there as well. `operand`
/// returns how a tensor that is no summand of the region is spread.
pub fn cut(graph: GraphRef, nodes: &mut [Node], operand: impl Fn(TensorRef) -> Operand) -> Vec<Region> {
    let (mut regions, mut start, mut i) = (Vec::new(), 0, 0);
    while i < nodes.len() {
        if nodes[i].partial {
            let (end, members) = put_off(graph, nodes, i, &operand);
            let idle = nodes[i].idle.clone();
            for m in members.into_iter().filter(|&m| m <= end) {
                for (to, from) in nodes[m].idle.iter_mut().zip(&idle) {
                    *to |= from;
                }
            }
            regions.push(Region { nodes: start..end + 1, reduce: true });
            (start, i) = (end + 1, end);
        }
        i += 1;
    }
    if start < nodes.len() {
        regions.push(Region { nodes: start..nodes.len(), reduce: false });
    }
    regions
}

/// Summands that are still to be read.
struct Open {
    reads: i64,
    output: bool,
}

/// Returns the node after which the summands of node `first` are added up, and all nodes found that hold summands. Some
/// of them may come after that node.
fn put_off(
    graph: GraphRef,
    nodes: &[Node],
    first: usize,
    operand: &impl Fn(TensorRef) -> Operand,
) -> (usize, Vec<usize>) {
    let open = |t: TensorRef| Open {
        reads: i64::from(graph.use_count(t)),
        output: t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT),
    };
    let mut held = HashMap::from([(nodes[first].tensor, open(nodes[first].tensor))]);
    let mut members = vec![first];
    let (mut best, mut best_bytes) = (first, nodes[first].tensor.nbytes());
    for (i, node) in nodes.iter().enumerate().skip(first + 1).take(HORIZON) {
        // An output must be complete where the host reads it.
        if held.values().any(|o| o.output) {
            break;
        }
        let t = node.tensor;
        let touches =
            t.srcs().any(|(_, s)| held.contains_key(&s)) || t.view_src().is_some_and(|v| held.contains_key(&v));
        if !touches {
            match node.partial && node.idle == nodes[first].idle {
                // A second product, whose summands may meet the first's.
                true => {
                    held.insert(t, open(t));
                    members.push(i);
                }
                false if node.partial => break,
                false => {}
            }
            continue;
        }
        if !linear(t, &|s| held.contains_key(&s), operand) {
            break;
        }
        for (_, s) in t.srcs() {
            if let Some(o) = held.get_mut(&s) {
                o.reads -= 1;
            }
        }
        held.insert(t, open(t));
        members.push(i);
        let alone = held.iter().all(|(k, o)| *k == t || (o.reads <= 0 && !o.output));
        let is_result = t.view_src().is_none() && t.is_contiguous() && t.dtype() == ggml_type::GGML_TYPE_F32;
        if alone && is_result && t.nbytes() <= best_bytes {
            (best, best_bytes) = (i, t.nbytes());
        }
    }
    (best, members)
}

/// Whether the sum over the devices of what the node makes of summands is what it makes of the sum.
fn linear(t: TensorRef, held: &impl Fn(TensorRef) -> bool, operand: &impl Fn(TensorRef) -> Operand) -> bool {
    use ggml_op::*;
    let holds = |i: usize| t.src(i).is_some_and(held);
    let whole = |i: usize| t.src(i).is_some_and(|s| !held(s) && matches!(operand(s), Operand::Whole));
    let summand = |i: usize| t.src(i).is_some_and(|s| held(s) || matches!(operand(s), Operand::Summand));
    match t.op() {
        GGML_OP_MUL | GGML_OP_DIV => holds(0) && whole(1),
        GGML_OP_ADD | GGML_OP_SUB => summand(0) && summand(1),
        GGML_OP_ADD_ID => holds(0) && summand(1) && whole(2),
        GGML_OP_SCALE => holds(0) && t.op_param_f32(1) == 0.0,
        GGML_OP_VIEW | GGML_OP_RESHAPE | GGML_OP_PERMUTE | GGML_OP_TRANSPOSE | GGML_OP_CONT => holds(0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::graph::build;
    use crate::tensor::Context;
    use crate::tensor::ops::unary::{self, Plain};
    use crate::tensor::ops::{Place, binary, matmul, view};

    fn plan(graph: GraphRef, partial: &[TensorRef]) -> Vec<Region> {
        let node = |t: TensorRef| Node { tensor: t, partial: partial.contains(&t), idle: vec![false; 2] };
        cut(graph, &mut graph.nodes().map(node).collect::<Vec<_>>(), |_| Operand::Whole)
    }

    #[test]
    fn experts_are_added_up_on_each_device_first() {
        let mut ctx = Context::with_size(1 << 18, true).unwrap();
        let (w, x) =
            (ctx.new_tensor(GGML_TYPE_F32, &[8, 16]).unwrap(), ctx.new_tensor(GGML_TYPE_F32, &[8, 2, 3]).unwrap());
        let gate = ctx.new_tensor(GGML_TYPE_F32, &[1, 2, 3]).unwrap();
        let y = matmul::mul_mat(&mut ctx, w, x).unwrap();
        let scaled = binary::mul(&mut ctx, y, gate).unwrap();
        let nb = scaled.nb();
        let a = view::view(&mut ctx, scaled, &[16, 3], &[nb[2]], 0).unwrap();
        let b = view::view(&mut ctx, scaled, &[16, 3], &[nb[2]], nb[1]).unwrap();
        let sum = binary::add(&mut ctx, a, b).unwrap();
        let out = unary::plain(&mut ctx, Plain::Sqr, sum, Place::New).unwrap();
        let graph = build::new(&mut ctx, 32, false).unwrap();
        graph.expand(out, true);
        let at = |t: TensorRef| graph.nodes().position(|n| n == t).unwrap();
        let n = graph.n_nodes();
        assert_eq!(
            plan(graph, &[y]),
            [Region { nodes: 0..at(sum) + 1, reduce: true }, Region { nodes: at(sum) + 1..n, reduce: false }]
        );
    }

    #[test]
    fn what_is_not_linear_or_read_twice_is_added_up_at_once() {
        let mut ctx = Context::with_size(1 << 18, true).unwrap();
        let (w, x) = (ctx.new_tensor(GGML_TYPE_F32, &[8, 8]).unwrap(), ctx.new_tensor(GGML_TYPE_F32, &[8, 3]).unwrap());
        let y = matmul::mul_mat(&mut ctx, w, x).unwrap();
        let doubled = unary::scale(&mut ctx, y, 2.0).unwrap();
        let squared = unary::plain(&mut ctx, Plain::Sqr, y, Place::New).unwrap();
        let out = binary::add(&mut ctx, doubled, squared).unwrap();
        let graph = build::new(&mut ctx, 32, false).unwrap();
        graph.expand(out, true);
        assert_eq!(plan(graph, &[y])[0], Region { nodes: 0..1, reduce: true });
    }
}
