//! Norms of the heads of queries and keys, their weights, rotations (RoPE) and SET_ROWS: one dispatch for queries and
//! keys together.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::vulkan::chains::chain::{Chain, Found};
use crate::vulkan::chains::search::{Search, apart, apart_or_same, f32_rows, goes_to_rows, only_for, other};
use crate::vulkan::device::Info;
use crate::vulkan::ops::norm::{HeadPart, Heads};
use crate::vulkan::ops::{norm, rope};

/// How many nodes after the first one may belong to it.
const AHEAD: usize = 24;

impl HeadPart {
    /// The chain of the norm at node `i`, and the numbers of its nodes.
    fn at(search: &Search<'_>, i: usize) -> Option<(Self, Vec<usize>)> {
        let graph = search.graph;
        let norm = graph.node(i);
        if norm.op() != GGML_OP_RMS_NORM {
            return None;
        }
        let (j, mul) = search.reader(norm, i)?;
        if mul.op() != GGML_OP_MUL || !only_for(graph, norm, mul) {
            return None;
        }
        let weight = other(mul, norm)?;
        let (k, rope) = search.reader(mul, j)?;
        let (a, ne) = (norm.src(0)?, norm.ne());
        let fits = only_for(graph, mul, rope)
            && rope.src(0) == Some(mul)
            && rope::joins_norm(rope, search.info)
            && rope.same_shape(norm)
            && mul.same_shape(norm)
            && ne[3] == 1
            && [a, weight, mul, rope].into_iter().all(f32_rows)
            && weight.ne() == [ne[0], 1, 1, 1]
            && norm::check(norm, search.info).is_ok();
        if !fits {
            return None;
        }
        let part = Self { norm, weight, rope, result: rope, rows: false };
        Some(part.into_rows(search, k).map_or((part, vec![i, j, k]), |(part, l)| (part, vec![i, j, k, l])))
    }

    /// With SET_ROWS after the rotation at node `k`.
    fn into_rows(self, search: &Search<'_>, k: usize) -> Option<(Self, usize)> {
        let (graph, rope) = (search.graph, self.rope);
        let (j, view) = search.after(k).find(|(_, n)| n.src(0) == Some(rope))?;
        let (l, set) = search.after(j).find(|(_, n)| n.src(0) == Some(view))?;
        let fits = goes_to_rows(graph, rope, view, set)
            && matches!(set.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16)
            && set.ne()[2..] == [1, 1];
        fits.then_some((Self { result: set, rows: true, ..self }, l))
    }

    /// What other workgroups read as well.
    fn shared(&self) -> impl Iterator<Item = TensorRef> {
        let index = self.result.src(1).filter(|_| self.rows);
        [Some(self.weight), self.rope.src(1), self.rope.src(2), index].into_iter().flatten()
    }

    fn reads(&self) -> Vec<TensorRef> {
        self.shared().chain(self.norm.src(0)).collect()
    }

    /// Whether a dispatch may write the result while it reads the heads, each of which one workgroup reads and writes.
    fn may_write(&self) -> bool {
        let own = self
            .norm
            .src(0)
            .is_some_and(|a| if self.rows { apart(self.result, a) } else { apart_or_same(self.result, a) });
        own && self.shared().all(|t| apart(self.result, t))
    }

    /// Whether the shader, which has one set of parameters for both, can compute this part beside another.
    fn goes_with(&self, other: &Self) -> bool {
        let (a, b) = (self.rope, other.rope);
        let apart_from = |p: &Self, q: &Self| q.reads().iter().chain([&q.result]).all(|t| apart(p.result, *t));
        a.op_params() == b.op_params()
            && a.src(1) == b.src(1)
            && a.src(2) == b.src(2)
            && a.ne()[0] == b.ne()[0]
            && a.ne()[2] == b.ne()[2]
            && self.norm.op_param_f32(0) == other.norm.op_param_f32(0)
            && !(self.rows && other.rows)
            && apart_from(self, other)
            && apart_from(other, self)
    }
}

/// The heads that are normalised at node `i`, and others with them.
pub(in crate::vulkan) fn find(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    let search = Search { graph, from: i, ahead: AHEAD, taken, info };
    let good = |(part, nodes): &(HeadPart, Vec<usize>), all: &[usize]| {
        let with: Vec<_> = all.iter().chain(nodes).copied().collect();
        part.may_write() && search.may_overtake(nodes, &with, &part.reads(), part.result)
    };
    let first = HeadPart::at(&search, i).filter(|f| good(f, &[]))?;
    let norms = search.after(i).filter(|(_, n)| n.op() == GGML_OP_RMS_NORM).map(|(k, _)| k);
    let second = norms
        .filter_map(|k| HeadPart::at(&search, k))
        .find(|other| other.0.goes_with(&first.0) && good(other, &first.1));
    let mut nodes = first.1;
    let second = second.map(|(part, more)| {
        nodes.extend(more);
        part
    });
    Some(Found { chain: Chain::Heads(Heads { first: first.0, second }), nodes })
}
