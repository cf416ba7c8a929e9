//! By the unwinder of Itanium's ABI for C++.

use super::{Unwinding, count};
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
            count(self.exception, u32::wrapping_sub);
        }
        !self.forced
    }

    /// The counterpart of [`Self::leaves_thread`] on the other thread.
    pub fn enters_thread(&self) {
        count(self.exception, u32::wrapping_add);
    }

    /// Frees an exception that no code is to catch.
    pub fn forget(self) {
        if self.leaves_thread() {
            // SAFETY: an exception that `attempt` has stopped, and that is not used afterwards.
            unsafe { _Unwind_DeleteException(self.exception) };
        }
    }
}
