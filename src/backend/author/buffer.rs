//! Buffers of a backend author.

use super::{Context, guard, logged};
use crate::abi::alloc::ggml_backend_buffer_t;
use crate::abi::backend_impl::ggml_backend_buffer_i;
use crate::abi::ggml::{ggml_status, ggml_tensor};
use crate::abi::raw;
use crate::backend::buffer::EMPTY_IFACE;
use crate::backend::handle::slot;
use crate::backend::tensor_io::Pieces;
use crate::backend::{BufferBox, BufferRef, BufferTypeRef};
use crate::error::Result;
use crate::ggml_abort;
use crate::tensor::TensorRef;
use std::ffi::c_void;

/// Memory of a device. Ranges are checked before these functions are called.
pub trait Buffer: Send + Sync + 'static {
    /// Whether `init_tensor` is to be called.
    const INITS_TENSORS: bool = false;
    /// Whether `set_2d` and `get_2d` exist.
    const PIECES: bool = false;
    /// Whether `copy_from` exists.
    const COPIES: bool = false;
    /// Whether `reset` exists.
    const RESETS: bool = false;

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

    /// Copies `src`, wherever it lies, to `dst` in this buffer; `false` when it cannot.
    fn copy_from(&self, _src: TensorRef, _dst: TensorRef) -> bool {
        false
    }

    /// Sets every byte.
    fn clear(&self, value: u8);

    /// Forgets what `init_tensor` prepared.
    fn reset(&self) {}
}

/// A buffer of `size` bytes.
pub fn new_buffer<B: Buffer>(buft: BufferTypeRef, size: usize, buffer: B) -> BufferBox {
    // SAFETY: the shims below keep the contract for a context of `B`.
    unsafe { BufferBox::create(buft, iface::<B>(), Context::boxed(buffer), size) }
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
        free_buffer: Some(free::<B>),
        get_base: Some(base::<B>),
        init_tensor: if B::INITS_TENSORS { Some(init_tensor::<B>) } else { None },
        memset_tensor: Some(memset::<B>),
        set_tensor: Some(set::<B>),
        get_tensor: Some(get::<B>),
        set_tensor_2d: if B::PIECES { Some(set_2d::<B>) } else { None },
        get_tensor_2d: if B::PIECES { Some(get_2d::<B>) } else { None },
        cpy_tensor: if B::COPIES { Some(copy_from::<B>) } else { None },
        clear: Some(clear::<B>),
        reset: if B::RESETS { Some(reset::<B>) } else { None },
        ..EMPTY_IFACE
    }
}

/// # Safety
/// `buffer` is a valid buffer of `B`.
unsafe fn author<'a, B: Buffer>(buffer: ggml_backend_buffer_t) -> &'a B {
    // SAFETY: forwarded to the caller.
    match unsafe { Context::get((*buffer).context) } {
        Some(b) => b,
        None => ggml_abort!("a function of one buffer type was called with a buffer of another"),
    }
}

/// # Safety
/// `p` is a valid tensor.
unsafe fn tensor(p: *const ggml_tensor) -> TensorRef {
    // SAFETY: forwarded to the caller.
    match unsafe { TensorRef::from_ptr(p) } {
        Some(t) => t,
        None => ggml_abort!("a buffer function was called with tensor NULL"),
    }
}

/// # Safety
/// `p` points to `size` readable bytes, or `size` is 0.
unsafe fn bytes<'a>(p: *const c_void, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: forwarded to the caller.
    unsafe { std::slice::from_raw_parts(p.cast(), size) }
}

/// # Safety
/// `p` points to `size` writable bytes that nobody else uses, or `size` is 0.
unsafe fn bytes_mut<'a>(p: *mut c_void, size: usize) -> &'a mut [u8] {
    if size == 0 {
        return &mut [];
    }
    // SAFETY: forwarded to the caller.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), size) }
}

// The shims. For each: the pointers are what the vtable contract promises for a buffer of `B`; ranges were checked by
// `tensor_io`.

unsafe extern "C" fn free<B: Buffer>(buffer: ggml_backend_buffer_t) {
    // SAFETY: the contract; nobody uses the buffer afterwards.
    guard("free_buffer", (), || unsafe {
        author::<B>(buffer);
        Context::<B>::drop((*buffer).context);
    });
}

unsafe extern "C" fn base<B: Buffer>(buffer: ggml_backend_buffer_t) -> *mut c_void {
    // SAFETY: the contract.
    guard("get_base", std::ptr::null_mut(), || unsafe { author::<B>(buffer) }.base().cast())
}

unsafe extern "C" fn init_tensor<B: Buffer>(buffer: ggml_backend_buffer_t, t: *mut ggml_tensor) -> raw::ggml_status {
    guard("init_tensor", ggml_status::GGML_STATUS_FAILED as raw::ggml_status, || {
        // SAFETY: the contract.
        match unsafe { author::<B>(buffer).init_tensor(tensor(t)) } {
            Ok(()) => ggml_status::GGML_STATUS_SUCCESS as raw::ggml_status,
            Err(e) => {
                let status = e.status();
                logged::<()>("init_tensor", Err(e));
                status as raw::ggml_status
            }
        }
    })
}

unsafe extern "C" fn memset<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    t: *mut ggml_tensor,
    value: u8,
    offset: usize,
    size: usize,
) {
    // SAFETY: the contract.
    guard("memset_tensor", (), || unsafe { author::<B>(buffer).memset(tensor(t), value, offset, size) })
}

unsafe extern "C" fn set<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    t: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the contract.
    guard("set_tensor", (), || unsafe { author::<B>(buffer).set(tensor(t), bytes(data, size), offset) })
}

unsafe extern "C" fn get<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    t: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the contract.
    guard("get_tensor", (), || unsafe { author::<B>(buffer).get(tensor(t), bytes_mut(data, size), offset) })
}

unsafe extern "C" fn set_2d<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    t: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let p = Pieces { offset, size, count, stride_tensor, stride_data };
    // SAFETY: the contract.
    guard("set_tensor_2d", (), || unsafe { author::<B>(buffer).set_2d(tensor(t), bytes(data, p.extent()), p) })
}

unsafe extern "C" fn get_2d<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    t: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let p = Pieces { offset, size, count, stride_tensor, stride_data };
    // SAFETY: the contract.
    guard("get_tensor_2d", (), || unsafe { author::<B>(buffer).get_2d(tensor(t), bytes_mut(data, p.extent()), p) })
}

unsafe extern "C" fn copy_from<B: Buffer>(
    buffer: ggml_backend_buffer_t,
    src: *const ggml_tensor,
    dst: *mut ggml_tensor,
) -> bool {
    // SAFETY: the contract.
    guard("cpy_tensor", false, || unsafe { author::<B>(buffer).copy_from(tensor(src), tensor(dst)) })
}

unsafe extern "C" fn clear<B: Buffer>(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: the contract.
    guard("clear", (), || unsafe { author::<B>(buffer) }.clear(value))
}

unsafe extern "C" fn reset<B: Buffer>(buffer: ggml_backend_buffer_t) {
    // SAFETY: the contract.
    guard("reset", (), || unsafe { author::<B>(buffer) }.reset())
}
