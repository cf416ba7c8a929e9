//! Compute graphs.

use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::backend::grad_reset::{reset_gradients, set_zero};
use crate::capi::convert::{logged, need, objects, opt_out, optional, optional_objects, spoil};
use crate::graph::{GraphRef, backward, build};
use crate::guard::guarded;
use crate::sys::file;
use crate::{ggml_abort, ggml_assert, log_error, log_info};
use std::ffi::{CStr, c_char, c_int};
use std::io::Write;

fn out_graph(what: &str, r: crate::error::Result<GraphRef>) -> *mut ggml_cgraph {
    logged(what, r).map_or(std::ptr::null_mut(), GraphRef::as_ptr)
}

/// Adds all `tensors`, and everything they depend on, to the graph, but computes only the one at `idx`. The graph has
/// the same shape for every `idx`. Returns the selected tensor.
#[guarded(spoil!(cgraph, std::ptr::null_mut()))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_select(
    cgraph: *mut ggml_cgraph,
    tensors: *mut *mut ggml_tensor,
    n_tensors: c_int,
    idx: c_int,
) -> *mut ggml_tensor {
    ggml_assert!(idx >= 0 && idx < n_tensors && !tensors.is_null());
    need!(cgraph);
    objects!(n_tensors as usize; tensors);
    let idx = idx as usize;
    tensors.iter().enumerate().for_each(|(i, &t)| cgraph.expand(t, i == idx));
    tensors[idx].as_ptr()
}

/// Adds `tensor`, and everything it depends on, to the graph. Each source comes before the nodes that read it.
/// Tensors without a name are named "node_N" and "leaf_N".
#[guarded(spoil!(cgraph))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_expand(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    need!(cgraph, tensor);
    cgraph.expand(tensor, true)
}

/// Adds `tensor`, and everything it depends on, to the graph, in order, but does not mark them to be computed.
#[guarded(spoil!(cgraph))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_forward_order(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    need!(cgraph, tensor);
    cgraph.expand(tensor, false)
}

/// Adds the gradients of the losses (`ggml_set_loss`) with respect to the parameters (`ggml_set_param`) to a graph
/// that has room for gradients. The graph must have at least one of each. The new tensors are created in `ctx`, which
/// must have room for them. `grad_accs` is NULL, or has an entry for each node of the graph: the tensor that
/// accumulates the gradient of the node, or NULL. Ends the process if an operation has no gradient.
#[guarded(spoil!(cgraph))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_build_backward_expand(
    ctx: *mut ggml_context,
    cgraph: *mut ggml_cgraph,
    grad_accs: *mut *mut ggml_tensor,
) {
    need!(ctx, cgraph);
    optional_objects!(cgraph.n_nodes(); grad_accs);
    if let Err(e) = backward::build(cgraph, ctx, &grad_accs) {
        // The function cannot return an error, and the caller would train with some of the gradients missing.
        ggml_abort!("ggml_build_backward_expand: {e}");
    }
}

/// Creates an empty graph in `ctx`, for `GGML_DEFAULT_GRAPH_SIZE` nodes and no gradients. Returns NULL when the
/// context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_graph(ctx: *mut ggml_context) -> *mut ggml_cgraph {
    need!(ctx);
    out_graph("ggml_new_graph", build::new(ctx, GGML_DEFAULT_GRAPH_SIZE, false))
}

/// Creates an empty graph in `ctx`, for `size` nodes and as many leafs, and for their gradients if `grads` is true.
/// Returns NULL when the context is full.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_new_graph_custom(ctx: *mut ggml_context, size: usize, grads: bool) -> *mut ggml_cgraph {
    need!(ctx);
    out_graph("ggml_new_graph_custom", build::new(ctx, size, grads))
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
    need!(cgraph, ctx);
    out_graph("ggml_graph_dup", cgraph.dup(ctx, force_grads))
}

/// Copies the graph `src` to `dst`, which needs at least as much room, and room for gradients if `src` has gradients.
#[guarded(spoil!(dst))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_cpy(src: *mut ggml_cgraph, dst: *mut ggml_cgraph) {
    need!(src, dst);
    src.copy_to(dst)
}

/// Sets all bytes of the data to 0, in host memory or through the buffer. Returns the tensor.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_zero(tensor: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(tensor);
    // SAFETY: the header requires a tensor with data, which is in host memory if it has no buffer.
    unsafe { set_zero(tensor) };
    tensor.as_ptr()
}

/// Prepares a graph with gradients for a training step: sets the gradient accumulators to 0 (those of losses to 1),
/// and the moments of AdamW to 0. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_reset(cgraph: *mut ggml_cgraph) {
    optional!(cgraph);
    let Some(graph) = cgraph else { return };
    // SAFETY: the header requires a graph whose gradients have data, which is in host memory if they have no buffer.
    unsafe { reset_gradients(graph) };
}

/// Removes all nodes and leafs from a graph. Afterwards a graph that a failed call left incomplete can be used again.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_clear(cgraph: *mut ggml_cgraph) {
    need!(cgraph);
    cgraph.clear();
}

/// Returns the number of nodes that the graph has room for; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_size(cgraph: *mut ggml_cgraph) -> c_int {
    optional!(cgraph);
    cgraph.map_or(0, |g| g.size() as c_int)
}

/// Returns node `i`, which must exist. A negative `i` counts from the end.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_node(cgraph: *mut ggml_cgraph, i: c_int) -> *mut ggml_tensor {
    need!(cgraph);
    let n = cgraph.n_nodes() as i64;
    let at = if i < 0 { n + i64::from(i) } else { i64::from(i) };
    match usize::try_from(at) {
        Ok(at) => cgraph.node(at).as_ptr(),
        Err(_) => ggml_abort!("node {i} of a graph with {n} nodes"),
    }
}

/// Returns the array of nodes, in the order of evaluation. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_nodes(cgraph: *mut ggml_cgraph) -> *mut *mut ggml_tensor {
    optional!(cgraph);
    cgraph.map_or(std::ptr::null_mut(), |g| g.raw().nodes)
}

/// Returns the number of nodes; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_n_nodes(cgraph: *mut ggml_cgraph) -> c_int {
    optional!(cgraph);
    cgraph.map_or(0, |g| g.n_nodes() as c_int)
}

/// Appends a node, without the tensors it depends on. The graph must have room for it.
#[guarded(spoil!(cgraph))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_add_node(cgraph: *mut ggml_cgraph, tensor: *mut ggml_tensor) {
    need!(cgraph, tensor);
    ggml_assert!(cgraph.push_node(tensor), "the graph has room for {} nodes only", cgraph.size());
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
    optional!(cgraph, name);
    opt_out(cgraph.zip(name).and_then(|(g, name)| g.find_by_name(name.to_bytes())))
}

/// Returns the gradient of a node, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_get_grad(cgraph: *const ggml_cgraph, node: *const ggml_tensor) -> *mut ggml_tensor {
    optional!(cgraph, node);
    opt_out(cgraph.zip(node).and_then(|(g, t)| g.grad(t)))
}

/// Returns the gradient accumulator of a node, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_get_grad_acc(
    cgraph: *const ggml_cgraph,
    node: *const ggml_tensor,
) -> *mut ggml_tensor {
    optional!(cgraph, node);
    opt_out(cgraph.zip(node).and_then(|(g, t)| g.grad_acc(t)))
}

/// Logs a listing of the graph.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_print(cgraph: *const ggml_cgraph) {
    optional!(cgraph);
    if let Some(graph) = cgraph {
        graph.listing().iter().for_each(|line| log_info!("{line}"));
    }
}

/// Writes the graph `gb` to a file in Graphviz' dot language. `cgraph` is NULL or the forward graph. If it is set,
/// the colour of a node with a gradient shows whether the node is in the forward graph, unless it is a parameter. Logs
/// an error if the file cannot be written.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_dump_dot(
    gb: *const ggml_cgraph,
    cgraph: *const ggml_cgraph,
    filename: *const c_char,
) {
    need!(gb; cgraph, filename);
    let Some(path) = filename.map(CStr::to_string_lossy) else {
        return log_error!("ggml_graph_dump_dot: no file name");
    };
    let write = || file::create(path.as_ref().as_ref())?.write_all(gb.dot(cgraph).as_bytes());
    match write() {
        Ok(()) => log_info!("ggml_graph_dump_dot: dot -Tpng {path} -o {path}.png && open {path}.png"),
        Err(e) => log_error!("ggml_graph_dump_dot: {path}: {e}"),
    }
}
