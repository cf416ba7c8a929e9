//! ggml-alloc.h: the linear and the graph allocator.

use super::backend_impl::*;
use std::ffi::c_void;

/// A kind of buffer: where it lies and how it is laid out.
pub type ggml_backend_buffer_type_t = *mut ggml_backend_buffer_type;

/// Memory of a device.
pub type ggml_backend_buffer_t = *mut ggml_backend_buffer;

/// A stream of work on a device.
pub type ggml_backend_t = *mut ggml_backend;

/// Plans and owns the memory that graphs compute in.
pub struct ggml_gallocr {
    _opaque: [u8; 0],
}

/// Hands out a buffer's memory to tensors, one after the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tallocr {
    /// The buffer.
    pub buffer: ggml_backend_buffer_t,
    /// Start of the buffer's memory.
    pub base: *mut c_void,
    /// Alignment of every tensor in bytes, a power of two.
    pub alignment: usize,
    /// Bytes from `base` to the first free byte.
    pub offset: usize,
}

/// A graph allocator.
pub type ggml_gallocr_t = *mut ggml_gallocr;
