//! What happens when a caller breaks the contract (what the original asserts): under the error policy the call fails.
//! Otherwise the abort callback is called, or standard error gets the message, and the process ends.

use crate::abi::ggml::ggml_abort_callback_t;
use crate::log::escaped;
use crate::sys::unwind::MayUnwind;
use crate::sys::{foreign, process, sync};
use crate::{environment, trace};
use std::ffi::CString;
use std::panic::catch_unwind;
use std::sync::RwLock;

static ABORT: RwLock<ggml_abort_callback_t> = RwLock::new(None);

/// Installs the abort callback and returns the one before.
pub fn set_abort_callback(callback: ggml_abort_callback_t) -> ggml_abort_callback_t {
    std::mem::replace(&mut *sync::brief_write(&ABORT), callback)
}

/// A caller broke a contract: under the error policy the guarded function that is running fails.
/// Otherwise the process ends.
#[cold]
pub fn abort(file: &str, line: u32, message: &str) -> ! {
    let message = escaped(message.to_owned());
    super::leave(&format!("{file}:{line}: {message}"));
    end(file, line, &message)
}

/// Ends the process: calls the abort callback (or writes to standard error), then `abort`. A panic on the way is
/// contained, so that no guarded function can turn it into a return. Only an exception of the callback does that: the
/// guarded function fails, and the exception continues in the host.
pub fn end(file: &str, line: u32, message: &str) -> ! {
    let text = format!("{file}:{line}: {message}");
    process::flush_standard_output();
    let _ = catch_unwind(trace::rescue);
    let callback = *sync::brief_read(&ABORT);
    match (callback, CString::new(text.replace('\0', "?"))) {
        (Some(f), Ok(c)) => {
            let f = f.may_unwind();
            // SAFETY: the host promised with `ggml_set_abort_callback` that the callback may be called from any thread.
            if foreign::call_host(|| unsafe { f(c.as_ptr()) }).is_none() {
                super::escape();
            }
        }
        _ => {
            process::write_to_standard_error(format!("{text}\n").as_bytes());
            if !environment::NO_BACKTRACE.is_set() {
                let backtrace = catch_unwind(|| format!("{}\n", std::backtrace::Backtrace::force_capture()));
                process::write_to_standard_error(backtrace.unwrap_or_default().as_bytes());
            }
        }
    }
    crate::sys::process::abort()
}

/// Ends the process when a caller broke the contract, as the original's assertions do.
macro_rules! ggml_assert {
    ($cond:expr) => {
        if !$cond {
            $crate::guard::contract::abort(file!(), line!(), concat!("GGML_ASSERT(", stringify!($cond), ") failed"))
        }
    };
    ($cond:expr, $($arg:tt)+) => {
        if !$cond {
            $crate::guard::contract::abort(file!(), line!(), &format!("GGML_ASSERT({}) failed: {}", stringify!($cond), format_args!($($arg)+)))
        }
    };
}

/// Ends the process with a message: a caller broke the contract.
macro_rules! ggml_abort {
    ($($arg:tt)+) => { $crate::guard::contract::abort(file!(), line!(), &format!($($arg)+)) };
}
pub(crate) use {ggml_abort, ggml_assert};
