//! What a buffer can do.

use super::handle::{call, name_of, object_field, slot, status_of};
use super::observe::{self, Operation};
use super::{BufferBox, BufferRef, BufferTypeRef};
use crate::abi::backend::ggml_backend_buffer_usage;
use crate::abi::backend_impl::{ggml_backend_buffer, ggml_backend_buffer_i};
use crate::abi::ggml::ggml_status;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use std::ffi::{c_int, c_void};

/// A vtable without functions: that of a buffer without bytes.
pub const EMPTY_IFACE: ggml_backend_buffer_i = ggml_backend_buffer_i {
    free_buffer: None,
    get_base: None,
    init_tensor: None,
    memset_tensor: None,
    set_tensor: None,
    get_tensor: None,
    set_tensor_2d: None,
    get_tensor_2d: None,
    cpy_tensor: None,
    clear: None,
    reset: None,
    set_tensor_n: None,
    get_tensor_n: None,
    cpy_tensor_n: None,
};

impl BufferBox {
    /// A new buffer object. `context` belongs to the implementation; usage starts as "any".
    ///
    /// # Safety
    /// `iface` and `context` keep the vtable contract for a buffer of `size` bytes.
    pub unsafe fn create(
        buft: BufferTypeRef,
        iface: ggml_backend_buffer_i,
        context: *mut c_void,
        size: usize,
    ) -> BufferBox {
        let usage = ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_ANY as c_int;
        let object = Box::into_raw(Box::new(ggml_backend_buffer { iface, buft: buft.as_ptr(), context, size, usage }));
        // SAFETY: just made, with the caller's promise for its functions.
        match unsafe { BufferRef::from_ptr(object) } {
            // SAFETY: no other code has the object's address.
            Some(buffer) => unsafe { BufferBox::own(buffer) },
            None => unreachable!("a box is never NULL"),
        }
    }
}

impl BufferRef {
    /// Frees the buffer: what its implementation holds, then the object.
    ///
    /// # Safety
    /// The buffer was made by [`BufferBox::create`] (as `ggml_backend_buffer_init` does). No code uses it afterwards,
    /// and no other code frees it.
    pub unsafe fn free(self) {
        observe::notify(|| Operation::FreeBuffer(self));
        if let Some(f) = slot!(self.free_buffer) {
            // SAFETY: the vtable contract.
            unsafe { f(self.as_ptr()) };
        }
        // SAFETY: made from a box in `create`; by the caller's promise no code uses it any more.
        drop(unsafe { Box::from_raw(self.as_ptr()) });
    }

    /// The buffer's type.
    #[inline]
    pub fn buft(self) -> BufferTypeRef {
        // SAFETY: the type of a valid buffer is a valid buffer type.
        match unsafe { BufferTypeRef::from_ptr(object_field!(self.buft)) } {
            Some(t) => t,
            None => crate::ggml_abort!("a buffer has no buffer type"),
        }
    }

    /// Name of the type, for people.
    pub fn name(self) -> String {
        name_of(self.buft().name_ptr())
    }

    /// Bytes.
    #[inline]
    pub fn size(self) -> usize {
        object_field!(self.size)
    }

    /// What the implementation keeps.
    #[inline]
    pub fn context(self) -> *mut c_void {
        object_field!(self.context)
    }

    /// Address of the first byte, perhaps no host address. NULL for a buffer without bytes and for one that has no
    /// single address (several buffers as one).
    pub fn base(self) -> *mut u8 {
        match slot!(self.get_base) {
            Some(f) if self.size() > 0 => {
                // SAFETY: the vtable contract.
                let base = unsafe { f(self.as_ptr()) };
                ggml_assert!(!base.is_null(), "the base of a buffer cannot be NULL");
                base.cast()
            }
            _ => std::ptr::null_mut(),
        }
    }

    /// Whether the buffer has an `init_tensor` function for each tensor that is bound to it.
    #[inline]
    pub fn has_init_tensor(self) -> bool {
        slot!(self.init_tensor).is_some()
    }

    /// Calls the buffer's `init_tensor`, if it has one, for a tensor that has just been placed in it.
    pub fn init_tensor(self, tensor: TensorRef) -> ggml_status {
        match slot!(self.init_tensor) {
            // SAFETY: the vtable contract.
            Some(f) => status_of(unsafe { f(self.as_ptr(), tensor.as_ptr()) }),
            None => ggml_status::GGML_STATUS_SUCCESS,
        }
    }

    /// Sets every byte.
    pub fn clear(self, value: u8) {
        if self.size() > 0 {
            observe::notify(|| Operation::Clear(self));
            call!(self.clear(value));
        }
    }

    /// Forgets what `init_tensor` prepared.
    pub fn reset(self) {
        if let Some(f) = slot!(self.reset) {
            // SAFETY: the vtable contract.
            unsafe { f(self.as_ptr()) }
        }
    }

    /// What the buffer is for, as it is in memory.
    #[inline]
    pub fn usage_raw(self) -> c_int {
        object_field!(self.usage)
    }

    /// Whether the buffer holds weights.
    #[inline]
    pub fn is_weights(self) -> bool {
        self.usage_raw() == ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS as c_int
    }

    /// Alignment of tensors in bytes.
    pub fn alignment(self) -> usize {
        self.buft().alignment()
    }

    /// Bytes that a buffer of this type may have.
    pub fn max_size(self) -> usize {
        self.buft().max_size()
    }

    /// Bytes that a tensor takes in this buffer.
    pub fn alloc_size(self, tensor: TensorRef) -> usize {
        self.buft().alloc_size(tensor)
    }

    /// Whether the data is in host memory in the usual layout.
    pub fn is_host(self) -> bool {
        self.buft().is_host()
    }
}

impl TensorRef {
    /// The buffer that the tensor itself is bound to.
    #[inline]
    pub fn buffer(self) -> Option<BufferRef> {
        // SAFETY: the buffer of a valid tensor is NULL or a valid buffer.
        unsafe { BufferRef::from_ptr(self.buffer_raw()) }
    }

    /// The buffer that holds the data: for a view that of its base.
    #[inline]
    pub fn data_buffer(self) -> Option<BufferRef> {
        self.root().buffer()
    }
}
