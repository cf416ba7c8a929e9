//! Handles a contract that a caller breaks: the process ends, as in the original, or, under the error policy of the
//! host, the call fails. A panic, which is a bug in the library itself, makes the call fail under either policy.
//!
//! Where a broken contract makes the call fail, `contract::abort` unwinds to the `extern "C"` function that C code
//! called. Each of these functions, and each function of our own vtables, has the attribute `#[guarded]`, so that
//! unwinding never meets a frame of C. On a thread that is in no such function (a host's own thread inside its copy of
//! our static library's Rust interface) a broken contract ends the process under either policy. So does one that C code
//! finds and reports through the exported `ggml_abort`.
//!
//! An exception that leaves a function of the host continues where the exported function returns to the host
//! (`sys::foreign`).

pub mod contract;

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

/// Says whether a broken contract makes the call fail (`true`) or ends the process; returns what was said before. Holds
/// for calls that begin later, on all threads.
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
                // SAFETY: the struct holds numbers, pointers and optional functions only: all-zero bytes are a value of
                // it.
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

/// Runs the body of an `extern "C"` function. What unwinds out of it, a panic or, under the host's policy, a broken
/// contract, is logged, and the function returns what `refused` gives. The body is compiled once for both policies:
/// there are hundreds of them.
#[inline(always)]
pub fn run<T>(refused: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    // Not `contained`: where the process ends, as on most calls, broken contracts do not unwind, and nothing is
    // counted.
    let counted = FORGIVING.load(Ordering::Relaxed);
    if counted {
        enter();
    }
    let result = catch_unwind(AssertUnwindSafe(body));
    if counted {
        exit();
    }
    match result {
        Ok(value) => value,
        Err(payload) => {
            log_panic(payload);
            refused()
        }
    }
}

/// The thread is in one more guarded function. Not inlined, as the address of a thread's variable takes more code than
/// a call.
#[inline(never)]
fn enter() {
    DEPTH.set(DEPTH.get() + 1);
}

#[inline(never)]
fn exit() {
    DEPTH.set(DEPTH.get() - 1);
}

#[cold]
#[inline(never)]
fn log_panic(payload: Box<dyn Any + Send>) {
    crate::log_error!("{}", text_of(payload));
}

/// Runs something whose failure by unwinding must stay here; what it said, when it fails.
///
/// # Errors
/// The text of the broken contract, or of the panic.
pub fn contained<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    enter();
    let result = catch_unwind(AssertUnwindSafe(body));
    exit();
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

/// Leaves the function of a backend that the thread is in ([`contained`]), which fails.
pub(crate) fn refuse(text: String) -> ! {
    resume_unwind(Box::new(Violation(text)))
}

/// Leaves the guarded function that the thread is in; returns when it is in none, or when the process shall end.
pub(crate) fn leave(text: &str) {
    let forgives = FORGIVING.load(Ordering::Relaxed);
    if forgives && DEPTH.get() > 0 && !std::thread::panicking() {
        resume_unwind(Box::new(Violation(text.to_owned())));
    }
}

/// Leaves the guarded function that the thread is in, which fails: for a caller of `foreign::call_host` without another
/// way of failing.
#[cold]
pub fn escape() -> ! {
    resume_unwind(Box::new(Violation("a function of the host was left by an exception".to_owned())))
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

    /// An exported function with a defect: what C calls, in each way of failing.
    macro_rules! defective {
        ($($name:ident: $type:ty,)*) => {
            $(#[guarded]
            extern "C" fn $name(at: usize) -> $type {
                panic!("index {at} of nothing")
            })*
        };
    }
    defective!(pointer: *mut u8, text: *const u8, yes: bool, count: usize, number: i64, real: f32, nothing: (),);
    #[guarded(crate::abi::ggml::ggml_status::GGML_STATUS_FAILED as i32)]
    extern "C" fn status(at: usize) -> i32 {
        [1, 2, 3][at]
    }

    #[test]
    fn a_panic_is_the_failure_of_the_call() {
        let check = |failed: bool, expected: &str| {
            assert!(failed);
            // SAFETY: the text stays until the thread's next error.
            let text = unsafe { std::ffi::CStr::from_ptr(crate::log::last_error_ptr()) }.to_string_lossy();
            assert!(text.contains("a defect of the library") && text.contains(expected), "{text}");
            crate::log::clear_last_error();
        };
        assert_eq!(status(1), 2);
        check(status(7) == -1, "index is 7");
        check(pointer(1).is_null(), "index 1 of nothing");
        check(text(2).is_null(), "index 2");
        check(!yes(3), "index 3");
        check(count(4) == 0, "index 4");
        check(number(5) == 0, "index 5");
        check(real(6) == 0.0, "index 6");
        nothing(8);
        check(true, "index 8");
        assert_eq!(DEPTH.get(), 0);
    }
}
