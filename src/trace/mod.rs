//! Timelines: events in the Chrome trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing read.
//!
//! Files: this file (whether a trace is being written, the clock, the trace of each process), `event` (what a timeline
//! shows), `file` (the file and its format).
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

mod event;
mod file;

pub use crate::sys::time::monotonic_ns as now;
pub use event::{Arg, Event, Track};

use crate::environment;
use crate::sys::fork::Section;
use crate::sys::sync::lock;
use file::Sink;
use std::io::{ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, TryLockError};

const UNASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNASKED);
/// The trace was started by the variable, and not by the host.
static FROM_VARIABLE: AtomicBool = AtomicBool::new(false);

/// The trace of one process. A child that a fork made does not touch what its parent had: the file is the parent's, and
/// the lock may be held by a thread that the child does not have.
struct Process {
    /// The process id, or 0 until a process takes this entry.
    id: AtomicU32,
    sink: Mutex<Option<Sink>>,
}

/// This program, a child of it, a child of that child ... Later ones are not traced.
static PROCESSES: [Process; 16] = [const { Process { id: AtomicU32::new(0), sink: Mutex::new(None) } }; 16];
/// Number of forks between the program and this process.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

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

/// The trace of this process.
fn process() -> Option<&'static Process> {
    let id = std::process::id();
    loop {
        let generation = GENERATION.load(Ordering::Relaxed);
        let process = PROCESSES.get(generation)?;
        match process.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(process),
            Err(known) if known == id => return Some(process),
            // Of the threads of a child, one moves on.
            Err(_) => {
                let next = generation + 1;
                if GENERATION.compare_exchange(generation, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    forked();
                }
            }
        }
    }
}

/// Calls `f` with the file, if there is one. An error is logged after the lock has been released: the host's log
/// callback may stop the trace.
fn with_sink(f: impl FnOnce(&mut Sink) -> Result<()>) {
    let Some(process) = process() else { return };
    let mut sink = lock(&process.sink);
    let result = sink.as_mut().map(f);
    drop(sink);
    say(result);
}

fn say(result: Option<Result<()>>) {
    if let Some(Err(e)) = result {
        crate::log_warn!("tracing stopped: {e}");
    }
}

/// Starts a trace in a new file, after it has ended the current trace. `%p` in the path is replaced by the process id.
/// What is pending at the end of the process is written then.
///
/// # Errors
/// The file cannot be created.
pub fn start(path: &Path) -> Result<()> {
    stop();
    let process = process().ok_or(ErrorKind::Unsupported)?;
    let sink = Sink::create(path)?;
    *lock(&process.sink) = Some(sink);
    static AT_EXIT: Once = Once::new();
    {
        let _whole = Section::enter();
        AT_EXIT.call_once(|| {
            // SAFETY: `at_exit` has the type that `atexit` requires, and does not unwind. It stays mapped: this library
            // is never unloaded.
            unsafe { libc::atexit(at_exit) };
        });
    }
    FROM_VARIABLE.store(false, Ordering::Relaxed);
    STATE.store(ON, Ordering::Relaxed);
    Ok(())
}

extern "C" fn at_exit() {
    rescue();
}

/// Ends the trace, if there is one, and writes pending events. Returns false if not everything could be written.
pub fn stop() -> bool {
    STATE.store(OFF, Ordering::Relaxed);
    // The lock is released before anything is logged.
    let sink = process().and_then(|p| lock(&p.sink).take());
    sink.is_none_or(|mut s| {
        say(Some(s.write()));
        !s.failed
    })
}

/// Adds an event. Events are written by [`flush`] and [`stop`], if many are pending, and at the end of the process.
pub fn record(event: &Event<'_>) {
    with_sink(|s| s.add(event));
}

/// Writes pending events, unless the last write was a moment ago. Call it at the end of a graph.
pub fn flush() {
    with_sink(Sink::write_if_due);
}

/// Writes pending events now, because the process is about to end, unless the lock is taken. It does not wait, because
/// another thread, or a caller on this one, may never release it.
pub fn rescue() {
    let Some(process) = process() else { return };
    let mut sink = match process.sink.try_lock() {
        Ok(sink) => sink,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let result = sink.as_mut().map(Sink::write);
    drop(sink);
    say(result);
}

#[cfg(test)]
mod tests;
