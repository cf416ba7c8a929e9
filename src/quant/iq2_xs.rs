//! IQ2_XS: groups of eight magnitudes from a grid of 512 points, an even number of signs in seven bits, and a four-bit
//! scale for every 16 values. 2.3125 bits per value. Encoding needs an importance for each value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq2_xxs::{decode_eight, even_signs, scale_code};
use super::lattice::{self, EncodeSearch, Grid, Lattice, Search};
use super::search::{GROUP_EPS, importance_weights, max, sum_squares};
use super::tables::iq2::IQ2XS_GRID;

/// One block: `x[i] = ± d * (scale + 0.5) / 4 * grid value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq2Xs {
    /// Scale, a half.
    pub d: u16,
    /// For every eight values: grid index (low nine bits) and seven sign bits.
    pub qs: [u16; 32],
    /// Four-bit scales, two groups of 16 values per byte, low half first.
    pub scales: [u8; 8],
}

impl Check for BlockIq2Xs {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq2Xs {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (k, (y, q)) in y.chunks_exact_mut(8).zip(self.qs).enumerate() {
            let code = self.scales[k / 4] >> (k % 4 / 2 * 4) & 15;
            let scale = d * (0.5 + f32::from(code)) * 0.25;
            decode_eight(IQ2XS_GRID[usize::from(q & 511)], even_signs((q >> 9) as u8), scale, y);
        }
    }
}

/// Search parameters of IQ2_XS and IQ2_S.
pub(super) const HOW: Search =
    Search { tries: 9, step: 0.1, all_again: false, always_again: false, off_grid_first: false };

/// Packs two scale codes per byte, low half first.
pub(super) fn pack_scales<const N: usize>(inverse: f32, scales: &[f32]) -> [u8; N] {
    std::array::from_fn(|i| (scale_code(inverse, scales[2 * i]) | scale_code(inverse, scales[2 * i + 1]) << 4) as u8)
}

impl EncodeSearch for BlockIq2Xs {
    const GRID: Grid = Grid::Iq2Xs;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        let importance = importance?;
        let sigma2 = sum_squares(x) / 256.0;
        let mut block = Self { d: 0, qs: [0; 32], scales: [0; 8] };
        let mut scales = [0.0; 16];
        for (g, x) in x.chunks_exact(16).enumerate() {
            let (mut weights, mut values, mut levels, mut signs) = ([0.0; 16], [0.0; 16], [0; 16], [0; 2]);
            importance_weights(&mut weights, x, &importance[16 * g..16 * g + 16], sigma2);
            for (k, s) in signs.iter_mut().enumerate() {
                let at = 8 * k..8 * k + 8;
                *s = lattice::split_signs_even(&x[at.clone()], &weights[at.clone()], &mut values[at]);
            }
            let top = values.iter().fold(values[0], |m, v| max(m, *v));
            if top < GROUP_EPS {
                continue;
            }
            let mut scale = lattice::fit_group(lattice, HOW, &values, &weights, top, top / 5.0, &mut levels)?;
            if scale < 0.0 {
                scale = -scale;
                signs = signs.map(|s| !s & 127);
            }
            for (k, levels) in levels.chunks_exact(8).enumerate() {
                block.qs[2 * g + k] = lattice.locate(levels).ok()? | u16::from(signs[k]) << 9;
            }
            scales[g] = scale;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top == 0.0 {
            return Some(Self { d: 0, qs: [0; 32], scales: [0; 8] });
        }
        let d = top / 31.0;
        block.d = f32_to_f16(d);
        block.scales = pack_scales(1.0 / d, &scales);
        Some(block)
    }
}
