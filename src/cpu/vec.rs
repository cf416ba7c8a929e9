//! Arithmetic on rows of single precision. Sums run in double precision where the original's do.
#![allow(clippy::excessive_precision)]

use crate::cpu::convert::{f16, to_f16};
use std::sync::OnceLock;

/// y += x
#[inline]
pub fn add(y: &mut [f32], x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

/// y -= x
#[inline]
pub fn sub(y: &mut [f32], x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y -= x);
}

/// y *= x
#[inline]
pub fn mul(y: &mut [f32], x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y *= x);
}

/// y /= x
#[inline]
pub fn div(y: &mut [f32], x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y /= x);
}

/// y *= s
#[inline]
pub fn scale(y: &mut [f32], s: f32) {
    y.iter_mut().for_each(|y| *y *= s);
}

/// y += s * x
#[inline]
pub fn axpy(y: &mut [f32], s: f32, x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += s * x);
}

/// Sum of `f` over the elements in double precision, in sixteen strands that do not wait for each other. The order, so the
/// result, depends on nothing but the elements.
#[inline]
fn strands(x: &[f32], f: impl Fn(f32) -> f64) -> f64 {
    let mut acc = [0f64; 16];
    let (blocks, rest) = x.as_chunks::<16>();
    for block in blocks {
        for (a, &x) in acc.iter_mut().zip(block) {
            *a += f(x);
        }
    }
    acc.iter().sum::<f64>() + rest.iter().map(|&x| f(x)).sum::<f64>()
}

/// Sum of all elements.
#[inline]
pub fn sum(x: &[f32]) -> f64 {
    strands(x, f64::from)
}

/// Sum of the squares of all elements.
#[inline]
pub fn sum_squares(x: &[f32]) -> f64 {
    strands(x, |x| f64::from(x * x))
}

/// Largest element, passing over NaN; negative infinity for none.
#[inline]
pub fn max(x: &[f32]) -> f32 {
    let mut acc = [f32::NEG_INFINITY; 16];
    let (blocks, rest) = x.as_chunks::<16>();
    for block in blocks {
        for (a, &x) in acc.iter_mut().zip(block) {
            *a = if x > *a { x } else { *a };
        }
    }
    acc.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &x| if x > a { x } else { a })
}

/// Scalar product.
#[inline]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut acc = [0f32; 32];
    let ((xb, xr), (yb, yr)) = (x.as_chunks::<32>(), y.as_chunks::<32>());
    for (x, y) in xb.iter().zip(yb) {
        for i in 0..32 {
            acc[i] += x[i] * y[i];
        }
    }
    let mut half = 16;
    while half > 0 {
        for i in 0..half {
            acc[i] += acc[i + half];
        }
        half /= 2;
    }
    acc[0] + xr.iter().zip(yr).map(|(x, y)| x * y).sum::<f32>()
}

/// y = exp(y - max); returns the sum.
#[inline]
pub fn exp_shifted(y: &mut [f32], max: f32) -> f64 {
    y.iter_mut().for_each(|y| *y = (*y - max).exp());
    sum(y)
}

/// x / (1 + exp(-x))
#[inline]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// y = SiLU(y)
#[inline]
pub fn silu_row(y: &mut [f32]) {
    y.iter_mut().for_each(|y| *y = silu(*y));
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

type HalfTable = Box<[u16]>;

fn table(of: fn(f32) -> f32) -> HalfTable {
    (0..=u16::MAX).map(|bits| to_f16(of(f16(bits)))).collect()
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

/// y = GELU(y), in the precision of the table.
pub fn gelu(y: &mut [f32]) {
    let t = gelu_table();
    for y in y {
        *y = if *y <= -10.0 {
            0.0
        } else if *y >= 10.0 {
            *y
        } else {
            f16(t[usize::from(to_f16(*y))])
        };
    }
}

/// y = quick GELU(y), in the precision of the table.
pub fn gelu_quick(y: &mut [f32]) {
    let t = gelu_quick_table();
    y.iter_mut().for_each(|y| *y = f16(t[usize::from(to_f16(*y))]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_extremes() {
        for n in [0, 1, 15, 16, 17, 63, 64, 100] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 23) as f32 - 11.0) / 3.0).collect();
            let want: f64 = x.iter().map(|&x| f64::from(x)).sum();
            assert!((sum(&x) - want).abs() < 1e-9);
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
