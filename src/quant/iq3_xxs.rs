//! IQ3_XXS: groups of four magnitudes from a grid of 256 points, seven bits for every eight signs (an even number of
//! which are set), and a four-bit scale for every 32 values. 3.0625 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq2_xxs::{decode_eight, even_signs, scale_code};
use super::iq4_nl::weights;
use super::lattice::{self, EncodeSearch, Grid, Lattice, Search};
use super::search::{max, sum_squares};
use super::tables::iq3::IQ3XXS_GRID;

/// One block: `x[i] = ± d * (scale + 0.5) / 2 * grid value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq3Xxs {
    /// Scale, a half.
    pub d: u16,
    /// 64 grid indices, then for every 32 values a little-endian 32-bit word with four groups of seven sign bits and,
    /// in the top four bits, the scale.
    pub qs: [u8; 96],
}

/// Concatenates two grid points.
pub(super) fn join(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

impl Check for BlockIq3Xxs {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq3Xxs {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        let (indices, words) = self.qs.split_at(64);
        for ((y, indices), word) in y.chunks_exact_mut(32).zip(indices.chunks_exact(8)).zip(words.chunks_exact(4)) {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            for (k, (y, i)) in y.chunks_exact_mut(8).zip(indices.chunks_exact(2)).enumerate() {
                let grid = join(IQ3XXS_GRID[usize::from(i[0])], IQ3XXS_GRID[usize::from(i[1])]);
                decode_eight(grid, even_signs((word >> (7 * k)) as u8), scale, y);
            }
        }
    }
}

impl EncodeSearch for BlockIq3Xxs {
    const GRID: Grid = Grid::Iq3Xxs;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        const HOW: Search =
            Search { tries: 15, step: 0.2, all_again: false, always_again: false, off_grid_first: false };
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut block = Self { d: 0, qs: [0; 96] };
        let (mut words, mut scales) = ([0u32; 8], [0.0; 8]);
        for (g, x) in x.chunks_exact(32).enumerate() {
            let weights = weights(x, importance.map(|i| &i[32 * g..32 * g + 32]), sigma2);
            let (mut values, mut levels, mut signs) = ([0.0; 32], [0; 32], [0; 4]);
            for (k, s) in signs.iter_mut().enumerate() {
                let at = 8 * k..8 * k + 8;
                *s = lattice::split_signs_even(&x[at.clone()], &weights[at.clone()], &mut values[at]);
            }
            let top = values.iter().fold(values[0], |m, v| max(m, *v));
            if top < 1e-8 {
                continue;
            }
            let mut scale = lattice::fit_group(lattice, HOW, &values, &weights, top, top / 15.0, &mut levels)?;
            if scale < 0.0 {
                scale = -scale;
                signs = signs.map(|s| !s & 127);
            }
            for (k, levels) in levels.chunks_exact(4).enumerate() {
                block.qs[8 * g + k] = lattice.locate(levels).ok()? as u8;
            }
            words[g] = signs.iter().rev().fold(0, |word, s| word << 7 | u32::from(*s));
            scales[g] = scale;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top == 0.0 {
            return Some(Self { d: 0, qs: [0; 96] });
        }
        let d = top / 31.0;
        // The author of the format found the factor by experiment.
        block.d = f32_to_f16(d * 1.0125);
        for ((bytes, word), scale) in block.qs[64..].chunks_exact_mut(4).zip(words).zip(scales) {
            bytes.copy_from_slice(&(word | (scale_code(1.0 / d, scale) as u32) << 28).to_le_bytes());
        }
        Some(block)
    }
}
