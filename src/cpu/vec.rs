//! Arithmetic on rows of single precision. The loops are the kernels of `simd`.
#![allow(clippy::excessive_precision)]

use super::convert::{f16, to_f16};
use super::simd::kernels;
use std::sync::OnceLock;

type Map2 = crate::cpu::simd::Map2;

#[inline]
fn zip(f: Map2, y: &mut [f32], x: &[f32]) {
    let n = y.len().min(x.len());
    let p = y.as_mut_ptr();
    // SAFETY: n floats are there on both sides; the destination is the first source.
    unsafe { f(n, p, p, x.as_ptr()) }
}

#[inline]
fn map(f: crate::cpu::simd::Map, y: &mut [f32]) {
    let p = y.as_mut_ptr();
    // SAFETY: the floats are there; the destination is the source.
    unsafe { f(y.len(), p, p) }
}

/// y += x
#[inline]
pub fn add(y: &mut [f32], x: &[f32]) {
    zip(kernels().add, y, x);
}

/// y -= x
#[inline]
pub fn sub(y: &mut [f32], x: &[f32]) {
    zip(kernels().sub, y, x);
}

/// y *= x
#[inline]
pub fn mul(y: &mut [f32], x: &[f32]) {
    zip(kernels().mul, y, x);
}

/// y /= x
#[inline]
pub fn div(y: &mut [f32], x: &[f32]) {
    zip(kernels().div, y, x);
}

/// y = y * s + b
#[inline]
pub fn scale_add(y: &mut [f32], s: f32, b: f32) {
    let p = y.as_mut_ptr();
    // SAFETY: the floats are there; the destination is the source.
    unsafe { (kernels().scale)(y.len(), p, p, s, b) }
}

/// y *= s
#[inline]
pub fn scale(y: &mut [f32], s: f32) {
    y.iter_mut().for_each(|y| *y *= s);
}

/// y += s * x
#[inline]
pub fn axpy(y: &mut [f32], s: f32, x: &[f32]) {
    let n = y.len().min(x.len());
    // SAFETY: n floats are there on both sides, and a `&mut` overlaps nothing.
    unsafe { (kernels().axpy)(n, y.as_mut_ptr(), x.as_ptr(), s) }
}

/// Sum of all elements.
#[inline]
pub fn sum(x: &[f32]) -> f64 {
    // SAFETY: the floats are there.
    unsafe { (kernels().sum)(x.len(), x.as_ptr()) }
}

/// Sum of the squares of all elements.
#[inline]
pub fn sum_squares(x: &[f32]) -> f64 {
    // SAFETY: the floats are there.
    unsafe { (kernels().sum_sq)(x.len(), x.as_ptr()) }
}

/// y -= mean; the sum of the squares of the result.
#[inline]
pub fn center(y: &mut [f32], mean: f32) -> f64 {
    let p = y.as_mut_ptr();
    // SAFETY: the floats are there; the destination is the source.
    unsafe { (kernels().center)(y.len(), p, p, mean) }
}

/// Largest element, passing over NaN; negative infinity for none.
#[inline]
pub fn max(x: &[f32]) -> f32 {
    // SAFETY: the floats are there.
    unsafe { (kernels().max)(x.len(), x.as_ptr()) }
}

/// Scalar product.
#[inline]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    // SAFETY: as many floats as the shorter has are there on both sides.
    unsafe { (kernels().dot)(x.len().min(y.len()), x.as_ptr(), y.as_ptr()) }
}

/// y = exp(y - max); returns the sum.
#[inline]
pub fn exp_shifted(y: &mut [f32], max: f32) -> f64 {
    let p = y.as_mut_ptr();
    // SAFETY: the floats are there; the destination is the source.
    unsafe { (kernels().exp_sum)(y.len(), p, p, max) }
}

/// x / (1 + exp(-x))
#[inline]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// y = SiLU(y)
#[inline]
pub fn silu_row(y: &mut [f32]) {
    map(kernels().silu, y);
}

/// y = SiLU(y) * g
#[inline]
pub fn swiglu(y: &mut [f32], g: &[f32]) {
    zip(kernels().swiglu, y, g);
}

unsafe extern "C" {
    safe fn erff(x: f32) -> f32;
}

/// Error function.
#[inline]
pub fn erf(x: f32) -> f32 {
    erff(x)
}

/// GELU with the hyperbolic tangent, computed.
pub fn gelu_exact(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * x * (1.0 + 0.044715 * x * x)).tanh())
}

/// GELU with the logistic function, computed.
pub fn gelu_quick_exact(x: f32) -> f32 {
    x * (1.0 / (1.0 + (-1.702 * x).exp()))
}

/// GELU with the error function.
pub fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

type HalfTable = Box<[f32]>;

/// What a function gives for each half-precision number, rounded to half precision.
fn table(of: fn(f32) -> f32) -> HalfTable {
    (0..=u16::MAX).map(|bits| f16(to_f16(of(f16(bits))))).collect()
}

/// GELU of half-precision numbers. Hosts compare results with the original, which looks GELU up for a number rounded
/// to half precision; so do we.
fn gelu_table() -> &'static HalfTable {
    static T: OnceLock<HalfTable> = OnceLock::new();
    T.get_or_init(|| table(gelu_exact))
}

fn gelu_quick_table() -> &'static HalfTable {
    static T: OnceLock<HalfTable> = OnceLock::new();
    T.get_or_init(|| table(gelu_quick_exact))
}

/// y = table(y), then `f` for what the table does not say.
fn look_up(y: &mut [f32], table: &HalfTable, f: impl Fn(f32, f32) -> f32) {
    let mut halves = [0u16; 256];
    for y in y.chunks_mut(halves.len()) {
        // SAFETY: at most as many floats as there is room for halves, on the stack.
        unsafe { (kernels().f32_to_f16)(y.len(), halves.as_mut_ptr(), y.as_ptr()) }
        for (y, &half) in y.iter_mut().zip(&halves) {
            *y = f(*y, table[usize::from(half)]);
        }
    }
}

/// y = GELU(y), in the precision of the table.
pub fn gelu(y: &mut [f32]) {
    look_up(y, gelu_table(), |x, found| {
        if x <= -10.0 {
            0.0
        } else if x >= 10.0 {
            x
        } else {
            found
        }
    });
}

/// y = quick GELU(y), in the precision of the table.
pub fn gelu_quick(y: &mut [f32]) {
    look_up(y, gelu_quick_table(), |_, found| found);
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

    #[test]
    fn gelu_is_near_the_definition() {
        let mut y: Vec<f32> = (-120..120).map(|i| i as f32 / 10.0).collect();
        let x = y.clone();
        gelu(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert!((y - gelu_exact(x)).abs() < 4e-3 * x.abs().max(0.1), "{x} {y}");
            assert!((gelu_erf(x) - gelu_exact(x)).abs() < 2e-3);
        }
    }
}
