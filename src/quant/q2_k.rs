//! Q2_K: 256 two-bit values in 16 groups, each with a four-bit scale and a four-bit offset. 2.625 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::q4_1::weighted_search;
use super::search::{Affine, affine, importance_weights, nearest, sum_squares, unsigned};

/// One block: `x[i] = d * (scales[g] & 15) * q[i] - dmin * (scales[g] >> 4)` with `g = i / 16`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ2K {
    /// Scale (low four bits) and offset (high four bits) of each group.
    pub scales: [u8; 16],
    /// Two halves of 32 bytes for 128 values each: bits `2 n` of byte `m` are value `32 n + m` of the half.
    pub qs: [u8; 64],
    /// Scale of the scales, a half.
    pub d: u16,
    /// Scale of the offsets, a half.
    pub dmin: u16,
}

impl Check for BlockQ2K {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d).or(half(self.dmin))
    }
}

impl Decode for BlockQ2K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (g, (y, s)) in y.chunks_exact_mut(16).zip(self.scales).enumerate() {
            let (scale, offset) = (d * f32::from(s & 15), dmin * f32::from(s >> 4));
            let qs = &self.qs[g / 8 * 32 + g % 2 * 16..];
            for (y, q) in y.iter_mut().zip(qs) {
                *y = scale * f32::from(q >> (g % 8 / 2 * 2) & 3) - offset;
            }
        }
    }
}

/// Packs 256 two-bit values.
pub(super) fn pack(q: &[u8; 256]) -> [u8; 64] {
    std::array::from_fn(|i| {
        let at = i / 32 * 128 + i % 32;
        q[at] | q[at + 32] << 2 | q[at + 64] << 4 | q[at + 96] << 6
    })
}

impl BlockQ2K {
    /// Computes the levels again with the rounded scales, and packs them. A group with scale zero keeps its levels.
    fn finish(mut self, x: &[f32], levels: &mut [u8; 256]) -> Self {
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for ((x, levels), s) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).zip(self.scales) {
            let scale = d * f32::from(s & 15);
            if scale == 0.0 {
                continue;
            }
            let offset = dmin * f32::from(s >> 4);
            for (l, v) in levels.iter_mut().zip(x) {
                *l = nearest((v + offset) / scale).clamp(0, 3) as u8;
            }
        }
        self.qs = pack(levels);
        self
    }
}

impl Encode for BlockQ2K {
    fn encode(x: &[f32]) -> Self {
        let how = Affine { n: 3, start: -0.5, step: 0.1, steps: 15, absolute: true, bound_first: false };
        let mut levels = [0; 256];
        let (mut scales, mut mins) = ([0.0; 16], [0.0; 16]);
        for (g, (x, levels)) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).enumerate() {
            let weights: [f32; 16] = std::array::from_fn(|i| x[i].abs());
            (scales[g], mins[g]) = affine(how, x, &weights, levels);
        }
        let mut block = Self { scales: [0; 16], qs: [0; 64], d: 0, dmin: 0 };
        let top = |v: &[f32]| v.iter().fold(0.0, |m, s| if *s > m { *s } else { m });
        let (top_scale, top_min) = (top(&scales), top(&mins));
        if top_scale > 0.0 {
            let inverse = 15.0 / top_scale;
            block.scales = scales.map(|s| nearest(inverse * s) as u8);
            block.d = f32_to_f16(top_scale / 15.0);
        }
        if top_min > 0.0 {
            let inverse = 15.0 / top_min;
            for (s, min) in block.scales.iter_mut().zip(mins) {
                *s |= (nearest(inverse * min) << 4) as u8;
            }
            block.dmin = f32_to_f16(top_min / 15.0);
        }
        block.finish(x, &mut levels)
    }
}

impl EncodeWeighted for BlockQ2K {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        let sigma2 = sum_squares(x) / 256.0;
        let mut levels = [0; 256];
        let (mut scales, mut mins, mut sums) = ([0.0; 16], [0.0; 16], [0.0; 16]);
        let groups = x.chunks_exact(16).zip(importance.chunks_exact(16)).zip(levels.chunks_exact_mut(16));
        for (g, ((x, importance), levels)) in groups.enumerate() {
            let mut weights = [0.0; 16];
            importance_weights(&mut weights, x, importance, sigma2);
            sums[g] = weights.iter().fold(0.0, |sum, w| sum + w);
            (scales[g], mins[g]) = affine(weighted_search(3), x, &weights, levels);
        }
        let (mut s, mut m) = ([0; 16], [0; 16]);
        let d = unsigned(15, &scales, &mut s, &sums);
        let dmin = unsigned(15, &mins, &mut m, &sums);
        let scales = std::array::from_fn(|g| s[g] | m[g] << 4);
        Self { scales, qs: [0; 64], d: f32_to_f16(d), dmin: f32_to_f16(dmin) }.finish(x, &mut levels)
    }
}
