//! IQ1_M: groups of eight values in {-1, 0, 1} from the grid of IQ1_S, each group shifted up or down by an eighth, and
//! a three-bit scale for every 16 values. 1.75 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::iq1_s::{ascending, assign, decode_eight, shifted};
use super::lattice::{EncodeSearch, Grid, Lattice};
use super::search::{importance_weights, max, nearest, sum_squares};

/// One block: `x[i] = d * (2 scale + 1) * (grid value ± 1/8)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq1M {
    /// Low eight bits of the 32 grid indices.
    pub qs: [u8; 32],
    /// High three bits of the grid indices and the shift (fourth bit: down), two groups of eight per byte, low half
    /// first.
    pub qh: [u8; 16],
    /// Four little-endian 16-bit words, each with four three-bit scales. The top four bits of each word are a quarter
    /// of the block's scale `d` (a half), lowest quarter first.
    pub scales: [u8; 8],
}

impl BlockIq1M {
    fn words(&self) -> [u16; 4] {
        std::array::from_fn(|i| u16::from_le_bytes([self.scales[2 * i], self.scales[2 * i + 1]]))
    }

    /// The block's scale, a half.
    pub fn d(&self) -> u16 {
        let [a, b, c, d] = self.words();
        a >> 12 | b >> 8 & 0x00f0 | c >> 4 & 0x0f00 | d & 0xf000
    }

    /// Three-bit scale code of group `g` of 16 values.
    #[inline]
    pub fn scale_code(&self, g: usize) -> u16 {
        self.words()[g / 4] >> (3 * (g % 4)) & 7
    }

    /// Grid index and shift of group `k` of eight values.
    #[inline]
    fn point(&self, k: usize) -> (usize, bool) {
        let high = self.qh[k / 2] >> (k % 2 * 4);
        (usize::from(self.qs[k]) | usize::from(high & 7) << 8, high & 8 != 0)
    }
}

impl Check for BlockIq1M {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d())
    }
}

impl Decode for BlockIq1M {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d());
        for (k, y) in y.chunks_exact_mut(8).enumerate() {
            let (index, down) = self.point(k);
            decode_eight(index, d * f32::from(2 * self.scale_code(k / 2) + 1), down, y);
        }
    }
}

/// The shifts of the two halves of a group (true for down), in the order in which they are tried.
const SHIFTS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Finds the best split of 16 sorted values into three levels, with each half of the values shifted up or down. Returns
/// `(scale, split, index of SHIFTS)`.
///
/// Uses prefix sums for each half. The values of the three levels differ by one whatever the shift, so the sum of
/// weight * value * level is the total times the top level's value, less the two prefix sums of the split.
fn best_split(x: &[f32], weights: &[f32], order: &[usize; 16]) -> Option<(f32, (usize, usize), usize)> {
    let (mut sx, mut sw) = ([[0.0f32; 17]; 2], [[0.0f32; 17]; 2]);
    for (j, &i) in order.iter().enumerate() {
        for h in 0..2 {
            (sx[h][j + 1], sw[h][j + 1]) = (sx[h][j], sw[h][j]);
        }
        let h = i / 8;
        sx[h][j + 1] = sx[h][j] + weights[i] * x[i];
        sw[h][j + 1] = sw[h][j] + weights[i];
    }
    let values = [shifted(false), shifted(true)];
    let steps = values.map(|v| (v[0] * v[0] - v[1] * v[1], v[1] * v[1] - v[2] * v[2]));
    let (mut best, mut found) = (-f32::MAX, None);
    for i1 in 0..=16 {
        for i2 in i1..=16 {
            // Indexed by half, then by shift.
            let (mut xq, mut q2) = ([[0.0; 2]; 2], [[0.0; 2]; 2]);
            for h in 0..2 {
                let (tx, tw) = (sx[h][16], sw[h][16]);
                let both = sx[h][i1] + sx[h][i2];
                for s in 0..2 {
                    let v = values[s][2];
                    xq[h][s] = tx * v - both;
                    q2[h][s] = tw * v * v + sw[h][i1] * steps[s].0 + sw[h][i2] * steps[s].1;
                }
            }
            for (k, [first, second]) in SHIFTS.iter().enumerate() {
                let (a, b) = (usize::from(*first), usize::from(*second));
                let (xq, q2) = (xq[0][a] + xq[1][b], q2[0][a] + q2[1][b]);
                if q2 > 0.0 && xq * xq > best * q2 {
                    let scale = xq / q2;
                    best = scale * xq;
                    found = Some((scale, (i1, i2), k));
                }
            }
        }
    }
    found
}

/// The fit of 16 values.
#[derive(Default)]
struct GroupFit {
    /// Index of the grid point of each half.
    indices: [u16; 2],
    scale: f32,
    /// Index of `SHIFTS`.
    shift: usize,
}

/// Fits a group of 16 values: finds the best split and moves it to grid points. Returns `None` if no error can be
/// computed.
fn fit_group(lattice: &Lattice, x: &[f32], weights: &[f32; 16]) -> Option<GroupFit> {
    let top = x.iter().fold(x[0].abs(), |m, v| max(m, v.abs()));
    if top < 1e-7 {
        return Some(GroupFit::default());
    }
    let order = ascending::<16>(x);
    let Some((mut scale, split, mut shift)) = best_split(x, weights, &order) else {
        return Some(GroupFit::default());
    };
    let mut levels = [0; 16];
    assign(&mut levels, &order, split);
    if scale < 0.0 {
        levels = levels.map(|l| 2 - l);
        scale = -scale;
        shift = 3 - shift;
    }
    let values = SHIFTS[shift].map(shifted);
    let (mut indices, mut all_on_grid) = ([0; 2], true);
    for (k, index) in indices.iter_mut().enumerate() {
        let at = 8 * k..8 * k + 8;
        *index = match lattice.locate(&levels[at.clone()]) {
            Ok(index) => index,
            Err(near) => {
                all_on_grid = false;
                let value = |l: u8| values[k][usize::from(l)];
                lattice.move_to_best(near, &x[at.clone()], &weights[at.clone()], scale, value, &mut levels[at])?
            }
        };
    }
    if !all_on_grid {
        let (mut xq, mut q2) = (0.0, 0.0);
        for (i, ((&v, &w), &l)) in x.iter().zip(weights).zip(&levels).enumerate() {
            let q = values[i / 8][usize::from(l)];
            xq += w * q * v;
            q2 += w * q * q;
        }
        if xq > 0.0 && q2 > 0.0 {
            scale = xq / q2;
        }
    }
    Some(GroupFit { indices, scale, shift })
}

impl EncodeSearch for BlockIq1M {
    const GRID: Grid = Grid::Iq1;

    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self> {
        let sigma2 = 2.0 * sum_squares(x) / 256.0;
        let weights_of = |g: usize, x: &[f32]| {
            let mut weights = [0.0; 16];
            match importance {
                Some(i) => importance_weights(&mut weights, x, &i[16 * g..16 * g + 16], sigma2),
                None => weights.iter_mut().zip(x).for_each(|(w, v)| *w = v * v),
            }
            weights
        };
        let mut block = Self { qs: [0; 32], qh: [0; 16], scales: [0; 8] };
        let (mut scales, mut shifts) = ([0.0; 16], [0; 16]);
        for (g, x) in x.chunks_exact(16).enumerate() {
            let weights = weights_of(g, x);
            let GroupFit { indices, scale, shift } = fit_group(lattice, x, &weights)?;
            block.qs[2 * g] = indices[0] as u8;
            block.qs[2 * g + 1] = indices[1] as u8;
            block.qh[g] = (indices[0] >> 8 | indices[1] >> 8 << 4) as u8;
            (scales[g], shifts[g]) = (scale, shift);
        }
        let top = scales.iter().fold(0.0, |m, s| max(m, *s));
        if top == 0.0 {
            return Some(block);
        }

        // Now that the codes of all scales are known, fit the scale of the block again over all values.
        let mut d = top / 15.0;
        let inverse = 1.0 / d;
        let (mut xq, mut q2) = (0.0, 0.0);
        let mut words = [0u16; 4];
        for (g, x) in x.chunks_exact(16).enumerate() {
            let code = nearest(0.5 * (inverse * scales[g] - 1.0)).clamp(0, 7);
            words[g / 4] |= (code as u16) << (3 * (g % 4));
            let [first, second] = SHIFTS[shifts[g]];
            block.qh[g] |= u8::from(first) << 3 | u8::from(second) << 7;
            let weights = weights_of(g, x);
            for k in 0..2 {
                let (index, down) = block.point(2 * g + k);
                let values = shifted(down);
                for (j, l) in lattice.point(index as u16).iter().enumerate() {
                    let (w, v) = (weights[8 * k + j], x[8 * k + j]);
                    let q = values[usize::from(*l)] * (2 * code + 1) as f32;
                    xq += w * q * v;
                    q2 += w * q * q;
                }
            }
        }
        if q2 > 0.0 {
            d = xq / q2;
        }
        // The author of the format found the factor by experiment.
        let half = f32_to_f16(d * 1.1125);
        for (i, word) in words.iter_mut().enumerate() {
            *word |= (half >> (4 * i) & 15) << 12;
            block.scales[2 * i..2 * i + 2].copy_from_slice(&word.to_le_bytes());
        }
        Some(block)
    }
}
