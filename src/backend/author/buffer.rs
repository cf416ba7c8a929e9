//! Buffers of a backend author.

use super::context::Context;
use super::run::{guard, logged};
use super::shim::{self, HostPointer, shims};
use crate::abi::alloc::ggml_backend_buffer_t;
use crate::abi::backend_impl::ggml_backend_buffer_i;
use crate::abi::ggml::{ggml_status, ggml_tensor};
use crate::abi::raw;
use crate::backend::buffer::EMPTY_IFACE;
use crate::backend::handle::slot;
use crate::backend::tensor_io::Pieces;
use crate::backend::{BufferBox, BufferRef, BufferTypeRef, damage};
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ffi::c_void;

/// What an author writes where a read has failed: the host sees NaN, or -1, not what was in its memory before.
pub const NOT_READ: u8 = 0xff;

/// Memory of a device. Ranges are checked before these functions are called. Hosts wait for queued work before they
/// access the data of a tensor: while a function runs, no other code writes bytes that it reads, or uses bytes that it
/// writes. Failed writes and panics are reported to `damage`.
pub trait Buffer: Send + Sync + 'static {
    /// Whether `init_tensor` is to be called.
    const INITS_TENSORS: bool = false;
    /// Whether `set_2d` and `get_2d` exist.
    const PIECES: bool = false;
    /// Whether `copy_from` exists.
    const COPIES: bool = false;
    /// Whether `reset` exists.
    const RESETS: bool = false;
    /// As [`super::Stream::IN_CHILDREN`].
    const IN_CHILDREN: bool = true;

    /// Address of the first byte, perhaps no host address; not NULL.
    fn base(&self) -> *mut u8;

    /// Prepares a tensor that has just been placed in the buffer.
    fn init_tensor(&self, _tensor: TensorRef) -> Result<()> {
        Ok(())
    }

    /// Sets bytes of a tensor.
    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize);

    /// Copies host memory into a tensor.
    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize);

    /// Copies a tensor into host memory.
    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize);

    /// Copies pieces of host memory into a tensor; `data` reaches from the first piece to the end of the last.
    fn set_2d(&self, _tensor: TensorRef, _data: &[u8], _pieces: Pieces) {}

    /// Copies a tensor into pieces of host memory; `data` reaches from the first piece to the end of the last, and what
    /// is between the pieces must not be changed.
    fn get_2d(&self, _tensor: TensorRef, _data: &mut [u8], _pieces: Pieces) {}

    /// Copies `src`, which may be in any buffer, to `dst` in this buffer. Returns `false` if it cannot.
    fn copy_from(&self, _src: TensorRef, _dst: TensorRef) -> bool {
        false
    }

    /// Sets every byte. `this` is the buffer as the outside knows it.
    fn clear(&self, this: BufferRef, value: u8);

    /// Forgets what `init_tensor` prepared.
    fn reset(&self) {}
}

/// A buffer of `size` bytes.
pub fn new_buffer<B: Buffer>(buft: BufferTypeRef, size: usize, buffer: B) -> BufferBox {
    // SAFETY: the shims below keep the contract for a context of `B`.
    unsafe { BufferBox::create(buft, iface::<B>(), Context::boxed_for(buffer, B::IN_CHILDREN), size) }
}

/// The implementor of a buffer made here, or `None` for any other.
pub fn buffer_author<B: Buffer>(buffer: &BufferRef) -> Option<&B> {
    let buffer = *buffer;
    if !std::ptr::fn_addr_eq(slot!(buffer.clear)?, clear::<B> as unsafe extern "C" fn(_, _)) {
        return None;
    }
    // SAFETY: with this function the buffer came from `new_buffer`, so the context from `boxed`.
    unsafe { Context::get(buffer.context()) }
}

const fn iface<B: Buffer>() -> ggml_backend_buffer_i {
    ggml_backend_buffer_i {
        free_buffer: Some(free_buffer::<B>),
        get_base: Some(get_base::<B>),
        init_tensor: if B::INITS_TENSORS { Some(init_tensor::<B>) } else { None },
        memset_tensor: Some(memset_tensor::<B>),
        set_tensor: Some(set_tensor::<B>),
        get_tensor: Some(get_tensor::<B>),
        set_tensor_2d: if B::PIECES { Some(set_tensor_2d::<B>) } else { None },
        get_tensor_2d: if B::PIECES { Some(get_tensor_2d::<B>) } else { None },
        cpy_tensor: if B::COPIES { Some(cpy_tensor::<B>) } else { None },
        clear: Some(clear::<B>),
        reset: if B::RESETS { Some(reset::<B>) } else { None },
        ..EMPTY_IFACE
    }
}

/// The buffer that a function belongs to.
type This<'c, B> = shim::This<'c, B, BufferRef>;

// Ranges were checked by `tensor_io`.
shims! {
    fn get_base<B: Buffer>(this: ggml_backend_buffer_t => This<B>) -> *mut c_void, std::ptr::null_mut() => { this.base().cast() }

    fn init_tensor<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *mut ggml_tensor => TensorRef,
    ) -> raw::ggml_status, ggml_status::GGML_STATUS_FAILED as raw::ggml_status => {
        let status = match this.init_tensor(tensor) {
            Ok(()) => ggml_status::GGML_STATUS_SUCCESS,
            Err(e) => {
                let status = e.status();
                logged::<()>("init_tensor", Err(e));
                status
            }
        };
        status as raw::ggml_status
    }

    fn memset_tensor<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *mut ggml_tensor => TensorRef,
        value: u8 => u8,
        offset: usize => usize,
        size: usize => usize,
    ) -> (), {
        // SAFETY: **the vtable contract**: a valid tensor.
        unsafe { shim::unwritten(tensor, offset, size) }
    } => { this.memset(tensor, value, offset, size) }

    fn set_tensor<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *mut ggml_tensor => TensorRef,
        data: *const c_void => HostPointer<*const c_void>,
        offset: usize => usize,
        size: usize => usize,
    ) -> (), {
        // SAFETY: **the vtable contract**: a valid tensor.
        unsafe { shim::unwritten(tensor, offset, size) }
    } => {
        // SAFETY: the caller passes `size` bytes.
        this.set(tensor, unsafe { data.bytes(size) }, offset);
    }

    fn get_tensor<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *const ggml_tensor => TensorRef,
        data: *mut c_void => HostPointer<*mut c_void>,
        offset: usize => usize,
        size: usize => usize,
    ) -> (), {
        // SAFETY: the caller passes room for `size` bytes.
        unsafe { data.cast::<u8>().write_bytes(NOT_READ, size) }
    } => {
        // SAFETY: the caller passes room for `size` bytes.
        this.get(tensor, unsafe { data.bytes_mut(size) }, offset);
    }

    fn set_tensor_2d<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *mut ggml_tensor => TensorRef,
        data: *const c_void => HostPointer<*const c_void>,
        offset: usize => usize,
        size: usize => usize,
        count: usize => usize,
        stride_tensor: usize => usize,
        stride_data: usize => usize,
    ) -> (), {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: **the vtable contract**: a valid tensor.
        unsafe { shim::unwritten(tensor, offset, p.extent_in_tensor()) }
    } => {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: what the caller passes reaches to the end of the last piece.
        this.set_2d(tensor, unsafe { data.bytes(p.extent()) }, p);
    }

    fn get_tensor_2d<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        tensor: *const ggml_tensor => TensorRef,
        data: *mut c_void => HostPointer<*mut c_void>,
        offset: usize => usize,
        size: usize => usize,
        count: usize => usize,
        stride_tensor: usize => usize,
        stride_data: usize => usize,
    ) -> (), () => {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: what the caller passes reaches to the end of the last piece.
        this.get_2d(tensor, unsafe { data.bytes_mut(p.extent()) }, p);
    }

    fn cpy_tensor<B: Buffer>(
        this: ggml_backend_buffer_t => This<B>,
        src: *const ggml_tensor => TensorRef,
        dst: *mut ggml_tensor => TensorRef,
    ) -> bool, false => { this.copy_from(src, dst) }

    fn clear<B: Buffer>(this: ggml_backend_buffer_t => This<B>, value: u8 => u8) -> (), {
        // SAFETY: **the vtable contract**: a valid buffer.
        unsafe { BufferRef::from_ptr(this) }.into_iter().for_each(damage::unwritten_buffer)
    } => { this.clear(this.object, value) }

    fn reset<B: Buffer>(this: ggml_backend_buffer_t => This<B>) -> (), () => { this.reset() }
}

unsafe extern "C" fn free_buffer<B: Buffer>(buffer: ggml_backend_buffer_t) {
    // SAFETY: **the vtable contract**: a buffer whose function this is, so its context came from `boxed` in
    // `new_buffer`; no code uses it afterwards.
    guard("free_buffer", || (), || unsafe { Context::<B>::drop((*buffer).context) });
}
