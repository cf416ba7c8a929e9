//! What src/sys/unwind does with the unwinder of LLVM, which macOS and Android have. Rust has it for Linux, too, in
//! programs for musl: `cargo test --target aarch64-unknown-linux-musl`.

#[path = "../../../src/sys/unwind/mod.rs"]
#[allow(dead_code)]
mod unwind;

/// Of `sys`, what that uses. This program has no C++.
mod symbols {
    pub fn find(_: &std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>> {
        None
    }
}

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use unwind::call;

unsafe extern "C-unwind" {
    fn _Unwind_RaiseException(exception: *mut c_void) -> c_int;
}

/// The head of an exception object, with a class that no language has.
#[repr(C, align(16))]
struct Exception([u64; 8]);

/// As a host in another language throws it: it stops, goes on in another call, and stops there.
#[test]
fn a_foreign_exception_stops_as_often_as_it_is_resumed() {
    let mut exception = Exception([u64::from_be_bytes(*b"GGMLTEST"), 0, 0, 0, 0, 0, 0, 0]);
    let address = &raw mut exception;
    // SAFETY: an exception object that lives longer than its unwinding. The closure has nothing to do when it is left.
    let stopped = call(|| unsafe { _Unwind_RaiseException(address.cast()) }).err().expect("it returned");
    assert!(!stopped.is_forced());
    let cell = Cell::new(Some(stopped));
    let stopped = &cell;
    // SAFETY: the closure has nothing to do when it is left.
    let again = call(|| unsafe { stopped.take().map(|unwinding| unwinding.resume()) }.is_some());
    again.err().expect("nobody caught it").forget();
}
