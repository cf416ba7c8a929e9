//! gguf.h: the GGUF file format.

use super::ggml::*;
use libggml_macros::Numbered;
use std::ffi::c_void;

/// Version of GGUF that is written; 2 and 3 are read.
pub const GGUF_VERSION: u32 = 3;
/// Alignment of tensor data in bytes when a file does not say.
pub const GGUF_DEFAULT_ALIGNMENT: usize = 32;

/// Types of the values in a GGUF file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum gguf_type {
    /// Unsigned integer of 8 bits.
    GGUF_TYPE_UINT8 = 0,
    /// Signed integer of 8 bits.
    GGUF_TYPE_INT8 = 1,
    /// Unsigned integer of 16 bits.
    GGUF_TYPE_UINT16 = 2,
    /// Signed integer of 16 bits.
    GGUF_TYPE_INT16 = 3,
    /// Unsigned integer of 32 bits.
    GGUF_TYPE_UINT32 = 4,
    /// Signed integer of 32 bits.
    GGUF_TYPE_INT32 = 5,
    /// Single precision.
    GGUF_TYPE_FLOAT32 = 6,
    /// Truth value in one byte.
    GGUF_TYPE_BOOL = 7,
    /// Text: its length in bytes (64 bits), then the bytes.
    GGUF_TYPE_STRING = 8,
    /// Array: type of its elements, their number (64 bits), then the elements.
    GGUF_TYPE_ARRAY = 9,
    /// Unsigned integer of 64 bits.
    GGUF_TYPE_UINT64 = 10,
    /// Signed integer of 64 bits.
    GGUF_TYPE_INT64 = 11,
    /// Double precision.
    GGUF_TYPE_FLOAT64 = 12,
    /// Number after the last type.
    GGUF_TYPE_COUNT = 13,
}

/// What a GGUF file holds: key-value pairs, and where its tensors lie.
pub struct gguf_context {
    _opaque: [u8; 0],
}

/// How a GGUF file is opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gguf_init_params {
    /// Make only the description of the tensors in `*ctx`, do not read their data.
    pub no_alloc: bool,
    /// Where to put a new context that holds the file's tensors; the caller frees it. NULL: none is made.
    pub ctx: *mut *mut ggml_context,
}

/// Reads up to `len` bytes at `offset` into `output` and returns how many it read; stands in for a file.
pub type gguf_reader_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, output: *mut c_void, offset: u64, len: usize) -> usize>;
