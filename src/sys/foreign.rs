//! Calls of the host's functions, which C++ code may leave by an exception, and any code by `pthread_exit` or by
//! cancellation.
//!
//! [`call_host`] stops that, and the thread remembers it. The caller then takes its ordinary way of failing; until the
//! exported function has ended, the thread calls no other function of the host. There `resume` continues. What the host
//! catches has passed none of our frames that had something to clean up, so all objects are in the state that a failed
//! call leaves.

use super::process::write_to_standard_error;
use super::thread::exposed;
use super::unwind::{self, Unwinding};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An address that the host, or a module, gave for its own functions. Only they follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque(pub *mut c_void);

// SAFETY: here it is a number. The call of a function with it says from which thread that is allowed.
unsafe impl Send for Opaque {}
// SAFETY: a shared one gives what a copy gives, and copies may be on any thread (`Send`).
unsafe impl Sync for Opaque {}

/// Threads whose [`PENDING`] is set: the test of the common case costs no access to a thread-local.
static ANY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What has left a function of the host.
    static PENDING: Cell<Option<Unwinding>> = const { Cell::new(None) };
    /// Whether Rust code has called the exported function that is running ([`call_export`]).
    static CALLED_BY_RUST: Cell<bool> = const { Cell::new(false) };
}

/// Whether a function of the host was left by unwinding, since the call of the exported function that the thread is in.
#[inline]
pub fn is_pending() -> bool {
    ANY.load(Ordering::Relaxed) != 0 && pending_here()
}

#[cold]
fn pending_here() -> bool {
    let unwinding = PENDING.take();
    let is_some = unwinding.is_some();
    PENDING.set(unwinding);
    is_some
}

/// Whether what is pending ends the thread: `pthread_exit`, or cancellation.
#[cold]
pub fn is_ending() -> bool {
    let unwinding = PENDING.take();
    let is_forced = unwinding.as_ref().is_some_and(Unwinding::is_forced);
    PENDING.set(unwinding);
    is_forced
}

/// Calls a function of the host. `None` if it was left by unwinding, or was not called because an earlier one was.
#[inline]
pub fn call_host<T: Copy>(function: impl FnOnce() -> T + Copy) -> Option<T> {
    if is_pending() {
        return None;
    }
    // What the host calls from there is called by C.
    let held = CALLED_BY_RUST.replace(false);
    let result = exposed(|| unwind::call(function));
    CALLED_BY_RUST.set(held);
    result.map_err(remember).ok()
}

/// Calls a function of a module, which has to be called even if something is pending. `otherwise` is the result if it
/// is left by unwinding.
#[inline]
pub fn call_module<T: Copy>(otherwise: T, function: impl FnOnce() -> T + Copy) -> T {
    let held = CALLED_BY_RUST.replace(false);
    let result = unwind::call(function);
    CALLED_BY_RUST.set(held);
    result.unwrap_or_else(|unwinding| {
        remember(unwinding);
        otherwise
    })
}

/// Makes it pending. Of two, the first one stays, unless the other one ends the thread.
#[cold]
fn remember(unwinding: Unwinding) {
    let (kept, other) = match PENDING.take() {
        Some(first) if first.is_forced() || !unwinding.is_forced() => (first, Some(unwinding)),
        other => (unwinding, other),
    };
    match other {
        Some(other) => other.forget(),
        None => _ = ANY.fetch_add(1, Ordering::Relaxed),
    }
    PENDING.set(Some(kept));
}

/// What is pending on this thread.
#[cold]
fn take() -> Option<Unwinding> {
    let unwinding = PENDING.take();
    if unwinding.is_some() {
        ANY.fetch_sub(1, Ordering::Relaxed);
    }
    unwinding
}

/// At the end of an exported function: continues what is pending, in the host.
///
/// # Safety
/// The caller has nothing left to do but to return, and may be left by unwinding.
#[inline(always)]
pub unsafe fn resume() {
    if ANY.load(Ordering::Relaxed) != 0 {
        // SAFETY: the caller's promise holds for this call, too, because nothing follows it.
        unsafe { resume_here() }
    }
}

/// # Safety
/// As for [`resume`].
#[cold]
#[inline(never)]
unsafe fn resume_here() {
    if CALLED_BY_RUST.get() {
        return;
    }
    if let Some(unwinding) = take() {
        // SAFETY: the caller of `resume` may be left by unwinding. So may this frame: nothing in it has a destructor,
        // as `Unwinding::resume` takes the value.
        unsafe { unwinding.resume() };
        nobody_catches();
    }
}

/// C++ calls `std::terminate` for it.
#[cold]
fn nobody_catches() -> ! {
    write_to_standard_error(b"an exception has left a function of the host, and nobody catches it\n");
    super::process::abort()
}

/// Calls an exported function from Rust code: what is pending continues only where C code has called.
#[inline]
pub fn call_export<T>(call: impl FnOnce() -> T) -> T {
    /// Restores it, also after a broken contract or a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            CALLED_BY_RUST.set(self.0);
        }
    }
    let _before = Before(CALLED_BY_RUST.replace(true));
    call()
}

/// An exception on its way from a worker thread to the thread that waits for it.
pub struct Moved(Unwinding);

/// What is pending on this worker thread, for [`adopt`]. A worker thread cannot end in the middle of a computation, so
/// `pthread_exit` there ends the process.
#[inline]
pub fn take_pending() -> Option<Moved> {
    if ANY.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let unwinding = take()?;
    if !unwinding.leaves_thread() {
        write_to_standard_error(b"pthread_exit on a thread of the library, in a function of the host\n");
        super::process::abort()
    }
    Some(Moved(unwinding))
}

/// Makes the exception of another thread pending here.
#[cold]
pub fn put_pending(moved: Moved) {
    moved.0.enters_thread();
    remember(moved.0);
}
