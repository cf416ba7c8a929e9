//! Search in the grids of the IQ1, IQ2 and IQ3 formats, for their encoders. A lattice maps every point to its grid
//! index, or to the grid points near it. Lattices are built on first use or by `quantize_init`, shared, and freed by
//! `quantize_free`.
#![forbid(unsafe_code)]

use super::block::{Block, bytes_of};
use super::search::nearest;
use super::tables::{iq1, iq2, iq3};
use crate::abi::ggml::ggml_type::{self, *};
use crate::sys::sync::brief;
use crate::sys::thread::parallel;
use std::sync::{Arc, Mutex, OnceLock};

/// A block that is encoded by searching the lattice of its format.
pub trait EncodeSearch: Block {
    /// The lattice that the search needs.
    const GRID: Grid;

    /// Encodes 256 finite values, with an optional importance for each value. Returns `None` if the format needs an
    /// importance and there is none, or if values or weights are too large to compute an error.
    fn encode_search(lattice: &Lattice, x: &[f32], importance: Option<&[f32]>) -> Option<Self>;
}

/// Number of levels, at least that of every grid.
const LEVELS: usize = 8;

/// A grid in a space of `width` small levels.
#[derive(Debug)]
pub struct Lattice {
    /// Levels in a point: 8 (IQ1, IQ2) or 4 (IQ3).
    pub width: usize,
    /// Bits of a level in a point's code: 2 or 3.
    bits: usize,
    /// Highest level: 2 (IQ1, IQ2) or 7 (IQ3).
    pub top: i32,
    /// The levels of each grid point, by index.
    points: Vec<[u8; 8]>,
    /// For each code: the index of its grid point, or `!first`, where `near[first]` starts the list of near points.
    map: Vec<i32>,
    /// Lists of near points: the number of indices, then the indices, nearest first.
    near: Vec<u16>,
}

/// The grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// IQ1_S and IQ1_M.
    Iq1,
    /// IQ2_XXS.
    Iq2Xxs,
    /// IQ2_XS.
    Iq2Xs,
    /// IQ2_S.
    Iq2S,
    /// IQ3_XXS.
    Iq3Xxs,
    /// IQ3_S.
    Iq3S,
}

static BUILT: Mutex<[Option<Arc<Lattice>>; 6]> = Mutex::new([const { None }; 6]);

/// The lattice for a grid, built on first use.
pub fn get(grid: Grid) -> Arc<Lattice> {
    let built = || brief(&BUILT);
    if let Some(lattice) = &built()[grid as usize] {
        return lattice.clone();
    }
    // Built without holding the lock: the search for neighbours runs on several threads.
    let lattice = Arc::new(Lattice::new(grid));
    built()[grid as usize].get_or_insert(lattice).clone()
}

/// The grid of a format, if it has one.
pub fn grid_of(ty: ggml_type) -> Option<Grid> {
    Some(match ty {
        GGML_TYPE_IQ1_S | GGML_TYPE_IQ1_M => Grid::Iq1,
        GGML_TYPE_IQ2_XXS => Grid::Iq2Xxs,
        GGML_TYPE_IQ2_XS => Grid::Iq2Xs,
        GGML_TYPE_IQ2_S => Grid::Iq2S,
        GGML_TYPE_IQ3_XXS => Grid::Iq3Xxs,
        GGML_TYPE_IQ3_S => Grid::Iq3S,
        _ => return None,
    })
}

/// Removes a lattice. It is freed when it is no longer used.
pub fn free(grid: Grid) {
    brief(&BUILT)[grid as usize] = None;
}

/// Removes all lattices. Each is freed when it is no longer used.
pub fn free_all() {
    *brief(&BUILT) = [const { None }; 6];
}

impl Lattice {
    fn new(grid: Grid) -> Self {
        // Converts the magnitudes in the tables to levels.
        let two = |g: &[u64]| g.iter().map(|p| p.to_le_bytes().map(|b| b / 16)).collect::<Vec<_>>();
        let three = |g: &[u32], step: u8| {
            let level = |b: u8| (b / step).min(7);
            g.iter()
                .map(|p| p.to_le_bytes())
                .map(|p| std::array::from_fn(|i| if i < 4 { level(p[i]) } else { 0 }))
                .collect()
        };
        // `shells`: near points are those at the smallest so many distances.
        let (points, shells) = match grid {
            Grid::Iq1 => (iq1::IQ1S_GRID.iter().map(|p| p.to_le_bytes().map(|b| b.wrapping_add(1))).collect(), 3),
            Grid::Iq2Xxs => (two(&iq2::IQ2XXS_GRID), 2),
            Grid::Iq2Xs => (two(&iq2::IQ2XS_GRID), 2),
            Grid::Iq2S => (two(&iq2::IQ2S_GRID), 1),
            Grid::Iq3Xxs => (three(&iq3::IQ3XXS_GRID, 8), 2),
            Grid::Iq3S => (three(&iq3::IQ3S_GRID, 2), 3),
        };
        let (width, bits, top) = if matches!(grid, Grid::Iq3Xxs | Grid::Iq3S) { (4, 3, 7) } else { (8, 2, 2) };
        let mut lattice = Self { width, bits, top, points, map: vec![i32::MIN; 1 << (width * bits)], near: Vec::new() };
        for (i, p) in lattice.points.iter().enumerate() {
            let code = lattice.code(&p[..width]);
            lattice.map[code] = i as i32;
        }
        lattice.find_neighbours(shells);
        lattice
    }

    /// For every code that is not a grid point, lists the grid points at the `shells` smallest distances.
    fn find_neighbours(&mut self, shells: usize) {
        const TOGETHER: usize = 64;
        let lists: Vec<OnceLock<Vec<Option<Vec<u16>>>>> =
            (0..self.map.len().div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect();
        parallel(lists.len(), |i| {
            let codes = i * TOGETHER..((i + 1) * TOGETHER).min(self.map.len());
            let _ = lists[i].set(codes.map(|code| self.neighbours_of(code, shells)).collect());
        });
        for (code, list) in lists.into_iter().flat_map(|l| l.into_inner().unwrap_or_default()).enumerate() {
            let Some(list) = list else { continue };
            self.map[code] = !(self.near.len() as i32);
            self.near.push(list.len() as u16);
            self.near.extend(list);
        }
    }

    fn neighbours_of(&self, code: usize, shells: usize) -> Option<Vec<u16>> {
        let levels: [u8; 8] = std::array::from_fn(|i| (code >> (i * self.bits) & ((1 << self.bits) - 1)) as u8);
        if self.map[code] >= 0 || levels[..self.width].iter().any(|l| i32::from(*l) > self.top) {
            return None;
        }
        let distance = |p: &[u8; 8]| -> u32 {
            p.iter().zip(&levels).take(self.width).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
        };
        let distances: Vec<u32> = self.points.iter().map(distance).collect();
        let mut list = Vec::new();
        let mut shell = None;
        for _ in 0..shells {
            shell = distances.iter().copied().filter(|d| shell.is_none_or(|s| *d > s)).min();
            let Some(shell) = shell else { break };
            list.extend(distances.iter().enumerate().filter(|(_, d)| **d == shell).map(|(i, _)| i as u16));
        }
        Some(list)
    }

    fn code(&self, levels: &[u8]) -> usize {
        levels.iter().rev().fold(0, |code, l| code << self.bits | usize::from(*l))
    }

    /// The levels of a grid point.
    pub fn point(&self, index: u16) -> &[u8] {
        &self.points[usize::from(index)][..self.width]
    }

    /// Returns the index of the grid point with these levels, or else the indices of the grid points near them: none if
    /// a level is above the top, as with values that have no scale (NaN).
    pub fn locate(&self, levels: &[u8]) -> Result<u16, &[u16]> {
        if levels.iter().any(|l| i32::from(*l) > self.top) {
            return Err(&[]);
        }
        match self.map[self.code(levels)] {
            index @ 0.. => Ok(index as u16),
            first => {
                let first = !first as usize;
                Err(&self.near[first + 1..][..usize::from(self.near[first])])
            }
        }
    }

    /// Moves `levels` to the grid point in `near` that fits `x` best at `scale`, where level `l` has the value
    /// `value(l)`. Returns `None` if no error can be computed, because values are too large.
    pub fn move_to_best(
        &self,
        near: &[u16],
        x: &[f32],
        weights: &[f32],
        scale: f32,
        value: impl Fn(u8) -> f32,
        levels: &mut [u8],
    ) -> Option<u16> {
        let index = match self.width {
            4 => self.best::<4>(near, x, weights, scale, value),
            _ => self.best::<8>(near, x, weights, scale, value),
        }?;
        levels.copy_from_slice(self.point(index));
        Some(index)
    }

    /// The first of the points with the least error. A position has few levels, so the errors of all are computed
    /// beforehand.
    fn best<const WIDTH: usize>(
        &self,
        near: &[u16],
        x: &[f32],
        weights: &[f32],
        scale: f32,
        value: impl Fn(u8) -> f32,
    ) -> Option<u16> {
        let mut errors = [[0.0f32; LEVELS]; WIDTH];
        for ((errors, v), w) in errors.iter_mut().zip(x).zip(weights) {
            for (error, level) in errors.iter_mut().zip(0..=self.top as u8) {
                let diff = scale * value(level) - v;
                *error = w * diff * diff;
            }
        }
        let mut best = (None, f32::MAX);
        for &index in near {
            let point = &self.points[usize::from(index)];
            let error = errors.iter().zip(point).fold(0.0, |sum, (errors, l)| sum + errors[usize::from(*l) % LEVELS]);
            if error < best.1 {
                best = (Some(index), error);
            }
        }
        best.0
    }
}

/// Value of a level of IQ2 and IQ3.
pub fn odd(level: u8) -> f32 {
    f32::from(2 * level + 1)
}

/// Splits a group of eight into magnitudes and sign bits.
pub fn split_signs(x: &[f32], magnitudes: &mut [f32]) -> u8 {
    let mut signs = 0;
    for (i, (m, v)) in magnitudes.iter_mut().zip(x).enumerate() {
        *m = if *v >= 0.0 { *v } else { -v };
        signs |= u8::from(*v < 0.0) << i;
    }
    signs
}

/// Like [`split_signs`], but with an even number of signs, so that seven bits are enough. If the number is odd, flips
/// the sign bit of the least important value, and makes its magnitude negative.
pub fn split_signs_even(x: &[f32], weights: &[f32], magnitudes: &mut [f32]) -> u8 {
    let mut signs = split_signs(x, magnitudes);
    if signs.count_ones() % 2 == 1 {
        let mut least = (0, weights[0] * x[0] * x[0]);
        for (i, (w, v)) in weights.iter().zip(x).enumerate().skip(1) {
            if w * v * v < least.1 {
                least = (i, w * v * v);
            }
        }
        magnitudes[least.0] = -magnitudes[least.0];
        signs ^= 1 << least.0;
    }
    signs & 127
}

/// Parameters of [`fit_group`].
#[derive(Clone, Copy)]
pub struct Search {
    /// Scales to try on each side of the one that maps the greatest value to the top level.
    pub tries: i32,
    /// Step between them, in levels.
    pub step: f32,
    /// The last round moves all points again, not only those that were off the grid.
    pub all_again: bool,
    /// The last round runs even if the best scale had every point on the grid.
    pub always_again: bool,
    /// The points count as off the grid until a scale is found.
    pub off_grid_first: bool,
}

/// Fits one group: finds grid points and a scale with `x[i] ≈ scale * odd(levels[i])`.
///
/// The middle scale maps `top` to the top level; `scale` is the result if no scale is better. Returns `None` if no
/// error can be computed, because values are too large.
pub fn fit_group(
    lattice: &Lattice,
    how: Search,
    x: &[f32],
    weights: &[f32],
    top: f32,
    mut scale: f32,
    levels: &mut [u8],
) -> Option<f32> {
    let (width, top_level) = (lattice.width, lattice.top);
    let roots: [f32; 32] = std::array::from_fn(|i| weights.get(i).map_or(0.0, |w| w.sqrt()));
    let level = |inverse: f32, v: f32| nearest(0.5 * (inverse * v - 1.0)).clamp(0, top_level) as u8;
    let moments = |levels: &[u8]| {
        let (mut xq, mut q2) = (0.0, 0.0);
        for ((&v, &w), &l) in x.iter().zip(weights).zip(levels) {
            let q = odd(l);
            xq += w * v * q;
            q2 += w * q * q;
        }
        (xq, q2)
    };
    // Moves the point of group `k` to the grid. Returns whether it already was on the grid.
    let settle = |k: usize, inverse: f32, scale: f32, levels: &mut [u8]| {
        let at = k * width..(k + 1) * width;
        let (x, levels) = (&x[at.clone()], &mut levels[at.clone()]);
        levels.iter_mut().zip(x).for_each(|(l, v)| *l = level(inverse, *v));
        match lattice.locate(levels) {
            Ok(_) => Some(true),
            Err(near) => lattice.move_to_best(near, x, &roots[at], scale, odd, levels).map(|_| false),
        }
    };

    let count = x.len() / width;
    let mut on_grid = [!how.off_grid_first; 8];
    let mut trial = [0; 32];
    let trial = &mut trial[..x.len()];
    let mut best = 0.0;
    for step in -how.tries..=how.tries {
        let inverse = ((2 * top_level + 1) as f32 + step as f32 * how.step) / top;
        let this = 1.0 / inverse;
        let mut on = [true; 8];
        for (k, on) in on[..count].iter_mut().enumerate() {
            *on = settle(k, inverse, this, trial)?;
        }
        let (xq, q2) = moments(trial);
        if q2 > 0.0 && xq * xq > best * q2 {
            scale = xq / q2;
            best = scale * xq;
            levels.copy_from_slice(trial);
            on_grid = on;
        }
    }
    if scale > 0.0 && (how.always_again || on_grid[..count].contains(&false)) {
        let inverse = 1.0 / scale;
        for (k, on) in on_grid[..count].iter().enumerate() {
            if how.all_again || !on {
                settle(k, inverse, scale, levels)?;
            }
        }
        let (xq, q2) = moments(levels);
        if q2 > 0.0 {
            scale = xq / q2;
        }
    }
    Some(scale)
}

/// Encodes one row with a lattice search. Returns false if a value or importance is not finite or too large.
pub fn encode_row_searched<B: EncodeSearch>(
    lattice: &Lattice,
    x: &[f32],
    importance: Option<&[f32]>,
    y: &mut [u8],
) -> bool {
    if !x.iter().chain(importance.unwrap_or_default()).all(|v| v.is_finite()) {
        return false;
    }
    for (i, (x, y)) in x.chunks_exact(B::VALUES).zip(y.chunks_exact_mut(size_of::<B>())).enumerate() {
        let importance = importance.map(|w| &w[i * B::VALUES..(i + 1) * B::VALUES]);
        let Some(block) = B::encode_search(lattice, x, importance) else { return false };
        y.copy_from_slice(bytes_of(&block));
    }
    true
}

/// Encodes a row with a lattice search without importance. Values that are not finite, or too large, end the process.
pub fn encode_row_or_abort<B: EncodeSearch>(x: &[f32], y: &mut [u8]) {
    if !encode_row_searched::<B>(&get(B::GRID), x, None, y) {
        crate::ggml_abort!(
            "cannot quantize to {}: values must be finite and not too large",
            B::TYPE.c_name().to_string_lossy()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grid_point_finds_itself_and_others_find_neighbours() {
        for grid in [Grid::Iq1, Grid::Iq2Xxs, Grid::Iq2Xs, Grid::Iq2S, Grid::Iq3Xxs, Grid::Iq3S] {
            let lattice = get(grid);
            for i in 0..lattice.points.len() as u16 {
                assert_eq!(lattice.locate(lattice.point(i)), Ok(i), "{grid:?}");
            }
            let mut levels = vec![0u8; lattice.width];
            for n in 0..2000usize {
                for (i, l) in levels.iter_mut().enumerate() {
                    *l = ((n * 31 + i * n) % (lattice.top as usize + 1)) as u8;
                }
                if let Err(near) = lattice.locate(&levels) {
                    assert!(!near.is_empty(), "{grid:?} {levels:?}");
                }
            }
            for level in [lattice.top as u8 + 1, 255] {
                levels.fill(level);
                assert_eq!(lattice.locate(&levels), Err(&[][..]), "{grid:?} {level}");
            }
        }
        free_all();
    }

    #[test]
    fn an_odd_number_of_signs_gives_up_the_least_important() {
        let x = [1.0, -2.0, 3.0, 0.1, 5.0, 6.0, 7.0, 8.0];
        let mut m = [0.0; 8];
        assert_eq!(split_signs_even(&x, &[1.0; 8], &mut m), 0b1010);
        assert_eq!(m, [1.0, 2.0, 3.0, -0.1, 5.0, 6.0, 7.0, 8.0]);
    }
}
