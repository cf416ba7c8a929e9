//! IQ2_S: groups of eight magnitudes from a grid of 1024 points, eight signs, and a four-bit scale for every 16 values.
//! 2.5625 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq2_xs::{HOW, pack_scales};
use super::iq2_xxs::decode_eight;
use super::lattice::{self, EncodeSearch, Grid, Lattice};
use super::search::{importance_weights, max, sum_squares};
use super::tables::iq2::IQ2S_GRID;

/// One block: `x[i] = ± d * (scale + 0.5) / 4 * grid value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq2S {
    /// Scale, a half.
    pub d: u16,
    /// Low eight bits of the 32 grid indices, then 32 bytes of sign bits.
    pub qs: [u8; 64],
    /// High two bits of the grid indices, four per byte, lowest first.
    pub qh: [u8; 8],
    /// Four-bit scales, two groups of 16 values per byte, low half first.
    pub scales: [u8; 8],
}

impl Check for BlockIq2S {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq2S {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        let (low, signs) = self.qs.split_at(32);
        for (k, y) in y.chunks_exact_mut(8).enumerate() {
            let code = self.scales[k / 4] >> (k % 4 / 2 * 4) & 15;
            let index = usize::from(low[k]) | usize::from(self.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
            decode_eight(IQ2S_GRID[index], signs[k], d * (0.5 + f32::from(code)) * 0.25, y);
        }
    }
}

impl EncodeSearch for BlockIq2S {
    const GRID: Grid = Grid::Iq2S;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut block = Self { d: 0, qs: [0; 64], qh: [0; 8], scales: [0; 8] };
        let mut scales = [0.0; 16];
        for (g, x) in x.chunks_exact(16).enumerate() {
            let (mut weights, mut values, mut levels, mut signs) = ([0.0; 16], [0.0; 16], [0; 16], [0; 2]);
            match importance {
                Some(i) => importance_weights(&mut weights, x, &i[16 * g..16 * g + 16], sigma2),
                None => weights.iter_mut().zip(x).for_each(|(w, v)| *w = 0.25 * sigma2 + v * v),
            }
            for (k, s) in signs.iter_mut().enumerate() {
                *s = lattice::split_signs(&x[8 * k..8 * k + 8], &mut values[8 * k..8 * k + 8]);
            }
            let top = values.iter().fold(values[0], |m, v| max(m, *v));
            if top < 1e-8 {
                continue;
            }
            let mut scale = lattice::fit_group(lattice, HOW, &values, &weights, top, top / 5.0, &mut levels)?;
            if scale < 0.0 {
                scale = -scale;
                signs = signs.map(|s| !s);
            }
            for (k, levels) in levels.chunks_exact(8).enumerate() {
                let (at, index) = (2 * g + k, lattice.locate(levels).ok()?);
                block.qs[at] = index as u8;
                block.qh[at / 4] |= ((index >> 8) as u8) << (at % 4 * 2);
                block.qs[32 + at] = signs[k];
            }
            scales[g] = scale;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top != 0.0 {
            let d = top / 31.0;
            // The author of the format found the factor by experiment.
            block.d = f32_to_f16(d * 0.9875);
            block.scales = pack_scales(1.0 / d, &scales);
        }
        Some(block)
    }
}
