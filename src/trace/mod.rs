//! What ran when: events for a timeline in the Chrome trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing read.
//!
//! Files: this file (whether a trace is being written, the clock, events), `file` (the file and its format).
//!
//! A trace is written while `GGML_TRACE=file.json` is set (`%p` in the name becomes the number of the process), or from
//! [`start`] to [`stop`]. When none is, [`is_on`] is one relaxed load, and nothing else of this module should be called:
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
//! A backend whose device has a clock of its own turns its timestamps into this clock's nanoseconds (on Linux
//! `CLOCK_MONOTONIC`) and records them when it has read them, on a [`Track::Device`]. Events of one track must be nested or
//! apart, never half over each other; those of a node are best made with `tensor::traced::node`.

mod file;

pub use crate::sys::time::monotonic_ns as now;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

const UNASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNASKED);

/// The line of the timeline that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track<'a> {
    /// Work of the calling thread under a name, such as that of a backend. Threads have lines of their own.
    Here(&'a str),
    /// Work of a device, the same line from whichever thread it is recorded.
    Device(&'a str),
}

/// A value that is shown with an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Text.
    Text(&'a str),
    /// A count, or bytes.
    Number(u64),
}

/// Something that took time.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Where it is shown.
    pub track: Track<'a>,
    /// What it is called.
    pub name: &'a str,
    /// What kind of thing it is: `split`, `copy`, `node`, `plan` ...
    pub category: &'a str,
    /// Begin, in nanoseconds of [`now`].
    pub from: u64,
    /// End, not before the begin.
    pub to: u64,
    /// More about it.
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
    // Claimed by one thread; the others have no trace until it has looked.
    if STATE.compare_exchange(UNASKED, OFF, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        && let Some(path) = std::env::var_os("GGML_TRACE").filter(|p| !p.is_empty())
        && let Err(e) = start(Path::new(&path))
    {
        crate::log_warn!("GGML_TRACE: {}: {e}", Path::new(&path).display());
    }
    STATE.load(Ordering::Relaxed) == ON
}

/// Starts a trace into a new file; a trace under way is ended first. `%p` in the path stands for the number of the process.
///
/// # Errors
/// The file cannot be made.
pub fn start(path: &Path) -> std::io::Result<()> {
    stop();
    file::open(path)?;
    STATE.store(ON, Ordering::Relaxed);
    Ok(())
}

/// Ends the trace, if there is one, and writes the rest of it. `false` if not everything could be written.
pub fn stop() -> bool {
    STATE.store(OFF, Ordering::Relaxed);
    file::close()
}

/// Adds an event. It is in the file at the next [`flush`], when many have gathered, at [`stop`], and at the end of the process.
pub fn record(event: &Event<'_>) {
    file::record(event);
}

/// Writes what has gathered, unless that was done a moment ago. The file is complete JSON after it. For the end of a graph.
pub fn flush() {
    file::flush_if_due();
}

/// Writes what has gathered, at once: the process is about to end.
pub fn rescue() {
    file::rescue();
}

#[cfg(test)]
mod tests;
