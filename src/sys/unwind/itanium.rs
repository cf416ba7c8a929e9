//! By the unwinder of Itanium's ABI for C++.

use super::{Unwinding, count};
use std::ffi::{c_int, c_void};

/// What `enter` returns, in two registers.
#[repr(C)]
pub struct Returned {
    /// NULL if the function has returned.
    exception: *mut c_void,
    forced: usize,
}

/// What work returns that is not left.
pub const RETURNED: Returned = Returned { exception: std::ptr::null_mut(), forced: 0 };

pub type Work = unsafe extern "C-unwind" fn(*mut c_void) -> Returned;

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

/// The personality routine of `enter`: every exception has its handler there, which is where `enter` continues after
/// its call. The registers of its result say why.
///
/// # Safety
/// For the unwinder, in the frame of `enter`.
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
unsafe extern "C" fn enter(work: Work, data: *mut c_void) -> Returned {
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
unsafe extern "C" fn enter(work: Work, data: *mut c_void) -> Returned {
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

/// Calls `work`, and returns what has left it.
///
/// # Safety
/// As for `enter`.
#[inline]
pub unsafe fn attempt(work: Work, data: *mut c_void) -> Option<Unwinding> {
    // SAFETY: the caller's promise. This frame has nothing to do when it is left.
    let left = unsafe { enter(work, data) };
    (!left.exception.is_null()).then_some(Unwinding { exception: left.exception, forced: left.forced != 0 })
}

impl Unwinding {
    /// Continues the unwinding on this thread, in its caller. Returns if no frame above catches it.
    ///
    /// # Safety
    /// The caller has nothing left to do but to return, and may be left by unwinding.
    pub unsafe fn resume(self) {
        // SAFETY: an exception that `enter` has stopped. For a forced one the unwinder continues where it is
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
            // SAFETY: an exception that `enter` has stopped, and that is not used afterwards.
            unsafe { _Unwind_DeleteException(self.exception) };
        }
    }
}
