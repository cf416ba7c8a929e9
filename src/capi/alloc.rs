//! ggml-alloc.h: the linear and the graph allocator.

use crate::abi::alloc::*;
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::alloc::{GraphAllocator, inplace, linear};
use crate::capi::convert::{boxed, exclusive, given, list, logged, need, objects, optional, passed, take};
use crate::graph::GraphRef;
use crate::guard::guarded;
use crate::sys::foreign::call_export;
use crate::tensor::Context;
use crate::{ggml_abort, ggml_assert, log_error};
use std::ffi::c_int;

// SAFETY: `into_raw` makes a `ggml_gallocr_t`, of a boxed `GraphAllocator`. A `ggml_tallocr` is a C struct.
passed! { unsafe 'c:
    ggml_gallocr_t => &'c mut GraphAllocator, exclusive;
    *mut ggml_tallocr => &'c mut ggml_tallocr, exclusive;
}

// SAFETY: as above.
given! { unsafe:
    ggml_gallocr_t => Box<GraphAllocator>, boxed;
}

fn into_raw(g: GraphAllocator) -> ggml_gallocr_t {
    Box::into_raw(Box::new(g)).cast()
}

/// The buffer indices of a graph's places, leafs first; empty when C gave none.
fn buffer_ids(graph: GraphRef, nodes: &[c_int], leafs: &[c_int]) -> Vec<i32> {
    if nodes.is_empty() && leafs.is_empty() {
        return Vec::new();
    }
    let part = |given: &[c_int], n: usize| match given.is_empty() {
        true => vec![0; n],
        false => given.to_vec(),
    };
    let mut ids = part(leafs, graph.n_leafs());
    ids.extend(part(nodes, graph.n_nodes()));
    ids
}

/// Returns a linear allocator that starts at the beginning of `buffer`. It places tensors one after the other and
/// frees none. The allocator is a plain struct; the caller keeps the buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_new(buffer: ggml_backend_buffer_t) -> ggml_tallocr {
    need!(buffer);
    linear::start(buffer)
}

/// Allocates `tensor`, which must not have memory and must not be a view, in the next free bytes of the buffer. If
/// they are not enough, logs an error and returns `GGML_STATUS_ALLOC_FAILED`; the allocator and the tensor are
/// unchanged.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_alloc(talloc: *mut ggml_tallocr, tensor: *mut ggml_tensor) -> raw::ggml_status {
    need!(talloc, tensor);
    let buffer = talloc.buffer;
    optional!(buffer);
    let Some(buffer) = buffer else { ggml_abort!("GGML_ASSERT(talloc->buffer != NULL) failed") };
    let status = linear::alloc(talloc, buffer, tensor).unwrap_or_else(|e| {
        log_error!("ggml_tallocr_alloc: {e}");
        e.status()
    });
    status as raw::ggml_status
}

/// Creates a graph allocator that uses buffers of type `buft`. Free it with `ggml_gallocr_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new(buft: ggml_backend_buffer_type_t) -> ggml_gallocr_t {
    need!(buft);
    into_raw(GraphAllocator::new(&[buft]))
}

/// Creates a graph allocator that uses `n_bufs` buffer types, identified by their index. A type that is listed
/// several times shares its buffers. Free it with `ggml_gallocr_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new_n(bufts: *mut ggml_backend_buffer_type_t, n_bufs: c_int) -> ggml_gallocr_t {
    ggml_assert!(!bufts.is_null() && n_bufs > 0, "a graph allocator needs a buffer type");
    objects!(n_bufs as usize; bufts);
    into_raw(GraphAllocator::new(&bufts))
}

/// Frees the allocator and its buffers; the tensors in them lose their memory. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_free(galloc: ggml_gallocr_t) {
    take!(galloc);
    drop(galloc);
}

/// Plans `graph` and allocates the buffers it needs, so that graphs that need no more memory are allocated without a
/// new buffer. All tensors use the first buffer type; none gets memory yet. When out of memory, logs an error and
/// returns false; the allocator stays usable.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve(galloc: ggml_gallocr_t, graph: *mut ggml_cgraph) -> bool {
    // SAFETY: forwarded to the caller.
    call_export(|| unsafe { ggml_gallocr_reserve_n(galloc, graph, std::ptr::null(), std::ptr::null()) })
}

/// Plans `graph` without allocating buffers. Writes the number of bytes that each buffer type needs to `sizes` (a
/// type that is listed twice is reported twice). Frees buffers that are too small. If the sizes overflow, logs an
/// error and writes zeros.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n_size(
    galloc: ggml_gallocr_t,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
    sizes: *mut usize,
) {
    ggml_assert!(!sizes.is_null());
    need!(galloc, graph);
    list!(graph.n_nodes(); node_buffer_ids);
    list!(graph.n_leafs(); leaf_buffer_ids);
    let ids = buffer_ids(graph, node_buffer_ids, leaf_buffer_ids);
    let measured = graph.unspoiled().and_then(|graph| galloc.describe(graph)).and_then(|mut problem| {
        let measured = galloc.measure(&mut problem, &ids);
        galloc.put_back(problem);
        measured
    });
    let measured = logged("ggml_gallocr_reserve_n_size", measured);
    let measured = measured.unwrap_or_else(|| vec![0; galloc.n_buffers()]);
    // SAFETY: the header requires room for one number for each buffer type, as many as `measured` has.
    unsafe { std::slice::from_raw_parts_mut(sizes, measured.len()) }.copy_from_slice(&measured);
}

/// As `ggml_gallocr_reserve`, with several buffer types: `node_buffer_ids` and `leaf_buffer_ids` give the index of
/// the type for each node and leaf of the graph (NULL: the first type). Sources that are neither use the type of the
/// node that reads them.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n(
    galloc: ggml_gallocr_t,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
) -> bool {
    need!(galloc, graph);
    list!(graph.n_nodes(); node_buffer_ids);
    list!(graph.n_leafs(); leaf_buffer_ids);
    let ids = buffer_ids(graph, node_buffer_ids, leaf_buffer_ids);
    let done = graph.unspoiled().and_then(|graph| galloc.describe(graph)).and_then(|mut problem| {
        let done = galloc.reserve(&mut problem, &ids);
        galloc.put_back(problem);
        done
    });
    logged("ggml_gallocr_reserve_n", done).is_some()
}

/// Allocates every tensor of `graph` that has no memory. If the current plan does not fit the graph (other edges or
/// larger tensors), an allocator with one buffer type makes a new plan. With several buffer types it returns false:
/// call `ggml_gallocr_reserve_n` first. Also returns false when out of memory; the tensors are then unchanged.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_alloc_graph(galloc: ggml_gallocr_t, graph: *mut ggml_cgraph) -> bool {
    need!(galloc, graph);
    logged("ggml_gallocr_alloc_graph", graph.unspoiled().and_then(|g| galloc.alloc_graph(g))).is_some()
}

/// Returns the size in bytes of the buffers of type `buffer_id`. 0 for a type that is also listed with a smaller
/// index, so that the sum over all indices is right, and 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_get_buffer_size(galloc: ggml_gallocr_t, buffer_id: c_int) -> usize {
    optional!(galloc);
    let Some(galloc) = galloc else { return 0 };
    ggml_assert!(buffer_id >= 0 && (buffer_id as usize) < galloc.n_buffers());
    galloc.buffer_size(buffer_id as usize)
}

/// All tensors of `ctx`, which must have been created with `no_alloc`.
fn tensors_of(ctx: &Context) -> Vec<*mut ggml_tensor> {
    ggml_assert!(ctx.no_alloc(), "tensors of the context have memory in the context");
    ctx.tensors().map(|t| t.as_ptr()).collect()
}

/// Returns the number of bytes that `ggml_backend_alloc_ctx_tensors_from_buft` would allocate for the tensors of
/// `ctx`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft_size(
    ctx: *mut ggml_context,
    buft: ggml_backend_buffer_type_t,
) -> usize {
    need!(ctx);
    let mut tensors = tensors_of(ctx);
    need!(buft);
    if tensors.is_empty() {
        return 0;
    }
    logged("ggml_backend_alloc_ctx_tensors_from_buft_size", buft.alloc_size_n(&mut tensors)).unwrap_or(0)
}

/// Allocates all tensors of `ctx` that have no memory in a new buffer of type `buft`; views use the memory of the
/// tensors they are views of. If one buffer of this type cannot be large enough, the result is a buffer made of
/// several. `ctx` must have been created with `no_alloc`. Returns NULL if there is nothing to allocate; when out of
/// memory, logs an error, returns NULL and leaves all tensors unchanged. The caller frees the buffer after the last
/// use of the tensors.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft(
    ctx: *mut ggml_context,
    buft: ggml_backend_buffer_type_t,
) -> *mut ggml_backend_buffer {
    need!(ctx);
    let mut tensors = tensors_of(ctx);
    need!(buft);
    if tensors.is_empty() {
        return std::ptr::null_mut();
    }
    let made = logged("ggml_backend_alloc_ctx_tensors_from_buft", buft.alloc_buffer_n(&mut tensors)).flatten();
    made.map_or(std::ptr::null_mut(), |b| b.into_raw())
}

/// As `ggml_backend_alloc_ctx_tensors_from_buft`, with the default buffer type of the backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors(
    ctx: *mut ggml_context,
    backend: ggml_backend_t,
) -> *mut ggml_backend_buffer {
    need!(backend);
    // SAFETY: forwarded to the caller.
    call_export(|| unsafe { ggml_backend_alloc_ctx_tensors_from_buft(ctx, backend.default_buffer_type().as_ptr()) })
}

/// Returns whether the result of `op` may use the memory of one of its sources. A backend must not assume that source
/// and result of such an operation are different memory.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_can_inplace(op: raw::ggml_op) -> bool {
    ggml_op::from_raw(op).is_some_and(inplace::can_inplace)
}
