//! Eight lanes of integers for the kernels of bytes, with the vectors of 64-bit ARM, and its dot products of bytes.

use super::lanes::{Neon, from_halves, transpose_4};
use crate::cpu::simd::convert;
use crate::cpu::simd::group::{self, Groups, VECTORS};
use crate::cpu::simd::lanes::{AnyDots, Dots, methods};
use crate::cpu::simd::words::Words;
use std::arch::aarch64::*;
use std::arch::asm;

/// Eight integers in two registers. `DOT`: the processor has instructions for dot products of bytes.
#[derive(Clone, Copy)]
pub struct NeonDots<const DOT: bool>([int32x4_t; 2]);

/// `v` with the bits of `mask` from `b`. The compiler has a function for this, but makes two instructions of it where
/// it knows that the bits of `v` are clear.
///
/// # Safety
/// None is needed: every 64-bit ARM has the instruction, which changes one register.
#[inline(always)]
pub unsafe fn insert(mut v: int32x4_t, b: int32x4_t, mask: int32x4_t) -> int32x4_t {
    // SAFETY: as above.
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
        to_floats(self) -> Neon = Neon::of(self.0.map(|x| vcvtq_f32_s32(x)));
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
        low_halves(self) -> Neon = Neon::of(self.0.map(|x| from_halves(vmovn_u32(vreinterpretq_u32_s32(x)))));
        as_floats(self) -> Neon = Neon::of(self.0.map(|x| vreinterpretq_f32_s32(x)));
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
