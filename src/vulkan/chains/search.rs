//! The search for the nodes of a chain, and what all chains must check.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::*;
use crate::backend::op_is_empty;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::gpu::buffer;

/// Where to look for the nodes of a join.
pub struct Search<'a> {
    pub graph: GraphRef,
    /// Number of the first node.
    pub from: usize,
    /// How many nodes after the first one may belong to it.
    pub ahead: usize,
    /// Nodes that were computed earlier than the graph says.
    pub taken: &'a [bool],
    pub info: &'a Info,
}

impl Search<'_> {
    /// The nodes after node `i` that are left.
    pub fn after(&self, i: usize) -> impl Iterator<Item = (usize, TensorRef)> {
        let end = self.graph.n_nodes().min(self.from + 1 + self.ahead);
        (i + 1..end).filter(|&k| !self.taken[k]).map(|k| (k, self.graph.node(k)))
    }

    /// The first node after node `i` that reads `value`.
    pub fn reader(&self, value: TensorRef, i: usize) -> Option<(usize, TensorRef)> {
        self.after(i).find(|(_, n)| n.srcs().any(|(_, s)| s == value))
    }

    /// Whether the nodes `nodes`, which read `reads` and write `result`, may be computed at the place of the first
    /// node. What one of them reads may be overwritten after its place in the graph: an allocator gives its memory to
    /// others then.
    pub fn may_overtake(&self, nodes: &[usize], all: &[usize], reads: &[TensorRef], result: TensorRef) -> bool {
        let Ok(written) = buffer::range(result) else { return false };
        let end = nodes.iter().copied().max().unwrap_or(self.from);
        let last_reader = |t: TensorRef| {
            let reads = |i: usize| self.graph.node(i).srcs().any(|(_, s)| s.root() == t.root());
            nodes.iter().copied().filter(|&i| reads(i)).max().unwrap_or(end)
        };
        let reads = reads.iter().map(|t| Some((*t, buffer::range(*t).ok()?))).collect::<Option<Vec<_>>>();
        let Some(reads) = reads else { return false };
        self.after(self.from)
            .take_while(|(k, _)| *k < end)
            .filter(|(k, n)| !all.contains(k) && !op_is_empty(n.op()) && computed(*n))
            .all(|(k, n)| {
                let Ok(other) = buffer::range(n) else { return false };
                let touches = |t: TensorRef| buffer::range(t).is_ok_and(|r| r.overlaps(&written));
                !other.overlaps(&written)
                    && !reads.iter().any(|(t, r)| r.overlaps(&other) && k < last_reader(*t))
                    && !n.srcs().any(|(_, s)| touches(s))
            })
    }
}

/// Whether only `reader` reads `node`, so that it need not be written.
pub fn only_for(graph: GraphRef, node: TensorRef, reader: TensorRef) -> bool {
    graph.use_count(node) == 1
        && !node.has_flag(GGML_TENSOR_FLAG_OUTPUT)
        && reader.srcs().filter(|(_, s)| *s == node).count() == 1
        && computed(node)
        && computed(reader)
}

pub fn computed(node: TensorRef) -> bool {
    node.has_flag(GGML_TENSOR_FLAG_COMPUTE)
}

/// Whether a dispatch may write `d` element by element while it reads `s`: they do not overlap, or have the same
/// elements.
pub fn apart_or_same(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    !a.overlaps(&b) || (a == b && d.same_stride(s) && d.same_shape(s))
}

pub fn apart(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    !a.overlaps(&b)
}

/// The other operand of a product with `node`.
pub fn other(mul: TensorRef, node: TensorRef) -> Option<TensorRef> {
    match (mul.src(0)?, mul.src(1)?) {
        (a, b) if a == node => Some(b),
        (a, b) if b == node => Some(a),
        _ => None,
    }
}

pub fn f32_rows(t: TensorRef) -> bool {
    t.dtype() == GGML_TYPE_F32 && t.is_contiguous_rows()
}

/// Whether SET_ROWS writes all heads of a token of a rotation to a row by index, and nothing else reads them. `view`:
/// the node between the two.
pub fn goes_to_rows(graph: GraphRef, rope: TensorRef, view: TensorRef, set: TensorRef) -> bool {
    let Some(ids) = set.src(1) else { return false };
    let ne = rope.ne();
    set.op() == GGML_OP_SET_ROWS
        && matches!(view.op(), GGML_OP_VIEW | GGML_OP_RESHAPE)
        && view.src(0) == Some(rope)
        && set.src(0) == Some(view)
        && [rope, view].into_iter().all(|t| graph.use_count(t) == 1 && !t.has_flag(GGML_TENSOR_FLAG_OUTPUT))
        && computed(rope)
        && computed(set)
        && rope.is_contiguous()
        && view.is_contiguous()
        && view.view_offs() == rope.view_offs()
        && view.ne() == [ne[0] * ne[1], ne[2], 1, 1]
        && ne[3] == 1
        && set.is_contiguous_rows()
        && set.ne()[0] == view.ne()[0]
        && ids.ne() == [ne[2], 1, 1, 1]
        && ids.is_contiguous()
        && matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64)
}
