//! IQ1_S: groups of eight values in {-1, 0, 1} from a grid of 2048 points, and for every 32 values a three-bit scale
//! and a shift up or down by an eighth. 1.5625 bits per value. Encoding needs an importance for each value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::lattice::{EncodeSearch, Grid, Lattice};
use super::search::{importance_weights, max, nearest, sum_squares};
use super::tables::iq1::IQ1S_GRID;
use std::cmp::Ordering;

/// One block: `x[i] = d * (2 scale + 1) * (grid value ± 1/8)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq1S {
    /// Scale, a half.
    pub d: u16,
    /// Low eight bits of the 32 grid indices.
    pub qs: [u8; 32],
    /// For every 32 values: the high three bits of four grid indices, the scale (bits 12 to 14), and the shift (bit 15:
    /// down).
    pub qh: [u16; 8],
}

/// The shift of all values of a group.
pub const DELTA: f32 = 0.125;

/// Writes the eight values of a grid point.
pub(super) fn decode_eight(index: usize, scale: f32, down: bool, y: &mut [f32]) {
    let delta = if down { -DELTA } else { DELTA };
    for (y, g) in y.iter_mut().zip(IQ1S_GRID[index].to_le_bytes()) {
        *y = scale * (f32::from(g as i8) + delta);
    }
}

impl Check for BlockIq1S {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq1S {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for ((y, h), qs) in y.chunks_exact_mut(32).zip(self.qh).zip(self.qs.chunks_exact(4)) {
            let scale = d * f32::from(2 * (h >> 12 & 7) + 1);
            for (k, (y, q)) in y.chunks_exact_mut(8).zip(qs).enumerate() {
                decode_eight(usize::from(*q) | usize::from(h >> (3 * k) & 7) << 8, scale, h & 0x8000 != 0, y);
            }
        }
    }
}

/// The values of levels 0, 1 and 2, shifted up or down.
pub(super) fn shifted(down: bool) -> [f32; 3] {
    let delta = if down { -DELTA } else { DELTA };
    [-1.0 + delta, delta, 1.0 + delta]
}

/// Indices of the values in ascending order, by a stable sort.
pub(super) fn ascending<const N: usize>(x: &[f32]) -> [usize; N] {
    let mut order = std::array::from_fn(|i| i);
    order.sort_by(|a, b| x[*a].partial_cmp(&x[*b]).unwrap_or(Ordering::Equal));
    order
}

/// Sets the levels by position in the ascending order: 0 before `split.0`, 1 before `split.1`, then 2.
pub(super) fn assign(levels: &mut [u8], order: &[usize], split: (usize, usize)) {
    for (j, &i) in order.iter().enumerate() {
        levels[i] = u8::from(j >= split.0) + u8::from(j >= split.1);
    }
}

/// Finds the best split of 32 sorted values into three levels. Returns `(scale, split, down)`.
///
/// With prefix sums over the sorted values, the weighted squared error of a split takes only a few operations.
fn best_split(x: &[f32], weights: &[f32], order: &[usize; 32]) -> Option<(f32, (usize, usize), bool)> {
    let (mut sx, mut sw) = ([0.0f32; 33], [0.0f32; 33]);
    for (j, &i) in order.iter().enumerate() {
        sx[j + 1] = sx[j] + weights[i] * x[i];
        sw[j + 1] = sw[j] + weights[i];
    }
    let (mut best, mut found) = (-f32::MAX, None);
    for i1 in 0..=32 {
        for i2 in i1..=32 {
            for down in [false, true] {
                let v = shifted(down);
                let xq = (sx[i1] - sx[0]) * v[0] + (sx[i2] - sx[i1]) * v[1] + (sx[32] - sx[i2]) * v[2];
                let q2 =
                    (sw[i1] - sw[0]) * v[0] * v[0] + (sw[i2] - sw[i1]) * v[1] * v[1] + (sw[32] - sw[i2]) * v[2] * v[2];
                if q2 > 0.0 && xq * xq > best * q2 {
                    let scale = xq / q2;
                    best = scale * xq;
                    found = Some((scale, (i1, i2), down));
                }
            }
        }
    }
    found
}

impl EncodeSearch for BlockIq1S {
    const GRID: Grid = Grid::Iq1;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        let importance = importance?;
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let mut block = Self { d: 0, qs: [0; 32], qh: [0; 8] };
        let (mut scales, mut downs) = ([0.0; 8], [false; 8]);
        for (g, x) in x.chunks_exact(32).enumerate() {
            let mut weights = [0.0; 32];
            importance_weights(&mut weights, x, &importance[32 * g..32 * g + 32], sigma2);
            let top = x.iter().fold(x[0].abs(), |m, v| max(m, v.abs()));
            if top < 1e-12 {
                continue;
            }
            let order = ascending::<32>(x);
            let Some((mut scale, split, mut down)) = best_split(x, &weights, &order) else { continue };
            let mut levels = [0; 32];
            assign(&mut levels, &order, split);
            if scale < 0.0 {
                levels = levels.map(|l| 2 - l);
                scale = -scale;
                down = !down;
            }
            let values = shifted(down);
            let value = |l: u8| values[usize::from(l)];
            let (mut indices, mut all_on_grid) = ([0; 4], true);
            for (k, index) in indices.iter_mut().enumerate() {
                let at = 8 * k..8 * k + 8;
                *index = match lattice.locate(&levels[at.clone()]) {
                    Ok(index) => index,
                    Err(near) => {
                        all_on_grid = false;
                        lattice.move_to_best(
                            near,
                            &x[at.clone()],
                            &weights[at.clone()],
                            scale,
                            value,
                            &mut levels[at],
                        )?
                    }
                };
            }
            if !all_on_grid {
                let (mut xq, mut q2) = (0.0, 0.0);
                for ((&v, &w), &l) in x.iter().zip(&weights).zip(&levels) {
                    let q = value(l);
                    xq += w * q * v;
                    q2 += w * q * q;
                }
                if xq > 0.0 && q2 > 0.0 {
                    scale = xq / q2;
                }
            }
            for (k, index) in indices.iter().enumerate() {
                block.qs[4 * g + k] = *index as u8;
                block.qh[g] |= (index >> 8) << (3 * k);
            }
            scales[g] = scale;
            downs[g] = down;
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top != 0.0 {
            let d = top / 15.0;
            // The author of the format found the factor by experiment.
            block.d = f32_to_f16(d * 1.125);
            for ((h, scale), down) in block.qh.iter_mut().zip(scales).zip(downs) {
                let code = nearest(0.5 * (1.0 / d * scale - 1.0)).clamp(0, 7) as u16;
                *h |= (code | u16::from(down) << 3) << 12;
            }
        }
        Some(block)
    }
}
