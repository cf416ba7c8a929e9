//! Products of rows of plain numbers (floats, halves, bfloat16s, floats of 8 bits) and columns of floats, and sums of
//! such rows with weights; several rows and columns at once.
//!
//! Rows and columns are read as they are in memory. In a product, a lane has every `N`-th value of `k`: each result is
//! one or several chains of additions for each lane, then the sum of the lanes; longer products are computed in
//! steps, whose sums are added in their order. A sum of rows is one chain of additions in the order of the rows. So the
//! bits of a result depend on the instruction set, the step and the chains, but not on which rows and columns are
//! computed together.

use super::lanes::Lanes;
use super::matrix::MatrixProducts;
use crate::abi::ggml::ggml_type::{self, *};
use crate::sys::prefetch::prefetch;

/// Rows that a kernel computes at once.
pub const ROWS: usize = 4;
/// Maximum number of columns of a kernel.
pub const MAX_COLS: usize = 6;
/// Values of `k` in a step: those of several columns fit into the L1 cache.
pub const STEP: usize = 1024;

/// Maximum of [`Products::block_rows`].
pub const MAX_BLOCK_ROWS: usize = 64;

/// Rows between those of a head that are processed and those that are loaded into the cache: 8 KiB of 128 halves.
pub const AHEAD: usize = 32;

/// Products of `n` rows, a multiple of [`ROWS`], and the number of columns of the kernel, for a step of at most
/// [`STEP`] values. Result `r` of column `c` goes to `dst[c][r]`, or is added to it if `add`. Each `chain` values, a
/// multiple of 32, are added up on their own in each lane. What is `ahead` bytes after the rows will be needed next,
/// unless that is 0: the kernel begins to load it into the cache.
///
/// # Safety
/// `rows` has `n` pointers, each readable for `k` numbers of the format of the kernel. `cols` and `dst` have as many
/// pointers as the kernel has columns: each in `cols` is readable for `k` floats (or bfloat16s,
/// [`Products::bf16_columns`]), and each in `dst` is writable for `n` floats (readable, too, if `add`).
pub type Product = unsafe fn(
    k: usize,
    chain: usize,
    n: usize,
    rows: *const *const u8,
    ahead: usize,
    cols: *const *const u8,
    dst: *const *mut f32,
    add: bool,
);

/// Adds the `n` rows, each times its weight, to as many results as the kernel has columns:
/// `dst[c][i] += weights[c][j] * rows[j][i]`. If `apart`, the rows are added up first, and their sum then to the
/// results: a chain of additions of its own. What is `ahead` bytes after the rows will be needed next, unless that is
/// 0: the kernel begins to load it into the cache.
///
/// # Safety
/// `rows` has `n` pointers, each readable for `k` numbers of the format of the kernel. `weights` and `dst` have as many
/// pointers as the kernel has columns: each in `weights` is readable for `n` floats, and each in `dst` is readable and
/// writable for `k` floats, which nothing else overlaps.
pub type WeightedSum = unsafe fn(
    k: usize,
    n: usize,
    rows: *const *const u8,
    ahead: usize,
    weights: *const *const f32,
    dst: *const *mut f32,
    apart: bool,
);

/// Kernels with their number of columns, in descending order, down to one column.
pub type List<T> = &'static [(usize, T)];

/// Kernels for each format of rows.
#[derive(Clone, Copy)]
pub struct ByFormat {
    /// Floats.
    pub f32: List<Product>,
    /// Halves.
    pub f16: List<Product>,
    /// Bfloat16s.
    pub bf16: List<Product>,
    /// Floats of 8 bits (E4M3).
    pub f8: List<Product>,
}

impl ByFormat {
    /// The kernels of a format, or none for formats in blocks.
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

/// Minimum numbers of columns for which rows are converted to floats once for all of them, by the format of the rows.
/// Rows of floats are copied: the copies are not a power of two apart, so they do not compete for the same sets of the
/// cache.
#[derive(Clone, Copy)]
pub struct ConvertFrom {
    /// For halves.
    pub f16: usize,
    /// For bfloat16s.
    pub bf16: usize,
}

impl ConvertFrom {
    /// Without instructions for the conversion.
    pub const SLOW: Self = Self { f16: 16, bf16: 16 };
    /// Where kernels convert as fast as they multiply; but many columns read a copy with less work
    /// (docs/PERFORMANCE.md).
    pub const FAST: Self = Self { f16: 256, bf16: 48 };
    /// Where many columns of converted rows take fewer instructions.
    #[cfg(target_arch = "aarch64")]
    pub const ARM: Self = Self { f16: 48, ..Self::FAST };
    /// As [`Self::FAST`], where other units convert halves.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub const BESIDE: Self = Self { f16: usize::MAX, ..Self::FAST };

    /// The number for a format, whose rows are `stride` bytes apart.
    pub fn of(self, t: ggml_type, stride: usize) -> usize {
        /// Rows so many bytes apart compete for the same sets of the cache, as copies do not: 32 of them would fill
        /// half of those of a cache of 512 KiB.
        const COMPETING: usize = 8192;
        match t {
            GGML_TYPE_F32 => 64,
            GGML_TYPE_F16 if stride.is_multiple_of(COMPETING) => self.f16.min(Self::FAST.f16),
            GGML_TYPE_F16 => self.f16,
            GGML_TYPE_BF16 => self.bf16,
            _ => 16,
        }
    }
}

/// The kernels of an instruction set.
#[derive(Clone, Copy)]
pub struct Products {
    /// Products of several rows at once.
    pub together: ByFormat,
    /// Kernels for matrix registers, which are used instead, for halves and bfloat16s.
    pub matrix: Option<[MatrixProducts; 2]>,
    /// When rows are converted to floats.
    pub convert_from: ConvertFrom,
    /// Rows that many columns are multiplied by, and that are converted, at a time: a multiple of [`ROWS`], at most
    /// [`MAX_BLOCK_ROWS`].
    pub block_rows: usize,
    /// Format of the columns of bfloat16s: floats, or bfloat16s if the processor multiplies these.
    pub bf16_columns: ggml_type,
    /// Sums of floats.
    pub sums_f32: List<WeightedSum>,
    /// Sums of halves.
    pub sums_f16: List<WeightedSum>,
}

impl Products {
    /// The kernels for matrix registers for a format of rows.
    pub fn matrix(&self, t: ggml_type) -> Option<&MatrixProducts> {
        let [halves, bfloat16s] = self.matrix.as_ref()?;
        match t {
            GGML_TYPE_F16 => Some(halves),
            GGML_TYPE_BF16 => Some(bfloat16s),
            _ => None,
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
        // SAFETY: the caller promises `n` readable numbers, fewer than a vector, for which there is room, and the
        // instruction set.
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

/// How a kernel multiplies: numbers of rows by those of columns, in vectors of `VALUES` of them.
///
/// # Safety
/// The methods read `VALUES` numbers at `p`, or `n < VALUES` of them, on a processor with the instruction set.
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub unsafe trait Factors {
    /// The sums of a vector of products.
    type Sums: Lanes;
    /// A vector of numbers.
    type Vector: Copy;
    /// Numbers in a vector.
    const VALUES: usize;
    /// Bytes of a number in a row.
    const ROW: usize;
    /// Bytes of a number in a column.
    const COLUMN: usize;
    /// Whether two vectors of each row and column are read at a time.
    const IN_PAIRS: bool = false;
    /// Reads numbers of a row.
    unsafe fn row(p: *const u8) -> Self::Vector;
    /// Reads the last numbers of a row, and sets the others to zero.
    unsafe fn row_part(p: *const u8, n: usize) -> Self::Vector;
    /// Reads numbers of a column.
    unsafe fn column(p: *const u8) -> Self::Vector;
    /// Reads the last numbers of a column, and sets the others to zero.
    unsafe fn column_part(p: *const u8, n: usize) -> Self::Vector;
    /// Adds the products.
    unsafe fn add_products(w: Self::Vector, a: Self::Vector, sums: Self::Sums) -> Self::Sums;
}

/// Rows of `W` and columns of floats, multiplied as floats.
pub struct AsFloats<V, W>(std::marker::PhantomData<(V, W)>);

// SAFETY: the methods of `Lanes` and `Number` read as many numbers.
unsafe impl<V: Lanes, W: Number> Factors for AsFloats<V, W> {
    type Sums = V;
    type Vector = V;
    const VALUES: usize = V::N;
    const ROW: usize = W::SIZE;
    const COLUMN: usize = size_of::<f32>();
    const IN_PAIRS: bool = V::IN_PAIRS;
    #[inline(always)]
    unsafe fn row(p: *const u8) -> V {
        // SAFETY: forwarded to the caller.
        unsafe { W::load(p) }
    }
    #[inline(always)]
    unsafe fn row_part(p: *const u8, n: usize) -> V {
        // SAFETY: forwarded to the caller.
        unsafe { W::part(p, n) }
    }
    #[inline(always)]
    unsafe fn column(p: *const u8) -> V {
        // SAFETY: forwarded to the caller.
        unsafe { V::load(p.cast()) }
    }
    #[inline(always)]
    unsafe fn column_part(p: *const u8, n: usize) -> V {
        // SAFETY: forwarded to the caller.
        unsafe { V::load_part(p.cast(), n) }
    }
    #[inline(always)]
    unsafe fn add_products(w: V, a: V, sums: V) -> V {
        // SAFETY: forwarded to the caller.
        unsafe { w.mul_add(a, sums) }
    }
}

/// [`Product`] for `C` columns.
///
/// # Safety
/// As for [`Product`], and the processor has the instruction set of `F`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn product<F: Factors, const C: usize>(
    k: usize,
    chain: usize,
    n: usize,
    rows: *const *const u8,
    ahead: usize,
    cols: *const *const u8,
    dst: *const *mut f32,
    add: bool,
) {
    // SAFETY: the contracts of `Product`, `Factors` and `Lanes`; all indices are below `k` and `n`.
    unsafe {
        let cols = cols.cast::<[*const u8; C]>().read_unaligned();
        let dst = dst.cast::<[*mut f32; C]>().read_unaligned();
        let mut first = 0;
        while first < n {
            let some = rows.add(first).cast::<[*const u8; ROWS]>().read_unaligned();
            // Two functions: with the sums of several chains, some of those of one would be in memory, too.
            if chain < k {
                some_rows::<F, C, true>([k, chain], some, ahead, cols, dst, first, add);
            } else {
                some_rows::<F, C, false>([k, chain], some, ahead, cols, dst, first, add);
            }
            first += ROWS;
        }
    }
}

/// [`product`] for [`ROWS`] rows, whose results go to `dst[c][first..]`.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn some_rows<F: Factors, const C: usize, const CHAINS: bool>(
    [k, chain]: [usize; 2],
    rows: [*const u8; ROWS],
    ahead: usize,
    cols: [*const u8; C],
    dst: [*mut f32; C],
    first: usize,
    add: bool,
) {
    // SAFETY: the contracts of `Product`, `Factors` and `Lanes`; all indices are below `k`.
    unsafe {
        let mut acc = [[F::Sums::splat(0.0); ROWS]; C];
        macro_rules! vectors {
            ($i:ident, $row:ident, $column:ident $(, $n:expr)?) => {
                let mut a = [F::$column(cols[0].add(F::COLUMN * $i) $(, $n)?); C];
                for c in 1..C {
                    a[c] = F::$column(cols[c].add(F::COLUMN * $i) $(, $n)?);
                }
                for r in 0..ROWS {
                    let w = F::$row(rows[r].add(F::ROW * $i) $(, $n)?);
                    for c in 0..C {
                        acc[c][r] = F::add_products(w, a[c], acc[c][r]);
                    }
                }
            };
        }
        let whole = k - k % F::VALUES;
        if whole < k {
            vectors!(whole, row_part, column_part, k - whole);
        }
        // What follows is loaded one row after the other, although these rows are read together: so memory is read in
        // the order of its addresses.
        let (mut later, mut loaded) = (0, 0);
        let mut i = 0;
        macro_rules! load_ahead {
            ($vectors:literal) => {
                if ahead != 0 && later < ROWS {
                    let bytes = $vectors * ROWS * F::ROW * F::VALUES;
                    prefetch(rows[later].wrapping_add(ahead + loaded), bytes);
                    loaded += bytes;
                    if loaded >= F::ROW * k {
                        (later, loaded) = (later + 1, 0);
                    }
                }
            };
        }
        macro_rules! until {
            ($end:expr) => {
                let end = $end;
                while F::IN_PAIRS && i + F::VALUES < end {
                    load_ahead!(2);
                    vectors!(i, row, column);
                    let next = i + F::VALUES;
                    vectors!(next, row, column);
                    i = next + F::VALUES;
                }
                while i < end {
                    load_ahead!(1);
                    vectors!(i, row, column);
                    i += F::VALUES;
                }
            };
        }
        until!(if CHAINS { whole.min(chain) } else { whole });
        // The sums of one chain need all registers. So those of the chains before are in memory: as variables, they
        // would compete with them. The compiler leaves what is volatile where it is.
        let mut ended = [[const { std::mem::MaybeUninit::<F::Sums>::uninit() }; ROWS]; C];
        let ended: *mut F::Sums = ended.as_mut_ptr().cast();
        while CHAINS && i < whole {
            for c in 0..C {
                for r in 0..ROWS {
                    ended.add(c * ROWS + r).write_volatile(acc[c][r]);
                    acc[c][r] = F::Sums::splat(0.0);
                }
            }
            until!(whole.min(i + chain));
            for c in 0..C {
                for r in 0..ROWS {
                    acc[c][r] = ended.add(c * ROWS + r).read_volatile().add(acc[c][r]);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            let mut sums = F::Sums::sum4(acc);
            let to = dst[c].add(first).cast::<[f32; ROWS]>();
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
    ahead: usize,
    weights: *const *const f32,
    dst: *const *mut f32,
    apart: bool,
) {
    // SAFETY: the contracts of `WeightedSum`, `Number` and `Lanes`; vectors end before `k`, except for the last, which
    // is a part.
    unsafe {
        let weights = weights.cast::<[*const f32; C]>().read_unaligned();
        let dst = dst.cast::<[*mut f32; C]>().read_unaligned();
        let mut i = 0;
        macro_rules! block {
            ($vectors:expr, load $from:ident: $load:expr, store $v:ident $to:ident: $store:expr, number $p:ident: $number:expr) => {
                let mut acc = [[V::splat(0.0); $vectors]; C];
                for c in 0..C {
                    for u in 0..$vectors {
                        let $from = dst[c].add(i + u * V::N);
                        acc[c][u] = if apart { V::splat(0.0) } else { $load };
                    }
                }
                for j in 0..n {
                    let row = *rows.add(j);
                    if ahead != 0 {
                        prefetch(row.wrapping_add(W::SIZE * i + ahead), W::SIZE * $vectors * V::N);
                    }
                    let mut weight = [V::splat(0.0); C];
                    for c in 0..C {
                        weight[c] = V::splat(weights[c].add(j).read_unaligned());
                    }
                    for u in 0..$vectors {
                        let $p = row.add(W::SIZE * (i + u * V::N));
                        let x: V = $number;
                        for c in 0..C {
                            acc[c][u] = x.mul_add(weight[c], acc[c][u]);
                        }
                    }
                }
                for c in 0..C {
                    for u in 0..$vectors {
                        let $from = dst[c].add(i + u * V::N);
                        let ($v, $to) = (if apart { acc[c][u].add($load) } else { acc[c][u] }, $from);
                        $store;
                    }
                }
            };
        }
        while k - i >= VECTORS * V::N {
            block!(VECTORS, load p: V::load(p), store v p: v.store(p), number p: W::load(p));
            i += VECTORS * V::N;
        }
        while k - i >= V::N {
            block!(1, load p: V::load(p), store v p: v.store(p), number p: W::load(p));
            i += V::N;
        }
        if i < k {
            let rest = k - i;
            block!(1, load p: V::load_part(p, rest), store v p: v.store_part(p, rest), number p: W::part(p, rest));
        }
    }
}

/// Compiles the kernels for one instruction set, as a static `PRODUCTS`.
macro_rules! instantiate {
    ($lanes:ty, [$($cols:literal)*] $(, $features:literal)?) => {
        mod row_products {
            use $crate::cpu::simd::products::{self, AsFloats, ByFormat, Number, Product, Products, WeightedSum};
            $(#[target_feature(enable = $features)])?
            unsafe fn product<W: Number, const C: usize>(
                k: usize, chain: usize, n: usize, rows: *const *const u8, ahead: usize, cols: *const *const u8, dst: *const *mut f32, add: bool,
            ) {
                // SAFETY: this function enables the features, and the contract of `Product` covers the rest.
                unsafe { products::product::<AsFloats<$lanes, W>, C>(k, chain, n, rows, ahead, cols, dst, add) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn weighted_sum<W: Number, const C: usize>(
                k: usize, n: usize, rows: *const *const u8, ahead: usize, weights: *const *const f32, dst: *const *mut f32, apart: bool,
            ) {
                // SAFETY: this function enables the features, and the contract of `WeightedSum` covers the rest.
                unsafe { products::weighted_sum::<$lanes, W, C>(k, n, rows, ahead, weights, dst, apart) }
            }
            pub static PRODUCTS: Products = Products {
                together: ByFormat {
                    f32: &[$(($cols, product::<products::Float, $cols> as Product)),*],
                    f16: &[$(($cols, product::<products::Half, $cols> as Product)),*],
                    bf16: &[$(($cols, product::<products::Bfloat16, $cols> as Product)),*],
                    f8: &[$(($cols, product::<products::Float8, $cols> as Product)),*],
                },
                matrix: None,
                convert_from: products::ConvertFrom::SLOW,
                // With a step of floats 128 KiB: processors with AVX2 have caches of the second level from 256 KiB on.
                block_rows: 32,
                bf16_columns: $crate::abi::ggml::ggml_type::GGML_TYPE_F32,
                sums_f32: &[$(($cols, weighted_sum::<products::Float, $cols> as WeightedSum)),*],
                sums_f16: &[$(($cols, weighted_sum::<products::Half, $cols> as WeightedSum)),*],
            };
        }
    };
}
pub(super) use instantiate;
