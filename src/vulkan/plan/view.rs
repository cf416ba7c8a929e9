//! Tensors as shaders see them.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::gpu::buffer;
use crate::vulkan::submit::Range;

/// A tensor for shaders: address, sizes of the dimensions, and strides in elements (in blocks, for quantized formats).
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Address of element 0. 0 if only support is checked.
    pub at: u64,
    /// Elements in each dimension.
    pub ne: [u32; 4],
    /// Strides in elements or blocks.
    pub nb: [u32; 4],
    /// Format.
    pub dtype: ggml_type,
    /// All its bytes.
    pub range: Range,
}

impl View {
    /// Shape and strides without an address. Fails if they do not fit into the integers of shaders (V4, V15).
    pub fn shape(t: TensorRef) -> Result<Self> {
        let dtype = t.dtype();
        let size = dtype.type_size();
        if dtype.blck_size() == 0 || t.ne()[0] % dtype.blck_size() != 0 {
            return Err(Error::Unsupported(format!("rows of {} elements of {dtype:?}", t.ne()[0])));
        }
        let (mut ne, mut nb) = ([0; 4], [0; 4]);
        for i in 0..4 {
            ne[i] = u32::try_from(t.ne()[i])
                .ok()
                .filter(|&n| n < 1 << 31)
                .ok_or_else(|| Error::Unsupported(format!("{} elements in dimension {i}", t.ne()[i])))?;
            let stride = t.nb()[i];
            // The stride of a dimension with one element is not used.
            nb[i] = if ne[i] == 1 && (i > 0 || !stride.is_multiple_of(size)) {
                0
            } else {
                u32::try_from(stride / size)
                    .ok()
                    .filter(|_| stride.is_multiple_of(size))
                    .ok_or_else(|| Error::Unsupported(format!("stride of {stride} bytes in dimension {i}")))?
            };
        }
        // Shaders index a row with 32 bits.
        if u64::from(ne[0]) * u64::from(nb[0]) >= 1 << 32 {
            return Err(Error::Unsupported(format!("a row spans {} elements", u64::from(ne[0]) * u64::from(nb[0]))));
        }
        if t.ne()[1..].iter().try_fold(1u32, |n, &e| n.checked_mul(e as u32)).is_none_or(|n| n >= 1 << 31) {
            return Err(Error::Unsupported(format!("{} rows", t.nrows())));
        }
        Ok(Self { at: 0, ne, nb, dtype, range: Range::default() })
    }

    /// The view of a tensor in a buffer of this backend, with its address.
    pub fn of(t: TensorRef) -> Result<Self> {
        let range = buffer::range(t)?;
        Ok(Self { at: range.address, range, ..Self::shape(t)? })
    }

    /// Number of rows.
    pub fn n_rows(&self) -> u32 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Number of elements.
    pub fn n(&self) -> u64 {
        u64::from(self.n_rows()) * u64::from(self.ne[0])
    }

    /// Strides of dimensions 0 to 2.
    pub fn nb012(&self) -> [u32; 3] {
        [self.nb[0], self.nb[1], self.nb[2]]
    }

    /// Strides of dimensions 1 to 3.
    pub fn nb123(&self) -> [u32; 3] {
        [self.nb[1], self.nb[2], self.nb[3]]
    }

    /// Number of the type in shaders.
    pub fn ty(&self) -> u32 {
        self.dtype as u32
    }

    /// Whether rows begin at multiples of 16 bytes.
    pub fn has_aligned_rows(&self) -> bool {
        let size = self.dtype.type_size() as u64;
        self.at.is_multiple_of(16) && self.nb[1..].iter().all(|&n| (u64::from(n) * size).is_multiple_of(16))
    }

    /// Whether the elements are contiguous.
    pub fn is_dense(&self) -> bool {
        let mut next = u64::from(self.ne[0] / self.dtype.blck_size() as u32);
        let first = self.nb[0] == 1 || self.ne[0] <= 1;
        first
            && (1..4).all(|i| {
                let fits = self.ne[i] == 1 || u64::from(self.nb[i]) == next;
                next *= u64::from(self.ne[i]);
                fits
            })
    }

    /// The same elements as few long rows, for element-wise work. Returns the view as it is unless its elements are
    /// contiguous.
    pub fn flat(self) -> Self {
        let n = self.n();
        let mut cols = n;
        while cols > 1 << 16 && cols.is_multiple_of(2) {
            cols /= 2;
        }
        if !self.is_dense() || n == 0 || cols >= 1 << 31 || n / cols >= 1 << 31 {
            return self;
        }
        Self { ne: [cols as u32, (n / cols) as u32, 1, 1], nb: [1, cols as u32, 0, 0], ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_views_keep_their_elements() {
        let range = Range::default();
        let v = View { at: 0, ne: [10, 5, 4, 3], nb: [1, 10, 50, 200], dtype: ggml_type::GGML_TYPE_F32, range };
        assert!(v.is_dense());
        let f = v.flat();
        assert_eq!((f.n(), f.ne[0] * f.ne[1]), (600, 600));
        // Large views are split into rows that 32 bits can index.
        let large = View { ne: [1 << 30, 8, 2, 1], nb: [1, 1 << 30, 0, 0], ..v };
        let gap = View { nb: [1, 12, 60, 240], ..v };
        assert!(!gap.is_dense());
        assert_eq!(gap.flat().ne, gap.ne);
        assert!(!large.is_dense(), "the stride of dimension 2 does not fit");
    }

    #[test]
    fn shapes_beyond_32_bits_are_refused() {
        use crate::tensor::Context;
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let t = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[64, 2, 2, 2]).unwrap();
        assert!(View::shape(t).is_ok());
        // V4, V15: element counts and strides near 2^32.
        for (i, ne) in [(0, (1i64 << 32) - 1), (0, 1 << 31), (3, 1 << 40)] {
            let mut all = t.ne();
            all[i] = ne;
            let keep = t.ne();
            t.set_ne(all);
            assert!(View::shape(t).is_err(), "{all:?}");
            t.set_ne(keep);
        }
        let mut nb = t.nb();
        nb[3] = 1 << 40;
        t.set_nb(nb);
        assert!(View::shape(t).is_err(), "a stride of 2^40");
        nb[3] = 513;
        t.set_nb(nb);
        assert!(View::shape(t).is_err(), "a stride that is no multiple of the element");
    }
}
