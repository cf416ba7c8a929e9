//! IQ3_S: groups of four magnitudes from a grid of 512 points, a sign for each value, and a four-bit scale for every 32
//! values. 3.4375 bits per value.
//!
//! # Groups of zeros
//!
//! The encoder of ggml 0.28 does not advance past the grid indices and signs of a group of 32 zeros. Those of later
//! groups in the block move up by 8 and 4 bytes, but their ninth bits and scales do not, so a decoder reads wrong
//! values for these groups. This encoder does the same, because files must be identical to those of the original.
//! Blocks without such a group, or with such groups only at the end, are correct.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq2_xs::pack_scales;
use super::iq2_xxs::decode_eight;
use super::iq3_xxs::join;
use super::iq4_nl::weights;
use super::lattice::{self, EncodeSearch, Grid, Lattice, Search};
use super::search::{max, sum_squares};
use super::tables::iq3::IQ3S_GRID;

/// One block: `x[i] = ± d * (2 scale + 1) * grid value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq3S {
    /// Scale, a half.
    pub d: u16,
    /// Low eight bits of the 64 grid indices.
    pub qs: [u8; 64],
    /// Ninth bits of the grid indices, lowest first.
    pub qh: [u8; 8],
    /// Sign bits, lowest first.
    pub signs: [u8; 32],
    /// Four-bit scales, two groups of 32 values per byte, low half first.
    pub scales: [u8; 4],
}

impl Check for BlockIq3S {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq3S {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        let index = |k: usize| usize::from(self.qs[k]) | usize::from(self.qh[k / 8] >> (k % 8) & 1) << 8;
        for (k, (y, signs)) in y.chunks_exact_mut(8).zip(self.signs).enumerate() {
            let code = self.scales[k / 8] >> (k % 8 / 4 * 4) & 15;
            let grid = join(IQ3S_GRID[index(2 * k)], IQ3S_GRID[index(2 * k + 1)]);
            decode_eight(grid, signs, d * f32::from(1 + 2 * code), y);
        }
    }
}

impl EncodeSearch for BlockIq3S {
    const GRID: Grid = Grid::Iq3S;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        const HOW: Search = Search { tries: 9, step: 0.2, all_again: true, always_again: false, off_grid_first: true };
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut block = Self { d: 0, qs: [0; 64], qh: [0; 8], signs: [0; 32], scales: [0; 4] };
        let mut scales = [0.0; 8];
        // Groups that got indices and signs; see "Groups of zeros" above.
        let mut placed = 0;
        for (g, x) in x.chunks_exact(32).enumerate() {
            let weights = weights(x, importance.map(|i| &i[32 * g..32 * g + 32]), sigma2);
            let (mut values, mut levels, mut signs) = ([0.0; 32], [0; 32], [0; 4]);
            for (k, s) in signs.iter_mut().enumerate() {
                *s = lattice::split_signs(&x[8 * k..8 * k + 8], &mut values[8 * k..8 * k + 8]);
            }
            let top = values.iter().fold(values[0], |m, v| max(m, *v));
            if top == 0.0 {
                continue;
            }
            let mut scale = lattice::fit_group(lattice, HOW, &values, &weights, top, top / 15.0, &mut levels)?;
            if scale < 0.0 {
                scale = -scale;
                signs = signs.map(|s| !s);
            }
            for (k, levels) in levels.chunks_exact(4).enumerate() {
                let index = lattice.locate(levels).ok()?;
                block.qs[8 * placed + k] = index as u8;
                block.qh[g] |= ((index >> 8) as u8) << k;
            }
            block.signs[4 * placed..4 * placed + 4].copy_from_slice(&signs);
            placed += 1;
            scales[g] = scale;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top != 0.0 {
            let d = top / 31.0;
            // The author of the format found the factor by experiment.
            block.d = f32_to_f16(d * 1.033);
            block.scales = pack_scales(1.0 / d, &scales);
        }
        Some(block)
    }
}
