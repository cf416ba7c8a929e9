//! The backward pass: extends a graph by the gradients of its losses with respect to its parameters.
//!
//! This file decides which nodes need a gradient and walks them from the losses back; `sink` collects the gradients
//! that arrive at one tensor. The other files, one per family (`tensor::family`), say for each operation what arrives
//! at its sources. In their comments, `g` is the gradient of the node's result and `a`, `b` are its sources.
#![forbid(unsafe_code)]

mod binary;
mod conv;
mod copy;
mod glu;
mod loss;
mod matmul;
mod matrix;
mod norm;
mod pool;
mod reduce;
mod rope;
mod rows;
mod sink;
mod softmax;
mod unary;
mod view;

use super::GraphRef;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::{GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_PARAM};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::ggml_unary_op::{GGML_UNARY_OP_SGN, GGML_UNARY_OP_STEP};
use crate::error::Result;
use crate::tensor::family::Family;
use crate::tensor::{Context, TensorRef, names};
use crate::{ggml_abort, ggml_assert};
use std::collections::HashSet;

/// A backward pass under construction.
struct Backward<'a> {
    ctx: &'a mut Context,
    graph: GraphRef,
    /// Tensors on a way from a parameter to a loss.
    needed: HashSet<TensorRef>,
}

/// Extends `graph`, which has room for gradients and holds at least one parameter and one loss, by the gradients of the
/// losses. `accs[i]`, where there is one, is the tensor that the gradient of node `i` is added to; losses get an
/// accumulator in `ctx` in any case. Other gradients are tensors of `ctx`.
///
/// Ends the process for an operation, or a view, that has no gradient (the contract). An error means that `ctx` is
/// full; the graph is then extended in part and its gradients are of no use.
pub fn build(graph: GraphRef, ctx: &mut Context, accs: &[Option<TensorRef>]) -> Result<()> {
    let n_forward = graph.n_nodes();
    ggml_assert!(n_forward > 0, "backward: the graph has no nodes");
    ggml_assert!(graph.has_grads(), "backward: the graph was made without room for gradients");
    let any = |flag| graph.nodes().any(|n| n.has_flag(flag));
    ggml_assert!(any(GGML_TENSOR_FLAG_PARAM), "backward: the graph has no parameter (ggml_set_param)");
    ggml_assert!(any(GGML_TENSOR_FLAG_LOSS), "backward: the graph has no loss (ggml_set_loss)");
    graph.clear_grads();
    let mut pass = Backward { ctx, graph, needed: HashSet::new() };
    for i in 0..n_forward {
        pass.mark(graph.node(i), accs.get(i).copied().flatten())?;
    }
    for i in (0..n_forward).rev() {
        let node = graph.node(i);
        if let Some(grad) = graph.grad(node) {
            pass.propagate(node, grad)?;
        }
    }
    Ok(())
}

/// Whether a change of source `i` does not change the result of `node` by any slope.
fn is_slopeless(node: TensorRef, i: usize) -> bool {
    match node.op() {
        // Read for their shape only.
        GGML_OP_IM2COL | GGML_OP_IM2COL_BACK => i == 0,
        // Constant but for jumps.
        GGML_OP_UNARY => i == 0 && matches!(node.unary_op(), Some(GGML_UNARY_OP_SGN | GGML_UNARY_OP_STEP)),
        // Overwritten, or indices, or positions.
        GGML_OP_CPY | GGML_OP_GET_ROWS | GGML_OP_GET_ROWS_BACK | GGML_OP_ROPE => i == 1,
        _ => false,
    }
}

/// Source `i` of a node whose operation always has it.
fn source(node: TensorRef, i: usize) -> TensorRef {
    match node.src(i) {
        Some(s) => s,
        None => ggml_abort!("backward: {:?} '{}' has no source {i}", node.op(), node.name()),
    }
}

fn no_rule(node: TensorRef) -> ! {
    ggml_abort!("unsupported ggml op for backward pass: {}", names::op(node.op()))
}

impl Backward<'_> {
    /// Decides whether `node` needs a gradient, and gives it its accumulator, if any.
    fn mark(&mut self, node: TensorRef, acc: Option<TensorRef>) -> Result<()> {
        if node.dtype() == GGML_TYPE_I32 {
            return Ok(());
        }
        let is_loss = node.has_flag(GGML_TENSOR_FLAG_LOSS);
        let source = (0..GGML_MAX_SRC)
            .filter(|&i| !is_slopeless(node, i))
            .filter_map(|i| node.src(i))
            .find(|s| self.needed.contains(s));
        if let Some(s) = source {
            ggml_assert!(
                matches!(s.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16),
                "backward: '{}' of type {:?} cannot have a gradient",
                s.name(),
                s.dtype()
            );
        }
        if source.is_none() && !is_loss && !node.has_flag(GGML_TENSOR_FLAG_PARAM) {
            return Ok(());
        }
        ggml_assert!(
            node.view_src().is_none()
                || matches!(
                    node.op(),
                    GGML_OP_CPY
                        | GGML_OP_SET_ROWS
                        | GGML_OP_VIEW
                        | GGML_OP_RESHAPE
                        | GGML_OP_PERMUTE
                        | GGML_OP_TRANSPOSE
                ),
            "backward: '{}' is computed in place, which overwrites what the gradient needs",
            node.name()
        );
        let acc = match acc {
            None if is_loss => Some(self.ctx.new_tensor(GGML_TYPE_F32, &node.ne())?),
            acc => acc,
        };
        if acc.is_some() {
            self.graph.set_grad_acc(node, acc);
            self.graph.set_grad(node, acc);
        }
        self.needed.insert(node);
        Ok(())
    }

    /// Source `i` of `node`, when it needs a gradient.
    fn wanted(&self, node: TensorRef, i: usize) -> Option<TensorRef> {
        node.src(i).filter(|s| self.needed.contains(s))
    }

    /// Source `i`, which the gradient of `node` takes for a constant, must not need a gradient.
    fn require_constant(&self, node: TensorRef, i: usize, what: &str) {
        ggml_assert!(self.wanted(node, i).is_none(), "backward: {what} cannot have a gradient");
    }

    /// Sends `grad`, the gradient of `node`, to the sources that need it.
    fn apply_rule(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match Family::of(node.op()) {
            Family::Binary => self.binary(node, grad),
            Family::Conv => self.conv(node, grad),
            Family::Copy => self.copy(node, grad),
            Family::Glu => self.glu(node, grad),
            Family::Loss => self.loss(node, grad),
            Family::Matmul => self.matmul(node, grad),
            Family::Matrix => self.matrix(node, grad),
            Family::Norm => self.norm(node, grad),
            Family::Pool => self.pool(node, grad),
            Family::Reduce => self.reduce(node, grad),
            Family::Rope => self.rope(node, grad),
            Family::Rows => self.rows(node, grad),
            Family::Softmax => self.softmax(node, grad),
            Family::Unary => self.unary(node, grad),
            Family::View => self.view(node, grad),
            _ => no_rule(node),
        }
    }

    /// Sends the gradient of `node` on to its sources.
    fn propagate(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        self.apply_rule(node, grad)?;
        for src in (0..3).filter_map(|i| self.wanted(node, i)) {
            let grad = self.graph.grad(src);
            ggml_assert!(
                grad.is_some_and(|g| g.same_shape(src)),
                "backward: {:?} gives '{}' of shape {:?} a gradient of shape {:?}",
                node.op(),
                src.name(),
                src.ne(),
                grad.map(TensorRef::ne)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::build;
    use crate::tensor::ops::{binary, matmul, reduce};

    #[test]
    fn gradients_follow_the_ways_from_parameters_to_losses() {
        let ctx = &mut Context::with_size(1 << 20, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_F32, &[4, 3]).unwrap();
        let x = ctx.new_tensor(GGML_TYPE_F32, &[4, 5]).unwrap();
        w.set_name(b"w");
        w.add_flag(GGML_TENSOR_FLAG_PARAM);
        let y = matmul::mul_mat(ctx, w, x).unwrap();
        let z = binary::mul(ctx, y, y).unwrap();
        let loss = reduce::sum(ctx, z).unwrap();
        loss.add_flag(GGML_TENSOR_FLAG_LOSS);
        let graph = build::new(ctx, 64, true).unwrap();
        graph.expand(loss, true);
        super::build(graph, ctx, &[]).unwrap();
        let grad = graph.grad(w).unwrap();
        assert_eq!((grad.op(), grad.ne(), grad.name().as_str()), (GGML_OP_OUT_PROD, w.ne(), "grad for w"));
        assert!(graph.grad(x).is_none() && graph.grad_acc(w).is_none());
        assert_eq!(graph.grad_acc(loss), graph.grad(loss));
        // y is a source twice: its two gradients are added.
        assert_eq!(graph.grad(y).unwrap().op(), GGML_OP_ADD);
        assert_eq!(graph.nodes().last(), Some(grad));
    }

    #[test]
    fn a_given_accumulator_is_added_to_in_place() {
        let ctx = &mut Context::with_size(1 << 20, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        w.add_flag(GGML_TENSOR_FLAG_PARAM);
        let acc = ctx.new_like(w).unwrap();
        let loss = reduce::sum(ctx, w).unwrap();
        loss.add_flag(GGML_TENSOR_FLAG_LOSS);
        let graph = build::new(ctx, 64, true).unwrap();
        graph.expand(loss, true);
        super::build(graph, ctx, &[Some(acc), None]).unwrap();
        let grad = graph.grad(w).unwrap();
        assert_eq!((grad.op(), grad.view_src(), graph.grad_acc(w)), (GGML_OP_ADD1, Some(acc), Some(acc)));
    }

    #[test]
    fn a_full_context_is_an_error() {
        let ctx = &mut Context::with_size(1 << 16, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        w.add_flag(GGML_TENSOR_FLAG_PARAM);
        let loss = reduce::sum(ctx, w).unwrap();
        loss.add_flag(GGML_TENSOR_FLAG_LOSS);
        let graph = build::new(ctx, 64, true).unwrap();
        graph.expand(loss, true);
        while ctx.new_tensor(GGML_TYPE_F32, &[1]).is_ok() {}
        assert!(super::build(graph, ctx, &[]).is_err());
    }
}
