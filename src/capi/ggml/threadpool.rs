//! Parameters of thread pools.

use crate::abi::ggml::ggml_threadpool_params;
use crate::capi::convert::put;
use crate::cpu::threadpool::default_params;
use crate::guard::guarded;
use std::ffi::c_int;

/// Parameters for a pool of `n_threads` threads: any processor, normal priority, medium polling, not paused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_default(n_threads: c_int) -> ggml_threadpool_params {
    default_params(n_threads)
}

/// Writes the parameters that `ggml_threadpool_params_default` gives to `p`. NULL is allowed.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_init(p: *mut ggml_threadpool_params, n_threads: c_int) {
    // SAFETY: NULL or writable, by the contract.
    unsafe { put(p, default_params(n_threads)) }
}

/// Whether a pool made with `p0` can stand for one made with `p1`: all but `paused` is equal. False when one is NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_match(
    p0: *const ggml_threadpool_params,
    p1: *const ggml_threadpool_params,
) -> bool {
    // SAFETY: NULL or readable, by the contract.
    let (Some(a), Some(b)) = (unsafe { (p0.as_ref(), p1.as_ref()) }) else { return false };
    (a.n_threads, a.prio, a.poll, a.strict_cpu, &a.cpumask) == (b.n_threads, b.prio, b.poll, b.strict_cpu, &b.cpumask)
}
