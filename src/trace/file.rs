//! The file of a trace. It is complete JSON after every write: each write ends with the closing brackets, which the
//! next one overwrites. The file can be read even if the process is killed.

use super::{Arg, Event, Track, now};
use crate::sys::sync::lock;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, TryLockError};

/// Pending bytes that are written at once.
const FULL: usize = 1 << 18;
/// Minimum time in nanoseconds between two writes at the end of graphs.
const PAUSE: u64 = 200_000_000;
const HEAD: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
const TAIL: &str = "\n]}\n";

struct Sink {
    file: File,
    /// Events that are not in the file yet, each after its separator.
    pending: String,
    /// Offset of the closing brackets.
    tail: u64,
    first: bool,
    /// Number of the process.
    pid: u32,
    /// Name of the program.
    program: String,
    /// Number of the line for a name and a thread (0 for a device).
    tracks: HashMap<(String, u32), u32>,
    written: u64,
    failed: bool,
}

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
                    super::forked();
                }
            }
        }
    }
}

/// Number of the calling thread, from 1.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
    MINE.with(|n| *n)
}

/// Writes text as a JSON string.
fn quoted(out: &mut String, text: &str) {
    // A text cannot fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Writes microseconds with three decimal places, as the format requires.
fn micros(out: &mut String, ns: u64) {
    let _ = write!(out, "{}.{:03}", ns / 1000, ns % 1000);
}

impl Sink {
    fn next_event(&mut self) {
        self.pending.push_str(if self.first { "\n" } else { ",\n" });
        self.first = false;
    }

    fn track(&mut self, track: Track<'_>) -> u32 {
        let (name, thread) = match track {
            Track::Here(name) => (name, thread_number()),
            Track::Device(name) => (name, 0),
        };
        // A look-up without a copy of the name would need nested maps, and traces need not be that fast.
        let key = (name.to_owned(), thread);
        if let Some(&n) = self.tracks.get(&key) {
            return n;
        }
        let n = self.tracks.len() as u32 + 1;
        let shown = match (thread, crate::sys::thread::name()) {
            (0, _) => format!("{name} (device)"),
            (1, _) => name.to_owned(),
            // Threads that have no name of their own have that of the program.
            (t, Some(own)) if own != self.program && !self.program.starts_with(&own) => {
                format!("{name} (thread {t}: {own})")
            }
            (t, _) => format!("{name} (thread {t})"),
        };
        self.tracks.insert(key, n);
        self.name(n, "thread_name", &shown);
        n
    }

    /// Names the process (`kind`: `process_name`), or the line with this number (`thread_name`).
    fn name(&mut self, line: u32, kind: &str, text: &str) {
        self.next_event();
        let pid = self.pid;
        let _ = write!(
            self.pending,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{line},\"name\":\"{kind}\",\"args\":{{\"name\":"
        );
        quoted(&mut self.pending, text);
        self.pending.push_str("}}");
    }

    fn add(&mut self, e: &Event<'_>) -> Result<()> {
        let track = self.track(e.track);
        self.next_event();
        let (out, pid) = (&mut self.pending, self.pid);
        let _ = write!(out, "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{track},\"ts\":");
        micros(out, e.from);
        out.push_str(",\"dur\":");
        micros(out, e.to.saturating_sub(e.from));
        out.push_str(",\"cat\":");
        quoted(out, e.category);
        out.push_str(",\"name\":");
        quoted(out, e.name);
        if !e.args.is_empty() {
            out.push_str(",\"args\":{");
            for (i, (key, value)) in e.args.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                quoted(out, key);
                out.push(':');
                match value {
                    Arg::Text(text) => quoted(out, text),
                    Arg::Number(n) => {
                        let _ = write!(out, "{n}");
                    }
                }
            }
            out.push('}');
        }
        out.push('}');
        if self.pending.len() >= FULL { self.write() } else { Ok(()) }
    }

    /// Writes what is pending. Only the first error is returned; afterwards nothing is written any more.
    fn write(&mut self) -> Result<()> {
        self.written = now();
        if self.pending.is_empty() || self.failed {
            self.pending.clear();
            return Ok(());
        }
        let n = self.pending.len() as u64;
        self.pending.push_str(TAIL);
        let result =
            self.file.seek(SeekFrom::Start(self.tail)).and_then(|_| self.file.write_all(self.pending.as_bytes()));
        self.pending.clear();
        match &result {
            Ok(()) => self.tail += n,
            Err(_) => self.failed = true,
        }
        result
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

/// Creates the file, and registers a handler that writes pending events at the end of the process.
pub(super) fn open(path: &Path) -> Result<()> {
    let name = path.to_string_lossy();
    let path = match name.contains("%p") {
        true => Path::new(&name.replace("%p", &std::process::id().to_string())).to_owned(),
        false => path.to_owned(),
    };
    let process = process().ok_or(std::io::ErrorKind::Unsupported)?;
    let mut file = crate::sys::file::create(&path)?;
    file.write_all(format!("{HEAD}{TAIL}").as_bytes())?;
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let mut sink = Sink {
        file,
        pending: String::new(),
        tail: HEAD.len() as u64,
        first: true,
        pid: std::process::id(),
        program,
        tracks: HashMap::new(),
        written: now(),
        failed: false,
    };
    let shown = match sink.program.as_str() {
        "" => "a program".to_owned(),
        name => name.to_owned(),
    };
    sink.name(0, "process_name", &shown);
    *lock(&process.sink) = Some(sink);
    static AT_EXIT: Once = Once::new();
    let _whole = crate::sys::fork::Section::enter();
    AT_EXIT.call_once(|| {
        // SAFETY: `at_exit` has the type that `atexit` requires, and does not unwind. It stays mapped: this library is
        // never unloaded.
        unsafe { libc::atexit(at_exit) };
    });
    Ok(())
}

extern "C" fn at_exit() {
    rescue();
}

pub(super) fn close() -> bool {
    // The lock is released before anything is logged.
    let sink = process().and_then(|p| lock(&p.sink).take());
    sink.is_none_or(|mut s| {
        say(Some(s.write()));
        !s.failed
    })
}

pub(super) fn record(event: &Event<'_>) {
    with_sink(|s| s.add(event));
}

pub(super) fn flush_if_due() {
    with_sink(|s| if now().saturating_sub(s.written) > PAUSE { s.write() } else { Ok(()) });
}

/// Writes pending events unless the lock is taken. It does not wait, because another thread, or a caller on this one,
/// may never release it.
pub(super) fn rescue() {
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
