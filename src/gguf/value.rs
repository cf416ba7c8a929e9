//! Keys and values.

#![forbid(unsafe_code)]

use crate::abi::gguf::gguf_type::{self, *};
use crate::error::Result;
use crate::mutant;
use crate::sys::memory::NumberBytes;
use std::ffi::CStr;

/// Bytes of one value of a type with a fixed size; `None` for strings and arrays.
pub const fn type_size(t: gguf_type) -> Option<usize> {
    match t {
        GGUF_TYPE_UINT8 | GGUF_TYPE_INT8 | GGUF_TYPE_BOOL => Some(1),
        GGUF_TYPE_UINT16 | GGUF_TYPE_INT16 => Some(2),
        GGUF_TYPE_UINT32 | GGUF_TYPE_INT32 | GGUF_TYPE_FLOAT32 => Some(4),
        GGUF_TYPE_UINT64 | GGUF_TYPE_INT64 | GGUF_TYPE_FLOAT64 => Some(8),
        GGUF_TYPE_STRING | GGUF_TYPE_ARRAY | GGUF_TYPE_COUNT => None,
    }
}

/// Name of a type.
pub const fn type_name(t: gguf_type) -> &'static CStr {
    match t {
        GGUF_TYPE_UINT8 => c"u8",
        GGUF_TYPE_INT8 => c"i8",
        GGUF_TYPE_UINT16 => c"u16",
        GGUF_TYPE_INT16 => c"i16",
        GGUF_TYPE_UINT32 => c"u32",
        GGUF_TYPE_INT32 => c"i32",
        GGUF_TYPE_FLOAT32 => c"f32",
        GGUF_TYPE_BOOL => c"bool",
        GGUF_TYPE_STRING => c"str",
        GGUF_TYPE_ARRAY => c"arr",
        GGUF_TYPE_UINT64 => c"u64",
        GGUF_TYPE_INT64 => c"i64",
        GGUF_TYPE_FLOAT64 => c"f64",
        GGUF_TYPE_COUNT => c"",
    }
}

/// Text as a file holds it: any bytes. C reads it up to the first zero; one follows the last byte.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Text of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut v = Vec::with_capacity(bytes.len() + 1);
        v.extend_from_slice(bytes);
        v.push(0);
        Self(v.into())
    }

    /// Text of bytes that end with the zero.
    pub(super) fn from_terminated(bytes: Vec<u8>) -> Self {
        debug_assert_eq!(bytes.last(), Some(&0));
        Self(bytes.into())
    }

    /// The bytes, without the zero after them.
    pub fn bytes(&self) -> &[u8] {
        &self.0[..self.0.len() - 1]
    }

    /// What C sees.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", Printable(self.bytes()))
    }
}

/// Bytes from a file, for a log line: shortened, and nothing in it that could drive a terminal.
pub struct Printable<'a>(pub &'a [u8]);

impl std::fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = &self.0[..self.0.len().min(80)];
        if mutant::on("G6") {
            return write!(f, "{}", String::from_utf8_lossy(cut));
        }
        write!(f, "{}", String::from_utf8_lossy(cut).escape_debug())?;
        if cut.len() < self.0.len() { write!(f, "...") } else { Ok(()) }
    }
}

impl std::fmt::Debug for Printable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{self}'")
    }
}

/// A value: numbers (truth values among them, stored as bytes 0 and 1) or texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Numbers of one type, in the machine's byte order.
    Numbers(gguf_type, NumberBytes),
    /// Texts.
    Texts(Vec<Text>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Kv {
    /// The key; not empty, no zero in it.
    pub key: Text,
    /// Whether the value is an array (of any length), or else exactly one.
    pub is_array: bool,
    /// The value.
    pub value: Value,
}

impl Kv {
    /// One number, given by its bytes.
    pub fn number(key: &[u8], t: gguf_type, bytes: &[u8]) -> Result<Self> {
        debug_assert_eq!(type_size(t), Some(bytes.len()));
        Ok(Self { key: Text::new(key), is_array: false, value: Value::Numbers(t, NumberBytes::copy_of(bytes)?) })
    }

    /// One text.
    pub fn text(key: &[u8], text: &[u8]) -> Self {
        Self { key: Text::new(key), is_array: false, value: Value::Texts(vec![Text::new(text)]) }
    }

    /// Type of the value, or of the array's elements.
    pub fn element_type(&self) -> gguf_type {
        match self.value {
            Value::Numbers(t, _) => t,
            Value::Texts(_) => GGUF_TYPE_STRING,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.value {
            Value::Numbers(t, bytes) => type_size(*t).map_or(0, |size| bytes.as_slice().len() / size),
            Value::Texts(texts) => texts.len(),
        }
    }
}
