//! Backends as streams of work.

use super::buffer_out;
use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::{ggml_guid_t, ggml_status, ggml_tensor};
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::{BackendRef, DeviceRef};
use crate::capi::convert::{need, optional, query, take};
use crate::guard::guarded;
use std::ffi::c_char;

/// Returns the identifier of the backend's implementation, 16 bytes. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_guid(backend: ggml_backend_t) -> ggml_guid_t {
    optional!(backend);
    backend.map_or(std::ptr::null_mut(), BackendRef::guid_ptr)
}

/// Returns the name, such as "CPU"; "NULL" for NULL. The string lives as long as the backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_name(backend: ggml_backend_t) -> *const c_char {
    optional!(backend);
    backend.map_or(c"NULL".as_ptr(), BackendRef::name_ptr)
}

/// Frees a backend, but not its buffers. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_free(backend: ggml_backend_t) {
    take!(backend);
    drop(backend);
}

/// Returns the default buffer type of the backend's device.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_get_default_buffer_type(backend: ggml_backend_t) -> ggml_backend_buffer_type_t {
    query!(backend);
    backend.map_or(std::ptr::null_mut(), |it| it.default_buffer_type().as_ptr())
}

/// Allocates a buffer of the default type, to be freed with `ggml_backend_buffer_free`. Returns NULL when out of
/// memory.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_buffer(backend: ggml_backend_t, size: usize) -> ggml_backend_buffer_t {
    query!(backend);
    let Some(backend) = backend else { return std::ptr::null_mut() };
    let buft = backend.default_buffer_type();
    buffer_out(buft, size, buft.alloc_buffer(size))
}

/// Returns the alignment in bytes of tensors in buffers of the default type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_get_alignment(backend: ggml_backend_t) -> usize {
    query!(backend);
    backend.map_or(0, |it| it.default_buffer_type().alignment())
}

/// Returns the maximum size in bytes of a buffer of the default type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_get_max_size(backend: ggml_backend_t) -> usize {
    query!(backend);
    backend.map_or(0, |it| it.default_buffer_type().max_size())
}

/// Waits until the backend has done everything in its queue.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_synchronize(backend: ggml_backend_t) {
    need!(backend);
    backend.synchronize()
}

/// Prepares a graph to be computed several times. Free the plan with `ggml_backend_graph_plan_free`. Only for
/// backends that have plans. Returns NULL on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_plan_create(
    backend: ggml_backend_t,
    cgraph: *mut ggml_cgraph,
) -> ggml_backend_graph_plan_t {
    need!(backend, cgraph);
    backend.graph_plan_create(cgraph)
}

/// Frees a plan of this backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_plan_free(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t) {
    need!(backend);
    // SAFETY: the header requires a plan that this backend created and that is not used afterwards.
    unsafe { backend.graph_plan_free(plan) }
}

/// Computes a plan of this backend.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_plan_compute(
    backend: ggml_backend_t,
    plan: ggml_backend_graph_plan_t,
) -> raw::ggml_status {
    need!(backend);
    // SAFETY: the header requires a plan that this backend created and that has not been freed.
    unsafe { backend.graph_plan_compute(plan, None) as raw::ggml_status }
}

/// Computes a graph, and returns when it is done.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_compute(
    backend: ggml_backend_t,
    cgraph: *mut ggml_cgraph,
) -> raw::ggml_status {
    need!(backend, cgraph);
    backend.graph_compute(cgraph) as raw::ggml_status
}

/// Computes a graph. An asynchronous backend only queues it; `ggml_backend_synchronize` waits for it.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_compute_async(
    backend: ggml_backend_t,
    cgraph: *mut ggml_cgraph,
) -> raw::ggml_status {
    need!(backend, cgraph);
    backend.graph_compute_async(cgraph) as raw::ggml_status
}

/// Returns whether the device of the backend can compute the node `op`; see `ggml_backend_dev_supports_op`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_supports_op(backend: ggml_backend_t, op: *const ggml_tensor) -> bool {
    query!(backend);
    optional!(op);
    backend.zip(op).is_some_and(|(it, op)| it.supports_op(op))
}

/// Returns whether the device of the backend can use tensors in buffers of this type; see
/// `ggml_backend_dev_supports_buft`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_supports_buft(backend: ggml_backend_t, buft: ggml_backend_buffer_type_t) -> bool {
    query!(backend, buft);
    backend.zip(buft).is_some_and(|(it, buft)| it.supports_buft(buft))
}

/// Returns whether the device of the backend should compute `op` although its weights are in host memory; see
/// `ggml_backend_dev_offload_op`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_offload_op(backend: ggml_backend_t, op: *const ggml_tensor) -> bool {
    query!(backend);
    optional!(op);
    backend.zip(op).is_some_and(|(it, op)| it.offload_op(op))
}

/// Returns the device of the backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_get_device(backend: ggml_backend_t) -> ggml_backend_dev_t {
    query!(backend);
    backend.map_or(std::ptr::null_mut(), |it| it.device_opt().map_or(std::ptr::null_mut(), DeviceRef::as_ptr))
}
