//! Typed access to the rows of a node's tensors, so that kernels are safe code.
//!
//! What kernels promise in return (the **row contract**): a node has been checked before its kernel runs (see
//! `check`), so every index below `ne` is inside the tensor's memory; and two threads never write the same element, nor does one read
//! what another writes between two waits (they go by `Worker::share` or `Worker::next_chunk`). Sources may lie on the destination's
//! memory (in place): then a [`Reader`] hands out copies.

use super::worker::Worker;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::convert;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Indices of a row: dimensions 1, 2, 3.
pub type RowIndex = [usize; 3];

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

/// Where the elements of a tensor lie.
#[derive(Clone, Copy)]
pub struct Place {
    data: *mut u8,
    /// Elements per dimension.
    pub ne: [usize; 4],
    /// Strides in bytes.
    pub nb: [usize; 4],
    /// Number format.
    pub dtype: ggml_type,
}

impl Place {
    /// Where `t` lies.
    pub fn of(t: TensorRef) -> Self {
        let ne = t.ne().map(|n| usize::try_from(n).unwrap_or(0));
        Self { data: t.data(), ne, nb: t.nb(), dtype: t.dtype() }
    }

    /// The first `n` numbers of a node's scratch memory as one row. The node's row of the op table asked for them.
    pub fn of_scratch(w: &Worker<'_>, dtype: ggml_type, n: usize) -> Self {
        let size = dtype.type_size();
        assert!(dtype.blck_size() == 1 && n.checked_mul(size).is_some_and(|bytes| bytes <= w.scratch.len()));
        Self { data: w.scratch.as_ptr(), ne: [n, 1, 1, 1], nb: [size, n * size, n * size, n * size], dtype }
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ne[0] * self.nrows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Indices of row number `r`.
    #[inline]
    pub fn row_index(&self, r: usize) -> RowIndex {
        let plane = self.ne[1] * self.ne[2];
        [r % self.ne[1], r % plane / self.ne[1], r / plane]
    }

    /// Whether the elements of a row lie one behind the other.
    pub fn has_dense_rows(&self) -> bool {
        self.nb[0] == self.dtype.type_size() || self.ne[0] == self.dtype.blck_size() as usize
    }

    /// Whether all elements lie one behind the other.
    pub fn is_dense(&self) -> bool {
        let mut next = self.dtype.type_size() * (self.ne[0] / self.dtype.blck_size() as usize);
        self.has_dense_rows()
            && (1..4).all(|i| {
                let fits = self.ne[i] == 1 || self.nb[i] == next;
                next *= self.ne[i];
                fits
            })
    }

    /// The same elements as one row; only for dense ones.
    pub fn flat(&self) -> Self {
        assert!(self.is_dense());
        let all = self.dtype.type_size() * (self.len() / self.dtype.blck_size() as usize);
        Self { ne: [self.len(), 1, 1, 1], nb: [self.dtype.type_size(), all, all, all], ..*self }
    }

    /// The same shape, `bytes` further. Whoever makes a place of his own checks that it lies inside the tensor.
    pub fn moved(self, bytes: usize) -> Self {
        Self { data: self.data.wrapping_add(bytes), ..self }
    }

    /// First byte and the byte behind the last.
    fn extent(&self) -> Range<usize> {
        let start = self.data.addr();
        if self.is_empty() {
            return start..start;
        }
        let row = if self.dtype.blck_size() == 1 {
            (self.ne[0] - 1) * self.nb[0] + self.dtype.type_size()
        } else {
            (self.ne[0] / self.dtype.blck_size() as usize) * self.nb[0]
        };
        start..start + row + (1..4).map(|i| (self.ne[i] - 1) * self.nb[i]).sum::<usize>()
    }

    /// Whether the memory of both overlaps.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.extent(), other.extent());
        a.start < b.end && b.start < a.end
    }

    /// Address of the first element of a row.
    #[inline]
    pub fn row_ptr(&self, [i1, i2, i3]: RowIndex) -> *mut u8 {
        assert!(i1 < self.ne[1] && i2 < self.ne[2] && i3 < self.ne[3], "row [{i1}, {i2}, {i3}] of {:?}", self.ne);
        self.data.wrapping_add(i1 * self.nb[1] + i2 * self.nb[2] + i3 * self.nb[3])
    }

    #[inline]
    fn element_ptr<T: Plain>(&self, i0: usize, row: RowIndex) -> *mut T {
        assert!(i0 < self.ne[0] && size_of::<T>() == self.dtype.type_size());
        self.row_ptr(row).wrapping_add(i0 * self.nb[0]).cast()
    }

    /// One element of a tensor of plain numbers.
    #[inline]
    pub fn get<T: Plain>(&self, i0: usize, row: RowIndex) -> T {
        // SAFETY: the index is inside the tensor, whose memory was checked; the row contract.
        unsafe { self.element_ptr::<T>(i0, row).read_unaligned() }
    }

    /// Writes one element of a tensor of plain numbers.
    #[inline]
    pub fn set<T: Plain>(&self, i0: usize, row: RowIndex, value: T) {
        // SAFETY: the index is inside the tensor, whose memory was checked; the row contract.
        unsafe { self.element_ptr::<T>(i0, row).write_unaligned(value) }
    }

    /// Whether rows can be had as slices of `T`.
    pub fn sliceable<T: Plain>(&self) -> bool {
        let align = align_of::<T>();
        self.has_dense_rows()
            && self.dtype.type_size() == size_of::<T>()
            && self.data.addr().is_multiple_of(align)
            && (1..4).all(|i| self.ne[i] == 1 || self.nb[i].is_multiple_of(align))
    }

    /// A row of plain numbers of a source that does not lie on the destination's memory.
    #[inline]
    pub fn row<T: Plain>(&self, row: RowIndex) -> &[T] {
        debug_assert!(self.sliceable::<T>());
        assert!(size_of::<T>() == self.dtype.type_size() && self.has_dense_rows());
        // SAFETY: the row is inside the tensor, whose memory was checked; the row contract.
        unsafe { std::slice::from_raw_parts(self.row_ptr(row).cast(), self.ne[0]) }
    }

    /// A row of plain numbers of the destination.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn row_mut<T: Plain>(&self, row: RowIndex) -> &mut [T] {
        debug_assert!(self.sliceable::<T>());
        assert!(size_of::<T>() == self.dtype.type_size() && self.has_dense_rows());
        // SAFETY: the row is inside the tensor, whose memory was checked, and by the row contract ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.row_ptr(row).cast(), self.ne[0]) }
    }

    /// `n` numbers of a dense source from number `start` on. The source does not lie on the destination's memory.
    #[inline]
    pub fn span<T: Plain>(&self, start: usize, n: usize) -> &[T] {
        assert!(self.is_dense() && size_of::<T>() == self.dtype.type_size() && start + n <= self.len());
        // SAFETY: inside the tensor, whose memory was checked; the row contract.
        unsafe { std::slice::from_raw_parts(self.data.cast::<T>().wrapping_add(start), n) }
    }

    /// `n` numbers of a dense destination from number `start` on.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn span_mut<T: Plain>(&self, start: usize, n: usize) -> &mut [T] {
        assert!(self.is_dense() && size_of::<T>() == self.dtype.type_size() && start + n <= self.len());
        // SAFETY: inside the tensor, whose memory was checked, and by the row contract ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast::<T>().wrapping_add(start), n) }
    }

    /// Bytes of a row of dense blocks or numbers.
    pub fn row_bytes(&self) -> usize {
        self.ne[0] / self.dtype.blck_size() as usize * self.dtype.type_size()
    }

    /// The bytes of a row of dense blocks or numbers, of a source that does not lie on the destination's memory.
    #[inline]
    pub fn bytes(&self, row: RowIndex) -> &[u8] {
        assert!(self.has_dense_rows());
        // SAFETY: the row is inside the tensor, whose memory was checked; the row contract.
        unsafe { std::slice::from_raw_parts(self.row_ptr(row), self.row_bytes()) }
    }

    /// The bytes of a row of dense blocks or numbers of the destination.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn bytes_mut(&self, row: RowIndex) -> &mut [u8] {
        assert!(self.has_dense_rows());
        // SAFETY: the row is inside the tensor, whose memory was checked, and by the row contract ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.row_ptr(row), self.row_bytes()) }
    }

    /// Puts elements `start..` of a row into `out`, as single precision. In a format of blocks `start` is the start of one.
    pub fn load(&self, row: RowIndex, start: usize, out: &mut [f32]) {
        let n = out.len();
        assert!(start + n <= self.ne[0]);
        if n == 0 {
            return;
        }
        let block = self.dtype.blck_size() as usize;
        let p = self.row_ptr(row).wrapping_add(start / block * self.nb[0]);
        if self.has_dense_rows() {
            if self.dtype == GGML_TYPE_F32 {
                if p.addr() != out.as_ptr().addr() {
                    // SAFETY: n elements of the row, whose memory was checked; `copy` allows overlap.
                    unsafe { std::ptr::copy(p, out.as_mut_ptr().cast::<u8>(), n * 4) }
                }
                return;
            }
            assert!(start.is_multiple_of(block) && n.is_multiple_of(block));
            let bytes = n / block * self.dtype.type_size();
            // SAFETY: n elements of the row, whose memory was checked; `out` holds other memory (another format).
            convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, bytes) }, out);
            return;
        }
        match self.dtype {
            GGML_TYPE_F32 => out
                .iter_mut()
                .enumerate()
                .for_each(|(i, y)| *y = f32::from_bits(self.get::<i32>(start + i, row) as u32)),
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
                    let p = self.row_ptr(row).wrapping_add((start / block + k) * self.nb[0]);
                    // SAFETY: one block of the row, whose memory was checked.
                    convert::to_f32(self.dtype, unsafe { std::slice::from_raw_parts(p, self.dtype.type_size()) }, y);
                }
            }
        }
    }

    /// Writes `x` to elements `start..` of a row in the tensor's format. In a format of blocks `start` is the start of one.
    pub fn store(&self, row: RowIndex, start: usize, x: &[f32]) {
        assert!(start + x.len() <= self.ne[0]);
        if x.is_empty() {
            return;
        }
        let block = self.dtype.blck_size() as usize;
        if self.has_dense_rows() {
            assert!(start.is_multiple_of(block) && x.len().is_multiple_of(block));
            let p = self.row_ptr(row).wrapping_add(start / block * self.dtype.type_size());
            // SAFETY: elements of the row, whose memory was checked; by the row contract ours alone.
            let out = unsafe { std::slice::from_raw_parts_mut(p, x.len() / block * self.dtype.type_size()) };
            convert::from_f32(self.dtype, x, out);
            return;
        }
        match self.dtype {
            GGML_TYPE_F32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x)),
            GGML_TYPE_F16 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, convert::to_f16(x))),
            GGML_TYPE_BF16 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, convert::to_bf16(x))),
            GGML_TYPE_I32 => x.iter().enumerate().for_each(|(i, &x)| self.set(start + i, row, x as i32)),
            _ => {
                assert!(start.is_multiple_of(block) && x.len().is_multiple_of(block));
                for (k, x) in x.chunks_exact(block).enumerate() {
                    let p = self.row_ptr(row).wrapping_add((start / block + k) * self.nb[0]);
                    // SAFETY: one block of the row, whose memory was checked; by the row contract ours alone.
                    let out = unsafe { std::slice::from_raw_parts_mut(p, self.dtype.type_size()) };
                    convert::from_f32(self.dtype, x, out);
                }
            }
        }
    }
}

/// Rows of a source as single precision, whatever its format and strides, and wherever it lies.
pub struct Reader {
    /// Where the source lies.
    pub at: Place,
    direct: bool,
    buf: Vec<f32>,
}

impl Reader {
    /// Reads rows of `src` while `dst` is written.
    pub fn new(src: TensorRef, dst: TensorRef) -> Self {
        Self::over(Place::of(src), &Place::of(dst))
    }

    /// As [`Self::new`].
    pub fn over(at: Place, dst: &Place) -> Self {
        let direct = at.dtype == GGML_TYPE_F32 && at.sliceable::<f32>() && !at.overlaps(dst);
        Self { at, direct, buf: Vec::new() }
    }

    /// A row.
    #[inline]
    pub fn row(&mut self, row: RowIndex) -> &[f32] {
        self.part(row, 0..self.at.ne[0])
    }

    /// Part of a row.
    #[inline]
    pub fn part(&mut self, row: RowIndex, part: Range<usize>) -> &[f32] {
        if self.direct {
            return &self.at.row::<f32>(row)[part];
        }
        self.buf.resize(part.len(), 0.0);
        self.at.load(row, part.start, &mut self.buf);
        &self.buf
    }
}

/// Rows of the destination, written as single precision, whatever its format and strides.
pub struct Writer {
    /// Where the destination lies.
    pub at: Place,
    direct: bool,
    buf: Vec<f32>,
}

impl Writer {
    /// Writes rows of `dst`.
    pub fn new(dst: TensorRef) -> Self {
        Self::over(Place::of(dst))
    }

    /// As [`Self::new`].
    pub fn over(at: Place) -> Self {
        Self { at, direct: at.dtype == GGML_TYPE_F32 && at.sliceable::<f32>(), buf: Vec::new() }
    }

    /// Lets `f` fill a row. What it finds there means nothing.
    #[inline]
    pub fn row<R>(&mut self, row: RowIndex, f: impl FnOnce(&mut [f32]) -> R) -> R {
        self.part(row, 0..self.at.ne[0], f)
    }

    /// Lets `f` fill part of a row. What it finds there means nothing.
    #[inline]
    pub fn part<R>(&mut self, row: RowIndex, part: Range<usize>, f: impl FnOnce(&mut [f32]) -> R) -> R {
        if self.direct {
            return f(&mut self.at.row_mut::<f32>(row)[part]);
        }
        self.buf.resize(part.len(), 0.0);
        let r = f(&mut self.buf);
        self.at.store(row, part.start, &self.buf);
        r
    }
}

/// Elements that an elementwise kernel works on at a time: small enough to stay in the first cache.
const PART: usize = 4096;

/// This thread's pieces of the elements of a tensor of `ne`: rows, long ones cut into parts.
pub fn parts(w: &Worker<'_>, at: &Place) -> impl Iterator<Item = (RowIndex, Range<usize>)> + use<> {
    let at = *at;
    let per_row = at.ne[0].div_ceil(PART).max(1);
    w.share(at.nrows() * per_row).map(move |i| {
        let start = i % per_row * PART;
        (at.row_index(i / per_row), start..(start + PART).min(at.ne[0]))
    })
}

/// This thread's rows of a tensor.
pub fn rows(w: &Worker<'_>, at: &Place) -> impl Iterator<Item = RowIndex> + use<> {
    let at = *at;
    w.share(at.nrows()).map(move |r| at.row_index(r))
}
