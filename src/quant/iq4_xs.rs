//! IQ4_XS: 256 four-bit codes for the curve of IQ4_NL in 8 groups, each with a six-bit scale. 4.25 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq4_nl::{CURVE, decode_group, fit_scale, pack, weights};
use super::search::{extreme, nearest, nearest_of, sum_squares};

/// One block: `x[i] = d * scale[i / 32] * CURVE[q[i]]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq4Xs {
    /// Scale of the scales, a half.
    pub d: u16,
    /// High two bits of the scales, two bits per group, lowest first.
    pub scales_h: u16,
    /// Low four bits of the scales, two groups per byte, low half first.
    pub scales_l: [u8; 4],
    /// 16 bytes for each group, as in IQ4_NL.
    pub qs: [u8; 128],
}

impl BlockIq4Xs {
    /// Scale of group `g`, in [-32, 31].
    #[inline]
    pub fn group_scale(&self, g: usize) -> i32 {
        let low = i32::from(self.scales_l[g / 2] >> (g % 2 * 4) & 15);
        let high = i32::from(self.scales_h >> (2 * g) & 3);
        (low | high << 4) - 32
    }

    fn fit(x: &[f32], importance: Option<&[f32]>) -> Self {
        let sigma2 = sum_squares(x) * (2.0 / 256.0);
        let mut scales = [0.0; 8];
        for (g, (s, x)) in scales.iter_mut().zip(x.chunks_exact(32)).enumerate() {
            let weights = weights(x, importance.map(|w| &w[32 * g..32 * g + 32]), sigma2);
            *s = fit_scale(x, &weights, Some(7));
        }
        let d = -extreme(&scales).0 / 32.0;
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        let mut block = Self { d: f32_to_f16(d), scales_h: 0, scales_l: [0; 4], qs: [0; 128] };
        for (g, (x, qs)) in x.chunks_exact(32).zip(block.qs.chunks_exact_mut(16)).enumerate() {
            let l = nearest(inverse * scales[g]).clamp(-32, 31);
            let scale = d * l as f32;
            let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
            qs.copy_from_slice(&pack(&std::array::from_fn(|i| nearest_of(&CURVE, inverse * x[i]))));
            let code = (l + 32) as u16;
            block.scales_l[g / 2] |= (code as u8 & 15) << (g % 2 * 4);
            block.scales_h |= code >> 4 << (2 * g);
        }
        block
    }
}

impl Check for BlockIq4Xs {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq4Xs {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (g, (y, qs)) in y.chunks_exact_mut(32).zip(self.qs.chunks_exact(16)).enumerate() {
            decode_group(d * self.group_scale(g) as f32, qs, y);
        }
    }
}

impl Encode for BlockIq4Xs {
    fn encode(x: &[f32]) -> Self {
        Self::fit(x, None)
    }
}

impl EncodeWeighted for BlockIq4Xs {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        Self::fit(x, Some(importance))
    }
}
