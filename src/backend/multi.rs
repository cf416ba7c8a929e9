//! Several buffers as one: owned, cleared and marked together. The whole has no address of its own.

use super::buffer::EMPTY_IFACE;
use super::handle::slot;
use super::{BufferBox, BufferRef};
use crate::abi::alloc::ggml_backend_buffer_t;
use crate::abi::backend_impl::ggml_backend_buffer_i;
use crate::ggml_assert;
use crate::guard::guarded;

type Parts = Vec<BufferBox>;

const IFACE: ggml_backend_buffer_i =
    ggml_backend_buffer_i { free_buffer: Some(free_parts), clear: Some(clear_parts), ..EMPTY_IFACE };

/// One buffer of the type of the first, which owns all of `parts` (at least one).
pub fn join(parts: Vec<BufferBox>) -> BufferBox {
    ggml_assert!(!parts.is_empty(), "a multi-buffer has at least one part");
    let buft = parts[0].buft();
    let size = parts.iter().fold(0usize, |sum, p| sum.saturating_add(p.size()));
    let context = Box::into_raw(Box::<Parts>::new(parts));
    // SAFETY: `IFACE` keeps the contract for a context that is a boxed `Parts`.
    unsafe { BufferBox::create(buft, IFACE, context.cast(), size) }
}

/// Whether a buffer was made by [`join`].
pub fn is_multi(buffer: BufferRef) -> bool {
    slot!(buffer.free_buffer).is_some_and(|f| std::ptr::fn_addr_eq(f, free_parts as unsafe extern "C" fn(_)))
}

/// The parts of a multi-buffer, or `None` for a plain one.
pub fn parts(buffer: BufferRef) -> Option<Vec<BufferRef>> {
    if !is_multi(buffer) {
        return None;
    }
    // SAFETY: only `join` makes buffers with these functions, and their context is a boxed `Parts`.
    let parts = unsafe { &*buffer.context().cast::<Parts>() };
    Some(parts.iter().map(BufferBox::handle).collect())
}

/// # Safety
/// `buffer` was made by `join` and is not used afterwards.
#[guarded]
unsafe extern "C" fn free_parts(buffer: ggml_backend_buffer_t) {
    // SAFETY: by the vtable contract a buffer of `join`, whose context is a boxed `Parts`.
    drop(unsafe { Box::from_raw((*buffer).context.cast::<Parts>()) });
}

/// # Safety
/// `buffer` was made by `join`.
#[guarded]
unsafe extern "C" fn clear_parts(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: by the vtable contract a valid buffer.
    let parts = unsafe { BufferRef::from_ptr(buffer) }.and_then(parts);
    for part in parts.unwrap_or_default() {
        part.clear(value);
    }
}
