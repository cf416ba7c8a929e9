//! Powers, sums and functions of small numbers keep their digits at every level.

use super::tests::levels;
use super::*;

/// The powers of numbers down to -103.97 are not zero, in the kernels of all functions that end in a power.
#[test]
fn powers_become_subnormal_before_they_are_zero() {
    let x: Vec<f32> = (0..4700).map(|i| -110.0 + i as f32 / 40.0).collect();
    let falling: Vec<f32> = x.iter().copied().filter(|x| *x <= 0.0).collect();
    for k in levels() {
        let run = |x: &[f32], kernel: Map| {
            let mut y = vec![f32::NAN; x.len()];
            // SAFETY: the contract of `Map`: both have `x.len()` floats, and do not overlap.
            unsafe { kernel(x.len(), y.as_mut_ptr(), x.as_ptr()) };
            y
        };
        let mut powers = vec![f32::NAN; falling.len()];
        // SAFETY: the contract of `Kernels`: both have as many floats, and do not overlap.
        let sum = unsafe { (k.exp_sum)(falling.len(), powers.as_mut_ptr(), falling.as_ptr(), 0.0) };
        let want: f64 = powers.iter().map(|y| f64::from(*y)).sum();
        assert!((sum - want).abs() <= 1e-6 * want);
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        type Case<'a> = (&'a str, &'a [f32], Vec<f32>, fn(f64) -> f64);
        let cases: [Case<'_>; 3] = [
            ("exp", &x[..4600], run(&x[..4600], k.vexp), f64::exp),
            ("exp_sum", &falling, powers, f64::exp),
            ("softplus", &x, run(&x, k.softplus), softplus),
        ];
        for (name, x, y, f) in cases {
            for (x, y) in x.iter().zip(y) {
                let want = f(f64::from(*x));
                // Half a unit of the last place of subnormal numbers.
                let off = (f64::from(y) - want).abs();
                assert!(off <= 2.4e-7 * want + 0.75e-45, "{:?} {name}({x}) = {y:e}, want {want:e}", k.level);
            }
        }
    }
}

#[test]
fn the_sign_of_zero_and_halves_of_small_numbers_are_exact() {
    for k in levels() {
        let x = [-0.0, 0.0, -1e-45, 1e-39, -1e-30, 2e-20, -3e-10, 1e-8, -1e-38, 5e-7, -0.0];
        let (mut tanh, mut gelu) = ([1.0; 11], [1.0; 11]);
        // SAFETY: the contract of `Map`: all have 11 floats, and do not overlap.
        unsafe {
            (k.tanh)(11, tanh.as_mut_ptr(), x.as_ptr());
            (k.gelu_erf)(11, gelu.as_mut_ptr(), x.as_ptr());
        }
        assert_eq!(tanh.map(f32::to_bits), x.map(f32::to_bits), "{:?}", k.level);
        for (x, y) in x.into_iter().zip(gelu) {
            assert!((y - 0.5 * x).abs() <= 5e-7 * x.abs() && y.is_sign_negative() == x.is_sign_negative(), "{x} {y}");
        }
    }
}

/// Numbers that cancel, as many as a long row has.
#[test]
fn sums_that_cancel_keep_their_digits() {
    let all: Vec<f32> =
        (0..1_000_003).map(|i| (if i % 2 == 1 { -1.0 } else { 1.0 }) * (1000.0 + (i % 13) as f32) + 0.001).collect();
    let ones: Vec<f32> = (0..all.len()).map(|i| 1.0 + (i % 3) as f32).collect();
    for k in levels() {
        for n in [1, 7, 15, 16, 31, 33, 1000, 4096, 4097, 100_000, all.len()] {
            let x = &all[..n];
            let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
            let products: f64 = x.iter().zip(&ones).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            // SAFETY: the contract of `Kernels`: both rows have `n` floats.
            let got = unsafe { [(k.sum)(n, x.as_ptr()), (k.dot_wide)(n, x.as_ptr(), ones.as_ptr())] };
            for (got, want) in got.into_iter().zip([sum, products]) {
                assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{:?}, {n}: {got}, not {want}", k.level);
            }
        }
    }
}
