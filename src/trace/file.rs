//! The file of a trace. It is complete JSON after every write: each write ends with the closing brackets, which the
//! next one overwrites. The file can be read even if the process is killed.
#![forbid(unsafe_code)]

use super::event::{Arg, Event, Track};
use crate::sys::time::monotonic_ns;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pending bytes that are written at once.
const FULL: usize = 1 << 18;
/// Minimum time in nanoseconds between two writes at the end of graphs.
const PAUSE: u64 = 200_000_000;
const HEAD: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
const TAIL: &str = "\n]}\n";

/// A trace and its file.
pub(super) struct Sink {
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
    /// Whether a write has failed.
    pub failed: bool,
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
    /// Creates the file. `%p` in the path is replaced by the process id.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let path = match name.contains("%p") {
            true => Path::new(&name.replace("%p", &std::process::id().to_string())).to_owned(),
            false => path.to_owned(),
        };
        let mut file = crate::sys::file::create(&path)?;
        file.write_all(format!("{HEAD}{TAIL}").as_bytes())?;
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let mut sink = Self {
            file,
            pending: String::new(),
            tail: HEAD.len() as u64,
            first: true,
            pid: std::process::id(),
            program,
            tracks: HashMap::new(),
            written: monotonic_ns(),
            failed: false,
        };
        let shown = match sink.program.as_str() {
            "" => "a program".to_owned(),
            name => name.to_owned(),
        };
        sink.name(0, "process_name", &shown);
        Ok(sink)
    }

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

    /// Adds an event, and writes what is pending if that is much.
    pub fn add(&mut self, e: &Event<'_>) -> Result<()> {
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
    pub fn write(&mut self) -> Result<()> {
        self.written = monotonic_ns();
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

    /// Writes what is pending, unless the last write was a moment ago.
    pub fn write_if_due(&mut self) -> Result<()> {
        if monotonic_ns().saturating_sub(self.written) > PAUSE { self.write() } else { Ok(()) }
    }
}
