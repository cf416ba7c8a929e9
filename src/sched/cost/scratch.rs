//! Tensors to measure copies with.

use crate::abi::ggml::ggml_type;
use crate::backend::{BufferBox, BufferTypeRef};
use crate::error::{Error, Result};
use crate::sys::foreign;
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};

/// Sizes of the copies. The first ones say whether there is time for the others.
pub const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 4 << 20];

/// A tensor of each size, in memory of one type.
pub struct Scratch {
    tensors: [TensorRef; SIZES.len()],
    _buffer: BufferBox,
    _context: Context,
}

impl Scratch {
    /// Makes the tensors. Their bytes are 1.
    pub fn new(buft: BufferTypeRef) -> Result<Self> {
        // SAFETY: the tensors are beside the context, in the `Scratch`; `tensor` lends them for the time of its borrow.
        let mut context = unsafe { Context::owned(SIZES.len() * (TENSOR_SIZE + OBJECT_SIZE), true) }?;
        let mut tensors = Vec::new();
        for bytes in SIZES {
            tensors.push(context.new_tensor(ggml_type::GGML_TYPE_I8, &[bytes as i64])?);
        }
        let mut list: Vec<_> = tensors.iter().map(|t| t.as_ptr()).collect();
        let none = || Error::OutOfMemory { what: "measuring copies".into(), bytes: SIZES.iter().sum() };
        let buffer = buft.alloc_buffer_n(&mut list)?.ok_or_else(none)?;
        let tensors: [_; SIZES.len()] = tensors.try_into().map_err(|_| none())?;
        if foreign::is_pending() || tensors.iter().any(|t| t.data().is_null() || t.buffer().is_none()) {
            return Err(none());
        }
        // Memory of the system takes time when it is first used.
        buffer.clear(1);
        Ok(Self { tensors, _buffer: buffer, _context: context })
    }

    /// The tensor of a size.
    pub fn tensor(&self, size: usize) -> TensorRef {
        self.tensors[size]
    }
}
