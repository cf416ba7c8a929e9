//! Q3_K: 256 three-bit values in 16 groups, each with a six-bit scale. 3.4375 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{extreme, importance_weights, nearest, sum_squares, symmetric, symmetric_by_moves};

/// One block: `x[i] = d * scale[i / 16] * (q[i] - 4)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ3K {
    /// Third bits: bit `i / 32` of byte `i % 32` belongs to value `i`.
    pub hmask: [u8; 32],
    /// Two halves of 32 bytes for 128 values each: bits `2 n` of byte `m` are the low bits of value `32 n + m` of the
    /// half.
    pub qs: [u8; 64],
    /// Six-bit scales, plus 32: see [`BlockQ3K::group_scales`].
    pub scales: [u8; 12],
    /// Scale of the scales, a half.
    pub d: u16,
}

impl BlockQ3K {
    /// The scale of each group, in [-32, 31].
    ///
    /// Low four bits: bytes 0..8, first the low halves (groups 0..8), then the high halves (groups 8..16). High two
    /// bits: bits `2 (g / 4)` of byte `8 + g % 4`.
    pub fn group_scales(&self) -> [i8; 16] {
        std::array::from_fn(|g| {
            let low = if g < 8 { self.scales[g] & 15 } else { self.scales[g - 8] >> 4 };
            let high = self.scales[8 + g % 4] >> (g / 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    fn set_group_scale(&mut self, g: usize, scale: i32) {
        let code = scale + 32;
        if g < 8 {
            self.scales[g] = code as u8 & 15;
        } else {
            self.scales[g - 8] |= (code as u8 & 15) << 4;
        }
        self.scales[8 + g % 4] |= ((code >> 4) << (g / 4 * 2)) as u8;
    }

    /// Computes the levels again with the rounded scales, and packs them. A group with scale zero keeps its levels.
    fn finish(mut self, x: &[f32], levels: &mut [i8; 256]) -> Self {
        let d = f16_to_f32(self.d);
        for ((x, levels), s) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).zip(self.group_scales()) {
            let scale = d * f32::from(s);
            if scale == 0.0 {
                continue;
            }
            for (l, v) in levels.iter_mut().zip(x) {
                *l = (nearest(v / scale).clamp(-4, 3) + 4) as i8;
            }
        }
        let levels: [u8; 256] = levels.map(|l| l as u8);
        self.hmask = std::array::from_fn(|m| (0..8).fold(0, |bits, n| bits | (levels[32 * n + m] >> 2 & 1) << n));
        self.qs = super::q2_k::pack(&levels.map(|l| l & 3));
        self
    }

    const EMPTY: Self = Self { hmask: [0; 32], qs: [0; 64], scales: [0; 12], d: 0 };
}

impl Check for BlockQ3K {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ3K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (g, (y, s)) in y.chunks_exact_mut(16).zip(self.group_scales()).enumerate() {
            let scale = d * f32::from(s);
            let first = g % 2 * 16;
            let qs = &self.qs[g / 8 * 32 + first..];
            for ((y, q), h) in y.iter_mut().zip(qs).zip(&self.hmask[first..]) {
                let low = i32::from(q >> (g % 8 / 2 * 2) & 3);
                *y = scale * (low - if h >> (g / 2) & 1 != 0 { 0 } else { 4 }) as f32;
            }
        }
    }
}

impl Encode for BlockQ3K {
    fn encode(x: &[f32]) -> Self {
        let mut levels = [0; 256];
        let mut scales = [0.0; 16];
        for ((x, levels), s) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).zip(&mut scales) {
            *s = symmetric_by_moves(4, x, levels);
        }
        let mut block = Self::EMPTY;
        let (top, _) = extreme(&scales);
        if top != 0.0 {
            let inverse = -32.0 / top;
            for (g, s) in scales.iter().enumerate() {
                block.set_group_scale(g, i32::from(nearest(inverse * s) as i8).clamp(-32, 31));
            }
            block.d = f32_to_f16(1.0 / inverse);
        }
        block.finish(x, &mut levels)
    }
}

impl EncodeWeighted for BlockQ3K {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut levels = [0; 256];
        let (mut scales, mut sums) = ([0.0; 16], [0.0; 16]);
        let groups = x.chunks_exact(16).zip(importance.chunks_exact(16)).zip(levels.chunks_exact_mut(16));
        for (g, ((x, importance), levels)) in groups.enumerate() {
            let mut weights = [0.0; 16];
            importance_weights(&mut weights, x, importance, sigma2);
            sums[g] = weights.iter().fold(0.0, |sum, w| sum + w);
            scales[g] = symmetric(4, x, levels, Some(&weights));
        }
        let mut block = Self::EMPTY;
        let mut codes = [0; 16];
        block.d = f32_to_f16(symmetric(32, &scales, &mut codes, Some(&sums)));
        for (g, code) in codes.iter().enumerate() {
            block.set_group_scale(g, i32::from(*code) - 32);
        }
        block.finish(x, &mut levels)
    }
}
