//! Eight lanes for the float kernels and the block kernels, with the vectors of 64-bit ARM: two registers are a vector,
//! so that every sum has the order of additions that it has with AVX2, and the same bits.

use crate::cpu::simd::act::MAGIC;
use crate::cpu::simd::argsort::Ranks;
use crate::cpu::simd::convert::{self, Coder};
use crate::cpu::simd::group::{self, Groups, VECTORS};
use crate::cpu::simd::lanes::{AnyDots, DOWN, Dots, Lanes, WITH_POWER, methods};
use crate::cpu::simd::words::Words;
use std::arch::aarch64::*;
use std::arch::asm;

/// Eight floats in two registers.
#[derive(Clone, Copy)]
pub struct Neon([float32x4_t; 2]);

/// The floats of four halves.
#[inline(always)]
fn from_halves(halves: uint16x4_t) -> float32x4_t {
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
unsafe fn transpose_4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
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

/// Eight integers in two registers. `DOT`: the processor has instructions for dot products of bytes.
#[derive(Clone, Copy)]
pub struct NeonDots<const DOT: bool>([int32x4_t; 2]);

/// `v` with the bits of `mask` from `b`. The compiler makes two instructions of its own function for this where it knows
/// that the bits of `v` are clear.
#[inline(always)]
pub fn insert(mut v: int32x4_t, b: int32x4_t, mask: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction changes one register, and every 64-bit ARM has it.
    unsafe {
        asm!("bit {0:v}.16b, {1:v}.16b, {2:v}.16b", inout(vreg) v, in(vreg) b, in(vreg) mask,
            options(pure, nomem, nostack, preserves_flags))
    };
    v
}

/// `sums` plus the products of four bytes each, which the compiler has no stable function for.
///
/// # Safety
/// The processor has the instruction (`dotprod`).
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot(mut sums: int32x4_t, w: int32x4_t, a: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction changes one register. The caller promises that the processor has it.
    unsafe {
        asm!("sdot {0:v}.4s, {1:v}.16b, {2:v}.16b", inout(vreg) sums, in(vreg) w, in(vreg) a,
            options(pure, nomem, nostack, preserves_flags))
    };
    sums
}

/// `sums` plus the products of four bytes each and those of word `J` of `a`.
///
/// # Safety
/// As for [`dot`].
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot_lane<const J: usize>(mut sums: int32x4_t, w: int32x4_t, a: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction changes one register. The caller promises that the processor has it.
    unsafe {
        asm!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[{3}]", inout(vreg) sums, in(vreg) w, in(vreg) a, const J,
            options(pure, nomem, nostack, preserves_flags))
    };
    sums
}

/// As [`dot`] without the instruction. The sum of two products of at most 128 * 127 fits into 16 bits.
#[inline(always)]
unsafe fn dot_by_pairs(sums: int32x4_t, w: int32x4_t, a: int32x4_t) -> int32x4_t {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe {
        let (w, a) = (vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(a));
        let (low, high) = (vmull_s8(vget_low_s8(w), vget_low_s8(a)), vmull_high_s8(w, a));
        vpadalq_s16(sums, vpaddq_s16(low, high))
    }
}

/// `sums` plus the products of 16 bytes by four: with the instruction for it if `DOT`.
///
/// # Safety
/// The processor has the instruction if `DOT`. No `a` is -128 if not.
#[inline(always)]
pub unsafe fn dot_16<const DOT: bool>(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: the caller promises the instruction.
    unsafe {
        let (w, a) = (vreinterpretq_s32_s8(w), vreinterpretq_s32_s8(a));
        if DOT { dot(sums, w, a) } else { dot_by_pairs(sums, w, a) }
    }
}

impl<const DOT: bool> NeonDots<DOT> {
    /// Two registers.
    #[inline(always)]
    pub fn of(registers: [int32x4_t; 2]) -> Self {
        Self(registers)
    }
    #[inline(always)]
    fn each(self, f: impl Fn(int32x4_t) -> int32x4_t) -> Self {
        Self(self.0.map(f))
    }
    #[inline(always)]
    fn with(self, b: Self, f: impl Fn(int32x4_t, int32x4_t) -> int32x4_t) -> Self {
        Self([f(self.0[0], b.0[0]), f(self.0[1], b.0[1])])
    }
    /// Byte by byte.
    #[inline(always)]
    fn bytes(self, b: Self, f: impl Fn(uint8x16_t, uint8x16_t) -> uint8x16_t) -> Self {
        // SAFETY: every 64-bit ARM has these instructions.
        self.with(b, |a, b| unsafe { vreinterpretq_s32_u8(f(vreinterpretq_u8_s32(a), vreinterpretq_u8_s32(b))) })
    }
}

impl<const DOT: bool> Dots for NeonDots<DOT> {
    type Floats = Neon;
    const FLIP: u8 = 0;
    methods! {
        splat(|x: i32) -> Self = Self([vdupq_n_s32(x); 2]);
        load(|p: *const u8) -> Self = Self([vld1q_s32(p.cast()), vld1q_s32(p.add(16).cast())]);
        // Without a closure, into which the compiler might not put the instruction.
        dot4(self |w: Self |a: Self) -> Self = match DOT {
            true => Self([dot(self.0[0], w.0[0], a.0[0]), dot(self.0[1], w.0[1], a.0[1])]),
            false => Self([dot_by_pairs(self.0[0], w.0[0], a.0[0]), dot_by_pairs(self.0[1], w.0[1], a.0[1])]),
        };
        to_floats(self) -> Neon = Neon(self.0.map(|x| vcvtq_f32_s32(x)));
        quantize(|x: *const f32) -> (f32, [i8; 32], [i32; 2]) = {
            let (scale, q) = convert::levels::<Neon>(x);
            let half = |i: usize| i32::from(vaddlvq_s8(vld1q_s8(q.as_ptr().add(16 * i))));
            let sums = [half(0), half(1)];
            (scale, q, sums)
        };
        add(self |b: Self) -> Self = self.with(b, |a, b| vaddq_s32(a, b));
        signed_right(self |n: i32) -> Self = self.each(|x| vshlq_s32(x, vdupq_n_s32(-n)));
    }
}

impl<const DOT: bool> Groups for NeonDots<DOT> {
    #[inline(always)]
    unsafe fn strip_group<const N: usize>(start: Self, w: [Self; N], a: *const u8, bits: u32) -> Self {
        // SAFETY: the caller promises the activations, and the instruction if `DOT`.
        unsafe {
            if !DOT {
                return group::strip(start, w, a, bits);
            }
            let mut sums = start;
            for (i, w) in w.as_chunks::<4>().0.iter().enumerate() {
                sums = dot_four(sums, w, vld1q_s32(a.add(16 * i).cast()));
            }
            sums
        }
    }
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // the loops index several arrays
    unsafe fn panel_group<const C: usize, const GROUP: usize>(
        q: *const u8,
        acts: [*const u8; C],
        start: impl Fn(usize) -> Self,
        bits: u32,
    ) -> [[Self; VECTORS]; C] {
        // SAFETY: the caller promises the weights, the activations, and the instruction if `DOT`.
        unsafe {
            if !DOT {
                return group::panel::<Self, C, GROUP>(q, acts, start, bits);
            }
            let mut sums: [[Self; VECTORS]; C] = std::array::from_fn(|c| [start(c); VECTORS]);
            for i in 0..GROUP / 16 {
                let a = acts.map(|a| vld1q_s32(a.add(16 * i).cast()));
                macro_rules! word {
                    ($($j:literal)*) => {$(
                        for r in 0..VECTORS {
                            let w = Self::load(q.add(32 * (VECTORS * (4 * i + $j) + r)));
                            for c in 0..C {
                                sums[c][r] = dot_word::<$j, DOT>(sums[c][r], w, a[c]);
                            }
                        }
                    )*};
                }
                word!(0 1 2 3);
            }
            sums
        }
    }
}

/// `sums` plus the products of `w` and word `J` of the activations.
///
/// # Safety
/// The processor has dot products of bytes.
#[inline(always)]
unsafe fn dot_word<const J: usize, const DOT: bool>(
    sums: NeonDots<DOT>,
    w: NeonDots<DOT>,
    a: int32x4_t,
) -> NeonDots<DOT> {
    // SAFETY: the caller promises the instruction.
    NeonDots(unsafe { [dot_lane::<J>(sums.0[0], w.0[0], a), dot_lane::<J>(sums.0[1], w.0[1], a)] })
}

/// `sums` plus the products of four vectors and the words of the activations.
///
/// # Safety
/// The processor has dot products of bytes.
#[inline(always)]
unsafe fn dot_four<const DOT: bool>(sums: NeonDots<DOT>, w: &[NeonDots<DOT>; 4], a: int32x4_t) -> NeonDots<DOT> {
    // SAFETY: forwarded to the caller.
    unsafe {
        let two = dot_word::<1, DOT>(dot_word::<0, DOT>(sums, w[0], a), w[1], a);
        dot_word::<3, DOT>(dot_word::<2, DOT>(two, w[2], a), w[3], a)
    }
}

impl<const DOT: bool> AnyDots for NeonDots<DOT> {
    methods! {
        // The instruction for dot products is right for all bytes.
        least(self |a: Self) -> Self = if DOT { self } else {
            self.bytes(a, |a, b| vreinterpretq_u8_s8(vminq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b))))
        };
        has_least(self) -> bool = !DOT && {
            let least = self.0.map(|x| vceqq_u8(vreinterpretq_u8_s32(x), vdupq_n_u8(0x80)));
            vmaxvq_u8(vorrq_u8(least[0], least[1])) != 0
        };
        totals(self) -> (i32, [i32; 2]) = {
            let halves = self.0.map(|x| vaddvq_s32(x));
            (halves[0].wrapping_add(halves[1]), halves)
        };
    }
}

impl<const DOT: bool> Words for NeonDots<DOT> {
    methods! {
        store(self |p: *mut u8) = {
            vst1q_s32(p.cast(), self.0[0]);
            vst1q_s32(p.add(16).cast(), self.0[1]);
        };
        load_bytes(|p: *const u8) -> Self = {
            let all = vmovl_u8(vld1_u8(p));
            Self([vmovl_u16(vget_low_u16(all)), vmovl_high_u16(all)].map(|x| vreinterpretq_s32_u32(x)))
        };
        and(self |b: Self) -> Self = self.with(b, |a, b| vandq_s32(a, b));
        or(self |b: Self) -> Self = self.with(b, |a, b| vorrq_s32(a, b));
        xor(self |b: Self) -> Self = self.with(b, |a, b| veorq_s32(a, b));
        left(self |n: i32) -> Self = self.each(|x| vshlq_s32(x, vdupq_n_s32(n)));
        right(self |n: i32) -> Self =
            self.each(|x| vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-n))));
        insert(self |b: Self |mask: Self) -> Self =
            Self([insert(self.0[0], b.0[0], mask.0[0]), insert(self.0[1], b.0[1], mask.0[1])]);
        high_nibbles(self) -> Self =
            self.each(|x| vreinterpretq_s32_u8(vshrq_n_u8::<4>(vreinterpretq_u8_s32(x))));
        add_bytes(self |b: Self) -> Self = self.bytes(b, |a, b| vaddq_u8(a, b));
        repeat_byte(self |i: usize) -> Self = {
            let first = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12u8];
            let at = vaddq_u8(vld1q_u8(first.as_ptr()), vdupq_n_u8(i as u8));
            self.each(|x| vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(x), at)))
        };
        join(self |flags: Self |mask: Self |bit: u8) -> Self = {
            let set = flags.bytes(mask, |flags, mask| vandq_u8(vtstq_u8(flags, mask), vdupq_n_u8(bit)));
            self.or(set)
        };
        look_up(self |values: &[i8; 16]) -> Self = {
            let table = vld1q_s8(values.as_ptr());
            self.each(|codes| vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(codes))))
        };
        replace(self |keys: Self |key: i32 |value: i32) -> Self =
            self.with(keys, |x, keys| vbslq_s32(vceqq_s32(keys, vdupq_n_s32(key)), vdupq_n_s32(value), x));
        low_halves(self) -> Neon = Neon(self.0.map(|x| from_halves(vmovn_u32(vreinterpretq_u32_s32(x)))));
        as_floats(self) -> Neon = Neon(self.0.map(|x| vreinterpretq_f32_s32(x)));
        interleave_4(|rows: *const *const u8 |at: usize |dst: *mut u8) = {
            for half in 0..2 {
                let row = |r: usize| vld1q_f32(rows.add(4 * half + r).read().add(at).cast());
                for (w, x) in transpose_4([row(0), row(1), row(2), row(3)]).into_iter().enumerate() {
                    vst1q_f32(dst.add(32 * w + 16 * half).cast(), x);
                }
            }
        };
    }
}
