//! gguf.h: the GGUF file format.

use super::ggml::*;
use libggml_macros::Numbered;
use std::ffi::c_void;

/// Version of the format that is written. Versions 2 and 3 are read.
pub const GGUF_VERSION: u32 = 3;
/// Alignment of tensor data in bytes, unless the file sets another.
pub const GGUF_DEFAULT_ALIGNMENT: usize = 32;

/// Types of values in a GGUF file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum gguf_type {
    /// 8-bit unsigned integer.
    GGUF_TYPE_UINT8 = 0,
    /// 8-bit signed integer.
    GGUF_TYPE_INT8 = 1,
    /// 16-bit unsigned integer.
    GGUF_TYPE_UINT16 = 2,
    /// 16-bit signed integer.
    GGUF_TYPE_INT16 = 3,
    /// 32-bit unsigned integer.
    GGUF_TYPE_UINT32 = 4,
    /// 32-bit signed integer.
    GGUF_TYPE_INT32 = 5,
    /// Single-precision number.
    GGUF_TYPE_FLOAT32 = 6,
    /// Boolean, in one byte.
    GGUF_TYPE_BOOL = 7,
    /// String: the length in bytes (64 bits), then the bytes.
    GGUF_TYPE_STRING = 8,
    /// Array: the type of the elements, their number (64 bits), then the elements.
    GGUF_TYPE_ARRAY = 9,
    /// 64-bit unsigned integer.
    GGUF_TYPE_UINT64 = 10,
    /// 64-bit signed integer.
    GGUF_TYPE_INT64 = 11,
    /// Double-precision number.
    GGUF_TYPE_FLOAT64 = 12,
    /// Number of types.
    GGUF_TYPE_COUNT = 13,
}

/// The contents of a GGUF file: key-value pairs, and the descriptions of tensors.
pub struct gguf_context {
    _opaque: [u8; 0],
}

/// How a GGUF file is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gguf_init_params {
    /// Create only the descriptions of the tensors in `*ctx`; do not read their data.
    pub no_alloc: bool,
    /// If not NULL, receives a new context with the tensors of the file, which the caller frees.
    pub ctx: *mut *mut ggml_context,
}

/// Reads up to `len` bytes at `offset` into `output`, in place of a file. Returns the number of bytes read.
pub type gguf_reader_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, output: *mut c_void, offset: u64, len: usize) -> usize>;
