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
//! Where the unwinder is another one than that of Itanium's ABI for C++ (Windows), `call` just calls, and the process
//! ends where an exception meets a frame of Rust.

/// What left a function: the exception object of the unwinder.
#[allow(dead_code)] // nothing makes one where `call` just calls
pub struct Unwinding {
    exception: *mut std::ffi::c_void,
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

#[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod stop {
    use super::Unwinding;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;

    /// What `attempt` returns, in two registers.
    #[repr(C)]
    struct Left {
        /// NULL if the function has returned.
        exception: *mut c_void,
        forced: usize,
    }

    type Work = unsafe extern "C-unwind" fn(*mut c_void) -> Left;

    // Of the unwinder's interface (Itanium C++ ABI), which std links.
    unsafe extern "C" {
        fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
        fn _Unwind_DeleteException(exception: *mut c_void);
    }
    unsafe extern "C-unwind" {
        fn _Unwind_Resume_or_Rethrow(exception: *mut c_void) -> c_int;
    }
    const SEARCH_PHASE: c_int = 1;
    const FORCED: c_int = 8;
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;

    /// The personality routine of `attempt`: every exception has its handler there, which is where `attempt` continues
    /// after its call. The registers of its result say why.
    ///
    /// # Safety
    /// For the unwinder, in the frame of `attempt`.
    unsafe extern "C" fn stop_here(
        _: c_int,
        actions: c_int,
        _: u64,
        exception: *mut c_void,
        context: *mut c_void,
    ) -> c_int {
        if actions & SEARCH_PHASE != 0 {
            return HANDLER_FOUND;
        }
        // SAFETY: the unwinder's own context. Both processors return two numbers in the registers 0 and 1 of DWARF.
        unsafe {
            _Unwind_SetGR(context, 0, exception as usize);
            _Unwind_SetGR(context, 1, usize::from(actions & FORCED != 0));
        }
        INSTALL_CONTEXT
    }
    // How assembly names it: by the address of a pointer, or in Mach-O by its name, for which the linker makes one.
    #[cfg(not(target_vendor = "apple"))]
    static ROUTINE: unsafe extern "C" fn(c_int, c_int, u64, *mut c_void, *mut c_void) -> c_int = stop_here;
    #[cfg(target_vendor = "apple")]
    use stop_here as ROUTINE;

    /// Calls `work`. If it is left by unwinding, that ends here.
    ///
    /// # Safety
    /// `work` may be called with `data`. No frame between this one and the function that unwinds has anything to do
    /// when it is left, unless it belongs to code that knows unwinding.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    unsafe extern "C" fn attempt(work: Work, data: *mut c_void) -> Left {
        std::arch::naked_asm!(
            ".cfi_startproc",
            ".cfi_personality 0x9b, {routine}", // a pointer to it, relative to the place
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "mov rax, rdi",
            "mov rdi, rsi",
            "call rax",
            // Here after a return, and after unwinding; rax and rdx are the result.
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "ret",
            ".cfi_endproc",
            routine = sym ROUTINE,
        )
    }

    /// As for the other processor.
    ///
    /// # Safety
    /// As for the other processor.
    #[cfg(target_arch = "aarch64")]
    #[unsafe(naked)]
    unsafe extern "C" fn attempt(work: Work, data: *mut c_void) -> Left {
        std::arch::naked_asm!(
            ".cfi_startproc",
            ".cfi_personality 0x9b, {routine}",
            // As compilers do it.
            "stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            ".cfi_def_cfa w29, 16",
            ".cfi_offset w30, -8",
            ".cfi_offset w29, -16",
            "mov x8, x0",
            "mov x0, x1",
            "blr x8",
            // Here after a return, and after unwinding; x0 and x1 are the result.
            "ldp x29, x30, [sp], #16",
            "ret",
            ".cfi_endproc",
            routine = sym ROUTINE,
        )
    }

    struct Job<F, T> {
        function: F,
        result: MaybeUninit<T>,
    }

    /// Runs a [`Job`]. Its frame has no destructor: nothing here needs one, by `Copy`.
    ///
    /// # Safety
    /// `job` is a `Job` of these types.
    unsafe extern "C-unwind" fn work<F: FnOnce() -> T + Copy, T: Copy>(job: *mut c_void) -> Left {
        let job = job.cast::<Job<F, T>>();
        // SAFETY: the caller promises a `Job` of these types. `call` keeps it until this function has ended.
        unsafe { (*job).result = MaybeUninit::new(((*job).function)()) };
        Left { exception: std::ptr::null_mut(), forced: 0 }
    }

    /// As the module says.
    #[inline]
    pub fn call<T: Copy>(function: impl FnOnce() -> T + Copy) -> Result<T, Unwinding> {
        fn run<F: FnOnce() -> T + Copy, T: Copy>(job: &mut Job<F, T>) -> Left {
            // SAFETY: a job of these types. Between `attempt` and the function of the host there is only `work`, which
            // has nothing to do.
            unsafe { attempt(work::<F, T>, std::ptr::from_mut(job).cast()) }
        }
        let mut job = Job { function, result: MaybeUninit::uninit() };
        let left = run(&mut job);
        if left.exception.is_null() {
            // SAFETY: `work` has returned, so it has written the result.
            return Ok(unsafe { job.result.assume_init() });
        }
        Err(Unwinding { exception: left.exception, forced: left.forced != 0 })
    }

    impl Unwinding {
        /// Continues the unwinding on this thread, in its caller. Returns if no frame above catches it.
        ///
        /// # Safety
        /// The caller has nothing left to do but to return, and may be left by unwinding.
        pub unsafe fn resume(self) {
            // SAFETY: an exception that `attempt` has stopped. For a forced one the unwinder continues where it is
            // called.
            unsafe { _Unwind_Resume_or_Rethrow(self.exception) };
        }

        /// Prepares it to be resumed by another thread. `false` if that is impossible, because it ends this one.
        pub fn leaves_thread(&self) -> bool {
            if !self.forced {
                self.count(u32::wrapping_sub);
            }
            !self.forced
        }

        /// The counterpart of [`Self::leaves_thread`] on the other thread.
        pub fn enters_thread(&self) {
            self.count(u32::wrapping_add);
        }

        /// Frees an exception that no code is to catch.
        pub fn forget(self) {
            if self.leaves_thread() {
                // SAFETY: an exception that `attempt` has stopped, and that is not used afterwards.
                unsafe { _Unwind_DeleteException(self.exception) };
            }
        }

        /// Changes the number of exceptions that this thread has thrown and not caught, if it is one of C++.
        fn count(&self, change: fn(u32, u32) -> u32) {
            /// `__cxa_eh_globals` of the Itanium C++ ABI.
            #[repr(C)]
            struct Globals {
                caught: *mut c_void,
                uncaught: u32,
            }
            // SAFETY: every exception object begins with its class, eight letters with the most significant one first.
            let class = unsafe { self.exception.cast::<u64>().read() };
            if !matches!(&class.to_be_bytes()[..7], b"GNUCC++" | b"CLNGC++") {
                return;
            }
            // SAFETY: the name of a function of the C++ library, which the process has, or not.
            let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_get_globals".as_ptr()) };
            if function.is_null() {
                return;
            }
            // SAFETY: the signature that the C++ ABI gives this name. The object is this thread's.
            unsafe {
                let get = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut Globals>(function);
                let globals = get();
                (*globals).uncaught = change((*globals).uncaught, 1);
            }
        }
    }
}

#[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod stop {
    use super::Unwinding;

    /// As the module says.
    #[inline]
    pub fn call<T: Copy>(function: impl FnOnce() -> T + Copy) -> Result<T, Unwinding> {
        Ok(function())
    }

    impl Unwinding {
        /// Continues on this thread, in its caller.
        ///
        /// # Safety
        /// The caller has nothing left to do but to return, and may be left by unwinding.
        pub unsafe fn resume(self) {}

        /// Prepares it to be resumed by another thread.
        pub fn leaves_thread(&self) -> bool {
            true
        }

        /// The counterpart of [`Self::leaves_thread`] on the other thread.
        pub fn enters_thread(&self) {}

        /// Frees an exception that no code is to catch.
        pub fn forget(self) {}
    }
}

pub use stop::call;

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

#[cfg(all(test, unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
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
