//! Offsets of the elements of a tensor from its data, checked against its shape.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::cpu::Worker;
use crate::sys::small_sort;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Indices of a row in dimensions 1, 2 and 3.
pub type RowIndex = [usize; 3];

/// Shape, strides and number format of a tensor, without access to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Elements per dimension.
    pub ne: [usize; 4],
    /// Strides in bytes.
    pub nb: [usize; 4],
    /// Number format.
    pub dtype: ggml_type,
}

impl Layout {
    /// The layout of a tensor.
    pub fn of(t: TensorRef) -> Self {
        let ne = t.ne().map(|n| usize::try_from(n).unwrap_or(0));
        Self { ne, nb: t.nb(), dtype: t.dtype() }
    }

    /// Dense rows of `n` plain numbers each, or `None` if the number of bytes overflows.
    pub(super) fn of_rows(dtype: ggml_type, n: usize, rows: usize) -> Option<Self> {
        let size = dtype.type_size();
        let row = n.checked_mul(size).filter(|_| dtype.blck_size() == 1)?;
        let all = row.checked_mul(rows)?;
        Some(Self { ne: [n, rows, 1, 1], nb: [size, row, all, all], dtype })
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ne[0] * self.nrows()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements in a block; 1 for plain numbers.
    pub fn block(&self) -> usize {
        self.dtype.blck_size() as usize
    }

    /// Blocks (or plain numbers) in a row.
    #[inline]
    pub fn row_blocks(&self) -> usize {
        // A division takes as long as copying a short row.
        if self.dtype.blck_size() == 1 { self.ne[0] } else { self.ne[0] / self.block() }
    }

    /// Bytes of `n` elements of a dense row, from element `start`, counted from the start of the row. Panics unless
    /// they are whole blocks.
    #[inline]
    pub(super) fn packed(&self, start: usize, n: usize) -> Range<usize> {
        let (block, size) = (self.block(), self.dtype.type_size());
        // See `row_blocks`.
        if block == 1 {
            return start * size..(start + n) * size;
        }
        assert!(start.is_multiple_of(block) && n.is_multiple_of(block), "elements {start} + {n} in blocks of {block}");
        start / block * size..(start + n) / block * size
    }

    /// Indices of row number `r`.
    #[inline]
    pub fn row_index(&self, r: usize) -> RowIndex {
        let plane = self.ne[1] * self.ne[2];
        [r % self.ne[1], r % plane / self.ne[1], r / plane]
    }

    /// Offset in bytes of a row whose elements are contiguous.
    #[inline]
    pub(super) fn dense_row(&self, row: RowIndex) -> usize {
        assert!(self.has_dense_rows());
        self.offset(row)
    }

    /// Offset in bytes of a row.
    #[inline]
    pub(super) fn offset(&self, [i1, i2, i3]: RowIndex) -> usize {
        assert!(i1 < self.ne[1] && i2 < self.ne[2] && i3 < self.ne[3], "row [{i1}, {i2}, {i3}] of {:?}", self.ne);
        i1 * self.nb[1] + i2 * self.nb[2] + i3 * self.nb[3]
    }

    /// Offset in bytes of an element, a plain number of type `T`.
    #[inline]
    pub(super) fn element<T>(&self, i0: usize, row: RowIndex) -> usize {
        assert!(i0 < self.ne[0] && size_of::<T>() == self.dtype.type_size());
        self.offset(row) + i0 * self.nb[0]
    }

    /// Offset in bytes of block (or plain number) `i` of a row. Panics if the row has fewer than `n` blocks from there.
    #[inline]
    pub(super) fn blocks(&self, row: RowIndex, i: usize, n: usize) -> usize {
        assert!(i.checked_add(n).is_some_and(|end| end <= self.row_blocks()), "blocks {i} + {n} of {:?}", self.ne);
        self.offset(row) + i * self.nb[0]
    }

    /// Offset in bytes of number `start` of dense numbers of type `T`. Panics if there are fewer than `n` numbers from
    /// there.
    #[inline]
    pub(super) fn span<T>(&self, start: usize, n: usize) -> usize {
        assert!(self.is_dense() && size_of::<T>() == self.dtype.type_size());
        assert!(start.checked_add(n).is_some_and(|end| end <= self.len()), "numbers {start} + {n} of {:?}", self.ne);
        start * size_of::<T>()
    }

    /// Whether the elements of a row are contiguous.
    pub fn has_dense_rows(&self) -> bool {
        self.nb[0] == self.dtype.type_size() || self.ne[0] == self.block()
    }

    /// Whether all elements are contiguous.
    pub fn is_dense(&self) -> bool {
        let mut next = self.dtype.type_size() * (self.ne[0] / self.block());
        self.has_dense_rows()
            && (1..4).all(|i| {
                let fits = self.ne[i] == 1 || self.nb[i] == next;
                next *= self.ne[i];
                fits
            })
    }

    /// Bytes of all elements without gaps between them.
    pub fn packed_bytes(&self) -> usize {
        self.len() / self.block() * self.dtype.type_size()
    }

    /// The same elements as one row. Panics unless they are dense.
    pub(super) fn flattened(&self) -> Self {
        assert!(self.is_dense());
        let all = self.packed_bytes();
        Self { ne: [self.len(), 1, 1, 1], nb: [self.dtype.type_size(), all, all, all], dtype: self.dtype }
    }

    /// The same plain numbers with dimensions 0 and 1 exchanged.
    pub(super) fn transposed(mut self) -> Self {
        assert!(self.dtype.blck_size() == 1);
        self.ne.swap(0, 1);
        self.nb.swap(0, 1);
        self
    }

    /// Whether rows of data at `address` are contiguous and aligned, and their elements have the size of `T`.
    pub(super) fn is_sliceable<T>(&self, address: usize) -> bool {
        let align = align_of::<T>();
        self.has_dense_rows()
            && self.dtype.type_size() == size_of::<T>()
            && address.is_multiple_of(align)
            && (1..4).all(|i| self.ne[i] == 1 || self.nb[i].is_multiple_of(align))
    }

    /// Whether no two elements share a byte: in ascending order, each stride is at least the extent of the dimensions
    /// with smaller ones.
    pub fn has_disjoint_elements(&self) -> bool {
        let mut dims = std::array::from_fn::<_, 4, _>(|i| (self.nb[i], self.ne[i]));
        dims[0].1 /= self.block();
        small_sort::sort(&mut dims, |a, b| a < b);
        let mut reach = self.dtype.type_size();
        dims.into_iter().filter(|(_, n)| *n > 1).all(|(step, n)| {
            let over = step >= reach;
            reach = reach.saturating_add(step.saturating_mul(n - 1));
            over
        })
    }

    /// Whether `part` at byte `offset` is inside this dense tensor of plain numbers, and its elements are disjoint.
    pub fn holds(&self, part: &Self, offset: usize) -> bool {
        let size = self.dtype.type_size();
        let end = std::iter::zip(part.ne, part.nb)
            .try_fold(offset.checked_add(size), |end, (n, nb)| Some(end?.checked_add((n.max(1) - 1).checked_mul(nb)?)));
        let inside = matches!(end, Some(Some(end)) if end <= self.len() * size);
        self.is_dense() && self.block() == 1 && part.dtype == self.dtype && inside && part.has_disjoint_elements()
    }

    /// Extent in bytes of the first `dims` dimensions, from the start of the first element to the end of the last.
    fn reach(&self, dims: usize) -> usize {
        let row = (self.ne[0] / self.block() - 1) * self.nb[0] + self.dtype.type_size();
        row + (1..dims).map(|i| (self.ne[i] - 1) * self.nb[i]).sum::<usize>()
    }

    /// Address range of a tensor with its data at `address`.
    pub(super) fn extent(&self, address: usize) -> Range<usize> {
        address..address + if self.is_empty() { 0 } else { self.reach(4) }
    }

    /// Whether two tensors with their data at `address` and `at` may share memory. Disjoint columns of one matrix do
    /// not, although their extents overlap. The answer is true when in doubt.
    pub fn overlaps(&self, address: usize, other: &Self, at: usize) -> bool {
        let (a, b) = (self.extent(address), other.extent(at));
        if a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start {
            return false;
        }
        // Interleaved tensors with the same stride, each of which uses another part of every step.
        for dims in (1..4).rev() {
            if self.ne[dims] == 1 && other.ne[dims] == 1 {
                continue;
            }
            let step = self.nb[dims];
            let (x, y) = (self.reach(dims), other.reach(dims));
            let higher = |l: &Self| (dims + 1..4).all(|i| l.ne[i] == 1);
            if step == 0 || step != other.nb[dims] || x > step || y > step || !higher(self) || !higher(other) {
                return true;
            }
            let shift = (b.start as i128 - a.start as i128).rem_euclid(step as i128) as usize;
            return shift < x || shift + y > step;
        }
        true
    }
}

/// How the sources of a node overlap its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They do not overlap it.
    None,
    /// A source that overlaps the result has the same data, shape, strides and format, and the kernel reads an element
    /// of it only before it writes that element.
    InPlace,
    /// In another way: one thread computes the node, and copies sources before it uses them.
    Partial,
}

/// Whether two tensors may share memory.
pub fn overlaps(a: TensorRef, b: TensorRef) -> bool {
    Layout::of(a).overlaps(a.data().addr(), &Layout::of(b), b.data().addr())
}

/// Elements that an elementwise kernel processes at a time, few enough for the L1 cache.
pub const PART: usize = 4096;

/// This thread's share of the elements of a tensor: rows, with long ones cut into parts.
pub fn parts(w: &Worker<'_>, at: &Layout) -> impl Iterator<Item = (RowIndex, Range<usize>)> + use<> {
    let at = *at;
    let per_row = at.ne[0].div_ceil(PART).max(1);
    w.share(at.nrows() * per_row).map(move |i| {
        let start = i % per_row * PART;
        (at.row_index(i / per_row), start..(start + PART).min(at.ne[0]))
    })
}

/// This thread's share of the rows of a tensor.
pub fn rows(w: &Worker<'_>, at: &Layout) -> impl Iterator<Item = RowIndex> + use<> {
    let [_, n1, n2, _] = at.ne;
    let share = w.share(at.nrows());
    // Counts, because the divisions of `row_index` take as long as copying a short row.
    let mut next = if share.is_empty() { [0; 3] } else { at.row_index(share.start) };
    share.map(move |_| {
        let row = next;
        next[0] += 1;
        if next[0] == n1 {
            next = [0, next[1] + 1, next[2]];
            if next[1] == n2 {
                next = [0, 0, next[2] + 1];
            }
        }
        row
    })
}
