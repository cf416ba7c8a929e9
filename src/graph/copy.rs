//! Graphs from graphs: views, copies, lookups.
#![forbid(unsafe_code)]

use super::{GraphRef, build};
use crate::abi::graph::ggml_cgraph;
use crate::error::Result;
use crate::ggml_assert;
use crate::tensor::{Context, TensorRef};
use std::ffi::c_int;

impl GraphRef {
    /// The nodes `range` as a graph of their own that shares the arrays of this one. It has no leafs, no gradients and
    /// no room to grow.
    pub fn slice(self, range: std::ops::Range<usize>) -> ggml_cgraph {
        ggml_assert!(range.start <= range.end && range.end <= self.n_nodes());
        let raw = self.raw();
        ggml_cgraph {
            size: 0,
            n_nodes: range.len() as c_int,
            n_leafs: 0,
            nodes: raw.nodes.wrapping_add(range.start),
            grads: std::ptr::null_mut(),
            grad_accs: std::ptr::null_mut(),
            leafs: std::ptr::null_mut(),
            uid: 0,
            ..raw
        }
    }

    /// Makes `dst` a copy of this graph. `dst` needs at least as much room, and gradients where this one has them (the
    /// contract).
    pub fn copy_to(self, dst: Self) {
        let (from, to) = (self.visited(), dst.visited());
        ggml_assert!(dst.size() >= self.n_leafs() && dst.size() >= self.n_nodes() && to.size() >= from.size());
        dst.set_counts(0, 0);
        for t in self.leafs() {
            dst.push_leaf(t);
        }
        for t in self.nodes() {
            dst.push_node(t);
        }
        dst.take_order(self);
        for slot in 0..from.size() {
            if let Some((new_slot, _)) = from.key(slot).and_then(|t| to.insert(t)) {
                dst.set_use_count(new_slot, self.use_count_at(slot));
            }
        }
        dst.clear_grads();
        if !self.has_grads() {
            return;
        }
        ggml_assert!(dst.has_grads(), "the copy of a graph with gradients needs room for them");
        for t in self.nodes() {
            dst.set_grad(t, self.grad(t));
            dst.set_grad_acc(t, self.grad_acc(t));
        }
    }

    /// A copy in `ctx`; `force_grads`: with room for gradients even if this graph has none.
    pub fn dup(self, ctx: &mut Context, force_grads: bool) -> Result<Self> {
        let copy = build::new(ctx, self.size(), self.has_grads() || force_grads)?;
        self.copy_to(copy);
        Ok(copy)
    }

    /// Forgets all nodes and leafs.
    pub fn clear(self) {
        self.set_counts(0, 0);
        self.mend();
        self.visited().reset();
    }

    /// The leaf, or else the node, of this name.
    pub fn find_by_name(self, name: &[u8]) -> Option<TensorRef> {
        self.leafs().chain(self.nodes()).find(|t| t.name_bytes() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::{ggml_op, ggml_type::GGML_TYPE_F32};

    #[test]
    fn copies_carry_nodes_uses_and_gradients() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        let b = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        b.set_op(ggml_op::GGML_OP_SQR);
        b.set_src(0, Some(a));
        b.set_name(b"result");
        let g = build::new(&mut ctx, 8, true).unwrap();
        g.expand(b, true);
        g.set_grad(b, Some(a));
        let copy = g.dup(&mut ctx, false).unwrap();
        assert_eq!((copy.n_nodes(), copy.n_leafs(), copy.use_count(a)), (1, 1, 1));
        assert_eq!((copy.grad(b), copy.grad_acc(b), copy.find_by_name(b"result")), (Some(a), None, Some(b)));
        let slice = g.slice(0..1);
        assert_eq!((slice.size, slice.n_nodes, slice.n_leafs), (0, 1, 0));
        g.clear();
        assert_eq!((g.n_nodes(), g.use_count(a), copy.n_nodes()), (0, 0, 1));
    }
}
