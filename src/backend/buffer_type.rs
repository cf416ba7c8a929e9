//! What a buffer type can do.

use super::buffer::EMPTY_IFACE;
use super::handle::{attempt, call, name_of, object_field, slot};
use super::{BufferBox, BufferRef, BufferTypeRef, DeviceRef};
use crate::abi::ggml::ggml_op;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use std::ffi::{c_char, c_void};

impl BufferTypeRef {
    /// Name as a C string that lives as long as the type.
    #[inline]
    pub fn name_ptr(self) -> *const c_char {
        call!(self.get_name())
    }

    /// Name.
    pub fn name(self) -> String {
        name_of(self.name_ptr())
    }

    /// What the implementation keeps.
    #[inline]
    pub fn context(self) -> *mut c_void {
        object_field!(self.context)
    }

    /// The device this type belongs to; the type "CPU" belongs to none.
    #[inline]
    pub fn device(self) -> Option<DeviceRef> {
        // SAFETY: the device of a valid buffer type is NULL or a valid device.
        unsafe { DeviceRef::from_ptr(object_field!(self.device)) }
    }

    /// A buffer of `size` bytes, or `None` when memory cannot be had (the implementation has logged why).
    /// Without bytes: an object without memory.
    pub fn alloc_buffer(self, size: usize) -> Option<BufferBox> {
        if size == 0 {
            // SAFETY: without bytes no function of the vtable is needed.
            return Some(unsafe { BufferBox::create(self, EMPTY_IFACE, std::ptr::null_mut(), 0) });
        }
        // SAFETY: the vtable contract: NULL or a new buffer that is the caller's.
        unsafe {
            BufferRef::from_ptr(attempt!(self.alloc_buffer(size), std::ptr::null_mut())).map(|b| BufferBox::own(b))
        }
    }

    /// Alignment of tensors in bytes, a power of two.
    #[inline]
    pub fn alignment(self) -> usize {
        let alignment: usize = call!(self.get_alignment());
        ggml_assert!(alignment.is_power_of_two(), "the alignment of a buffer type must be a power of two");
        alignment
    }

    /// Bytes that one buffer may have.
    pub fn max_size(self) -> usize {
        match slot!(self.get_max_size) {
            // SAFETY: the vtable contract.
            Some(f) => unsafe { f(self.as_ptr()) },
            None => usize::MAX,
        }
    }

    /// Whether tensors may take more bytes than they have.
    #[inline]
    pub fn expands(self) -> bool {
        slot!(self.get_alloc_size).is_some()
    }

    /// Bytes that a tensor takes, padding included; never less than its own.
    pub fn alloc_size(self, tensor: TensorRef) -> usize {
        let bytes = tensor.nbytes();
        let Some(f) = slot!(self.get_alloc_size) else { return bytes };
        // SAFETY: the vtable contract.
        let size = unsafe { f(self.as_ptr(), tensor.as_ptr()) };
        ggml_assert!(
            size <= bytes
                || op_is_empty(tensor.op())
                || tensor.dtype().blck_size() > 1
                || op_alloc_size_may_expand(tensor.op()),
            "buffer type {} wants {size} bytes for the {bytes} of '{}', an op that may not expand",
            self.name(),
            tensor.name()
        );
        size.max(bytes)
    }

    /// Whether data is in host memory in the usual layout.
    #[inline]
    pub fn is_host(self) -> bool {
        // SAFETY: the vtable contract.
        slot!(self.is_host).is_some_and(|f| unsafe { f(self.as_ptr()) })
    }
}

/// Whether an operation computes nothing: its result is another look at a source.
pub fn op_is_empty(op: ggml_op) -> bool {
    use ggml_op::*;
    matches!(op, GGML_OP_NONE | GGML_OP_RESHAPE | GGML_OP_TRANSPOSE | GGML_OP_VIEW | GGML_OP_PERMUTE)
}

/// Whether a node computes nothing. A node with an operation that does not exist is not empty: its check fails.
pub fn node_is_empty(node: TensorRef) -> bool {
    ggml_op::from_raw(node.op_raw()).is_some_and(op_is_empty)
}

/// Whether a buffer type may require more bytes for the result of this operation than the result has. The additional
/// bytes are for temporary data.
pub fn op_alloc_size_may_expand(op: ggml_op) -> bool {
    use ggml_op::*;
    matches!(
        op,
        GGML_OP_FLASH_ATTN_EXT
            | GGML_OP_MUL_MAT
            | GGML_OP_MUL_MAT_ID
            | GGML_OP_CUMSUM
            | GGML_OP_ARGSORT
            | GGML_OP_TOP_K
            | GGML_OP_ARGMAX
    )
}
