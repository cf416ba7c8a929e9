//! The strips of interleaved tensors: rows are interleaved and restored.

use crate::abi::ggml::ggml_type;
use crate::cpu::numa;
use crate::cpu::simd::interleave::{Interleaved, restore};
use crate::cpu::simd::kernels;
use crate::error::Result;
use crate::sys::file_part::{Buffer, Cache, FilePart};
use crate::sys::mapping::FileMapping;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes from which a tensor is interleaved by several threads.
pub const LARGE: usize = 1 << 20;
/// Bytes that a thread interleaves before it gives back the memory that they came from: a process has so much more for
/// each thread.
const PIECE: usize = 512 << 10;
/// Most bytes that are read at once past the system's cache. Devices reach their speed with large requests only: one
/// reads 0.65 GB/s with pieces of 1 MiB, and 1.6 GB/s from 2 MiB on.
const DIRECT_PIECE: usize = 4 << 20;

/// What a tensor, or a part of it, is set to.
#[derive(Clone, Copy)]
pub enum New<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// All bytes have this value.
    Fill(u8),
}

impl New<'_> {
    /// Writes the bytes from `at` on.
    pub fn write(self, at: usize, to: &mut [u8]) {
        match self {
            Self::Bytes(data) => to.copy_from_slice(&data[at..][..to.len()]),
            Self::Fill(value) => to.fill(value),
        }
    }
}

/// How rows are read.
pub struct Reader {
    pub cache: Cache,
    /// Whether it uses several threads.
    pub threads: bool,
    /// Whether it stops when the host needs the processors.
    pub gives_way: bool,
    pub buffer: Buffer,
}

impl Reader {
    /// One thread, or several.
    pub fn new(threads: bool) -> Self {
        Self { cache: Cache::Kept, threads, gives_way: false, buffer: Buffer::default() }
    }

    /// If memory is scarce, pages of files need not stay there.
    pub fn set_tight(&mut self, is_tight: bool) {
        self.cache = if is_tight { Cache::Passed } else { Cache::Kept };
    }
}

/// The strips of a tensor.
#[derive(Clone, Copy)]
pub struct Strips {
    kernels: &'static Interleaved,
    /// Bytes of a row.
    row: usize,
}

/// The strips of a tensor in a buffer of this type, or `None` if its data is stored as usual.
pub fn strips(t: TensorRef) -> Option<Strips> {
    let f = kernels().interleaved[ggml_type::from_raw(t.dtype_raw())? as usize].as_ref()?;
    let (ne, nb) = (t.ne(), t.nb());
    let values = usize::try_from(ne[0]).ok().filter(|n| n.is_multiple_of(f.shape.values))?;
    let row = values / f.shape.values * f.shape.bytes;
    let whole = usize::try_from(ne[1]).is_ok_and(|rows| rows.is_multiple_of(f.lanes));
    (whole && row > 0 && nb[0] == f.shape.bytes && t.is_contiguous()).then_some(Strips { kernels: f, row })
}

impl Strips {
    /// Bytes of a strip.
    pub fn bytes(&self) -> usize {
        self.row * self.kernels.lanes
    }

    /// Interleaves the rows of a strip.
    fn interleave(&self, rows: &[u8], strip: &mut [u8]) {
        assert!(rows.len() == self.bytes() && strip.len() == self.bytes());
        let at: Vec<*const u8> = rows.chunks_exact(self.row).map(<[u8]>::as_ptr).collect();
        let Interleaved { shape, interleave, .. } = self.kernels;
        // SAFETY: the contract of `Interleave`: `at` has an address for each lane, each with a row of whole blocks, and
        // `strip` has room for all of them. A `&mut` does not overlap them.
        unsafe { interleave(self.row / shape.bytes * shape.values, at.as_ptr(), strip.as_mut_ptr(), std::ptr::null()) }
    }

    /// Interleaves the rows of several strips.
    pub fn interleave_all(&self, rows: &[u8], strips: &mut [u8]) {
        assert!(rows.len() == strips.len());
        let strips = strips.chunks_exact_mut(self.bytes());
        rows.chunks_exact(self.bytes()).zip(strips).for_each(|(rows, strip)| self.interleave(rows, strip));
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

    /// Writes bytes `range` of a tensor whose strips are in `memory`. Pages of `source`, the mapping of the new bytes,
    /// are given back if they are many.
    pub fn write(&self, memory: &mut [u8], range: Range<usize>, new: New<'_>, source: Option<&FileMapping<'_>>) {
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
        let first = start / size * size;
        let piece = PIECE.next_multiple_of(size);
        let pieces = (first..end).step_by(piece).map(|at| at.max(start)..at.saturating_add(piece).min(end));
        let pieces: Vec<_> = pieces.zip(memory[first..].chunks_mut(piece)).collect();
        numa::for_each(pieces, |(range, memory): (Range<usize>, &mut [u8])| {
            self.parts(range.clone()).zip(memory.chunks_exact_mut(size)).for_each(one);
            if let Some(source) = source {
                source.give_back(range.start - start..range.end - start);
            }
        });
        if let Some(source) = source {
            // Also the pages that two pieces share.
            source.give_back(0..end - start);
        }
    }

    /// Interleaves the rows of whole strips, from byte `at` of a file on, into `memory`. Calls `before` with each part
    /// of it that will be written.
    ///
    /// # Errors
    /// If the rows cannot be read, and those of `before`.
    pub fn fill(
        &self,
        memory: &mut [u8],
        origin: &FilePart,
        at: usize,
        reader: &mut Reader,
        before: impl Fn(Range<usize>) -> Result<()> + Sync,
    ) -> Result<()> {
        let size = if reader.cache == Cache::Kept { PIECE } else { DIRECT_PIECE };
        // Of one size, so that none is small.
        let piece = memory.len().div_ceil(memory.len().div_ceil(size).max(1)).next_multiple_of(self.bytes());
        let one = |i: usize, memory: &mut [u8], buffer: &mut Buffer| {
            before(i * piece..i * piece + memory.len())?;
            let rows = origin.read_into(at + i * piece, memory.len(), buffer, reader.cache)?;
            self.interleave_all(rows, memory);
            Ok(())
        };
        let is_large = memory.len() >= LARGE;
        let mut pieces = memory.chunks_mut(piece).enumerate();
        if !reader.threads || !is_large {
            return pieces.try_for_each(|(i, memory)| one(i, memory, &mut reader.buffer));
        }
        let failed = Mutex::new(None);
        numa::for_each(pieces.collect(), |(i, memory)| {
            if let Err(e) = one(i, memory, &mut Buffer::default()) {
                lock(&failed).get_or_insert(e);
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Reads bytes `offset..` of a tensor whose strips are in `memory`.
    pub fn read(&self, memory: &[u8], offset: usize, out: &mut [u8]) {
        let size = self.bytes();
        let mut rows = vec![0; size];
        for (i, part) in self.parts(offset..offset + out.len()) {
            self.restore(&memory[i * size..][..size], &mut rows);
            out[i * size + part.start - offset..][..part.len()].copy_from_slice(&rows[part]);
        }
    }
}
