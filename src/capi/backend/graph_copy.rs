//! Graphs copied between devices, and backends compared.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::backend::graph_copy;
use crate::capi::convert::{ctx_into_raw, list, logged, need, take};
use crate::guard::{self, guarded};
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use std::ffi::{c_int, c_void};

/// Copies a graph whose tensors have data to the backend's device, data included; freed with
/// `ggml_backend_graph_copy_free`. All members are NULL when that fails (see the log).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_copy(
    backend: ggml_backend_t,
    graph: *mut ggml_cgraph,
) -> ggml_backend_graph_copy {
    need!(backend, graph);
    let copied = graph_copy::copy(backend, graph);
    match logged("ggml_backend_graph_copy", copied) {
        Some(c) => ggml_backend_graph_copy {
            buffer: c.buffer.into_raw(),
            ctx_allocated: ctx_into_raw(c.allocated),
            ctx_unallocated: ctx_into_raw(c.unallocated),
            graph: c.graph.as_ptr().cast(),
        },
        None => ggml_backend_graph_copy {
            buffer: std::ptr::null_mut(),
            ctx_allocated: std::ptr::null_mut(),
            ctx_unallocated: std::ptr::null_mut(),
            graph: std::ptr::null_mut(),
        },
    }
}

/// Frees a copied graph and everything it owns.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_copy_free(copy: ggml_backend_graph_copy) {
    let ggml_backend_graph_copy { buffer, ctx_allocated, ctx_unallocated, .. } = copy;
    take!(buffer, ctx_allocated, ctx_unallocated);
    drop(buffer);
    drop(ctx_allocated);
    drop(ctx_unallocated);
}

/// Computes `graph` on `backend1` and a copy of it on `backend2`, and calls `callback` with the results of both:
/// after each node, until it returns false; or, if `num_test_nodes` is not 0, for those nodes after the whole graph
/// is computed. Returns false if the graph cannot be copied.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_compare_graph_backend(
    backend1: ggml_backend_t,
    backend2: ggml_backend_t,
    graph: *mut ggml_cgraph,
    callback: ggml_backend_eval_callback,
    user_data: *mut c_void,
    test_nodes: *const *const ggml_tensor,
    num_test_nodes: usize,
) -> bool {
    list!(num_test_nodes; test_nodes);
    need!(backend1, backend2, graph);
    let callback = callback.map(MayUnwind::may_unwind);
    graph_copy::compare(backend1, backend2, graph, test_nodes, |i, t1, t2| {
        let Some(f) = callback else { return true };
        // SAFETY: the host's function may be called with its data during this call.
        let call = || unsafe { f(i as c_int, t1.as_ptr(), t2.as_ptr(), user_data) };
        foreign::call_host(call).unwrap_or_else(|| guard::escape())
    })
}
