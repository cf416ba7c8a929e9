//! Q5_K: 256 five-bit values in 8 groups, each with a six-bit scale and a six-bit offset. 5.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::f16_to_f32;
use super::finite::half;
use super::q4_k::{Fit, scale_and_offset};
use super::search::Affine;

/// One block: `x[i] = d * scale[g] * q[i] - dmin * offset[g]` with `g = i / 32`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ5K {
    /// Scale of the scales, a half.
    pub d: u16,
    /// Scale of the offsets, a half.
    pub dmin: u16,
    /// Six-bit scales and offsets: see [`scale_and_offset`].
    pub scales: [u8; 12],
    /// Fifth bits: bit `i / 32` of byte `i % 32` belongs to value `i`.
    pub qh: [u8; 32],
    /// Four parts of 32 bytes for 64 values each: byte `m` holds the low four bits of value `m` (low half) and `32 + m`
    /// (high half) of the part.
    pub qs: [u8; 128],
}

impl Check for BlockQ5K {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d).or(half(self.dmin))
    }
}

impl Decode for BlockQ5K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (g, y) in y.chunks_exact_mut(32).enumerate() {
            let (scale, offset) = scale_and_offset(g, &self.scales);
            let (scale, offset) = (d * f32::from(scale), dmin * f32::from(offset));
            for ((y, q), h) in y.iter_mut().zip(&self.qs[g / 2 * 32..g / 2 * 32 + 32]).zip(&self.qh) {
                *y = scale * f32::from(q >> (g % 2 * 4) & 15 | (h >> g & 1) << 4) - offset;
            }
        }
    }
}

impl BlockQ5K {
    fn from_fit(fit: &Fit) -> Self {
        let qs = std::array::from_fn(|i| {
            let at = i / 32 * 64 + i % 32;
            fit.levels[at] & 15 | fit.levels[at + 32] << 4
        });
        let qh = std::array::from_fn(|m| (0..8).fold(0, |bits, g| bits | (fit.levels[32 * g + m] >> 4 & 1) << g));
        Self { d: fit.d, dmin: fit.dmin, scales: fit.scales, qh, qs }
    }
}

impl Encode for BlockQ5K {
    fn encode(x: &[f32]) -> Self {
        let how = Affine { n: 31, start: -0.5, step: 0.1, steps: 15, absolute: false, bound_first: false };
        Self::from_fit(&Fit::plain(x, how))
    }
}

impl EncodeWeighted for BlockQ5K {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        Self::from_fit(&Fit::weighted(x, importance, 31))
    }
}
