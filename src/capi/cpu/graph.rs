//! Thread pools, plans, computing graphs without a backend.

use crate::abi::cpu::ggml_cplan;
use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::damage;
use crate::capi::convert::{need, optional, passed, shared};
use crate::cpu::check::CheckedGraph;
use crate::cpu::exec::{self, Abort, Settings};
use crate::cpu::plan::Plan;
use crate::cpu::procs;
use crate::cpu::threadpool::Pool;
use crate::cpu::worker::Scratch;
use crate::error::Error;
use crate::guard::guarded;
use crate::sys::foreign::call_export;
use crate::tensor::{ObjectKind, TensorRef};
use crate::{ggml_assert, log_error, log_warn};
use std::ffi::c_int;

// SAFETY: `procs::threadpool_new` makes them, of a boxed `Pool`.
passed! { unsafe 'c:
    *mut ggml_threadpool => &'c Pool, shared;
}

/// Creates a thread pool. Between graphs its threads spin for a while, as `params->poll` says, and then sleep. Free
/// it with `ggml_threadpool_free`. Returns NULL if the threads cannot be started.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_new(params: *mut ggml_threadpool_params) -> *mut ggml_threadpool {
    // SAFETY: the header requires NULL or a pointer to parameters.
    unsafe { procs::threadpool_new(params) }
}

/// Ends the threads of a pool and frees it. The pool must not be computing a graph. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_free(threadpool: *mut ggml_threadpool) {
    // SAFETY: the header requires NULL or a pool that is no longer used.
    unsafe { procs::threadpool_free(threadpool) }
}

/// Returns the number of threads, including the thread that starts a computation. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_get_n_threads(threadpool: *mut ggml_threadpool) -> c_int {
    optional!(threadpool);
    threadpool.map_or(0, |p| p.n_threads() as c_int)
}

/// Makes waiting threads sleep without spinning, until the pool is resumed or computes the next graph.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_pause(threadpool: *mut ggml_threadpool) {
    optional!(threadpool);
    if let Some(pool) = threadpool {
        pool.pause();
    }
}

/// Ends a pause.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_resume(threadpool: *mut ggml_threadpool) {
    optional!(threadpool);
    if let Some(pool) = threadpool {
        pool.resume();
    }
}

/// Returns what computing the graph needs: the number of threads and the size of the work memory. If `n_threads` is 0
/// or less, it is the number of threads of the pool, or 4 without a pool. The caller sets `work_data` to memory of
/// `work_size` bytes, and may set the callback.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_plan(
    cgraph: *const ggml_cgraph,
    n_threads: c_int,
    threadpool: *mut ggml_threadpool,
) -> ggml_cplan {
    need!(cgraph);
    let address = threadpool;
    optional!(threadpool);
    let n_threads = match usize::try_from(n_threads) {
        Ok(n) if n > 0 => n,
        _ => threadpool.map_or(GGML_DEFAULT_N_THREADS as usize, Pool::n_threads),
    };
    let plan = Plan::of(cgraph.nodes(), n_threads);
    ggml_cplan {
        work_size: plan.work_size(),
        work_data: std::ptr::null_mut(),
        n_threads: plan.n_threads as c_int,
        threadpool: address,
        abort_callback: None,
        abort_callback_data: std::ptr::null_mut(),
        use_ref: false,
    }
}

/// Computes a graph with a plan that was made for it. All data must be in host memory. Returns `GGML_STATUS_ABORTED`
/// if the abort callback stopped it, and `GGML_STATUS_FAILED` for a node that cannot be computed. Afterwards, no
/// thread uses the graph or the plan.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_compute(cgraph: *mut ggml_cgraph, cplan: *mut ggml_cplan) -> raw::ggml_status {
    need!(cgraph);
    ggml_assert!(!cplan.is_null(), "cplan != NULL");
    // SAFETY: not NULL, so the plan that the header requires.
    let plan = unsafe { cplan.read() };
    ggml_assert!(plan.n_threads > 0, "a plan of {} threads", plan.n_threads);
    ggml_assert!(plan.work_size == 0 || !plan.work_data.is_null(), "a plan without its work memory");
    let threadpool = plan.threadpool;
    optional!(threadpool);
    if let Some(pool) = threadpool
        && plan.n_threads as usize > pool.n_threads()
    {
        log_warn!("the plan has {} threads, but the pool has {}", plan.n_threads, pool.n_threads());
    }
    let nodes: Vec<TensorRef> = cgraph.nodes().collect();
    let settings = Settings {
        n_threads: plan.n_threads as usize,
        pool: threadpool,
        // SAFETY: the header requires `work_size` bytes at `work_data` that no other code uses during the call.
        scratch: unsafe { Scratch::new(plan.work_data, plan.work_size) },
        abort: Abort { callback: plan.abort_callback, data: plan.abort_callback_data },
        use_ref: plan.use_ref,
    };
    let whole = cgraph.unspoiled().and_then(damage::check_graph);
    let checked = whole.and_then(|()| CheckedGraph::new(&nodes));
    let status = match checked.and_then(|graph| exec::compute(&graph, &settings)) {
        Ok(()) => ggml_status::GGML_STATUS_SUCCESS,
        Err(e) => {
            if !matches!(e, Error::Aborted) {
                log_error!("ggml_graph_compute: {e}");
            }
            e.status()
        }
    };
    status as raw::ggml_status
}

/// As `ggml_graph_plan` and `ggml_graph_compute`, with work memory from the context, which must have room for it.
#[guarded(ggml_status::GGML_STATUS_FAILED as i32)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_graph_compute_with_ctx(
    ctx: *mut ggml_context,
    cgraph: *mut ggml_cgraph,
    n_threads: c_int,
) -> raw::ggml_status {
    // SAFETY: forwarded to the caller.
    let mut plan = call_export(|| unsafe { ggml_graph_plan(cgraph, n_threads, std::ptr::null_mut()) });
    need!(ctx);
    match ctx.new_object(ObjectKind::GGML_OBJECT_TYPE_WORK_BUFFER, plan.work_size) {
        Ok(p) => plan.work_data = p.as_ptr(),
        Err(e) => {
            log_error!("ggml_graph_compute_with_ctx: {e}");
            return ggml_status::GGML_STATUS_ALLOC_FAILED as raw::ggml_status;
        }
    }
    // SAFETY: forwarded to the caller; the work memory is the object just made.
    call_export(|| unsafe { ggml_graph_compute(cgraph, &mut plan) })
}
