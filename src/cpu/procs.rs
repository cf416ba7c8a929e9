//! The functions that hosts get by name from the CPU backend (`get_proc_address`), with the signatures of the C
//! interface.

use super::exec::Abort;
use super::threadpool::Pool;
use super::{features, numa, repack, simd, stream};
use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::{ggml_backend_feature, ggml_backend_reg_t};
use crate::abi::ggml::{ggml_abort_callback, ggml_threadpool, ggml_threadpool_params, ggml_threadpool_t};
use crate::abi::raw;
use crate::backend::BackendRef;
use crate::guard::guarded;
use crate::{ggml_assert, log_error};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Address of the function with this name, or NULL.
pub fn address(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"ggml_backend_set_n_threads" => set_n_threads as *const c_void,
        b"ggml_backend_get_features" => get_features as *const c_void,
        b"ggml_backend_set_abort_callback" => set_abort_callback as *const c_void,
        b"ggml_backend_cpu_numa_init" => numa_init as *const c_void,
        b"ggml_backend_cpu_is_numa" => is_numa as *const c_void,
        b"ggml_backend_cpu_set_use_ref" => set_use_ref as *const c_void,
        b"ggml_threadpool_new" => threadpool_new as *const c_void,
        b"ggml_threadpool_free" => threadpool_free as *const c_void,
        b"ggml_backend_cpu_set_threadpool" => set_threadpool as *const c_void,
        _ => std::ptr::null(),
    }
}

/// Whether a backend is a CPU backend.
///
/// # Safety
/// `backend` is NULL or a valid backend.
pub unsafe fn is_cpu(backend: ggml_backend_t) -> bool {
    // SAFETY: the caller promises NULL or a **valid backend**, as `from_ptr` requires.
    unsafe { BackendRef::from_ptr(backend) }.is_some_and(|b| stream::stream(&b).is_some())
}

/// Calls `f` with the stream of a CPU backend. Another backend breaks the contract and ends the process.
///
/// # Safety
/// `backend` is NULL or a valid backend.
unsafe fn with_stream<R>(backend: ggml_backend_t, f: impl FnOnce(&stream::CpuStream) -> R) -> R {
    // SAFETY: the caller promises NULL or a **valid backend**, as `from_ptr` requires.
    let backend = unsafe { BackendRef::from_ptr(backend) };
    match backend.as_ref().and_then(stream::stream) {
        Some(stream) => f(stream),
        None => crate::ggml_abort!("this is not a CPU backend"),
    }
}

/// `ggml_backend_cpu_set_n_threads`.
///
/// # Safety
/// `backend` is a valid backend.
#[guarded]
pub unsafe extern "C" fn set_n_threads(backend: ggml_backend_t, n_threads: c_int) {
    // SAFETY: the header's contract: `backend` is a **valid backend**.
    unsafe { with_stream(backend, |s| s.set_n_threads(n_threads)) }
}

/// `ggml_backend_cpu_set_threadpool`.
///
/// # Safety
/// `backend` is a valid backend; `threadpool` is NULL or a pool of `threadpool_new` that lives until another is set.
#[guarded]
pub unsafe extern "C" fn set_threadpool(backend: ggml_backend_t, threadpool: ggml_threadpool_t) {
    // SAFETY: the header's contract: `backend` is a **valid backend**, and the pool lives until another is set, as
    // `set_pool` requires.
    unsafe { with_stream(backend, |s| s.set_pool(NonNull::new(threadpool.cast()))) }
}

/// `ggml_backend_cpu_set_abort_callback`.
///
/// # Safety
/// `backend` is a valid backend; the callback may be called with its data while graphs are computed.
#[guarded]
pub unsafe extern "C" fn set_abort_callback(backend: ggml_backend_t, callback: ggml_abort_callback, data: *mut c_void) {
    // SAFETY: the header's contract: `backend` is a **valid backend**.
    unsafe { with_stream(backend, |s| s.set_abort(Abort { callback, data })) }
}

/// `ggml_backend_cpu_set_use_ref`.
///
/// # Safety
/// `backend` is a valid backend.
#[guarded]
pub unsafe extern "C" fn set_use_ref(backend: ggml_backend_t, use_ref: bool) {
    // SAFETY: the header's contract: `backend` is a **valid backend**.
    unsafe { with_stream(backend, |s| s.set_use_ref(use_ref)) }
}

struct Features(Vec<ggml_backend_feature>);
// SAFETY: the pointers are to static strings, which any thread may read.
unsafe impl Send for Features {}
// SAFETY: the list does not change, and its pointers are to static strings, which any thread may read.
unsafe impl Sync for Features {}

/// The features of this processor and the level of the kernels in use, terminated by an entry of NULLs. It omits parts
/// of the original that this library does not have (`LLAMAFILE`, `OPENMP`, `KLEIDIAI`).
fn feature_list() -> &'static [ggml_backend_feature] {
    static LIST: OnceLock<Features> = OnceLock::new();
    let list = crate::sys::sync::once(&LIST, || {
        let present = features::ALL.iter().filter(|f| (f.present)());
        let entry = |name: *const _, value: *const _| ggml_backend_feature { name, value };
        let mut list: Vec<_> = present.map(|f| entry(f.name.as_ptr(), c"1".as_ptr())).collect();
        if repack::is_offered() {
            list.push(entry(c"REPACK".as_ptr(), c"1".as_ptr()));
        }
        list.push(entry(c"KERNELS".as_ptr(), simd::kernels().level.name().as_ptr()));
        list.push(entry(std::ptr::null(), std::ptr::null()));
        Features(list)
    });
    &list.0
}

#[guarded]
unsafe extern "C" fn get_features(_reg: ggml_backend_reg_t) -> *mut ggml_backend_feature {
    feature_list().as_ptr().cast_mut()
}

#[guarded]
unsafe extern "C" fn numa_init(strategy: raw::ggml_numa_strategy) {
    numa::init(strategy);
}

#[guarded]
unsafe extern "C" fn is_numa() -> bool {
    numa::is_numa()
}

/// `ggml_threadpool_new`. Logs an error and returns NULL if threads cannot be started.
///
/// # Safety
/// `params` is NULL or points to parameters.
#[guarded]
pub unsafe extern "C" fn threadpool_new(params: *mut ggml_threadpool_params) -> *mut ggml_threadpool {
    // SAFETY: the caller promises that `params` is NULL or points to parameters.
    let Some(params) = (unsafe { params.as_ref() }) else { return std::ptr::null_mut() };
    ggml_assert!(params.n_threads > 0, "a pool of {} threads", params.n_threads);
    match Pool::new(params) {
        Ok(pool) => Box::into_raw(Box::new(pool)).cast(),
        Err(e) => {
            log_error!("ggml_threadpool_new: {e}");
            std::ptr::null_mut()
        }
    }
}

/// `ggml_threadpool_free`.
///
/// # Safety
/// `threadpool` is NULL or came from [`threadpool_new`], and is not used afterwards.
#[guarded]
pub unsafe extern "C" fn threadpool_free(threadpool: *mut ggml_threadpool) {
    if !threadpool.is_null() {
        // SAFETY: not NULL, so it came from `Box::into_raw` in `threadpool_new`, and the caller promises not to use it
        // afterwards.
        drop(unsafe { Box::from_raw(threadpool.cast::<Pool>()) });
    }
}
