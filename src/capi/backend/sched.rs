//! Schedulers: one graph over several backends.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::BackendRef;
use crate::capi::convert::{broken, logged, need, objects, optional, passed, shared};
use crate::error::Result;
use crate::ggml_assert;
use crate::guard::guarded;
use crate::log_error;
use crate::sched::Scheduler;
use crate::sched::callbacks::{CopyWeights, Eval, Realloc};
use crate::sched::engine::Engine;
use std::cell::Ref;
use std::ffi::{c_int, c_void};

// SAFETY: `ggml_backend_sched_new` makes every `ggml_backend_sched_t` from a boxed `Scheduler`. All references to it
// are shared, because a callback of the scheduler may call these functions.
//
// **The scheduler's graph** is the one that it split last, and has not been reset since. The scheduler keeps handles to
// it. Functions that read through these handles, such as the reports of ggml-rs.h, require a valid graph: the host
// keeps the graph, with its tensors and their buffers, until it resets the scheduler or gives it another graph.
passed! { unsafe 'c:
    ggml_backend_sched_t => &'c Scheduler, shared;
}

/// The engine of a scheduler, to read. Logs an error and returns `None` while another function changes the scheduler.
fn engine<'a>(what: &str, sched: Option<&'a Scheduler>) -> Option<Ref<'a, Engine>> {
    logged(what, sched?.read())
}

/// The index of a backend that must be one of the scheduler's.
#[track_caller]
fn index_of(engine: &Engine, backend: Option<BackendRef>) -> usize {
    match backend.and_then(|b| engine.index_of(b)) {
        Some(i) => i,
        None => broken("the backend is not one of the scheduler's"),
    }
}

fn status(what: &str, result: Result<ggml_status>) -> raw::ggml_status {
    let status = result.unwrap_or_else(|e| {
        log_error!("{what}: {e}");
        e.status()
    });
    status as raw::ggml_status
}

/// Creates a scheduler for `n_backends` backends (at most 16), in order of priority. The last one must be a CPU
/// backend; it computes what no other backend can.
///
/// - `bufts`: the buffer type that each backend computes in, or NULL for their default types.
/// - `graph_size`: the expected number of nodes and leafs. Larger graphs work too.
/// - `parallel`: keep several copies of the inputs, so that a graph can start while earlier ones run.
/// - `op_offload`: let an accelerator compute a node whose weights are in host memory, if
///   `ggml_backend_dev_offload_op` returns true for this device and node.
///
/// The caller keeps the backends, and uses the scheduler only while they exist. It may free them before the scheduler.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_new(
    backends: *mut ggml_backend_t,
    bufts: *mut ggml_backend_buffer_type_t,
    n_backends: c_int,
    graph_size: usize,
    parallel: bool,
    op_offload: bool,
) -> ggml_backend_sched_t {
    ggml_assert!(!backends.is_null() && n_backends > 0 && n_backends as usize <= crate::sched::MAX_BACKENDS);
    let n = n_backends as usize;
    let has_types = !bufts.is_null();
    objects!(n; backends, bufts);
    let bufts = has_types.then_some(bufts.as_slice());
    Box::into_raw(Box::new(Scheduler::new(&backends, bufts, graph_size, parallel, op_offload))).cast()
}

/// Frees a scheduler and its compute buffers, but not the backends. No graph may be running. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_free(sched: ggml_backend_sched_t) {
    let address = sched;
    optional!(sched);
    let is_idle = sched.is_some_and(|s| logged("ggml_backend_sched_free", s.change()).is_some());
    if is_idle {
        // SAFETY: it came from `ggml_backend_sched_new`, none of its functions is under way, and the header forbids any
        // later use.
        drop(unsafe { Box::from_raw(address.cast::<Scheduler>()) });
    }
}

/// Writes the number of bytes of compute memory that `measure_graph` needs on each backend to `sizes`, without
/// allocating. Resets the scheduler first. If the graph cannot be placed, logs an error and writes zeros.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_reserve_size(
    sched: ggml_backend_sched_t,
    measure_graph: *mut ggml_cgraph,
    sizes: *mut usize,
) {
    ggml_assert!(!sizes.is_null());
    need!(sched, measure_graph);
    let measured = logged("ggml_backend_sched_reserve_size", sched.measure(measure_graph));
    let measured = measured.unwrap_or_else(|| vec![0; sched.n_backends()]);
    // SAFETY: the header requires room for one number for each backend, as many as `measured` has.
    unsafe { std::slice::from_raw_parts_mut(sizes, measured.len()) }.copy_from_slice(&measured);
}

/// Allocates compute buffers for `measure_graph`, and so for all graphs that need no more memory. Waits for all
/// backends first. Takes account of `ggml_backend_sched_set_tensor_backend`, and resets the scheduler afterwards.
/// When out of memory, or if the graph cannot be placed, logs an error and returns false; the scheduler stays usable.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_reserve(
    sched: ggml_backend_sched_t,
    measure_graph: *mut ggml_cgraph,
) -> bool {
    need!(sched, measure_graph);
    logged("ggml_backend_sched_reserve", sched.reserve(measure_graph)).is_some()
}

/// Returns the number of backends.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_n_backends(sched: ggml_backend_sched_t) -> c_int {
    optional!(sched);
    engine("ggml_backend_sched_get_n_backends", sched).map_or(0, |s| s.backends().len() as c_int)
}

/// Returns backend `i`, in order of priority.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_backend(sched: ggml_backend_sched_t, i: c_int) -> ggml_backend_t {
    optional!(sched);
    let Some(s) = engine("ggml_backend_sched_get_backend", sched) else { return std::ptr::null_mut() };
    ggml_assert!(i >= 0 && (i as usize) < s.backends().len());
    s.backends()[i as usize].as_ptr()
}

/// Returns the number of splits of the graph that was split last. Each split runs on one backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_n_splits(sched: ggml_backend_sched_t) -> c_int {
    optional!(sched);
    engine("ggml_backend_sched_get_n_splits", sched).map_or(0, |s| s.n_splits() as c_int)
}

/// Returns the number of copies of each input: 1, or 4 for a scheduler created with `parallel`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_n_copies(sched: ggml_backend_sched_t) -> c_int {
    optional!(sched);
    engine("ggml_backend_sched_get_n_copies", sched).map_or(0, |s| s.n_copies() as c_int)
}

/// Returns the buffer type that `backend`, one of the scheduler's, computes in.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_buffer_type(
    sched: ggml_backend_sched_t,
    backend: ggml_backend_t,
) -> ggml_backend_buffer_type_t {
    optional!(sched, backend);
    let Some(s) = engine("ggml_backend_sched_get_buffer_type", sched) else { return std::ptr::null_mut() };
    s.buffer_type(index_of(&s, backend)).as_ptr()
}

/// Returns the size in bytes of the compute buffers of `backend`, one of the scheduler's. 0 if it shares them with a
/// backend of higher priority.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_buffer_size(
    sched: ggml_backend_sched_t,
    backend: ggml_backend_t,
) -> usize {
    optional!(sched, backend);
    let Some(s) = engine("ggml_backend_sched_get_buffer_size", sched) else { return 0 };
    s.buffer_size(index_of(&s, backend))
}

/// Assigns `node` to `backend`, one of the scheduler's, until the next reset. Computing a graph that has not been
/// allocated resets the scheduler.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_tensor_backend(
    sched: ggml_backend_sched_t,
    node: *mut ggml_tensor,
    backend: ggml_backend_t,
) {
    need!(sched, node; backend);
    let done = sched.read().and_then(|engine| {
        let index = index_of(&engine, backend);
        drop(engine);
        sched.set_tensor_backend(node, index)
    });
    logged("ggml_backend_sched_set_tensor_backend", done);
}

/// Returns the backend that `node` is assigned to, or NULL if it has not been assigned since the last reset.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_get_tensor_backend(
    sched: ggml_backend_sched_t,
    node: *mut ggml_tensor,
) -> ggml_backend_t {
    optional!(sched, node);
    let (Some(s), Some(t)) = (engine("ggml_backend_sched_get_tensor_backend", sched), node) else {
        return std::ptr::null_mut();
    };
    let placed = usize::try_from(s.placement(t).backend).ok();
    placed.map_or(std::ptr::null_mut(), |b| s.backends()[b].as_ptr())
}

/// Assigns every tensor of `graph` to a backend and splits the graph, without allocating it. Replaces sources that a
/// backend cannot read by copies, in `graph` itself. If the graph cannot be placed, logs an error and makes no
/// splits.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_split_graph(sched: ggml_backend_sched_t, graph: *mut ggml_cgraph) {
    need!(sched, graph);
    logged("ggml_backend_sched_split_graph", sched.split_graph(graph));
}

/// Splits and allocates `graph`, so that its inputs can be written before it is computed. The scheduler must have
/// been reset since the last allocation. When out of memory, or if the graph cannot be placed, logs an error and
/// returns false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_alloc_graph(sched: ggml_backend_sched_t, graph: *mut ggml_cgraph) -> bool {
    need!(sched, graph);
    logged("ggml_backend_sched_alloc_graph", sched.alloc_graph(graph)).is_some()
}

/// As `ggml_backend_sched_graph_compute_async`, and waits until all backends are done.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute(
    sched: ggml_backend_sched_t,
    graph: *mut ggml_cgraph,
) -> raw::ggml_status {
    need!(sched, graph);
    let result = sched.compute_async(graph);
    let result = sched.synchronize_after(result);
    status("ggml_backend_sched_graph_compute", result)
}

/// Starts to compute `graph`, which it allocates first unless `ggml_backend_sched_alloc_graph` has. The host may
/// write inputs again at once if the backend that reads them has its own copy; results are valid after
/// `ggml_backend_sched_synchronize`. Returns the status of the first backend that fails, `GGML_STATUS_ALLOC_FAILED`
/// when out of memory, or `GGML_STATUS_FAILED` if the graph cannot be placed; the log has the details.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute_async(
    sched: ggml_backend_sched_t,
    graph: *mut ggml_cgraph,
) -> raw::ggml_status {
    need!(sched, graph);
    status("ggml_backend_sched_graph_compute_async", sched.compute_async(graph))
}

/// Waits until all backends are done. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_synchronize(sched: ggml_backend_sched_t) {
    optional!(sched);
    if let Some(s) = sched {
        logged("ggml_backend_sched_synchronize", s.synchronize());
    }
}

/// Discards the allocated graph and all assignments, including those of `ggml_backend_sched_set_tensor_backend`, but
/// keeps the buffers. The tensors of the graph must not be used afterwards: build a new graph. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_reset(sched: ggml_backend_sched_t) {
    optional!(sched);
    if let Some(s) = sched {
        logged("ggml_backend_sched_reset", s.reset());
    }
}

/// Sets the callback that observes nodes as they are computed, or NULL for none; see
/// `ggml_backend_sched_eval_callback`. With a callback the computation is synchronous.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_eval_callback(
    sched: ggml_backend_sched_t,
    callback: ggml_backend_sched_eval_callback,
    user_data: *mut c_void,
) {
    need!(sched);
    let set = sched.set_eval(Eval { callback, user_data });
    logged("ggml_backend_sched_set_eval_callback", set);
}

/// Sets the callback that copies weights from host memory, or NULL for none; see `ggml_backend_sched_copy_callback`.
/// Without a callback, the scheduler copies only those experts of a MUL_MAT_ID that the tokens use.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_copy_callback(
    sched: ggml_backend_sched_t,
    callback: ggml_backend_sched_copy_callback,
    user_data: *mut c_void,
) {
    need!(sched);
    let set = sched.set_copy(CopyWeights { callback, user_data });
    logged("ggml_backend_sched_set_copy_callback", set);
}

/// Sets the callback that reports reallocations of the compute buffers, or NULL for none; see
/// `ggml_backend_sched_realloc_callback`. The callback may query the scheduler, but must not change it. A scheduler
/// with one backend never calls it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_realloc_callback(
    sched: ggml_backend_sched_t,
    callback: ggml_backend_sched_realloc_callback,
    user_data: *mut c_void,
) {
    need!(sched);
    sched.set_realloc(Realloc { callback, user_data });
}
