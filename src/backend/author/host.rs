//! Memory of the host, as safe objects. The shims make them from pointers that the interface promises.

use crate::backend::{BufferBox, host};
use std::ffi::c_void;

/// Memory that the host has and keeps for as long as a buffer made of it lives.
#[derive(Debug)]
pub struct HostMemory {
    ptr: *mut u8,
    len: usize,
}

impl HostMemory {
    /// # Safety
    /// `ptr` points to `len` bytes that live as long as any buffer made of them.
    pub(super) unsafe fn new(ptr: *mut c_void, len: usize) -> Self {
        Self { ptr: ptr.cast(), len }
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.ptr as usize
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// A buffer of type "CPU_Mapped" over the memory. The address must be a multiple of 32 (the contract).
    pub fn into_buffer(self) -> BufferBox {
        // SAFETY: the promise of `new`.
        unsafe { host::buffer_from_ptr(self.ptr.cast(), self.len) }
    }
}

/// Host memory to be read by a queued transfer, readable until the stream is synchronised.
#[derive(Debug)]
pub struct HostSource {
    ptr: *const u8,
    len: usize,
}
// SAFETY: the promise of `new` holds on every thread.
unsafe impl Send for HostSource {}

impl HostSource {
    /// # Safety
    /// `ptr` points to `len` bytes, readable and unchanged until the object is dropped, which its author does before
    /// `synchronize` returns.
    pub(super) unsafe fn new(ptr: *const c_void, len: usize) -> Self {
        Self { ptr: ptr.cast(), len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// Host memory to be written by a queued transfer, writable until the stream is synchronised.
#[derive(Debug)]
pub struct HostTarget {
    ptr: *mut u8,
    len: usize,
}
// SAFETY: the promise of `new` holds on every thread.
unsafe impl Send for HostTarget {}

impl HostTarget {
    /// # Safety
    /// `ptr` points to `len` writable bytes. No other code uses them until the object is dropped, which its author does
    /// before `synchronize` returns.
    pub(super) unsafe fn new(ptr: *mut c_void, len: usize) -> Self {
        Self { ptr: ptr.cast(), len }
    }

    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}
