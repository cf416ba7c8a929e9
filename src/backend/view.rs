//! Tensors bound to memory.

use super::BufferRef;
use crate::abi::ggml::ggml_status;
use crate::ggml_assert;
use crate::tensor::TensorRef;

/// Binds a view to the memory of its base, which must have some.
pub fn init(tensor: TensorRef) -> ggml_status {
    ggml_assert!(tensor.buffer().is_none(), "'{}' has a buffer already", tensor.name());
    let Some(base) = tensor.view_src() else { crate::ggml_abort!("'{}' is not a view", tensor.name()) };
    let Some(buffer) = base.buffer() else {
        crate::ggml_abort!("the base '{}' of the view '{}' has no buffer", base.name(), tensor.name())
    };
    ggml_assert!(!base.data().is_null(), "the base '{}' has no data", base.name());
    tensor.set_buffer_raw(buffer.as_ptr());
    tensor.set_data(base.data().wrapping_add(tensor.view_offs()));
    buffer.init_tensor(tensor)
}

/// Binds a tensor to the address `at` in a buffer, which must hold all its bytes.
pub fn bind(buffer: BufferRef, tensor: TensorRef, at: *mut u8) -> ggml_status {
    let base = buffer.base() as usize;
    let end = (at as usize).checked_add(buffer.alloc_size(tensor));
    ggml_assert!(
        at as usize >= base && end.is_some_and(|end| end <= base.saturating_add(buffer.size())),
        "'{}' is not inside its buffer",
        tensor.name()
    );
    bind_if_inside(buffer, tensor, at)
}

/// [`bind`] for a caller that has found room for the bytes that the buffer requires. Does not query their number again:
/// a device of another machine may return another number, and that must not end the process.
pub fn bind_if_inside(buffer: BufferRef, tensor: TensorRef, at: *mut u8) -> ggml_status {
    ggml_assert!(tensor.buffer().is_none() && tensor.data().is_null(), "'{}' has memory already", tensor.name());
    ggml_assert!(tensor.view_src().is_none(), "'{}' is a view", tensor.name());
    tensor.set_buffer_raw(buffer.as_ptr());
    tensor.set_data(at);
    buffer.init_tensor(tensor)
}
