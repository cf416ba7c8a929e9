//! Sixteen lanes for the float kernels, with AVX-512, and integer lanes with VNNI.

use crate::cpu::simd::act::MAGIC;
use crate::cpu::simd::argsort::Ranks;
use crate::cpu::simd::avx2::lanes::half_sums;
use crate::cpu::simd::convert::{self, Coder};
use crate::cpu::simd::group::Groups;
use crate::cpu::simd::lanes::{Dots, Lanes, methods};
use crate::cpu::simd::words::Words;
use std::arch::x86_64::*;

/// Sixteen floats in a 512-bit register.
#[derive(Clone, Copy)]
pub struct Avx512(pub(in crate::cpu::simd) __m512);

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    debug_assert!(n < 16);
    (1 << n) - 1
}

/// Indices of the upper halves of the words of two vectors.
static UPPER_HALVES: [u16; 32] = {
    let mut at = [0; 32];
    let mut i = 0;
    while i < 32 {
        at[i] = 2 * i as u16 + 1;
        i += 1;
    }
    at
};

/// The floats, rounded to bfloat16s, in the upper halves of the words. The instruction for it would make subnormal
/// numbers zero.
#[inline(always)]
unsafe fn round_bf16(x: __m512) -> __m512i {
    // SAFETY: the caller promises AVX-512 F, BW, DQ and VL.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000))
    }
}

/// The same floats. Not `pure`, so that it stays where it is.
#[inline]
#[target_feature(enable = "avx512f")]
fn computed(mut v: __m512) -> __m512 {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(zmm_reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

/// The two halves of a vector in double precision.
#[inline(always)]
unsafe fn doubles(x: __m512) -> [__m512d; 2] {
    // SAFETY: the caller promises AVX-512 F, BW, DQ and VL.
    unsafe { [_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x))] }
}

impl Lanes for Avx512 {
    const N: usize = 16;
    type Sums = [__m512d; 2];
    #[inline(always)]
    unsafe fn power(self) -> Self {
        self
    }
    methods! {
        splat(|x: f32) -> Self = Self(_mm512_set1_ps(x));
        load(|p: *const f32) -> Self = Self(_mm512_loadu_ps(p));
        load_part(|p: *const f32 |n: usize) -> Self = Self(_mm512_maskz_loadu_ps(mask(n), p));
        store(self |p: *mut f32) = _mm512_storeu_ps(p, self.0);
        store_part(self |p: *mut f32 |n: usize) = _mm512_mask_storeu_ps(p, mask(n), self.0);
        load_f16(|p: *const u16) -> Self = Self(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast())));
        store_f16(self |p: *mut u16) = _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0));
        load_bf16(|p: *const u16) -> Self =
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))));
        // Stores that narrow their lanes are slow, so pairs are joined in a register.
        store_f16_pair(|a: Self |b: Self |p: *mut u16) = {
            let a = _mm512_castsi256_si512(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a.0));
            let b = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(b.0);
            _mm512_storeu_si512(p.cast(), _mm512_inserti64x4::<1>(a, b));
        };
        store_bf16(self |p: *mut u16) =
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(round_bf16(self.0))));
        store_bf16_pair(|a: Self |b: Self |p: *mut u16) = {
            let upper = _mm512_loadu_si512(UPPER_HALVES.as_ptr().cast());
            _mm512_storeu_si512(p.cast(), _mm512_permutex2var_epi16(round_bf16(a.0), upper, round_bf16(b.0)));
        };
        // The same bits as a half have an exponent that is 8 too small, also for subnormal numbers. The conversion of
        // halves handles those at full speed.
        load_f8(|p: *const u8) -> Self = {
            let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(p.cast()));
            let magnitude = _mm256_slli_epi16::<7>(_mm256_and_si256(codes, _mm256_set1_epi16(0x7f)));
            let sign = _mm256_slli_epi16::<8>(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)));
            let nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f << 7));
            let half = _mm256_mask_mov_epi16(_mm256_or_si256(magnitude, sign), nan, _mm256_set1_epi16(0x7e00));
            Self(_mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0)))
        };
        add(self |b: Self) -> Self = Self(_mm512_add_ps(self.0, b.0));
        sub(self |b: Self) -> Self = Self(_mm512_sub_ps(self.0, b.0));
        mul(self |b: Self) -> Self = Self(_mm512_mul_ps(self.0, b.0));
        div(self |b: Self) -> Self = Self(_mm512_div_ps(self.0, b.0));
        mul_add(self |b: Self |c: Self) -> Self = Self(_mm512_fmadd_ps(self.0, b.0, c.0));
        neg_mul_add(self |b: Self |c: Self) -> Self = Self(_mm512_fnmadd_ps(self.0, b.0, c.0));
        max(self |b: Self) -> Self = Self(_mm512_max_ps(b.0, self.0));
        max_skip_nan(self |b: Self) -> Self = Self(_mm512_max_ps(self.0, b.0));
        min(self |b: Self) -> Self = Self(_mm512_min_ps(b.0, self.0));
        masked(self |mask: Self) -> Self = {
            let least = _mm512_set1_ps(f32::NEG_INFINITY);
            Self(_mm512_mask_mov_ps(self.0, _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(mask.0, least), least))
        };
        round(self) -> Self = Self(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0));
        split_power(self |b: Self) -> (Self, Self) = {
            let n = self.mul(b).round();
            (n, n)
        };
        times_power(self |n: Self) -> Self =
            Self(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(n.0, _mm512_set1_ps(-126.0)), self.0, n.0));
        // The instruction makes subnormal numbers, too.
        split_powers(self |b: Self |_sign: Self) -> (Self, [Self; 2]) = {
            let n = self.mul(b).round();
            (n, [n, n])
        };
        times_powers(self |powers: [Self; 2]) -> Self = Self(_mm512_scalef_ps(self.0, powers[0].0));
        any_below(self |b: f32) -> bool = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, _mm512_set1_ps(b)) != 0;
        with_sign_of(self |x: Self) -> Self = Self(_mm512_or_ps(self.0, _mm512_and_ps(x.0, _mm512_set1_ps(-0.0))));
        no_sums() -> [__m512d; 2] = [_mm512_setzero_pd(); 2];
        add_to(self |sums: [__m512d; 2]) -> [__m512d; 2] = {
            let [low, high] = doubles(self.0);
            [_mm512_add_pd(sums[0], low), _mm512_add_pd(sums[1], high)]
        };
        add_product_to(self |b: Self |sums: [__m512d; 2]) -> [__m512d; 2] = {
            let ([low, high], [b_low, b_high]) = (doubles(self.0), doubles(b.0));
            [_mm512_fmadd_pd(low, b_low, sums[0]), _mm512_fmadd_pd(high, b_high, sums[1])]
        };
        total(|sums: [__m512d; 2]) -> f64 = _mm512_reduce_add_pd(_mm512_add_pd(sums[0], sums[1]));
        if_less(self |b: Self |then: Self |otherwise: Self) -> Self =
            Self(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, b.0), otherwise.0, then.0));
        computed(self) -> Self = Self(computed(self.0));
        swap_pairs(self) -> Self = Self(_mm512_permute_ps::<0xb1>(self.0));
        sum(self) -> f32 = _mm512_reduce_add_ps(self.0);
        sum4(|v: [Self; 4]) -> [f32; 4] = {
            let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let four = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(ab, cd), _mm512_shuffle_ps::<0xee>(ab, cd));
            let two = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps::<1>(four));
            let sums = _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps::<1>(two));
            let mut all = [0.0; 4];
            _mm_storeu_ps(all.as_mut_ptr(), sums);
            all
        };
        top(self) -> f32 = _mm512_reduce_max_ps(self.0);
        transpose(|src: *const f32 |src_stride: usize |dst: *mut f32 |dst_stride: usize) = {
            let row = |i: usize| _mm512_loadu_ps(src.add(i * src_stride));
            // Transposes groups of four rows: the 128-bit part p of vector `4 j + q` of `fours` is column 4 p + q of
            // rows 4 j..4 j + 4.
            let mut fours = [_mm512_setzero_ps(); 16];
            for j in 0..4 {
                let (a, b, c, d) = (row(4 * j), row(4 * j + 1), row(4 * j + 2), row(4 * j + 3));
                let (ab_lo, ab_hi) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd_lo, cd_hi) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                fours[4 * j] = _mm512_shuffle_ps::<0x44>(ab_lo, cd_lo);
                fours[4 * j + 1] = _mm512_shuffle_ps::<0xee>(ab_lo, cd_lo);
                fours[4 * j + 2] = _mm512_shuffle_ps::<0x44>(ab_hi, cd_hi);
                fours[4 * j + 3] = _mm512_shuffle_ps::<0xee>(ab_hi, cd_hi);
            }
            // Gathers the 128-bit parts: column 4 p + q consists of part p of the four vectors with that q.
            for q in 0..4 {
                let (a, b, c, d) = (fours[q], fours[4 + q], fours[8 + q], fours[12 + q]);
                let (ab_even, ab_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (cd_even, cd_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                _mm512_storeu_ps(dst.add(q * dst_stride), _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even));
                _mm512_storeu_ps(dst.add((4 + q) * dst_stride), _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd));
                _mm512_storeu_ps(dst.add((8 + q) * dst_stride), _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even));
                _mm512_storeu_ps(dst.add((12 + q) * dst_stride), _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd));
            }
        };
    }
}

impl Coder for Avx512 {
    type Codes = __m512i;
    methods! {
        magnitude(self) -> Self = Self(_mm512_abs_ps(self.0));
        equal(self |b: Self) -> u32 = u32::from(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, b.0));
        bottom(self) -> f32 = _mm512_reduce_min_ps(self.0);
        codes(self |cap: i32) -> __m512i = _mm512_min_epi32(_mm512_cvttps_epi32(self.0), _mm512_set1_epi32(cap));
        fifth_bits(|codes: __m512i) -> u32 = u32::from(_mm512_test_epi32_mask(codes, _mm512_set1_epi32(16)));
        greatest(|x: *const f32) -> f32 = {
            let magnitude = |p: *const f32| _mm512_and_si512(_mm512_loadu_si512(p.cast()), _mm512_set1_epi32(i32::MAX));
            f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(magnitude(x), magnitude(x.add(16)))))
        };
        levels(|x: *const f32 |factor: f32 |p: *mut i8) = {
            // The low bits of the sum are the integer.
            let (factor, magic) = (_mm512_set1_ps(factor), _mm512_set1_ps(MAGIC));
            let low = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x), factor), magic);
            let high = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x.add(16)), factor), magic);
            let low = _mm256_castsi128_si256(_mm512_cvtepi32_epi8(_mm512_castps_si512(low)));
            let high = _mm512_cvtepi32_epi8(_mm512_castps_si512(high));
            _mm256_storeu_si256(p.cast(), _mm256_inserti128_si256::<1>(low, high));
        };
        store_nibbles(|low: __m512i |high: __m512i |p: *mut u8) = {
            let low = _mm512_and_si512(low, _mm512_set1_epi32(15));
            _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(_mm512_or_si512(low, _mm512_slli_epi32::<4>(high))));
        };
    }
}

/// Sixteen integers in a 512-bit register, for sorting.
#[derive(Clone, Copy)]
pub struct Avx512Ranks(__m512i);

impl Ranks for Avx512Ranks {
    const N: usize = 16;
    methods! {
        splat(|x: i32) -> Self = Self(_mm512_set1_epi32(x));
        load(|p: *const i32) -> Self = Self(_mm512_loadu_si512(p.cast()));
        store(self |p: *mut i32) = _mm512_storeu_si512(p.cast(), self.0);
        count_less(self |a: Self |b: Self) -> Self =
            Self(_mm512_mask_add_epi32(self.0, _mm512_cmplt_epi32_mask(a.0, b.0), self.0, _mm512_set1_epi32(1)));
        discount_less(self |a: Self |b: Self) -> Self =
            Self(_mm512_mask_sub_epi32(self.0, _mm512_cmplt_epi32_mask(a.0, b.0), self.0, _mm512_set1_epi32(1)));
    }
}

/// Sixteen integers in a 512-bit register; needs VNNI as well.
#[derive(Clone, Copy)]
pub struct VnniDots(pub(super) __m512i);

impl Dots for VnniDots {
    type Floats = Avx512;
    const FLIP: u8 = 0x80;
    methods! {
        splat(|x: i32) -> Self = Self(_mm512_set1_epi32(x));
        load(|p: *const u8) -> Self = Self(_mm512_loadu_si512(p.cast()));
        dot4(self |w: Self |a: Self) -> Self = Self(_mm512_dpbusd_epi32(self.0, w.0, a.0));
        to_floats(self) -> Avx512 = Avx512(_mm512_cvtepi32_ps(self.0));
        quantize(|x: *const f32) -> (f32, [i8; 32], [i32; 2]) = {
            let (scale, q) = convert::levels::<Avx512>(x);
            (scale, q, half_sums(&q))
        };
        add(self |b: Self) -> Self = Self(_mm512_add_epi32(self.0, b.0));
        signed_right(self |n: i32) -> Self = Self(_mm512_sra_epi32(self.0, _mm_cvtsi32_si128(n)));
    }
}

impl Groups for VnniDots {}

impl Words for VnniDots {
    methods! {
        store(self |p: *mut u8) = _mm512_storeu_si512(p.cast(), self.0);
        load_bytes(|p: *const u8) -> Self = Self(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
        and(self |b: Self) -> Self = Self(_mm512_and_si512(self.0, b.0));
        or(self |b: Self) -> Self = Self(_mm512_or_si512(self.0, b.0));
        xor(self |b: Self) -> Self = Self(_mm512_xor_si512(self.0, b.0));
        left(self |n: i32) -> Self = Self(_mm512_sll_epi32(self.0, _mm_cvtsi32_si128(n)));
        right(self |n: i32) -> Self = Self(_mm512_srl_epi32(self.0, _mm_cvtsi32_si128(n)));
        add_bytes(self |b: Self) -> Self = Self(_mm512_add_epi8(self.0, b.0));
        repeat_byte(self |i: usize) -> Self = {
            let first = _mm512_broadcast_i32x4(_mm_set_epi8(12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0));
            Self(_mm512_shuffle_epi8(self.0, _mm512_add_epi8(first, _mm512_set1_epi8(i as i8))))
        };
        join(self |flags: Self |mask: Self |bit: u8) -> Self = {
            let set = _mm512_test_epi8_mask(flags.0, mask.0);
            Self(_mm512_mask_add_epi8(self.0, set, self.0, _mm512_set1_epi8(bit as i8)))
        };
        look_up(self |values: &[i8; 16]) -> Self =
            Self(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(values.as_ptr().cast())), self.0));
        replace(self |keys: Self |key: i32 |value: i32) -> Self = {
            let equal = _mm512_cmpeq_epi32_mask(keys.0, _mm512_set1_epi32(key));
            Self(_mm512_mask_mov_epi32(self.0, equal, _mm512_set1_epi32(value)))
        };
        low_halves(self) -> Avx512 = Avx512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(self.0)));
        as_floats(self) -> Avx512 = Avx512(_mm512_castsi512_ps(self.0));
        interleave_4(|rows: *const *const u8 |at: usize |dst: *mut u8) = {
            // Rows r, r + 4, r + 8 and r + 12 in the four parts of a vector, transposed by parts.
            let four = |r: usize| {
                let row = |r: usize| _mm_loadu_si128(rows.add(r).read().add(at).cast());
                let v = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(row(r)), row(r + 4));
                _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(v, row(r + 8)), row(r + 12))
            };
            let (a, b, c, d) = (four(0), four(1), four(2), four(3));
            let (ab, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            _mm512_storeu_si512(dst.cast(), _mm512_unpacklo_epi64(ab, cd));
            _mm512_storeu_si512(dst.add(64).cast(), _mm512_unpackhi_epi64(ab, cd));
            _mm512_storeu_si512(dst.add(128).cast(), _mm512_unpacklo_epi64(ab_high, cd_high));
            _mm512_storeu_si512(dst.add(192).cast(), _mm512_unpackhi_epi64(ab_high, cd_high));
        };
    }
}
