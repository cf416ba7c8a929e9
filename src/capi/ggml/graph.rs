//! Compute graphs.

use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::backend::grad_reset::{reset_gradients, set_zero};
use crate::capi::convert::{
    ctx as need_ctx, graph as need_graph, logged, opt_graph, opt_out, opt_tensor, tensor as need,
};
use crate::graph::{GraphRef, backward, build};
use crate::guard::guarded;
use crate::sys::cstr;
use crate::{ggml_abort, ggml_assert, log_error, log_info};
use std::ffi::{c_char, c_int};

fn out_graph(what: &str, r: crate::error::Result<GraphRef>) -> *mut ggml_cgraph {
    logged(what, r).map_or(std::ptr::null_mut(), GraphRef::as_ptr)
}

/// Adds all `tensors`, and everything they depend on, to the graph, but computes only the one at `idx`. The graph has
/// the same shape for every `idx`. Returns the selected tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_select(
    cgraph: *mut ggml_cgraph,
    tensors: *mut *mut ggml_tensor,
    n_tensors: c_int,
    idx: c_int,
) -> *mut ggml_tensor {
    ggml_assert!(idx >= 0 && idx < n_tensors && !tensors.is_null());
    // SAFETY: a valid graph, by the contract.
    let graph = unsafe { need_graph(cgraph) };
    let mut chosen = std::ptr::null_mut();
    for i in 0..n_tensors {
        // SAFETY: `tensors` holds `n_tensors` valid tensors, by the contract.
        let t = unsafe { need(*tensors.add(i as usize), "tensors[i]") };
        graph.expand(t, i == idx);
        if i == idx {
            chosen = t.as_ptr();
        }
    }
    chosen
}

/// Adds `tensor`, and everything it depends on, to the graph. Each source comes before the nodes that read it.
/// Tensors without a name are named "node_N" and "leaf_N".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_expand(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    // SAFETY: a valid graph and a valid tensor, by the contract.
    unsafe { need_graph(cgraph).expand(need(tensor, "tensor"), true) }
}

/// Adds `tensor`, and everything it depends on, to the graph, in order, but does not mark them to be computed.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_order(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    // SAFETY: a valid graph and a valid tensor, by the contract.
    unsafe { need_graph(cgraph).expand(need(tensor, "tensor"), false) }
}

/// Adds the gradients of the losses (`ggml_set_loss`) with respect to the parameters (`ggml_set_param`) to a graph
/// that has room for gradients. The graph must have at least one of each. The new tensors are created in `ctx`, which
/// must have room for them. `grad_accs` is NULL, or has an entry for each node of the graph: the tensor that
/// accumulates the gradient of the node, or NULL. Ends the process if an operation has no gradient.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_backward_expand(
    ctx: *mut ggml_context,
    cgraph: *mut ggml_cgraph,
    grad_accs: *mut *mut ggml_tensor,
) {
    // SAFETY: a valid context and a valid graph, by the contract.
    let (ctx, graph) = unsafe { (need_ctx(ctx), need_graph(cgraph)) };
    let n = if grad_accs.is_null() { 0 } else { graph.n_nodes() };
    // SAFETY: `grad_accs` has an entry for each node, NULL or a valid tensor, by the contract.
    let accs: Vec<_> = (0..n).map(|i| unsafe { opt_tensor(*grad_accs.add(i)) }).collect();
    if let Err(e) = backward::build(graph, ctx, &accs) {
        // There is no way to tell the caller, who would train with half of the gradients.
        ggml_abort!("ggml_build_backward_expand: {e}");
    }
}

/// Creates an empty graph in `ctx`, for `GGML_DEFAULT_GRAPH_SIZE` nodes and no gradients. Returns NULL when the
/// context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_graph(ctx: *mut ggml_context) -> *mut ggml_cgraph {
    // SAFETY: a valid context, by the contract.
    out_graph("ggml_new_graph", build::new(unsafe { need_ctx(ctx) }, GGML_DEFAULT_GRAPH_SIZE, false))
}

/// Creates an empty graph in `ctx`, for `size` nodes and as many leafs, and for their gradients if `grads` is true.
/// Returns NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_graph_custom(ctx: *mut ggml_context, size: usize, grads: bool) -> *mut ggml_cgraph {
    // SAFETY: a valid context, by the contract.
    out_graph("ggml_new_graph_custom", build::new(unsafe { need_ctx(ctx) }, size, grads))
}

/// Creates a copy of a graph in `ctx`, which refers to the same tensors. With `force_grads` the copy has room for
/// gradients even if the graph has none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_dup(
    ctx: *mut ggml_context,
    cgraph: *mut ggml_cgraph,
    force_grads: bool,
) -> *mut ggml_cgraph {
    // SAFETY: a valid graph and a valid context, by the contract.
    let (graph, ctx) = unsafe { (need_graph(cgraph), need_ctx(ctx)) };
    out_graph("ggml_graph_dup", graph.dup(ctx, force_grads))
}

/// Copies the graph `src` to `dst`, which needs at least as much room, and room for gradients if `src` has gradients.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_cpy(src: *mut ggml_cgraph, dst: *mut ggml_cgraph) {
    // SAFETY: valid graphs, by the contract.
    unsafe { need_graph(src).copy_to(need_graph(dst)) }
}

/// Sets all bytes of the data to 0, in host memory or through the buffer. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_zero(tensor: *mut ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: a valid tensor with data, by the contract.
    set_zero(unsafe { need(tensor, "tensor") });
    tensor
}

/// Prepares a graph with gradients for a training step: sets the gradient accumulators to 0 (those of losses to 1),
/// and the moments of AdamW to 0. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_reset(cgraph: *mut ggml_cgraph) {
    // SAFETY: NULL or a valid graph, by the contract.
    let Some(graph) = (unsafe { opt_graph(cgraph) }) else { return };
    reset_gradients(graph);
}

/// Removes all nodes and leafs from a graph.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_clear(cgraph: *mut ggml_cgraph) {
    // SAFETY: a valid graph, by the contract.
    unsafe { need_graph(cgraph) }.clear();
}

/// Returns the number of nodes that the graph has room for; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_size(cgraph: *mut ggml_cgraph) -> c_int {
    // SAFETY: NULL or a valid graph, by the contract.
    unsafe { opt_graph(cgraph) }.map_or(0, |g| g.size() as c_int)
}

/// Returns node `i`, which must exist. A negative `i` counts from the end.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_node(cgraph: *mut ggml_cgraph, i: c_int) -> *mut ggml_tensor {
    // SAFETY: a valid graph, by the contract.
    let graph = unsafe { need_graph(cgraph) };
    let n = graph.n_nodes() as i64;
    let at = if i < 0 { n + i64::from(i) } else { i64::from(i) };
    match usize::try_from(at) {
        Ok(at) => graph.node(at).as_ptr(),
        Err(_) => ggml_abort!("node {i} of a graph with {n} nodes"),
    }
}

/// Returns the array of nodes, in the order of evaluation. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_nodes(cgraph: *mut ggml_cgraph) -> *mut *mut ggml_tensor {
    // SAFETY: NULL or a valid graph, by the contract.
    unsafe { opt_graph(cgraph) }.map_or(std::ptr::null_mut(), |g| g.raw().nodes)
}

/// Returns the number of nodes; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_n_nodes(cgraph: *mut ggml_cgraph) -> c_int {
    // SAFETY: NULL or a valid graph, by the contract.
    unsafe { opt_graph(cgraph) }.map_or(0, |g| g.n_nodes() as c_int)
}

/// Appends a node, without the tensors it depends on. The graph must have room for it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_add_node(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    // SAFETY: a valid graph and a valid tensor, by the contract.
    let (graph, t) = unsafe { (need_graph(cgraph), need(tensor, "tensor")) };
    ggml_assert!(graph.push_node(t), "the graph has room for {} nodes only", graph.size());
}

/// Returns the size in bytes that a graph made by `ggml_new_graph` takes in a context.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_overhead() -> usize {
    build::overhead(GGML_DEFAULT_GRAPH_SIZE, false)
}

/// Returns the size in bytes that a graph of `size` nodes takes in a context, including gradients if `grads` is true.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_overhead_custom(size: usize, grads: bool) -> usize {
    build::overhead(size, grads)
}

/// Returns the leaf with this name, or else the node, or else NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_get_tensor(cgraph: *const ggml_cgraph, name: *const c_char) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid graph and a valid C string, by the contract.
    opt_out(unsafe { opt_graph(cgraph).zip(cstr::bytes(name)) }.and_then(|(g, name)| g.find_by_name(name)))
}

/// Returns the gradient of a node, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_get_grad(cgraph: *const ggml_cgraph, node: *const ggml_tensor) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid graph and a valid tensor, by the contract.
    opt_out(unsafe { opt_graph(cgraph).zip(opt_tensor(node)) }.and_then(|(g, t)| g.grad(t)))
}

/// Returns the gradient accumulator of a node, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_get_grad_acc(
    cgraph: *const ggml_cgraph,
    node: *const ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: NULL or a valid graph and a valid tensor, by the contract.
    opt_out(unsafe { opt_graph(cgraph).zip(opt_tensor(node)) }.and_then(|(g, t)| g.grad_acc(t)))
}

/// Logs a listing of the graph.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_print(cgraph: *const ggml_cgraph) {
    // SAFETY: NULL or a valid graph, by the contract.
    if let Some(graph) = unsafe { opt_graph(cgraph) } {
        graph.listing().iter().for_each(|line| log_info!("{line}"));
    }
}

/// Writes the graph `gb` to a file in Graphviz' dot language. `cgraph` is NULL or the forward graph, to tell its
/// nodes from those of the backward pass. Logs an error if the file cannot be written.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_dump_dot(
    gb: *const ggml_cgraph,
    cgraph: *const ggml_cgraph,
    filename: *const c_char,
) {
    // SAFETY: a valid graph, NULL or a valid graph, and a valid C string, by the contract.
    let (graph, forward, path) = unsafe { (need_graph(gb), opt_graph(cgraph), cstr::text(filename)) };
    let Some(path) = path else { return log_error!("ggml_graph_dump_dot: no file name") };
    match std::fs::write(&*path, graph.dot(forward)) {
        Ok(()) => log_info!("ggml_graph_dump_dot: dot -Tpng {path} -o {path}.png && open {path}.png"),
        Err(e) => log_error!("ggml_graph_dump_dot: {path}: {e}"),
    }
}
