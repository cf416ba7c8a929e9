//! The float kernels of every level that this machine has, against doubles.

use super::*;

/// Every level of this machine.
pub fn levels() -> Vec<Kernels> {
    let mut all: Vec<Kernels> = Vec::new();
    for level in [Level::Scalar, Level::Avx2, Level::Avx512, Level::Avx512Vnni] {
        let k = Kernels::for_level(level);
        if k.level == level {
            all.push(k);
        }
    }
    all
}

/// Numbers that look random, the same on every run.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Uniform in [-1, 1).
    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

const SIZES: [usize; 12] = [0, 1, 3, 7, 8, 15, 16, 17, 63, 64, 127, 1000];

#[test]
fn maps_agree_with_doubles() {
    type Case = (&'static str, fn(&Kernels) -> Map, fn(f64) -> f64);
    let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh());
    let cases: [Case; 5] = [
        ("exp", |k| k.vexp, f64::exp),
        ("sigmoid", |k| k.sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        ("silu", |k| k.silu, |x| x / (1.0 + (-x).exp())),
        ("gelu", |k| k.gelu, gelu),
        ("gelu_quick", |k| k.gelu_quick, |x| x / (1.0 + (-1.702 * x).exp())),
    ];
    for k in levels() {
        for (name, get, want) in cases {
            for n in SIZES {
                let mut noise = Noise::new(n as u64);
                let x: Vec<f32> = (0..n).map(|_| noise.float() * 20.0).collect();
                let mut y = vec![f32::NAN; n];
                // SAFETY: both have n floats; the level is this machine's.
                unsafe { get(&k)(n, y.as_mut_ptr(), x.as_ptr()) };
                for (x, y) in x.iter().zip(&y) {
                    let w = want(f64::from(*x));
                    let tolerance = 1e-6 * w.abs() + 1e-7 * if name == "gelu" { 1.0 } else { 1e-3 };
                    assert!((f64::from(*y) - w).abs() <= tolerance, "{:?} {name}({x}) = {y}, want {w}", k.level);
                }
                // In place.
                let mut z = x.clone();
                // SAFETY: as above, source and destination being the same memory.
                unsafe { get(&k)(n, z.as_mut_ptr(), z.as_ptr()) };
                assert_eq!(y, z);
            }
        }
    }
}

#[test]
fn exp_at_the_ends() {
    for k in levels() {
        let x = [f32::NEG_INFINITY, -1e9, -87.5, 0.0, -0.0, 88.5, 89.5, f32::INFINITY, f32::NAN, -86.0, 1e-9];
        let mut y = [0.0; 11];
        // SAFETY: both have 11 floats.
        unsafe { (k.vexp)(11, y.as_mut_ptr(), x.as_ptr()) };
        assert_eq!(y[..3], [0.0; 3]);
        assert_eq!(y[3..5], [1.0; 2]);
        assert!((y[5] / 88.5f32.exp() - 1.0).abs() < 1e-6, "{:?} {}", k.level, y[5]);
        assert_eq!(y[6..8], [f32::INFINITY; 2]);
        assert!(y[8].is_nan());
        assert!((y[9] / (-86.0f32).exp() - 1.0).abs() < 1e-6);
        assert_eq!(y[10], 1.0);
    }
}

#[test]
fn sums_agree_with_doubles() {
    for k in levels() {
        for n in SIZES.into_iter().chain([4096, 10_000]) {
            let mut noise = Noise::new(n as u64 + 5);
            let (x, y) = (noise.floats(n), noise.floats(n));
            let wide = |v: &[f32]| v.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let (xw, yw) = (wide(&x), wide(&y));
            let tolerance = 1e-6 * (n as f64 + 1.0);
            let close = |got: f64, want: f64, what: &str| {
                assert!((got - want).abs() <= tolerance, "{:?} {what} n={n}: {got}, want {want}", k.level);
            };
            // SAFETY: all rows have n elements.
            unsafe {
                close((k.sum)(n, x.as_ptr()), xw.iter().sum(), "sum");
                close((k.sum_sq)(n, x.as_ptr()), xw.iter().map(|x| x * x).sum(), "sum_sq");
                let dot: f64 = xw.iter().zip(&yw).map(|(x, y)| x * y).sum();
                close((k.dot)(n, x.as_ptr(), y.as_ptr()).into(), dot, "dot");
                let max = x.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
                assert_eq!((k.max)(n, x.as_ptr()), max);
                let mut c = vec![0.0; n];
                close(
                    (k.center)(n, c.as_mut_ptr(), x.as_ptr(), 0.25),
                    xw.iter().map(|x| (x - 0.25).powi(2)).sum(),
                    "center",
                );
                let sum = (k.exp_sum)(n, c.as_mut_ptr(), x.as_ptr(), max);
                close(sum, xw.iter().map(|x| (x - f64::from(max)).exp()).sum(), "exp_sum");
                let mut d = y.clone();
                (k.axpy)(n, d.as_mut_ptr(), x.as_ptr(), 0.5);
                for i in 0..n {
                    assert!((f64::from(d[i]) - (yw[i] + 0.5 * xw[i])).abs() < 1e-6);
                }
            }
        }
    }
}

#[test]
fn every_half_and_bfloat16_converts() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for k in levels() {
        // SAFETY: all rows have 65536 (or 65535: an odd rest) elements.
        unsafe {
            let mut f = vec![0.0f32; 65536];
            let mut back = vec![0u16; 65536];
            (k.f16_to_f32)(65535, f.as_mut_ptr(), all.as_ptr());
            (k.f32_to_f16)(65535, back.as_mut_ptr(), f.as_ptr());
            for i in 0..65535usize {
                let want = half::f16::from_bits(i as u16);
                assert!(
                    f[i].to_bits() == want.to_f32().to_bits() || f[i].is_nan() && want.is_nan(),
                    "{:?} {i:x}",
                    k.level
                );
                assert!(back[i] == i as u16 || want.is_nan(), "{:?} {i:x}", k.level);
            }
            (k.bf16_to_f32)(65535, f.as_mut_ptr(), all.as_ptr());
            (k.f32_to_bf16)(65535, back.as_mut_ptr(), f.as_ptr());
            for i in 0..65535usize {
                assert_eq!(f[i].to_bits(), (i as u32) << 16);
                assert!(back[i] == i as u16 || f[i].is_nan());
            }
        }
    }
}
