//! What a kernel reads.

use super::dest::Dest;
use super::layout::{Layout, RowIndex};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::convert;
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// Plain numbers: any bits are a value.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and it has no padding.
pub unsafe trait Plain: Copy + 'static {}
// SAFETY: integers and floats.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for i16 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above; an array has no padding.
unsafe impl Plain for [u32; 2] {}
// SAFETY: as above.
unsafe impl Plain for u32 {}

/// A source of a node. It may lie on the result, so elements are copied out of it; [`Source::apart`] gives references.
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
    /// Reads `tensor`.
    ///
    /// # Safety
    /// Its layout stays inside its memory, which is readable for `'g`. Nobody writes an element of it while this reads that element.
    pub unsafe fn new(tensor: TensorRef) -> Self {
        Self { data: tensor.data(), at: Layout::of(tensor), graph: PhantomData }
    }

    /// The same elements as one row; only for dense ones.
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
        // SAFETY: the layout has checked the index, and stays inside readable memory: the promise of `new`.
        unsafe { p.read_unaligned() }
    }

    /// Whether rows can be had as slices of `T`.
    pub fn is_sliceable<T: Plain>(&self) -> bool {
        self.at.is_sliceable::<T>(self.data.addr())
    }

    /// Whether its data starts where the result's does.
    pub fn is_at(&self, dest: &Dest<'_>) -> bool {
        self.data.addr() == dest.address()
    }

    /// Address of a row whose elements are contiguous: all of them can be read there, also while others are written.
    #[inline]
    pub fn row_ptr(&self, row: RowIndex) -> *const u8 {
        self.at(self.at.dense_row(row))
    }

    /// References to it, where it shares no memory with the result.
    pub fn try_apart(self, dest: &Dest<'_>) -> Option<Apart<'g>> {
        (!self.at.overlaps(self.data.addr(), dest, dest.address())).then_some(Apart(self))
    }

    /// References to a source that the operation's check keeps apart from the result.
    pub fn apart(self, dest: &Dest<'_>) -> Apart<'g> {
        match self.try_apart(dest) {
            Some(apart) => apart,
            None => unreachable!("the check lets no source that overlaps the result through"),
        }
    }

    /// Puts elements `start..` of a row into `out`, as single precision. In a format of blocks `start` is the start of one.
    pub fn load(&self, row: RowIndex, start: usize, out: &mut [f32]) {
        let n = out.len();
        assert!(start + n <= self.ne[0]);
        if n == 0 {
            return;
        }
        let block = self.block();
        if self.has_dense_rows() {
            let p = self.at::<u8>(self.at.offset(row) + start / block * self.dtype.type_size());
            if self.dtype == GGML_TYPE_F32 {
                if p.addr() != out.as_ptr().addr() {
                    // SAFETY: n elements of the row, readable by the promise of `new`; `copy` allows overlap.
                    unsafe { std::ptr::copy(p, out.as_mut_ptr().cast::<u8>(), n * 4) }
                }
                return;
            }
            assert!(start.is_multiple_of(block) && n.is_multiple_of(block));
            let bytes = n / block * self.dtype.type_size();
            // SAFETY: n elements of the row, readable by the promise of `new`. `out` is no part of them: it holds floats, and a `Writer`
            // lends parts of a result only where it is of another format than this source.
            convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, bytes) }, out);
            return;
        }
        match self.dtype {
            GGML_TYPE_F32 => out.iter_mut().enumerate().for_each(|(i, y)| *y = self.get(start + i, row)),
            GGML_TYPE_F16 => {
                out.iter_mut().enumerate().for_each(|(i, y)| *y = convert::f16(self.get::<u16>(start + i, row)))
            }
            GGML_TYPE_BF16 => {
                out.iter_mut().enumerate().for_each(|(i, y)| *y = convert::bf16(self.get::<u16>(start + i, row)))
            }
            GGML_TYPE_I32 => out.iter_mut().enumerate().for_each(|(i, y)| *y = self.get::<i32>(start + i, row) as f32),
            _ => {
                // Blocks with gaps between them.
                assert!(start.is_multiple_of(block) && n.is_multiple_of(block));
                for (k, y) in out.chunks_exact_mut(block).enumerate() {
                    let p = self.at::<u8>(self.at.blocks(row, start / block + k, 1));
                    // SAFETY: one block of the row, readable by the promise of `new`.
                    convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, self.dtype.type_size()) }, y);
                }
            }
        }
    }
}

/// A source that shares no memory with the result, so that nothing changes while the node is computed.
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
    /// What lies at `data`.
    ///
    /// # Safety
    /// The layout stays inside memory that is readable for `'g`, and that nobody writes meanwhile.
    pub(super) unsafe fn of_memory(data: *const u8, at: Layout) -> Self {
        Self(Source { data, at, graph: PhantomData })
    }

    /// Its rows as slices of `T`; `None` where they have gaps, are not aligned, or are of another size.
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

    /// `n` numbers of a dense source from number `start` on.
    #[inline]
    pub fn span<T: Plain>(&self, start: usize, n: usize) -> &'g [T] {
        let p = self.at::<T>(self.at.span::<T>(start, n));
        assert!(p.is_aligned());
        // SAFETY: aligned numbers of the layout, readable and unchanged for `'g`: the promise of `Source::new`, and no thread writes here.
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
    /// A row.
    #[inline]
    pub fn row(&self, row: RowIndex) -> &'g [T] {
        // SAFETY: a row of the layout, which `Apart::rows` found contiguous and aligned; readable and unchanged for `'g`: the promise of
        // `Source::new`, and no thread writes here.
        unsafe { std::slice::from_raw_parts(self.source.at(self.source.at.offset(row)), self.source.ne[0]) }
    }
}

/// Rows of a source as single precision, whatever its format and strides, and wherever it lies.
pub struct Reader<'g> {
    source: Source<'g>,
    direct: Option<Rows<'g, f32>>,
    buf: Vec<f32>,
}

impl Deref for Reader<'_> {
    type Target = Layout;
    #[inline]
    fn deref(&self) -> &Layout {
        &self.source
    }
}

impl<'g> Reader<'g> {
    /// Reads rows of `source` while `dest` is written.
    pub fn new(source: Source<'g>, dest: &Dest<'_>) -> Self {
        let apart = source.try_apart(dest).filter(|_| source.dtype == GGML_TYPE_F32);
        Self { source, direct: apart.and_then(Apart::rows), buf: Vec::new() }
    }

    /// A row.
    #[inline]
    pub fn row(&mut self, row: RowIndex) -> &[f32] {
        self.part(row, 0..self.source.ne[0])
    }

    /// Part of a row.
    #[inline]
    pub fn part(&mut self, row: RowIndex, part: Range<usize>) -> &[f32] {
        if let Some(direct) = &self.direct {
            return &direct.row(row)[part];
        }
        self.buf.resize(part.len(), 0.0);
        self.source.load(row, part.start, &mut self.buf);
        &self.buf
    }
}
