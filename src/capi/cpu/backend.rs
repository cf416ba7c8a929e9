//! The CPU as a backend.

use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::ggml_backend_reg_t;
use crate::abi::ggml::{ggml_abort_callback, ggml_threadpool_t};
use crate::cpu::{device, procs};
use crate::guard::guarded;
use std::ffi::{c_int, c_void};

/// Creates a CPU backend. Free it with `ggml_backend_free`. Returns NULL on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_init() -> ggml_backend_t {
    device::device().init(None).map_or(std::ptr::null_mut(), |b| b.into_raw())
}

/// Returns whether this is a CPU backend. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_cpu(backend: ggml_backend_t) -> bool {
    // SAFETY: forwarded to the caller.
    unsafe { procs::is_cpu(backend) }
}

/// Sets the number of threads. 0 or less: as many as the thread pool has, or 4 without one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_n_threads(backend_cpu: ggml_backend_t, n_threads: c_int) {
    // SAFETY: forwarded to the caller.
    unsafe { procs::set_n_threads(backend_cpu, n_threads) }
}

/// Sets the thread pool, which must outlive its use, or NULL for the library's own. Pauses the pool that was set
/// before.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_threadpool(backend_cpu: ggml_backend_t, threadpool: ggml_threadpool_t) {
    // SAFETY: forwarded to the caller; the header requires a pool that outlives its use.
    unsafe { procs::set_threadpool(backend_cpu, threadpool) }
}

/// Sets the abort callback of the backend, or removes it if `abort_callback` is NULL. The backend calls it after each
/// node, and between the parts of large nodes. If it returns true, the computation stops and returns
/// `GGML_STATUS_ABORTED`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_abort_callback(
    backend_cpu: ggml_backend_t,
    abort_callback: ggml_abort_callback,
    abort_callback_data: *mut c_void,
) {
    // SAFETY: forwarded to the caller; the header requires a callback that may be called with its data while the
    // backend computes a graph.
    unsafe { procs::set_abort_callback(backend_cpu, abort_callback, abort_callback_data) }
}

/// Sets whether to use the reference kernels.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_use_ref(backend_cpu: ggml_backend_t, use_ref: bool) {
    // SAFETY: forwarded to the caller.
    unsafe { procs::set_use_ref(backend_cpu, use_ref) }
}

/// Returns the registration of the CPU backend, which has one device. It lives until the process ends.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_reg() -> ggml_backend_reg_t {
    device::reg().as_ptr()
}
