//! What shapes and strides mean: sizes, contiguity, broadcasting. Queries on a handle; nothing here writes.

use super::TensorRef;
use crate::abi::ggml::GGML_MAX_DIMS;

impl TensorRef {
    /// Number of elements.
    #[inline]
    pub fn nelements(self) -> i64 {
        self.ne().iter().product()
    }

    /// Number of rows: elements over the innermost dimension.
    #[inline]
    pub fn nrows(self) -> i64 {
        self.ne()[1..].iter().product()
    }

    /// Bytes from the first to the last byte of the data, with gaps between strides; 0 for an empty tensor. Saturates.
    #[inline]
    pub fn nbytes(self) -> usize {
        let (ne, nb, dtype) = (self.ne(), self.nb(), self.dtype());
        // Counts from 1 to 2^30 and strides below 2^30: neither a product nor the sum of four can overflow.
        let steps = ne.map(|n| n.wrapping_sub(1) as u64);
        let all = steps.iter().fold(0, |all, n| all | n) | nb.iter().fold(0, |all, &n| all | n as u64);
        if all >> 30 != 0 || dtype.blck_size() != 1 {
            return self.nbytes_checked().unwrap_or(usize::MAX);
        }
        std::iter::zip(steps, nb).fold(dtype.type_size(), |sum, (n, stride)| sum + n as usize * stride)
    }

    /// As [`Self::nbytes`], or `None` when the number does not fit.
    pub fn nbytes_checked(self) -> Option<usize> {
        let (ne, nb) = (self.ne(), self.nb());
        if ne.iter().any(|&n| n <= 0) {
            return Some(0);
        }
        let dtype = self.dtype();
        let block = dtype.blck_size();
        let (mut total, first) = if block == 1 {
            (dtype.type_size(), 0)
        } else {
            (usize::try_from(ne[0]).ok()?.checked_mul(nb[0])? / block as usize, 1)
        };
        for i in first..GGML_MAX_DIMS {
            total = total.checked_add(usize::try_from(ne[i] - 1).ok()?.checked_mul(nb[i])?)?;
        }
        Some(total)
    }

    /// Number of dimensions up to the last one that is larger than 1; at least 1.
    #[inline]
    pub fn n_dims(self) -> usize {
        let ne = self.ne();
        (1..GGML_MAX_DIMS).rev().find(|&i| ne[i] > 1).map_or(1, |i| i + 1)
    }

    /// Whether some dimension is zero.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.ne().contains(&0)
    }

    /// Whether this is one element.
    pub fn is_scalar(self) -> bool {
        self.ne() == [1; GGML_MAX_DIMS]
    }

    /// Whether this is one row.
    pub fn is_vector(self) -> bool {
        self.ne()[1..] == [1; 3]
    }

    /// Whether this has at most two dimensions.
    pub fn is_matrix(self) -> bool {
        self.ne()[2..] == [1; 2]
    }

    /// Whether this has at most three dimensions.
    pub fn is_3d(self) -> bool {
        self.ne()[3] == 1
    }

    /// Whether the first two dimensions are swapped in memory.
    pub fn is_transposed(self) -> bool {
        let nb = self.nb();
        nb[0] > nb[1]
    }

    /// Whether strides do not rise from dimension to dimension.
    pub fn is_permuted(self) -> bool {
        let nb = self.nb();
        nb[0] > nb[1] || nb[1] > nb[2] || nb[2] > nb[3]
    }

    /// Whether dimensions below `n` are without gaps, those up to `gap` excepted.
    fn is_contiguous_range(self, gap: usize, n: usize) -> bool {
        let (ne, nb, dtype) = (self.ne(), self.nb(), self.dtype());
        let (mut next, block) = (dtype.type_size(), dtype.blck_size());
        if ne[0] != block && nb[0] != next {
            return false;
        }
        next = next.wrapping_mul(if block == 1 { ne[0] } else { ne[0] / block } as usize);
        for i in 1..n {
            if i > gap {
                if ne[i] != 1 && nb[i] != next {
                    return false;
                }
                next = next.wrapping_mul(ne[i] as usize);
            } else {
                next = (ne[i] as usize).wrapping_mul(nb[i]);
            }
        }
        true
    }

    /// Whether the elements are one after the other, without gap or permutation.
    #[inline]
    pub fn is_contiguous(self) -> bool {
        self.is_contiguous_range(0, GGML_MAX_DIMS)
    }

    /// As [`Self::is_contiguous`], but rows, or matrices, may have gaps: dimensions up to `gap` (0 to 2) need not be
    /// dense.
    pub fn is_contiguous_from(self, gap: usize) -> bool {
        self.is_contiguous_range(gap, GGML_MAX_DIMS)
    }

    /// Whether the dimensions below `n` (1 to 3) are without gaps.
    pub fn is_contiguous_to(self, n: usize) -> bool {
        self.is_contiguous_range(0, n)
    }

    /// Whether the elements fill one piece of memory, in any order.
    pub fn is_contiguously_allocated(self) -> bool {
        let dtype = self.dtype();
        let dense = (self.nelements() as usize).wrapping_mul(dtype.type_size()) / dtype.blck_size() as usize;
        self.nbytes() == dense
    }

    /// Whether this is channel-innermost data permuted to width, height, channel, batch.
    pub fn is_contiguous_channels(self) -> bool {
        let nb = self.nb();
        nb[0] > nb[2] && nb[1] > nb[0] && nb[2] == self.dtype().type_size()
    }

    /// Whether each row is without gaps.
    #[inline]
    pub fn is_contiguous_rows(self) -> bool {
        let dtype = self.dtype();
        self.ne()[0] == dtype.blck_size() || self.nb()[0] == dtype.type_size()
    }

    /// Whether both have the same element counts.
    #[inline]
    pub fn same_shape(self, other: Self) -> bool {
        self.ne() == other.ne()
    }

    /// Whether both have the same strides.
    pub fn same_stride(self, other: Self) -> bool {
        self.nb() == other.nb()
    }

    /// Whether both have the same format, element counts and strides.
    #[inline]
    pub fn same_layout(self, other: Self) -> bool {
        self.dtype_raw() == other.dtype_raw() && self.same_shape(other) && self.same_stride(other)
    }

    /// Whether this can be repeated a whole number of times in each dimension to fill `other`.
    pub fn can_repeat(self, other: Self) -> bool {
        if self.is_empty() {
            return other.is_empty();
        }
        // Division is slow, and most sizes are equal or 1.
        std::iter::zip(self.ne(), other.ne()).all(|(a, b)| a == b || a == 1 || b % a == 0)
    }

    /// As [`Self::can_repeat`], with rows of the same length.
    pub fn can_repeat_rows(self, other: Self) -> bool {
        self.ne()[0] == other.ne()[0] && self.can_repeat(other)
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::Context;

    #[test]
    fn bytes_of_small_tensors_are_those_of_the_checked_way() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let shapes: [([i64; 4], [usize; 4]); 7] = [
            ([7, 3, 2, 1], [4, 28, 84, 168]),
            ([7, 3, 2, 1], [84, 4, 1000, 8]),
            ([0, 3, 1, 1], [4, 0, 0, 0]),
            ([1 << 30, 1 << 30, 1, 1], [(1 << 30) - 1, (1 << 30) - 1, 1, 1]),
            ([(1 << 30) + 1, 1, 1, 1], [4, 1 << 40, 1 << 40, 1 << 40]),
            ([-1, 1, 1, 1], [4, 4, 4, 4]),
            ([1 << 40, 1 << 40, 2, 2], [4, 1 << 42, 1 << 60, 1 << 61]),
        ];
        for dtype in [GGML_TYPE_F32, GGML_TYPE_I64, GGML_TYPE_Q4_0] {
            let t = ctx.new_tensor(dtype, &[32]).unwrap();
            for (ne, nb) in shapes {
                t.set_ne(ne);
                t.set_nb(nb);
                assert_eq!(t.nbytes(), t.nbytes_checked().unwrap_or(usize::MAX), "{dtype:?} {ne:?} {nb:?}");
            }
        }
    }
}
