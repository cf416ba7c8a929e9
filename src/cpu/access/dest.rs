//! What a kernel writes.

use super::claims::Claims;
use super::layout::{Layout, RowIndex};
use super::source::{Apart, Plain, Source};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::check::Overlap;
use crate::cpu::convert;
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// A result, as one of the threads sees it that compute the node.
pub struct Dest<'a> {
    data: *mut u8,
    at: Layout,
    overlap: Overlap,
    thread: usize,
    claims: &'a Claims,
    /// Sources that this thread has taken to be written, a bit for each.
    taken: u32,
    memory: PhantomData<&'a mut u8>,
}

impl Deref for Dest<'_> {
    type Target = Layout;
    #[inline]
    fn deref(&self) -> &Layout {
        &self.at
    }
}

impl<'a> Dest<'a> {
    /// Writes `tensor`, whose sources lie to it as `overlap` says.
    ///
    /// # Safety
    /// The layout stays inside memory that is writable for `'a`, and no two elements share a byte. Each thread has one, with a number of
    /// its own; nothing else uses the memory, but what `overlap` says of sources.
    pub unsafe fn new(tensor: TensorRef, overlap: Overlap, thread: usize, claims: &'a Claims) -> Self {
        let at = Layout::of(tensor);
        Self { data: tensor.data(), at, overlap, thread, claims, taken: 0, memory: PhantomData }
    }

    /// Writes `at` from `data` on; see [`super::Workspace`].
    ///
    /// # Safety
    /// As for [`Dest::new`].
    pub(super) unsafe fn of_memory(data: *mut u8, at: Layout, thread: usize, claims: &'a Claims) -> Self {
        Self { data, at, overlap: Overlap::None, thread, claims, taken: 0, memory: PhantomData }
    }

    /// What this thread writes `source` with, a source of the same node; `bit` is its number.
    ///
    /// # Safety
    /// As for [`Dest::new`], for each thread that calls this.
    pub(in crate::cpu) unsafe fn of_source(&mut self, source: TensorRef, bit: usize) -> Self {
        assert!(self.taken & 1 << bit == 0, "source {bit} is taken already");
        self.taken |= 1 << bit;
        // SAFETY: the caller's promise.
        unsafe { Self::new(source, Overlap::None, self.thread, self.claims) }
    }

    pub(super) fn address(&self) -> usize {
        self.data.addr()
    }

    /// What is here when all threads have written it and met: [`super::publish`].
    ///
    /// # Safety
    /// No thread writes it any more, for `'a`.
    pub(super) unsafe fn written(self) -> Apart<'a> {
        // SAFETY: readable by the promise of `new`; the rest is the caller's.
        unsafe { Apart::of_memory(self.data, self.at) }
    }

    /// The same elements as one row; only for dense ones.
    pub fn flat(self) -> Self {
        Self { at: self.at.flattened(), ..self }
    }

    /// A part of dense numbers as a tensor of its own: `part`, from byte `offset` on. `None` unless [`Layout::holds`] says that it is one.
    pub fn window(self, part: Layout, offset: usize) -> Option<Self> {
        self.holds(&part, offset).then(|| Self { data: self.data.wrapping_add(offset), at: part, ..self })
    }

    /// Address of an element, block or span at an offset that the layout has checked. This thread writes `len` bytes there.
    #[inline]
    fn claim<T>(&mut self, offset: usize, len: usize) -> *mut T {
        let p = self.data.wrapping_add(offset);
        self.claims.write(self.thread, p.addr(), len);
        p.cast()
    }

    /// Address of elements `part` of a row of contiguous floats, which this thread writes.
    #[inline]
    pub fn floats(&mut self, row: RowIndex, part: Range<usize>) -> *mut f32 {
        assert!(self.dtype == GGML_TYPE_F32 && part.start <= part.end && part.end <= self.ne[0]);
        self.claim(self.at.dense_row(row) + part.start * size_of::<f32>(), part.len() * size_of::<f32>())
    }

    /// One element of a tensor of plain numbers, which no other thread writes before all have met.
    #[inline]
    pub fn get<T: Plain>(&self, i0: usize, row: RowIndex) -> T {
        let p = self.data.wrapping_add(self.at.element::<T>(i0, row));
        self.claims.read(self.thread, p.addr(), size_of::<T>());
        // SAFETY: the layout has checked the index, and stays inside readable memory: the promise of `new`.
        unsafe { p.cast::<T>().read_unaligned() }
    }

    /// Writes one element of a tensor of plain numbers.
    #[inline]
    pub fn set<T: Plain>(&mut self, i0: usize, row: RowIndex, value: T) {
        let p = self.claim::<T>(self.at.element::<T>(i0, row), size_of::<T>());
        // SAFETY: the layout has checked the index, and stays inside writable memory: the promise of `new`. The element is this thread's.
        unsafe { p.write_unaligned(value) }
    }

    /// Whether rows can be had as slices of `T`.
    pub fn is_sliceable<T: Plain>(&self) -> bool {
        self.at.is_sliceable::<T>(self.data.addr())
    }

    /// A row of plain numbers.
    #[inline]
    pub fn row_mut<T: Plain>(&mut self, row: RowIndex) -> &mut [T] {
        assert!(self.is_sliceable::<T>());
        let n = self.ne[0];
        let p = self.claim(self.at.offset(row), n * size_of::<T>());
        // SAFETY: an aligned row of the layout, writable by the promise of `new`. It is this thread's, which has no other reference into the
        // result while this one lives: it borrows the only `Dest`. Sources that overlap are never referred to.
        unsafe { std::slice::from_raw_parts_mut(p, n) }
    }

    /// The bytes of a row of contiguous blocks or numbers.
    #[cfg(any(test, fuzzing))]
    pub fn bytes_mut(&mut self, row: RowIndex) -> &mut [u8] {
        assert!(self.has_dense_rows());
        let n = self.ne[0] / self.block() * self.dtype.type_size();
        let p = self.claim(self.at.offset(row), n);
        // SAFETY: as in `row_mut`.
        unsafe { std::slice::from_raw_parts_mut(p, n) }
    }

    /// `n` numbers of a dense result from number `start` on.
    #[inline]
    pub fn span_mut<T: Plain>(&mut self, start: usize, n: usize) -> &mut [T] {
        let range = start..start + n;
        let [span] = self.spans_mut([range]);
        span
    }

    /// Several ranges of numbers of a dense result, none of which overlap.
    pub fn spans_mut<T: Plain, const N: usize>(&mut self, ranges: [Range<usize>; N]) -> [&mut [T]; N] {
        for (i, r) in ranges.iter().enumerate() {
            assert!(ranges[..i].iter().all(|s| r.end <= s.start || s.end <= r.start), "{ranges:?} overlap");
        }
        ranges.map(|r| {
            let p = self.claim::<T>(self.at.span::<T>(r.start, r.len()), r.len() * size_of::<T>());
            assert!(p.is_aligned());
            // SAFETY: as in `row_mut`; the ranges are disjoint.
            unsafe { std::slice::from_raw_parts_mut(p, r.len()) }
        })
    }

    /// Copies a row of `source`, of the same format, to the start of a row.
    pub fn copy_row(&mut self, row: RowIndex, source: &Source<'_>, from: RowIndex) {
        self.copy_blocks(row, 0, source, from, 0, source.ne[0] / source.block());
    }

    /// Copies `n` blocks (elements of plain numbers), from block `start` of a row of `source` on, to block `i` of a row on. The formats are the same.
    pub fn copy_blocks(
        &mut self,
        row: RowIndex,
        i: usize,
        source: &Source<'_>,
        from: RowIndex,
        start: usize,
        n: usize,
    ) {
        assert!(self.dtype == source.dtype);
        let (size, to, read) = (self.dtype.type_size(), self.at.blocks(row, i, n), source.blocks(from, start, n));
        if self.has_dense_rows() && source.has_dense_rows() {
            // SAFETY: both ranges lie inside their rows, which are readable and writable: the promises of `new`; `copy` allows overlap.
            unsafe { std::ptr::copy(source.at::<u8>(read), self.claim::<u8>(to, n * size), n * size) }
            return;
        }
        for k in 0..n {
            let p = self.claim::<u8>(to + k * self.nb[0], size);
            // SAFETY: as above, for one block.
            unsafe { std::ptr::copy(source.at::<u8>(read + k * source.nb[0]), p, size) }
        }
    }

    /// Copies a range of the bytes of a dense source to the same place in a dense result as long, of the same format.
    pub fn copy_bytes(&mut self, source: &Source<'_>, range: Range<usize>) {
        let len = self.packed_bytes();
        assert!(self.dtype == source.dtype && self.len() == source.len() && self.is_dense() && source.is_dense());
        assert!(range.start <= range.end && range.end <= len);
        let p = self.claim::<u8>(range.start, range.len());
        // SAFETY: the range lies inside both, which are readable and writable: the promises of `new`; `copy` allows overlap.
        unsafe { std::ptr::copy(source.at::<u8>(range.start), p, range.len()) }
    }

    /// Writes `x` to elements `start..` of a row in the tensor's format. In a format of blocks `start` is the start of one.
    pub fn store(&mut self, row: RowIndex, start: usize, x: &[f32]) {
        assert!(start + x.len() <= self.ne[0]);
        if x.is_empty() {
            return;
        }
        let (block, size, dtype) = (self.block(), self.dtype.type_size(), self.dtype);
        if self.has_dense_rows() {
            assert!(start.is_multiple_of(block) && x.len().is_multiple_of(block));
            let bytes = x.len() / block * size;
            let p = self.claim(self.at.offset(row) + start / block * size, bytes);
            // SAFETY: elements of a row, writable by the promise of `new`, and this thread's.
            convert::from_f32(dtype, x, unsafe { std::slice::from_raw_parts_mut(p, bytes) });
            return;
        }
        match dtype {
            GGML_TYPE_F32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x)),
            GGML_TYPE_F16 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, convert::to_f16(x))),
            GGML_TYPE_BF16 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, convert::to_bf16(x))),
            GGML_TYPE_I32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x as i32)),
            _ => {
                assert!(start.is_multiple_of(block) && x.len().is_multiple_of(block));
                for (k, x) in x.chunks_exact(block).enumerate() {
                    let p = self.claim(self.at.blocks(row, start / block + k, 1), size);
                    // SAFETY: one block of a row, writable by the promise of `new`, and this thread's.
                    convert::from_f32(dtype, x, unsafe { std::slice::from_raw_parts_mut(p, size) });
                }
            }
        }
    }
}

/// Rows of the result, written as single precision, whatever its format and strides.
pub struct Writer<'a> {
    dest: Dest<'a>,
    direct: bool,
    buf: Vec<f32>,
}

impl<'a> Deref for Writer<'a> {
    type Target = Dest<'a>;
    #[inline]
    fn deref(&self) -> &Dest<'a> {
        &self.dest
    }
}

impl<'a> Writer<'a> {
    /// Writes rows of `dest`.
    pub fn new(dest: Dest<'a>) -> Self {
        let direct = dest.dtype == GGML_TYPE_F32 && dest.is_sliceable::<f32>() && dest.overlap != Overlap::Partial;
        Self { dest, direct, buf: Vec::new() }
    }

    /// The result itself.
    pub fn dest(&mut self) -> &mut Dest<'a> {
        &mut self.dest
    }

    /// Lets `f` fill a row. What it finds there means nothing.
    #[inline]
    pub fn row<R>(&mut self, row: RowIndex, f: impl FnOnce(&mut [f32]) -> R) -> R {
        self.part(row, 0..self.dest.ne[0], f)
    }

    /// Lets `f` fill part of a row. What it finds there means nothing.
    #[inline]
    pub fn part<R>(&mut self, row: RowIndex, part: Range<usize>, f: impl FnOnce(&mut [f32]) -> R) -> R {
        if self.direct {
            let at = self.dest.at.element::<f32>(part.start, row);
            assert!(part.start <= part.end && part.end <= self.dest.ne[0]);
            let p = self.dest.claim::<f32>(at, part.len() * size_of::<f32>());
            // SAFETY: as in `Dest::row_mut`, for a part of the row.
            return f(unsafe { std::slice::from_raw_parts_mut(p, part.len()) });
        }
        self.buf.resize(part.len(), 0.0);
        let r = f(&mut self.buf);
        self.dest.store(row, part.start, &self.buf);
        r
    }
}
