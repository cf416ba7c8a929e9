//! How matrix times column with AVX2 unpacks the formats whose values are bits or codes of tables; `points` has those
//! of grids.

use super::gemv::{Codes, Pair, Rows8, Small, Super, halves};
use crate::cpu::simd::gemv::{formats, with_simd};
use crate::cpu::simd::interleave::formats::{self as interleaved, FP4};
use crate::quant::iq4_nl::CURVE;
use std::arch::x86_64::*;

with_simd! {
    // Sixteen bytes of each of two rows.
    unsafe fn pair(a: *const u8, b: *const u8) -> __m256i {
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(_mm_loadu_si128(a.cast())), _mm_loadu_si128(b.cast()))
    }
    unsafe fn bytes(x: u8) -> __m256i {
        _mm256_set1_epi8(x as i8)
    }
    unsafe fn low_nibbles(v: __m256i) -> __m256i {
        _mm256_and_si256(v, bytes(15))
    }
    unsafe fn high_nibbles(v: __m256i) -> __m256i {
        _mm256_and_si256(_mm256_srli_epi16::<4>(v), bytes(15))
    }
    unsafe fn both_low(v: Pair) -> Pair {
        [low_nibbles(v[0]), low_nibbles(v[1])]
    }
    unsafe fn both_high(v: Pair) -> Pair {
        [high_nibbles(v[0]), high_nibbles(v[1])]
    }
    // 32 bytes of each of two rows.
    unsafe fn load(a: *const u8, b: *const u8) -> Pair {
        [pair(a, b), pair(a.add(16), b.add(16))]
    }
    // The nibbles of 16 bytes of each of two rows: low ones first.
    unsafe fn nibbles(a: *const u8, b: *const u8) -> Pair {
        let v = pair(a, b);
        [low_nibbles(v), high_nibbles(v)]
    }
    unsafe fn look_up(values: &[i8; 16], codes: Pair) -> Pair {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(values.as_ptr().cast()));
        [_mm256_shuffle_epi8(table, codes[0]), _mm256_shuffle_epi8(table, codes[1])]
    }
    // Sets `bit` in the bytes of `v` where `flags` has all bits of `mask`.
    unsafe fn join(v: __m256i, flags: __m256i, mask: __m256i, bit: u8) -> __m256i {
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(flags, mask), mask);
        _mm256_or_si256(v, _mm256_and_si256(set, bytes(bit)))
    }
    unsafe fn join_both(v: Pair, flags: Pair, mask: __m256i, bit: u8) -> Pair {
        [join(v[0], flags[0], mask, bit), join(v[1], flags[1], mask, bit)]
    }
    unsafe fn or(a: Pair, b: Pair) -> Pair {
        [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])]
    }
    unsafe fn and(a: Pair, mask: u8) -> Pair {
        [_mm256_and_si256(a[0], bytes(mask)), _mm256_and_si256(a[1], bytes(mask))]
    }
    // Shifts to the right; bits that come from the byte above must be masked.
    unsafe fn right<const N: i32>(v: Pair) -> Pair {
        [_mm256_srli_epi16::<N>(v[0]), _mm256_srli_epi16::<N>(v[1])]
    }
    unsafe fn left<const N: i32>(v: Pair) -> Pair {
        [_mm256_slli_epi16::<N>(v[0]), _mm256_slli_epi16::<N>(v[1])]
    }
    // Fifth bits in four bytes at `a` and `b`, for the values of `low`.
    unsafe fn five_bits(low: Pair, a: *const u8, b: *const u8) -> Pair {
        let (a, b) = (a.cast::<i32>().read_unaligned(), b.cast::<i32>().read_unaligned());
        let both = _mm256_set_m128i(_mm_set1_epi32(b), _mm_set1_epi32(a));
        let mask = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
        let first = _mm256_shuffle_epi8(both, _mm256_set_epi64x(0x0101_0101_0101_0101, 0, 0x0101_0101_0101_0101, 0));
        let last = _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303, 0x0202_0202_0202_0202);
        [join(low[0], first, mask, 16), join(low[1], _mm256_shuffle_epi8(both, last), mask, 16)]
    }
    // Two bits of each byte of 32 bytes of each of two rows: those of groups 2 * (J % 2) and the next, of four.
    unsafe fn two_bits<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
        let v = load(a, b);
        if J.is_multiple_of(2) {
            [and(v, 3), and(right::<2>(v), 3)]
        } else {
            [and(right::<4>(v), 3), and(right::<6>(v), 3)]
        }
    }
}

formats! {
    Small Q4_0 { BYTES: usize = 18, MAX: i32 = 15, BIAS: i32 = 8 } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { nibbles(a.add(2), b.add(2)) }
    }
    Small Q4_1 { BYTES: usize = 20, MAX: i32 = 15, OFFSETS: bool = true } "Halves at 0 and 2, values at 4." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { nibbles(a.add(4), b.add(4)) }
    }
    Small Q5_0 { BYTES: usize = 22, MAX: i32 = 31, BIAS: i32 = 16 } "A half at 0, fifth bits at 2, values at 6." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { five_bits(nibbles(a.add(6), b.add(6)), a.add(2), b.add(2)) }
    }
    Small Q5_1 { BYTES: usize = 24, MAX: i32 = 31, OFFSETS: bool = true } "Halves at 0 and 2, fifth bits at 4, values at 8." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { five_bits(nibbles(a.add(8), b.add(8)), a.add(4), b.add(4)) }
    }
    Small Q8_0 { BYTES: usize = 34, MAX: i32 = 128, SIGNED: bool = true } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { [pair(a.add(2), b.add(2)), pair(a.add(18), b.add(18))] }
    }
    Small Iq4Nl { BYTES: usize = 18, MAX: i32 = 127, SIGNED: bool = true } "A half at 0, codes at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { look_up(&CURVE, nibbles(a.add(2), b.add(2))) }
    }
    Small Mxfp4 { BYTES: usize = 17, MAX: i32 = 28, BIAS: i32 = 16 } "An exponent at 0, codes at 1." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) {
            // 2^(e - 128) has the exponent bits e - 1, except for two subnormal numbers.
            let e = x.map(|x| x.cast::<i8>().read());
            let e = _mm256_cvtepu8_epi32(_mm_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, e[7], e[6], e[5], e[4], e[3], e[2], e[1], e[0]));
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
            let tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
            let is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
            (_mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny)), _mm256_setzero_ps())
        }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { look_up(&FP4, nibbles(a.add(1), b.add(1))) }
    }
    Super Q4K, interleaved::Q4K, &[0]; { BYTES: usize = 144, MAX: i32 = 15, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, values at 16." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let v = load(a.add(16 + 32 * J), b.add(16 + 32 * J));
            [both_low(v), both_high(v)]
        }
    }
    Super Q5K, interleaved::Q5K, &[0]; { BYTES: usize = 176, MAX: i32 = 31, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, fifth bits at 16, values at 48." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let v = load(a.add(48 + 32 * J), b.add(48 + 32 * J));
            let h = load(a.add(16), b.add(16));
            // Bit g of a byte is the fifth bit of a value of group g.
            let (even, odd) = (bytes(1 << (2 * J)), bytes(2 << (2 * J)));
            [join_both(both_low(v), h, even, 16), join_both(both_high(v), h, odd, 16)]
        }
    }
    Super Q6K, interleaved::Q6K, &[48]; { BYTES: usize = 210, MAX: i32 = 63, BIAS: i32 = 32, FINE: bool = true } "Low bits at 0, high bits at 128, scales at 192, a half at 208." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let (at, high) = (64 * (J / 2), 128 + 32 * (J / 2));
            let (low, next) = (load(a.add(at), b.add(at)), load(a.add(at + 32), b.add(at + 32)));
            let h = load(a.add(high), b.add(high));
            // Bits 2 n and 2 n + 1 are the high bits of values 32 n.. of the half block, and move to bits 4 and 5.
            if J.is_multiple_of(2) {
                [or(both_low(low), and(left::<4>(h), 0x30)), or(both_low(next), and(left::<2>(h), 0x30))]
            } else {
                [or(both_high(low), and(h, 0x30)), or(both_high(next), and(right::<2>(h), 0x30))]
            }
        }
    }
    Super Q3K, interleaved::Q3K, &[23]; { BYTES: usize = 110, MAX: i32 = 7, BIAS: i32 = 4, FINE: bool = true } "Third bits at 0, low bits at 32, packed scales at 96, a half at 108." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let low = two_bits::<J>(a.add(32 + 32 * (J / 2)), b.add(32 + 32 * (J / 2)));
            let third = load(a, b);
            // Bit g of a byte is the third bit of a value of the 32 values number g.
            let (even, odd) = (bytes(1 << (2 * J)), bytes(2 << (2 * J)));
            [join_both(low[0], third, even, 4), join_both(low[1], third, odd, 4)]
        }
    }
    Super Q2K, interleaved::Q2K, &[0, 17]; { BYTES: usize = 84, MAX: i32 = 3, FINE: bool = true, OFFSETS: bool = true } "Scales at 0, values at 16, halves at 80 and 82." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            two_bits::<J>(a.add(16 + 32 * (J / 2)), b.add(16 + 32 * (J / 2)))
        }
    }
    Super Tq2_0, interleaved::Tq2_0, &[]; { BYTES: usize = 66, MAX: i32 = 2, BIAS: i32 = 1 } "Values at 0, a half at 64." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            two_bits::<J>(a.add(32 * (J / 2)), b.add(32 * (J / 2)))
        }
    }
    Super Iq4Xs, interleaved::Iq4Xs, &[0]; { BYTES: usize = 136, MAX: i32 = 127, SIGNED: bool = true } "A half at 0, high bits of the scales at 2, low bits at 4, values at 8." {
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let at = 8 + 32 * J;
            [look_up(&CURVE, nibbles(a.add(at), b.add(at))), look_up(&CURVE, nibbles(a.add(at + 16), b.add(at + 16)))]
        }
    }
}
