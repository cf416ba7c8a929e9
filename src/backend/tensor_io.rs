//! Bytes into, out of and between tensors. Where an object lacks an optional function, this file does with the others
//! what it would have done: pieces one by one, or wait and then copy.
//!
//! Functions that take a raw pointer trust its bytes; ranges inside the tensor are always checked (the contract).

use super::handle::slot;
use super::observe::{self, Operation};
use super::{BackendRef, BufferRef, damage};
use crate::error::{Error, Result};
use crate::sys::foreign::{self, call_module};
use crate::sys::unwind::MayUnwind;
use crate::tensor::TensorRef;
use crate::{ggml_abort, ggml_assert};

/// `count` pieces of `size` bytes each, a stride apart in the tensor and in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Byte in the tensor where the first piece begins.
    pub offset: usize,
    /// Bytes of a piece.
    pub size: usize,
    /// Number of pieces.
    pub count: usize,
    /// Bytes from piece to piece in the tensor.
    pub stride_tensor: usize,
    /// Bytes from piece to piece in host memory.
    pub stride_data: usize,
}

impl Pieces {
    /// `size` bytes from byte `offset` of the tensor on, as one piece.
    pub fn one(offset: usize, size: usize) -> Self {
        Self { offset, size, count: 1, stride_tensor: size, stride_data: size }
    }

    /// Bytes from the first piece to the end of the last in host memory.
    pub fn extent(self) -> usize {
        self.extent_by(self.stride_data)
    }

    /// Bytes from the first piece to the end of the last in the tensor.
    pub fn extent_in_tensor(self) -> usize {
        self.extent_by(self.stride_tensor)
    }

    fn extent_by(self, stride: usize) -> usize {
        match self.count {
            0 => 0,
            n => (n - 1).saturating_mul(stride).saturating_add(self.size),
        }
    }
}

/// The buffer that holds the tensor's data.
pub(super) fn buffer_of(tensor: TensorRef) -> BufferRef {
    match tensor.data_buffer() {
        Some(b) => b,
        None => ggml_abort!("tensor buffer not set: '{}'", tensor.name()),
    }
}

pub(super) fn check_range(tensor: TensorRef, offset: usize, size: usize, what: &str) {
    ggml_assert!(!tensor.data().is_null(), "tensor not allocated: '{}'", tensor.name());
    let end = offset.checked_add(size);
    ggml_assert!(
        end.is_some_and(|end| end <= tensor.nbytes()),
        "tensor {what} out of bounds: {size} bytes at {offset} of '{}', which has {}",
        tensor.name(),
        tensor.nbytes()
    );
}

fn check_pieces(tensor: TensorRef, p: Pieces, what: &str) {
    let last = (p.count - 1).checked_mul(p.stride_tensor).and_then(|n| n.checked_add(p.offset));
    match last {
        Some(last) => check_range(tensor, last, p.size, what),
        None => ggml_abort!("tensor {what} out of bounds: '{}'", tensor.name()),
    }
}

/// Copies `size` bytes from `data` into the tensor at `offset`.
///
/// # Safety
/// `data` points to `size` readable bytes.
pub unsafe fn set(tensor: TensorRef, data: *const u8, offset: usize, size: usize) {
    let buffer = buffer_of(tensor);
    if size == 0 {
        return;
    }
    check_range(tensor, offset, size, "write");
    observe::notify(|| Operation::Set(tensor, offset, size));
    match slot!(buffer.set_tensor).map(MayUnwind::may_unwind) {
        // SAFETY: the vtable contract, and the caller's promise for `data`.
        Some(f) => call_module((), || unsafe { f(buffer.as_ptr(), tensor.as_ptr(), data.cast(), offset, size) }),
        None => ggml_abort!("a buffer of type {} cannot be written", buffer.name()),
    }
    unless_thrown(tensor, offset, size);
}

/// Notes that a write was left by an exception.
#[inline]
fn unless_thrown(tensor: TensorRef, offset: usize, size: usize) {
    if foreign::is_pending() {
        damage::unwritten(tensor, offset, size);
    }
}

/// Copies `size` bytes of the tensor from `offset` on to `data`.
///
/// # Safety
/// `data` points to `size` writable bytes.
pub unsafe fn get(tensor: TensorRef, data: *mut u8, offset: usize, size: usize) {
    let buffer = buffer_of(tensor);
    if size == 0 {
        return;
    }
    check_range(tensor, offset, size, "read");
    observe::notify(|| Operation::Get(tensor, offset, size));
    match slot!(buffer.get_tensor).map(MayUnwind::may_unwind) {
        // SAFETY: the vtable contract, and the caller's promise for `data`.
        Some(f) => call_module((), || unsafe { f(buffer.as_ptr(), tensor.as_ptr(), data.cast(), offset, size) }),
        None => ggml_abort!("a buffer of type {} cannot be read", buffer.name()),
    }
}

/// Copies bytes into the tensor at `offset`.
pub fn set_bytes(tensor: TensorRef, data: &[u8], offset: usize) {
    // SAFETY: a slice is readable.
    unsafe { set(tensor, data.as_ptr(), offset, data.len()) }
}

/// Copies bytes of the tensor from `offset` on.
pub fn get_bytes(tensor: TensorRef, data: &mut [u8], offset: usize) {
    // SAFETY: a mutable slice is writable.
    unsafe { get(tensor, data.as_mut_ptr(), offset, data.len()) }
}

/// Sets `size` bytes of the tensor from `offset` on.
pub fn memset(tensor: TensorRef, value: u8, offset: usize, size: usize) {
    if size == 0 {
        return;
    }
    let buffer = buffer_of(tensor);
    check_range(tensor, offset, size, "write");
    observe::notify(|| Operation::Set(tensor, offset, size));
    match slot!(buffer.memset_tensor).map(MayUnwind::may_unwind) {
        // SAFETY: the vtable contract.
        Some(f) => call_module((), || unsafe { f(buffer.as_ptr(), tensor.as_ptr(), value, offset, size) }),
        None => ggml_abort!("memset not implemented by a buffer of type {}", buffer.name()),
    }
    unless_thrown(tensor, offset, size);
}

/// Copies pieces of host memory into the tensor.
///
/// # Safety
/// Every piece of `data` is readable.
pub unsafe fn set_2d(tensor: TensorRef, data: *const u8, p: Pieces) {
    let buffer = buffer_of(tensor);
    match slot!(buffer.set_tensor_2d).map(MayUnwind::may_unwind) {
        Some(f) if p.count > 1 => {
            if p.size > 0 {
                check_pieces(tensor, p, "write");
                tell_pieces(p, |offset| Operation::Set(tensor, offset, p.size));
                let (b, t) = (buffer.as_ptr(), tensor.as_ptr());
                // SAFETY: the vtable contract, and the caller's promise for `data`.
                call_module((), || unsafe {
                    f(b, t, data.cast(), p.offset, p.size, p.count, p.stride_tensor, p.stride_data)
                });
                unless_thrown(tensor, p.offset, p.extent_in_tensor());
            }
        }
        _ => each_piece(p, |offset, at| {
            // SAFETY: the caller promises that this piece of `data`, like every other one, is readable.
            unsafe { set(tensor, data.wrapping_add(at), offset, p.size) }
        }),
    }
}

/// Copies the tensor into pieces of host memory.
///
/// # Safety
/// Every piece of `data` is writable.
pub unsafe fn get_2d(tensor: TensorRef, data: *mut u8, p: Pieces) {
    let buffer = buffer_of(tensor);
    match slot!(buffer.get_tensor_2d).map(MayUnwind::may_unwind) {
        Some(f) if p.count > 1 => {
            if p.size > 0 {
                check_pieces(tensor, p, "read");
                tell_pieces(p, |offset| Operation::Get(tensor, offset, p.size));
                let (b, t) = (buffer.as_ptr(), tensor.as_ptr());
                // SAFETY: the vtable contract, and the caller's promise for `data`.
                call_module((), || unsafe {
                    f(b, t, data.cast(), p.offset, p.size, p.count, p.stride_tensor, p.stride_data)
                });
            }
        }
        _ => each_piece(p, |offset, at| {
            // SAFETY: the caller promises that this piece of `data`, like every other one, is writable.
            unsafe { get(tensor, data.wrapping_add(at), offset, p.size) }
        }),
    }
}

/// Passes an operation for each piece to the observers.
fn tell_pieces(p: Pieces, operation: impl Fn(usize) -> Operation) {
    if observe::watched() {
        each_piece(p, |offset, _| observe::notify(|| operation(offset)));
    }
}

/// Calls `f` with the offset of each piece in the tensor and in host memory.
fn each_piece(p: Pieces, mut f: impl FnMut(usize, usize)) {
    for i in 0..p.count {
        let in_tensor = i.checked_mul(p.stride_tensor).and_then(|n| n.checked_add(p.offset));
        let Some((offset, at)) = in_tensor.zip(i.checked_mul(p.stride_data)) else {
            ggml_abort!("the strides of a 2D copy overflow")
        };
        f(offset, at);
    }
}

impl BackendRef {
    /// Queues a copy of host memory into a tensor; a stream without queues has done it on return.
    ///
    /// # Safety
    /// `data` points to `size` readable bytes that stay until the stream is synchronised.
    pub unsafe fn set_async(self, tensor: TensorRef, data: *const u8, offset: usize, size: usize) {
        check_range(tensor, offset, size, "write");
        match slot!(self.set_tensor_async).map(MayUnwind::may_unwind) {
            Some(f) => {
                observe::notify(|| Operation::SetAsync(self, tensor, offset, size));
                // SAFETY: the vtable contract, and the caller's promise for `data`.
                call_module((), || unsafe { f(self.as_ptr(), tensor.as_ptr(), data.cast(), offset, size) });
                unless_thrown(tensor, offset, size);
            }
            None => {
                // What is queued may still read the tensor.
                self.synchronize();
                // SAFETY: the caller promises `size` readable bytes at `data`.
                unsafe { set(tensor, data, offset, size) }
            }
        }
    }

    /// Queues a copy of a tensor into host memory; a stream without queues has done it on return.
    ///
    /// # Safety
    /// `data` points to `size` writable bytes that stay, untouched, until the stream is synchronised.
    pub unsafe fn get_async(self, tensor: TensorRef, data: *mut u8, offset: usize, size: usize) {
        check_range(tensor, offset, size, "read");
        match slot!(self.get_tensor_async).map(MayUnwind::may_unwind) {
            Some(f) => {
                observe::notify(|| Operation::GetAsync(self, tensor, offset, size));
                // SAFETY: the vtable contract, and the caller's promise for `data`.
                call_module((), || unsafe { f(self.as_ptr(), tensor.as_ptr(), data.cast(), offset, size) });
            }
            None => {
                // What is queued may still write the tensor.
                self.synchronize();
                // SAFETY: the caller promises `size` writable bytes at `data`.
                unsafe { get(tensor, data, offset, size) }
            }
        }
    }

    /// Queues a copy of pieces of host memory into a tensor.
    ///
    /// # Safety
    /// As for [`Self::set_async`], for every piece.
    pub unsafe fn set_2d_async(self, tensor: TensorRef, data: *const u8, p: Pieces) {
        ggml_assert!(!tensor.data().is_null(), "tensor not allocated: '{}'", tensor.name());
        match slot!(self.set_tensor_2d_async).map(MayUnwind::may_unwind) {
            Some(f) if p.count > 1 => {
                if p.size > 0 {
                    check_pieces(tensor, p, "write");
                    tell_pieces(p, |offset| Operation::SetAsync(self, tensor, offset, p.size));
                    let (b, t) = (self.as_ptr(), tensor.as_ptr());
                    // SAFETY: the vtable contract, and the caller's promise for `data`.
                    call_module((), || unsafe {
                        f(b, t, data.cast(), p.offset, p.size, p.count, p.stride_tensor, p.stride_data)
                    });
                }
            }
            _ => each_piece(p, |offset, at| {
                // SAFETY: the caller promises that this piece of `data`, like every other one, is readable until the
                // stream is synchronised.
                unsafe { self.set_async(tensor, data.wrapping_add(at), offset, p.size) }
            }),
        }
    }

    /// Queues a copy of a tensor into pieces of host memory.
    ///
    /// # Safety
    /// As for [`Self::get_async`], for every piece.
    pub unsafe fn get_2d_async(self, tensor: TensorRef, data: *mut u8, p: Pieces) {
        ggml_assert!(!tensor.data().is_null(), "tensor not allocated: '{}'", tensor.name());
        match slot!(self.get_tensor_2d_async).map(MayUnwind::may_unwind) {
            Some(f) if p.count > 1 => {
                if p.size > 0 {
                    check_pieces(tensor, p, "read");
                    tell_pieces(p, |offset| Operation::GetAsync(self, tensor, offset, p.size));
                    let (b, t) = (self.as_ptr(), tensor.as_ptr());
                    // SAFETY: the vtable contract, and the caller's promise for `data`.
                    call_module((), || unsafe {
                        f(b, t, data.cast(), p.offset, p.size, p.count, p.stride_tensor, p.stride_data)
                    });
                }
            }
            _ => each_piece(p, |offset, at| {
                // SAFETY: the caller promises that this piece of `data`, like every other one, is writable, and
                // untouched, until the stream is synchronised.
                unsafe { self.get_async(tensor, data.wrapping_add(at), offset, p.size) }
            }),
        }
    }
}

/// Calls the buffer of `dst` to copy `src`, which may be in any buffer. Returns `false` if it cannot.
pub fn buffer_copy(src: TensorRef, dst: TensorRef) -> bool {
    let buffer = buffer_of(dst);
    observe::notify(|| Operation::Copy(src, dst));
    // SAFETY: the vtable contract.
    slot!(buffer.cpy_tensor)
        .map(MayUnwind::may_unwind)
        .is_some_and(|f| call_module(false, || unsafe { f(buffer.as_ptr(), src.as_ptr(), dst.as_ptr()) }))
}

/// Copies a tensor to one of the same layout, on any devices, and returns when it is done.
pub fn copy(src: TensorRef, dst: TensorRef) -> Result<()> {
    ggml_assert!(src.same_layout(dst), "cannot copy tensors with different layouts: '{}'", src.name());
    if src == dst {
        return Ok(());
    }
    damage::check(src)?;
    let bytes = src.nbytes();
    let is_host = |t: TensorRef| match t.buffer() {
        Some(b) => b.is_host(),
        None => ggml_abort!("tensor buffer not set: '{}'", t.name()),
    };
    if is_host(src) {
        // SAFETY: its data is in host memory.
        unsafe { set(dst, src.data(), 0, bytes) };
    } else if is_host(dst) {
        // SAFETY: its data is in host memory.
        unsafe { get(src, dst.data(), 0, bytes) };
    } else if !buffer_copy(src, dst) {
        let mut stage = Vec::new();
        stage
            .try_reserve_exact(bytes)
            .map_err(|_| Error::OutOfMemory { what: "a copy between devices".into(), bytes })?;
        stage.resize(bytes, 0);
        get_bytes(src, &mut stage, 0);
        set_bytes(dst, &stage, 0);
    }
    Ok(())
}

/// Copies `src`, last written on `from`, to `dst`, next read on `to`, after everything that is queued on both. If the
/// streams cannot do that by themselves, waits for both and copies.
pub fn copy_async(from: BackendRef, to: BackendRef, src: TensorRef, dst: TensorRef) -> Result<()> {
    ggml_assert!(src.same_layout(dst), "cannot copy tensors with different layouts: '{}'", src.name());
    damage::check(src)?;
    if src == dst || to.try_copy_async(from, src, dst) {
        return Ok(());
    }
    from.synchronize();
    to.synchronize();
    copy(src, dst)
}
