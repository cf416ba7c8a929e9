//! Q4_0: 32 four-bit values, symmetric. 4.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted, nibbles};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{extreme, importance_weights, symmetric, truncate};

/// One block: `x[i] = d * (q[i] - 8)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ4_0 {
    /// Scale, a half.
    pub d: u16,
    /// Byte `i` holds value `i` (low four bits) and value `i + 16` (high four bits).
    pub qs: [u8; 16],
}

impl Check for BlockQ4_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ4_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, q) in y.iter_mut().zip(nibbles(&self.qs)) {
            *y = f32::from(q as i8 - 8) * d;
        }
    }
}

impl Encode for BlockQ4_0 {
    fn encode(x: &[f32]) -> Self {
        // The extreme value gets the level -8: there are more negative levels than positive ones.
        let d = extreme(x).0 / -8.0;
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        let level = |v: f32| (truncate(v * inverse + 8.5) as i8).min(15) as u8;
        let (low, high) = x.split_at(16);
        Self { d: f32_to_f16(d), qs: std::array::from_fn(|i| level(low[i]) | level(high[i]) << 4) }
    }
}

impl EncodeWeighted for BlockQ4_0 {
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self {
        let (mut weights, mut levels) = ([0.0; 32], [0; 32]);
        importance_weights(&mut weights, x, importance, row_mean_square);
        let d = symmetric(8, x, &mut levels, Some(&weights));
        Self { d: f32_to_f16(d), qs: std::array::from_fn(|i| levels[i] as u8 | (levels[i + 16] as u8) << 4) }
    }
}
