//! Chains of nodes that one dispatch computes: norm x weight, add + norm x weight, activation x factor, RoPE +
//! SET_ROWS, SSM_CONV + SiLU, sums of several tensors; norms of heads with their rotation (`heads`); products of one
//! column (`products`), and of few tokens with experts (`experts`), with what follows them; the choice of experts
//! (`routing`). `search`: what all of them check.
//!
//! A chain is fused if no other node reads its intermediate results, and if its result does not overlap its sources. An
//! allocator that does not know about fusion may let them overlap (V1). The result may have exactly the memory of a
//! source if each element is written by the invocation that reads it.

#![forbid(unsafe_code)]

mod chain;
mod experts;
mod heads;
mod products;
mod routing;
mod search;

pub use chain::{Chain, Found};

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{ggml_glu_op, ggml_unary_op};
use crate::backend::op_is_empty;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::vulkan::chains::search::{apart, apart_or_same, computed, f32_rows, goes_to_rows, only_for, other};
use crate::vulkan::device::Info;
use crate::vulkan::gpu::buffer;
use crate::vulkan::ops::{glu, norm};

/// The chain that starts at node `i`. `taken`: for each node, whether a chain before has computed it.
pub fn find(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    let at = |k: usize| (i + k < graph.n_nodes() && !taken[i + k]).then(|| graph.node(i + k));
    let first = at(0)?;
    let (chain, n) = match first.op() {
        GGML_OP_RMS_NORM | GGML_OP_NORM => match heads::find(graph, i, taken, info) {
            Some(found) => return Some(found),
            None => (norm_chain(graph, i, None, first, at(1)?, info)?, 2),
        },
        GGML_OP_ADD => match at(1).zip(at(2)).and_then(|(n, m)| norm_chain(graph, i, Some(first), n, m, info)) {
            Some(chain) => (chain, 3),
            None => return sum_chain(graph, i, taken),
        },
        GGML_OP_UNARY => match routing::find(graph, i, taken, info) {
            Some(found) => return Some(found),
            None => (gate_chain(graph, first, at(1)?)?, 2),
        },
        GGML_OP_SOFT_MAX | GGML_OP_ARGSORT | GGML_OP_TOP_K => return routing::find(graph, i, taken, info),
        GGML_OP_SSM_CONV => match conv_chain(graph, first, None, at(1)?) {
            Some(chain) => (chain, 2),
            None => (conv_chain(graph, first, at(1), at(2)?)?, 3),
        },
        GGML_OP_ROPE => (rope_chain(graph, first, at(1)?, at(2)?)?, 3),
        GGML_OP_MUL_MAT => return products::find(graph, i, taken, info),
        GGML_OP_MUL_MAT_ID => return experts::find(graph, i, taken, info),
        GGML_OP_MUL => return experts::weighted_sum(graph, i, taken, info),
        _ => return None,
    };
    Some(Found { chain, nodes: (i..i + n).collect() })
}

fn norm_chain(
    graph: GraphRef,
    i: usize,
    add: Option<TensorRef>,
    norm: TensorRef,
    mul: TensorRef,
    info: &Info,
) -> Option<Chain> {
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
    let blocks = products::feeds_integers(graph, i, mul, info);
    Some(Chain::Norm { add, norm, mul, weight, blocks })
}

/// Two additions or more from node `i` on, with nothing but views between them.
fn sum_chain(graph: GraphRef, i: usize, taken: &[bool]) -> Option<Found> {
    let add = graph.node(i);
    let (first, second) = (add.src(0)?, add.src(1)?);
    let address = |t: TensorRef| buffer::range(t).ok().map(|r| r.address);
    let start = address(first)?;
    let spacing = address(second)?.checked_sub(start).filter(|s| s.is_multiple_of(4) && *s > 0)?;
    let alike = |t: TensorRef| f32_rows(t) && t.same_shape(add) && t.same_stride(first);
    if !alike(first) || !alike(second) || !computed(add) {
        return None;
    }
    let (mut nodes, mut result, mut summands) = (vec![i], add, vec![first, second]);
    let rest = (i + 1..graph.n_nodes()).filter(|&k| !op_is_empty(graph.node(k).op()));
    for k in rest {
        let next = graph.node(k);
        if taken[k] || next.op() != GGML_OP_ADD || next.src(0) != Some(result) || !only_for(graph, result, next) {
            break;
        }
        let Some(summand) = next.src(1) else { break };
        if !alike(summand) || address(summand) != Some(start + spacing * summands.len() as u64) {
            break;
        }
        summands.push(summand);
        nodes.push(k);
        result = next;
    }
    let spacing = u32::try_from(spacing / 4).ok()?;
    let fits = nodes.len() > 1 && f32_rows(result) && summands.iter().all(|s| apart_or_same(result, *s));
    let chain = Chain::SpacedSum { first, weights: None, n: summands.len() as u32, spacing, result };
    fits.then_some(Found { chain, nodes })
}

fn gate_chain(graph: GraphRef, unary: TensorRef, mul: TensorRef) -> Option<Chain> {
    let op = match unary.unary_op()? {
        ggml_unary_op::GGML_UNARY_OP_RELU => ggml_glu_op::GGML_GLU_OP_REGLU as u32,
        ggml_unary_op::GGML_UNARY_OP_GELU => ggml_glu_op::GGML_GLU_OP_GEGLU as u32,
        ggml_unary_op::GGML_UNARY_OP_SILU => ggml_glu_op::GGML_GLU_OP_SWIGLU as u32,
        ggml_unary_op::GGML_UNARY_OP_GELU_ERF => ggml_glu_op::GGML_GLU_OP_GEGLU_ERF as u32,
        ggml_unary_op::GGML_UNARY_OP_GELU_QUICK => ggml_glu_op::GGML_GLU_OP_GEGLU_QUICK as u32,
        ggml_unary_op::GGML_UNARY_OP_SIGMOID => glu::SIGMOID,
        ggml_unary_op::GGML_UNARY_OP_SOFTPLUS => glu::SOFTPLUS,
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

fn conv_chain(graph: GraphRef, conv: TensorRef, add: Option<TensorRef>, silu: TensorRef) -> Option<Chain> {
    if silu.op() != GGML_OP_UNARY || silu.unary_op() != Some(ggml_unary_op::GGML_UNARY_OP_SILU) {
        return None;
    }
    let bias = match add {
        None => None,
        Some(add) if add.op() == GGML_OP_ADD && add.src(0) == Some(conv) && only_for(graph, conv, add) => add.src(1),
        Some(_) => return None,
    };
    let last = add.unwrap_or(conv);
    let fits = silu.src(0) == Some(last)
        && only_for(graph, last, silu)
        && [conv, last, silu].into_iter().all(|t| f32_rows(t) && t.same_shape(conv))
        && bias.is_none_or(|b| b.ne() == [conv.ne()[0], 1, 1, 1] && f32_rows(b) && apart(silu, b))
        && conv.srcs().all(|(_, s)| apart(silu, s));
    fits.then_some(Chain::Convolved { conv, bias, silu })
}

fn rope_chain(graph: GraphRef, rope: TensorRef, view: TensorRef, set: TensorRef) -> Option<Chain> {
    let fits = goes_to_rows(graph, rope, view, set)
        && matches!(set.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16)
        && rope.srcs().map(|(_, t)| t).chain(set.src(1)).all(|t| apart(set, t));
    fits.then_some(Chain::RopeRows { rope, set })
}
