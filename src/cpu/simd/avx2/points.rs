//! Matrix times column with AVX2 for formats whose values are points of a grid: eight or four values for each index. As
//! in `gemv`, eight rows at once.
//!
//! Indices, signs and scales of a block are computed first: those of a row in a vector, or those of eight rows in a
//! lane each. Only the points themselves are looked up one by one.

use super::super::gemv::Rows;
use super::gemv::{Coarse, Codes, Fine, ROWS, Rows8, add_group, form, halves, twice};
use super::lanes::Avx2Dots;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::simd::gemv::with_simd;
use crate::cpu::simd::words::Words;
use crate::quant::iq1_s::DELTA;
use crate::quant::tables::{iq1::IQ1S_GRID, iq2::*, iq3::*};
use crate::sys::prefetch::Later;
use std::arch::x86_64::*;

/// What is computed of a block of eight rows before its values.
struct RowTerms {
    /// Indices of the points of each row, where they are not bytes of the block.
    indices: [[u16; 64]; ROWS],
    /// For every 32 values the bits of those that are negative, or shifted down. A lane is a row.
    bits: [__m256i; 8],
    /// Words of the block with a row in each lane: four for each of the format's runs.
    words: [__m256i; 20],
    /// The scale of the block.
    d: __m256,
}

/// A format of points.
///
/// # Safety
/// The methods read at most `BYTES` bytes of each block. Call them only if these are readable and the processor has
/// AVX2, FMA and F16C.
unsafe trait Points: Codes {
    /// Where runs of four words are in a block.
    const RUNS: &'static [usize];
    /// Whether the bits shift values down by one, the others up by one, instead of changing their signs.
    const SHIFTS: bool = false;
    /// Computes what `RowTerms` needs besides the words.
    unsafe fn prepare(x: &Rows8, b: &mut RowTerms);
    /// The scales of group `g`.
    unsafe fn scale(b: &RowTerms, g: usize) -> __m256;
    /// Magnitudes `16 * n` to `16 * n + 15` of a row: its block, and its indices.
    unsafe fn sixteen(x: *const u8, indices: &[u16; 64], n: usize) -> __m128i;
}

/// The points of IQ1_S and IQ1_M times eight, plus 16.
static EIGHTHS: [u64; 2048] = {
    let mut all = [0; 2048];
    let mut i = 0;
    while i < 2048 {
        let mut point = IQ1S_GRID[i].to_le_bytes();
        let mut k = 0;
        while k < 8 {
            point[k] = (8 * point[k] as i8 + 16) as u8;
            k += 1;
        }
        all[i] = u64::from_le_bytes(point);
        i += 1;
    }
    all
};

/// For rows `r` and `r + 4`: the byte of `bits` for each of values `16 * h` to `16 * h + 15`.
static SPREAD: [[[u8; 32]; 2]; 4] = {
    let mut all = [[[0; 32]; 2]; 4];
    let mut i = 0;
    while i < 256 {
        let (r, h, at) = (i / 64, i / 32 % 2, i % 32);
        all[r][h][at] = (4 * r + 2 * h + at % 16 / 8) as u8;
        i += 1;
    }
    all
};

/// For every eight 16-bit numbers: byte `first` of eight for the first `repeats` of them, the next byte for the next
/// ones, and so on.
const fn bytes_for<const REPEATS: usize>(first: usize) -> [u8; 32] {
    let mut all = [0x80; 32];
    let mut i = 0;
    while i < 16 {
        all[2 * i] = (first + i / REPEATS) as u8;
        i += 1;
    }
    all
}

with_simd! {
    unsafe fn vector(v: &[u8; 32]) -> __m256i {
        _mm256_loadu_si256(v.as_ptr().cast())
    }
    // Factors for every four 16-bit numbers.
    unsafe fn factors(four: [u16; 4]) -> __m256i {
        let [a, b, c, d] = four.map(u64::from);
        _mm256_set1_epi64x((a | b << 16 | c << 32 | d << 48) as i64)
    }
    // Sixteen bytes as numbers.
    unsafe fn low_bytes(p: *const u8) -> __m256i {
        _mm256_cvtepu8_epi16(_mm_loadu_si128(p.cast()))
    }
    // Eight bytes, twice in each half.
    unsafe fn eight(p: *const u8) -> __m256i {
        _mm256_set1_epi64x(p.cast::<i64>().read_unaligned())
    }
    unsafe fn put(indices: &mut [u16; 64], n: usize, v: __m256i) {
        _mm256_storeu_si256(indices.as_mut_ptr().add(16 * n).cast(), v);
    }
    unsafe fn masked(v: __m256i, mask: u32) -> __m256i {
        _mm256_and_si256(v, _mm256_set1_epi32(mask as i32))
    }
    // `bits` bits from bit `at` on.
    unsafe fn field(v: __m256i, at: usize, bits: u32) -> __m256i {
        masked(_mm256_srl_epi32(v, _mm_cvtsi32_si128(at as i32)), (1 << bits) - 1)
    }
    unsafe fn or4(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d))
    }
    // Sets the highest bit of each byte so that the number of bits is even. It must not be set before.
    unsafe fn even(v: __m256i) -> __m256i {
        let odd = _mm256_set1_epi64x(0x8000_0080_0080_8000u64 as i64);
        // The numbers 0 to 15 that have an odd number of bits: 1, 2, 4, 7, and those with bit 3 the other way round.
        let table = _mm256_unpacklo_epi64(odd, _mm256_xor_si256(odd, _mm256_set1_epi8(-0x80)));
        let low = _mm256_shuffle_epi8(table, masked(v, 0x0f0f_0f0f));
        let high = _mm256_shuffle_epi8(table, masked(_mm256_srli_epi32::<4>(v), 0x0f0f_0f0f));
        _mm256_or_si256(v, _mm256_xor_si256(low, high))
    }
    // Four fields of seven bits, with the eighth.
    unsafe fn sevens(w: __m256i) -> __m256i {
        let second = masked(_mm256_slli_epi32::<1>(w), 0x7f00);
        let third = masked(_mm256_slli_epi32::<2>(w), 0x7f_0000);
        let fourth = masked(_mm256_slli_epi32::<3>(w), 0x7f00_0000);
        even(or4(masked(w, 0x7f), second, third, fourth))
    }
    // `d * (0.5 + code) * factor`.
    unsafe fn and_a_half(d: __m256, code: __m256i, factor: f32) -> __m256 {
        let code = _mm256_add_ps(_mm256_set1_ps(0.5), _mm256_cvtepi32_ps(code));
        _mm256_mul_ps(_mm256_mul_ps(d, code), _mm256_set1_ps(factor))
    }
    // `d * (2 * code + 1)`.
    unsafe fn odd(d: __m256, code: __m256i) -> __m256 {
        let code = _mm256_add_epi32(_mm256_slli_epi32::<1>(code), _mm256_set1_epi32(1));
        _mm256_mul_ps(d, _mm256_cvtepi32_ps(code))
    }
    unsafe fn eights(a: &u64, b: &u64) -> __m128i {
        let low = _mm_castsi128_pd(_mm_loadl_epi64(std::ptr::from_ref(a).cast()));
        _mm_castpd_si128(_mm_loadh_pd(low, std::ptr::from_ref(b).cast()))
    }
    unsafe fn fours(grid: &[u32], at: [usize; 4]) -> __m128i {
        let [a, b, c, d] = at.map(|i| grid[i] as i32);
        _mm_set_epi32(d, c, b, a)
    }
    // 32 indices: their low bytes are at `low`, two more bits of each are at `high`, those of four indices in a byte.
    unsafe fn two_more(low: *const u8, high: *const u8, indices: &mut [u16; 64]) {
        let high = eight(high);
        for (n, from) in [const { bytes_for::<4>(0) }, const { bytes_for::<4>(4) }].iter().enumerate() {
            let high = _mm256_mullo_epi16(_mm256_shuffle_epi8(high, vector(from)), factors([256, 64, 16, 4]));
            let high = _mm256_and_si256(high, _mm256_set1_epi16(0x300));
            put(indices, n, _mm256_or_si256(low_bytes(low.add(16 * n)), high));
        }
    }
}

macro_rules! formats {
    ($($name:ident { $($constant:ident: $ty:ty = $value:expr),* }, $runs:expr, shifts $shifts:literal, $note:literal { $($body:tt)* })*) => {$(
        struct $name;
        impl Codes for $name {
            $(const $constant: $ty = $value;)*
        }
        #[doc = $note]
        // SAFETY: the offsets in the block are those in the note, all below `BYTES`.
        unsafe impl Points for $name {
            const RUNS: &'static [usize] = &$runs;
            const SHIFTS: bool = $shifts;
            with_simd! { $($body)* }
        }
    )*};
}

formats! {
    Iq2Xxs { BYTES: usize = 66, MAX: i32 = 43 }, [2, 18, 34, 50], shifts false,
    "A half at 0; at 2, for every 32 values, four indices, and a word of four times seven signs and a scale." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            for t in 0..8 {
                b.bits[t] = sevens(b.words[2 * t + 1]);
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            and_a_half(b.d, field(b.words[2 * g + 1], 28, 4), 0.25)
        }
        unsafe fn sixteen(x: *const u8, _indices: &[u16; 64], n: usize) -> __m128i {
            let at = x.add(2 + 8 * (n / 2) + 2 * (n % 2));
            eights(&IQ2XXS_GRID[usize::from(at.read())], &IQ2XXS_GRID[usize::from(at.add(1).read())])
        }
    }
    Iq2Xs { BYTES: usize = 74, MAX: i32 = 43, FINE: bool = true }, [2, 18, 34, 50, 58], shifts false,
    "A half at 0, indices with seven signs at 2, scales at 66." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            for t in 0..8 {
                let (v, w) = (b.words[2 * t], b.words[2 * t + 1]);
                let first = masked(_mm256_srli_epi32::<9>(v), 0x7f);
                let second = masked(_mm256_srli_epi32::<17>(v), 0x7f00);
                let third = masked(_mm256_slli_epi32::<7>(w), 0x7f_0000);
                let fourth = masked(_mm256_srli_epi32::<1>(w), 0x7f00_0000);
                b.bits[t] = even(or4(first, second, third, fourth));
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            and_a_half(b.d, field(b.words[18 + g / 8], 4 * (g % 8), 4), 0.25)
        }
        unsafe fn sixteen(x: *const u8, _indices: &[u16; 64], n: usize) -> __m128i {
            let two = x.add(2 + 4 * n).cast::<u32>().read_unaligned() as usize;
            eights(&IQ2XS_GRID[two & 511], &IQ2XS_GRID[two >> 16 & 511])
        }
    }
    Iq2S { BYTES: usize = 82, MAX: i32 = 43, FINE: bool = true }, [34, 50, 66], shifts false,
    "A half at 0, low bytes of indices at 2, signs at 34, high bits at 66, scales at 74." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            b.bits.copy_from_slice(&b.words[..8]);
            for r in 0..ROWS {
                two_more(x[r].add(2), x[r].add(66), &mut b.indices[r]);
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            and_a_half(b.d, field(b.words[10 + g / 8], 4 * (g % 8), 4), 0.25)
        }
        unsafe fn sixteen(_x: *const u8, indices: &[u16; 64], n: usize) -> __m128i {
            eights(&IQ2S_GRID[usize::from(indices[2 * n] & 1023)], &IQ2S_GRID[usize::from(indices[2 * n + 1] & 1023)])
        }
    }
    Iq3Xxs { BYTES: usize = 98, MAX: i32 = 62 }, [66, 82], shifts false,
    "A half at 0, indices at 2, and at 66 words of four times seven signs and a scale." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            for t in 0..8 {
                b.bits[t] = sevens(b.words[t]);
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            and_a_half(b.d, field(b.words[g], 28, 4), 0.5)
        }
        unsafe fn sixteen(x: *const u8, _indices: &[u16; 64], n: usize) -> __m128i {
            let at = x.add(2 + 4 * n).cast::<[u8; 4]>().read();
            fours(&IQ3XXS_GRID, at.map(usize::from))
        }
    }
    Iq3S { BYTES: usize = 110, MAX: i32 = 15 }, [74, 90, 94], shifts false,
    "A half at 0, low bytes of indices at 2, their ninth bits at 66, signs at 74, scales at 106." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            b.bits.copy_from_slice(&b.words[..8]);
            let bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128);
            for r in 0..ROWS {
                let high = eight(x[r].add(66));
                let from = const { [bytes_for::<8>(0), bytes_for::<8>(2), bytes_for::<8>(4), bytes_for::<8>(6)] };
                for (n, from) in from.iter().enumerate() {
                    let set = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_shuffle_epi8(high, vector(from)), bit), bit);
                    let high = _mm256_and_si256(set, _mm256_set1_epi16(0x100));
                    put(&mut b.indices[r], n, _mm256_or_si256(low_bytes(x[r].add(2 + 16 * n)), high));
                }
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            odd(b.d, field(b.words[11], 4 * g, 4))
        }
        unsafe fn sixteen(_x: *const u8, indices: &[u16; 64], n: usize) -> __m128i {
            let at = |i: usize| usize::from(indices[4 * n + i] & 511);
            fours(&IQ3S_GRID, [at(0), at(1), at(2), at(3)])
        }
    }
    Iq1S { BYTES: usize = 50, MAX: i32 = 25, BIAS: i32 = 16 }, [34], shifts true,
    "A half at 0, low bytes of indices at 2; at 34, for every 32 values, four times three high bits, a scale and a shift." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            b.d = halves(x, 0);
            for t in 0..4 {
                let w = b.words[t];
                b.bits[2 * t] = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<16>(w));
                b.bits[2 * t + 1] = _mm256_srai_epi32::<31>(w);
            }
            for r in 0..ROWS {
                for n in 0..2 {
                    // A multiplication shifts each number by another number of bits.
                    let four = _mm256_and_si256(eight(x[r].add(34 + 8 * n)), _mm256_set1_epi16(0xfff));
                    let from = _mm256_setr_epi8(
                        0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7,
                    );
                    let high = _mm256_shuffle_epi8(_mm256_add_epi16(four, four), from);
                    let high = _mm256_mulhi_epu16(high, factors([0x8000, 0x1000, 0x200, 0x40]));
                    let high = _mm256_slli_epi16::<8>(_mm256_and_si256(high, _mm256_set1_epi16(7)));
                    put(&mut b.indices[r], n, _mm256_or_si256(low_bytes(x[r].add(2 + 16 * n)), high));
                }
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            let code = field(b.words[g / 2], 12 + 16 * (g % 2), 3);
            _mm256_mul_ps(odd(b.d, code), _mm256_set1_ps(DELTA))
        }
        unsafe fn sixteen(_x: *const u8, indices: &[u16; 64], n: usize) -> __m128i {
            eights(&EIGHTHS[usize::from(indices[2 * n] & 2047)], &EIGHTHS[usize::from(indices[2 * n + 1] & 2047)])
        }
    }
    Iq1M { BYTES: usize = 56, MAX: i32 = 25, BIAS: i32 = 16, FINE: bool = true }, [32, 40], shifts true,
    "Low bytes of indices at 0, for every eight values three high bits and a shift at 32, scales and parts of a half at 48." {
        unsafe fn prepare(x: &Rows8, b: &mut RowTerms) {
            let (v, w) = (b.words[6], b.words[7]);
            let (first, second) = (masked(_mm256_srli_epi32::<12>(v), 0xf), masked(_mm256_srli_epi32::<24>(v), 0xf0));
            let (third, fourth) = (masked(_mm256_srli_epi32::<4>(w), 0xf00), masked(_mm256_srli_epi32::<16>(w), 0xf000));
            let half = or4(first, second, third, fourth);
            b.d = _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half)));
            for t in 0..8 {
                let four = _mm256_srl_epi32(b.words[t / 2], _mm_cvtsi32_si128(16 * (t % 2) as i32));
                let first = masked(_mm256_srli_epi32::<3>(four), 1);
                let second = masked(_mm256_slli_epi32::<1>(four), 0x100);
                let third = masked(_mm256_slli_epi32::<5>(four), 0x1_0000);
                let fourth = masked(_mm256_slli_epi32::<9>(four), 0x100_0000);
                b.bits[t] = _mm256_sub_epi8(_mm256_setzero_si256(), or4(first, second, third, fourth));
            }
            for r in 0..ROWS {
                for n in 0..2 {
                    let high = _mm256_shuffle_epi8(eight(x[r].add(32 + 8 * n)), vector(const { &bytes_for::<2>(0) }));
                    let high = _mm256_mullo_epi16(high, factors([256, 16, 256, 16]));
                    let high = _mm256_and_si256(high, _mm256_set1_epi16(0x700));
                    put(&mut b.indices[r], n, _mm256_or_si256(low_bytes(x[r].add(16 * n)), high));
                }
            }
        }
        unsafe fn scale(b: &RowTerms, g: usize) -> __m256 {
            let code = field(b.words[6 + g / 8], 16 * (g / 4 % 2) + 3 * (g % 4), 3);
            _mm256_mul_ps(odd(b.d, code), _mm256_set1_ps(DELTA))
        }
        unsafe fn sixteen(_x: *const u8, indices: &[u16; 64], n: usize) -> __m128i {
            eights(&EIGHTHS[usize::from(indices[2 * n] & 2047)], &EIGHTHS[usize::from(indices[2 * n + 1] & 2047)])
        }
    }
}

/// Products of sixteen values of rows `r` and `r + 4`, added in pairs: their magnitudes and the bits of their group,
/// half `h` of it.
#[inline(always)]
unsafe fn products<B: Points>(magnitudes: __m256i, bits: __m256i, r: usize, h: usize, a: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
        let bits = _mm256_and_si256(_mm256_shuffle_epi8(bits, vector(&SPREAD[r][h])), bit);
        let signs = _mm256_or_si256(_mm256_cmpeq_epi8(bits, bit), _mm256_set1_epi8(1));
        if B::SHIFTS {
            _mm256_maddubs_epi16(_mm256_add_epi8(magnitudes, signs), a)
        } else {
            _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(a, signs))
        }
    }
}

/// Dot products of eight rows. `ahead` bytes further are the rows that come next.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn point_rows<B: Points>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below
    // `k / 256`.
    unsafe {
        let zero = _mm256_setzero_si256();
        let mut b = RowTerms { indices: [[0; 64]; ROWS], bits: [zero; 8], words: [zero; 20], d: _mm256_setzero_ps() };
        let mut acc = _mm256_setzero_ps();
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 256 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            for (n, run) in B::RUNS.iter().enumerate() {
                Avx2Dots::interleave_4(x.as_ptr(), *run, b.words.as_mut_ptr().add(4 * n).cast());
            }
            B::prepare(&x, &mut b);
            for t in 0..8 {
                let at = act.add((8 * i + t) * form::<B>().act_bytes());
                let mut parts = [[zero; 4]; 2];
                for h in 0..2 {
                    let a = twice(at.add(16 * h));
                    for r in 0..4 {
                        let low = B::sixteen(x[r], &b.indices[r], 2 * t + h);
                        let high = B::sixteen(x[r + 4], &b.indices[r + 4], 2 * t + h);
                        parts[h][r] = products::<B>(_mm256_set_m128i(high, low), b.bits[t], r, h, a);
                    }
                }
                let none = _mm256_setzero_ps();
                if B::FINE {
                    for h in 0..2 {
                        let first = Fine::of(parts[h][0]).and::<B>(Fine::of(parts[h][1]));
                        let sums = first.all::<B>(Fine::of(parts[h][2]).and::<B>(Fine::of(parts[h][3])));
                        acc = add_group::<B>(acc, sums, B::scale(&b, 2 * t + h), none, at, h);
                    }
                } else {
                    let [first, last] = parts;
                    let a = Coarse::of_both::<B>(first[0], last[0]).and::<B>(Coarse::of_both::<B>(first[1], last[1]));
                    let b4 = Coarse::of_both::<B>(first[2], last[2]).and::<B>(Coarse::of_both::<B>(first[3], last[3]));
                    acc = add_group::<B>(acc, a.all::<B>(b4), B::scale(&b, t), none, at, 0);
                }
            }
        }
        acc
    }
}

super::gemv::kernel!(points, Points, point_rows);

/// The kernels by format.
pub const ALL: [(ggml_type, Rows); 7] = [
    (GGML_TYPE_IQ1_S, points::<Iq1S>),
    (GGML_TYPE_IQ1_M, points::<Iq1M>),
    (GGML_TYPE_IQ2_XXS, points::<Iq2Xxs>),
    (GGML_TYPE_IQ2_XS, points::<Iq2Xs>),
    (GGML_TYPE_IQ2_S, points::<Iq2S>),
    (GGML_TYPE_IQ3_XXS, points::<Iq3Xxs>),
    (GGML_TYPE_IQ3_S, points::<Iq3S>),
];
