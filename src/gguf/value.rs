//! Keys and values.

#![forbid(unsafe_code)]

use crate::abi::gguf::gguf_type::{self, *};
use crate::error::{Error, Result};
use crate::sys::memory::{Full, NumberBytes, try_push};
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
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let mut v = Vec::new();
        v.try_reserve_exact(bytes.len() + 1).map_err(|_| out_of_memory("a text", bytes.len()))?;
        v.extend_from_slice(bytes);
        Ok(Self::from_bytes(v))
    }

    /// Text of bytes, to which the zero is added. They have room for it.
    pub(super) fn from_bytes(mut bytes: Vec<u8>) -> Self {
        bytes.push(0);
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

pub(super) fn out_of_memory(what: &str, bytes: usize) -> Error {
    Error::OutOfMemory { what: what.into(), bytes }
}

/// A list of texts, one after the other in one piece of memory: many short ones take little more than they have in a
/// file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// The texts, each followed by a zero.
    bytes: Vec<u8>,
    /// Where the zero of each text is.
    ends: Vec<usize>,
}

impl Texts {
    /// The texts of these bytes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
        let mut all = Self::default();
        for text in texts {
            let full = |_| out_of_memory("a list of texts", text.len());
            all.bytes.try_reserve(text.len() + 1).map_err(full)?;
            all.bytes.extend_from_slice(text);
            all.end().map_err(|Full| out_of_memory("a list of texts", text.len()))?;
        }
        Ok(all)
    }

    /// Makes room for `n` texts, but not for their bytes.
    pub(super) fn expect(&mut self, n: usize) -> std::result::Result<(), Full> {
        self.ends.try_reserve_exact(n).map_err(|_| Full)
    }

    /// All bytes so far. Those that are added at the end are the next text, which [`Self::end`] ends.
    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a text.
    pub(super) fn end(&mut self) -> std::result::Result<(), Full> {
        try_push(&mut self.ends, self.bytes.len())?;
        try_push(&mut self.bytes, 0)
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of text `i`, without the zero after them.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        self.range(i).map(|(start, end)| &self.bytes[start..end])
    }

    /// What C sees of text `i`: bytes up to the first zero.
    pub fn c_str(&self, i: usize) -> Option<&CStr> {
        let (start, end) = self.range(i)?;
        CStr::from_bytes_until_nul(&self.bytes[start..=end]).ok()
    }

    fn range(&self, i: usize) -> Option<(usize, usize)> {
        let end = *self.ends.get(i)?;
        Some((i.checked_sub(1).map_or(0, |before| self.ends[before] + 1), end))
    }

    /// The bytes of all texts.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    fn try_clone(&self) -> Result<Self> {
        let mut copy = Self::default();
        let full = |_| out_of_memory("a list of texts", self.bytes.len());
        copy.bytes.try_reserve_exact(self.bytes.len()).map_err(full)?;
        copy.ends.try_reserve_exact(self.ends.len()).map_err(full)?;
        copy.bytes.extend_from_slice(&self.bytes);
        copy.ends.extend_from_slice(&self.ends);
        Ok(copy)
    }
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(Printable)).finish()
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
    Texts(Texts),
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
        Ok(Self { key: Text::new(key)?, is_array: false, value: Value::Numbers(t, NumberBytes::copy_of(bytes)?) })
    }

    /// One text.
    pub fn text(key: &[u8], text: &[u8]) -> Result<Self> {
        Ok(Self { key: Text::new(key)?, is_array: false, value: Value::Texts(Texts::new([text])?) })
    }

    /// A copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn try_clone(&self) -> Result<Self> {
        let value = match &self.value {
            Value::Numbers(t, bytes) => Value::Numbers(*t, NumberBytes::copy_of(bytes.as_slice())?),
            Value::Texts(texts) => Value::Texts(texts.try_clone()?),
        };
        Ok(Self { key: Text::new(self.key.bytes())?, is_array: self.is_array, value })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lie_behind_each_other_and_c_sees_each_by_itself() {
        let texts = Texts::new([&b"one"[..], b"", b"with \0 inside", b"last"]).unwrap();
        assert_eq!(texts.len(), 4);
        assert_eq!(texts.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"with \0 inside", b"last"]);
        assert_eq!(texts.c_str(0), Some(c"one"));
        assert_eq!((texts.c_str(1), texts.c_str(2), texts.c_str(3)), (Some(c""), Some(c"with "), Some(c"last")));
        assert_eq!((texts.get(4), texts.c_str(4)), (None, None));
        assert_eq!(texts.try_clone().unwrap(), texts);
        assert_eq!(format!("{texts:?}"), r"['one', '', 'with \0 inside', 'last']");
    }
}
