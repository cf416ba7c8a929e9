//! The linear allocator: hands out a buffer's memory front to back, and never takes any back.

use crate::abi::alloc::ggml_tallocr;
use crate::abi::ggml::ggml_status;
use crate::backend::{BufferRef, view};
use crate::error::{Error, Result};
use crate::ggml_assert;
use crate::tensor::TensorRef;

/// Bytes from `address` to the next multiple of `alignment`, a power of two.
fn gap(address: usize, alignment: usize) -> usize {
    address.wrapping_neg() & (alignment - 1)
}

/// An allocator at the start of a buffer.
pub fn start(buffer: BufferRef) -> ggml_tallocr {
    let (base, alignment) = (buffer.base(), buffer.alignment());
    ggml_assert!(alignment.is_power_of_two(), "alignment {alignment} of a buffer is no power of two");
    ggml_tallocr { buffer: buffer.as_ptr(), base: base.cast(), alignment, offset: gap(base as usize, alignment) }
}

/// Binds a tensor to the next free bytes of `buffer`, the allocator's. An error when they do not suffice; the allocator and
/// the tensor are then as before.
pub fn alloc(allocator: &mut ggml_tallocr, buffer: BufferRef, tensor: TensorRef) -> Result<ggml_status> {
    ggml_assert!(allocator.alignment.is_power_of_two());
    let size = buffer.alloc_size(tensor);
    let end = size.checked_next_multiple_of(allocator.alignment).and_then(|n| n.checked_add(allocator.offset));
    let Some(end) = end.filter(|&end| end <= buffer.size()) else {
        let free = buffer.size().saturating_sub(allocator.offset);
        return Err(Error::OutOfMemory {
            what: format!("tensor '{}' in a buffer of {} bytes, {free} free,", tensor.name(), buffer.size()),
            bytes: size,
        });
    };
    let at = buffer.base().wrapping_add(allocator.offset);
    allocator.offset = end;
    Ok(view::bind(buffer, tensor, at))
}
