//! Eight lanes for the float kernels and the block kernels, with the vectors of 64-bit ARM: two registers are a vector,
//! so that every sum has the order of additions that it has with AVX2, and the same bits.

use crate::cpu::simd::act::MAGIC;
use crate::cpu::simd::argsort::Ranks;
use crate::cpu::simd::convert::Coder;
use crate::cpu::simd::lanes::{DOWN, Lanes, WITH_POWER, methods};
use std::arch::aarch64::*;
use std::arch::asm;

/// Eight floats in two registers.
#[derive(Clone, Copy)]
pub struct Neon([float32x4_t; 2]);

/// The floats of four halves.
#[inline(always)]
pub fn from_halves(halves: uint16x4_t) -> float32x4_t {
    let y;
    // SAFETY: the instruction writes a register, and every 64-bit ARM has it.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) y, in(vreg) halves, options(pure, nomem, nostack, preserves_flags))
    };
    y
}

/// The floats of the upper four of eight halves.
#[inline(always)]
fn from_upper_halves(halves: uint16x8_t) -> float32x4_t {
    let y;
    // SAFETY: the instruction writes a register, and every 64-bit ARM has it.
    unsafe {
        asm!("fcvtl2 {0:v}.4s, {1:v}.8h", lateout(vreg) y, in(vreg) halves, options(pure, nomem, nostack, preserves_flags))
    };
    y
}

/// The nearest halves of four floats, to even if there are two.
#[inline(always)]
fn to_halves(x: float32x4_t) -> uint16x4_t {
    let y;
    // SAFETY: the instruction writes a register, and every 64-bit ARM has it.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", lateout(vreg) y, in(vreg) x, options(pure, nomem, nostack, preserves_flags))
    };
    y
}

/// The floats, rounded to bfloat16s.
#[inline(always)]
unsafe fn round_bf16(x: float32x4_t) -> uint16x4_t {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe {
        let bits = vreinterpretq_u32_f32(x);
        let high = vshrq_n_u32::<16>(bits);
        let odd = vandq_u32(high, vdupq_n_u32(1));
        let rounded = vshrq_n_u32::<16>(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd));
        let number = vceqq_f32(x, x);
        vmovn_u32(vbslq_u32(number, rounded, vorrq_u32(high, vdupq_n_u32(0x40))))
    }
}

/// A bit for each lane of two comparisons.
#[inline(always)]
unsafe fn bits([low, high]: [uint32x4_t; 2]) -> u32 {
    // SAFETY: the array has as many numbers, and every 64-bit ARM has these instructions.
    unsafe {
        let ones = vld1q_u32([1, 2, 4, 8].as_ptr());
        let all = vorrq_u32(vandq_u32(low, ones), vshlq_n_u32::<4>(vandq_u32(high, ones)));
        vaddvq_u32(all)
    }
}

impl Neon {
    /// Two registers.
    #[inline(always)]
    pub fn of(registers: [float32x4_t; 2]) -> Self {
        Self(registers)
    }
    /// The registers.
    #[inline(always)]
    pub fn registers(self) -> [float32x4_t; 2] {
        self.0
    }
    /// Eight halves.
    #[inline(always)]
    pub fn of_halves(halves: uint16x8_t) -> Self {
        // SAFETY: every 64-bit ARM has these instructions.
        unsafe { Self([from_halves(vget_low_u16(halves)), from_upper_halves(halves)]) }
    }
    #[inline(always)]
    fn each(self, f: impl Fn(float32x4_t) -> float32x4_t) -> Self {
        Self(self.0.map(f))
    }
    #[inline(always)]
    fn with(self, b: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        Self([f(self.0[0], b.0[0]), f(self.0[1], b.0[1])])
    }
}

/// The first lane of each pair of `a` and `b`, or the second: halves of what transposes four vectors.
macro_rules! pairs {
    ($which:ident, $a:expr, $b:expr) => {
        vreinterpretq_f32_f64($which(vreinterpretq_f64_f32($a), vreinterpretq_f64_f32($b)))
    };
}

/// Transposes four vectors.
#[inline(always)]
pub unsafe fn transpose_4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe {
        let (ab, ab_odd) = (vtrn1q_f32(a, b), vtrn2q_f32(a, b));
        let (cd, cd_odd) = (vtrn1q_f32(c, d), vtrn2q_f32(c, d));
        [
            pairs!(vtrn1q_f64, ab, cd),
            pairs!(vtrn1q_f64, ab_odd, cd_odd),
            pairs!(vtrn2q_f64, ab, cd),
            pairs!(vtrn2q_f64, ab_odd, cd_odd),
        ]
    }
}

impl Lanes for Neon {
    const N: usize = 8;
    const IN_PAIRS: bool = true;
    type Sums = [float64x2_t; 4];
    methods! {
        splat(|x: f32) -> Self = Self([vdupq_n_f32(x); 2]);
        load(|p: *const f32) -> Self = Self([vld1q_f32(p), vld1q_f32(p.add(4))]);
        load_part(|p: *const f32 |n: usize) -> Self = {
            let mut all = [0.0f32; 8];
            debug_assert!(n < 8);
            p.cast::<u8>().copy_to_nonoverlapping(all.as_mut_ptr().cast(), size_of::<f32>() * n);
            Self::load(all.as_ptr())
        };
        store(self |p: *mut f32) = {
            vst1q_f32(p, self.0[0]);
            vst1q_f32(p.add(4), self.0[1]);
        };
        store_part(self |p: *mut f32 |n: usize) = {
            let mut all = [0.0f32; 8];
            debug_assert!(n < 8);
            self.store(all.as_mut_ptr());
            p.cast::<u8>().copy_from_nonoverlapping(all.as_ptr().cast(), size_of::<f32>() * n);
        };
        load_f16(|p: *const u16) -> Self = Self::of_halves(vld1q_u16(p));
        store_f16(self |p: *mut u16) = vst1q_u16(p, vcombine_u16(to_halves(self.0[0]), to_halves(self.0[1])));
        load_bf16(|p: *const u16) -> Self = {
            let x = vld1q_u16(p);
            Self([vshll_n_u16::<16>(vget_low_u16(x)), vshll_high_n_u16::<16>(x)].map(|x| vreinterpretq_f32_u32(x)))
        };
        store_bf16(self |p: *mut u16) = vst1q_u16(p, vcombine_u16(round_bf16(self.0[0]), round_bf16(self.0[1])));
        // The same bits as a half have an exponent that is 8 too small, also for subnormal numbers.
        load_f8(|p: *const u8) -> Self = {
            let codes = vmovl_u8(vld1_u8(p));
            let magnitude = vshlq_n_u16::<7>(vandq_u16(codes, vdupq_n_u16(0x7f)));
            let sign = vshlq_n_u16::<8>(vandq_u16(codes, vdupq_n_u16(0x80)));
            let nan = vceqq_u16(magnitude, vdupq_n_u16(0x7f << 7));
            let half = vorrq_u16(vorrq_u16(magnitude, sign), vandq_u16(nan, vdupq_n_u16(0x7e00)));
            Self::of_halves(half).mul(Self::splat(256.0))
        };
        add(self |b: Self) -> Self = self.with(b, |a, b| vaddq_f32(a, b));
        sub(self |b: Self) -> Self = self.with(b, |a, b| vsubq_f32(a, b));
        mul(self |b: Self) -> Self = self.with(b, |a, b| vmulq_f32(a, b));
        div(self |b: Self) -> Self = self.with(b, |a, b| vdivq_f32(a, b));
        mul_add(self |b: Self |c: Self) -> Self =
            Self([vfmaq_f32(c.0[0], self.0[0], b.0[0]), vfmaq_f32(c.0[1], self.0[1], b.0[1])]);
        neg_mul_add(self |b: Self |c: Self) -> Self =
            Self([vfmsq_f32(c.0[0], self.0[0], b.0[0]), vfmsq_f32(c.0[1], self.0[1], b.0[1])]);
        max(self |b: Self) -> Self = self.with(b, |a, b| vbslq_f32(vcgtq_f32(b, a), b, a));
        max_skip_nan(self |b: Self) -> Self = self.with(b, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b));
        min(self |b: Self) -> Self = self.with(b, |a, b| vbslq_f32(vcltq_f32(b, a), b, a));
        masked(self |mask: Self) -> Self = {
            let least = vdupq_n_f32(f32::NEG_INFINITY);
            self.with(mask, |x, mask| vbslq_f32(vceqq_f32(mask, least), least, x))
        };
        round(self) -> Self = self.each(|x| vrndnq_f32(x));
        split_power(self |b: Self) -> (Self, Self) = {
            // The sum has no digits after the point, and the last of its bits are n + 126, the exponent of 2^(n - 1).
            let sum = self.mul_add(b, Self::splat(WITH_POWER));
            (sum.sub(Self::splat(WITH_POWER)), sum.each(|sum| shifted(sum)))
        };
        power(self) -> Self = self.add(Self::splat(WITH_POWER)).each(|sum| shifted(sum));
        // Twice a number by 2^(n - 1), because 2^n may overflow.
        times_power(self |power: Self) -> Self = self.add(self).mul(power);
        split_powers(self |b: Self |sign: Self) -> (Self, [Self; 2]) = {
            // As above; the power is 2^(n - 1), or 2^(n + 25) where the sign is negative.
            let choose = |up: f32, down: f32| {
                sign.each(|sign| {
                    let is_negative = vcltzq_s32(vreinterpretq_s32_f32(sign));
                    vbslq_f32(is_negative, vdupq_n_f32(down), vdupq_n_f32(up))
                })
            };
            let start = choose(WITH_POWER, WITH_POWER + 26.0);
            let sum = self.mul_add(b, start);
            (sum.sub(start), [sum.each(|sum| shifted(sum)), choose(2.0, DOWN)])
        };
        times_powers(self |powers: [Self; 2]) -> Self = self.mul(powers[0]).mul(powers[1]);
        any_below(self |b: f32) -> bool = {
            let [low, high] = self.0.map(|x| vcltq_f32(x, vdupq_n_f32(b)));
            vmaxvq_u32(vorrq_u32(low, high)) != 0
        };
        with_sign_of(self |x: Self) -> Self =
            self.with(x, |a, x| vbslq_f32(vdupq_n_u32(1 << 31), x, a));
        no_sums() -> [float64x2_t; 4] = [vdupq_n_f64(0.0); 4];
        add_to(self |sums: [float64x2_t; 4]) -> [float64x2_t; 4] = {
            let [a, b, c, d] = doubles(self);
            [vaddq_f64(sums[0], a), vaddq_f64(sums[1], b), vaddq_f64(sums[2], c), vaddq_f64(sums[3], d)]
        };
        add_product_to(self |b: Self |sums: [float64x2_t; 4]) -> [float64x2_t; 4] = {
            let (x, y) = (doubles(self), doubles(b));
            std::array::from_fn(|i| vfmaq_f64(sums[i], x[i], y[i]))
        };
        total(|sums: [float64x2_t; 4]) -> f64 = {
            let two = vaddq_f64(vaddq_f64(sums[0], sums[2]), vaddq_f64(sums[1], sums[3]));
            vaddvq_f64(two)
        };
        if_less(self |b: Self |then: Self |otherwise: Self) -> Self =
            Self(std::array::from_fn(|i| vbslq_f32(vcltq_f32(self.0[i], b.0[i]), then.0[i], otherwise.0[i])));
        swap_pairs(self) -> Self = self.each(|x| vrev64q_f32(x));
        sum(self) -> f32 = {
            let four = vaddq_f32(self.0[0], self.0[1]);
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vaddv_f32(two)
        };
        sum4(|v: [Self; 4]) -> [f32; 4] = {
            let half = |i: usize| {
                let [a, b, c, d] = v.map(|v| v.0[i]);
                let ab = vaddq_f32(pairs!(vtrn1q_f64, a, b), pairs!(vtrn2q_f64, a, b));
                let cd = vaddq_f32(pairs!(vtrn1q_f64, c, d), pairs!(vtrn2q_f64, c, d));
                vpaddq_f32(ab, cd)
            };
            let mut all = [0.0; 4];
            vst1q_f32(all.as_mut_ptr(), vaddq_f32(half(0), half(1)));
            all
        };
        top(self) -> f32 = vmaxnmvq_f32(vmaxnmq_f32(self.0[0], self.0[1]));
        transpose(|src: *const f32 |src_stride: usize |dst: *mut f32 |dst_stride: usize) = {
            for (r, c) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
                let row = |i: usize| vld1q_f32(src.add((r + i) * src_stride + c));
                for (i, x) in transpose_4([row(0), row(1), row(2), row(3)]).into_iter().enumerate() {
                    vst1q_f32(dst.add((c + i) * dst_stride + r), x);
                }
            }
        };
    }
}

/// The power of two whose exponent is in the last bits of a sum with [`WITH_POWER`].
#[inline(always)]
unsafe fn shifted(sum: float32x4_t) -> float32x4_t {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(sum))) }
}

/// The lanes in double precision.
#[inline(always)]
unsafe fn doubles(x: Neon) -> [float64x2_t; 4] {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe {
        let [a, b] = x.0;
        [vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a), vcvt_f64_f32(vget_low_f32(b)), vcvt_high_f64_f32(b)]
    }
}

impl Coder for Neon {
    type Codes = [int32x4_t; 2];
    methods! {
        magnitude(self) -> Self = self.each(|x| vabsq_f32(x));
        equal(self |b: Self) -> u32 = bits([vceqq_f32(self.0[0], b.0[0]), vceqq_f32(self.0[1], b.0[1])]);
        bottom(self) -> f32 = vminvq_f32(vminq_f32(self.0[0], self.0[1]));
        codes(self |cap: i32) -> [int32x4_t; 2] = self.0.map(|x| {
            // The conversion gives the greatest integer for what is too large.
            let too_large = vreinterpretq_s32_u32(vcgeq_f32(x, vdupq_n_f32(-(i32::MIN as f32))));
            vminq_s32(vbicq_s32(vcvtq_s32_f32(x), too_large), vdupq_n_s32(cap))
        });
        fifth_bits(|codes: [int32x4_t; 2]) -> u32 =
            bits(codes.map(|codes| vtstq_s32(codes, vdupq_n_s32(16))));
        greatest(|x: *const f32) -> f32 = {
            let mut top = vdupq_n_u32(0);
            for i in 0..8 {
                let x = vreinterpretq_u32_f32(vld1q_f32(x.add(4 * i)));
                top = vmaxq_u32(top, vandq_u32(x, vdupq_n_u32(u32::MAX >> 1)));
            }
            f32::from_bits(vmaxvq_u32(top))
        };
        levels(|x: *const f32 |factor: f32 |p: *mut i8) = {
            // The low bits of the sum are the integer.
            let four = |i: usize| {
                let sum = vaddq_f32(vmulq_f32(vld1q_f32(x.add(4 * i)), vdupq_n_f32(factor)), vdupq_n_f32(MAGIC));
                vmovn_u32(vreinterpretq_u32_f32(sum))
            };
            let eight = |i: usize| vmovn_u16(vcombine_u16(four(i), four(i + 1)));
            vst1q_u8(p.cast(), vcombine_u8(eight(0), eight(2)));
            vst1q_u8(p.cast::<u8>().add(16), vcombine_u8(eight(4), eight(6)));
        };
        store_nibbles(|low: [int32x4_t; 2] |high: [int32x4_t; 2] |p: *mut u8) = {
            let bytes = |codes: [int32x4_t; 2]| {
                let [a, b] = codes.map(|codes| vmovn_u32(vreinterpretq_u32_s32(codes)));
                vand_u8(vmovn_u16(vcombine_u16(a, b)), vdup_n_u8(15))
            };
            vst1_u8(p, vorr_u8(bytes(low), vshl_n_u8::<4>(bytes(high))));
        };
    }
}

/// Eight integers in two registers, for sorting.
#[derive(Clone, Copy)]
pub struct NeonRanks([int32x4_t; 2]);

impl NeonRanks {
    /// Minus one for each lane where `a` is less than `b`.
    #[inline(always)]
    fn less(a: Self, b: Self) -> [int32x4_t; 2] {
        // SAFETY: every 64-bit ARM has these instructions.
        std::array::from_fn(|i| unsafe { vreinterpretq_s32_u32(vcltq_s32(a.0[i], b.0[i])) })
    }
}

impl Ranks for NeonRanks {
    const N: usize = 8;
    methods! {
        splat(|x: i32) -> Self = Self([vdupq_n_s32(x); 2]);
        load(|p: *const i32) -> Self = Self([vld1q_s32(p), vld1q_s32(p.add(4))]);
        store(self |p: *mut i32) = {
            vst1q_s32(p, self.0[0]);
            vst1q_s32(p.add(4), self.0[1]);
        };
        count_less(self |a: Self |b: Self) -> Self = {
            let less = Self::less(a, b);
            Self([vsubq_s32(self.0[0], less[0]), vsubq_s32(self.0[1], less[1])])
        };
        discount_less(self |a: Self |b: Self) -> Self = {
            let less = Self::less(a, b);
            Self([vaddq_s32(self.0[0], less[0]), vaddq_s32(self.0[1], less[1])])
        };
    }
}
