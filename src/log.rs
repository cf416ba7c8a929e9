//! The one logging path. All messages go through the log callback (default: standard error).

use crate::abi::ggml::{ggml_log_callback, ggml_log_level};
use crate::sys::foreign::Opaque;
use crate::sys::unwind::MayUnwind;
use crate::sys::{first_use, foreign, process, sync, warning};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Arguments;
use std::sync::RwLock;

/// Where log lines go.
#[derive(Clone, Copy)]
struct Sink {
    callback: ggml_log_callback,
    user_data: Opaque,
}

static SINK: RwLock<Sink> = RwLock::new(Sink { callback: None, user_data: Opaque(std::ptr::null_mut()) });

/// Installs the host's log callback; `None` restores standard error.
pub fn set_callback(callback: ggml_log_callback, user_data: *mut c_void) {
    let mut sink = sync::brief_write(&SINK);
    warning::route(|text| crate::log_warn!("{text}"));
    *sink = Sink { callback, user_data: Opaque(user_data) };
}

/// The log callback in force and its data; `None` when lines go to standard error.
pub fn callback() -> (ggml_log_callback, *mut c_void) {
    let sink = *sync::brief_read(&SINK);
    (sink.callback, sink.user_data.0)
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

/// Sends text to the host as it is; lines end with `\n` in the text. An error is remembered for its thread. Nothing is
/// sent while an exception is on its way to the host. During a first use lines wait for its end: the host's callback
/// may use what has been made.
pub fn write(level: ggml_log_level, text: &CStr) {
    if level == ggml_log_level::GGML_LOG_LEVEL_ERROR {
        let line = text.to_bytes().trim_ascii_end();
        let _ = LAST_ERROR.try_with(|e| e.replace(CString::new(line).unwrap_or_default()));
    }
    if first_use::is_running() {
        let text = text.to_owned();
        first_use::postpone(move || send(level, &text));
    } else {
        send(level, text);
    }
}

fn send(level: ggml_log_level, text: &CStr) {
    let (callback, user_data) = callback();
    match callback.map(MayUnwind::may_unwind) {
        Some(f) => {
            // SAFETY: the host promised with `ggml_log_set` that the callback may be called with its data from any
            // thread.
            foreign::call_host(|| unsafe { f(level as i32, text.as_ptr(), user_data) });
        }
        None if foreign::is_pending() => {}
        None => to_stderr(text),
    }
}

/// Writes text to standard error.
pub fn to_stderr(text: &CStr) {
    process::write_to_standard_error(text.to_bytes());
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

pub(crate) use {log_debug, log_error, log_info, log_warn};

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
