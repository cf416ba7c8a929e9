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

/// Binds a tensor to the next free bytes of `buffer`, the allocator's. An error when they do not suffice; the allocator
/// and the tensor are then as before.
pub fn alloc(allocator: &mut ggml_tallocr, buffer: BufferRef, tensor: TensorRef) -> Result<ggml_status> {
    ggml_assert!(allocator.alignment.is_power_of_two());
    let size = buffer.alloc_size(tensor);
    let padded = size.checked_next_multiple_of(allocator.alignment);
    let end = padded.and_then(|n| n.checked_add(allocator.offset));
    let Some(end) = end.filter(|&end| end <= buffer.size()) else {
        let free = buffer.size().saturating_sub(allocator.offset);
        return Err(Error::OutOfMemory {
            what: format!("tensor '{}' in a buffer of {} bytes, {free} free,", tensor.name(), buffer.size()),
            bytes: size,
        });
    };
    let at = buffer.base().wrapping_add(allocator.offset);
    allocator.offset = end;
    Ok(view::bind_if_inside(buffer, tensor, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::backend::testing::buffer_type;
    use crate::tensor::Context;

    #[test]
    fn tensors_lie_behind_each_other_until_the_buffer_is_full() {
        let (buft, _) = buffer_type(64, usize::MAX, 0);
        let buffer = buft.alloc_buffer(256).unwrap();
        let mut linear = start(buffer.handle());
        assert_eq!((linear.offset, linear.alignment), (0, 64));
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let mut tensor = |n: i64| ctx.new_tensor(GGML_TYPE_F32, &[n]).unwrap();
        let (a, b, large, last) = (tensor(1), tensor(20), tensor(33), tensor(16));
        for (t, offset) in [(a, 0), (b, 64)] {
            assert_eq!(alloc(&mut linear, buffer.handle(), t).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
            assert_eq!(t.data() as usize - buffer.base() as usize, offset);
        }
        // A size that wraps when it is padded: 2^64 - 1 bytes.
        let wraps = tensor(1);
        wraps.set_ne([1, 2, 1, 1]);
        wraps.set_nb([4, usize::MAX - 4, 0, 0]);
        for t in [large, tensor(1 << 61), wraps] {
            assert!(matches!(alloc(&mut linear, buffer.handle(), t), Err(Error::OutOfMemory { .. })));
            assert!(t.data().is_null() && t.buffer().is_none() && linear.offset == 192);
        }
        alloc(&mut linear, buffer.handle(), last).unwrap();
        assert_eq!(linear.offset, 256);
    }

    #[test]
    fn gaps_reach_the_next_multiple() {
        assert_eq!([0, 1, 31, 32, 33].map(|a| gap(a, 32)), [0, 31, 1, 0, 31]);
    }
}
