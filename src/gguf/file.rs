//! What a GGUF file holds, in memory.

use super::value::{Kv, Printable, Value, out_of_memory};
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_NAME, ggml_tensor, ggml_type};
use crate::abi::gguf::gguf_type::*;
use crate::abi::gguf::{GGUF_DEFAULT_ALIGNMENT, GGUF_VERSION};
use crate::error::{Error, Result};
use crate::sys::memory::{Full, try_box};
use crate::tensor::TensorRef;
use crate::{invalid, log_warn};
use std::ffi::c_char;

/// The key that sets the alignment of tensor data.
pub const KEY_ALIGNMENT: &[u8] = b"general.alignment";

/// Alignment that a file of any size may have. A larger one is at most the size of the file, because its data section
/// begins at a multiple of it.
pub const MAX_ALIGNMENT_OF_ALL: u32 = 1 << 20;

/// The number in a value of `general.alignment`. `None` if it is not one 32-bit number.
pub fn alignment_of(kv: &Kv) -> Option<u32> {
    match &kv.value {
        Value::Numbers(GGUF_TYPE_UINT32, b) if !kv.is_array => b.as_slice().try_into().ok().map(u32::from_ne_bytes),
        _ => None,
    }
}

/// The key `general.alignment`. Alignments come from 32-bit numbers.
fn alignment_key(n: usize) -> Result<Kv> {
    Kv::number(KEY_ALIGNMENT, GGUF_TYPE_UINT32, &(n as u32).to_ne_bytes())
}

/// A tensor of a file: its description, and the offset of its data.
pub struct TensorInfo {
    /// Format, shape, dense strides, name; `data` and `buffer` name the data to write.
    tensor: Box<ggml_tensor>,
    /// Bytes from the start of the data section.
    pub offset: u64,
}

// SAFETY: the box is owned; the data pointer in it is the host's, which promises (see `gguf_add_tensor`) that it may be
// read when the file is written.
unsafe impl Send for TensorInfo {}
// SAFETY: shared, it gives numbers, and the address of data that the host lets any thread read (above).
unsafe impl Sync for TensorInfo {}

impl TensorInfo {
    /// A description with dense strides. Checks what a reader must check: name, shape, format, size.
    pub fn new(name: &[u8], dtype: ggml_type, ne: [i64; GGML_MAX_DIMS], offset: u64) -> Result<Self> {
        let shown = Printable(name);
        if name.len() >= GGML_MAX_NAME {
            return Err(Error::Corrupt(format!(
                "tensor name '{shown}' is too long: {} >= {GGML_MAX_NAME}",
                name.len()
            )));
        }
        if name.contains(&0) {
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
        // SAFETY: a handle refers to a valid tensor, which is plain data.
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
        if ne.iter().any(|&n| n < 0) {
            return Err(bad("a dimension is negative"));
        }
        let is_empty = ne.contains(&0);
        if !is_empty && ne.iter().try_fold(1i64, |a, &n| a.checked_mul(n)).is_none() {
            return Err(bad("the number of elements does not fit into 63 bits"));
        }
        let block = dtype.blck_size();
        let whole = block != 0 && ne[0] % block == 0;
        if !whole {
            return Err(bad(&format!(
                "rows of type {} hold blocks of {block} elements",
                crate::tensor::names::dtype(dtype)
            )));
        }
        let mut nb = [dtype.type_size(); GGML_MAX_DIMS];
        let times = |bytes: usize, n: i64| {
            let fits = usize::try_from(n).ok().and_then(|n| n.checked_mul(bytes));
            fits.ok_or_else(|| bad("the size in bytes does not fit into memory"))
        };
        nb[1] = times(nb[0], ne[0] / block)?;
        for i in 2..GGML_MAX_DIMS {
            nb[i] = times(nb[i - 1], ne[i - 1])?;
        }
        times(nb[3], ne[3])?;
        t.set_dtype(dtype);
        t.set_nb(nb);
        Ok(())
    }

    /// Bytes of the data.
    pub fn nbytes(&self) -> usize {
        let t = self.tensor();
        t.nbytes()
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
    /// be a 32-bit power of two: tensor data is laid out by it from then on. (The original keeps its old layout, and
    /// writes a file that it cannot read.) Less than the default becomes the default, with a warning: hosts that write
    /// the data themselves pad it to the default, whatever the key says.
    pub fn set(&mut self, mut kv: Kv) -> Result<()> {
        if kv.key.bytes().is_empty() {
            return Err(invalid!("a key must not be empty"));
        }
        if kv.key.bytes() == KEY_ALIGNMENT {
            let n = alignment_of(&kv).filter(|n| n.is_power_of_two());
            let n = n.ok_or_else(|| invalid!("general.alignment must be a power of 2 of type u32"))? as usize;
            // What was read from a file with the same alignment stays as it is.
            let raised = n < GGUF_DEFAULT_ALIGNMENT && n != self.alignment;
            let n = if raised { GGUF_DEFAULT_ALIGNMENT } else { n };
            if raised {
                log_warn!(
                    "general.alignment {} becomes {n}: programs that write tensor data themselves pad it to {n} bytes",
                    alignment_of(&kv).unwrap_or_default()
                );
                kv = alignment_key(n)?;
            }
            self.align_to(n)?;
        }
        self.put(kv);
        Ok(())
    }

    /// As [`Self::set`], for a key of another file. `general.alignment` says how that file is laid out, not this one,
    /// which keeps the alignment that it has: hosts that copy keys and then write the data themselves pad it to the
    /// default.
    pub fn set_copy(&mut self, kv: Kv) -> Result<()> {
        if kv.key.bytes() != KEY_ALIGNMENT {
            return self.set(kv);
        }
        let (its, own) = (alignment_of(&kv).unwrap_or_default(), self.alignment);
        if its as usize != own {
            log_warn!("general.alignment {its} is not copied: the tensor data of the copy is aligned to {own} bytes");
        }
        self.put(alignment_key(own)?);
        Ok(())
    }

    /// Adds a key at the end; one of the same name is removed.
    fn put(&mut self, kv: Kv) {
        if let Some(i) = self.find_key(kv.key.bytes()) {
            self.kv.remove(i);
        }
        self.kv.push(kv);
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
        for bad in [0, 3, 48, u32::MAX] {
            assert!(g.set(key(bad)).is_err());
        }
        assert_eq!((offsets(&g), g.alignment), (vec![0, 64, 128], 64));
        g.set(key(1 << 21)).unwrap();
        assert_eq!(offsets(&g), [0, 1 << 21, 1 << 22]);
        g.set(key(1 << 31)).unwrap();
        assert_eq!((offsets(&g), g.kv.len()), (vec![0, 1 << 31, 1 << 32], 1));
        assert_eq!(g.remove_key(KEY_ALIGNMENT), Some(0));
        assert_eq!(offsets(&g), [0, 32, 64]);
    }

    /// A host that writes data by itself pads it to 32 bytes, or to what `gguf_get_alignment` says: both are right.
    #[test]
    fn small_and_foreign_alignments_become_the_default() {
        let key = |n: u32| Kv::number(KEY_ALIGNMENT, GGUF_TYPE_UINT32, &n.to_ne_bytes()).unwrap();
        let add = |g: &mut Gguf| {
            for name in [b"a", b"b"] {
                let offset = g.end_offset().unwrap();
                g.tensors.push(TensorInfo::new(name, GGML_TYPE_F32, [5, 1, 1, 1], offset).unwrap());
            }
        };
        for n in (0..32).map(|bit| 1u32 << bit) {
            let (mut set, mut copy) = (Gguf::default(), Gguf::default());
            set.set(key(n)).unwrap();
            copy.set_copy(key(n)).unwrap();
            let expected = n.max(32);
            assert_eq!((set.alignment, alignment_of(&set.kv[0])), (expected as usize, Some(expected)));
            assert_eq!((copy.alignment, alignment_of(&copy.kv[0])), (32, Some(32)), "a copy from {n}");
            add(&mut set);
            add(&mut copy);
            assert_eq!((offsets(&set), offsets(&copy)), (vec![0, u64::from(expected)], vec![0, 32]));
        }
        // What the host has said of the copy, or what was read, stays.
        for n in [8, 64] {
            let mut g = Gguf { alignment: n as usize, kv: vec![key(n)], ..Gguf::default() };
            add(&mut g);
            let before = offsets(&g);
            g.set(key(n)).unwrap();
            g.set_copy(key(16)).unwrap();
            assert_eq!((g.alignment, alignment_of(&g.kv[0]), g.kv.len()), (n as usize, Some(n), 1));
            assert_eq!(offsets(&g), before);
        }
    }
}
