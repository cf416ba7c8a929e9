//! The timeline.

use crate::capi::convert::text_path;
use crate::guard::guarded;
use crate::{log_error, trace};
use std::ffi::c_char;

/// Begins a timeline of what runs when, in a new file: stretches of graphs, copies between backends and single nodes, in the
/// Chrome trace format that ui.perfetto.dev reads. `%p` in the path becomes the number of the process. The environment
/// variable GGML_TRACE does the same from the start. One timeline at a time; one under way is ended. false, with an error,
/// when the file cannot be made.
///
/// The file can be read at any moment, however the process ends; what is not yet in it is written at the latest by
/// `ggml_rs_trace_stop`, or at exit. Times are those of the calling thread: on a backend that works asynchronously a stretch
/// is shown while it is queued, and the backend's own line, where it has one, shows when it ran.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_trace_start(path: *const c_char) -> bool {
    // SAFETY: NULL or a valid C string, by the contract.
    let Some(path) = (unsafe { text_path(path) }) else {
        log_error!("ggml_rs_trace_start: no path");
        return false;
    };
    match trace::start(path) {
        Ok(()) => true,
        Err(e) => {
            log_error!("ggml_rs_trace_start: {}: {e}", path.display());
            false
        }
    }
}

/// Ends the timeline. false when not all of it could be written; true, too, when there was none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_trace_stop() -> bool {
    let complete = trace::stop();
    if !complete {
        log_error!("ggml_rs_trace_stop: the file could not be written");
    }
    complete
}
