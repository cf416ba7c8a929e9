//! Q4_1: 32 four-bit values with an offset. 5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted, nibbles};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{Affine, affine, importance_weights, truncate};

/// One block: `x[i] = d * q[i] + m`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ4_1 {
    /// Scale, a half.
    pub d: u16,
    /// Offset (the least value), a half.
    pub m: u16,
    /// Byte `i` holds value `i` (low four bits) and value `i + 16` (high four bits).
    pub qs: [u8; 16],
}

impl Check for BlockQ4_1 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d).or(half(self.m))
    }
}

impl Decode for BlockQ4_1 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let (d, m) = (f16_to_f32(self.d), f16_to_f32(self.m));
        for (y, q) in y.iter_mut().zip(nibbles(&self.qs)) {
            *y = f32::from(q) * d + m;
        }
    }
}

/// Scale and offset that map [0, levels] to the range of the values: `(d, 1 / d, min)`.
pub(super) fn full_range(x: &[f32], levels: f32) -> (f32, f32, f32) {
    let (mut min, mut max) = (f32::MAX, -f32::MAX);
    for &v in x {
        if v < min {
            min = v;
        }
        if v > max {
            max = v;
        }
    }
    let d = (max - min) / levels;
    (d, if d != 0.0 { 1.0 / d } else { 0.0 }, min)
}

impl Encode for BlockQ4_1 {
    fn encode(x: &[f32]) -> Self {
        let (d, inverse, min) = full_range(x, 15.0);
        let level = |v: f32| (truncate((v - min) * inverse + 0.5) as i8).min(15) as u8;
        let (low, high) = x.split_at(16);
        let qs = std::array::from_fn(|i| level(low[i]) | level(high[i]) << 4);
        Self { d: f32_to_f16(d), m: f32_to_f16(min), qs }
    }
}

/// Search parameters of the weighted encoders of Q4_1, Q5_1 and the K formats.
pub(super) const fn weighted_search(n: i32) -> Affine {
    Affine { n, start: -0.9, step: 0.05, steps: 36, absolute: false, bound_first: true }
}

impl EncodeWeighted for BlockQ4_1 {
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self {
        let (mut weights, mut levels) = ([0.0; 32], [0; 32]);
        importance_weights(&mut weights, x, importance, row_mean_square);
        let (d, min) = affine(weighted_search(15), x, &weights, &mut levels);
        let qs = std::array::from_fn(|i| levels[i] | levels[i + 16] << 4);
        Self { d: f32_to_f16(d), m: f32_to_f16(-min), qs }
    }
}
