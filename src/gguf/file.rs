//! What a GGUF file holds, in memory.

use super::value::{Kv, Printable, out_of_memory};
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_NAME, ggml_tensor, ggml_type};
use crate::abi::gguf::gguf_type::*;
use crate::abi::gguf::{GGUF_DEFAULT_ALIGNMENT, GGUF_VERSION};
use crate::error::{Error, Result};
use crate::sys::memory::{Full, try_box};
use crate::tensor::TensorRef;
use crate::{invalid, mutant};
use std::ffi::c_char;

/// The key that sets the alignment of tensor data.
pub const KEY_ALIGNMENT: &[u8] = b"general.alignment";

/// Alignment that a file may have. Files in use have 32 to 4096.
pub const MAX_ALIGNMENT: u32 = 1 << 20;

/// A tensor of a file: its description, and where its data lies.
pub struct TensorInfo {
    /// Format, shape, dense strides, name; `data` and `buffer` name the data to write.
    tensor: Box<ggml_tensor>,
    /// Bytes from the start of the data section.
    pub offset: u64,
}

// SAFETY: the box is owned; the data pointer in it is the host's, which promises (see `gguf_add_tensor`) that it may be
// read when the file is written.
unsafe impl Send for TensorInfo {}
// SAFETY: as above.
unsafe impl Sync for TensorInfo {}

/// Sizes that were checked by three rules: without any of them they wrap, as they did where the rule was missing.
fn sizes_wrap() -> bool {
    mutant::on("G13") || mutant::on("G14") || mutant::on("G17")
}

impl TensorInfo {
    /// A description with dense strides. Checks what a reader must check: name, shape, format, size.
    pub fn new(name: &[u8], dtype: ggml_type, ne: [i64; GGML_MAX_DIMS], offset: u64) -> Result<Self> {
        let shown = Printable(name);
        if name.len() >= GGML_MAX_NAME && !mutant::on("G5") {
            return Err(Error::Corrupt(format!(
                "tensor name '{shown}' is too long: {} >= {GGML_MAX_NAME}",
                name.len()
            )));
        }
        if name.contains(&0) && !mutant::on("G5 zero") {
            return Err(Error::Corrupt(format!("tensor name '{shown}' has a zero byte in it")));
        }
        // SAFETY: all-zero bytes are a valid `ggml_tensor`.
        let tensor = try_box(unsafe { std::mem::zeroed() });
        let info = Self { tensor: tensor.map_err(|Full| out_of_memory("a tensor", size_of::<ggml_tensor>()))?, offset };
        let t = info.tensor();
        t.set_name(name);
        t.set_ne(ne);
        info.set_dtype(dtype)?;
        Ok(info)
    }

    /// A description copied from a tensor of a host.
    pub fn copy_of(t: TensorRef, offset: u64) -> Self {
        // SAFETY: a handle stands for a valid tensor, which is plain data.
        Self { tensor: Box::new(unsafe { t.as_ptr().read() }), offset }
    }

    /// The bytes that hold the name, for comparisons.
    pub fn name_field(&self) -> &[c_char; GGML_MAX_NAME] {
        &self.tensor.name
    }

    /// The description as a tensor; it lives as long as this.
    pub fn tensor(&self) -> TensorRef {
        // SAFETY: the box holds a valid tensor.
        match unsafe { TensorRef::from_ptr(&raw const *self.tensor) } {
            Some(t) => t,
            None => unreachable!("a box is not NULL"),
        }
    }

    /// Sets the number format and dense strides. An error leaves everything as it was.
    pub fn set_dtype(&self, dtype: ggml_type) -> Result<()> {
        let t = self.tensor();
        let ne = t.ne();
        let bad =
            |why: &str| Error::Corrupt(format!("tensor '{}' with shape {ne:?}: {why}", Printable(&t.name_bytes())));
        if ne.iter().any(|&n| n < 0) && !mutant::on("G13") {
            return Err(bad("a dimension is negative"));
        }
        let is_empty = ne.contains(&0) || mutant::on("G14");
        if !is_empty && ne.iter().try_fold(1i64, |a, &n| a.checked_mul(n)).is_none() {
            return Err(bad("the number of elements does not fit into 63 bits"));
        }
        let block = dtype.blck_size();
        let whole = (block != 0 || mutant::on("G15")) && (ne[0] % block == 0 || mutant::on("G16"));
        if !whole {
            return Err(bad(&format!(
                "rows of type {} hold blocks of {block} elements",
                crate::tensor::names::dtype(dtype)
            )));
        }
        let mut nb = [dtype.type_size(); GGML_MAX_DIMS];
        let times = |bytes: usize, n: i64| {
            let fits = usize::try_from(n).ok().and_then(|n| n.checked_mul(bytes));
            let fits = fits.or(sizes_wrap().then(|| bytes.wrapping_mul(n as usize)));
            fits.ok_or_else(|| bad("the size in bytes does not fit into memory"))
        };
        nb[1] = times(nb[0], ne[0] / block)?;
        for i in 2..GGML_MAX_DIMS {
            nb[i] = times(nb[i - 1], ne[i - 1])?;
        }
        if !mutant::on("G17 last") {
            times(nb[3], ne[3])?;
        }
        t.set_dtype(dtype);
        t.set_nb(nb);
        Ok(())
    }

    /// Bytes of the data.
    pub fn nbytes(&self) -> usize {
        let t = self.tensor();
        if sizes_wrap() { t.nb()[3].wrapping_mul(t.ne()[3] as usize) } else { t.nbytes() }
    }
}

/// The content of a GGUF file. A host holds it as `struct gguf_context *`.
pub struct Gguf {
    /// Version of the format.
    pub version: u32,
    /// Keys and values, in the file's order.
    pub kv: Vec<Kv>,
    /// Tensors, in the file's order.
    pub tensors: Vec<TensorInfo>,
    /// Alignment of tensor data in bytes, a power of two.
    pub alignment: usize,
    /// Bytes from the start of the file to the data section.
    pub data_offset: usize,
    /// Bytes of the data section.
    pub data_size: usize,
    /// A call that should have changed this has failed and could not say so.
    pub is_incomplete: bool,
}

impl Default for Gguf {
    fn default() -> Self {
        Self {
            version: GGUF_VERSION,
            kv: Vec::new(),
            tensors: Vec::new(),
            alignment: GGUF_DEFAULT_ALIGNMENT,
            data_offset: 0,
            data_size: 0,
            is_incomplete: false,
        }
    }
}

impl Gguf {
    /// Place of a key.
    pub fn find_key(&self, key: &[u8]) -> Option<usize> {
        self.kv.iter().position(|kv| kv.key.bytes() == key)
    }

    /// Place of a tensor.
    pub fn find_tensor(&self, name: &[u8]) -> Option<usize> {
        self.tensors.iter().position(|t| t.tensor().name_is(name))
    }

    /// Removes a key and returns its place. Without `general.alignment` the default holds, and tensor data moves.
    pub fn remove_key(&mut self, key: &[u8]) -> Option<usize> {
        let i = self.find_key(key)?;
        // An alignment of the default's size can be too large for memory where a smaller one was not.
        if key == KEY_ALIGNMENT && self.align_to(GGUF_DEFAULT_ALIGNMENT).is_err() {
            return None;
        }
        self.kv.remove(i);
        Some(i)
    }

    /// Computes the offsets of the tensors' data again. After an error nothing has changed.
    fn align_to(&mut self, alignment: usize) -> Result<()> {
        let old = std::mem::replace(&mut self.alignment, alignment);
        let mut offsets = vec![0u64];
        for info in &self.tensors {
            let end = info.tensor().nbytes_checked().and_then(|n| n.checked_next_multiple_of(alignment));
            match end.and_then(|n| offsets[offsets.len() - 1].checked_add(n as u64)) {
                Some(next) => offsets.push(next),
                None => {
                    self.alignment = old;
                    return Err(invalid!("the data section does not fit into memory"));
                }
            }
        }
        for (info, offset) in self.tensors.iter_mut().zip(offsets) {
            info.offset = offset;
        }
        Ok(())
    }

    /// Adds a key at the end; one of the same name is replaced. The key must not be empty, and `general.alignment` must
    /// be a 32-bit power of two that a reader accepts: tensor data is laid out by it from then on. (The original keeps its old layout, and writes
    /// a file that it cannot read.)
    pub fn set(&mut self, kv: Kv) -> Result<()> {
        let key = kv.key.bytes();
        if key.is_empty() {
            return Err(invalid!("a key must not be empty"));
        }
        if key == KEY_ALIGNMENT {
            let n = match &kv.value {
                super::Value::Numbers(GGUF_TYPE_UINT32, b) if !kv.is_array => b.as_slice().try_into().ok(),
                _ => None,
            };
            match n.map(u32::from_ne_bytes).filter(|&n| n.is_power_of_two() && (n <= MAX_ALIGNMENT || mutant::on("R9")))
            {
                Some(n) => self.align_to(n as usize)?,
                None => {
                    return Err(invalid!(
                        "general.alignment must be a power of 2 of type u32, at most {MAX_ALIGNMENT}"
                    ));
                }
            }
        }
        if let Some(i) = self.find_key(kv.key.bytes()) {
            self.kv.remove(i);
        }
        self.kv.push(kv);
        Ok(())
    }

    /// Where the data of a tensor that is added at the end would be.
    pub fn end_offset(&self) -> Result<u64> {
        match self.tensors.last() {
            Some(last) => self.offset_behind(last),
            None => Ok(0),
        }
    }

    fn offset_behind(&self, info: &TensorInfo) -> Result<u64> {
        let padded = info.tensor().nbytes_checked().and_then(|n| n.checked_next_multiple_of(self.alignment));
        padded
            .and_then(|n| info.offset.checked_add(n as u64))
            .ok_or_else(|| invalid!("the data section does not fit into memory"))
    }

    /// Sets the number format of a tensor and moves the data after it.
    pub fn set_tensor_dtype(&mut self, i: usize, dtype: ggml_type) -> Result<()> {
        self.tensors[i].set_dtype(dtype)?;
        for i in i + 1..self.tensors.len() {
            self.tensors[i].offset = self.offset_behind(&self.tensors[i - 1])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;

    fn offsets(g: &Gguf) -> Vec<u64> {
        g.tensors.iter().map(|t| t.offset).collect()
    }

    /// What was laid out for one alignment is read with the one that the file names.
    #[test]
    fn data_follows_the_alignment() {
        let mut g = Gguf::default();
        for name in [b"a", b"b", b"c"] {
            let offset = g.end_offset().unwrap();
            g.tensors.push(TensorInfo::new(name, GGML_TYPE_F32, [5, 1, 1, 1], offset).unwrap());
        }
        assert_eq!(offsets(&g), [0, 32, 64]);
        let key = |n: u32| Kv::number(KEY_ALIGNMENT, GGUF_TYPE_UINT32, &n.to_ne_bytes()).unwrap();
        g.set(key(64)).unwrap();
        assert_eq!((offsets(&g), g.alignment), (vec![0, 64, 128], 64));
        assert_eq!(g.end_offset().unwrap(), 192);
        g.set(key(8)).unwrap();
        assert_eq!((offsets(&g), g.kv.len()), (vec![0, 24, 48], 1));
        assert!(g.set(key(48)).is_err());
        // What the reader refuses is not written.
        assert!(g.set(key(MAX_ALIGNMENT * 2)).is_err() && g.set(key(1 << 31)).is_err());
        assert_eq!(g.alignment, 8);
        assert_eq!(g.remove_key(KEY_ALIGNMENT), Some(0));
        assert_eq!(offsets(&g), [0, 32, 64]);
    }
}
