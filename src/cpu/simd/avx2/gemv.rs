//! Matrix times column with AVX2. Eight rows are processed at once, and a lane of a vector of results is a row, as in a panel. So every result is
//! one chain of additions in the order of `k`, and has the same bits as in a tile (`tile::byte_tile`).
//!
//! Weights are unpacked to unsigned bytes with a bias (`BIAS`), or to signed bytes if the values need all eight bits. Vectors have sixteen
//! values of row `r` in the low half and of row `r + 4` in the high half: the sums of four vectors then need two levels of horizontal additions.

use super::super::gemv::{self, Rows};
use super::super::interleave::formats::FP4;
use super::super::lanes::Lanes;
use super::super::tile::{Act, Form, start};
use super::lanes::{Avx2, Avx2Dots};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::{Kernels, TYPES};
use crate::quant::{self, iq4_nl::CURVE};
use crate::sys::memory::prefetch;
use std::arch::x86_64::*;

/// Rows that are processed at once.
const ROWS: usize = 8;

/// The rows, at the current block.
type Rows8 = [*const u8; ROWS];

/// A group of 32 values of two rows: the first sixteen of both, then the others.
type Pair = [__m256i; 2];

/// How weights become bytes.
trait Codes {
    /// Bytes of a block.
    const BYTES: usize;
    /// What is added to the values to make unsigned bytes of at most 63: 0 or a power of two.
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
/// The methods read at most `BYTES` bytes at each pointer. Call them only if these are readable and the processor has AVX2, FMA and F16C.
unsafe trait Small: Codes {
    /// The scales and offsets of eight blocks.
    unsafe fn scales(x: &Rows8) -> (__m256, __m256);
    /// The values of two blocks.
    unsafe fn codes(a: *const u8, b: *const u8) -> Pair;
}

/// A block of 256 values.
///
/// # Safety
/// As for [`Small`].
unsafe trait Super: Codes {
    /// Writes the scales, and the offsets if the format has them, of one block: eight, or sixteen if `FINE`.
    unsafe fn scales(b: *const u8, scales: *mut f32, offsets: *mut f32);
    /// Values `64 * J` to `64 * J + 63` of two blocks.
    unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2];
}

macro_rules! with_simd {
    ($(unsafe fn $name:ident $(<const $j:ident: $jt:ty>)? ($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        #[inline(always)]
        unsafe fn $name $(<const $j: $jt>)? ($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contracts of `Small` and `Super`: the processor has the instructions, and the bytes of the blocks are readable.
            unsafe { $body }
        }
    )*};
}

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
    // The halves at `at` in each row.
    unsafe fn halves(x: &Rows8, at: usize) -> __m256 {
        let h = x.map(|x| x.add(at).cast::<i16>().read_unaligned());
        _mm256_cvtph_ps(_mm_set_epi16(h[7], h[6], h[5], h[4], h[3], h[2], h[1], h[0]))
    }
    unsafe fn half(p: *const u8) -> __m256 {
        _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(p.cast::<u16>().read_unaligned()))))
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
    // Writes eight products of small integers and a scale.
    unsafe fn put(codes: __m256i, scale: __m256, to: *mut f32) {
        _mm256_storeu_ps(to, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(codes)));
    }
    // Scales and offsets of Q4_K and Q5_K.
    unsafe fn affine(b: *const u8, scales: *mut f32, offsets: *mut f32) {
        let word = |i: usize| b.add(4 + 4 * i).cast::<u32>().read_unaligned();
        let (x, y, z) = (word(0), word(1), word(2));
        let s = u64::from(x & 0x3f3f_3f3f) | u64::from(z & 0x0f0f_0f0f | (x >> 2) & 0x3030_3030) << 32;
        let o = u64::from(y & 0x3f3f_3f3f) | u64::from((z >> 4) & 0x0f0f_0f0f | (y >> 2) & 0x3030_3030) << 32;
        put(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(s as i64)), half(b), scales);
        put(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(o as i64)), _mm256_xor_ps(half(b.add(2)), _mm256_set1_ps(-0.0)), offsets);
    }
    // Signed bytes, sixteen of them, times a scale.
    unsafe fn put_sixteen(codes: __m128i, scale: __m256, to: *mut f32) {
        put(_mm256_cvtepi8_epi32(codes), scale, to);
        put(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(codes, codes)), scale, to.add(8));
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

/// Declares formats: `Name { constants } methods`.
macro_rules! formats {
    ($($kind:ident $name:ident { $($constant:ident: $ty:ty = $value:expr),* } $note:literal { $($body:tt)* })*) => {$(
        struct $name;
        impl Codes for $name {
            $(const $constant: $ty = $value;)*
        }
        #[doc = $note]
        // SAFETY: the offsets in the block are those in the note, all below `BYTES`.
        unsafe impl $kind for $name {
            with_simd! { $($body)* }
        }
    )*};
}

formats! {
    Small Q4_0 { BYTES: usize = 18, BIAS: i32 = 8 } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { nibbles(a.add(2), b.add(2)) }
    }
    Small Q4_1 { BYTES: usize = 20, OFFSETS: bool = true } "Halves at 0 and 2, values at 4." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { nibbles(a.add(4), b.add(4)) }
    }
    Small Q5_0 { BYTES: usize = 22, BIAS: i32 = 16 } "A half at 0, fifth bits at 2, values at 6." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { five_bits(nibbles(a.add(6), b.add(6)), a.add(2), b.add(2)) }
    }
    Small Q5_1 { BYTES: usize = 24, OFFSETS: bool = true } "Halves at 0 and 2, fifth bits at 4, values at 8." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { five_bits(nibbles(a.add(8), b.add(8)), a.add(4), b.add(4)) }
    }
    Small Q8_0 { BYTES: usize = 34, SIGNED: bool = true } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { [pair(a.add(2), b.add(2)), pair(a.add(18), b.add(18))] }
    }
    Small Iq4Nl { BYTES: usize = 18, SIGNED: bool = true } "A half at 0, codes at 2." {
        unsafe fn scales(x: &Rows8) -> (__m256, __m256) { (halves(x, 0), _mm256_setzero_ps()) }
        unsafe fn codes(a: *const u8, b: *const u8) -> Pair { look_up(&CURVE, nibbles(a.add(2), b.add(2))) }
    }
    Small Mxfp4 { BYTES: usize = 17, BIAS: i32 = 16 } "An exponent at 0, codes at 1." {
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
    Super Q4K { BYTES: usize = 144, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, values at 16." {
        unsafe fn scales(b: *const u8, scales: *mut f32, offsets: *mut f32) { affine(b, scales, offsets) }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let v = load(a.add(16 + 32 * J), b.add(16 + 32 * J));
            [both_low(v), both_high(v)]
        }
    }
    Super Q5K { BYTES: usize = 176, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, fifth bits at 16, values at 48." {
        unsafe fn scales(b: *const u8, scales: *mut f32, offsets: *mut f32) { affine(b, scales, offsets) }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let v = load(a.add(48 + 32 * J), b.add(48 + 32 * J));
            let h = load(a.add(16), b.add(16));
            // Bit g of a byte is the fifth bit of a value of group g.
            let (even, odd) = (bytes(1 << (2 * J)), bytes(2 << (2 * J)));
            [join_both(both_low(v), h, even, 16), join_both(both_high(v), h, odd, 16)]
        }
    }
    Super Q6K { BYTES: usize = 210, BIAS: i32 = 32, FINE: bool = true } "Low bits at 0, high bits at 128, scales at 192, a half at 208." {
        unsafe fn scales(b: *const u8, scales: *mut f32, _offsets: *mut f32) {
            put_sixteen(_mm_loadu_si128(b.add(192).cast()), half(b.add(208)), scales);
        }
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
    Super Q3K { BYTES: usize = 110, BIAS: i32 = 4, FINE: bool = true } "Third bits at 0, low bits at 32, packed scales at 96, a half at 108." {
        unsafe fn scales(b: *const u8, scales: *mut f32, _offsets: *mut f32) {
            let word = |i: usize| b.add(96 + 4 * i).cast::<u32>().read_unaligned();
            let (x, y, high) = (word(0), word(1), word(2));
            let join = |low: u32, high: u32| (low & 0x0f0f_0f0f | (high & 0x0303_0303) << 4) as i32;
            let codes = _mm_set_epi32(join(y >> 4, high >> 6), join(x >> 4, high >> 4), join(y, high >> 2), join(x, high));
            put_sixteen(_mm_sub_epi8(codes, _mm_set1_epi8(32)), half(b.add(108)), scales);
        }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let low = two_bits::<J>(a.add(32 + 32 * (J / 2)), b.add(32 + 32 * (J / 2)));
            let third = load(a, b);
            // Bit g of a byte is the third bit of a value of the 32 values number g.
            let (even, odd) = (bytes(1 << (2 * J)), bytes(2 << (2 * J)));
            [join_both(low[0], third, even, 4), join_both(low[1], third, odd, 4)]
        }
    }
    Super Q2K { BYTES: usize = 84, FINE: bool = true, OFFSETS: bool = true } "Scales at 0, values at 16, halves at 80 and 82." {
        unsafe fn scales(b: *const u8, scales: *mut f32, offsets: *mut f32) {
            let codes = _mm_loadu_si128(b.cast());
            let low = _mm_and_si128(codes, _mm_set1_epi8(15));
            let high = _mm_and_si128(_mm_srli_epi16::<4>(codes), _mm_set1_epi8(15));
            put_sixteen(low, half(b.add(80)), scales);
            put_sixteen(high, _mm256_xor_ps(half(b.add(82)), _mm256_set1_ps(-0.0)), offsets);
        }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            two_bits::<J>(a.add(16 + 32 * (J / 2)), b.add(16 + 32 * (J / 2)))
        }
    }
    Super Tq2_0 { BYTES: usize = 66, BIAS: i32 = 1 } "Values at 0, a half at 64." {
        unsafe fn scales(b: *const u8, scales: *mut f32, _offsets: *mut f32) { _mm256_storeu_ps(scales, half(b.add(64))) }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            two_bits::<J>(a.add(32 * (J / 2)), b.add(32 * (J / 2)))
        }
    }
    Super Iq4Xs { BYTES: usize = 136, SIGNED: bool = true } "A half at 0, high bits of the scales at 2, low bits at 4, values at 8." {
        unsafe fn scales(b: *const u8, scales: *mut f32, _offsets: *mut f32) {
            let high = _mm256_set1_epi32(i32::from(b.add(2).cast::<u16>().read_unaligned()));
            let low = _mm256_set1_epi32(b.add(4).cast::<i32>().read_unaligned());
            let low = _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0)), _mm256_set1_epi32(15));
            let high = _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0)), _mm256_set1_epi32(3));
            let codes = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
            put(_mm256_sub_epi32(codes, _mm256_set1_epi32(32)), half(b), scales);
        }
        unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2] {
            let at = 8 + 32 * J;
            [look_up(&CURVE, nibbles(a.add(at), b.add(at))), look_up(&CURVE, nibbles(a.add(at + 16), b.add(at + 16)))]
        }
    }
}

with_simd! {
    // Sums of four products of bytes of each row.
    unsafe fn pairs_to_words(v: __m256i) -> __m256i {
        _mm256_madd_epi16(v, _mm256_set1_epi16(1))
    }
    // The sums of four vectors, as eight lanes: rows 0 to 3 from the low halves, 4 to 7 from the high ones.
    unsafe fn by_row(v: [__m256i; 4]) -> __m256i {
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]))
    }
    // Sixteen activations, for both rows of a pair.
    unsafe fn twice(p: *const u8) -> __m256i {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()))
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

/// Dot products of a group of 32 values of two rows, in four parts for each.
#[inline(always)]
unsafe fn dot<C: Codes>(w: Pair, a: Pair) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let (first, last) = (products::<C>(w[0], a[0]), products::<C>(w[1], a[1]));
        if C::SIGNED {
            _mm256_add_epi32(pairs_to_words(first), pairs_to_words(last))
        } else {
            // Four products of at most 63 * 127 fit into 16 bits.
            pairs_to_words(_mm256_add_epi16(first, last))
        }
    }
}

/// Adds the products of a group, whose sums in integers are `sums`, in the order of a tile. `at` is the [`Act`] block, `group` the number
/// of the group in it.
#[inline(always)]
unsafe fn add_group<C: Codes>(
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
        let sums = _mm256_add_epi32(sums, start::<Avx2Dots>(at.add(START + 4 * group), C::BIAS).0);
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
const fn form<C: Codes>() -> Form {
    Form { group: if C::FINE { 16 } else { 32 }, offsets: C::OFFSETS, bits: 8 }
}

/// Dot products of eight rows of [`Small`] blocks. `ahead` bytes further are the rows that come next.
#[inline(always)]
unsafe fn small_rows<B: Small>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below `k / 32`.
    unsafe {
        let mut acc = _mm256_setzero_ps();
        let mut fetched = 0;
        for i in 0..k / 32 {
            let x = x.map(|x| x.add(i * B::BYTES));
            if i * B::BYTES >= fetched {
                x.iter().for_each(|x| prefetch(x.wrapping_add(ahead), 64));
                fetched += 64;
            }
            let at = act.add(i * form::<B>().act_bytes());
            let a = [twice(at), twice(at.add(16))];
            let sums = by_row([
                dot::<B>(B::codes(x[0], x[4]), a),
                dot::<B>(B::codes(x[1], x[5]), a),
                dot::<B>(B::codes(x[2], x[6]), a),
                dot::<B>(B::codes(x[3], x[7]), a),
            ]);
            let (scale, offset) = B::scales(&x);
            acc = add_group::<B>(acc, sums, scale, offset, at, 0);
        }
        acc
    }
}

/// Turns eight rows of `n` floats, `n` apart, into `n` vectors.
#[inline(always)]
unsafe fn by_group<const N: usize>(rows: &[[f32; N]; ROWS]) -> [__m256; N] {
    let mut turned = [[0f32; ROWS]; N];
    // SAFETY: eight rows of eight floats from column `c` on are inside of `rows`, and eight rows from `c` on inside of `turned`. The caller promises
    // AVX2.
    unsafe {
        for c in (0..N).step_by(8) {
            Avx2::transpose(
                rows.as_ptr().cast::<f32>().add(c),
                N,
                turned.as_mut_ptr().cast::<f32>().add(c * ROWS),
                ROWS,
            );
        }
        let mut all = [_mm256_setzero_ps(); N];
        for (all, turned) in all.iter_mut().zip(&turned) {
            *all = _mm256_loadu_ps(turned.as_ptr());
        }
        all
    }
}

/// As [`small_rows`], for [`Super`] blocks of `N` groups.
#[inline(always)]
unsafe fn super_rows<B: Super, const N: usize>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below `k / 256`.
    unsafe {
        let mut acc = _mm256_setzero_ps();
        for i in 0..k / 256 {
            let x = x.map(|x| x.add(i * B::BYTES));
            let (mut scales, mut offsets) = ([[0f32; N]; ROWS], [[0f32; N]; ROWS]);
            for r in 0..ROWS {
                prefetch(x[r].wrapping_add(ahead), B::BYTES);
                B::scales(x[r], scales[r].as_mut_ptr(), offsets[r].as_mut_ptr());
            }
            let scales = by_group(&scales);
            let offsets = if B::OFFSETS { by_group(&offsets) } else { [_mm256_setzero_ps(); N] };
            macro_rules! chunk {
                ($j:literal) => {
                    let codes = [
                        B::codes::<$j>(x[0], x[4]),
                        B::codes::<$j>(x[1], x[5]),
                        B::codes::<$j>(x[2], x[6]),
                        B::codes::<$j>(x[3], x[7]),
                    ];
                    for half in 0..2 {
                        let t = 2 * $j + half;
                        let at = act.add((8 * i + t) * form::<B>().act_bytes());
                        let a = [twice(at), twice(at.add(16))];
                        if B::FINE {
                            for g in 0..2 {
                                let sums = by_row([
                                    pairs_to_words(products::<B>(codes[0][half][g], a[g])),
                                    pairs_to_words(products::<B>(codes[1][half][g], a[g])),
                                    pairs_to_words(products::<B>(codes[2][half][g], a[g])),
                                    pairs_to_words(products::<B>(codes[3][half][g], a[g])),
                                ]);
                                acc = add_group::<B>(acc, sums, scales[2 * t + g], offsets[2 * t + g], at, g);
                            }
                        } else {
                            let sums = by_row([
                                dot::<B>(codes[0][half], a),
                                dot::<B>(codes[1][half], a),
                                dot::<B>(codes[2][half], a),
                                dot::<B>(codes[3][half], a),
                            ]);
                            acc = add_group::<B>(acc, sums, scales[t], offsets[t], at, 0);
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
    ($name:ident, $kind:ident, $rows:ident $(, $groups:literal)?) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $name<B: $kind>(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32) {
            let mut r = 0;
            while r < rows {
                let n = ROWS.min(rows - r);
                // SAFETY: the contract of `gemv::Rows`, for at most eight of its rows: where fewer are left, the last stands for the others. The
                // features of this function are those that the callees require.
                unsafe {
                    let x = std::array::from_fn(|i| x.add((r + i.min(n - 1)) * stride));
                    let acc = $rows::<B $(, $groups)?>(k, x, ROWS * stride, act);
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
kernel!(small, Small, small_rows);
kernel!(wide, Super, super_rows, 8);
kernel!(fine, Super, super_rows, 16);

/// Sets the matrix times column kernels in the table, which has the tiles of this level.
///
/// # Safety
/// The processor has AVX2, FMA and F16C.
pub(super) unsafe fn fill(k: &mut Kernels) {
    use super::block_kernels::rows as unpacked;
    k.gemv = [None; TYPES];
    for (t, rows) in [
        (GGML_TYPE_Q4_0, small::<Q4_0> as Rows),
        (GGML_TYPE_Q4_1, small::<Q4_1>),
        (GGML_TYPE_Q5_0, small::<Q5_0>),
        (GGML_TYPE_Q5_1, small::<Q5_1>),
        (GGML_TYPE_Q8_0, small::<Q8_0>),
        (GGML_TYPE_IQ4_NL, small::<Iq4Nl>),
        (GGML_TYPE_MXFP4, small::<Mxfp4>),
        (GGML_TYPE_Q2_K, fine::<Q2K>),
        (GGML_TYPE_Q3_K, fine::<Q3K>),
        (GGML_TYPE_Q4_K, wide::<Q4K>),
        (GGML_TYPE_Q5_K, wide::<Q5K>),
        (GGML_TYPE_Q6_K, fine::<Q6K>),
        (GGML_TYPE_IQ4_XS, wide::<Iq4Xs>),
        (GGML_TYPE_TQ2_0, wide::<Tq2_0>),
        (GGML_TYPE_IQ1_S, unpacked::<quant::iq1_s::BlockIq1S>),
        (GGML_TYPE_IQ1_M, unpacked::<quant::iq1_m::BlockIq1M>),
        (GGML_TYPE_IQ2_XXS, unpacked::<quant::iq2_xxs::BlockIq2Xxs>),
        (GGML_TYPE_IQ2_XS, unpacked::<quant::iq2_xs::BlockIq2Xs>),
        (GGML_TYPE_IQ2_S, unpacked::<quant::iq2_s::BlockIq2S>),
        (GGML_TYPE_IQ3_XXS, unpacked::<quant::iq3_xxs::BlockIq3Xxs>),
        (GGML_TYPE_IQ3_S, unpacked::<quant::iq3_s::BlockIq3S>),
        (GGML_TYPE_TQ1_0, unpacked::<quant::tq1_0::BlockTq1_0>),
        (GGML_TYPE_Q1_0, unpacked::<quant::q1_0::BlockQ1_0>),
        (GGML_TYPE_Q2_0, unpacked::<quant::q2_0::BlockQ2_0>),
    ] {
        gemv::set(k, t, rows);
    }
    // NVFP4 is interleaved faster than it is unpacked, except for a few rows.
    gemv::set(k, GGML_TYPE_NVFP4, unpacked::<quant::nvfp4::BlockNvfp4>);
    if let Some(gemv) = &mut k.gemv[GGML_TYPE_NVFP4 as usize] {
        gemv.few_rows = true;
    }
}
