//! The meta device, which joins several devices into one.

use crate::abi::backend::*;
use crate::abi::raw;
use crate::backend::{DeviceRef, meta};
use crate::capi::convert::{logged, objects};
use crate::environment::host;
use crate::guard::guarded;
use crate::{ggml_abort, log_error};
use std::ffi::{c_char, c_void};

/// Returns the name of a way to distribute tensors, such as "0" or "MIRRORED".
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_split_axis_name(
    split_axis: raw::ggml_backend_meta_split_axis,
) -> *const c_char {
    use ggml_backend_meta_split_axis::*;
    match ggml_backend_meta_split_axis::from_raw(split_axis) {
        Some(GGML_BACKEND_SPLIT_AXIS_0) => c"0",
        Some(GGML_BACKEND_SPLIT_AXIS_1) => c"1",
        Some(GGML_BACKEND_SPLIT_AXIS_2) => c"2",
        Some(GGML_BACKEND_SPLIT_AXIS_3) => c"3",
        Some(GGML_BACKEND_SPLIT_AXIS_MIRRORED) => c"MIRRORED",
        Some(GGML_BACKEND_SPLIT_AXIS_PARTIAL) => c"PARTIAL",
        Some(GGML_BACKEND_SPLIT_AXIS_NONE) => c"NONE",
        Some(GGML_BACKEND_SPLIT_AXIS_UNKNOWN) => c"UNKNOWN",
        None => ggml_abort!("there is no split axis {split_axis}"),
    }
    .as_ptr()
}

/// Returns a device that joins `n_devs` devices (1 to 16) for tensor parallelism. `get_split_state` returns how each
/// tensor that holds data (weights, caches) is distributed over them; the distribution of results follows from their
/// operations. The same arguments return the same device, which lives until the process ends. Logs an error and
/// returns NULL if the arguments are not valid. A tensor or an operation that cannot be distributed fails, with an
/// error in the log, when it is allocated or computed.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_device(
    devs: *mut ggml_backend_dev_t,
    n_devs: usize,
    get_split_state: ggml_backend_meta_get_split_state_t,
    get_split_state_ud: *mut c_void,
) -> ggml_backend_dev_t {
    if devs.is_null() || n_devs > GGML_BACKEND_META_MAX_DEVICES {
        log_error!("ggml_backend_meta_device: {n_devs} devices at {devs:?} cannot be joined into one device");
        return std::ptr::null_mut();
    }
    if host::is_before((0, 13, 1)) {
        log_error!("ggml_backend_meta_device: a program for ggml before 0.13.1 returns split states of another size");
        return std::ptr::null_mut();
    }
    objects!(n_devs; devs);
    // SAFETY: the header requires a function that may be called with its data for as long as the device is used.
    let made = unsafe { meta::device(&devs, get_split_state, get_split_state_ud) };
    logged("ggml_backend_meta_device", made).map_or(std::ptr::null_mut(), DeviceRef::as_ptr)
}
