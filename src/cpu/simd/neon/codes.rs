//! How matrix times column on 64-bit ARM unpacks the formats whose values are bits or codes of tables.

use super::dots;
use super::gemv::{Codes, Rows8, Small, Super, Values, halves};
use super::lanes::Neon;
use crate::cpu::simd::gemv::{formats, with_simd};
use crate::cpu::simd::interleave::formats as interleaved;
use crate::cpu::simd::lanes::Lanes;
use crate::quant::{iq4_nl::CURVE, mxfp4::FP4_DOUBLED};
use std::arch::aarch64::*;

/// 32 bytes of a row.
type Bytes = [uint8x16_t; 2];

with_simd! {
    unsafe fn load(x: *const u8) -> Bytes {
        [vld1q_u8(x), vld1q_u8(x.add(16))]
    }
    unsafe fn signed(v: Bytes) -> Values {
        v.map(|v| vreinterpretq_s8_u8(v))
    }
    unsafe fn low(v: Bytes) -> Bytes {
        and(v, 15)
    }
    unsafe fn high(v: Bytes) -> Bytes {
        v.map(|v| vshrq_n_u8::<4>(v))
    }
    unsafe fn and(v: Bytes, mask: u8) -> Bytes {
        v.map(|v| vandq_u8(v, vdupq_n_u8(mask)))
    }
    unsafe fn or(a: Bytes, b: Bytes) -> Bytes {
        [vorrq_u8(a[0], b[0]), vorrq_u8(a[1], b[1])]
    }
    unsafe fn right<const N: i32>(v: Bytes) -> Bytes {
        v.map(|v| vshrq_n_u8::<N>(v))
    }
    unsafe fn left<const N: i32>(v: Bytes) -> Bytes {
        v.map(|v| vshlq_n_u8::<N>(v))
    }
    // The nibbles of 16 bytes: low ones first.
    // Sets the bits of `mask`, which are clear in `v`, as they are in `b`.
    unsafe fn insert(v: Bytes, b: Bytes, mask: u8) -> Bytes {
        let mask = vreinterpretq_s32_u8(vdupq_n_u8(mask));
        let one = |v: uint8x16_t, b: uint8x16_t| {
            vreinterpretq_u8_s32(dots::insert(vreinterpretq_s32_u8(v), vreinterpretq_s32_u8(b), mask))
        };
        [one(v[0], b[0]), one(v[1], b[1])]
    }
    unsafe fn nibbles(x: *const u8) -> Bytes {
        let v = vld1q_u8(x);
        [vandq_u8(v, vdupq_n_u8(15)), vshrq_n_u8::<4>(v)]
    }
    unsafe fn look_up(values: &[i8; 16], codes: Bytes) -> Values {
        let table = vld1q_s8(values.as_ptr());
        codes.map(|codes| vqtbl1q_s8(table, codes))
    }
    // Sets `bit` in the bytes of `v` where `flags` has the bit of `mask`.
    unsafe fn join(v: Bytes, flags: Bytes, mask: u8, bit: u8) -> Bytes {
        or(v, flags.map(|flags| vandq_u8(vtstq_u8(flags, vdupq_n_u8(mask)), vdupq_n_u8(bit))))
    }
    // Fifth bits in four bytes at `x`, for the values of `v`.
    unsafe fn five_bits(v: Bytes, x: *const u8) -> Bytes {
        let bits = vreinterpretq_u8_u32(vdupq_n_u32(x.cast::<u32>().read_unaligned()));
        let masks = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let first = vld1q_u8([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1u8].as_ptr());
        let flags = [first, vaddq_u8(first, vdupq_n_u8(2))].map(|at| vtstq_u8(vqtbl1q_u8(bits, at), masks));
        or(v, and(flags, 16))
    }
    // Two bits of each byte of 32 bytes: those of groups 2 * (J % 2) and the next, of four.
    unsafe fn two_bits<const J: usize>(x: *const u8) -> [Values; 2] {
        let v = load(x);
        if J.is_multiple_of(2) {
            [signed(and(v, 3)), signed(and(right::<2>(v), 3))]
        } else {
            [signed(and(right::<4>(v), 3)), signed(right::<6>(v))]
        }
    }
    unsafe fn no_offset(scale: Neon) -> (Neon, Neon) {
        (scale, Neon::splat(0.0))
    }
}

formats! {
    Small Q4_0 { BYTES: usize = 18, BIAS: i32 = 8 } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { no_offset(halves(x, 0)) }
        unsafe fn codes(x: *const u8) -> Values { signed(nibbles(x.add(2))) }
    }
    Small Q4_1 { BYTES: usize = 20, OFFSETS: bool = true } "Halves at 0 and 2, values at 4." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(x: *const u8) -> Values { signed(nibbles(x.add(4))) }
    }
    Small Q5_0 { BYTES: usize = 22, BIAS: i32 = 16 } "A half at 0, fifth bits at 2, values at 6." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { no_offset(halves(x, 0)) }
        unsafe fn codes(x: *const u8) -> Values { signed(five_bits(nibbles(x.add(6)), x.add(2))) }
    }
    Small Q5_1 { BYTES: usize = 24, OFFSETS: bool = true } "Halves at 0 and 2, fifth bits at 4, values at 8." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { (halves(x, 0), halves(x, 2)) }
        unsafe fn codes(x: *const u8) -> Values { signed(five_bits(nibbles(x.add(8)), x.add(4))) }
    }
    Small Q8_0 { BYTES: usize = 34 } "A half at 0, values at 2." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { no_offset(halves(x, 0)) }
        unsafe fn codes(x: *const u8) -> Values { signed(load(x.add(2))) }
    }
    Small Iq4Nl { BYTES: usize = 18 } "A half at 0, codes at 2." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) { no_offset(halves(x, 0)) }
        unsafe fn codes(x: *const u8) -> Values { look_up(&CURVE, nibbles(x.add(2))) }
    }
    Small Mxfp4 { BYTES: usize = 17 } "An exponent at 0, codes at 1." {
        unsafe fn scales(x: &Rows8) -> (Neon, Neon) {
            // 2^(e - 128) has the exponent bits e - 1, except for two subnormal numbers.
            let e = x.map(|x| u32::from(x.read()));
            let power = |e: uint32x4_t| {
                let normal = vshlq_n_u32::<23>(vsubq_u32(e, vdupq_n_u32(1)));
                let tiny = vshlq_u32(vdupq_n_u32(0x0020_0000), vreinterpretq_s32_u32(e));
                vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, normal))
            };
            no_offset(Neon::of([power(vld1q_u32(e.as_ptr())), power(vld1q_u32(e.as_ptr().add(4)))]))
        }
        unsafe fn codes(x: *const u8) -> Values { look_up(&FP4_DOUBLED, nibbles(x.add(1))) }
    }
    Super Q4K, interleaved::Q4K, &[0]; { BYTES: usize = 144, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, values at 16." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            let v = load(x.add(16 + 32 * J));
            [signed(low(v)), signed(high(v))]
        }
    }
    Super Q5K, interleaved::Q5K, &[0]; { BYTES: usize = 176, OFFSETS: bool = true } "Halves at 0 and 2, packed scales at 4, fifth bits at 16, values at 48." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            let (v, h) = (load(x.add(48 + 32 * J)), load(x.add(16)));
            // Bit g of a byte is the fifth bit of a value of group g.
            [signed(join(low(v), h, 1 << (2 * J), 16)), signed(join(high(v), h, 2 << (2 * J), 16))]
        }
    }
    Super Q6K, interleaved::Q6K, &[48]; { BYTES: usize = 210, BIAS: i32 = 32, FINE: bool = true } "Low bits at 0, high bits at 128, scales at 192, a half at 208." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            let at = 64 * (J / 2);
            let (v, next, h) = (load(x.add(at)), load(x.add(at + 32)), load(x.add(128 + 32 * (J / 2))));
            // Bits 2 n and 2 n + 1 are the high bits of values 32 n.. of the half block, and move to bits 4 and 5.
            if J.is_multiple_of(2) {
                [signed(insert(low(v), left::<4>(h), 0x30)), signed(insert(low(next), left::<2>(h), 0x30))]
            } else {
                [signed(insert(high(v), h, 0x30)), signed(insert(high(next), right::<2>(h), 0x30))]
            }
        }
    }
    Super Q3K, interleaved::Q3K, &[23]; { BYTES: usize = 110, BIAS: i32 = 4, FINE: bool = true } "Third bits at 0, low bits at 32, packed scales at 96, a half at 108." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            let two = two_bits::<J>(x.add(32 + 32 * (J / 2))).map(|v| v.map(|v| vreinterpretq_u8_s8(v)));
            let third = load(x);
            // Bit g of a byte is the third bit of a value of the 32 values number g.
            [signed(join(two[0], third, 1 << (2 * J), 4)), signed(join(two[1], third, 2 << (2 * J), 4))]
        }
    }
    Super Q2K, interleaved::Q2K, &[0, 17]; { BYTES: usize = 84, FINE: bool = true, OFFSETS: bool = true } "Scales at 0, values at 16, halves at 80 and 82." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            two_bits::<J>(x.add(16 + 32 * (J / 2)))
        }
    }
    Super Tq2_0, interleaved::Tq2_0, &[]; { BYTES: usize = 66, BIAS: i32 = 1 } "Values at 0, a half at 64." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            two_bits::<J>(x.add(32 * (J / 2)))
        }
    }
    Super Iq4Xs, interleaved::Iq4Xs, &[0]; { BYTES: usize = 136 } "A half at 0, high bits of the scales at 2, low bits at 4, values at 8." {
        unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2] {
            let at = 8 + 32 * J;
            [look_up(&CURVE, nibbles(x.add(at))), look_up(&CURVE, nibbles(x.add(at + 16)))]
        }
    }
}
