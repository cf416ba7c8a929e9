//! Reports on the graph that a scheduler split last: placement, fallbacks to the CPU.

use crate::abi::backend::ggml_backend_sched_t;
use crate::abi::raw;
use crate::abi::rs::{ggml_rs_fallback, ggml_rs_format};
use crate::capi::convert::{self, known, logged, need, optional};
use crate::guard::guarded;
use crate::log_error;
use crate::sched::report::Format;
use std::ffi::{CString, c_char};

#[track_caller]
fn format_of(format: raw::ggml_rs_format) -> Format {
    match known(ggml_rs_format::from_raw(format), "format", format) {
        ggml_rs_format::GGML_RS_FORMAT_JSON => Format::Json,
        ggml_rs_format::GGML_RS_FORMAT_HTML => Format::Html,
    }
}

/// Returns the placement report of the graph that `sched` split last: which backend computes each node and why, what
/// is copied, and which tensors use which compute memory when. Free it with `ggml_rs_string_free`. Call this after
/// `ggml_backend_sched_alloc_graph` (or `_split_graph`, without the memory), while the graph lives and before the
/// next reset. If no graph is split, logs an error and returns NULL. With the environment variable
/// GGML_SCHED_REPORT=file.html (or .json) the library writes the report of the largest graph of the process by
/// itself.
///
/// The JSON contains `model` (the name of the largest model that the process has read from a GGUF file, or null),
/// `date` (when the scheduler was made, in UTC), `backends`, `splits` (ranges of nodes, and the `copies` before them),
/// `leafs`, `nodes` (`backend`: its index, `cause`: the step that decided, as GGML_SCHED_DEBUG=2 prints it), `steps`
/// (copies and nodes in the order they run), `fallbacks`, and `memory`: for each buffer type `used_bytes`,
/// `lower_bound` (the most bytes in use at one step), their `ratio` (meaningful only if `planned_for_this_graph`: a
/// larger graph may have been reserved), and `blocks` with the first and last step that need them. `weights` has, for
/// each type of buffers with weights of the graph (`buffers`), how many of their `bytes` are pages of a file that the
/// host has mapped (`mapped_bytes`), copies (`copied_bytes`), interleaved for the kernels (`interleaved_bytes`) or on a
/// device (`device_bytes`), how many can be read from a file again (`from_file_bytes`), and how many are in memory at
/// the moment (`resident_bytes`, null if that is not known); and `memory`, null before there was a buffer CPU_REPACK:
/// all memory of the process (`total_bytes`, with limits of cgroups), what of it is free (`free_bytes`) and what
/// weights leave free (`left_free_bytes`), the limit of GGML_RS_CPU_COPIES (`limit_bytes`, or null), the weights from
/// files that are in memory (`in_memory_bytes`) and that are not (`away_bytes`), what that means (`decision`), how much
/// has been read from files (`read_bytes`), and how long computations have waited for it (`waited_seconds`). `experts`,
/// null without a cache, has the `pools` of slots, how many `units` of the graph are held (of these
/// `units_of_large_batches`, and those that the device looks up itself, `units_looked_up`), rows computed so far
/// (`rows_from_the_cache`, `rows_after_a_copy`, `rows_by_the_cpu`), the `copied_bytes`, what another GiB would save
/// (`saved_ns_per_token_by_a_gib`, an estimate), and the `costs` that decided.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_sched_report(sched: ggml_backend_sched_t, format: raw::ggml_rs_format) -> *mut c_char {
    let format = format_of(format);
    // **The scheduler's graph** (defined in `capi/backend/sched.rs`) is valid: the header requires it.
    need!(sched);
    let text = logged("ggml_rs_sched_report", sched.read().and_then(|s| Ok(s.view()?.report_text(format))));
    // JSON writes a zero byte of a name as an escape, so there is none in the text.
    text.and_then(|t| CString::new(t).ok()).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Writes the report of `ggml_rs_sched_report` to a file, which is replaced. If no graph is split, or the file cannot
/// be written, logs an error and returns false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_sched_write_report(
    sched: ggml_backend_sched_t,
    format: raw::ggml_rs_format,
    path: *const c_char,
) -> bool {
    let format = format_of(format);
    optional!(path);
    let Some(path) = convert::path(path) else {
        log_error!("ggml_rs_sched_write_report: no path");
        return false;
    };
    // **The scheduler's graph** (defined in `capi/backend/sched.rs`) is valid: the header requires it.
    need!(sched);
    logged("ggml_rs_sched_write_report", sched.read().and_then(|s| s.view()?.write_report(format, path))).is_some()
}

/// Frees a string that a function of this header returned. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the header requires a string of this library, which is not used afterwards; all of them came from
        // `CString::into_raw`.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Lists the nodes of the graph split last that run on the CPU although the scheduler has another device, with the
/// cause. Writes up to `max` of them to `list` (which may be NULL if `max` is 0) and returns their total number; 0
/// without an accelerator. The library also logs a warning, once for each operation that no accelerator computes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_sched_fallbacks(
    sched: ggml_backend_sched_t,
    list: *mut ggml_rs_fallback,
    max: usize,
) -> usize {
    // **The scheduler's graph** (defined in `capi/backend/sched.rs`) is valid: the header requires it.
    need!(sched);
    let Some(all) = logged("ggml_rs_sched_fallbacks", sched.read().map(|s| s.fallbacks())) else { return 0 };
    let room = if list.is_null() { 0 } else { max.min(all.len()) };
    for (i, f) in all.iter().take(room).enumerate() {
        let mut out = ggml_rs_fallback { node: f.node.as_ptr(), cause: f.cause, reason: [0; 256] };
        let end = (0..out.reason.len()).rev().find(|&i| f.reason.is_char_boundary(i)).unwrap_or(0);
        for (to, &from) in out.reason.iter_mut().zip(&f.reason.as_bytes()[..end]) {
            *to = from as c_char;
        }
        // SAFETY: the header requires room for `max` entries, and `i` is less than `max`.
        unsafe { list.add(i).write(out) };
    }
    all.len()
}
