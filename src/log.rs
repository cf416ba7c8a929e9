//! The one logging path, and the end of the process when a caller breaks the contract.
//!
//! All messages go through the log callback (default: standard error). A broken contract (what
//! the original asserts) goes to the abort callback, or to standard error, and then ends the process.

use crate::abi::ggml::{ggml_abort_callback_t, ggml_log_callback, ggml_log_level};
use crate::guard::foreign;
use crate::sys::thread::Shield;
use crate::sys::unwind::MayUnwind;
use crate::sys::{process, sync};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Arguments;
use std::mem::ManuallyDrop;
use std::panic::catch_unwind;
use std::sync::RwLock;

/// Where log lines go.
#[derive(Clone, Copy)]
struct Sink {
    callback: ggml_log_callback,
    user_data: *mut c_void,
}
// SAFETY: the pointer is the host's own; the host promises with `ggml_log_set` that its callback may be called from
// any thread. Rust never dereferences it.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Sink> = RwLock::new(Sink { callback: None, user_data: std::ptr::null_mut() });
static ABORT: RwLock<ggml_abort_callback_t> = RwLock::new(None);

/// Installs the host's log callback; `None` restores standard error.
pub fn set_callback(callback: ggml_log_callback, user_data: *mut c_void) {
    *sync::brief_write(&SINK) = Sink { callback, user_data };
}

/// The log callback in force and its data; `None` when lines go to standard error.
pub fn callback() -> (ggml_log_callback, *mut c_void) {
    let sink = *sync::brief_read(&SINK);
    (sink.callback, sink.user_data)
}

/// Installs the abort callback and returns the one before.
pub fn set_abort_callback(callback: ggml_abort_callback_t) -> ggml_abort_callback_t {
    std::mem::replace(&mut *sync::brief_write(&ABORT), callback)
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// The address of the thread's last error, which stays until the next one; "" when there was none.
pub fn last_error_ptr() -> *const c_char {
    LAST_ERROR.try_with(|e| e.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Forgets the thread's last error.
pub fn clear_last_error() {
    let _ = LAST_ERROR.try_with(|e| e.take());
}

thread_local! {
    /// Lines that wait for the end of [`afterwards`], which takes them. Without a destructor: the first line of a
    /// thread would allocate memory to register it.
    static WAITING: ManuallyDrop<RefCell<Option<Lines>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Lines with their levels.
type Lines = Vec<(ggml_log_level, CString)>;

/// Runs something that other threads wait for, or that this thread must not enter again, such as a first use. The host
/// gets its log lines afterwards, so its callback may use what has been made.
pub fn afterwards<T>(first_use: impl FnOnce() -> T) -> T {
    /// Sends the lines, also after a panic.
    struct Send;
    impl Drop for Send {
        fn drop(&mut self) {
            let lines = WAITING.try_with(|w| w.take()).ok().flatten();
            lines.unwrap_or_default().iter().for_each(|(level, text)| send(*level, text));
        }
    }
    let is_first = WAITING.try_with(|w| {
        let mut waiting = w.borrow_mut();
        waiting.is_none().then(|| *waiting = Some(Vec::new())).is_some()
    });
    let _send = is_first.unwrap_or(false).then(|| Send);
    first_use()
}

/// Sends text to the host as it is; lines end with `\n` in the text. An error is remembered for its thread. Nothing is
/// sent while an exception is on its way to the host.
pub fn write(level: ggml_log_level, text: &CStr) {
    if level == ggml_log_level::GGML_LOG_LEVEL_ERROR {
        let line = text.to_bytes().trim_ascii_end();
        let _ = LAST_ERROR.try_with(|e| e.replace(CString::new(line).unwrap_or_default()));
    }
    let waits = WAITING.try_with(|w| w.borrow_mut().as_mut().map(|lines| lines.push((level, text.to_owned()))));
    if !matches!(waits, Ok(Some(()))) {
        send(level, text);
    }
}

fn send(level: ggml_log_level, text: &CStr) {
    let (callback, user_data) = callback();
    match callback.map(MayUnwind::may_unwind) {
        Some(f) => {
            // SAFETY: the host promised with `ggml_log_set` that the callback may be called with its data from any
            // thread.
            foreign::host(|| unsafe { f(level as i32, text.as_ptr(), user_data) });
        }
        None if foreign::is_pending() => {}
        None => to_stderr(text),
    }
}

/// Writes text to standard error.
pub fn to_stderr(text: &CStr) {
    print(text.to_bytes());
}

/// Writes text to standard error. `eprint!` must not be used: it panics if standard error cannot be written.
pub fn print(text: &[u8]) {
    let _shield = Shield::new();
    // A standard error that is closed, or full, is no reason to fail.
    let _ = process::write_to_standard_error(text);
}

/// Formats one line and sends it; a line end is added. What could drive a terminal, or begin another line, is escaped:
/// names come from files.
pub fn line(level: ggml_log_level, args: Arguments<'_>) {
    let mut text = escaped(args.to_string());
    text.push('\n');
    if let Ok(text) = CString::new(text) {
        write(level, &text);
    }
}

/// The text with escapes in place of control characters (tabs aside), of line separators and of what changes the
/// direction of text.
pub fn escaped(text: String) -> String {
    let is_harmful = |c: char| {
        c.is_control() && c != '\t'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_harmful) {
        return text;
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_harmful(c) {
            true => plain.extend(c.escape_default()),
            false => plain.push(c),
        }
    }
    plain
}

/// A caller broke a contract: under the error policy (see `guard`) the guarded function that is running fails.
/// Otherwise the process ends.
#[cold]
pub fn abort(file: &str, line: u32, message: &str) -> ! {
    let message = escaped(message.to_owned());
    crate::guard::leave(&format!("{file}:{line}: {message}"));
    end(file, line, &message)
}

/// Ends the process: calls the abort callback (or writes to standard error), then `abort`. A panic on the way is
/// contained, so that no guarded function can turn it into a return. Only an exception of the callback does that: the
/// guarded function fails, and the exception continues in the host.
pub fn end(file: &str, line: u32, message: &str) -> ! {
    let text = format!("{file}:{line}: {message}");
    process::flush_standard_output();
    let _ = catch_unwind(crate::trace::rescue);
    let callback = *sync::brief_read(&ABORT);
    match (callback, CString::new(text.replace('\0', "?"))) {
        (Some(f), Ok(c)) => {
            let f = f.may_unwind();
            // SAFETY: the host promised with `ggml_set_abort_callback` that the callback may be called from any thread.
            if foreign::host(|| unsafe { f(c.as_ptr()) }).is_none() {
                foreign::escape();
            }
        }
        _ => {
            print(format!("{text}\n").as_bytes());
            if !crate::environment::NO_BACKTRACE.is_set() {
                let backtrace = catch_unwind(|| format!("{}\n", std::backtrace::Backtrace::force_capture()));
                print(backtrace.unwrap_or_default().as_bytes());
            }
        }
    }
    std::process::abort()
}

/// Logs at debug level.
macro_rules! log_debug {
    ($($arg:tt)*) => { $crate::log::line($crate::abi::ggml::ggml_log_level::GGML_LOG_LEVEL_DEBUG, format_args!($($arg)*)) };
}
/// Logs at information level.
macro_rules! log_info {
    ($($arg:tt)*) => { $crate::log::line($crate::abi::ggml::ggml_log_level::GGML_LOG_LEVEL_INFO, format_args!($($arg)*)) };
}
/// Logs at warning level.
macro_rules! log_warn {
    ($($arg:tt)*) => { $crate::log::line($crate::abi::ggml::ggml_log_level::GGML_LOG_LEVEL_WARN, format_args!($($arg)*)) };
}
/// Logs at error level.
macro_rules! log_error {
    ($($arg:tt)*) => { $crate::log::line($crate::abi::ggml::ggml_log_level::GGML_LOG_LEVEL_ERROR, format_args!($($arg)*)) };
}

/// Ends the process when a caller broke the contract, as the original's assertions do.
macro_rules! ggml_assert {
    ($cond:expr) => {
        if !$cond {
            $crate::log::abort(file!(), line!(), concat!("GGML_ASSERT(", stringify!($cond), ") failed"))
        }
    };
    ($cond:expr, $($arg:tt)+) => {
        if !$cond {
            $crate::log::abort(file!(), line!(), &format!("GGML_ASSERT({}) failed: {}", stringify!($cond), format_args!($($arg)+)))
        }
    };
}

/// Ends the process with a message: a caller broke the contract.
macro_rules! ggml_abort {
    ($($arg:tt)+) => { $crate::log::abort(file!(), line!(), &format!($($arg)+)) };
}
pub(crate) use {ggml_abort, ggml_assert, log_debug, log_error, log_info, log_warn};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_escaped() {
        assert_eq!(escaped("tab\tand umlaut \u{fc}".into()), "tab\tand umlaut \u{fc}");
        assert_eq!(escaped("a\u{1b}[31m\nb\r\0".into()), r"a\u{1b}[31m\nb\r\u{0}");
        assert_eq!(escaped("\u{9b}\u{202e}\u{2028}\u{7f}".into()), r"\u{9b}\u{202e}\u{2028}\u{7f}");
    }
}
