//! Tensors that a kernel reads: [`Source`] copies elements, and [`Apart`] gives references.

use super::layout::{Layout, RowIndex};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::convert;
use crate::quant::convert::{bf16_to_f32, f16_to_f32};
use crate::sys::prefetch::prefetch;
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::Deref;

/// Plain numbers of tensors.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and it has no padding.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
   ($($number:ty)*) => {$(
       // SAFETY: an integer, a float or an array of integers: every bit pattern is a value, and there is no padding.
       unsafe impl Plain for $number {}
   )*};
}
plain!(f32 f64 u8 i8 u16 i16 u32 i32 i64 [u32; 2]);

/// A source of a node. It may overlap the result, so it copies elements; [`Source::apart`] gives references.
#[derive(Clone, Copy)]
pub struct Source<'g> {
    data: *const u8,
    at: Layout,
    graph: PhantomData<&'g u8>,
}

impl Deref for Source<'_> {
    type Target = Layout;
    #[inline]
    fn deref(&self) -> &Layout {
        &self.at
    }
}

impl<'g> Source<'g> {
    /// Access to `tensor`.
    ///
    /// # Safety
    /// The layout is inside memory that is readable for `'g`. No thread writes an element while this `Source` reads it.
    pub unsafe fn new(tensor: TensorRef) -> Self {
        Self { data: tensor.data(), at: Layout::of(tensor), graph: PhantomData }
    }

    /// The same layout in other memory. Panics unless `bytes` has all of it.
    pub fn in_bytes(self, bytes: &'g [u8]) -> Self {
        assert!(self.at.extent(0).end <= bytes.len(), "{} bytes for {:?}", bytes.len(), self.at);
        Self { data: bytes.as_ptr(), ..self }
    }

    /// The same elements as one row. Panics unless they are dense.
    pub fn flat(self) -> Self {
        Self { at: self.at.flattened(), ..self }
    }

    /// Address of an element, block or span at an offset that the layout has checked.
    #[inline]
    pub(super) fn at<T>(&self, offset: usize) -> *const T {
        self.data.wrapping_add(offset).cast()
    }

    /// One element of a tensor of plain numbers.
    #[inline]
    pub fn get<T: Plain>(&self, i0: usize, row: RowIndex) -> T {
        let p = self.at::<T>(self.at.element::<T>(i0, row));
        // SAFETY: the layout has checked the index, and it is inside readable memory by the promise of `new`.
        unsafe { p.read_unaligned() }
    }

    /// Whether rows are contiguous and aligned, and their elements have the size of `T`.
    pub fn is_sliceable<T: Plain>(&self) -> bool {
        self.at.is_sliceable::<T>(self.data.addr())
    }

    /// Address of a row whose elements are contiguous. A raw pointer, because other elements may be written while it is
    /// used.
    #[inline]
    pub fn row_ptr(&self, row: RowIndex) -> *const u8 {
        self.at(self.at.dense_row(row))
    }

    /// Starts loading rows of contiguous elements into the cache: `n` from `[first, i2, i3]` on, as far as there are so
    /// many.
    pub fn load_ahead(&self, first: usize, n: usize, [i2, i3]: [usize; 2]) {
        let bytes = self.row_blocks() * self.dtype.type_size();
        for i1 in first..(first + n).min(self.ne[1]) {
            prefetch(self.row_ptr([i1, i2, i3]), bytes);
        }
    }

    /// Address of the data.
    pub(super) fn address(&self) -> usize {
        self.data.addr()
    }

    /// Access with references.
    ///
    /// # Safety
    /// The source shares no memory with what the node writes.
    pub(super) unsafe fn apart_unchecked(self) -> Apart<'g> {
        Apart(self)
    }

    /// Converts `out.len()` elements of a row to single precision, starting at element `start`, the first of a block.
    pub fn load(&self, row: RowIndex, start: usize, out: &mut [f32]) {
        let n = out.len();
        assert!(start + n <= self.ne[0]);
        if n == 0 {
            return;
        }
        if self.has_dense_rows() {
            let part = self.at.packed(start, n);
            let p = self.at::<u8>(self.at.offset(row) + part.start);
            if self.dtype == GGML_TYPE_F32 {
                if p.addr() != out.as_ptr().addr() {
                    // SAFETY: `n` elements inside a dense row, readable by the promise of `new`. `out` has room for
                    // them, and `copy` allows overlap.
                    unsafe { std::ptr::copy(p, out.as_mut_ptr().cast::<u8>(), n * 4) }
                }
                return;
            }
            // SAFETY: `n` elements inside a dense row, readable by the promise of `new`. `out` does not overlap them:
            // it is a buffer, or part of an F32 result that this source, of another format, does not overlap (`Writer`
            // uses a buffer for `Overlap::Partial`).
            convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, part.len()) }, out);
            return;
        }
        match self.dtype {
            GGML_TYPE_F32 => out.iter_mut().enumerate().for_each(|(i, y)| *y = self.get(start + i, row)),
            GGML_TYPE_F16 => {
                out.iter_mut().enumerate().for_each(|(i, y)| *y = f16_to_f32(self.get::<u16>(start + i, row)))
            }
            GGML_TYPE_BF16 => {
                out.iter_mut().enumerate().for_each(|(i, y)| *y = bf16_to_f32(self.get::<u16>(start + i, row)))
            }
            GGML_TYPE_I32 => out.iter_mut().enumerate().for_each(|(i, y)| *y = self.get::<i32>(start + i, row) as f32),
            _ => {
                // The blocks have gaps between them.
                let block = self.block();
                assert!(start.is_multiple_of(block) && n.is_multiple_of(block));
                for (k, y) in out.chunks_exact_mut(block).enumerate() {
                    let p = self.at::<u8>(self.at.blocks(row, start / block + k, 1));
                    // SAFETY: a block that `Layout::blocks` has checked, readable by the promise of `new`.
                    convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, self.dtype.type_size()) }, y);
                }
            }
        }
    }
}

/// A source that shares no memory with the result, so its elements do not change while the node is computed.
#[derive(Clone, Copy)]
pub struct Apart<'g>(Source<'g>);

impl<'g> Deref for Apart<'g> {
    type Target = Source<'g>;
    #[inline]
    fn deref(&self) -> &Source<'g> {
        &self.0
    }
}

impl<'g> Apart<'g> {
    /// Access to the layout `at` of memory at `data`.
    ///
    /// # Safety
    /// The layout is inside memory that is readable for `'g`, and that no code writes for that long.
    pub(super) unsafe fn of_memory(data: *const u8, at: Layout) -> Self {
        Self(Source { data, at, graph: PhantomData })
    }

    /// The same plain numbers with dimensions 0 and 1 exchanged.
    pub fn transposed(self) -> Self {
        Self(Source { at: self.at.transposed(), ..self.0 })
    }

    /// The rows as slices of `T`, or `None` if they have gaps, are not aligned, or have elements of another size.
    pub fn rows<T: Plain>(self) -> Option<Rows<'g, T>> {
        self.is_sliceable::<T>().then_some(Rows { source: self.0, of: PhantomData })
    }

    /// A row of plain numbers.
    #[inline]
    pub fn row<T: Plain>(self, row: RowIndex) -> &'g [T] {
        match self.rows() {
            Some(rows) => rows.row(row),
            None => unreachable!("rows of {:?} are no slices", **self),
        }
    }

    /// `n` numbers of a dense source, starting at number `start`.
    #[inline]
    pub fn span<T: Plain>(&self, start: usize, n: usize) -> &'g [T] {
        let p = self.at::<T>(self.at.span::<T>(start, n));
        assert!(p.is_aligned());
        // SAFETY: aligned numbers that `Layout::span` has checked, readable for `'g` by the promise of `Source::new` or
        // `of_memory`. An `Apart` shares no memory with what the node writes, so they do not change.
        unsafe { std::slice::from_raw_parts(p, n) }
    }
}

/// Rows of a source as slices.
#[derive(Clone, Copy)]
pub struct Rows<'g, T> {
    source: Source<'g>,
    of: PhantomData<T>,
}

impl<'g, T: Plain> Rows<'g, T> {
    /// A row as a slice.
    #[inline]
    pub fn row(&self, row: RowIndex) -> &'g [T] {
        // SAFETY: a row of the layout, which `Apart::rows` found contiguous and aligned, readable for `'g` by the
        // promise of `Source::new` or `of_memory`. An `Apart` shares no memory with what the node writes, so the row
        // does not change.
        unsafe { std::slice::from_raw_parts(self.source.at(self.source.at.offset(row)), self.source.ne[0]) }
    }
}
