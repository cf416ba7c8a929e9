//! ggml-alloc.h: the linear and the graph allocator. `backend_impl` has the handles that this header declares.

pub use super::backend_impl::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use std::ffi::c_void;

/// Plans and owns the memory in which graphs are computed.
pub struct ggml_gallocr {
    _opaque: [u8; 0],
}

/// Allocates tensors in a buffer, one after the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tallocr {
    /// The buffer.
    pub buffer: ggml_backend_buffer_t,
    /// Start of the memory of the buffer.
    pub base: *mut c_void,
    /// Alignment of every tensor in bytes, a power of two.
    pub alignment: usize,
    /// Offset of the first free byte from `base`.
    pub offset: usize,
}

/// A graph allocator.
pub type ggml_gallocr_t = *mut ggml_gallocr;
