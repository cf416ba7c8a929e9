//! Products of rows of plain numbers (floats, halves, bfloat16s, floats of 8 bits) and columns of floats, and sums of such rows with weights;
//! several rows and columns at once.
//!
//! Rows and columns are read as they are in memory. In a product, a lane has every `N`-th value of `k`: each result is one chain of additions
//! for each lane, then the sum of the lanes; longer products are computed in steps, whose sums are added in their order. A sum of rows is one
//! chain of additions in the order of the rows. So the bits of a result depend on the instruction set and the step, but not on which rows and
//! columns are computed together.

use super::lanes::Lanes;
use crate::abi::ggml::ggml_type::{self, *};
use crate::sys::memory::prefetch;

/// Rows that a kernel computes at once.
pub const ROWS: usize = 4;
/// Maximum number of columns of a kernel.
pub const MAX_COLS: usize = 6;
/// Values of `k` in a step: those of several columns fit into the L1 cache.
pub const STEP: usize = 1024;

/// Products of [`ROWS`] rows and the number of columns of the kernel, for a step of at most [`STEP`] values. Result `r` of column `c` goes to
/// `dst[c][r]`, or is added to it if `add`. What is `ahead` bytes after the rows will be needed next; kernels for few columns load it into the cache.
///
/// # Safety
/// `rows` has [`ROWS`] pointers, each readable for `k` numbers of the format of the kernel. `cols` and `dst` have as many pointers as the kernel
/// has columns: each in `cols` is readable for `k` floats, and each in `dst` is writable for [`ROWS`] floats (readable, too, if `add`).
pub type Product =
    unsafe fn(k: usize, rows: *const *const u8, ahead: usize, cols: *const *const f32, dst: *const *mut f32, add: bool);

/// Adds the `n` rows, each times its weight, to as many results as the kernel has columns: `dst[c][i] += weights[c][j] * rows[j][i]`.
///
/// # Safety
/// `rows` has `n` pointers, each readable for `k` numbers of the format of the kernel. `weights` and `dst` have as many pointers as the kernel has
/// columns: each in `weights` is readable for `n` floats, and each in `dst` is readable and writable for `k` floats, which nothing else overlaps.
pub type WeightedSum =
    unsafe fn(k: usize, n: usize, rows: *const *const u8, weights: *const *const f32, dst: *const *mut f32);

/// Kernels with their number of columns, in descending order, down to one column.
pub type List<T> = &'static [(usize, T)];

/// The kernels of an instruction set.
#[derive(Clone, Copy)]
pub struct Products {
    /// Products for floats.
    pub f32: List<Product>,
    /// Products for halves.
    pub f16: List<Product>,
    /// Products for bfloat16s.
    pub bf16: List<Product>,
    /// Products for floats of 8 bits (E4M3).
    pub f8: List<Product>,
    /// Sums of floats.
    pub sums_f32: List<WeightedSum>,
    /// Sums of halves.
    pub sums_f16: List<WeightedSum>,
}

impl Products {
    /// The products of a format, or none for formats in blocks.
    pub fn of(&self, t: ggml_type) -> List<Product> {
        match t {
            GGML_TYPE_F32 => self.f32,
            GGML_TYPE_F16 => self.f16,
            GGML_TYPE_BF16 => self.bf16,
            GGML_TYPE_F8_E4M3 => self.f8,
            _ => &[],
        }
    }
}

/// A format of plain numbers.
///
/// # Safety
/// The methods read `N` numbers at `p`, or `n < N` for `part`, on a processor with the instruction set of `V`.
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub unsafe trait Number {
    /// Bytes of a number.
    const SIZE: usize;
    /// Reads a vector.
    unsafe fn load<V: Lanes>(p: *const u8) -> V;
    /// Reads `n` numbers, and sets the other lanes to zero.
    #[inline(always)]
    unsafe fn part<V: Lanes>(p: *const u8, n: usize) -> V {
        let mut padded = [0u8; 64];
        debug_assert!(Self::SIZE * V::N <= padded.len());
        // SAFETY: the caller promises `n` readable numbers, fewer than a vector, for which there is room, and the instruction set.
        unsafe {
            p.copy_to_nonoverlapping(padded.as_mut_ptr(), Self::SIZE * n);
            Self::load(padded.as_ptr())
        }
    }
}

macro_rules! numbers {
    ($($name:ident, $size:literal, $load:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub struct $name;
        // SAFETY: the method of `Lanes` reads `N` numbers.
        unsafe impl Number for $name {
            const SIZE: usize = $size;
            #[inline(always)]
            unsafe fn load<V: Lanes>(p: *const u8) -> V {
                // SAFETY: forwarded to the caller.
                unsafe { V::$load(p.cast()) }
            }
        }
    )*};
}
numbers! {
    Float, 4, load, "Floats.";
    Half, 2, load_f16, "Halves.";
    Bfloat16, 2, load_bf16, "Bfloat16s.";
    Float8, 1, load_f8, "Floats of 8 bits.";
}

/// [`Product`] for `C` columns.
///
/// # Safety
/// As for [`Product`], and the processor has the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn product<V: Lanes, W: Number, const C: usize>(
    k: usize,
    rows: *const *const u8,
    ahead: usize,
    cols: *const *const f32,
    dst: *const *mut f32,
    add: bool,
) {
    // SAFETY: the contracts of `Product`, `Number` and `Lanes`; all indices are below `k`.
    unsafe {
        let rows = rows.cast::<[*const u8; ROWS]>().read_unaligned();
        let cols = cols.cast::<[*const f32; C]>().read_unaligned();
        let mut acc = [[V::splat(0.0); ROWS]; C];
        let whole = k - k % V::N;
        let mut i = 0;
        while i < whole {
            let mut a = [V::splat(0.0); C];
            for c in 0..C {
                a[c] = V::load(cols[c].add(i));
            }
            for r in 0..ROWS {
                if C <= 4 {
                    prefetch(rows[r].wrapping_add(W::SIZE * i + ahead), 1);
                }
                let w: V = W::load(rows[r].add(W::SIZE * i));
                for c in 0..C {
                    acc[c][r] = w.mul_add(a[c], acc[c][r]);
                }
            }
            i += V::N;
        }
        if i < k {
            let mut a = [V::splat(0.0); C];
            for c in 0..C {
                a[c] = V::load_part(cols[c].add(i), k - i);
            }
            for r in 0..ROWS {
                let w: V = W::part(rows[r].add(W::SIZE * i), k - i);
                for c in 0..C {
                    acc[c][r] = w.mul_add(a[c], acc[c][r]);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            let mut sums = V::sum4(acc);
            let to = (*dst.add(c)).cast::<[f32; ROWS]>();
            if add {
                let before = to.read_unaligned();
                for r in 0..ROWS {
                    sums[r] += before[r];
                }
            }
            to.write_unaligned(sums);
        }
    }
}

/// Rows between those that a sum adds and those that are loaded into the cache.
const AHEAD: usize = 8;
/// Vectors of a sum that are computed at once.
const VECTORS: usize = 4;

/// [`WeightedSum`] for `C` columns.
///
/// # Safety
/// As for [`WeightedSum`], and the processor has the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn weighted_sum<V: Lanes, W: Number, const C: usize>(
    k: usize,
    n: usize,
    rows: *const *const u8,
    weights: *const *const f32,
    dst: *const *mut f32,
) {
    // SAFETY: the contracts of `WeightedSum`, `Number` and `Lanes`; vectors end before `k`, except for the last, which is a part.
    unsafe {
        let weights = weights.cast::<[*const f32; C]>().read_unaligned();
        let dst = dst.cast::<[*mut f32; C]>().read_unaligned();
        let mut i = 0;
        macro_rules! block {
            ($vectors:expr, $load:expr, $store:expr, $number:expr) => {
                let mut acc = [[V::splat(0.0); $vectors]; C];
                for c in 0..C {
                    for u in 0..$vectors {
                        acc[c][u] = $load(dst[c].add(i + u * V::N));
                    }
                }
                for j in 0..n {
                    let row = *rows.add(j);
                    let next = (*rows.add((j + AHEAD).min(n - 1))).wrapping_add(W::SIZE * i);
                    prefetch(next, W::SIZE * $vectors * V::N);
                    let mut p = [V::splat(0.0); C];
                    for c in 0..C {
                        p[c] = V::splat(weights[c].add(j).read_unaligned());
                    }
                    for u in 0..$vectors {
                        let x: V = $number(row.add(W::SIZE * (i + u * V::N)));
                        for c in 0..C {
                            acc[c][u] = x.mul_add(p[c], acc[c][u]);
                        }
                    }
                }
                for c in 0..C {
                    for u in 0..$vectors {
                        $store(acc[c][u], dst[c].add(i + u * V::N));
                    }
                }
            };
        }
        while k - i >= VECTORS * V::N {
            block!(VECTORS, V::load, V::store, W::load);
            i += VECTORS * V::N;
        }
        while k - i >= V::N {
            block!(1, V::load, V::store, W::load);
            i += V::N;
        }
        if i < k {
            let rest = k - i;
            block!(1, |p| V::load_part(p, rest), |v: V, p| v.store_part(p, rest), |p| W::part(p, rest));
        }
    }
}

/// Compiles the kernels for one instruction set, as a static `PRODUCTS`.
macro_rules! instantiate {
    ($lanes:ty, [$($cols:literal)*] $(, $features:literal)?) => {
        mod row_products {
            use super::*;
            use $crate::cpu::simd::products::{self, Number, Product, Products, WeightedSum};
            $(#[target_feature(enable = $features)])?
            unsafe fn product<W: Number, const C: usize>(
                k: usize, rows: *const *const u8, ahead: usize, cols: *const *const f32, dst: *const *mut f32, add: bool,
            ) {
                // SAFETY: this function enables the features, and the contract of `Product` covers the rest.
                unsafe { products::product::<$lanes, W, C>(k, rows, ahead, cols, dst, add) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn weighted_sum<W: Number, const C: usize>(
                k: usize, n: usize, rows: *const *const u8, weights: *const *const f32, dst: *const *mut f32,
            ) {
                // SAFETY: this function enables the features, and the contract of `WeightedSum` covers the rest.
                unsafe { products::weighted_sum::<$lanes, W, C>(k, n, rows, weights, dst) }
            }
            pub static PRODUCTS: Products = Products {
                f32: &[$(($cols, product::<products::Float, $cols> as Product)),*],
                f16: &[$(($cols, product::<products::Half, $cols> as Product)),*],
                bf16: &[$(($cols, product::<products::Bfloat16, $cols> as Product)),*],
                f8: &[$(($cols, product::<products::Float8, $cols> as Product)),*],
                sums_f32: &[$(($cols, weighted_sum::<products::Float, $cols> as WeightedSum)),*],
                sums_f16: &[$(($cols, weighted_sum::<products::Half, $cols> as WeightedSum)),*],
            };
        }
    };
}
pub(super) use instantiate;
