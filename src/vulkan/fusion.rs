//! Chains of nodes that one dispatch computes: norm x weight, add + norm x weight, activation x factor, RoPE + SET_ROWS.
//!
//! A chain is fused if no other node reads its intermediate results, and if its result does not overlap its sources. An allocator that does
//! not know about fusion may let them overlap (V1). The result may have exactly the memory of a source if each element is written by the
//! invocation that reads it.

#![forbid(unsafe_code)]

use super::ops::{glu, norm, rope};
use super::plan::DispatchList;
use super::{Info, buffer};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{ggml_glu_op, ggml_op, ggml_unary_op};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::mutant;
use crate::tensor::TensorRef;

/// A chain found in a graph.
#[derive(Clone, Copy, Debug)]
pub enum Chain {
    /// A norm, after an addition if there is one, times a weight if there is one.
    Norm {
        /// The addition before.
        add: Option<TensorRef>,
        /// The norm.
        norm: TensorRef,
        /// The product after.
        mul: TensorRef,
        /// Its weight.
        weight: TensorRef,
    },
    /// An activation times a factor.
    Gated {
        /// The gated function.
        op: ggml_glu_op,
        /// The argument of the activation.
        gate: TensorRef,
        /// The factor.
        up: TensorRef,
        /// The product.
        mul: TensorRef,
    },
    /// A rotation whose result is written to rows by index.
    RopeRows {
        /// The rotation.
        rope: TensorRef,
        /// SET_ROWS.
        set: TensorRef,
    },
}

impl Chain {
    /// Adds its dispatch.
    pub fn plan(&self, plan: &mut DispatchList<'_>) -> Result<()> {
        match *self {
            Chain::Norm { add, norm, mul, weight } => norm::fused(norm, add, Some(weight), mul, plan),
            Chain::Gated { op, gate, up, mul } => glu::fused_gate(op, gate, up, mul, plan),
            Chain::RopeRows { rope, set } => rope::into_rows(rope, set, plan),
        }
    }
}

/// The chain that starts at node `i`, and its number of nodes.
pub fn find(graph: GraphRef, i: usize, info: &Info) -> Option<(Chain, usize)> {
    let at = |k: usize| (i + k < graph.n_nodes()).then(|| graph.node(i + k));
    let first = at(0)?;
    match first.op() {
        GGML_OP_RMS_NORM | GGML_OP_NORM => norm_chain(graph, None, first, at(1)?, info).map(|c| (c, 2)),
        GGML_OP_ADD => norm_chain(graph, Some(first), at(1)?, at(2)?, info).map(|c| (c, 3)),
        GGML_OP_UNARY => gate_chain(graph, first, at(1)?).map(|c| (c, 2)),
        GGML_OP_ROPE => rope_chain(graph, first, at(1)?, at(2)?).map(|c| (c, 3)),
        _ => None,
    }
}

/// Whether only `reader` reads `node`, so that it need not be written.
fn only_for(graph: GraphRef, node: TensorRef, reader: TensorRef) -> bool {
    (graph.use_count(node) == 1 || mutant::on("V1 reader"))
        && !node.has_flag(GGML_TENSOR_FLAG_OUTPUT)
        && reader.srcs().filter(|(_, s)| *s == node).count() == 1
        && computed(node)
        && computed(reader)
}

fn computed(node: TensorRef) -> bool {
    node.has_flag(GGML_TENSOR_FLAG_COMPUTE)
}

/// Whether a dispatch may write `d` element by element while it reads `s`: they do not overlap, or have the same elements.
fn apart_or_same(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    mutant::on("V1") || !a.overlaps(&b) || (a == b && d.same_stride(s) && d.same_shape(s))
}

fn apart(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    mutant::on("V1") || !a.overlaps(&b)
}

/// The other operand of a product with `node`.
fn other(mul: TensorRef, node: TensorRef) -> Option<TensorRef> {
    match (mul.src(0)?, mul.src(1)?) {
        (a, b) if a == node => Some(b),
        (a, b) if b == node => Some(a),
        _ => None,
    }
}

fn f32_rows(t: TensorRef) -> bool {
    t.dtype() == GGML_TYPE_F32 && t.is_contiguous_rows()
}

fn norm_chain(graph: GraphRef, add: Option<TensorRef>, norm: TensorRef, mul: TensorRef, info: &Info) -> Option<Chain> {
    if !matches!(norm.op(), GGML_OP_RMS_NORM | GGML_OP_NORM) || mul.op() != GGML_OP_MUL || !only_for(graph, norm, mul) {
        return None;
    }
    let weight = other(mul, norm)?;
    let fits = f32_rows(weight)
        && weight.ne()[0] == mul.ne()[0]
        && mul.ne()[1] % weight.ne()[1].max(1) == 0
        && weight.ne()[2..] == [1, 1]
        && f32_rows(mul)
        && mul.same_shape(norm)
        && norm::check(norm, info).is_ok()
        && apart(mul, weight);
    if !fits {
        return None;
    }
    match add {
        None => apart_or_same(mul, norm.src(0)?).then_some(()),
        Some(add) => {
            let (a, b) = (add.src(0)?, add.src(1)?);
            let whole = [a, b, add].into_iter().all(|t| f32_rows(t) && t.same_shape(norm));
            let memory = [a, b, add].into_iter().all(|t| apart_or_same(mul, t))
                && apart_or_same(add, a)
                && apart_or_same(add, b)
                && apart(add, weight);
            (norm.src(0)? == add && computed(add) && whole && memory).then_some(())
        }
    }?;
    Some(Chain::Norm { add, norm, mul, weight })
}

fn gate_chain(graph: GraphRef, unary: TensorRef, mul: TensorRef) -> Option<Chain> {
    let op = match unary.unary_op()? {
        ggml_unary_op::GGML_UNARY_OP_RELU => ggml_glu_op::GGML_GLU_OP_REGLU,
        ggml_unary_op::GGML_UNARY_OP_GELU => ggml_glu_op::GGML_GLU_OP_GEGLU,
        ggml_unary_op::GGML_UNARY_OP_SILU => ggml_glu_op::GGML_GLU_OP_SWIGLU,
        ggml_unary_op::GGML_UNARY_OP_GELU_ERF => ggml_glu_op::GGML_GLU_OP_GEGLU_ERF,
        ggml_unary_op::GGML_UNARY_OP_GELU_QUICK => ggml_glu_op::GGML_GLU_OP_GEGLU_QUICK,
        _ => return None,
    };
    if mul.op() != GGML_OP_MUL || !only_for(graph, unary, mul) {
        return None;
    }
    let (gate, up) = (unary.src(0)?, other(mul, unary)?);
    let fits = [gate, up, unary, mul].into_iter().all(|t| t.dtype() == GGML_TYPE_F32 && t.same_shape(mul))
        && apart_or_same(mul, gate)
        && apart_or_same(mul, up);
    fits.then_some(Chain::Gated { op, gate, up, mul })
}

fn rope_chain(graph: GraphRef, rope: TensorRef, view: TensorRef, set: TensorRef) -> Option<Chain> {
    let is_name = |op: ggml_op| matches!(op, GGML_OP_VIEW | GGML_OP_RESHAPE);
    if set.op() != GGML_OP_SET_ROWS || !is_name(view.op()) || view.src(0)? != rope || set.src(0)? != view {
        return None;
    }
    let lonely = graph.use_count(rope) == 1
        && graph.use_count(view) == 1
        && !rope.has_flag(GGML_TENSOR_FLAG_OUTPUT)
        && !view.has_flag(GGML_TENSOR_FLAG_OUTPUT)
        && computed(rope)
        && computed(set);
    let (ne, ids) = (rope.ne(), set.src(1)?);
    let fits = rope.is_contiguous()
        && view.is_contiguous()
        && view.view_offs() == rope.view_offs()
        && view.ne() == [ne[0] * ne[1], ne[2], 1, 1]
        && ne[3] == 1
        && matches!(set.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16)
        && set.is_contiguous_rows()
        && set.ne()[0] == view.ne()[0]
        && ids.ne() == [ne[2], 1, 1, 1]
        && ids.is_contiguous()
        && matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64);
    let reads = rope.srcs().map(|(_, t)| t).chain([ids]);
    (lonely && fits && reads.into_iter().all(|t| apart(set, t))).then_some(Chain::RopeRows { rope, set })
}
