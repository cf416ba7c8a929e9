//! gguf.h: the GGUF file format.

use super::ggml::*;
use std::ffi::{c_int, c_void};

/// Version of GGUF that is written; 2 and 3 are read.
pub const GGUF_VERSION: u32 = 3;
/// Alignment of tensor data in bytes when a file does not say.
pub const GGUF_DEFAULT_ALIGNMENT: usize = 32;

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum gguf_type {
    /// TODO-DOC
    GGUF_TYPE_UINT8 = 0,
    /// TODO-DOC
    GGUF_TYPE_INT8 = 1,
    /// TODO-DOC
    GGUF_TYPE_UINT16 = 2,
    /// TODO-DOC
    GGUF_TYPE_INT16 = 3,
    /// TODO-DOC
    GGUF_TYPE_UINT32 = 4,
    /// TODO-DOC
    GGUF_TYPE_INT32 = 5,
    /// TODO-DOC
    GGUF_TYPE_FLOAT32 = 6,
    /// TODO-DOC
    GGUF_TYPE_BOOL = 7,
    /// TODO-DOC
    GGUF_TYPE_STRING = 8,
    /// TODO-DOC
    GGUF_TYPE_ARRAY = 9,
    /// TODO-DOC
    GGUF_TYPE_UINT64 = 10,
    /// TODO-DOC
    GGUF_TYPE_INT64 = 11,
    /// TODO-DOC
    GGUF_TYPE_FLOAT64 = 12,
    /// TODO-DOC
    GGUF_TYPE_COUNT = 13,
}
impl gguf_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 13] = [
        Self::GGUF_TYPE_UINT8,
        Self::GGUF_TYPE_INT8,
        Self::GGUF_TYPE_UINT16,
        Self::GGUF_TYPE_INT16,
        Self::GGUF_TYPE_UINT32,
        Self::GGUF_TYPE_INT32,
        Self::GGUF_TYPE_FLOAT32,
        Self::GGUF_TYPE_BOOL,
        Self::GGUF_TYPE_STRING,
        Self::GGUF_TYPE_ARRAY,
        Self::GGUF_TYPE_UINT64,
        Self::GGUF_TYPE_INT64,
        Self::GGUF_TYPE_FLOAT64,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC (opaque)
pub struct gguf_context {
    _opaque: [u8; 0],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gguf_init_params {
    /// TODO-DOC
    pub no_alloc: bool,
    /// TODO-DOC
    pub ctx: *mut *mut ggml_context,
}

/// TODO-DOC
pub type gguf_reader_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, output: *mut c_void, offset: u64, len: usize) -> usize>;
