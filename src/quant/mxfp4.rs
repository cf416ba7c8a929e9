//! MXFP4: 32 four-bit floats (E2M1) and a power of two (E8M0), as in the OCP Microscaling specification 1.0, except
//! that a byte holds values `i` and `i + 16`. 4.25 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, nibbles};
use super::convert::e8m0_to_f32_half;
use super::search::{extreme, truncate};

/// One block: `x[i] = 2^(e - 128) * FP4_DOUBLED[q[i]]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockMxfp4 {
    /// Exponent, E8M0.
    pub e: u8,
    /// Byte `i` holds value `i` (low four bits) and value `i + 16` (high four bits).
    pub qs: [u8; 16],
}

/// Twice the value of each E2M1 code.
pub static FP4_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The values of the codes at a scale.
pub(super) fn scaled_codes(scale: f32) -> [f32; 16] {
    FP4_DOUBLED.map(|v| f32::from(v) * scale)
}

/// The first code whose value is nearest to `x`.
pub(super) fn nearest_code(x: f32, values: &[f32; 16]) -> u8 {
    let (mut best, mut least) = (0, (values[0] - x).abs());
    for code in 1..16 {
        let error = (values[usize::from(code)] - x).abs();
        if error < least {
            (best, least) = (code, error);
        }
    }
    best
}

impl Check for BlockMxfp4 {
    fn flaw(&self) -> Option<&'static str> {
        (self.e == 0xff).then_some("nan exponent")
    }
}

impl Decode for BlockMxfp4 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = e8m0_to_f32_half(self.e);
        let values = nibbles(&self.qs).map(|q| FP4_DOUBLED[usize::from(q)]);
        for (y, value) in y.iter_mut().zip(values) {
            *y = f32::from(value) * d;
        }
    }
}

impl Encode for BlockMxfp4 {
    fn encode(x: &[f32]) -> Self {
        let (_, top) = extreme(x);
        // The greatest value is 6, so the scale is two powers of two below the greatest magnitude.
        let e = if top > 0.0 { truncate(top.log2().floor() - 2.0 + 127.0) as u8 } else { 0 };
        // Exponents of numbers below 2^-125 wrap, as in the original: they become zero. -1 would become NaN.
        let e = if e == u8::MAX { 0 } else { e };
        let values = scaled_codes(e8m0_to_f32_half(e));
        let (low, high) = x.split_at(16);
        Self { e, qs: std::array::from_fn(|i| nearest_code(low[i], &values) | nearest_code(high[i], &values) << 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every magnitude give blocks without NaN.
    #[test]
    fn no_magnitude_becomes_nan() {
        for exponent in 0..255u32 {
            let x = [f32::from_bits(exponent << 23 | 0x7f_0000); 32];
            let block = BlockMxfp4::encode(&x);
            assert!(block.e != u8::MAX, "{:e}", x[0]);
            let mut y = [0.0; 32];
            block.decode(&mut y);
            assert!(y.iter().all(|y| y.is_finite()), "{:e}: {:e}", x[0], y[0]);
        }
    }
}
