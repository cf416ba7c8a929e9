//! Windows unwinds by structured exceptions, and C++ compiled by GCC or Clang for it (MinGW) raises one of a code
//! of its own for each of its exceptions. Those are stopped, and raised again later; so are those of Visual C++
//! (`visual`). Faults, and exceptions of other languages, pass.

use super::visual::Thrown;
use super::{Unwinding, count};
use std::ffi::c_void;

pub type Returned = ();
/// What work returns that is not left.
pub const RETURNED: () = ();

pub type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// Of an exception of GCC's: its code, and in the record's information the exception object, the frame of its
/// handler, where that continues, and the second register of what it gets.
const OF_GCC: u32 = 0x2047_4343;
const OBJECT: usize = 0;
const FRAME: usize = 1;
const PLACE: usize = 2;
const SECOND: usize = 3;
/// Flags of a record while frames are left.
const UNWINDING: u32 = 2 | 4;
const CONTINUE_SEARCH: i32 = 1;

/// `EXCEPTION_RECORD`.
#[repr(C)]
pub struct Record {
    pub code: u32,
    flags: u32,
    nested: *mut Record,
    address: *mut c_void,
    pub parameters: u32,
    pub information: [usize; 15],
}

/// The beginning of `DISPATCHER_CONTEXT`, as far as it is used here.
#[repr(C)]
struct Dispatcher {
    control_pc: u64,
    image_base: u64,
    function: *mut c_void,
    frame: u64,
    target: u64,
    context: *mut c_void,
    handler: *mut c_void,
    data: *mut c_void,
    history: *mut c_void,
}

/// The exception object of GCC's unwinder for Windows.
#[repr(C)]
struct Object {
    class: u64,
    cleanup: Option<unsafe extern "C" fn(u32, *mut Object)>,
    /// Those that leave frames read the frame, place and second register here, at the same indices.
    private: [usize; 6],
}

#[link(name = "kernel32")]
unsafe extern "C-unwind" {
    fn RtlUnwindEx(
        frame: *mut c_void,
        place: *mut c_void,
        record: *mut Record,
        result: *mut c_void,
        context: *mut c_void,
        history: *mut c_void,
    );
    fn RaiseException(code: u32, flags: u32, parameters: u32, information: *const usize);
}

unsafe extern "C" {
    /// Where `enter` continues after its call.
    #[link_name = "ggml_rs_attempt_left"]
    static LEFT: u8;
    /// Calls `work`. If an exception of C++ leaves it, that ends here, and the result is the exception object.
    /// Otherwise it is NULL.
    #[link_name = "ggml_rs_attempt"]
    fn enter(work: Work, data: *mut c_void) -> *mut c_void;
}

std::arch::global_asm!(
    // Other units of the crate's code call it.
    ".globl ggml_rs_attempt",
    ".globl ggml_rs_attempt_left",
    ".def ggml_rs_attempt",
    ".scl 2",
    ".type 32",
    ".endef",
    ".seh_proc ggml_rs_attempt",
    "ggml_rs_attempt:",
    ".seh_handler {handler}, @except",
    "sub rsp, 40",
    ".seh_stackalloc 40",
    ".seh_endprologue",
    "mov rax, rcx",
    "mov rcx, rdx",
    "call rax",
    "xor eax, eax",
    // Here after unwinding; rax is the result.
    "ggml_rs_attempt_left:",
    "add rsp, 40",
    "ret",
    ".seh_endproc",
    handler = sym stop_here,
);

/// The handler of `enter`: exceptions of C++ end there.
///
/// # Safety
/// For the system, in the frame of `enter`.
unsafe extern "C-unwind" fn stop_here(
    record: *mut Record,
    frame: *mut c_void,
    context: *mut c_void,
    dispatcher: *mut Dispatcher,
) -> i32 {
    // SAFETY: the system's record. One of GCC's has its object, which others do not use meanwhile. The unwinder
    // reads from both where frames that clean up continue.
    unsafe {
        if (*record).flags & UNWINDING != 0 {
            return CONTINUE_SEARCH;
        }
        let place = (&raw const LEFT).cast_mut().cast::<c_void>();
        let result: *mut c_void = if (*record).code == OF_GCC {
            let object = (*record).information[OBJECT] as *mut Object;
            for (i, value) in [(FRAME, frame as usize), (PLACE, place as usize), (SECOND, 0)] {
                (*record).information[i] = value;
                (*object).private[i] = value;
            }
            (*record).parameters = 4;
            object.cast()
        } else {
            let Some(copy) = Thrown::stop(&*record) else { return CONTINUE_SEARCH };
            copy.cast()
        };
        RtlUnwindEx(frame, place, record, result, context, (*dispatcher).history);
    }
    CONTINUE_SEARCH
}

/// Calls `work`, and returns what has left it.
///
/// # Safety
/// `work` may be called with `data`. No frame between this one and the function that unwinds has anything to do when it
/// is left, unless it belongs to code that knows unwinding.
#[inline]
pub unsafe fn attempt(work: Work, data: *mut c_void) -> Option<Unwinding> {
    // SAFETY: the caller's promise. This frame has nothing to do when it is left.
    let exception = unsafe { enter(work, data) };
    (!exception.is_null()).then_some(Unwinding { exception, forced: false })
}

impl Unwinding {
    /// Continues the unwinding on this thread, in its caller. Returns if no frame above catches it.
    ///
    /// # Safety
    /// The caller has nothing left to do but to return, and may be left by unwinding.
    pub unsafe fn resume(self) {
        if let Some(thrown) = self.of_visual() {
            // SAFETY: it was stopped, and the caller's promise.
            unsafe { Thrown::resume(thrown, RaiseException) };
            return;
        }
        let information = self.exception as usize;
        // SAFETY: an exception that `enter` has stopped, raised as when it was thrown.
        unsafe {
            (*self.exception.cast::<Object>()).private = [0; 6];
            RaiseException(OF_GCC, 0, 1, &raw const information);
        }
    }

    /// One of Visual C++, as it was stopped.
    fn of_visual(&self) -> Option<*mut Thrown> {
        // SAFETY: both kinds begin with their class.
        let class = unsafe { self.exception.cast::<u64>().read() };
        (class == Thrown::CLASS).then_some(self.exception.cast())
    }

    /// Prepares it to be resumed by another thread.
    pub fn leaves_thread(&self) -> bool {
        count(self.exception, u32::wrapping_sub);
        true
    }

    /// The counterpart of [`Self::leaves_thread`] on the other thread.
    pub fn enters_thread(&self) {
        count(self.exception, u32::wrapping_add);
    }

    /// Frees an exception that no code is to catch.
    pub fn forget(self) {
        if let Some(thrown) = self.of_visual() {
            // SAFETY: it was stopped, and is not used afterwards.
            unsafe { Thrown::forget(thrown) };
            return;
        }
        count(self.exception, u32::wrapping_sub);
        let object = self.exception.cast::<Object>();
        // SAFETY: an exception that `enter` has stopped, and that is not used afterwards. The reason is that
        // another language has caught it (1 in the Itanium C++ ABI).
        unsafe {
            if let Some(cleanup) = (*object).cleanup {
                cleanup(1, object);
            }
        }
    }
}
