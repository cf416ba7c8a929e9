//! Calls of functions that may be left by unwinding: by an exception of C++ or of another language, by `pthread_exit`,
//! or by cancellation.
//!
//! Rust cannot catch these. `catch_unwind` ends the process for them, and frames with destructors must not be left by
//! `pthread_exit`. So [`call`] stops the unwinding below all frames of Rust that have something to do, in a frame of a
//! few instructions with a personality routine of its own. The unwinding is a value then, which code carries by
//! ordinary returns to the exported function, and [`Unwinding::resume`] continues it from there. A `catch (...)` with a
//! `throw;` at its end does the same.
//!
//! `pthread_exit` and cancellation unwind with glibc only. Elsewhere they end the thread where it is, so there the
//! library is not cancelled while it works (`thread`).
//!
//! Windows unwinds in another way (`stop` for it). Elsewhere `call` just calls, and the process ends where an exception
//! meets a frame of Rust.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// What left a function: the exception object of the unwinder.
#[allow(dead_code)] // nothing makes one where `call` just calls
pub struct Unwinding {
    exception: *mut c_void,
    /// `pthread_exit` or cancellation. Nothing can catch it, and the thread ends.
    forced: bool,
}

// SAFETY: no other code uses the object between `call` and `resume`, and the unwinder keeps no other address of it,
// unless the unwinding is forced: `leaves_thread` refuses that.
unsafe impl Send for Unwinding {}

impl Unwinding {
    /// Whether `pthread_exit` or cancellation is the reason.
    pub fn is_forced(&self) -> bool {
        self.forced
    }
}

#[cfg_attr(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")), path = "itanium.rs")]
#[cfg_attr(all(windows, target_arch = "x86_64"), path = "windows.rs")]
#[cfg_attr(
    not(any(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")), all(windows, target_arch = "x86_64"))),
    path = "none.rs"
)]
mod stop;
#[cfg(all(windows, target_arch = "x86_64"))]
mod visual;

struct Job<F, T> {
    function: F,
    result: MaybeUninit<T>,
}

/// Runs a [`Job`]. Its frame has no destructor: nothing here needs one, by `Copy`.
///
/// # Safety
/// `job` is a `Job` of these types.
unsafe extern "C-unwind" fn work<F: FnOnce() -> T + Copy, T: Copy>(job: *mut c_void) -> stop::Returned {
    let job = job.cast::<Job<F, T>>();
    // SAFETY: the caller promises a `Job` of these types. `call` keeps it until this function has ended.
    unsafe { (*job).result = MaybeUninit::new(((*job).function)()) };
    stop::RETURNED
}

/// As the module says.
#[inline]
pub fn call<T: Copy>(function: impl FnOnce() -> T + Copy) -> Result<T, Unwinding> {
    fn run<F: FnOnce() -> T + Copy, T: Copy>(job: &mut Job<F, T>) -> Option<Unwinding> {
        // SAFETY: a job of these types. Between `attempt` and the function of the host there is only `work`, which has
        // nothing to do.
        unsafe { stop::attempt(work::<F, T>, std::ptr::from_mut(job).cast()) }
    }
    let mut job = Job { function, result: MaybeUninit::uninit() };
    match run(&mut job) {
        // SAFETY: `work` has returned, so it has written the result.
        None => Ok(unsafe { job.result.assume_init() }),
        Some(unwinding) => Err(unwinding),
    }
}

/// Changes the number of exceptions that this thread has thrown and not caught, if this is one of C++. Where the C++
/// library is a part of a program for Windows, its function cannot be found, and the number stays.
#[cfg(any(unix, windows))]
fn count(exception: *mut c_void, change: fn(u32, u32) -> u32) {
    /// `__cxa_eh_globals` of the Itanium C++ ABI.
    #[repr(C)]
    struct Globals {
        caught: *mut c_void,
        uncaught: u32,
    }
    // SAFETY: every exception object begins with its class, eight letters with the most significant one first.
    let class = unsafe { exception.cast::<u64>().read() };
    if !matches!(&class.to_be_bytes()[..7], b"GNUCC++" | b"CLNGC++") {
        return;
    }
    let Some(function) = super::symbols::find(c"__cxa_get_globals") else { return };
    // SAFETY: the signature that the C++ ABI gives this name. The object is this thread's.
    unsafe {
        let get = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut Globals>(function.as_ptr());
        let globals = get();
        (*globals).uncaught = change((*globals).uncaught, 1);
    }
}

/// A function pointer of C that may be left by unwinding. Rust has two types for these, and headers do not show which
/// one a host means.
pub trait MayUnwind: Copy {
    /// The type of such functions.
    type Function: Copy;

    /// The same function.
    fn may_unwind(self) -> Self::Function;
}

macro_rules! may_unwind {
    ($($($argument:ident)*;)*) => {$(
        impl<R, $($argument),*> MayUnwind for unsafe extern "C" fn($($argument),*) -> R {
            type Function = unsafe extern "C-unwind" fn($($argument),*) -> R;

            #[inline]
            fn may_unwind(self) -> Self::Function {
                // SAFETY: both types are called in the same way.
                unsafe { std::mem::transmute::<Self, Self::Function>(self) }
            }
        }
    )*};
}
may_unwind! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

#[cfg(all(
    test,
    any(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")), all(windows, target_arch = "x86_64"))
))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_function_that_returns_returns() {
        assert_eq!(call(|| 7).ok(), Some(7));
        let seen = Cell::new(0);
        let (a, b) = (&seen, [1u64, 2, 3]);
        assert_eq!(
            call(|| {
                a.set(9);
                b
            })
            .ok(),
            Some([1, 2, 3])
        );
        assert_eq!(seen.get(), 9);
    }

    /// A panic is unwinding like any other: it stops, and is caught after it was resumed.
    #[test]
    fn what_unwinds_stops_and_continues_later() {
        let stopped = call(|| -> u32 { std::panic::resume_unwind(Box::new(41)) });
        let unwinding = stopped.err().unwrap();
        assert!(!unwinding.is_forced());
        // SAFETY: the closure has nothing to do afterwards.
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe { unwinding.resume() }));
        assert_eq!(caught.err().unwrap().downcast_ref::<i32>(), Some(&41));
    }
}
