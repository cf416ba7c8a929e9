//! From `Gguf` to bytes.

#![forbid(unsafe_code)]

use super::file::{Gguf, TensorInfo};
use super::value::{Kv, Value, type_size};
use crate::abi::gguf::gguf_type::GGUF_TYPE_ARRAY;
use crate::error::{Error, Result};
use crate::invalid;
use crate::tensor::TensorRef;
use std::io::Write;

/// Copies a tensor's data. How depends on its buffer, which this layer does not know.
pub type Fetch<'a> = &'a dyn Fn(TensorRef, &mut [u8]) -> Result<()>;

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes zeros after `n` bytes, up to the next multiple of `alignment`.
fn pad(out: &mut dyn Write, n: usize, alignment: usize) -> std::io::Result<()> {
    let mut left = n.next_multiple_of(alignment) - n;
    while left > 0 {
        let step = left.min(1 << 16);
        out.write_all(&[0; 1 << 16][..step])?;
        left -= step;
    }
    Ok(())
}

fn key_value(out: &mut Vec<u8>, kv: &Kv) {
    text(out, kv.key.bytes());
    if kv.is_array {
        out.extend_from_slice(&(GGUF_TYPE_ARRAY as i32).to_le_bytes());
    }
    out.extend_from_slice(&(kv.element_type() as i32).to_le_bytes());
    if kv.is_array {
        out.extend_from_slice(&(kv.len() as u64).to_le_bytes());
    }
    match &kv.value {
        Value::Texts(texts) => texts.iter().for_each(|t| text(out, t)),
        Value::Numbers(t, bytes) => {
            let start = out.len();
            out.extend_from_slice(bytes.as_slice());
            if let (true, Some(size)) = (cfg!(target_endian = "big"), type_size(*t)) {
                out[start..].chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
        }
    }
}

fn description(out: &mut Vec<u8>, info: &TensorInfo) {
    let t = info.tensor();
    text(out, &t.name_bytes());
    // Up to the last dimension that is not 1. A dimension of 0 must be written, or the tensor would have elements when
    // it is read.
    let n_dims = t.ne().iter().rposition(|&n| n > 1 || n != 1).map_or(1, |i| i + 1);
    out.extend_from_slice(&(n_dims as u32).to_le_bytes());
    t.ne()[..n_dims].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    out.extend_from_slice(&t.dtype_raw().to_le_bytes());
    out.extend_from_slice(&info.offset.to_le_bytes());
}

impl Gguf {
    /// The contents, to be written.
    ///
    /// # Errors
    /// A change is missing.
    pub fn unspoiled(&self) -> Result<&Self> {
        match self.is_incomplete {
            true => Err(invalid!("the contents are incomplete: an earlier call that should have changed them failed")),
            false => Ok(self),
        }
    }

    /// Everything before the data section, without the zeros up to the next multiple of the alignment.
    pub fn meta_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"GGUF");
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.kv.len() as u64).to_le_bytes());
        self.kv.iter().for_each(|kv| key_value(&mut out, kv));
        self.tensors.iter().for_each(|info| description(&mut out, info));
        out
    }

    /// Bytes from the start of the file to the data section.
    pub fn meta_size(&self) -> usize {
        self.meta_bytes().len().next_multiple_of(self.alignment)
    }

    /// Writes the file, or with `only_meta` everything before the data section. `fetch` gives the data of each tensor.
    pub fn write(&self, out: &mut dyn Write, only_meta: bool, fetch: Fetch<'_>) -> Result<()> {
        let io = |source| Error::Io { what: "writing GGUF data".into(), source };
        let meta = self.meta_bytes();
        out.write_all(&meta).and_then(|()| pad(out, meta.len(), self.alignment)).map_err(io)?;
        if only_meta {
            return Ok(());
        }
        let mut written = 0u64;
        for info in &self.tensors {
            let t = info.tensor();
            if written != info.offset || !t.is_contiguous() {
                return Err(invalid!("tensor '{}' is not contiguous or has a wrong offset", t.name()));
            }
            let n = info.nbytes();
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(n).map_err(|_| Error::OutOfMemory { what: t.name(), bytes: n })?;
            bytes.resize(n, 0);
            fetch(t, &mut bytes)?;
            out.write_all(&bytes).and_then(|()| pad(out, n, self.alignment)).map_err(io)?;
            written += n.next_multiple_of(self.alignment) as u64;
        }
        Ok(())
    }
}
