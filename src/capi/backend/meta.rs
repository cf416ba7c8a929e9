//! The meta device, which joins several devices into one.

use crate::abi::backend::*;
use crate::abi::raw;
use crate::guard::guarded;
use crate::{ggml_abort, log_error};
use std::ffi::{c_char, c_void};

/// Name of a way of spreading tensors over devices, such as "0" or "MIRRORED".
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

/// A device that joins `n_devs` devices and spreads tensors over them as `get_split_state` says. This version of the
/// library has none: NULL, with a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_device(
    devs: *mut ggml_backend_dev_t,
    n_devs: usize,
    get_split_state: ggml_backend_meta_get_split_state_t,
    get_split_state_ud: *mut c_void,
) -> ggml_backend_dev_t {
    let _ = (devs, get_split_state, get_split_state_ud);
    log_error!("ggml_backend_meta_device: this version of the library cannot join {n_devs} devices into one");
    std::ptr::null_mut()
}
