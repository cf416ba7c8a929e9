//! ggml-alloc.h: the linear and the graph allocator.

use super::backend_impl::*;
use std::ffi::c_void;

/// A kind of buffer: where it lies and how it is laid out.
pub type ggml_backend_buffer_type_t = *mut ggml_backend_buffer_type;

/// Memory of a device.
pub type ggml_backend_buffer_t = *mut ggml_backend_buffer;

/// A stream of work on a device.
pub type ggml_backend_t = *mut ggml_backend;

/// TODO-DOC (opaque)
pub struct ggml_gallocr {
    _opaque: [u8; 0],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tallocr {
    /// TODO-DOC
    pub buffer: ggml_backend_buffer_t,
    /// TODO-DOC
    pub base: *mut c_void,
    /// TODO-DOC
    pub alignment: usize,
    /// TODO-DOC
    pub offset: usize,
}

/// TODO-DOC
pub type ggml_gallocr_t = *mut ggml_gallocr;
