//! The buffer type and its buffers.

use super::account::account;
use super::budget::{self, Planned, When};
use super::resident::Weight;
use super::strips::{New, Reader, strips};
use super::{loader, relief};
use crate::abi::ggml::ggml_op::{self, *};
use crate::backend::author::{Buffer, BufferType, NOT_READ, buffer_author, leak_buffer_type};
use crate::backend::keeper::{self, WeightBytes};
use crate::backend::{BufferRef, BufferTypeRef, DeviceRef};
use crate::cpu::simd::{Level, kernels};
use crate::error::Result;
use crate::log_error;
use crate::sys::file_part::FilePart;
use crate::sys::mapping::FileMapping;
use crate::sys::memory::AlignedBlock;
use crate::sys::sync::{brief_read, brief_write};
use crate::tensor::TensorRef;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::{Arc, OnceLock, RwLock};

/// Alignment of tensors in bytes.
pub(super) const ALIGNMENT: usize = 64;
/// Bytes from which a tensor may be read from its file later.
const LATER: usize = 64 << 10;
static TYPE: OnceLock<BufferTypeRef> = OnceLock::new();

/// The buffer type, of the CPU device.
pub fn buffer_type(device: DeviceRef) -> BufferTypeRef {
    *crate::sys::sync::once(&TYPE, || {
        keeper::set(&Keeper);
        leak_buffer_type(Some(device), Repack)
    })
}

/// Whether this is the buffer type.
pub fn is_type(buft: BufferTypeRef) -> bool {
    TYPE.get() == Some(&buft)
}

/// Whether this processor has kernels for which the buffer type is worth its memory.
pub fn is_offered() -> bool {
    kernels().level > Level::Scalar
}

/// Whether a tensor is in a buffer of this type.
pub fn holds(t: TensorRef) -> bool {
    t.buffer().is_some_and(|b| is_type(b.buft()))
}

/// Whether source `i` of an operation may be in a buffer of this type.
pub fn takes(op: ggml_op, i: usize, source: TensorRef) -> bool {
    matches!(op, GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID)
        && i == 0
        && source.view_src().is_none()
        && strips(source).is_some()
}

/// Whether the data of a tensor is interleaved. Views have no kernels (see [`takes`]).
pub fn is_interleaved(t: TensorRef) -> bool {
    holds(t) && strips(t).is_some()
}

/// The weight of a product, if it need not be in memory.
pub fn weight_of(node: TensorRef) -> Option<Arc<Weight>> {
    weight_at(node.src(0).filter(|_| matches!(node.op(), GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID))?)
}

/// A tensor as a weight that need not be in memory; `None` if it is always there.
fn weight_at(t: TensorRef) -> Option<Arc<Weight>> {
    let buffer = t.buffer().filter(|_| holds(t))?;
    let author = buffer_author::<RepackBuffer>(&buffer)?;
    author.weight(author.offset(t)).map(|(weight, _)| weight)
}

/// Whether a tensor is read from its file when it is needed.
fn is_from_file(t: TensorRef) -> bool {
    weight_at(t).is_some()
}

struct Repack;

impl BufferType for Repack {
    type Buffer = RepackBuffer;

    fn name(&self) -> &CStr {
        c"CPU_REPACK"
    }

    fn alloc(&self, size: usize) -> Result<RepackBuffer> {
        // Zeros, since a tensor may be written in parts. Threads that interleave its rows touch them first.
        let memory = AlignedBlock::zeroed_pages(size, ALIGNMENT, "a CPU_REPACK buffer")?;
        if budget::shortage(size as u64, When::Loading) > 0 {
            // Large pages would take memory of weights that are not there for others beside them.
            memory.use_small_pages(0..size);
        }
        Ok(RepackBuffer { memory: Arc::new(memory), weights: RwLock::default(), _planned: Planned::new(size) })
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }
}

/// Memory with interleaved tensors.
pub(super) struct RepackBuffer {
    memory: Arc<AlignedBlock>,
    /// Tensors that need not be in the memory, by their offset.
    weights: RwLock<BTreeMap<usize, Arc<Weight>>>,
    _planned: Planned,
}

impl RepackBuffer {
    /// The bytes of a tensor in this buffer.
    ///
    /// # Safety
    /// No other code uses them while the result is used.
    #[allow(clippy::mut_from_ref)] // the caller's promise
    unsafe fn bytes(&self, t: TensorRef) -> &mut [u8] {
        let (base, start) = (self.memory.as_ptr(), t.data().addr());
        let at = start.wrapping_sub(base.addr());
        let size = t.nbytes();
        assert!(at <= self.memory.size() && size <= self.memory.size() - at, "'{}' is not in this buffer", t.name());
        // SAFETY: by the assertion, the bytes are in the block, which is not freed before `self`. The caller promises
        // that no other code uses them.
        unsafe { std::slice::from_raw_parts_mut(base.add(at), size) }
    }

    /// Where a tensor is, in bytes from the start of the buffer.
    pub(super) fn offset(&self, t: TensorRef) -> usize {
        t.data().addr().wrapping_sub(self.memory.as_ptr().addr())
    }

    /// The weight that has the byte at an offset, and where it has it.
    pub(super) fn weight(&self, offset: usize) -> Option<(Arc<Weight>, usize)> {
        let weights = brief_read(&self.weights);
        let (start, weight) = weights.range(..=offset).next_back()?;
        let at = offset - start;
        (at < weight.size()).then(|| (Arc::clone(weight), at))
    }

    /// Sets a whole tensor to bytes of a file that the host has mapped, which are read later. Returns false if they are
    /// a part of a tensor, or cannot be read later.
    fn read_later(&self, t: TensorRef, mapping: &FileMapping<'_>, offset: usize) -> bool {
        let size = mapping.bytes().len();
        let is_whole = offset == 0 && size == t.nbytes() && t.view_src().is_none();
        let Some(strips) = strips(t).filter(|_| is_whole) else { return false };
        let Some(origin) = FilePart::of(mapping) else { return false };
        let at = self.offset(t);
        self.end(at..at + size, true);
        relief::register();
        let matrices = (t.ne()[2] * t.ne()[3]) as usize;
        // SAFETY: `bytes` checks that the tensor is in the memory. The contract of `Buffer`: no other code uses the
        // tensor now. Later only products read it, which hold it (`cpu::exec`), and this buffer, which looks it up
        // first.
        let weight = unsafe {
            self.bytes(t);
            Weight::new(Arc::clone(&self.memory), at, strips, origin, matrices)
        };
        brief_write(&self.weights).insert(at, Arc::clone(&weight));
        // The host has perhaps touched them all.
        mapping.give_back(0..size);
        loader::push(&weight);
        true
    }

    /// Tensors with bytes in a range of the buffer, which are written, are read from their files no more. `is_whole` is
    /// whether all of their bytes in the range are written.
    fn end(&self, range: Range<usize>, is_whole: bool) {
        let ended: Vec<(usize, Arc<Weight>)> = {
            let weights = brief_read(&self.weights);
            let has_bytes = |(start, weight): &(&usize, &Arc<Weight>)| **start + weight.size() > range.start;
            weights.range(..range.end).filter(has_bytes).map(|(start, weight)| (*start, Arc::clone(weight))).collect()
        };
        for (at, weight) in ended {
            let is_replaced = is_whole && range.start <= at && at + weight.size() <= range.end;
            if !is_replaced && weight.hold() {
                if let Err(e) = weight.load_all(&mut Reader::new(true)) {
                    log_error!("CPU_REPACK: a tensor of which a part was written has lost the rest: {e}");
                }
                weight.stay();
                weight.release();
            }
            weight.end();
            brief_write(&self.weights).remove(&at);
        }
    }

    /// Writes bytes `range` of a tensor; see [`strips::Strips::write`].
    fn write(&self, t: TensorRef, range: Range<usize>, new: New<'_>, source: Option<&FileMapping<'_>>) {
        let at = self.offset(t);
        self.end(at..at.saturating_add(t.nbytes()), range == (0..t.nbytes()));
        // SAFETY: the contract of `Buffer`: no other code uses a tensor while it is written.
        let memory = unsafe { self.bytes(t) };
        match strips(t) {
            Some(s) => s.write(memory, range, new, source),
            None => new.write(0, &mut memory[range]),
        }
    }
}

impl Drop for RepackBuffer {
    fn drop(&mut self) {
        // Threads may still have them: they should begin no other one.
        let weights = brief_write(&self.weights);
        weights.values().for_each(|weight| weight.is_wanted_no_more());
        weights.values().for_each(|weight| weight.end());
    }
}

impl Buffer for RepackBuffer {
    fn base(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    fn memset(&self, t: TensorRef, value: u8, offset: usize, size: usize) {
        self.write(t, offset..offset + size, New::Fill(value), None);
    }

    fn set(&self, t: TensorRef, data: &[u8], offset: usize) {
        let source = if data.len() >= LATER { FileMapping::of(data) } else { None };
        if source.as_ref().is_some_and(|mapping| self.read_later(t, mapping, offset)) {
            return;
        }
        self.write(t, offset..offset + data.len(), New::Bytes(data), source.as_ref());
    }

    fn get(&self, t: TensorRef, data: &mut [u8], offset: usize) {
        if let Some((weight, at)) = self.weight(self.offset(t)) {
            if let Err(e) = weight.read(at + offset, data) {
                log_error!("CPU_REPACK: '{}' cannot be read: {e}", t.name());
                data.fill(NOT_READ);
            }
            return;
        }
        // SAFETY: the contract of `Buffer`: no code writes a tensor while it is read.
        let memory = unsafe { self.bytes(t) };
        match strips(t) {
            Some(s) => s.read(memory, offset, data),
            None => data.copy_from_slice(&memory[offset..][..data.len()]),
        }
    }

    fn clear(&self, _: BufferRef, value: u8) {
        self.end(0..self.memory.size(), true);
        // All bytes are equal, in whichever order they are.
        // SAFETY: the block has so many bytes, and by the contract of `Buffer` no other code uses them during the call.
        unsafe { self.memory.as_ptr().write_bytes(value, self.memory.size()) }
    }
}

/// What buffers of this type keep.
struct Keeper;

impl keeper::Keeper for Keeper {
    fn bytes_of(&self, t: TensorRef) -> WeightBytes {
        if !is_interleaved(t) {
            return WeightBytes::default();
        }
        let bytes = t.nbytes() as u64;
        WeightBytes { interleaved: bytes, from_file: if is_from_file(t) { bytes } else { 0 } }
    }

    fn account(&self) -> keeper::Account {
        account()
    }
}
