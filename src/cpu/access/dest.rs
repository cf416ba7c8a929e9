//! The tensor that a kernel writes: [`Dest`] for elements and rows, [`Writer`] for rows in single precision.

use super::layout::{Layout, Overlap, RowIndex};
use super::source::{Apart, Plain, Source};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::convert;
use crate::cpu::worker::claims::Claims;
use crate::quant::convert::{f32_to_bf16, f32_to_f16_with_payload};
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// One thread's access to the result of a node.
pub struct Dest<'a> {
    data: *mut u8,
    at: Layout,
    overlap: Overlap,
    thread: usize,
    claims: &'a Claims,
    /// Bit `i` is set if this thread has taken source `i` for writing.
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
    /// Access to `tensor`, whose sources overlap it as `overlap` says.
    ///
    /// # Safety
    /// - The layout is inside memory that is readable and writable for `'a`, and no two elements share a byte.
    /// - Each thread has one `Dest` of the tensor, with its own `thread` number.
    /// - Nothing else uses the memory, except sources that overlap it as `overlap` says.
    pub unsafe fn new(tensor: TensorRef, overlap: Overlap, thread: usize, claims: &'a Claims) -> Self {
        let at = Layout::of(tensor);
        Self { data: tensor.data(), at, overlap, thread, claims, taken: 0, memory: PhantomData }
    }

    /// Access to the layout `at` of memory at `data`; see [`super::Workspace`].
    ///
    /// # Safety
    /// As for [`Dest::new`], with `at` as the layout and no sources.
    pub(super) unsafe fn of_memory(data: *mut u8, at: Layout, thread: usize, claims: &'a Claims) -> Self {
        Self { data, at, overlap: Overlap::None, thread, claims, taken: 0, memory: PhantomData }
    }

    /// This thread's access to `source`, source number `bit` of the same node, for writing.
    ///
    /// # Safety
    /// As for [`Dest::new`], with `source` as the tensor, no sources, and this `Dest`'s thread.
    pub(in crate::cpu) unsafe fn of_source(&mut self, source: TensorRef, bit: usize) -> Self {
        assert!(self.taken & 1 << bit == 0, "source {bit} is taken already");
        self.taken |= 1 << bit;
        // SAFETY: the caller promises what `new` requires of `source`. The assertion above ensures one `Dest` for each
        // thread.
        unsafe { Self::new(source, Overlap::None, self.thread, self.claims) }
    }

    /// Where the memory starts.
    pub(in crate::cpu) fn address(&self) -> usize {
        self.data.addr()
    }

    /// The finished contents for reading, after a barrier; see [`super::publish`].
    ///
    /// # Safety
    /// No thread writes the memory for the rest of `'a`.
    pub(super) unsafe fn written(self) -> Apart<'a> {
        // SAFETY: the memory is readable by the promise of `new`, and the caller promises that no thread writes it.
        unsafe { Apart::of_memory(self.data, self.at) }
    }

    /// The same elements as one row. Panics unless they are dense.
    pub fn flat(self) -> Self {
        Self { at: self.at.flattened(), ..self }
    }

    /// The part with layout `part` at byte `offset` of dense numbers, or `None` unless [`Layout::holds`] it.
    pub fn window(self, part: Layout, offset: usize) -> Option<Self> {
        self.holds(&part, offset).then(|| Self { data: self.data.wrapping_add(offset), at: part, ..self })
    }

    /// Address of an element, block or span at an offset that the layout has checked. Records that this thread writes
    /// `len` bytes there.
    #[inline]
    fn claim<T>(&mut self, offset: usize, len: usize) -> *mut T {
        let p = self.data.wrapping_add(offset);
        self.claims.write(self.thread, p.addr(), len);
        p.cast()
    }

    /// Address of elements `part` of a row of contiguous floats. Records that this thread writes them.
    #[inline]
    pub fn floats(&mut self, row: RowIndex, part: Range<usize>) -> *mut f32 {
        assert!(self.dtype == GGML_TYPE_F32 && part.start <= part.end && part.end <= self.ne[0]);
        self.claim(self.at.dense_row(row) + part.start * size_of::<f32>(), part.len() * size_of::<f32>())
    }

    /// One element of a tensor of plain numbers. No other thread may write it before the next barrier.
    #[inline]
    pub fn get<T: Plain>(&self, i0: usize, row: RowIndex) -> T {
        let p = self.data.wrapping_add(self.at.element::<T>(i0, row));
        self.claims.read(self.thread, p.addr(), size_of::<T>());
        // SAFETY: the layout has checked the index, and it is inside readable memory by the promise of `new`.
        unsafe { p.cast::<T>().read_unaligned() }
    }

    /// Writes one element of a tensor of plain numbers.
    #[inline]
    pub fn set<T: Plain>(&mut self, i0: usize, row: RowIndex, value: T) {
        let p = self.claim::<T>(self.at.element::<T>(i0, row), size_of::<T>());
        // SAFETY: the layout has checked the index, and it is inside writable memory by the promise of `new`. The
        // kernel writes the element on this thread only, which debug builds check (`Claims`).
        unsafe { p.write_unaligned(value) }
    }

    /// Whether rows are contiguous and aligned, and their elements have the size of `T`.
    pub fn is_sliceable<T: Plain>(&self) -> bool {
        self.at.is_sliceable::<T>(self.data.addr())
    }

    /// A row of plain numbers for writing.
    #[inline]
    pub fn row_mut<T: Plain>(&mut self, row: RowIndex) -> &mut [T] {
        assert!(self.is_sliceable::<T>());
        let n = self.ne[0];
        let p = self.claim(self.at.offset(row), n * size_of::<T>());
        // SAFETY: an aligned row of the layout, writable by the promise of `new`. The kernel writes it on this thread
        // only (`Claims`). The slice borrows the only `Dest` of this thread, so there is no second one; sources that
        // overlap are not borrowed (`try_apart`).
        unsafe { std::slice::from_raw_parts_mut(p, n) }
    }

    /// The bytes of a row of contiguous blocks or numbers for writing.
    #[cfg(any(test, fuzzing))]
    pub fn bytes_mut(&mut self, row: RowIndex) -> &mut [u8] {
        assert!(self.has_dense_rows());
        let n = self.ne[0] / self.block() * self.dtype.type_size();
        let p = self.claim(self.at.offset(row), n);
        // SAFETY: a row of the layout, writable by the promise of `new`. One thread writes it, and the slice borrows
        // its only `Dest`.
        unsafe { std::slice::from_raw_parts_mut(p, n) }
    }

    /// `n` numbers of a dense result, starting at number `start`, for writing.
    #[inline]
    pub fn span_mut<T: Plain>(&mut self, start: usize, n: usize) -> &mut [T] {
        let range = start..start + n;
        let [span] = self.spans_mut([range]);
        span
    }

    /// Several ranges of numbers of a dense result for writing. Panics if two of them overlap.
    pub fn spans_mut<T: Plain, const N: usize>(&mut self, ranges: [Range<usize>; N]) -> [&mut [T]; N] {
        for (i, r) in ranges.iter().enumerate() {
            assert!(ranges[..i].iter().all(|s| r.end <= s.start || s.end <= r.start), "{ranges:?} overlap");
        }
        ranges.map(|r| {
            let p = self.claim::<T>(self.at.span::<T>(r.start, r.len()), r.len() * size_of::<T>());
            assert!(p.is_aligned());
            // SAFETY: `span` has checked the range, `p` is aligned, and the layout is inside writable memory by the
            // promise of `new`. The ranges are disjoint and only this thread writes them (`Claims`). The slices borrow
            // the only `Dest` of this thread.
            unsafe { std::slice::from_raw_parts_mut(p, r.len()) }
        })
    }

    /// Copies a row of `source` to the start of a row. Both have the same format.
    pub fn copy_row(&mut self, row: RowIndex, source: &Source<'_>, from: RowIndex) {
        self.copy_blocks(row, 0, source, from, 0, source.row_blocks());
    }

    /// Copies rows of `source`, which has the same format and rows as long, without gaps: the first of each pair is the
    /// row to write.
    pub fn copy_rows(&mut self, source: &Source<'_>, rows: impl Iterator<Item = (RowIndex, RowIndex)>) {
        assert!(self.dtype == source.dtype && self.ne[0] == source.ne[0]);
        assert!(self.has_dense_rows() && source.has_dense_rows());
        let bytes = self.row_blocks() * self.dtype.type_size();
        for (row, from) in rows {
            let (to, read) = (self.at.offset(row), source.offset(from));
            // SAFETY: rows of both layouts, whose elements are contiguous. They are readable by the promise of
            // `Source::new` and writable by that of `Dest::new`, and `copy` allows overlap.
            unsafe { std::ptr::copy(source.at::<u8>(read), self.claim::<u8>(to, bytes), bytes) }
        }
    }

    /// Copies `n` blocks (or plain numbers) of a row of `source`, starting at block `start`, to a row, starting at
    /// block `i`. Both have the same format.
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
            // SAFETY: `Layout::blocks` has checked both ranges. They are readable by the promise of `Source::new` and
            // writable by that of `Dest::new`, and `copy` allows overlap.
            unsafe { std::ptr::copy(source.at::<u8>(read), self.claim::<u8>(to, n * size), n * size) }
            return;
        }
        for k in 0..n {
            let p = self.claim::<u8>(to + k * self.nb[0], size);
            // SAFETY: block `k` of the ranges that `Layout::blocks` has checked. It is readable by the promise of
            // `Source::new` and writable by that of `Dest::new`, and `copy` allows overlap.
            unsafe { std::ptr::copy(source.at::<u8>(read + k * source.nb[0]), p, size) }
        }
    }

    /// Copies a range of bytes of a dense source to the same place in a dense result with the same format and number of
    /// elements.
    pub fn copy_bytes(&mut self, source: &Source<'_>, range: Range<usize>) {
        let len = self.packed_bytes();
        assert!(self.dtype == source.dtype && self.len() == source.len() && self.is_dense() && source.is_dense());
        assert!(range.start <= range.end && range.end <= len);
        let p = self.claim::<u8>(range.start, range.len());
        // SAFETY: the range is inside both layouts, which are as long. It is readable by the promise of `Source::new`
        // and writable by that of `Dest::new`, and `copy` allows overlap.
        unsafe { std::ptr::copy(source.at::<u8>(range.start), p, range.len()) }
    }

    /// Converts `x` to the tensor's format and writes it to a row, starting at element `start`, the first of a block.
    pub fn store(&mut self, row: RowIndex, start: usize, x: &[f32]) {
        assert!(start + x.len() <= self.ne[0]);
        if x.is_empty() {
            return;
        }
        let dtype = self.dtype;
        // For a few elements, calling the vectorised conversion costs more than converting them one by one.
        let short = x.len() < 4 && matches!(dtype, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16);
        if self.has_dense_rows() && !short {
            let part = self.at.packed(start, x.len());
            let p = self.claim(self.at.offset(row) + part.start, part.len());
            // SAFETY: `x.len()` elements inside a dense row, writable by the promise of `new`. Only this thread writes
            // them (`Claims`), and the slice borrows its only `Dest`.
            convert::from_f32(dtype, x, unsafe { std::slice::from_raw_parts_mut(p, part.len()) });
            return;
        }
        match dtype {
            GGML_TYPE_F32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x)),
            GGML_TYPE_F16 => {
                x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, f32_to_f16_with_payload(x)))
            }
            GGML_TYPE_BF16 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, f32_to_bf16(x))),
            GGML_TYPE_I32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x as i32)),
            _ => {
                let (block, size) = (self.block(), dtype.type_size());
                assert!(start.is_multiple_of(block) && x.len().is_multiple_of(block));
                for (k, x) in x.chunks_exact(block).enumerate() {
                    let p = self.claim(self.at.blocks(row, start / block + k, 1), size);
                    // SAFETY: a block that `Layout::blocks` has checked, writable by the promise of `new`. Only this
                    // thread writes it (`Claims`), and the slice borrows its only `Dest`.
                    convert::from_f32(dtype, x, unsafe { std::slice::from_raw_parts_mut(p, size) });
                }
            }
        }
    }
}

/// Writes rows of the result in single precision, whatever its format and strides.
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
    /// Creates a writer of the rows of `dest`.
    pub fn new(dest: Dest<'a>) -> Self {
        let direct = dest.dtype == GGML_TYPE_F32 && dest.is_sliceable::<f32>() && dest.overlap != Overlap::Partial;
        Self { dest, direct, buf: Vec::new() }
    }

    /// The underlying result.
    pub fn dest(&mut self) -> &mut Dest<'a> {
        &mut self.dest
    }

    /// Passes a row to `f` for writing. Its contents are unspecified before.
    #[inline]
    pub fn row<R>(&mut self, row: RowIndex, f: impl FnOnce(&mut [f32]) -> R) -> R {
        self.part(row, 0..self.dest.ne[0], f)
    }

    /// Passes part of a row to `f` for writing. Its contents are unspecified before.
    #[inline]
    pub fn part<R>(&mut self, row: RowIndex, part: Range<usize>, f: impl FnOnce(&mut [f32]) -> R) -> R {
        if self.direct {
            let at = self.dest.at.element::<f32>(part.start, row);
            assert!(part.start <= part.end && part.end <= self.dest.ne[0]);
            let p = self.dest.claim::<f32>(at, part.len() * size_of::<f32>());
            // SAFETY: the part is inside a row that is contiguous, aligned and writable (`is_sliceable`, the promise of
            // `Dest::new`). Only this thread writes it (`Claims`), and the slice borrows its only `Dest`.
            return f(unsafe { std::slice::from_raw_parts_mut(p, part.len()) });
        }
        self.buf.resize(part.len(), 0.0);
        let r = f(&mut self.buf);
        self.dest.store(row, part.start, &self.buf);
        r
    }
}
