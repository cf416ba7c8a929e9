//! Parameters of thread pools.

use crate::abi::ggml::ggml_threadpool_params;
use crate::capi::convert::{optional, outputs, passed, shared};
use crate::cpu::threadpool::default_params;
use crate::guard::guarded;
use std::ffi::c_int;

// SAFETY: a C struct, not an opaque name.
passed! { unsafe 'c:
    *const ggml_threadpool_params => &'c ggml_threadpool_params, shared;
}

/// Returns parameters for `n_threads` threads: any processor, normal priority, medium polling, not paused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_default(n_threads: c_int) -> ggml_threadpool_params {
    default_params(n_threads)
}

/// Writes the parameters of `ggml_threadpool_params_default` to `p`. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_init(p: *mut ggml_threadpool_params, n_threads: c_int) {
    outputs!(p);
    p.put(default_params(n_threads));
}

/// Returns whether a pool with parameters `p0` can replace one with `p1`: all but `paused` are equal. False if either
/// is NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_threadpool_params_match(
    p0: *const ggml_threadpool_params,
    p1: *const ggml_threadpool_params,
) -> bool {
    optional!(p0, p1);
    let (Some(a), Some(b)) = (p0, p1) else { return false };
    (a.n_threads, a.prio, a.poll, a.strict_cpu, &a.cpumask) == (b.n_threads, b.prio, b.poll, b.strict_cpu, &b.cpumask)
}
