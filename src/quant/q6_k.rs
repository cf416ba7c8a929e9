//! Q6_K: 256 six-bit values in 16 groups, each with an eight-bit scale. 6.5625 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{GROUP_EPS, extreme, nearest, symmetric};

/// One block: `x[i] = d * scales[i / 16] * (q[i] - 32)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ6K {
    /// Two halves of 64 bytes for 128 values each: byte `m` holds the low four bits of value `m` (low half) and
    /// `64 + m` (high half).
    pub ql: [u8; 128],
    /// Two halves of 32 bytes: bits `2 n` of byte `m` are the high two bits of value `32 n + m` of the half.
    pub qh: [u8; 64],
    /// Scale of each group.
    pub scales: [i8; 16],
    /// Scale of the scales, a half.
    pub d: u16,
}

impl Check for BlockQ6K {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ6K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (g, (y, s)) in y.chunks_exact_mut(16).zip(self.scales).enumerate() {
            let scale = d * f32::from(s);
            // Group g has values 16 g..16 g + 16: `first` is its offset in the 32 values number n of its half of the
            // block.
            let (half, n, first) = (g / 8, g % 8 / 2, g % 2 * 16);
            let ql = &self.ql[half * 64 + n % 2 * 32 + first..];
            let qh = &self.qh[half * 32 + first..];
            for ((y, l), h) in y.iter_mut().zip(ql).zip(qh) {
                let q = l >> (n / 2 * 4) & 15 | (h >> (2 * n) & 3) << 4;
                *y = scale * (i32::from(q) - 32) as f32;
            }
        }
    }
}

impl BlockQ6K {
    fn fit(x: &[f32], importance: Option<&[f32]>) -> Self {
        let mut block = Self { ql: [0; 128], qh: [0; 64], scales: [0; 16], d: 0 };
        let mut levels = [0i8; 256];
        let mut scales = [0.0; 16];
        for (g, (x, levels)) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).enumerate() {
            scales[g] = symmetric(32, x, levels, importance.map(|w| &w[16 * g..16 * g + 16]));
        }
        let (top, magnitude) = extreme(&scales);
        if magnitude < GROUP_EPS {
            return block;
        }
        let inverse = -128.0 / top;
        block.d = f32_to_f16(1.0 / inverse);
        block.scales = scales.map(|s| nearest(inverse * s).min(127) as i8);

        // Computes the levels again with the rounded scales. A group with scale zero keeps its levels.
        let d = f16_to_f32(block.d);
        for ((x, levels), s) in x.chunks_exact(16).zip(levels.chunks_exact_mut(16)).zip(block.scales) {
            let scale = d * f32::from(s);
            if scale == 0.0 {
                continue;
            }
            for (l, v) in levels.iter_mut().zip(x) {
                *l = (nearest(v / scale).clamp(-32, 31) + 32) as i8;
            }
        }
        let levels = levels.map(|l| l as u8);
        for (i, q) in block.ql.iter_mut().enumerate() {
            let at = i / 64 * 128 + i % 64;
            *q = levels[at] & 15 | levels[at + 64] << 4;
        }
        block.qh = super::q2_k::pack(&levels.map(|l| l >> 4));
        block
    }
}

impl Encode for BlockQ6K {
    fn encode(x: &[f32]) -> Self {
        Self::fit(x, None)
    }
}

impl EncodeWeighted for BlockQ6K {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        Self::fit(x, Some(importance))
    }
}
