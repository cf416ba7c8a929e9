//! What happens when a caller breaks the contract: the process ends, as in the original, or, when the host asked for that,
//! the call fails.
//!
//! In the second case `log::abort` unwinds to the `extern "C"` function that C code called. Each of these, and each function
//! of our own vtables, stands under `#[guarded]`, so that unwinding never meets a frame of C. On a thread that is in no such
//! function (a host's own thread inside its copy of our static library's Rust interface) a broken contract ends the process
//! all the same; so does one that C code finds and reports through the exported `ggml_abort`.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use libggml_macros::guarded;

static FORGIVING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Guarded functions that the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// What unwinds: what the caller did wrong.
struct Violation(String);

/// Says whether a broken contract makes the call fail (`true`) or ends the process; returns what was said before. Holds for
/// calls that begin later, on all threads.
pub fn set_forgiving(on: bool) -> bool {
    FORGIVING.swap(on, Ordering::Relaxed)
}

/// What a function returns whose caller broke the contract.
pub trait Refused {
    /// NULL, false, 0.
    fn refused() -> Self;
}

macro_rules! refused {
    ($($type:ty: $value:expr),*) => {
        $(impl Refused for $type {
            fn refused() -> Self {
                $value
            }
        })*
    };
}
refused!((): (), bool: false, i32: 0, i64: 0, u8: 0, u16: 0, u32: 0, u64: 0, i8: 0, i16: 0, usize: 0, f32: 0.0, f64: 0.0);

impl<T> Refused for *mut T {
    fn refused() -> Self {
        std::ptr::null_mut()
    }
}
impl<T> Refused for *const T {
    fn refused() -> Self {
        std::ptr::null()
    }
}
impl<T> Refused for Option<T> {
    fn refused() -> Self {
        None
    }
}

/// Structs of the interface in which all bytes may be zero.
macro_rules! refused_zeroed {
    ($($type:ty),*) => {
        $(impl Refused for $type {
            fn refused() -> Self {
                // SAFETY: the struct holds numbers, pointers and optional functions only: all-zero bytes are a value of it.
                unsafe { std::mem::zeroed() }
            }
        })*
    };
}
refused_zeroed!(
    crate::abi::alloc::ggml_tallocr,
    crate::abi::backend::ggml_backend_graph_copy,
    crate::abi::cpu::ggml_cplan
);

/// Runs the body of an `extern "C"` function. Without the host's wish: just that.
#[inline(always)]
pub fn run<T>(refused: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    if !FORGIVING.load(Ordering::Relaxed) {
        return body();
    }
    run_forgiving(refused, body)
}

#[cold]
fn run_forgiving<T>(refused: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    contained(body).unwrap_or_else(|text| {
        crate::log_error!("{text}");
        refused()
    })
}

/// Runs something whose failure by unwinding must stay here; what it said, when it fails.
///
/// # Errors
/// The text of the broken contract, or of the panic.
pub fn contained<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(text_of)
}

fn text_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<Violation>() {
        Ok(v) => v.0,
        Err(other) => {
            let text = other.downcast_ref::<String>().map(String::as_str).or(other.downcast_ref::<&str>().copied());
            format!("a defect of the library: {}", text.unwrap_or("a panic"))
        }
    }
}

/// Leaves the guarded function that the thread is in; returns when it is in none, or when the process shall end.
pub(crate) fn leave(text: &str) {
    if FORGIVING.load(Ordering::Relaxed) && DEPTH.get() > 0 && !std::thread::panicking() {
        resume_unwind(Box::new(Violation(text.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unwinds_stays_inside_and_is_told() {
        assert_eq!(contained(|| 7), Ok(7));
        let text = contained(|| resume_unwind(Box::new(Violation("the text".to_owned()))));
        assert_eq!(text, Err("the text".to_owned()));
        let defect = contained(|| resume_unwind(Box::new("index")));
        assert_eq!(defect, Err("a defect of the library: index".to_owned()));
        assert_eq!(DEPTH.get(), 0);
    }
}
