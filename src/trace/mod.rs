//! Timelines: events in the Chrome trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing read.
//!
//! Files: this file (whether a trace is being written, the clock, events), `file` (the file and its format).
//!
//! A trace is written if `GGML_TRACE=file.json` is set (`%p` in the name is replaced by the process id), or from
//! [`start`] to [`stop`]. A child that a fork makes never writes to the file of its parent. Call the other functions
//! only if [`is_on`], a relaxed load, returns true:
//!
//! ```ignore
//! # use ggml::trace::{self, Arg, Event, Track};
//! let from = trace::is_on().then(trace::now);
//! // ... the work ...
//! if let Some(from) = from {
//!     let (track, args) = (Track::Here("CPU"), &[("bytes", Arg::Number(64))]);
//!     trace::record(&Event { track, name: "copy", category: "copy", from, to: trace::now(), args });
//! }
//! ```
//!
//! A backend whose device has its own clock converts timestamps to nanoseconds of [`now`] (on Linux `CLOCK_MONOTONIC`),
//! and records them on a [`Track::Device`]. Two events of a track must be nested or disjoint. Use
//! `tensor::traced::node` for the event of a node.

mod file;

use crate::environment;
pub use crate::sys::time::monotonic_ns as now;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const UNASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNASKED);
/// The trace was started by the variable, and not by the host.
static FROM_VARIABLE: AtomicBool = AtomicBool::new(false);

/// The line of the timeline that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track<'a> {
    /// Work of the calling thread under a name, such as that of a backend. Each thread has its own line.
    Here(&'a str),
    /// Work of a device. All threads record it on the same line.
    Device(&'a str),
}

/// A value that is shown with an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Text.
    Text(&'a str),
    /// A count, or a size in bytes.
    Number(u64),
}

/// A period of time.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its line.
    pub track: Track<'a>,
    /// Its name.
    pub name: &'a str,
    /// Its category: `split`, `copy`, `node`, `plan` ...
    pub category: &'a str,
    /// Start in nanoseconds of [`now`].
    pub from: u64,
    /// End, at or after the start.
    pub to: u64,
    /// Names and values that are shown with it.
    pub args: &'a [(&'a str, Arg<'a>)],
}

/// Whether a trace is being written.
#[inline]
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => first_look(),
    }
}

#[cold]
fn first_look() -> bool {
    // The first thread reads the variable. For the others tracing is off until then.
    if STATE.compare_exchange(UNASKED, OFF, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        && let Some(path) = environment::TRACE.filled()
    {
        start_by_variable(Path::new(&path));
    }
    STATE.load(Ordering::Relaxed) == ON
}

fn start_by_variable(path: &Path) {
    match start(path) {
        Ok(()) => FROM_VARIABLE.store(true, Ordering::Relaxed),
        Err(e) => crate::log_warn!("GGML_TRACE: {}: {e}", path.display()),
    }
}

/// This process is a child that was made by a fork, without a trace so far. It gets one if its parent's comes from the
/// variable, and the child's file has another name.
fn forked() {
    STATE.store(OFF, Ordering::Relaxed);
    if FROM_VARIABLE.load(Ordering::Relaxed)
        && let Some(path) = environment::TRACE.os().filter(|p| p.to_string_lossy().contains("%p"))
    {
        start_by_variable(Path::new(&path));
    }
}

/// Starts a trace in a new file, after it has ended the current trace. `%p` in the path is replaced by the process id.
///
/// # Errors
/// The file cannot be created.
pub fn start(path: &Path) -> std::io::Result<()> {
    stop();
    file::open(path)?;
    FROM_VARIABLE.store(false, Ordering::Relaxed);
    STATE.store(ON, Ordering::Relaxed);
    Ok(())
}

/// Ends the trace, if there is one, and writes pending events. Returns false if not everything could be written.
pub fn stop() -> bool {
    STATE.store(OFF, Ordering::Relaxed);
    file::close()
}

/// Adds an event. Events are written by [`flush`] and [`stop`], if many are pending, and at the end of the process.
pub fn record(event: &Event<'_>) {
    file::record(event);
}

/// Writes pending events, unless the last write was a moment ago. Call it at the end of a graph.
pub fn flush() {
    file::flush_if_due();
}

/// Writes pending events now, because the process is about to end.
pub fn rescue() {
    file::rescue();
}

#[cfg(test)]
mod tests;
