//! Q5_1: 32 five-bit values with an offset. 6 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::q4_1::{full_range, weighted_search};
use super::q5_0::{pack, unpack};
use super::search::{affine, importance_weights, truncate};

/// One block: `x[i] = d * q[i] + m`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ5_1 {
    /// Scale, a half.
    pub d: u16,
    /// Offset (the least value), a half.
    pub m: u16,
    /// Fifth bits: bit `i` of this little-endian number belongs to value `i`.
    pub qh: [u8; 4],
    /// Byte `i` holds the low four bits of value `i` (low half) and of value `i + 16` (high half).
    pub qs: [u8; 16],
}

impl Check for BlockQ5_1 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d).or(half(self.m))
    }
}

impl Decode for BlockQ5_1 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let (d, m) = (f16_to_f32(self.d), f16_to_f32(self.m));
        for (y, q) in y.iter_mut().zip(unpack(self.qh, self.qs)) {
            *y = f32::from(q) * d + m;
        }
    }
}

impl Encode for BlockQ5_1 {
    fn encode(x: &[f32]) -> Self {
        let (d, inverse, min) = full_range(x, 31.0);
        let q = std::array::from_fn(|i| truncate((x[i] - min) * inverse + 0.5) as u8);
        let (qh, qs) = pack(&q);
        Self { d: f32_to_f16(d), m: f32_to_f16(min), qh, qs }
    }
}

impl EncodeWeighted for BlockQ5_1 {
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self {
        let (mut weights, mut levels) = ([0.0; 32], [0; 32]);
        importance_weights(&mut weights, x, importance, row_mean_square);
        let (d, min) = affine(weighted_search(31), x, &weights, &mut levels);
        let (qh, qs) = pack(&levels);
        Self { d: f32_to_f16(d), m: f32_to_f16(-min), qh, qs }
    }
}
