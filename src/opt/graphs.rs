//! Makes two more graphs of a forward graph: one with gradients, and one that also has the steps of the optimizer.
#![forbid(unsafe_code)]

use super::state::{State, StepNumbers};
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
use crate::error::Result;
use crate::ggml_abort;
use crate::graph::{GraphRef, backward};
use crate::tensor::Context;
use crate::tensor::ops::optimizer;

/// A copy of `forward` in `ctx`, followed by the backward pass. Gradients are added to the accumulators of `state`.
pub fn with_gradients(ctx: &mut Context, forward: GraphRef, state: &State) -> Result<GraphRef> {
    let graph = forward.dup(ctx, true)?;
    backward::build(graph, ctx, &state.accumulators)?;
    Ok(graph)
}

/// A copy of `gradients` in `ctx`, followed by a step for each parameter among its first `n_forward` nodes, last one
/// first. `numbers` has the parameters of the steps, and `state` the moments, if the optimizer has any.
pub fn with_steps(
    ctx: &mut Context,
    gradients: GraphRef,
    n_forward: usize,
    state: &State,
    numbers: &StepNumbers,
) -> Result<GraphRef> {
    let graph = gradients.dup(ctx, true)?;
    for i in (0..n_forward).rev() {
        let node = graph.node(i);
        let Some(grad) = graph.grad(node).filter(|_| node.has_flag(GGML_TENSOR_FLAG_PARAM)) else { continue };
        let (is_adamw, tensor) = (numbers.is_adamw(), numbers.tensor());
        let step = match state.moments.get(i).copied().flatten() {
            Some(pair) if is_adamw => optimizer::opt_step_adamw(ctx, node, grad, pair.m, pair.v, tensor)?,
            None if !is_adamw => optimizer::opt_step_sgd(ctx, node, grad, tensor)?,
            _ => {
                ggml_abort!("'{}' was not a parameter when the run started: the forward graph has changed", node.name())
            }
        };
        let optimizer: &[u8] = if is_adamw { b"adamw" } else { b"sgd" };
        step.set_name(&[optimizer, b" step for ", &node.name_bytes()[..]].concat());
        graph.expand(step, true);
    }
    Ok(graph)
}
