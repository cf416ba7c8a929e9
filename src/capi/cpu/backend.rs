//! The CPU as a backend.

use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::ggml_backend_reg_t;
use crate::abi::ggml::{ggml_abort_callback, ggml_threadpool_t};
use crate::cpu::{device, procs};
use crate::guard::guarded;
use std::ffi::{c_int, c_void};

/// A new stream of the CPU device, freed with `ggml_backend_free`. NULL on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_init() -> ggml_backend_t {
    device::device().init(None).map_or(std::ptr::null_mut(), |b| b.into_raw())
}

/// Whether a backend is a stream of the CPU device. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_cpu(backend: ggml_backend_t) -> bool {
    // SAFETY: NULL or a valid backend, by the contract.
    unsafe { procs::is_cpu(backend) }
}

/// Threads to compute with from now on; 0 or less: as many as the thread pool has, or 4.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_n_threads(backend_cpu: ggml_backend_t, n_threads: c_int) {
    // SAFETY: a valid CPU backend, by the contract.
    unsafe { procs::set_n_threads(backend_cpu, n_threads) }
}

/// Pool to compute in from now on; NULL: the library's own. It must outlive its use. A pool that was set before is paused.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_threadpool(backend_cpu: ggml_backend_t, threadpool: ggml_threadpool_t) {
    // SAFETY: a valid CPU backend and a pool that outlives its use, by the contract.
    unsafe { procs::set_threadpool(backend_cpu, threadpool) }
}

/// Function that is asked after each node whether to stop; NULL: never stop. A graph that is stopped ends with
/// `GGML_STATUS_ABORTED`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_abort_callback(
    backend_cpu: ggml_backend_t,
    abort_callback: ggml_abort_callback,
    abort_callback_data: *mut c_void,
) {
    // SAFETY: a valid CPU backend and a callback that may be called, by the contract.
    unsafe { procs::set_abort_callback(backend_cpu, abort_callback, abort_callback_data) }
}

/// Whether to compute with the plain reference kernels from now on.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_set_use_ref(backend_cpu: ggml_backend_t, use_ref: bool) {
    // SAFETY: a valid CPU backend, by the contract.
    unsafe { procs::set_use_ref(backend_cpu, use_ref) }
}

/// The family "CPU", with one device. Lives until the process ends.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_reg() -> ggml_backend_reg_t {
    device::reg().as_ptr()
}
