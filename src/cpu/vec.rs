//! Safe functions on rows in single precision, over the kernels of `simd`.
#![allow(clippy::excessive_precision)]

use super::simd::argsort::{FEW, MOST};
use super::simd::{Level, Map, Map2, float::MAX_ANGLE, kernels};
use crate::quant::convert::{f16_to_f32, f32_to_f16_with_payload};
use crate::sys::math;
use std::sync::OnceLock;

/// A kernel of two sources.
#[derive(Clone, Copy)]
pub enum Pairwise {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a / b
    Div,
    /// silu(a) * b
    Swiglu,
}

impl Pairwise {
    #[inline]
    fn kernel(self) -> Map2 {
        let k = kernels();
        match self {
            Self::Add => k.add,
            Self::Sub => k.sub,
            Self::Mul => k.mul,
            Self::Div => k.div,
            Self::Swiglu => k.swiglu,
        }
    }
}

/// A kernel of one source.
#[derive(Clone, Copy)]
pub enum Function {
    /// e^x
    Exp,
    /// 1 / (1 + e^-x)
    Sigmoid,
    /// x / (1 + e^-x)
    Silu,
    /// GELU by the tanh formula, computed, not looked up.
    Gelu,
    /// GELU by the error function.
    GeluErf,
    /// x / (1 + e^(-1.702 x)), the quick GELU
    GeluQuick,
    /// Zero for negative numbers.
    Relu,
    /// x * x
    Square,
    /// Hyperbolic tangent.
    Tanh,
    /// ln(1 + e^x)
    Softplus,
    /// x * s
    Times(f32),
    /// x * s + b
    Affine(f32, f32),
    /// Between two numbers.
    Clamp(f32, f32),
}

impl Function {
    /// `dst = f(x)` for `n` floats.
    ///
    /// # Safety
    /// As for [`Map`].
    #[inline]
    unsafe fn run(self, n: usize, dst: *mut f32, x: *const f32) {
        let k = kernels();
        // SAFETY: forwarded to the caller; the kernels with parameters have the same contract.
        unsafe {
            let map: Map = match self {
                Self::Exp => k.vexp,
                Self::Sigmoid => k.sigmoid,
                Self::Silu => k.silu,
                Self::Gelu => k.gelu,
                Self::GeluErf => k.gelu_erf,
                Self::GeluQuick => k.gelu_quick,
                Self::Relu => k.relu,
                Self::Square => k.sqr,
                Self::Tanh => k.tanh,
                Self::Softplus => k.softplus,
                Self::Times(s) => return (k.times)(n, dst, x, s),
                Self::Affine(s, b) => return (k.scale)(n, dst, x, s, b),
                Self::Clamp(least, most) => return (k.clamp)(n, dst, x, least, most),
            };
            map(n, dst, x);
        }
    }
}

/// y = f(y, x)
#[inline]
pub fn zip(f: Pairwise, y: &mut [f32], x: &[f32]) {
    let n = y.len().min(x.len());
    let p = y.as_mut_ptr();
    // SAFETY: the contract of `Map2`: both rows have `n` floats. The destination is the first source, and does not
    // overlap the second, because `y` is a `&mut`.
    unsafe { f.kernel()(n, p, p, x.as_ptr()) }
}

/// y = f(y)
#[inline]
pub fn map(f: Function, y: &mut [f32]) {
    let p = y.as_mut_ptr();
    // SAFETY: the contract of `Map`: `y` has `y.len()` floats, and is source and destination.
    unsafe { f.run(y.len(), p, p) }
}

/// y = f(x)
#[inline]
pub fn map_into(f: Function, y: &mut [f32], x: &[f32]) {
    let n = y.len().min(x.len());
    // SAFETY: the contract of `Map`: both rows have `n` floats, and `y` is a `&mut`, so they do not overlap.
    unsafe { f.run(n, y.as_mut_ptr(), x.as_ptr()) }
}

/// y = f(a, b)
#[inline]
pub fn zip_into(f: Pairwise, y: &mut [f32], a: &[f32], b: &[f32]) {
    let n = y.len().min(a.len()).min(b.len());
    // SAFETY: the contract of `Map2`: the three rows have `n` floats, and `y` is a `&mut`, so it overlaps neither
    // source.
    unsafe { f.kernel()(n, y.as_mut_ptr(), a.as_ptr(), b.as_ptr()) }
}

/// Whether no number is infinite or NaN.
pub fn all_finite(x: &[f32]) -> bool {
    // Without a branch, so that the compiler vectorises it.
    let greatest = x.iter().fold(0, |most: u32, x| most.max(x.to_bits() & !(1 << 31)));
    greatest < f32::INFINITY.to_bits()
}

/// y += x
#[inline]
pub fn add(y: &mut [f32], x: &[f32]) {
    zip(Pairwise::Add, y, x);
}

/// y *= x
#[inline]
pub fn mul(y: &mut [f32], x: &[f32]) {
    zip(Pairwise::Mul, y, x);
}

/// y *= s
#[inline]
pub fn scale(y: &mut [f32], s: f32) {
    map(Function::Times(s), y);
}

/// Sines and cosines of `x`.
pub fn sin_cos(sin: &mut [f32], cos: &mut [f32], x: &[f32]) {
    let n = x.len();
    assert!(sin.len() == n && cos.len() == n);
    let k = kernels();
    // The scalar kernels do not fuse, so that large angles lose their digits.
    if k.level == Level::Scalar || x.iter().any(|x| !(x.abs() < MAX_ANGLE)) {
        for ((sin, cos), x) in sin.iter_mut().zip(cos).zip(x) {
            (*sin, *cos) = math::sin_cos(*x);
        }
        return;
    }
    // SAFETY: the contract of `Kernels`: all rows have `n` floats, and the two results are `&mut`, so they overlap
    // nothing.
    unsafe { (k.sin_cos)(n, sin.as_mut_ptr(), cos.as_mut_ptr(), x.as_ptr()) }
}

/// Rotates the pairs of adjacent elements of `x`: `y[i] = x[i] * cos[i] + x[j] * sin[i]`, where `j` is the other of the
/// pair.
#[inline]
pub fn turn_pairs(y: &mut [f32], x: &[f32], cos: &[f32], sin: &[f32]) {
    let n = y.len();
    assert!(n.is_multiple_of(2) && x.len() == n && cos.len() >= n && sin.len() >= n);
    // SAFETY: the contract of `Kernels`: all rows have `n` floats, and `y` is a `&mut`, so it overlaps no other.
    unsafe { (kernels().turn_pairs)(n, y.as_mut_ptr(), x.as_ptr(), cos.as_ptr(), sin.as_ptr()) }
}

/// Rotates the pairs of elements that are half a row apart, pair `i` by the angle of `cos[i]` and `sin[i]`.
#[inline]
pub fn turn_halves(y: &mut [f32], x: &[f32], cos: &[f32], sin: &[f32]) {
    let n = y.len() / 2;
    assert!(y.len() == 2 * n && x.len() == 2 * n && cos.len() >= n && sin.len() >= n);
    // SAFETY: the contract of `Kernels`: `x` and `y` have `2 * n` floats, the others `n`, and `y` is a `&mut`, so it
    // overlaps no other.
    unsafe { (kernels().turn_halves)(n, y.as_mut_ptr(), x.as_ptr(), cos.as_ptr(), sin.as_ptr()) }
}

/// y += s * x
#[inline]
pub fn axpy(y: &mut [f32], s: f32, x: &[f32]) {
    let n = y.len().min(x.len());
    // SAFETY: the contract of `Kernels`: both rows have `n` floats, and `y` is a `&mut`, so they do not overlap.
    unsafe { (kernels().axpy)(n, y.as_mut_ptr(), x.as_ptr(), s) }
}

/// Sum of all elements.
#[inline]
pub fn sum(x: &[f32]) -> f64 {
    // SAFETY: the contract of `Kernels`: `x` has `x.len()` floats.
    unsafe { (kernels().sum)(x.len(), x.as_ptr()) }
}

/// Sum of the squares of all elements.
#[inline]
pub fn sum_squares(x: &[f32]) -> f64 {
    // SAFETY: the contract of `Kernels`: `x` has `x.len()` floats.
    unsafe { (kernels().sum_sq)(x.len(), x.as_ptr()) }
}

/// y -= mean; returns the sum of the squares of the result.
#[inline]
pub fn center(y: &mut [f32], mean: f32) -> f64 {
    let p = y.as_mut_ptr();
    // SAFETY: the contract of `Kernels`: `y` has `y.len()` floats, and is source and destination.
    unsafe { (kernels().center)(y.len(), p, p, mean) }
}

/// Largest element, ignoring NaN; negative infinity if there is none.
#[inline]
pub fn max(x: &[f32]) -> f32 {
    // SAFETY: the contract of `Kernels`: `x` has `x.len()` floats.
    unsafe { (kernels().max)(x.len(), x.as_ptr()) }
}

/// y = y * s + slope * mask, negative infinity where the mask is; returns the largest element, ignoring NaN.
#[inline]
pub fn mask_scores(y: &mut [f32], mask: &[f32], s: f32, slope: f32) -> f32 {
    assert_eq!(y.len(), mask.len());
    // SAFETY: the contract of `Kernels`: both rows have `y.len()` floats, and `y` is a `&mut`, so they do not overlap.
    unsafe { (kernels().mask_scores)(y.len(), y.as_mut_ptr(), mask.as_ptr(), s, slope) }
}

/// Dot product.
#[inline]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    // SAFETY: the contract of `Kernels`: both rows have as many floats as the shorter one.
    unsafe { (kernels().dot)(x.len().min(y.len()), x.as_ptr(), y.as_ptr()) }
}

/// Dot product in double precision.
#[inline]
pub fn dot_wide(x: &[f32], y: &[f32]) -> f64 {
    // SAFETY: the contract of `Kernels`: both rows have as many floats as the shorter one.
    unsafe { (kernels().dot_wide)(x.len().min(y.len()), x.as_ptr(), y.as_ptr()) }
}

/// Writes the indices of the elements in ascending or, if `falling`, descending order, the first of equal ones first.
/// Returns false, with any indices, if there are so many elements that another way is faster, if some are equal, or if
/// the processor has no kernel.
#[inline]
pub fn sort_few(x: &[f32], falling: bool, order: &mut [i32]) -> bool {
    assert_eq!(x.len(), order.len());
    match kernels().sort_few {
        Some(f) if x.len() <= FEW => {
            // SAFETY: the contract of `SortFew`: the function is from the table of this processor, and there are at
            // most `FEW` elements.
            unsafe { f(x, falling, order) }
        }
        _ => false,
    }
}

/// Writes the indices of the `order.len()` greatest elements, greatest first, and the first of equal ones first. `keys`
/// is scratch memory. Returns false if there are so many indices that another way is faster, or if the processor has no
/// kernel.
#[inline]
pub fn top_few(x: &[f32], keys: &mut Vec<i64>, order: &mut [i32]) -> bool {
    assert!(order.len() <= x.len());
    match kernels().top_few {
        Some(f) if order.len() <= MOST => {
            keys.resize(x.len(), 0);
            // SAFETY: the contract of `TopFew`: the function is from the table of this processor, and there is a key
            // for each element.
            unsafe { f(x, keys, order) };
            true
        }
        _ => false,
    }
}

/// y = exp(y - max); returns the sum.
#[inline]
pub fn exp_shifted(y: &mut [f32], max: f32) -> f64 {
    let p = y.as_mut_ptr();
    // SAFETY: the contract of `Kernels`: `y` has `y.len()` floats, and is source and destination.
    unsafe { (kernels().exp_sum)(y.len(), p, p, max) }
}

/// y += x
#[inline]
pub fn add_to_doubles(y: &mut [f64], x: &[f32]) {
    let n = y.len().min(x.len());
    // SAFETY: the contract of `Kernels`: both have `n` numbers, and `y` is a `&mut`, so it is aligned, and they do not
    // overlap.
    unsafe { (kernels().add_to_doubles)(n, y.as_mut_ptr(), x.as_ptr()) }
}

/// y = exp(y) 2^-e for an integer `e`, with the same digits for every `e`.
#[inline]
pub fn exp_scaled(y: &mut [f32], e: f32) {
    let p = y.as_mut_ptr();
    // SAFETY: the contract of `Kernels`: `y` has `y.len()` floats, and is source and destination.
    unsafe { (kernels().exp_scaled)(y.len(), p, p, e) }
}

/// x / (1 + exp(-x))
#[inline]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// The floats `x` as halves, to nearest even.
#[inline]
pub fn to_halves(y: &mut [u16], x: &[f32]) {
    assert_eq!(y.len(), x.len());
    // SAFETY: the contract of `f32_to_f16`: both rows have `y.len()` numbers, and `y` is a `&mut`, so they do not
    // overlap.
    unsafe { (kernels().f32_to_f16)(y.len(), y.as_mut_ptr(), x.as_ptr()) }
}

/// GELU by the tanh formula, computed, not looked up.
pub fn gelu_exact(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * x * (1.0 + 0.044715 * x * x)).tanh())
}

/// A function of all half-precision numbers, rounded to half precision.
type HalfTable = [u16; 1 << 16];

/// Table of GELU for half-precision numbers. The original rounds to half precision and looks GELU up, and hosts compare
/// results.
fn gelu_table() -> &'static HalfTable {
    static T: OnceLock<Box<HalfTable>> = OnceLock::new();
    crate::sys::sync::once::<Box<HalfTable>>(&T, || {
        let mut table = vec![0; 1 << 16];
        (0..=u16::MAX).zip(&mut table).for_each(|(bits, y)| *y = f32_to_f16_with_payload(gelu_exact(f16_to_f32(bits))));
        table.try_into().unwrap_or_else(|_| unreachable!("the table has a number for each half"))
    })
}

/// y = GELU(y), with the precision of the table.
pub fn gelu(y: &mut [f32]) {
    let table = gelu_table();
    let mut halves = [0u16; 512];
    for y in y.chunks_mut(halves.len()) {
        let halves = &mut halves[..y.len()];
        to_halves(halves, y);
        // The numbers found stay halves: a table of floats would be twice as large, and the part in use would not fit
        // the L1 cache.
        halves.iter_mut().for_each(|half| *half = table[usize::from(*half)]);
        // SAFETY: the contract of `gelu_found`: both have `y.len()` numbers, and `y` is a `&mut`, so they do not
        // overlap.
        unsafe { (kernels().gelu_found)(y.len(), y.as_mut_ptr(), halves.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_extremes() {
        for n in [0, 1, 15, 16, 17, 63, 64, 100] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 23) as f32 - 11.0) / 3.0).collect();
            let want: f64 = x.iter().map(|&x| f64::from(x)).sum();
            assert!((sum(&x) - want).abs() < 1e-4);
            assert_eq!(max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let want: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            assert!((f64::from(dot(&x, &x)) - want).abs() <= 1e-5 * want);
            assert!((sum_squares(&x) - want).abs() <= 1e-6 * want);
        }
    }

    /// GELU of a float is that of the nearest half, rounded to a half, as in the original.
    #[test]
    fn gelu_of_all_halves() {
        let x: Vec<f32> = (0..=u16::MAX).map(f16_to_f32).filter(|x| x.abs() < 10.0).collect();
        let mut y = x.clone();
        gelu(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert_eq!(y.to_bits(), f16_to_f32(f32_to_f16_with_payload(gelu_exact(x))).to_bits(), "{x}");
        }
        let mut nearest = [1.000_1, -1.000_1, 3.000_5];
        gelu(&mut nearest);
        assert_eq!(nearest, [1.0, -1.0, 3.0].map(|x| f16_to_f32(f32_to_f16_with_payload(gelu_exact(x)))));
    }

    #[test]
    fn gelu_is_near_the_definition() {
        let mut y: Vec<f32> = (-120..120).map(|i| i as f32 / 10.0).collect();
        let (x, mut z) = (y.clone(), y.clone());
        gelu(&mut y);
        map(Function::GeluErf, &mut z);
        for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
            assert!((y - gelu_exact(x)).abs() < 4e-3 * x.abs().max(0.1), "{x} {y}");
            assert!((z - gelu_exact(x)).abs() < 2e-3);
        }
    }
}
