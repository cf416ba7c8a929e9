//! Q4_K: 256 four-bit values in 8 groups, each with a six-bit scale and a six-bit offset. 4.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::q4_1::weighted_search;
use super::search::{Affine, affine, importance_weights, nearest, sum_squares, unsigned};

/// One block: `x[i] = d * scale[g] * q[i] - dmin * offset[g]` with `g = i / 32`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ4K {
    /// Scale of the scales, a half.
    pub d: u16,
    /// Scale of the offsets, a half.
    pub dmin: u16,
    /// Six-bit scales and offsets: see [`scale_and_offset`].
    pub scales: [u8; 12],
    /// Four parts of 32 bytes for 64 values each: byte `m` holds value `m` (low four bits) and `32 + m` (high four
    /// bits) of the part.
    pub qs: [u8; 128],
}

/// Six-bit scale and offset of group `g` (0..8) in the packed bytes of Q4_K and Q5_K.
///
/// Groups 0..4 have the scale in the low six bits of byte `g`, and the offset in those of byte `g + 4`. Groups 4..8
/// have the low four bits of both in byte `g + 4` (scale, then offset), and the high two bits in the top bits of bytes
/// `g - 4` and `g`.
#[inline(always)]
pub fn scale_and_offset(g: usize, packed: &[u8; 12]) -> (u8, u8) {
    if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        (packed[g + 4] & 15 | packed[g - 4] >> 6 << 4, packed[g + 4] >> 4 | packed[g] >> 6 << 4)
    }
}

/// Packs six-bit scales and offsets.
fn pack_scales(scales: [u8; 8], offsets: [u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    packed[..4].copy_from_slice(&scales[..4]);
    packed[4..8].copy_from_slice(&offsets[..4]);
    for g in 4..8 {
        packed[g + 4] = scales[g] & 15 | offsets[g] << 4;
        packed[g - 4] |= scales[g] >> 4 << 6;
        packed[g] |= offsets[g] >> 4 << 6;
    }
    packed
}

/// Scales, offsets and levels of a block of Q4_K or Q5_K.
pub(super) struct Fit {
    /// Scale of the scales, a half.
    pub d: u16,
    /// Scale of the offsets, a half.
    pub dmin: u16,
    /// Packed scales and offsets.
    pub scales: [u8; 12],
    /// One level for each value.
    pub levels: [u8; 256],
}

impl Fit {
    /// Fits without importance, with levels in [0, n].
    pub fn plain(x: &[f32], how: Affine) -> Self {
        let mut levels = [0; 256];
        let (mut scales, mut mins) = ([0.0; 8], [0.0; 8]);
        for (g, (x, levels)) in x.chunks_exact(32).zip(levels.chunks_exact_mut(32)).enumerate() {
            let size = (sum_squares(x) / 32.0).sqrt();
            let weights: [f32; 32] = std::array::from_fn(|i| size + x[i].abs());
            (scales[g], mins[g]) = affine(how, x, &weights, levels);
        }
        let top = |v: &[f32]| v.iter().fold(0.0, |m, s| if *s > m { *s } else { m });
        let (top_scale, top_min) = (top(&scales), top(&mins));
        let codes = |v: [f32; 8], top: f32| {
            let inverse = if top > 0.0 { 63.0 / top } else { 0.0 };
            v.map(|s| (nearest(inverse * s) as u8).min(63))
        };
        let packed = pack_scales(codes(scales, top_scale), codes(mins, top_min));
        let (d, dmin) = (f32_to_f16(top_scale / 63.0), f32_to_f16(top_min / 63.0));
        Self { d, dmin, scales: packed, levels }.again(x, how.n)
    }

    /// Fits with an importance for each value, with levels in [0, n].
    pub fn weighted(x: &[f32], importance: &[f32], n: i32) -> Self {
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut levels = [0; 256];
        let (mut scales, mut mins, mut sums) = ([0.0; 8], [0.0; 8], [0.0; 8]);
        let groups = x.chunks_exact(32).zip(importance.chunks_exact(32)).zip(levels.chunks_exact_mut(32));
        for (g, ((x, importance), levels)) in groups.enumerate() {
            let mut weights = [0.0; 32];
            importance_weights(&mut weights, x, importance, sigma2);
            sums[g] = weights.iter().fold(0.0, |sum, w| sum + w);
            (scales[g], mins[g]) = affine(weighted_search(n), x, &weights, levels);
        }
        let (mut s, mut m) = ([0; 8], [0; 8]);
        let d = unsigned(63, &scales, &mut s, &sums);
        let dmin = unsigned(63, &mins, &mut m, &sums);
        Self { d: f32_to_f16(d), dmin: f32_to_f16(dmin), scales: pack_scales(s, m), levels }.again(x, n)
    }

    /// Computes the levels again with the rounded scales. A group with scale zero keeps its levels.
    fn again(mut self, x: &[f32], n: i32) -> Self {
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (g, (x, levels)) in x.chunks_exact(32).zip(self.levels.chunks_exact_mut(32)).enumerate() {
            let (scale, offset) = scale_and_offset(g, &self.scales);
            let scale = d * f32::from(scale);
            if scale == 0.0 {
                continue;
            }
            let offset = dmin * f32::from(offset);
            for (l, v) in levels.iter_mut().zip(x) {
                *l = nearest((v + offset) / scale).clamp(0, n) as u8;
            }
        }
        self
    }
}

impl Check for BlockQ4K {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d).or(half(self.dmin))
    }
}

impl Decode for BlockQ4K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (g, y) in y.chunks_exact_mut(32).enumerate() {
            let (scale, offset) = scale_and_offset(g, &self.scales);
            let (scale, offset) = (d * f32::from(scale), dmin * f32::from(offset));
            for (y, q) in y.iter_mut().zip(&self.qs[g / 2 * 32..g / 2 * 32 + 32]) {
                *y = scale * f32::from(q >> (g % 2 * 4) & 15) - offset;
            }
        }
    }
}

impl BlockQ4K {
    fn from_fit(fit: &Fit) -> Self {
        let qs = std::array::from_fn(|i| {
            let at = i / 32 * 64 + i % 32;
            fit.levels[at] | fit.levels[at + 32] << 4
        });
        Self { d: fit.d, dmin: fit.dmin, scales: fit.scales, qs }
    }
}

impl Encode for BlockQ4K {
    fn encode(x: &[f32]) -> Self {
        let how = Affine { n: 15, start: -1.0, step: 0.1, steps: 20, absolute: false, bound_first: false };
        Self::from_fit(&Fit::plain(x, how))
    }
}

impl EncodeWeighted for BlockQ4K {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        Self::from_fit(&Fit::weighted(x, importance, 15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_offsets_survive_packing() {
        let (s, m) = ([0, 63, 17, 46, 5, 33, 62, 16], [63, 1, 48, 15, 31, 32, 0, 59]);
        let packed = pack_scales(s, m);
        for g in 0..8 {
            assert_eq!(scale_and_offset(g, &packed), (s[g], m[g]));
        }
    }
}
