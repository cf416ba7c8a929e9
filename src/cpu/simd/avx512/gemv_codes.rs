//! [`Super`] blocks of formats with grid points or ternary digits, and of formats with fewer than 256 values in a
//! block, of which several are processed at a time.

use super::gemv::{Super, bytes, coarse, fine, half_at, load, table, with_simd};
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::simd::gemv::Rows;
use crate::quant::mxfp4::FP4_DOUBLED;
use crate::quant::tables::{iq1::IQ1S_GRID, iq2::*, iq3::*};
use std::arch::x86_64::*;

/// A grid in the form for the kernels: each byte is multiplied by `factor`, plus `offset`.
const fn prepared<const N: usize>(grid: &[u64; N], factor: u8, offset: u8) -> [u64; N] {
    let mut all = [0; N];
    let mut i = 0;
    while i < N {
        let mut point = grid[i].to_le_bytes();
        let mut b = 0;
        while b < 8 {
            point[b] = point[b].wrapping_add(offset).wrapping_mul(factor);
            b += 1;
        }
        all[i] = u64::from_le_bytes(point);
        i += 1;
    }
    all
}

/// A grid with points of four magnitudes, plus 64 each.
const fn prepared_by_four<const N: usize>(grid: &[u32; N]) -> [u32; N] {
    let mut all = [0; N];
    let mut i = 0;
    while i < N {
        // All bytes are below 192, so the sums do not carry.
        all[i] = grid[i] + 0x4040_4040;
        i += 1;
    }
    all
}

/// Magnitudes plus 64.
static IQ2XXS: [u64; 256] = prepared(&IQ2XXS_GRID, 1, 64);
static IQ2XS: [u64; 512] = prepared(&IQ2XS_GRID, 1, 64);
static IQ2S: [u64; 1024] = prepared(&IQ2S_GRID, 1, 64);
static IQ3XXS: [u32; 256] = prepared_by_four(&IQ3XXS_GRID);
static IQ3S: [u32; 512] = prepared_by_four(&IQ3S_GRID);
/// Levels 0, 1 and 2 in eighths, plus 1.
static IQ1: [u64; 2048] = prepared(&IQ1S_GRID, 8, 1);

/// Defines a function that loads sixteen grid points of four values, for indices of a type.
macro_rules! points_by_four {
    ($name:ident, $index:ty) => {
        #[inline(always)]
        unsafe fn $name(grid: *const u32, index: *const $index) -> __m512i {
            // Not a closure: it might be compiled as a separate function, without the instructions.
            macro_rules! four {
                ($i:literal) => {
                    _mm_set_epi32(
                        *grid.add(usize::from(*index.add($i + 3))) as i32,
                        *grid.add(usize::from(*index.add($i + 2))) as i32,
                        *grid.add(usize::from(*index.add($i + 1))) as i32,
                        *grid.add(usize::from(*index.add($i))) as i32,
                    )
                };
            }
            // SAFETY: the caller promises sixteen readable indices below the length of the grid, and the instructions.
            unsafe {
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four!(0)), four!(4));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four!(8)), four!(12));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }
    };
}
points_by_four!(points_by_byte, u8);
points_by_four!(points_by_word, u16);

with_simd! {
    // Broadcasts a half as sixteen floats.
    unsafe fn half(bits: u16) -> __m512 {
        _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
    }
    // Converts sixteen unsigned bytes to floats.
    unsafe fn floats(codes: __m128i) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes))
    }
    // The nibbles of eight bytes in order, as floats.
    unsafe fn nibble_codes(p: *const u8) -> __m512 {
        let b = _mm_loadl_epi64(p.cast());
        let low = _mm_set1_epi8(15);
        floats(_mm_unpacklo_epi8(_mm_and_si128(b, low), _mm_and_si128(_mm_srli_epi16::<4>(b), low)))
    }
    // Scales of IQ2: d * (code + 1/2) / 4.
    unsafe fn quarter_steps(codes: __m512, d: __m512) -> __m512 {
        let d = _mm512_mul_ps(d, _mm512_set1_ps(0.25));
        _mm512_fmadd_ps(codes, d, _mm512_mul_ps(d, _mm512_set1_ps(0.5)))
    }
    // Loads eight grid points. The indices must be below the length of the grid.
    unsafe fn points(grid: *const u64, index: *const u16) -> __m512i {
        _mm512_set_epi64(
            *grid.add(usize::from(*index.add(7))) as i64,
            *grid.add(usize::from(*index.add(6))) as i64,
            *grid.add(usize::from(*index.add(5))) as i64,
            *grid.add(usize::from(*index.add(4))) as i64,
            *grid.add(usize::from(*index.add(3))) as i64,
            *grid.add(usize::from(*index.add(2))) as i64,
            *grid.add(usize::from(*index.add(1))) as i64,
            *grid.add(usize::from(*index)) as i64,
        )
    }
    // Loads eight points of IQ2_XXS, whose indices are bytes: four, then a gap of four bytes, then four.
    unsafe fn two_fours(index: *const u8) -> __m512i {
        let (grid, next) = (IQ2XXS.as_ptr(), index.add(8));
        _mm512_set_epi64(
            *grid.add(usize::from(*next.add(3))) as i64,
            *grid.add(usize::from(*next.add(2))) as i64,
            *grid.add(usize::from(*next.add(1))) as i64,
            *grid.add(usize::from(*next)) as i64,
            *grid.add(usize::from(*index.add(3))) as i64,
            *grid.add(usize::from(*index.add(2))) as i64,
            *grid.add(usize::from(*index.add(1))) as i64,
            *grid.add(usize::from(*index)) as i64,
        )
    }
    // For magnitudes m + 64 with m below 64: 64 - m where `minus` has ones.
    unsafe fn signed(magnitudes: __m512i, minus: u64) -> __m512i {
        _mm512_mask_sub_epi8(magnitudes, minus, bytes(128), magnitudes)
    }
    // Restores eight sign bits from seven: the eighth makes the number of set bits even.
    unsafe fn even(seven: __m256i) -> __m256i {
        let parity = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0080_8000_8000_0080u64 as i64, 0x8000_0080_0080_8000u64 as i64));
        let low = _mm256_set1_epi8(15);
        let a = _mm256_shuffle_epi8(parity, _mm256_and_si256(seven, low));
        let b = _mm256_shuffle_epi8(parity, _mm256_and_si256(_mm256_srli_epi16::<4>(seven), low));
        _mm256_or_si256(seven, _mm256_xor_si256(a, b))
    }
    // The 256 values of 32 grid points of eight magnitudes.
    unsafe fn magnitudes(grid: *const u64, index: __m512i, signs: __m256i) -> [__m512i; 4] {
        let (mut indices, mut minus) = ([0u16; 32], [0u64; 4]);
        _mm512_storeu_si512(indices.as_mut_ptr().cast(), index);
        _mm256_storeu_si256(minus.as_mut_ptr().cast(), signs);
        let index = indices.as_ptr();
        [
            signed(points(grid, index), minus[0]),
            signed(points(grid, index.add(8)), minus[1]),
            signed(points(grid, index.add(16)), minus[2]),
            signed(points(grid, index.add(24)), minus[3]),
        ]
    }
    // Moves seven bits of each 32-bit word to each of its bytes, and adds an eighth that makes their number even.
    unsafe fn even_of_words(words: __m256i) -> __m256i {
        let part = |v: __m256i, byte: i32| _mm256_and_si256(v, _mm256_set1_epi32(0x7f << (8 * byte)));
        let low = _mm256_or_si256(part(words, 0), part(_mm256_slli_epi32::<1>(words), 1));
        let high = _mm256_or_si256(part(_mm256_slli_epi32::<2>(words), 2), part(_mm256_slli_epi32::<3>(words), 3));
        even(_mm256_or_si256(low, high))
    }
    // The 256 values of 64 grid points of four magnitudes.
    unsafe fn with_signs(points: [__m512i; 4], signs: __m256i) -> [__m512i; 4] {
        let mut minus = [0u64; 4];
        _mm256_storeu_si256(minus.as_mut_ptr().cast(), signs);
        let [a, b, c, d] = points;
        [signed(a, minus[0]), signed(b, minus[1]), signed(c, minus[2]), signed(d, minus[3])]
    }
    // The 256 values of 32 grid points of IQ1, in eighths: 8 * (level - 1) plus or minus one, plus 9.
    unsafe fn shifted(index: __m512i, down: u32) -> [__m512i; 4] {
        let mut indices = [0u16; 32];
        _mm512_storeu_si512(indices.as_mut_ptr().cast(), index);
        std::array::from_fn(|t| {
            let level = points(IQ1.as_ptr(), indices.as_ptr().add(8 * t));
            _mm512_mask_or_epi64(level, !(down >> (8 * t)) as u8, level, bytes(2))
        })
    }
    // Widens bytes to 16-bit words.
    unsafe fn words(p: *const u8) -> __m512i {
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast()))
    }
    // Repeats each of eight 16-bit words four times.
    unsafe fn four_times(v: __m128i) -> __m512i {
        let pick = _mm512_broadcast_i32x4(_mm_set_epi8(9, 8, 9, 8, 9, 8, 9, 8, 1, 0, 1, 0, 1, 0, 1, 0));
        _mm512_shuffle_epi8(_mm512_cvtepu16_epi64(v), pick)
    }
    unsafe fn shift_words(v: __m512i, by: i64) -> __m512i {
        _mm512_srlv_epi16(v, _mm512_set1_epi64(by))
    }
    // Unpacks 64 two-bit values, lowest bits first.
    unsafe fn two_bits_in_order(p: *const u8) -> __m512i {
        let x = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
        let low = _mm512_or_si512(x, _mm512_slli_epi32::<6>(x));
        let high = _mm512_or_si512(_mm512_slli_epi32::<12>(x), _mm512_slli_epi32::<18>(x));
        _mm512_and_si512(_mm512_or_si512(low, high), bytes(3))
    }
    unsafe fn triple(v: __m512i) -> __m512i {
        _mm512_add_epi8(v, _mm512_add_epi8(v, v))
    }
    // The integer part of three times a byte / 256: the next base-3 digit.
    unsafe fn digits(v: __m512i) -> __m512i {
        let one = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(v, bytes(86)), bytes(1));
        _mm512_mask_mov_epi8(one, _mm512_cmpge_epu8_mask(v, bytes(171)), bytes(2))
    }
}

struct Iq2Xxs;
// SAFETY: `IQ2_XXS` has 66 bytes: a half at 0, eight pairs of words at 2. Indices are bytes, and the grid has 256
// points.
unsafe impl Super for Iq2Xxs {
    const BYTES: usize = 66;
    const BIAS: i8 = 64;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let codes = _mm256_srli_epi32::<28>(_mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(load(b.add(2)))));
            (quarter_steps(_mm512_castps256_ps512(_mm256_cvtepi32_ps(codes)), half_at(b)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let pairs = load(b.add(2));
            let signs = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(pairs));
            let mut minus = [0u64; 4];
            _mm256_storeu_si256(minus.as_mut_ptr().cast(), even_of_words(signs));
            let [i, j, k, l] = [b.add(2), b.add(18), b.add(34), b.add(50)];
            [
                signed(two_fours(i), minus[0]),
                signed(two_fours(j), minus[1]),
                signed(two_fours(k), minus[2]),
                signed(two_fours(l), minus[3]),
            ]
        }
    }
}

struct Iq2Xs;
// SAFETY: `IQ2_XS` has 74 bytes: a half at 0, 32 words at 2, scales at 66. Indices have nine bits, and the grid has 512
// points.
unsafe impl Super for Iq2Xs {
    const BYTES: usize = 74;
    const BIAS: i8 = 64;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            (quarter_steps(nibble_codes(b.add(66)), half_at(b)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let q = load(b.add(2));
            let index = _mm512_and_si512(q, _mm512_set1_epi16(511));
            magnitudes(IQ2XS.as_ptr(), index, even(_mm512_cvtepi16_epi8(_mm512_srli_epi16::<9>(q))))
        }
    }
}

struct Iq2S;
// SAFETY: `IQ2_S` has 82 bytes: a half at 0, low bits of the indices at 2, signs at 34, high bits at 66, scales at 74.
// Indices have ten bits, and the grid has 1024 points.
unsafe impl Super for Iq2S {
    const BYTES: usize = 82;
    const BIAS: i8 = 64;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            (quarter_steps(nibble_codes(b.add(74)), half_at(b)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let high = four_times(_mm_cvtepu8_epi16(_mm_loadl_epi64(b.add(66).cast())));
            let high = _mm512_and_si512(shift_words(high, 0x0006_0004_0002_0000), _mm512_set1_epi16(3));
            let index = _mm512_or_si512(words(b.add(2)), _mm512_slli_epi16::<8>(high));
            magnitudes(IQ2S.as_ptr(), index, _mm256_loadu_si256(b.add(34).cast()))
        }
    }
}

struct Iq3Xxs;
// SAFETY: `IQ3_XXS` has 98 bytes: a half at 0, indices at 2, words of signs and scales at 66. Indices are bytes, and
// the grid has 256 points.
unsafe impl Super for Iq3Xxs {
    const BYTES: usize = 98;
    const BIAS: i8 = 64;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let codes = _mm256_srli_epi32::<28>(_mm256_loadu_si256(b.add(66).cast()));
            let d = _mm512_mul_ps(half_at(b), _mm512_set1_ps(2.0));
            (quarter_steps(_mm512_castps256_ps512(_mm256_cvtepi32_ps(codes)), d), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let (grid, index) = (IQ3XXS.as_ptr(), b.add(2));
            let low = [points_by_byte(grid, index), points_by_byte(grid, index.add(16))];
            let high = [points_by_byte(grid, index.add(32)), points_by_byte(grid, index.add(48))];
            with_signs([low[0], low[1], high[0], high[1]], even_of_words(_mm256_loadu_si256(b.add(66).cast())))
        }
    }
}

struct Iq3S;
// SAFETY: `IQ3_S` has 110 bytes: a half at 0, low bits of the indices at 2, ninth bits at 66, signs at 74, scales at
// 106. Indices have nine bits, and the grid has 512 points.
unsafe impl Super for Iq3S {
    const BYTES: usize = 110;
    const BIAS: i8 = 64;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let codes = _mm256_set1_epi32(b.add(106).cast::<i32>().read_unaligned());
            let codes = _mm256_srlv_epi32(codes, _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0));
            let codes = _mm256_and_si256(codes, _mm256_set1_epi32(15));
            let odd = _mm256_add_epi32(_mm256_add_epi32(codes, codes), _mm256_set1_epi32(1));
            (_mm512_mul_ps(_mm512_castps256_ps512(_mm256_cvtepi32_ps(odd)), half_at(b)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let ninth = b.add(66).cast::<u64>().read_unaligned();
            let mut index = [0u16; 64];
            let (x, y, high) = (words(b.add(2)), words(b.add(34)), _mm512_set1_epi16(256));
            let x = _mm512_mask_add_epi16(x, ninth as u32, x, high);
            let y = _mm512_mask_add_epi16(y, (ninth >> 32) as u32, y, high);
            _mm512_storeu_si512(index.as_mut_ptr().cast(), x);
            _mm512_storeu_si512(index.as_mut_ptr().add(32).cast(), y);
            let (grid, index) = (IQ3S.as_ptr(), index.as_ptr());
            let low = [points_by_word(grid, index), points_by_word(grid, index.add(16))];
            let high = [points_by_word(grid, index.add(32)), points_by_word(grid, index.add(48))];
            with_signs([low[0], low[1], high[0], high[1]], _mm256_loadu_si256(b.add(74).cast()))
        }
    }
}

struct Iq1S;
// SAFETY: `IQ1_S` has 50 bytes: a half at 0, low bits of the indices at 2, eight words at 34. Indices have eleven bits,
// and the grid has 2048 points.
unsafe impl Super for Iq1S {
    const BYTES: usize = 50;
    const BIAS: i8 = 9;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let h = _mm256_cvtepu16_epi32(_mm_loadu_si128(b.add(34).cast()));
            let codes = _mm256_and_si256(_mm256_srli_epi32::<12>(h), _mm256_set1_epi32(7));
            let odd = _mm256_add_epi32(_mm256_add_epi32(codes, codes), _mm256_set1_epi32(1));
            let eighth = _mm512_mul_ps(half_at(b), _mm512_set1_ps(0.125));
            (_mm512_mul_ps(_mm512_castps256_ps512(_mm256_cvtepi32_ps(odd)), eighth), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let h = four_times(_mm_loadu_si128(b.add(34).cast()));
            let high = _mm512_and_si512(shift_words(h, 0x0009_0006_0003_0000), _mm512_set1_epi16(7));
            let index = _mm512_or_si512(words(b.add(2)), _mm512_slli_epi16::<8>(high));
            shifted(index, _mm512_movepi16_mask(h))
        }
    }
}

struct Iq1M;
// SAFETY: `IQ1_M` has 56 bytes: low bits of the indices at 0, high bits and shifts at 32, four words of scales at 48.
// Indices have eleven bits, and the grid has 2048 points.
unsafe impl Super for Iq1M {
    const BYTES: usize = 56;
    const BIAS: i8 = 9;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let w = b.add(48).cast::<u64>().read_unaligned();
            let d = w >> 12 & 0xf | w >> 24 & 0xf0 | w >> 36 & 0xf00 | w >> 48 & 0xf000;
            let each = _mm512_castsi128_si512(_mm_cvtepu16_epi32(_mm_cvtsi64_si128(w as i64)));
            let each = _mm512_permutexvar_epi32(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0), each);
            let codes = _mm512_srlv_epi32(each, _mm512_broadcast_i32x4(_mm_set_epi32(9, 6, 3, 0)));
            let codes = _mm512_and_si512(codes, _mm512_set1_epi32(7));
            let odd = _mm512_add_epi32(_mm512_add_epi32(codes, codes), _mm512_set1_epi32(1));
            let eighth = _mm512_mul_ps(half(d as u16), _mm512_set1_ps(0.125));
            (_mm512_mul_ps(_mm512_cvtepi32_ps(odd), eighth), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let h = _mm512_cvtepu8_epi32(_mm_loadu_si128(b.add(32).cast()));
            let h = _mm512_or_si512(h, _mm512_slli_epi32::<12>(h));
            let high = _mm512_and_si512(h, _mm512_set1_epi16(7));
            let index = _mm512_or_si512(words(b), _mm512_slli_epi16::<8>(high));
            shifted(index, _mm512_test_epi16_mask(h, _mm512_set1_epi16(8)))
        }
    }
}

struct Tq1_0;
// SAFETY: `TQ1_0` has 54 bytes: 32 bytes of five digits at 0 and 16 at 32, four bytes of four digits at 48, a half at
// 52.
unsafe impl Super for Tq1_0 {
    const BYTES: usize = 54;
    const BIAS: i8 = 1;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) { (half_at(b.add(52)), _mm512_setzero_ps()) }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            const LAST: u64 = 0xf << 60;
            // The first 32 bytes times 1 and 3, then 9 and 27, then 81.
            let x = _mm512_broadcast_i64x4(_mm256_loadu_si256(b.cast()));
            let a = _mm512_mask_blend_epi64(0xf0, x, triple(x));
            let c = triple(triple(a));
            let e = triple(_mm512_shuffle_i64x2::<0x4e>(c, c));
            // The next 16 bytes three times, and the last four bytes four times.
            let tail = _mm_set1_epi32(b.add(48).cast::<i32>().read_unaligned());
            let y = _mm512_inserti32x4::<3>(_mm512_broadcast_i32x4(_mm_loadu_si128(b.add(32).cast())), tail);
            let y3 = triple(y);
            let y9 = triple(y3);
            let y27 = triple(y9);
            let behind = _mm512_mask_mov_epi64(_mm512_mask_blend_epi64(0x0f, y, e), 0xc0, _mm512_shuffle_i64x2::<0>(y3, y3));
            let f = _mm512_mask_blend_epi64(0x0c, y9, y27);
            let f = _mm512_mask_mov_epi64(f, 0x30, triple(y27));
            let f = _mm512_mask_mov_epi8(f, LAST, y27);
            let f = _mm512_mask_mov_epi8(f, LAST >> 8, y3);
            let f = _mm512_mask_mov_epi8(f, LAST >> 12, y);
            [digits(a), digits(c), digits(behind), digits(f)]
        }
    }
}

struct Q1_0;
// SAFETY: two blocks of `Q1_0`, each of 18 bytes: a half at 0, bits at 2.
unsafe impl Super for Q1_0 {
    const BYTES: usize = 36;
    const UNIT: usize = 128;
    const BIAS: i8 = 1;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            (_mm512_mask_mov_ps(half_at(b), 0xf0, half_at(b.add(18))), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let bits = |at: usize| _mm512_maskz_mov_epi8(b.add(at).cast::<u64>().read_unaligned(), bytes(2));
            [bits(2), bits(10), bits(20), bits(28)]
        }
    }
}

struct Q2_0;
// SAFETY: four blocks of `Q2_0`, each of 18 bytes: a half at 0, values at 2.
unsafe impl Super for Q2_0 {
    const BYTES: usize = 72;
    const UNIT: usize = 64;
    const BIAS: i8 = 1;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let (x, y) = (half_at(b), half_at(b.add(18)));
            let (z, w) = (half_at(b.add(36)), half_at(b.add(54)));
            let (low, high) = (_mm512_mask_mov_ps(x, 0x0c, y), _mm512_mask_mov_ps(z, 0xc0, w));
            (_mm512_mask_mov_ps(low, 0xf0, high), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            std::array::from_fn(|t| two_bits_in_order(b.add(18 * t + 2)))
        }
    }
}

struct Nvfp4;
// SAFETY: four blocks of `NVFP4`, each of 36 bytes: four scales at 0, values at 4.
unsafe impl Super for Nvfp4 {
    const BYTES: usize = 144;
    const UNIT: usize = 64;
    const BIAS: i8 = -128;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let four = |t: usize| b.add(36 * t).cast::<i32>().read_unaligned();
            let e4m3 = _mm_set_epi32(four(3), four(2), four(1), four(0));
            // A half has the same bits, shifted left, with another bias. 0x7f is zero.
            let is_number = _mm_cmpneq_epi8_mask(e4m3, _mm_set1_epi8(0x7f));
            let bits = _mm256_slli_epi16::<7>(_mm256_cvtepu8_epi16(_mm_maskz_mov_epi8(is_number, e4m3)));
            let halves = _mm256_and_si256(bits, _mm256_set1_epi16(0x3fff));
            (_mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(128.0)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let values = table(&FP4_DOUBLED);
            std::array::from_fn(|t| {
                let q = _mm512_castsi256_si512(_mm256_loadu_si256(b.add(36 * t + 4).cast()));
                let twice = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0), q);
                let codes = _mm512_srlv_epi64(twice, _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0));
                _mm512_shuffle_epi8(values, _mm512_and_si512(codes, bytes(15)))
            })
        }
    }
}

/// The kernels of these formats.
pub const KERNELS: [(ggml_type, Rows); 11] = [
    (GGML_TYPE_IQ3_XXS, coarse::<Iq3Xxs>),
    (GGML_TYPE_IQ3_S, coarse::<Iq3S>),
    (GGML_TYPE_IQ2_XXS, coarse::<Iq2Xxs>),
    (GGML_TYPE_IQ2_XS, fine::<Iq2Xs>),
    (GGML_TYPE_IQ2_S, fine::<Iq2S>),
    (GGML_TYPE_IQ1_S, coarse::<Iq1S>),
    (GGML_TYPE_IQ1_M, fine::<Iq1M>),
    (GGML_TYPE_TQ1_0, coarse::<Tq1_0>),
    (GGML_TYPE_Q1_0, coarse::<Q1_0>),
    (GGML_TYPE_Q2_0, coarse::<Q2_0>),
    (GGML_TYPE_NVFP4, fine::<Nvfp4>),
];
