//! Searches for the scale of a group of values, for the encoders of several formats.
//!
//! Two programs that quantize the same model must get the same file. So the order of all floating-point operations is
//! fixed: sums run from the first to the last value, and multiplications and additions must not be fused.
#![forbid(unsafe_code)]

/// A group with smaller magnitudes counts as zeros.
pub const GROUP_EPS: f32 = 1e-15;

/// Nearest integer, ties to even, by adding 1.5 * 2^23. Correct for |x| < 2^22; for other numbers the result is a fixed
/// number in [-2^22, 2^22).
#[inline(always)]
pub fn nearest(x: f32) -> i32 {
    ((x + 12_582_912.0).to_bits() & 0x007f_ffff) as i32 - 0x0040_0000
}

/// Integer part of `x`; `i32::MIN` if it is out of range, like the x86 instruction.
#[inline]
pub fn truncate(x: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&x) { x as i32 } else { i32::MIN }
}

/// `a` if it is greater than `b`, else `b`, also if one of them is NaN.
#[inline]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Sum of the squares.
pub fn sum_squares(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |sum, v| sum + v * v)
}

/// Weights of a group: importance * sqrt(sigma2 + x^2), where `sigma2` depends on the mean square of the block or row.
pub fn importance_weights(weights: &mut [f32], x: &[f32], importance: &[f32], sigma2: f32) {
    for ((w, v), i) in weights.iter_mut().zip(x).zip(importance) {
        *w = i * (sigma2 + v * v).sqrt();
    }
}

/// The first value with the largest magnitude, and that magnitude. Zeros if all are zero.
pub fn extreme(x: &[f32]) -> (f32, f32) {
    let (mut value, mut magnitude) = (0.0, 0.0);
    for &v in x {
        if v.abs() > magnitude {
            (value, magnitude) = (v, v.abs());
        }
    }
    (value, magnitude)
}

/// Least and greatest value.
fn range(x: &[f32]) -> (f32, f32) {
    x.iter().skip(1).fold((x[0], x[0]), |(lo, hi), &v| (if v < lo { v } else { lo }, if v > hi { v } else { hi }))
}

/// Scales that [`symmetric`] tries.
const TRIES: usize = 19;
/// [`TRIES`] rounded up to whole vectors. The result of the last lane is ignored.
const LANES: usize = 20;

/// Signed levels in [-n, n): finds `scale` with `x[i] ≈ scale * (levels[i] - n)` by trying 19 scales around the one
/// that maps the extreme value to -n. Takes at most 32 values. The default weights are the squares of the values.
pub fn symmetric(n: i32, x: &[f32], levels: &mut [i8], weights: Option<&[f32]>) -> f32 {
    let (top, magnitude) = extreme(x);
    if magnitude < GROUP_EPS {
        levels.fill(0);
        return 0.0;
    }
    let mut squares = [0.0; 32];
    let weights = weights.unwrap_or_else(|| {
        squares.iter_mut().zip(x).for_each(|(w, v)| *w = v * v);
        &squares
    });
    let level = |inverse: f32, v: f32| nearest(inverse * v).clamp(-n, n - 1);
    // Computes all tries at once, each in its own lane, so that the sums of a try keep their order.
    let mut inverses = [-n as f32 / top; LANES];
    for (inverse, step) in inverses[1..].iter_mut().zip((-9..=9).filter(|s| *s != 0)) {
        *inverse = -(n as f32 + 0.1 * step as f32) / top;
    }
    let (mut xls, mut l2s) = ([0.0; LANES], [0.0; LANES]);
    for (&v, &w) in x.iter().zip(weights) {
        let wv = w * v;
        for ((xl, l2), &inverse) in xls.iter_mut().zip(&mut l2s).zip(&inverses) {
            let l = level(inverse, v) as f32;
            *xl += wv * l;
            *l2 += w * l * l;
        }
    }

    let mut chosen = inverses[0];
    let mut scale = if l2s[0] != 0.0 { xls[0] / l2s[0] } else { 0.0 };
    let mut best = scale * xls[0];
    for ((&inverse, &xl), &l2) in inverses.iter().zip(&xls).zip(&l2s).take(TRIES).skip(1) {
        if l2 > 0.0 && xl * xl > best * l2 {
            chosen = inverse;
            scale = xl / l2;
            best = scale * xl;
        }
    }
    for (l, v) in levels.iter_mut().zip(x) {
        *l = (n + level(chosen, *v)) as i8;
    }
    scale
}

/// Like [`symmetric`], but starts with one scale, followed by up to five rounds that change single levels if this
/// lowers the error. The weights are the squares of the values.
pub fn symmetric_by_moves(n: i32, x: &[f32], levels: &mut [i8]) -> f32 {
    let (top, magnitude) = extreme(x);
    if magnitude < GROUP_EPS {
        levels.fill(0);
        return 0.0;
    }
    let inverse = -n as f32 / top;
    let (mut xl, mut l2) = (0.0, 0.0);
    for (l, &v) in levels.iter_mut().zip(x) {
        *l = nearest(inverse * v).clamp(-n, n - 1) as i8;
        let (w, q) = (v * v, f32::from(*l));
        xl += w * v * q;
        l2 += w * q * q;
    }
    for _ in 0..5 {
        let mut moved = false;
        for (l, &v) in levels.iter_mut().zip(x) {
            let (w, q) = (v * v, f32::from(*l));
            let mut rest_xl = xl - w * v * q;
            if rest_xl > 0.0 {
                let mut rest_l2 = l2 - w * q * q;
                let new = nearest(v * rest_l2 / rest_xl).clamp(-n, n - 1);
                if new != i32::from(*l) {
                    let q = new as f32;
                    rest_xl += w * v * q;
                    rest_l2 += w * q * q;
                    if rest_l2 > 0.0 && rest_xl * rest_xl * l2 > xl * xl * rest_l2 {
                        *l = new as i8;
                        (xl, l2) = (rest_xl, rest_l2);
                        moved = true;
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
    for l in levels.iter_mut() {
        *l += n as i8;
    }
    if l2 > 0.0 { xl / l2 } else { 0.0 }
}

/// Weighted squared error of `scale * level(x)`.
fn squared_error(x: &[f32], weights: &[f32], scale: f32, level: impl Fn(f32) -> i32) -> f32 {
    x.iter().zip(weights).fold(0.0, |sum, (v, w)| {
        let diff = v - scale * level(*v) as f32;
        sum + w * diff * diff
    })
}

/// Unsigned levels in [0, n] for values that are not negative: finds `scale` with `x[i] ≈ scale * levels[i]`.
pub fn unsigned(n: i32, x: &[f32], levels: &mut [u8], weights: &[f32]) -> f32 {
    let top = x.iter().fold(0.0, |m, v| max(m, *v));
    if top < GROUP_EPS {
        levels.fill(0);
        return 0.0;
    }
    let mut inverse = n as f32 / top;
    // The first try truncates its levels to bytes before the comparison, as the original does.
    let mut best = squared_error(x, weights, 1.0 / inverse, |v| i32::from(nearest(inverse * v) as u8));
    // Computes all other tries at once, each in its own lane.
    let (mut tries, mut errors) = ([0.0; 8], [0.0; 8]);
    for (this, step) in tries.iter_mut().zip((-4..=4).filter(|s| *s != 0)) {
        *this = (0.1 * step as f32 + n as f32) / top;
    }
    let scales = tries.map(|this| 1.0 / this);
    for (&v, &w) in x.iter().zip(weights) {
        for ((error, &this), &scale) in errors.iter_mut().zip(&tries).zip(&scales) {
            let diff = v - scale * nearest(this * v).min(n) as f32;
            *error += w * diff * diff;
        }
    }
    for (&this, &e) in tries.iter().zip(&errors) {
        if e < best {
            best = e;
            inverse = this;
        }
    }
    let (mut xl, mut l2) = (0.0, 0.0);
    for ((l, &v), &w) in levels.iter_mut().zip(x).zip(weights) {
        let level = nearest(inverse * v).min(n);
        *l = level as u8;
        let q = level as f32;
        xl += w * v * q;
        l2 += w * q * q;
    }
    for _ in 0..5 {
        let mut moved = false;
        for ((l, &v), &w) in levels.iter_mut().zip(x).zip(weights) {
            let q = f32::from(*l);
            let mut rest_xl = xl - w * v * q;
            let mut rest_l2 = l2 - w * q * q;
            if rest_xl > 0.0 && rest_l2 > 0.0 {
                let new = nearest(v * rest_l2 / rest_xl).min(n);
                if new != i32::from(*l) {
                    let q = new as f32;
                    rest_xl += w * v * q;
                    rest_l2 += w * q * q;
                    if rest_xl * rest_xl * l2 > xl * xl * rest_l2 {
                        *l = new as u8;
                        (xl, l2) = (rest_xl, rest_l2);
                        moved = true;
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
    if l2 > 0.0 { xl / l2 } else { 0.0 }
}

/// Parameters of [`affine`].
#[derive(Clone, Copy)]
pub struct Affine {
    /// Highest level.
    pub n: i32,
    /// Offset of the first range tried, in levels.
    pub start: f32,
    /// Step between ranges, in levels.
    pub step: f32,
    /// Number of ranges tried after the plain one, less one.
    pub steps: i32,
    /// Compare by absolute error instead of squared error.
    pub absolute: bool,
    /// Clamp a value to [0, n] before rounding it (with NaN as 0), not after. This matters only for degenerate groups.
    pub bound_first: bool,
}

/// Ranges that [`affine`] tries at once.
const RANGES: usize = 8;

/// Values with their weights, at most 32, and their sums.
struct Weighted<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    sum_x: f32,
    sum_w: f32,
}

/// The results of trying some ranges.
struct Tried {
    /// The levels of each value, by range.
    levels: [[f32; RANGES]; 32],
    scales: [f32; RANGES],
    mins: [f32; RANGES],
    is_fit: [bool; RANGES],
}

impl Weighted<'_> {
    /// Computes the levels of all values in some ranges, and the scale and offset that fit them best. `inverses` has
    /// the levels per unit of each range, and `level` rounds to a level.
    #[inline(always)]
    fn fit(&self, inverses: &[f32; RANGES], min: f32, level: impl Fn(f32) -> i32) -> Tried {
        let (mut sum_l, mut sum_l2, mut sum_xl) = ([0.0; RANGES], [0.0; RANGES], [0.0; RANGES]);
        let mut levels = [[0.0; RANGES]; 32];
        for ((&v, &w), row) in self.x.iter().zip(self.weights).zip(&mut levels) {
            for i in 0..RANGES {
                let l = level(inverses[i] * (v - min)) as f32;
                row[i] = l;
                sum_l[i] += w * l;
                sum_l2[i] += w * l * l;
                sum_xl[i] += w * l * v;
            }
        }
        let (mut scales, mut mins, mut is_fit) = ([0.0; RANGES], [0.0; RANGES], [false; RANGES]);
        let (sum_x, sum_w) = (self.sum_x, self.sum_w);
        for i in 0..RANGES {
            let det = sum_w * sum_l2[i] - sum_l[i] * sum_l[i];
            is_fit[i] = det > 0.0;
            scales[i] = (sum_w * sum_xl[i] - sum_x * sum_l[i]) / det;
            mins[i] = (sum_l2[i] * sum_x - sum_l[i] * sum_xl[i]) / det;
            if mins[i] > 0.0 {
                mins[i] = 0.0;
                scales[i] = sum_xl[i] / sum_l2[i];
            }
        }
        Tried { levels, scales, mins, is_fit }
    }

    /// The weighted error of each range, where `of` is the error of a difference.
    #[inline(always)]
    fn errors(&self, tried: &Tried, of: impl Fn(f32) -> f32) -> [f32; RANGES] {
        let mut errors = [0.0; RANGES];
        for ((&v, &w), row) in self.x.iter().zip(self.weights).zip(&tried.levels) {
            for i in 0..RANGES {
                errors[i] += w * of(tried.scales[i] * row[i] + tried.mins[i] - v);
            }
        }
        errors
    }
}

/// Levels in [0, n] with an offset: finds `(scale, -min)` with `x[i] ≈ scale * levels[i] + min`, `min <= 0`.
pub fn affine(how: Affine, x: &[f32], weights: &[f32], levels: &mut [u8]) -> (f32, f32) {
    let Affine { n, start, step, steps, absolute, bound_first } = how;
    let (mut min, max) = range(x);
    let mut sum_w = weights[0];
    let mut sum_x = sum_w * x[0];
    for (&v, &w) in x.iter().zip(weights).skip(1) {
        sum_w += w;
        sum_x += w * v;
    }
    if min > 0.0 {
        min = 0.0;
    }
    if if bound_first { max <= min } else { max == min } {
        levels.fill(0);
        return (0.0, -min);
    }
    let error = |scale: f32, min: f32, levels: &[u8]| {
        let mut sum = 0.0;
        for ((&v, &w), &l) in x.iter().zip(weights).zip(levels) {
            let diff = scale * f32::from(l) + min - v;
            sum += w * if absolute { diff.abs() } else { diff * diff };
        }
        sum
    };

    let inverse = n as f32 / (max - min);
    let mut scale = 1.0 / inverse;
    for (l, &v) in levels.iter_mut().zip(x) {
        *l = nearest(inverse * (v - min)).clamp(0, n) as u8;
    }
    let mut best = error(scale, min, levels);
    let group = Weighted { x, weights, sum_x, sum_w };
    let mut next = 0;
    while next <= steps {
        // Tries several ranges at once, each in its own lane. The ranges depend on the minimum of the best fit so far,
        // so when a better fit changes it, the ranges after that fit are tried again.
        let inverses = std::array::from_fn(|i| (start + step * (next + i as i32) as f32 + n as f32) / (max - min));
        let tried = match bound_first {
            true => group.fit(&inverses, min, |at| {
                let bound = if at < n as f32 { at } else { n as f32 };
                nearest(if at > 0.0 { bound } else { 0.0 })
            }),
            false => group.fit(&inverses, min, |at| nearest(at).clamp(0, n)),
        };
        let errors = match absolute {
            true => group.errors(&tried, f32::abs),
            false => group.errors(&tried, |diff| diff * diff),
        };
        let left = (steps - next + 1).min(RANGES as i32);
        next += left;
        for i in 0..left as usize {
            if tried.is_fit[i] && errors[i] < best {
                levels.iter_mut().zip(&tried.levels).for_each(|(to, from)| *to = from[i] as u8);
                best = errors[i];
                scale = tried.scales[i];
                let moves = min != tried.mins[i];
                min = tried.mins[i];
                if moves {
                    next -= left - 1 - i as i32;
                    break;
                }
            }
        }
    }
    (scale, -min)
}

/// Index of the entry of the ascending table `values` that is nearest to `x`; the higher one for a tie.
pub fn nearest_of(values: &[i8; 16], x: f32) -> u8 {
    if x <= f32::from(values[0]) {
        return 0;
    }
    if x >= f32::from(values[15]) {
        return 15;
    }
    let (mut below, mut above) = (0, 15);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if x < f32::from(values[middle]) {
            above = middle;
        } else {
            below = middle;
        }
    }
    (if x - f32::from(values[above - 1]) < f32::from(values[above]) - x { above - 1 } else { above }) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rounds_ties_to_even_and_never_leaves_its_range() {
        for (x, n) in [(0.5, 0), (1.5, 2), (-0.5, 0), (-1.5, -2), (2.4999, 2), (-7.6, -8)] {
            assert_eq!(nearest(x), n);
        }
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e9] {
            assert!((-0x40_0000..0x40_0000).contains(&nearest(x)));
        }
    }

    #[test]
    fn truncation_answers_out_of_range_like_the_instruction() {
        assert_eq!(truncate(-1.9), -1);
        assert_eq!(truncate(f32::NAN), i32::MIN);
        assert_eq!(truncate(2_147_483_648.0), i32::MIN);
        assert_eq!(truncate(-2_147_483_648.0), i32::MIN);
    }

    #[test]
    fn searches_recover_exact_lattices() {
        let x: Vec<f32> = (0..32).map(|i| 0.25 * ((i * 7 % 16) as f32 - 8.0)).collect();
        let mut levels = [0; 32];
        let scale = symmetric(8, &x, &mut levels, None);
        assert!(x.iter().zip(levels).all(|(x, l)| *x == scale * f32::from(l - 8)));
        let scale = symmetric_by_moves(8, &x, &mut levels);
        assert!(x.iter().zip(levels).all(|(x, l)| *x == scale * f32::from(l - 8)));
        let mut levels = [0; 32];
        let how = Affine { n: 15, start: -1.0, step: 0.1, steps: 20, absolute: false, bound_first: false };
        let (scale, min) = affine(how, &x, &[1.0; 32], &mut levels);
        assert!(x.iter().zip(levels).all(|(x, l)| (x - (scale * f32::from(l) - min)).abs() < 1e-6));
    }

    #[test]
    fn zero_groups_have_scale_zero() {
        let mut levels = [3; 16];
        assert_eq!(symmetric(4, &[0.0; 16], &mut levels, None), 0.0);
        assert_eq!(levels, [0; 16]);
    }
}
