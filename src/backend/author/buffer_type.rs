//! Buffer types of a backend author.

use super::buffer::{Buffer, new_buffer};
use super::context::Context;
use super::run::logged;
use super::shim::{self, HostPointer, shims};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t};
use crate::abi::backend_impl::{ggml_backend_buffer_type, ggml_backend_buffer_type_i};
use crate::abi::ggml::ggml_tensor;
use crate::backend::handle::slot;
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_int};

/// A kind of buffer.
pub trait BufferType: Send + Sync + 'static {
    /// Its buffers.
    type Buffer: Buffer;

    /// Whether `alloc_tensors` exists.
    const PLACES_TENSORS: bool = false;

    /// Name, such as "CPU_REPACK".
    fn name(&self) -> &CStr;

    /// A new buffer of `size` bytes (more than 0).
    fn alloc(&self, size: usize) -> Result<Self::Buffer>;

    /// A new buffer for the tensors, which are bound to it; `None` when none needs a byte. After an error every tensor
    /// is as it was.
    fn alloc_tensors(&self, _this: BufferTypeRef, _tensors: &[TensorRef]) -> Result<Option<BufferBox>> {
        Err(Error::Unsupported("buffers for lists of tensors".into()))
    }

    /// Alignment of tensors in bytes, a power of two.
    fn alignment(&self) -> usize;

    /// Bytes that one buffer may have.
    fn max_size(&self) -> usize {
        usize::MAX
    }

    /// Bytes that a tensor takes, padding included.
    fn alloc_size(&self, tensor: TensorRef) -> usize {
        tensor.nbytes()
    }

    /// Whether data is in host memory in the usual layout.
    fn is_host(&self) -> bool {
        false
    }
}

/// An object for a buffer type, which lives until the process ends.
pub fn leak_buffer_type<T: BufferType>(device: Option<DeviceRef>, buffer_type: T) -> BufferTypeRef {
    let object = Box::leak(Box::new(ggml_backend_buffer_type {
        iface: ggml_backend_buffer_type_i {
            get_name: Some(get_name::<T>),
            alloc_buffer: Some(alloc_buffer::<T>),
            alloc_buffer_n: if T::PLACES_TENSORS { Some(alloc_buffer_n::<T>) } else { None },
            get_alignment: Some(get_alignment::<T>),
            get_max_size: Some(get_max_size::<T>),
            get_alloc_size: Some(get_alloc_size::<T>),
            get_alloc_size_n: None,
            is_host: Some(is_host::<T>),
        },
        device: device.map_or(std::ptr::null_mut(), DeviceRef::as_ptr),
        context: Context::boxed(buffer_type),
    }));
    // SAFETY: leaked, with the shims below for a context of `T`.
    match unsafe { BufferTypeRef::from_ptr(object) } {
        Some(t) => t,
        None => unreachable!("a box is never NULL"),
    }
}

/// The implementor of a buffer type made here, or `None` for any other.
pub fn buffer_type_author<T: BufferType>(buft: BufferTypeRef) -> Option<&'static T> {
    if !std::ptr::fn_addr_eq(slot!(buft.alloc_buffer)?, alloc_buffer::<T> as unsafe extern "C" fn(_, _) -> _) {
        return None;
    }
    // SAFETY: with this function the type came from `leak_buffer_type`, so the context from `boxed`; it lives until the
    // process ends.
    unsafe { Context::get(buft.context()) }
}

/// The buffer type that a function belongs to.
type This<'c, T> = shim::This<'c, T, BufferTypeRef>;

shims! {
    fn get_name<T: BufferType>(this: ggml_backend_buffer_type_t => This<T>) -> *const c_char, c"?".as_ptr() => {
        this.name().as_ptr()
    }

    fn alloc_buffer<T: BufferType>(
        this: ggml_backend_buffer_type_t => This<T>,
        size: usize => usize,
    ) -> ggml_backend_buffer_t, std::ptr::null_mut() => {
        let made = logged("alloc_buffer", this.alloc(size));
        made.map_or(std::ptr::null_mut(), |buffer| new_buffer(this.object, size, buffer).into_raw())
    }

    fn alloc_buffer_n<T: BufferType>(
        this: ggml_backend_buffer_type_t => This<T>,
        tensors: *mut *mut ggml_tensor => HostPointer<*mut *mut ggml_tensor>,
        n_tensors: c_int => c_int,
    ) -> ggml_backend_buffer_t, std::ptr::null_mut() => {
        let n = usize::try_from(n_tensors).unwrap_or(0);
        // SAFETY: the caller passes `n_tensors` valid tensors.
        let list: Vec<_> = (0..n).filter_map(|i| unsafe { TensorRef::from_ptr(*tensors.address.add(i)) }).collect();
        let made = logged("alloc_buffer_n", this.alloc_tensors(this.object, &list));
        made.flatten().map_or(std::ptr::null_mut(), BufferBox::into_raw)
    }

    fn get_alignment<T: BufferType>(this: ggml_backend_buffer_type_t => This<T>) -> usize, 1 => { this.alignment() }

    fn get_max_size<T: BufferType>(this: ggml_backend_buffer_type_t => This<T>) -> usize, usize::MAX => { this.max_size() }

    fn get_alloc_size<T: BufferType>(
        this: ggml_backend_buffer_type_t => This<T>,
        tensor: *const ggml_tensor => Option<TensorRef>,
    ) -> usize, usize::MAX => { tensor.map_or(0, |t| this.alloc_size(t)) }

    fn is_host<T: BufferType>(this: ggml_backend_buffer_type_t => This<T>) -> bool, false => { this.is_host() }
}
