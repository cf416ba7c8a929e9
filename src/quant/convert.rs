//! Small floating-point formats: IEEE half, bfloat16, E4M3, E8M0 and UE4M3, one value or one row at a time.
//!
//! A half is stored as its 16 bits (`u16`), as in the C interface. Conversions round to nearest, ties to even. A NaN
//! loses its payload in a half (`0x7e00` with the sign) unless a function says otherwise, and keeps its upper bits in a
//! bfloat16, made quiet.
#![forbid(unsafe_code)]

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

/// Value of the half with these bits, without branches, so that loops over it vectorise. A NaN becomes quiet.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    // After the shift, the exponent is 112 too small. A multiplication corrects it, also for subnormal numbers.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((112 + 127) << 23);
    let special = magnitude << 13 | 0x7f80_0000 | if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
    let value = if magnitude >= 0x7c00 { special } else { scaled.to_bits() };
    f32::from_bits(value | u32::from(bits & 0x8000) << 16)
}

/// Bits of the half nearest to `x`.
#[inline]
pub fn f32_to_f16(x: f32) -> u16 {
    if x.is_nan() { nan_to_f16(x) } else { f16::from_f32(x).to_bits() }
}

/// Bits of the half nearest to `x`, as processors convert: a NaN becomes quiet and keeps the upper bits of its payload.
/// The CPU backend's kernels, like those of the original, give these bits; formats in files those of [`f32_to_f16`].
#[inline]
pub fn f32_to_f16_with_payload(x: f32) -> u16 {
    f16::from_f32(x).to_bits()
}

fn nan_to_f16(x: f32) -> u16 {
    (x.to_bits() >> 16) as u16 & 0x8000 | 0x7e00
}

/// Value of the bfloat16 with these bits.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Bits of the bfloat16 nearest to `x`, without branches, so that loops over it vectorise.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    // Half a unit of the kept part, less one bit if that part is even, so that a tie rounds to even.
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// Halves to floats; as many as the shorter slice holds.
pub fn f16_to_f32_row(x: &[u16], y: &mut [f32]) {
    let n = x.len().min(y.len());
    x[..n].reinterpret_cast::<f16>().convert_to_f32_slice(&mut y[..n]);
}

/// Floats to halves; as many as the shorter slice holds.
pub fn f32_to_f16_row(x: &[f32], y: &mut [u16]) {
    let n = x.len().min(y.len());
    for (x, y) in x[..n].chunks(64).zip(y[..n].chunks_mut(64)) {
        y.reinterpret_cast_mut::<f16>().convert_from_f32_slice(x);
        if x.iter().any(|v| v.is_nan()) {
            for (x, y) in x.iter().zip(y).filter(|(x, _)| x.is_nan()) {
                *y = nan_to_f16(*x);
            }
        }
    }
}

/// Bfloat16s to floats; as many as the shorter slice holds.
pub fn bf16_to_f32_row(x: &[u16], y: &mut [f32]) {
    for (x, y) in x.iter().zip(y) {
        *y = bf16_to_f32(*x);
    }
}

/// Floats to bfloat16s; as many as the shorter slice holds.
pub fn f32_to_bf16_row(x: &[f32], y: &mut [u16]) {
    for (x, y) in x.iter().zip(y) {
        *y = f32_to_bf16(*x);
    }
}

/// Half of the value of an E8M0 exponent: 2^(e-128). Half, because the table of FP4 values of MXFP4 has them doubled.
#[inline]
pub fn e8m0_to_f32_half(e: u8) -> f32 {
    // Exponents 0 and 1 give subnormal floats.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

/// Half of the value of an unsigned E4M3 number (bias 7). Half, because the table of FP4 values of NVFP4 has them
/// doubled. Bit 7 is ignored, and `0x7f` (NaN) is zero.
#[inline]
pub fn ue4m3_to_f32_half(x: u8) -> f32 {
    if x == 0x7f {
        return 0.0;
    }
    let (exponent, fraction) = (u32::from(x >> 3 & 15), u32::from(x & 7));
    if exponent == 0 {
        // Multiples of 2^-9, halved.
        return fraction as f32 * f32::from_bits((127 - 10) << 23);
    }
    f32::from_bits((exponent + 127 - 7 - 1) << 23 | fraction << 20)
}

/// The unsigned E4M3 number for `x` in NVFP4 files: rounded with ties away from zero, at most 448, and zero unless `x`
/// is positive.
pub fn f32_to_ue4m3(x: f32) -> u8 {
    if x.is_nan() || x <= 0.0 {
        return 0;
    }
    let x = x.min(448.0);
    let bits = x.to_bits();
    let exponent = (bits >> 23) as i32 - 127 + 7;
    if exponent <= 0 {
        return ((x * 512.0 + 0.5) as i32).min(7) as u8;
    }
    // Exponent and fraction are one number here, so that rounding up the fraction may carry into the exponent.
    let code = (exponent << 3) as u32 + (bits >> 20 & 7) + (bits >> 19 & 1);
    if code >= 15 << 3 { 0x7e } else { code as u8 }
}

/// Value of an E4M3 float (OCP FP8, revision 1.1): bias 7, no infinity, and NaN if all exponent and fraction bits are
/// set.
#[inline]
pub fn f8_e4m3_to_f32(x: u8) -> f32 {
    let magnitude = u32::from(x & 0x7f);
    if magnitude == 0x7f {
        return f32::NAN;
    }
    // After the shift, the exponent is 120 too small. A multiplication corrects it, also for subnormal numbers.
    let value = f32::from_bits(magnitude << 20) * f32::from_bits((120 + 127) << 23);
    f32::from_bits(value.to_bits() | u32::from(x & 0x80) << 24)
}

/// The E4M3 float nearest to `x`, ties to even. Larger magnitudes and infinities become 448, and NaN becomes `0x7f`.
#[inline]
pub fn f32_to_f8_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    let x = x.abs();
    let magnitude = if x < 0.015625 {
        // The results are multiples of 2^-9, the unit in the last place of floats from 2^14: the addition rounds to it.
        (x + 16384.0).to_bits() & 15
    } else {
        let bits = x.min(448.0).to_bits();
        ((bits + 0x7_ffff + (bits >> 20 & 1)) >> 20) - (120 << 3)
    };
    sign | magnitude as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_e4m3_survives_the_way_to_float_and_back() {
        let known =
            [(0x00, 0.0), (0x01, 0.001953125), (0x07, 0.013671875), (0x08, 0.015625), (0x38, 1.0), (0x7e, 448.0)];
        for (bits, value) in known {
            assert_eq!((f8_e4m3_to_f32(bits), f8_e4m3_to_f32(bits | 0x80)), (value, -value));
        }
        for bits in 0..=u8::MAX {
            let x = f8_e4m3_to_f32(bits);
            let back = f32_to_f8_e4m3(x);
            assert_eq!(back, if x.is_nan() { 0x7f } else { bits });
        }
        assert_eq!(f8_e4m3_to_f32(0x80).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn e4m3_rounds_to_nearest_even_and_saturates() {
        for code in 0..0x7e {
            let (low, high) = (f8_e4m3_to_f32(code), f8_e4m3_to_f32(code + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(f32_to_f8_e4m3(middle), code + code % 2, "{middle}");
            assert_eq!(f32_to_f8_e4m3(middle.next_down()), code);
            assert_eq!(f32_to_f8_e4m3(middle.next_up()), code + 1);
        }
        for x in [448.0, 464.0, 465.0, 1e30, f32::INFINITY] {
            assert_eq!((f32_to_f8_e4m3(x), f32_to_f8_e4m3(-x)), (0x7e, 0xfe));
        }
        assert_eq!((f32_to_f8_e4m3(1e-40), f32_to_f8_e4m3(-1e-40)), (0, 0x80));
        assert_eq!((f32_to_f8_e4m3(f32::NAN), f32_to_f8_e4m3(-f32::NAN)), (0x7f, 0x7f));
    }

    #[test]
    fn every_half_survives_the_way_to_float_and_back() {
        for bits in 0..=u16::MAX {
            let x = f16_to_f32(bits);
            assert_eq!(x.to_bits(), f16::from_bits(bits).to_f32().to_bits());
            let (back, with_payload) = (f32_to_f16(x), f32_to_f16_with_payload(x));
            if x.is_nan() {
                assert_eq!((back, with_payload), (bits & 0x8000 | 0x7e00, bits | 0x200));
            } else {
                assert_eq!((back, with_payload), (bits, bits));
            }
        }
    }

    #[test]
    fn rows_equal_single_values() {
        let x: Vec<f32> =
            (0..1000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9))).chain([f32::NAN, -f32::NAN]).collect();
        let mut y = vec![0; x.len()];
        f32_to_f16_row(&x, &mut y);
        assert!(x.iter().zip(&y).all(|(x, y)| f32_to_f16(*x) == *y));
        f32_to_bf16_row(&x, &mut y);
        assert!(x.iter().zip(&y).all(|(x, y)| f32_to_bf16(*x) == *y));
        let mut back = vec![0.0; x.len()];
        bf16_to_f32_row(&y, &mut back);
        assert!(back.iter().zip(&y).all(|(x, y)| x.to_bits() == u32::from(*y) << 16));
    }

    #[test]
    fn bfloat16_rounds_ties_to_even_and_keeps_nan() {
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(f32_to_bf16(f32::from_bits(0x7f80_0001)), 0x7fc0);
        assert_eq!(f32_to_bf16(f32::INFINITY), 0x7f80);
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }

    #[test]
    fn scale_formats_cover_their_range() {
        assert_eq!(e8m0_to_f32_half(127), 0.5);
        assert_eq!(e8m0_to_f32_half(0), 0.5 * f32::MIN_POSITIVE / 2.0);
        assert_eq!(e8m0_to_f32_half(1), 0.5 * f32::MIN_POSITIVE);
        assert_eq!(ue4m3_to_f32_half(0x38), 0.5);
        assert_eq!(ue4m3_to_f32_half(0x7e), 224.0);
        assert_eq!(ue4m3_to_f32_half(0x7f), 0.0);
        for code in 1..0x78 {
            assert_eq!(f32_to_ue4m3(2.0 * ue4m3_to_f32_half(code)), code);
        }
        assert_eq!(f32_to_ue4m3(256.0), 0x7e, "the files jump from 240 to 448");
        assert_eq!(f32_to_ue4m3(1e9), 0x7e);
        assert_eq!(f32_to_ue4m3(-1.0), 0);
        assert_eq!(f32_to_ue4m3(f32::NAN), 0);
    }
}
