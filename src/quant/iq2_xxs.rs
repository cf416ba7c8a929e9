//! IQ2_XXS: groups of eight magnitudes from a grid of 256 points, an even number of signs in seven bits, and a four-bit
//! scale for every 32 values. 2.0625 bits per value. Encoding needs an importance for each value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::lattice::{self, EncodeSearch, Grid, Lattice, Search};
use super::search::{GROUP_EPS, importance_weights, max, nearest, sum_squares, unsigned};
use super::tables::iq2::IQ2XXS_GRID;

/// One block: `x[i] = ± d * (scale + 0.5) / 4 * grid value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq2Xxs {
    /// Scale, a half.
    pub d: u16,
    /// For every 32 values two little-endian 32-bit words. The first has four grid indices, the second four groups of
    /// seven sign bits and, in the top four bits, the scale.
    pub qs: [u16; 32],
}

/// Restores eight sign bits from seven: the eighth makes the number of set bits even.
#[inline]
pub fn even_signs(seven: u8) -> u8 {
    seven & 127 | ((seven & 127).count_ones() as u8 & 1) << 7
}

/// Writes eight values: grid magnitudes times `scale`, negative where a sign bit is set.
pub(super) fn decode_eight(grid: u64, signs: u8, scale: f32, y: &mut [f32]) {
    for (i, (y, g)) in y.iter_mut().zip(grid.to_le_bytes()).enumerate() {
        *y = scale * f32::from(g) * if signs >> i & 1 != 0 { -1.0 } else { 1.0 };
    }
}

impl BlockIq2Xxs {
    /// The two words of each 32 values.
    fn words(&self) -> [[u32; 2]; 8] {
        let word = |i: usize| u32::from(self.qs[i]) | u32::from(self.qs[i + 1]) << 16;
        std::array::from_fn(|g| [word(4 * g), word(4 * g + 2)])
    }
}

impl Check for BlockIq2Xxs {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq2Xxs {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, [indices, signs]) in y.chunks_exact_mut(32).zip(self.words()) {
            let scale = d * (0.5 + (signs >> 28) as f32) * 0.25;
            for (k, (y, index)) in y.chunks_exact_mut(8).zip(indices.to_le_bytes()).enumerate() {
                let signs = even_signs((signs >> (7 * k)) as u8);
                decode_eight(IQ2XXS_GRID[usize::from(index)], signs, scale, y);
            }
        }
    }
}

/// Four-bit code of a group's scale, such that `(code + 0.5) * d / 15.5` is nearest to it. `inverse` is that of
/// `d / 31`.
pub(super) fn scale_code(inverse: f32, scale: f32) -> i32 {
    nearest(0.5 * (inverse * scale - 1.0)).clamp(0, 15)
}

impl EncodeSearch for BlockIq2Xxs {
    const GRID: Grid = Grid::Iq2Xxs;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        const HOW: Search = Search { tries: 6, step: 0.1, all_again: true, always_again: true, off_grid_first: false };
        let importance = importance?;
        let sigma2 = sum_squares(x) / 256.0;
        let (mut words, mut scales) = ([[0u32; 2]; 8], [0.0; 8]);
        for (g, x) in x.chunks_exact(32).enumerate() {
            let (mut weights, mut values, mut levels, mut signs) = ([0.0; 32], [0.0; 32], [0; 32], [0; 4]);
            importance_weights(&mut weights, x, &importance[32 * g..32 * g + 32], sigma2);
            for (k, s) in signs.iter_mut().enumerate() {
                let at = 8 * k..8 * k + 8;
                *s = lattice::split_signs_even(&x[at.clone()], &weights[at.clone()], &mut values[at]);
            }
            let top = values.iter().fold(values[0], |m, v| max(m, *v));
            if top < GROUP_EPS {
                continue;
            }
            let scale = unsigned(4, &values, &mut levels, &weights);
            let top = scale * 3.0;
            if top <= 0.0 {
                continue;
            }
            let mut scale = lattice::fit_group(lattice, HOW, &values, &weights, top, scale, &mut levels)?;
            if scale < 0.0 {
                scale = -scale;
                signs = signs.map(|s| !s & 127);
            }
            for (k, levels) in levels.chunks_exact(8).enumerate() {
                words[g][0] |= u32::from(lattice.locate(levels).ok()?) << (8 * k);
                words[g][1] |= u32::from(signs[k]) << (7 * k);
            }
            scales[g] = scale;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top == 0.0 {
            return Some(Self { d: 0, qs: [0; 32] });
        }
        let d = top / 31.0;
        for (words, scale) in words.iter_mut().zip(scales) {
            words[1] |= (scale_code(1.0 / d, scale) as u32) << 28;
        }
        let qs = std::array::from_fn(|i| (words[i / 4][i % 4 / 2] >> (i % 2 * 16)) as u16);
        Some(Self { d: f32_to_f16(d), qs })
    }
}
