//! The timeline.

use crate::capi::convert::{self, optional};
use crate::guard::guarded;
use crate::{log_error, trace};
use std::ffi::c_char;

/// Starts a timeline in a new file: splits of graphs, copies between backends and single nodes, in the Chrome trace
/// format that ui.perfetto.dev reads. `%p` in the path becomes the process id. The environment variable GGML_TRACE
/// does the same from the start of the process. There is one timeline at a time; starting another ends the first. If
/// the file cannot be created, logs an error and returns false. A timeline ends at a fork for the child, which never
/// writes to its parent's file; only with "%p" in GGML_TRACE the child has one of its own.
///
/// The file is readable at any moment, however the process ends. Events that are not in it yet are written by
/// `ggml_rs_trace_stop`, or at exit. Times are those of the calling thread: for an asynchronous backend they show
/// when a split was queued; the backend's own line, if it has one, shows when it ran.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_trace_start(path: *const c_char) -> bool {
    optional!(path);
    let Some(path) = convert::path(path) else {
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

/// Ends the timeline. Returns false if some of it could not be written; true also if there was none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_trace_stop() -> bool {
    let complete = trace::stop();
    if !complete {
        log_error!("ggml_rs_trace_stop: the file could not be written");
    }
    complete
}
