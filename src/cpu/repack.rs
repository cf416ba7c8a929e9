//! The buffer type "CPU_REPACK", for weights of matrix products. Its tensors are interleaved when they are set (`simd::interleave`), so that products
//! read them without rearranging them first. Hosts find it among the additional buffer types of the CPU device, and use it for the tensors of
//! the operations that the device supports with it; others read such a tensor through the buffer's functions, which restore its bytes.

use super::simd::interleave::{Interleaved, restore};
use super::simd::{Level, kernels};
use super::{device, numa};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_type;
use crate::backend::author::{Buffer, BufferType, leak_buffer_type};
use crate::backend::{BufferRef, BufferTypeRef};
use crate::error::Result;
use crate::sys::mapping::FileMapping;
use crate::sys::memory::AlignedBlock;
use crate::tensor::TensorRef;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::OnceLock;

/// Alignment of tensors in bytes.
const ALIGNMENT: usize = 64;
/// Bytes from which a tensor is interleaved by several threads.
const LARGE: usize = 1 << 20;
/// Bytes that a thread interleaves before it gives back the memory that they came from: a process has so much more for
/// each thread.
const PIECE: usize = 512 << 10;

/// The buffer type.
pub fn buffer_type() -> BufferTypeRef {
    static TYPE: OnceLock<BufferTypeRef> = OnceLock::new();
    *crate::sys::sync::once(&TYPE, || leak_buffer_type(Some(device::device()), Repack))
}

/// Whether this processor has kernels for which the buffer type is worth its memory.
pub fn is_offered() -> bool {
    kernels().level >= Level::Avx2
}

/// Whether a tensor is in a buffer of this type.
pub fn holds(t: TensorRef) -> bool {
    t.buffer().is_some_and(|b| b.buft() == buffer_type())
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

/// What a tensor, or a part of it, is set to.
#[derive(Clone, Copy)]
enum New<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// All bytes have this value.
    Fill(u8),
}

impl<'a> New<'a> {
    /// Writes the bytes from `at` on.
    fn write(self, at: usize, to: &mut [u8]) {
        match self {
            Self::Bytes(data) => to.copy_from_slice(&data[at..][..to.len()]),
            Self::Fill(value) => to.fill(value),
        }
    }

    /// The mapped file that the bytes are in, if they are in one.
    fn source(self) -> Option<FileMapping<'a>> {
        match self {
            Self::Bytes(data) => FileMapping::of(data),
            Self::Fill(_) => None,
        }
    }
}

/// The strips of a tensor.
struct Strips {
    kernels: &'static Interleaved,
    /// Bytes of a row.
    row: usize,
}

/// The strips of a tensor in a buffer of this type, or `None` if its data is stored as usual.
fn strips(t: TensorRef) -> Option<Strips> {
    let f = kernels().interleaved[ggml_type::from_raw(t.dtype_raw())? as usize].as_ref()?;
    let (ne, nb) = (t.ne(), t.nb());
    let values = usize::try_from(ne[0]).ok().filter(|n| n.is_multiple_of(f.shape.values))?;
    let row = values / f.shape.values * f.shape.bytes;
    let whole = usize::try_from(ne[1]).is_ok_and(|rows| rows.is_multiple_of(f.lanes));
    (whole && row > 0 && nb[0] == f.shape.bytes && t.is_contiguous()).then_some(Strips { kernels: f, row })
}

impl Strips {
    /// Bytes of a strip.
    fn bytes(&self) -> usize {
        self.row * self.kernels.lanes
    }

    /// Interleaves the rows of a strip.
    fn interleave(&self, rows: &[u8], strip: &mut [u8]) {
        assert!(rows.len() == self.bytes() && strip.len() == self.bytes());
        let at: Vec<*const u8> = rows.chunks_exact(self.row).map(<[u8]>::as_ptr).collect();
        let Interleaved { shape, interleave, .. } = self.kernels;
        // SAFETY: the contract of `Interleave`: `at` has an address for each lane, each with a row of whole blocks, and `strip` has room for all of
        // them. A `&mut` does not overlap them.
        unsafe { interleave(self.row / shape.bytes * shape.values, at.as_ptr(), strip.as_mut_ptr()) }
    }

    /// The rows of a strip.
    fn restore(&self, strip: &[u8], rows: &mut [u8]) {
        restore(self.kernels, strip, rows, self.row);
    }

    /// The strips that bytes `range` of a tensor are in: number, and the part of the strip's rows.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let size = self.bytes();
        let last = if range.is_empty() { range.start / size } else { range.end.div_ceil(size) };
        (range.start / size..last).map(move |i| {
            let (start, end) = (range.start.max(i * size), range.end.min((i + 1) * size));
            (i, start - i * size..end - i * size)
        })
    }

    /// Writes bytes `range` of a tensor whose strips are in `memory`.
    fn write(&self, memory: &mut [u8], range: Range<usize>, new: New<'_>) {
        let (size, start, end) = (self.bytes(), range.start, range.end);
        let one = |((i, part), strip): ((usize, Range<usize>), &mut [u8])| {
            let at = i * size + part.start - start;
            if let (New::Bytes(data), true) = (new, part.len() == size) {
                return self.interleave(&data[at..][..size], strip);
            }
            let mut rows = vec![0; size];
            self.restore(strip, &mut rows);
            new.write(at, &mut rows[part.clone()]);
            self.interleave(&rows, strip);
        };
        if end - start < LARGE {
            let strips = memory[start / size * size..].chunks_exact_mut(size);
            return self.parts(range).zip(strips).for_each(one);
        }
        let (source, first) = (new.source(), start / size * size);
        let piece = PIECE.next_multiple_of(size);
        let pieces = (first..end).step_by(piece).map(|at| at.max(start)..at.saturating_add(piece).min(end));
        let pieces: Vec<_> = pieces.zip(memory[first..].chunks_mut(piece)).collect();
        numa::for_each(pieces, |(range, memory): (Range<usize>, &mut [u8])| {
            self.parts(range.clone()).zip(memory.chunks_exact_mut(size)).for_each(one);
            if let Some(source) = &source {
                source.give_back(range.start - start..range.end - start);
            }
        });
        if let Some(source) = &source {
            // Also the pages that two pieces share.
            source.give_back(0..end - start);
        }
    }

    /// Reads bytes `offset..` of a tensor whose strips are in `memory`.
    fn read(&self, memory: &[u8], offset: usize, out: &mut [u8]) {
        let size = self.bytes();
        let mut rows = vec![0; size];
        for (i, part) in self.parts(offset..offset + out.len()) {
            self.restore(&memory[i * size..][..size], &mut rows);
            out[i * size + part.start - offset..][..part.len()].copy_from_slice(&rows[part]);
        }
    }
}

struct Repack;

impl BufferType for Repack {
    type Buffer = RepackBuffer;

    fn name(&self) -> &CStr {
        c"CPU_REPACK"
    }

    fn alloc(&self, size: usize) -> Result<RepackBuffer> {
        // Zeros, since a tensor may be written in parts. Threads that interleave its rows touch them first.
        Ok(RepackBuffer { memory: AlignedBlock::zeroed_pages(size, ALIGNMENT, "a CPU_REPACK buffer")? })
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }
}

/// Memory with interleaved tensors.
struct RepackBuffer {
    memory: AlignedBlock,
}

impl RepackBuffer {
    /// The bytes of a tensor in this buffer.
    ///
    /// # Safety
    /// Nobody else uses them while the result is used.
    #[allow(clippy::mut_from_ref)] // the caller's promise
    unsafe fn bytes(&self, t: TensorRef) -> &mut [u8] {
        let (base, start) = (self.memory.as_ptr(), t.data().addr());
        let at = start.wrapping_sub(base.addr());
        let size = t.nbytes();
        assert!(at <= self.memory.size() && size <= self.memory.size() - at, "'{}' is not in this buffer", t.name());
        // SAFETY: by the assertion, the bytes are in the block, which lives as long as `self`. The caller promises that nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(base.add(at), size) }
    }

    /// Writes bytes `range` of a tensor; see [`Strips::write`].
    fn write(&self, t: TensorRef, range: Range<usize>, new: New<'_>) {
        // SAFETY: the contract of `Buffer`: nobody uses a tensor while it is written.
        let memory = unsafe { self.bytes(t) };
        match strips(t) {
            Some(s) => s.write(memory, range, new),
            None => new.write(0, &mut memory[range]),
        }
    }
}

impl Buffer for RepackBuffer {
    fn base(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    fn memset(&self, t: TensorRef, value: u8, offset: usize, size: usize) {
        self.write(t, offset..offset + size, New::Fill(value));
    }

    fn set(&self, t: TensorRef, data: &[u8], offset: usize) {
        self.write(t, offset..offset + data.len(), New::Bytes(data));
    }

    fn get(&self, t: TensorRef, data: &mut [u8], offset: usize) {
        // SAFETY: the contract of `Buffer`: nobody writes a tensor while it is read.
        let memory = unsafe { self.bytes(t) };
        match strips(t) {
            Some(s) => s.read(memory, offset, data),
            None => data.copy_from_slice(&memory[offset..][..data.len()]),
        }
    }

    fn clear(&self, _: BufferRef, value: u8) {
        // All bytes are equal, in whichever order they are.
        // SAFETY: the block has so many bytes, and by the contract of `Buffer` nobody uses them during the call.
        unsafe { self.memory.as_ptr().write_bytes(value, self.memory.size()) }
    }
}
