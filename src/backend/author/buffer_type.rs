//! Buffer types of a backend author.

use super::{Buffer, Context, guard, logged, new_buffer};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t};
use crate::abi::backend_impl::{ggml_backend_buffer_type, ggml_backend_buffer_type_i};
use crate::abi::ggml::ggml_tensor;
use crate::backend::handle::slot;
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef};
use crate::error::{Error, Result};
use crate::ggml_abort;
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

    /// A new buffer for the tensors, which are bound to it; `None` when none needs a byte. After an error every tensor is as
    /// it was.
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
            get_name: Some(name::<T>),
            alloc_buffer: Some(alloc::<T>),
            alloc_buffer_n: if T::PLACES_TENSORS { Some(alloc_tensors::<T>) } else { None },
            get_alignment: Some(alignment::<T>),
            get_max_size: Some(max_size::<T>),
            get_alloc_size: Some(alloc_size::<T>),
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
    if !std::ptr::fn_addr_eq(slot!(buft.alloc_buffer)?, alloc::<T> as unsafe extern "C" fn(_, _) -> _) {
        return None;
    }
    // SAFETY: with this function the type came from `leak_buffer_type`, so the context from `boxed`; it lives until the
    // process ends.
    unsafe { Context::get(buft.context()) }
}

/// # Safety
/// `buft` is a valid buffer type of `T`.
unsafe fn author<'a, T: BufferType>(buft: ggml_backend_buffer_type_t) -> &'a T {
    // SAFETY: forwarded to the caller.
    match unsafe { Context::get((*buft).context) } {
        Some(t) => t,
        None => ggml_abort!("a function of one buffer type was called with another"),
    }
}

// The shims. For each: `buft` is what the vtable contract promises, a valid buffer type of `T`.

unsafe extern "C" fn name<T: BufferType>(buft: ggml_backend_buffer_type_t) -> *const c_char {
    // SAFETY: the contract.
    guard("get_name", c"?".as_ptr(), || unsafe { author::<T>(buft) }.name().as_ptr())
}

unsafe extern "C" fn alloc<T: BufferType>(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t {
    guard("alloc_buffer", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let made = logged("alloc_buffer", unsafe { author::<T>(buft) }.alloc(size));
        // SAFETY: the contract.
        match (made, unsafe { BufferTypeRef::from_ptr(buft) }) {
            (Some(buffer), Some(buft)) => new_buffer(buft, size, buffer).into_raw(),
            _ => std::ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn alloc_tensors<T: BufferType>(
    buft: ggml_backend_buffer_type_t,
    tensors: *mut *mut ggml_tensor,
    n_tensors: c_int,
) -> ggml_backend_buffer_t {
    guard("alloc_buffer_n", std::ptr::null_mut(), || {
        let n = usize::try_from(n_tensors).unwrap_or(0);
        // SAFETY: the contract: `n_tensors` valid tensors.
        let (this, list) = unsafe {
            let list: Vec<_> = (0..n).filter_map(|i| TensorRef::from_ptr(*tensors.add(i))).collect();
            (BufferTypeRef::from_ptr(buft), list)
        };
        let Some(this) = this else { return std::ptr::null_mut() };
        // SAFETY: the contract.
        let made = logged("alloc_buffer_n", unsafe { author::<T>(buft) }.alloc_tensors(this, &list));
        made.flatten().map_or(std::ptr::null_mut(), BufferBox::into_raw)
    })
}

unsafe extern "C" fn alignment<T: BufferType>(buft: ggml_backend_buffer_type_t) -> usize {
    // SAFETY: the contract.
    guard("get_alignment", 1, || unsafe { author::<T>(buft) }.alignment())
}

unsafe extern "C" fn max_size<T: BufferType>(buft: ggml_backend_buffer_type_t) -> usize {
    // SAFETY: the contract.
    guard("get_max_size", usize::MAX, || unsafe { author::<T>(buft) }.max_size())
}

unsafe extern "C" fn alloc_size<T: BufferType>(buft: ggml_backend_buffer_type_t, tensor: *const ggml_tensor) -> usize {
    guard("get_alloc_size", usize::MAX, || {
        // SAFETY: the contract.
        unsafe { TensorRef::from_ptr(tensor).map_or(0, |t| author::<T>(buft).alloc_size(t)) }
    })
}

unsafe extern "C" fn is_host<T: BufferType>(buft: ggml_backend_buffer_type_t) -> bool {
    // SAFETY: the contract.
    guard("is_host", false, || unsafe { author::<T>(buft) }.is_host())
}
