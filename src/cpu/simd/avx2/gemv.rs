//! Matrix times column with AVX2. Eight rows are processed at once, and a lane of a vector of results is a row, as in a
//! panel. So every result is one chain of additions in the order of `k`, and has the same bits as in a tile
//! (`tile::byte_tile`).
//!
//! Files: this one has the sums, `codes` the formats whose values are bits or codes, `points` those of grids.
//!
//! Weights are unpacked to unsigned bytes with a bias (`BIAS`), or to signed bytes if the values need all eight bits.
//! Vectors have sixteen values of row `r` in the low half and of row `r + 4` in the high half: the sums of four vectors
//! then need two levels of horizontal additions.

use super::super::form::{Act, Form};
use super::super::interleave::block::{Block, Format};
use super::lanes::{Avx2Dots, opaque};
use crate::cpu::simd::gemv::with_simd;
use crate::cpu::simd::words::Words;
use crate::sys::prefetch::Later;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Rows that are processed at once.
pub const ROWS: usize = 8;

/// The rows, at the current block.
pub type Rows8 = [*const u8; ROWS];

/// A group of 32 values of two rows: the first sixteen of both, then the others.
pub type Pair = [__m256i; 2];

/// How weights become bytes.
pub trait Codes {
    /// Bytes of a block.
    const BYTES: usize;
    /// Greatest magnitude of the bytes.
    const MAX: i32;
    /// What is added to the values to make unsigned bytes: 0 or a power of two.
    const BIAS: i32 = 0;
    /// Whether the bytes are signed, without a bias.
    const SIGNED: bool = false;
    /// Whether there is a scale for every 16 values, not for every 32.
    const FINE: bool = false;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
}

/// A block of 32 values with one scale.
///
/// # Safety
/// The methods read at most `BYTES` bytes at each pointer. Call them only if these are readable and the processor has
/// AVX2, FMA and F16C.
pub unsafe trait Small: Codes {
    /// The scales and offsets of eight blocks.
    unsafe fn scales(x: &Rows8) -> (__m256, __m256);
    /// The values of two blocks.
    unsafe fn codes(a: *const u8, b: *const u8) -> Pair;
}

/// A block of 256 values. Its scales are computed as those of an interleaved block, with a row in each lane.
///
/// # Safety
/// As for [`Small`]. All words that the scales are computed from are in the runs.
pub unsafe trait Super: Codes {
    /// The interleaved format.
    type Interleaved: Format;
    /// Runs of four words that scales and offsets are computed from: the numbers of their first words.
    const WORDS: &'static [usize];
    /// Values `64 * J` to `64 * J + 63` of two blocks.
    unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2];
}

with_simd! {
    // Sums of four products of bytes of each row.
    unsafe fn pairs_to_words(v: __m256i) -> __m256i {
        _mm256_madd_epi16(v, _mm256_set1_epi16(1))
    }
    // Sixteen activations, for both rows of a pair.
    pub unsafe fn twice(p: *const u8) -> __m256i {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()))
    }
    // The halves at `at` in each row.
    pub unsafe fn halves(x: &Rows8, at: usize) -> __m256 {
        _mm256_cvtph_ps(words16(x, at))
    }
    // Their bits. They are put together as integers: the compiler may insert words into a register that holds the sums,
    // whatever it has there, and each block would wait for the one before.
    unsafe fn words16(x: &Rows8, at: usize) -> __m128i {
        let h = x.map(|x| u64::from(x.add(at).cast::<u16>().read_unaligned()));
        let four = |i: usize| (h[i] | h[i + 1] << 16) | (h[i + 2] | h[i + 3] << 16) << 32;
        _mm_set_epi64x(four(4) as i64, four(0) as i64)
    }
}

/// Products of sixteen values of two rows, added in pairs.
#[inline(always)]
unsafe fn products<C: Codes>(w: __m256i, a: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        if C::SIGNED {
            // The instruction requires an unsigned first factor, so the sign of the weight moves to the activation.
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w))
        } else {
            _mm256_maddubs_epi16(w, a)
        }
    }
}

/// How many sums of `n` products of bytes fit into 16 bits.
const fn sums_that_fit<C: Codes>(n: i32) -> i32 {
    i16::MAX as i32 / (n * 127 * C::MAX)
}

/// Sums of products of four values or fewer: of pairs of rows, then of four rows, then of eight, of which each has a
/// lane. With 16 bits as long as they fit. `N` products are in a number at first.
#[derive(Clone, Copy)]
pub struct Sums<const N: i32>(__m256i);

impl<const N: i32> Sums<N> {
    /// Of 32 values of two rows: the first sixteen, and the last.
    #[inline(always)]
    pub unsafe fn of_both<C: Codes>(first: __m256i, last: __m256i) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe {
            match const { sums_that_fit::<C>(N) } {
                0 => _mm256_add_epi32(pairs_to_words(first), pairs_to_words(last)),
                _ => _mm256_add_epi16(first, last),
            }
        })
    }

    /// Of four rows.
    #[inline(always)]
    pub unsafe fn and<C: Codes>(self, more: Self) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe {
            match const { sums_that_fit::<C>(N) } {
                0 => _mm256_hadd_epi32(self.0, more.0),
                1 => _mm256_hadd_epi32(pairs_to_words(self.0), pairs_to_words(more.0)),
                _ => _mm256_hadd_epi16(self.0, more.0),
            }
        })
    }

    /// Of eight rows: 0 to 3 from the low halves, 4 to 7 from the high ones.
    #[inline(always)]
    pub unsafe fn all<C: Codes>(self, more: Self) -> __m256i {
        // SAFETY: the caller promises AVX2.
        unsafe {
            match const { sums_that_fit::<C>(N) } {
                0 | 1 => _mm256_hadd_epi32(self.0, more.0),
                2 | 3 => _mm256_hadd_epi32(pairs_to_words(self.0), pairs_to_words(more.0)),
                _ => pairs_to_words(_mm256_hadd_epi16(self.0, more.0)),
            }
        }
    }
}

/// [`Sums`] of a group of 32 values.
pub type Coarse = Sums<4>;
/// [`Sums`] of a group of 16 values.
pub type Fine = Sums<2>;

impl Fine {
    /// Of 16 values of two rows.
    #[inline(always)]
    pub fn of(products: __m256i) -> Self {
        Self(products)
    }
}

/// Sums of a group of 32 values of two rows.
#[inline(always)]
unsafe fn coarse<C: Codes>(w: Pair, a: Pair) -> Coarse {
    // SAFETY: forwarded to the caller.
    unsafe { Coarse::of_both::<C>(products::<C>(w[0], a[0]), products::<C>(w[1], a[1])) }
}

/// Adds the products of a group, whose sums in integers are `sums`, in the order of a tile. `at` is the [`Act`] block,
/// `group` the number of the group in it.
#[inline(always)]
pub unsafe fn add_group<C: Codes>(
    acc: __m256,
    sums: __m256i,
    scale: __m256,
    offset: __m256,
    at: *const u8,
    group: usize,
) -> __m256 {
    const SCALE: usize = Act::<32, false>::SCALE;
    const START: usize = Act::<32, false>::START;
    let groups = if C::FINE { 2 } else { 1 };
    // SAFETY: `at` is a block of activations, and all offsets are inside. The caller promises AVX2 and FMA.
    unsafe {
        let sums = if C::BIAS == 0 {
            sums
        } else {
            // The number there is for a bias of 128. It is shifted as a vector: the compiler would shift it first, and
            // move it then.
            let start = opaque(_mm256_set1_epi32(at.add(START + 4 * group).cast::<i32>().read_unaligned()));
            _mm256_add_epi32(sums, _mm256_sra_epi32(start, _mm_cvtsi32_si128(7 - C::BIAS.trailing_zeros() as i32)))
        };
        let d = _mm256_broadcast_ss(&at.add(SCALE).cast::<f32>().read_unaligned());
        let acc = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale), d, acc);
        if C::OFFSETS {
            let sum = at.add(START + 4 * (groups + group)).cast::<f32>().read_unaligned();
            _mm256_fmadd_ps(offset, _mm256_broadcast_ss(&sum), acc)
        } else {
            acc
        }
    }
}

/// The form of activations.
pub const fn form<C: Codes>() -> Form {
    Form { group: if C::FINE { 16 } else { 32 }, offsets: C::OFFSETS, bits: 8 }
}

/// Dot products of eight rows of [`Small`] blocks. `ahead` bytes further are the rows that come next.
#[inline(always)]
unsafe fn small_rows<B: Small>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below
    // `k / 32`.
    unsafe {
        let mut acc = _mm256_setzero_ps();
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 32 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            let at = act.add(i * form::<B>().act_bytes());
            let a = [twice(at), twice(at.add(16))];
            let first = coarse::<B>(B::codes(x[0], x[4]), a).and::<B>(coarse::<B>(B::codes(x[1], x[5]), a));
            let last = coarse::<B>(B::codes(x[2], x[6]), a).and::<B>(coarse::<B>(B::codes(x[3], x[7]), a));
            let sums = first.all::<B>(last);
            let (scale, offset) = B::scales(&x);
            acc = add_group::<B>(acc, sums, scale, offset, at, 0);
        }
        acc
    }
}

/// Sums of two groups of 32 values of two rows.
#[inline(always)]
unsafe fn coarse_2<C: Codes>(w: [Pair; 2], a: [Pair; 2]) -> [Coarse; 2] {
    // SAFETY: forwarded to the caller.
    unsafe { [coarse::<C>(w[0], a[0]), coarse::<C>(w[1], a[1])] }
}

/// Sums of four groups of 16 values of two rows.
#[inline(always)]
unsafe fn fine_4<C: Codes>(w: [Pair; 2], a: [Pair; 2]) -> [Fine; 4] {
    // SAFETY: forwarded to the caller.
    unsafe {
        [
            Fine::of(products::<C>(w[0][0], a[0][0])),
            Fine::of(products::<C>(w[0][1], a[0][1])),
            Fine::of(products::<C>(w[1][0], a[1][0])),
            Fine::of(products::<C>(w[1][1], a[1][1])),
        ]
    }
}

/// Sums of groups of four rows.
#[inline(always)]
unsafe fn four_rows<C: Codes, const N: i32, const G: usize>(mut a: [Sums<N>; G], b: [Sums<N>; G]) -> [Sums<N>; G] {
    for (a, b) in a.iter_mut().zip(b) {
        // SAFETY: forwarded to the caller.
        *a = unsafe { a.and::<C>(b) };
    }
    a
}

/// Words of the interleaved blocks at most, and a vector for their separate scales.
const MAX_WORDS: usize = 53;

/// The scales of a group, and its offsets, if there are any.
#[inline(always)]
unsafe fn scales<B: Super>(b: Block<Avx2Dots>, g: usize) -> (__m256, __m256) {
    // SAFETY: the contract of `Super`: the words are there. The caller promises the instruction set.
    unsafe {
        let scale = <B::Interleaved as Format>::scale(b, g).0;
        (scale, if B::OFFSETS { <B::Interleaved as Format>::offset(b, g).0 } else { _mm256_setzero_ps() })
    }
}

/// As [`small_rows`], for [`Super`] blocks.
#[inline(always)]
unsafe fn super_rows<B: Super>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below
    // `k / 256`.
    unsafe {
        let shape = <B::Interleaved as Format>::SHAPE;
        let mut words = [MaybeUninit::<__m256i>::uninit(); MAX_WORDS];
        assert!(shape.words < MAX_WORDS && shape.scale % 2 == 0);
        let mut acc = _mm256_setzero_ps();
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 256 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            for run in B::WORDS {
                Avx2Dots::interleave_4(x.as_ptr(), 4 * run, words.as_mut_ptr().cast::<u8>().add(32 * run));
            }
            if shape.scale > 0 {
                // In one piece: what is written in several cannot be read together at once.
                _mm_storeu_si128(words.as_mut_ptr().add(shape.words).cast(), words16(&x, shape.scale_at));
            }
            let b = Block::<Avx2Dots>::new(words.as_ptr().cast());
            macro_rules! chunk {
                ($j:literal) => {
                    let at = act.add((8 * i + 2 * $j) * form::<B>().act_bytes());
                    let at = [at, at.add(form::<B>().act_bytes())];
                    let a = [[twice(at[0]), twice(at[0].add(16))], [twice(at[1]), twice(at[1].add(16))]];
                    // The values of rows `r` and `r + 4`.
                    macro_rules! codes {
                        ($r:literal) => {
                            B::codes::<$j>(x[$r], x[$r + 4])
                        };
                    }
                    if B::FINE {
                        let first = four_rows::<B, _, _>(fine_4::<B>(codes!(0), a), fine_4::<B>(codes!(1), a));
                        let last = four_rows::<B, _, _>(fine_4::<B>(codes!(2), a), fine_4::<B>(codes!(3), a));
                        for g in 0..4 {
                            let (scale, offset) = scales::<B>(b, 4 * $j + g);
                            acc = add_group::<B>(acc, first[g].all::<B>(last[g]), scale, offset, at[g / 2], g % 2);
                        }
                    } else {
                        let first = four_rows::<B, _, _>(coarse_2::<B>(codes!(0), a), coarse_2::<B>(codes!(1), a));
                        let last = four_rows::<B, _, _>(coarse_2::<B>(codes!(2), a), coarse_2::<B>(codes!(3), a));
                        for g in 0..2 {
                            let (scale, offset) = scales::<B>(b, 2 * $j + g);
                            acc = add_group::<B>(acc, first[g].all::<B>(last[g]), scale, offset, at[g], 0);
                        }
                    }
                };
            }
            chunk!(0);
            chunk!(1);
            chunk!(2);
            chunk!(3);
        }
        acc
    }
}

macro_rules! kernel {
    ($vis:vis $name:ident, $kind:ident, $rows:ident) => {
        /// [`Rows`](crate::cpu::simd::gemv::Rows).
        ///
        /// # Safety
        /// As for that type, and the processor has AVX2, FMA and F16C.
        #[target_feature(enable = "avx2,fma,f16c")]
        $vis unsafe fn $name<B: $kind>(
            k: usize,
            x: *const u8,
            stride: usize,
            rows: usize,
            act: *const u8,
            dst: *mut f32,
        ) {
            let mut r = 0;
            while r < rows {
                let n = ROWS.min(rows - r);
                // SAFETY: the contract of `gemv::Rows`, for at most eight of its rows: where fewer are left, the last
                // one is repeated. The features of this function are those that the callees require.
                unsafe {
                    let x = std::array::from_fn(|i| x.add((r + i.min(n - 1)) * stride));
                    let acc = $rows::<B>(k, x, $crate::cpu::simd::gemv::ahead(ROWS, stride), act);
                    if n == ROWS {
                        _mm256_storeu_ps(dst.add(r), acc);
                    } else {
                        let mut last = [0f32; ROWS];
                        _mm256_storeu_ps(last.as_mut_ptr(), acc);
                        dst.add(r).copy_from_nonoverlapping(last.as_ptr(), n);
                    }
                }
                r += n;
            }
        }
    };
}
pub(super) use kernel;

kernel!(pub small, Small, small_rows);
kernel!(pub wide, Super, super_rows);
