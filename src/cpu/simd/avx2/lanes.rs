//! Eight lanes for the float kernels and the block kernels, with AVX2, FMA and F16C.

use crate::cpu::simd::act::MAGIC;
use crate::cpu::simd::argsort::Ranks;
use crate::cpu::simd::convert::{self, Coder};
use crate::cpu::simd::group::Groups;
use crate::cpu::simd::lanes::{AnyDots, DOWN, Dots, Lanes, WITH_POWER, methods};
use crate::cpu::simd::words::Words;
use std::arch::asm;
use std::arch::x86_64::*;

/// Eight floats in a 256-bit register.
#[derive(Clone, Copy)]
pub struct Avx2(pub(super) __m256);

/// Masks: eight words from index `8 - n` have the sign bit set in the first `n`.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn mask(n: usize) -> __m256i {
    debug_assert!(n < 8);
    // SAFETY: `n` is below 8, so eight words from index `8 - n` are in the table. The caller promises AVX2.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()) }
}

/// Eight halves of floats, in a register. As intrinsics, the conversion and the store that follows it become one
/// instruction, which is slow on many processors.
///
/// # Safety
/// The processor has F16C.
#[inline]
#[target_feature(enable = "avx,f16c")]
unsafe fn halves(x: __m256) -> __m128i {
    let y;
    // SAFETY: the instruction writes a register, and the caller promises that the processor has it. 0: to the nearest
    // number, even if there are two.
    unsafe {
        asm!("vcvtps2ph {}, {}, 0", lateout(xmm_reg) y, in(ymm_reg) x, options(pure, nomem, nostack, preserves_flags))
    };
    y
}

/// Eight halves as floats. As intrinsics, the compiler would begin several conversions early, and move the sums of a
/// tile to memory for that.
///
/// # Safety
/// `p` has eight readable halves, and the processor has F16C.
#[inline]
#[target_feature(enable = "avx,f16c")]
unsafe fn floats(p: *const u16) -> __m256 {
    let y;
    // SAFETY: the caller promises the halves and the instruction, which writes a register.
    unsafe {
        asm!("vcvtph2ps {}, [{}]", lateout(ymm_reg) y, in(reg) p, options(pure, readonly, nostack, preserves_flags));
    };
    y
}

/// Sum of eight floats.
#[inline(always)]
unsafe fn sum(v: __m256) -> f32 {
    // SAFETY: the caller promises AVX2, which is all that these instructions require.
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
    }
}

/// Greatest of eight floats.
#[inline(always)]
unsafe fn top(v: __m256) -> f32 {
    // SAFETY: the caller promises AVX2, which is all that these instructions require.
    unsafe {
        let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)))
    }
}

/// The two halves of a vector in double precision.
#[inline(always)]
unsafe fn doubles(x: __m256) -> [__m256d; 2] {
    // SAFETY: the caller promises AVX2.
    unsafe { [_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x))] }
}

/// The floats, rounded to bfloat16s.
#[inline(always)]
unsafe fn round_bf16(x: __m256) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let high = _mm256_srli_epi32::<16>(bits);
        let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
        let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan)
    }
}

impl Lanes for Avx2 {
    const N: usize = 8;
    type Sums = [__m256d; 2];
    methods! {
        splat(|x: f32) -> Self = Self(_mm256_set1_ps(x));
        load(|p: *const f32) -> Self = Self(_mm256_loadu_ps(p));
        load_part(|p: *const f32 |n: usize) -> Self = Self(_mm256_maskload_ps(p, mask(n)));
        store(self |p: *mut f32) = _mm256_storeu_ps(p, self.0);
        store_part(self |p: *mut f32 |n: usize) = _mm256_maskstore_ps(p, mask(n), self.0);
        load_f16(|p: *const u16) -> Self = Self(floats(p));
        store_f16(self |p: *mut u16) = _mm_storeu_si128(p.cast(), halves(self.0));
        load_bf16(|p: *const u16) -> Self =
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))));
        store_bf16(self |p: *mut u16) = {
            let all = round_bf16(self.0);
            let packed = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all));
            _mm_storeu_si128(p.cast(), packed);
        };
        store_bf16_pair(|a: Self |b: Self |p: *mut u16) = {
            let packed = _mm256_packus_epi32(round_bf16(a.0), round_bf16(b.0));
            _mm256_storeu_si256(p.cast(), _mm256_permute4x64_epi64::<0xd8>(packed));
        };
        // The same bits as a half have an exponent that is 8 too small, also for subnormal numbers. The conversion of
        // halves handles those at full speed.
        load_f8(|p: *const u8) -> Self = {
            let codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(p.cast()));
            let magnitude = _mm_slli_epi16::<7>(_mm_and_si128(codes, _mm_set1_epi16(0x7f)));
            let sign = _mm_slli_epi16::<8>(_mm_and_si128(codes, _mm_set1_epi16(0x80)));
            let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f << 7));
            let half = _mm_or_si128(_mm_or_si128(magnitude, sign), _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
            Self(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0)))
        };
        add(self |b: Self) -> Self = Self(_mm256_add_ps(self.0, b.0));
        sub(self |b: Self) -> Self = Self(_mm256_sub_ps(self.0, b.0));
        mul(self |b: Self) -> Self = Self(_mm256_mul_ps(self.0, b.0));
        div(self |b: Self) -> Self = Self(_mm256_div_ps(self.0, b.0));
        mul_add(self |b: Self |c: Self) -> Self = Self(_mm256_fmadd_ps(self.0, b.0, c.0));
        neg_mul_add(self |b: Self |c: Self) -> Self = Self(_mm256_fnmadd_ps(self.0, b.0, c.0));
        max(self |b: Self) -> Self = Self(_mm256_max_ps(b.0, self.0));
        max_skip_nan(self |b: Self) -> Self = Self(_mm256_max_ps(self.0, b.0));
        min(self |b: Self) -> Self = Self(_mm256_min_ps(b.0, self.0));
        masked(self |mask: Self) -> Self = {
            let least = _mm256_set1_ps(f32::NEG_INFINITY);
            Self(_mm256_blendv_ps(self.0, least, _mm256_cmp_ps::<_CMP_EQ_OQ>(mask.0, least)))
        };
        round(self) -> Self = Self(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0));
        split_power(self |b: Self) -> (Self, Self) = {
            // The sum has no digits after the point, and the last of its bits are n + 126, the exponent of 2^(n - 1).
            let sum = _mm256_fmadd_ps(self.0, b.0, _mm256_set1_ps(WITH_POWER));
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(sum));
            (Self(_mm256_sub_ps(sum, _mm256_set1_ps(WITH_POWER))), Self(_mm256_castsi256_ps(power)))
        };
        power(self) -> Self = {
            let sum = _mm256_add_ps(self.0, _mm256_set1_ps(WITH_POWER));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(sum))))
        };
        // Twice a number by 2^(n - 1), because 2^n may overflow.
        times_power(self |power: Self) -> Self = Self(_mm256_mul_ps(_mm256_add_ps(self.0, self.0), power.0));
        split_powers(self |b: Self |sign: Self) -> (Self, [Self; 2]) = {
            // As above; the power is 2^(n - 1), or 2^(n + 25) where the sign is negative.
            let (up, down) = (_mm256_set1_ps(WITH_POWER), _mm256_set1_ps(WITH_POWER + 26.0));
            let start = _mm256_blendv_ps(up, down, sign.0);
            let sum = _mm256_fmadd_ps(self.0, b.0, start);
            let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(sum)));
            let factor = _mm256_blendv_ps(_mm256_set1_ps(2.0), _mm256_set1_ps(DOWN), sign.0);
            (Self(_mm256_sub_ps(sum, start)), [Self(power), Self(factor)])
        };
        times_powers(self |powers: [Self; 2]) -> Self =
            Self(_mm256_mul_ps(_mm256_mul_ps(self.0, powers[0].0), powers[1].0));
        any_below(self |b: f32) -> bool =
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, _mm256_set1_ps(b))) != 0;
        with_sign_of(self |x: Self) -> Self =
            Self(_mm256_or_ps(self.0, _mm256_and_ps(x.0, _mm256_set1_ps(-0.0))));
        no_sums() -> [__m256d; 2] = [_mm256_setzero_pd(); 2];
        add_to(self |sums: [__m256d; 2]) -> [__m256d; 2] = {
            let [low, high] = doubles(self.0);
            [_mm256_add_pd(sums[0], low), _mm256_add_pd(sums[1], high)]
        };
        // Conversions that read memory need no other instruction for the upper half.
        add_floats(|p: *const f32 |sums: [__m256d; 2]) -> [__m256d; 2] = {
            let (low, high) = (_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p.add(4))));
            [_mm256_add_pd(sums[0], low), _mm256_add_pd(sums[1], high)]
        };
        add_product_to(self |b: Self |sums: [__m256d; 2]) -> [__m256d; 2] = {
            let ([low, high], [b_low, b_high]) = (doubles(self.0), doubles(b.0));
            [_mm256_fmadd_pd(low, b_low, sums[0]), _mm256_fmadd_pd(high, b_high, sums[1])]
        };
        total(|sums: [__m256d; 2]) -> f64 = {
            let all = _mm256_add_pd(sums[0], sums[1]);
            let two = _mm_add_pd(_mm256_castpd256_pd128(all), _mm256_extractf128_pd::<1>(all));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        };
        if_less(self |b: Self |then: Self |otherwise: Self) -> Self =
            Self(_mm256_blendv_ps(otherwise.0, then.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, b.0)));
        computed(self) -> Self = Self(computed(self.0));
        swap_pairs(self) -> Self = Self(_mm256_permute_ps::<0xb1>(self.0));
        sum(self) -> f32 = sum(self.0);
        sum4(|v: [Self; 4]) -> [f32; 4] = {
            // A horizontal addition takes two shuffles; with blends, two vectors take one.
            let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
            let ab = _mm256_add_ps(_mm256_blend_ps::<0b1100_1100>(a, b), _mm256_shuffle_ps::<0b01_00_11_10>(a, b));
            let cd = _mm256_add_ps(_mm256_blend_ps::<0b1100_1100>(c, d), _mm256_shuffle_ps::<0b01_00_11_10>(c, d));
            let even = _mm256_shuffle_ps::<0b10_00_10_00>(ab, cd);
            let four = _mm256_add_ps(even, _mm256_shuffle_ps::<0b11_01_11_01>(ab, cd));
            let sums = _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps::<1>(four));
            let mut all = [0.0; 4];
            _mm_storeu_ps(all.as_mut_ptr(), sums);
            all
        };
        top(self) -> f32 = top(self.0);
        transpose(|src: *const f32 |src_stride: usize |dst: *mut f32 |dst_stride: usize) = {
            let row = |i: usize| _mm256_loadu_ps(src.add(i * src_stride));
            // Interleaves pairs of rows, then groups of four rows, then halves.
            let mut fours = [_mm256_setzero_ps(); 8];
            for half in 0..2 {
                let (a, b, c, d) = (row(4 * half), row(4 * half + 1), row(4 * half + 2), row(4 * half + 3));
                let (ab_lo, ab_hi) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd_lo, cd_hi) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                fours[half] = _mm256_shuffle_ps::<0x44>(ab_lo, cd_lo);
                fours[2 + half] = _mm256_shuffle_ps::<0xee>(ab_lo, cd_lo);
                fours[4 + half] = _mm256_shuffle_ps::<0x44>(ab_hi, cd_hi);
                fours[6 + half] = _mm256_shuffle_ps::<0xee>(ab_hi, cd_hi);
            }
            for c in 0..4 {
                let (a, b) = (fours[2 * c], fours[2 * c + 1]);
                _mm256_storeu_ps(dst.add(c * dst_stride), _mm256_permute2f128_ps::<0x20>(a, b));
                _mm256_storeu_ps(dst.add((c + 4) * dst_stride), _mm256_permute2f128_ps::<0x31>(a, b));
            }
        };
    }
}

impl Coder for Avx2 {
    type Codes = __m256i;
    methods! {
        magnitude(self) -> Self = Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0));
        equal(self |b: Self) -> u32 = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, b.0)) as u32;
        bottom(self) -> f32 = {
            let v = _mm_min_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let v = _mm_min_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_min_ss(v, _mm_movehdup_ps(v)))
        };
        codes(self |cap: i32) -> __m256i = _mm256_min_epi32(_mm256_cvttps_epi32(self.0), _mm256_set1_epi32(cap));
        fifth_bits(|codes: __m256i) -> u32 =
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<27>(codes))) as u32;
        greatest(|x: *const f32) -> f32 = {
            let mut top = _mm256_setzero_si256();
            for i in 0..4 {
                let x = _mm256_loadu_si256(x.add(8 * i).cast());
                top = _mm256_max_epu32(top, _mm256_and_si256(x, _mm256_set1_epi32(i32::MAX)));
            }
            let top = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256::<1>(top));
            let top = _mm_max_epu32(top, _mm_shuffle_epi32::<0x4e>(top));
            f32::from_bits(_mm_cvtsi128_si32(_mm_max_epu32(top, _mm_shuffle_epi32::<0xb1>(top))) as u32)
        };
        levels(|x: *const f32 |factor: f32 |p: *mut i8) = {
            let (factor, magic) = (_mm256_set1_ps(factor), _mm256_set1_ps(MAGIC));
            let mut bytes = [_mm256_setzero_si256(); 4];
            for i in 0..4 {
                // The low bits of the sum are the integer.
                let sum = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x.add(8 * i)), factor), magic);
                bytes[i] = _mm256_and_si256(_mm256_castps_si256(sum), _mm256_set1_epi32(0xff));
            }
            let (low, high) = (_mm256_packus_epi32(bytes[0], bytes[1]), _mm256_packus_epi32(bytes[2], bytes[3]));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
            _mm256_storeu_si256(p.cast(), all);
        };
        store_nibbles(|low: __m256i |high: __m256i |p: *mut u8) = {
            let (low, high) = (_mm256_and_si256(low, _mm256_set1_epi32(15)), _mm256_and_si256(high, _mm256_set1_epi32(15)));
            let bytes = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
            let halves = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
            _mm_storel_epi64(p.cast(), _mm_packus_epi16(halves, halves));
        };
    }
}

/// Eight integers in a 256-bit register, for sorting.
#[derive(Clone, Copy)]
pub struct Avx2Ranks(__m256i);

impl Ranks for Avx2Ranks {
    const N: usize = 8;
    methods! {
        splat(|x: i32) -> Self = Self(_mm256_set1_epi32(x));
        load(|p: *const i32) -> Self = Self(_mm256_loadu_si256(p.cast()));
        store(self |p: *mut i32) = _mm256_storeu_si256(p.cast(), self.0);
        // The comparison gives -1 where it is true.
        count_less(self |a: Self |b: Self) -> Self = Self(_mm256_sub_epi32(self.0, _mm256_cmpgt_epi32(b.0, a.0)));
        discount_less(self |a: Self |b: Self) -> Self = Self(_mm256_add_epi32(self.0, _mm256_cmpgt_epi32(b.0, a.0)));
    }
}

/// The same integers, which the compiler knows nothing about.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn opaque(mut v: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) v, options(pure, nomem, nostack, preserves_flags)) };
    v
}

/// The same floats. Not `pure`, so that it stays where it is.
#[inline]
#[target_feature(enable = "avx2")]
fn computed(mut v: __m256) -> __m256 {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

/// Eight integers in a 256-bit register.
#[derive(Clone, Copy)]
pub struct Avx2Dots(pub(super) __m256i);

/// The sums of the first and of the last 16 bytes.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub unsafe fn half_sums(q: &[i8; 32]) -> [i32; 2] {
    // SAFETY: the array has 32 bytes, and the caller promises AVX2.
    unsafe {
        // Sums of unsigned bytes take one instruction for eight of them.
        let unsigned = _mm256_xor_si256(_mm256_loadu_si256(q.as_ptr().cast()), _mm256_set1_epi8(i8::MIN));
        let eights = _mm256_sad_epu8(unsigned, _mm256_setzero_si256());
        let sums = _mm256_add_epi64(eights, _mm256_shuffle_epi32::<0x4e>(eights));
        let high = _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(sums));
        [_mm_cvtsi128_si32(_mm256_castsi256_si128(sums)) - 128 * 16, high - 128 * 16]
    }
}

impl Dots for Avx2Dots {
    type Floats = Avx2;
    const FLIP: u8 = 0;
    methods! {
        splat(|x: i32) -> Self = Self(_mm256_set1_epi32(x));
        load(|p: *const u8) -> Self = Self(_mm256_loadu_si256(p.cast()));
        // The instruction requires an unsigned first factor, so the sign of the weight moves to the activation. The sum
        // of two products of at most 128 * 127 fits into 16 bits.
        dot4(self |w: Self |a: Self) -> Self = {
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w.0), _mm256_sign_epi8(a.0, w.0));
            Self(_mm256_add_epi32(self.0, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))))
        };
        to_floats(self) -> Avx2 = Avx2(_mm256_cvtepi32_ps(self.0));
        quantize(|x: *const f32) -> (f32, [i8; 32], [i32; 2]) = {
            let (scale, q) = convert::levels::<Avx2>(x);
            (scale, q, half_sums(&q))
        };
        add(self |b: Self) -> Self = Self(_mm256_add_epi32(self.0, b.0));
        signed_right(self |n: i32) -> Self = Self(_mm256_sra_epi32(self.0, _mm_cvtsi32_si128(n)));
        // Sums of pairs, with 16 bits.
        products(|_start: Self |w: Self |a: Self |bits: u32) -> Self = Self(if bits == 8 {
            _mm256_maddubs_epi16(_mm256_abs_epi8(w.0), _mm256_sign_epi8(a.0, w.0))
        } else {
            _mm256_maddubs_epi16(w.0, a.0)
        });
        more_products(self |w: Self |a: Self |bits: u32) -> Self =
            Self(_mm256_add_epi16(self.0, Self::products(self, w, a, bits).0));
        sum(self |start: Self) -> Self = Self(_mm256_add_epi32(start.0, _mm256_madd_epi16(self.0, _mm256_set1_epi16(1))));
        as_it_is(self) -> Self = Self(opaque(self.0));
    }
    const NARROW: bool = true;
    #[inline(always)]
    fn run(bits: u32, all: usize) -> usize {
        // 2 * 127 * 15 * 8, 2 * 127 * 31 * 4, 2 * 127 * 63 * 2, 2 * 127 * 127 and 2 * 127 * 128 are below 2^15.
        match bits {
            0..=4 => all.min(8),
            5 => 4,
            6 => 2,
            _ => 1,
        }
    }
}

impl AnyDots for Avx2Dots {
    methods! {
        least(self |a: Self) -> Self = Self(_mm256_min_epi8(self.0, a.0));
        has_least(self) -> bool = _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.0, _mm256_set1_epi8(-128))) != 0;
        totals(self) -> (i32, [i32; 2]) = {
            let pairs = _mm256_add_epi32(self.0, _mm256_shuffle_epi32::<0x4e>(self.0));
            let halves = _mm256_add_epi32(pairs, _mm256_shuffle_epi32::<0xb1>(pairs));
            let halves = [_mm256_extract_epi32::<0>(halves), _mm256_extract_epi32::<4>(halves)];
            (halves[0] + halves[1], halves)
        };
    }
}

impl Groups for Avx2Dots {}

impl Words for Avx2Dots {
    methods! {
        store(self |p: *mut u8) = _mm256_storeu_si256(p.cast(), self.0);
        load_bytes(|p: *const u8) -> Self = Self(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())));
        and(self |b: Self) -> Self = Self(_mm256_and_si256(self.0, b.0));
        or(self |b: Self) -> Self = Self(_mm256_or_si256(self.0, b.0));
        xor(self |b: Self) -> Self = Self(_mm256_xor_si256(self.0, b.0));
        left(self |n: i32) -> Self = Self(_mm256_sll_epi32(self.0, _mm_cvtsi32_si128(n)));
        right(self |n: i32) -> Self = Self(_mm256_srl_epi32(self.0, _mm_cvtsi32_si128(n)));
        add_bytes(self |b: Self) -> Self = Self(_mm256_add_epi8(self.0, b.0));
        repeat_byte(self |i: usize) -> Self = {
            let first = _mm256_set_epi8(
                12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0, 12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0,
            );
            Self(_mm256_shuffle_epi8(self.0, _mm256_add_epi8(first, _mm256_set1_epi8(i as i8))))
        };
        join(self |flags: Self |mask: Self |bit: u8) -> Self = {
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(flags.0, mask.0), mask.0);
            Self(_mm256_or_si256(self.0, _mm256_and_si256(set, _mm256_set1_epi8(bit as i8))))
        };
        look_up(self |values: &[i8; 16]) -> Self =
            Self(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(values.as_ptr().cast())), self.0));
        replace(self |keys: Self |key: i32 |value: i32) -> Self = {
            let equal = _mm256_cmpeq_epi32(keys.0, _mm256_set1_epi32(key));
            Self(_mm256_blendv_epi8(self.0, _mm256_set1_epi32(value), equal))
        };
        low_halves(self) -> Avx2 = {
            let low = _mm256_and_si256(self.0, _mm256_set1_epi32(0xffff));
            let packed = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
            Avx2(_mm256_cvtph_ps(packed))
        };
        as_floats(self) -> Avx2 = Avx2(_mm256_castsi256_ps(self.0));
        interleave_4(|rows: *const *const u8 |at: usize |dst: *mut u8) = {
            // Rows r and r + 4 in the two halves of a vector, transposed by halves.
            let pair = |r: usize| {
                let low = _mm_loadu_si128(rows.add(r).read().add(at).cast());
                let high = _mm_loadu_si128(rows.add(r + 4).read().add(at).cast());
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
            };
            let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
            let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            _mm256_storeu_si256(dst.cast(), _mm256_unpacklo_epi64(ab, cd));
            _mm256_storeu_si256(dst.add(32).cast(), _mm256_unpackhi_epi64(ab, cd));
            _mm256_storeu_si256(dst.add(64).cast(), _mm256_unpacklo_epi64(ab_high, cd_high));
            _mm256_storeu_si256(dst.add(96).cast(), _mm256_unpackhi_epi64(ab_high, cd_high));
        };
    }
}
