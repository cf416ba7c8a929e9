//! The kernels of every level that this machine supports, compared with double precision.

use super::*;
use crate::abi::ggml::ggml_type;

/// The tables of all levels that this machine supports.
pub fn levels() -> Vec<Kernels> {
    let mut all: Vec<Kernels> = Vec::new();
    for &level in Level::ALL {
        let k = Kernels::for_level(level);
        if k.level == level {
            all.push(k);
        }
    }
    all
}

/// A random generator with a fixed seed.
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

/// Row lengths with every remainder of a vector loop, and some longer rows.
const SIZES: [usize; 70] = {
    let mut sizes = [0; 70];
    let mut i = 0;
    while i < 66 {
        sizes[i] = i;
        i += 1;
    }
    (sizes[66], sizes[67], sizes[68], sizes[69]) = (127, 129, 191, 1000);
    sizes
};

#[test]
fn masked_scores_ignore_what_is_masked() {
    for k in levels() {
        for n in SIZES {
            let mut noise = Noise::new(n as u64 + 3);
            let (mut x, mut mask) = (noise.floats(n), noise.floats(n));
            for i in (0..n).step_by(3) {
                mask[i] = f32::NEG_INFINITY;
                x[i] = if i % 2 == 0 { f32::NAN } else { 100.0 };
            }
            let want: Vec<f32> = (0..n)
                .map(|i| if mask[i] == f32::NEG_INFINITY { mask[i] } else { 2.0 * mask[i] + x[i] * 0.25 })
                .collect();
            // SAFETY: the contract of `Kernels`: both rows have `n` floats.
            let top = unsafe { (k.mask_scores)(n, x.as_mut_ptr(), mask.as_ptr(), 0.25, 2.0) };
            assert!(x == want, "{:?}, {n} scores", k.level);
            assert_eq!(top, want.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)), "{:?}, {n} scores", k.level);
        }
    }
}

unsafe extern "C" {
    /// The C library's complementary error function.
    pub(in crate::cpu) safe fn erfc(x: f64) -> f64;
}

#[test]
fn powers_have_the_same_digits_for_every_exponent() {
    let x: Vec<f32> = (-4000..4000).map(|i| i as f32 / 50.0).chain([f32::NEG_INFINITY, f32::NAN, -1e30, 3e4]).collect();
    for k in levels() {
        let run = |e: f32| {
            let mut y = x.clone();
            // SAFETY: the contract of `Kernels`: `y` has `x.len()` floats, and is source and destination.
            unsafe { (k.exp_scaled)(x.len(), y.as_mut_ptr(), y.as_ptr(), e) };
            y
        };
        let most = if k.level == Level::Scalar { 1e-5 } else { 2.5e-7 };
        for e in [0.0, 7.0, 115.0, -3.0] {
            let (y, z) = (run(e), run(e + 4.0));
            for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
                let want = (f64::from(x) - f64::from(e) * std::f64::consts::LN_2).exp();
                if x.is_nan() {
                    assert!(y.is_nan() && z.is_nan());
                } else if want < 1e-36 {
                    assert!(f64::from(y) <= 1.01 * want, "{:?} e^{x} 2^-{e} = {y}", k.level);
                } else if want < 1e38 {
                    assert!(
                        (f64::from(y) - want).abs() <= most * want,
                        "{:?} e^{x} 2^-{e} = {y}, want {want}",
                        k.level
                    );
                    assert!(y == 16.0 * z, "{:?} e^{x} 2^-{e} = {y}, and {z} for {}", k.level, e + 4.0);
                }
            }
        }
    }
}

/// Activations for tiles and for matrix times column have the same bytes at all levels, also for zeros, infinities, NaN
/// and ties.
#[test]
fn activations_have_the_same_bytes_at_all_levels() {
    let levels = levels();
    let n = 32 * 24;
    let mut x = Noise::new(5).floats(n);
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, 1e-45, f32::MAX, -f32::MAX, 0.0, -0.0];
    special.iter().enumerate().for_each(|(i, y)| x[32 * i + 5 * i % 32] = *y);
    x[320..352].fill(0.0);
    x[352..384].fill(-1.0);
    (0..32).for_each(|i| x[384 + i] = i as f32 / 2.0 + if i == 31 { 111.5 } else { 0.0 });
    let written = |act: unsafe fn(usize, *const f32, *mut u8), bytes: usize| {
        let mut y = vec![0u8; bytes + 1];
        // SAFETY: `x` has `n` floats, and `y` the bytes of a row of them in this form.
        unsafe { act(n, x.as_ptr(), y.as_mut_ptr()) };
        assert_eq!(y[bytes], 0);
        y
    };
    let mut compared = 0;
    for k in &levels {
        for (i, (group, offsets)) in [(32, false), (32, true), (16, false), (16, true)].into_iter().enumerate() {
            let form = form::Form { group, offsets, bits: 8 };
            assert_eq!(form.act_index(), i);
            let row = |k: &Kernels| written(k.byte_tiles.act[i], n / 32 * form.act_bytes());
            assert!(row(k) == row(&levels[0]), "{:?}, {i}", k.level);
        }
        for gemv in k.gemv.iter().flatten().filter(|g| matches!(g.layout, gemv::RowForm::Wide)) {
            let (scale, first) = (gemv::WideAct::new(n).scales(), written(gemv.act, gemv.layout.act_bytes(n)));
            for (block, x) in x.chunks(32).enumerate() {
                let (d, q) = super::act::levels(x.try_into().unwrap());
                let bytes: Vec<u8> = q.iter().map(|q| *q as u8).collect();
                assert!(first[32 * block..][..32] == bytes, "{:?}, block {block}", k.level);
                let d = if d.is_finite() { d } else { f32::NAN };
                assert!(first[scale + 4 * block..][..4] == d.to_bits().to_ne_bytes(), "{:?}, block {block}", k.level);
            }
            compared += 1;
        }
    }
    // These rows are those of AVX-512.
    assert!(compared > 0 || !levels.iter().any(|k| k.level == Level::Avx512));
}

/// Found halves are the results for inputs between -10 and 10 only, at any length.
#[test]
fn gelu_takes_what_was_found_between_its_ends() {
    let below = |x: f32| f32::from_bits(x.to_bits() - 1);
    type Want = fn(f32, f32) -> f32;
    let cases: [(f32, Want); 8] = [
        (-11.0, |_, _| 0.0),
        (f32::NEG_INFINITY, |_, _| 0.0),
        (-10.0, |_, _| 0.0),
        (-below(10.0), |_, found| found),
        (0.5, |_, found| found),
        (below(10.0), |_, found| found),
        (10.0, |x, _| x),
        (f32::INFINITY, |x, _| x),
    ];
    for k in levels() {
        for n in [1, 7, 8, 9, 15, 16, 17, 33, 100] {
            let mut y: Vec<f32> = (0..n).map(|i| cases[i % 8].0).collect();
            let found: Vec<f32> = (0..n).map(|i| i as f32 / 4.0 - 1.0).collect();
            let halves: Vec<u16> = found.iter().map(|&x| crate::quant::convert::f32_to_f16(x)).collect();
            // SAFETY: the contract of `gelu_found`: both have `n` numbers. `levels` has only levels that this machine
            // supports.
            unsafe { (k.gelu_found)(n, y.as_mut_ptr(), halves.as_ptr()) }
            for i in 0..n {
                assert_eq!(y[i], cases[i % 8].1(cases[i % 8].0, found[i]), "{:?}, {i} of {n}", k.level);
            }
        }
        let mut nan = [f32::NAN; 17];
        // SAFETY: as above.
        unsafe { (k.gelu_found)(17, nan.as_mut_ptr(), [0; 17].as_ptr()) }
        assert!(nan.iter().all(|x| x.is_nan()), "{:?}", k.level);
    }
}

#[test]
fn gelu_keeps_its_digits_in_the_tail() {
    let x: Vec<f32> = (-13_000..14_000).map(|i| i as f32 / 1000.0).collect();
    for k in levels() {
        let mut y = x.clone();
        // SAFETY: the contract of `Map`: `y` has `x.len()` floats, and is source and destination.
        unsafe { (k.gelu_erf)(x.len(), y.as_mut_ptr(), y.as_ptr()) };
        let most = if k.level == Level::Scalar { 2e-5 } else { 9e-7 };
        for (&x, &y) in x.iter().zip(&y) {
            let want = 0.5 * f64::from(x) * erfc(-f64::from(x) / std::f64::consts::SQRT_2);
            assert!((f64::from(y) - want).abs() <= most * want.abs(), "{:?} gelu({x}) = {y}, want {want}", k.level);
        }
        let x = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e30, 1e-40];
        let mut y = [1.0; 8];
        // SAFETY: the contract of `Map`: both have 8 floats, and do not overlap.
        unsafe { (k.gelu_erf)(8, y.as_mut_ptr(), x.as_ptr()) };
        assert!(y[0] == 0.0 && y[1] == 0.0 && y[2] == f32::INFINITY && y[4].is_nan() && y[5] == 1e30, "{y:?}");
        assert!(y[6] == 0.0 && (y[7] == 5e-41 || y[7] == 0.0), "{y:?}");
    }
}

#[test]
fn maps_agree_with_doubles() {
    type Case = (&'static str, fn(&Kernels) -> Map, fn(f64) -> f64);
    let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh());
    let cases: [Case; 9] = [
        ("exp", |k| k.vexp, f64::exp),
        ("tanh", |k| k.tanh, f64::tanh),
        ("relu", |k| k.relu, |x| x.max(0.0)),
        ("sqr", |k| k.sqr, |x| x * x),
        ("sigmoid", |k| k.sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        ("silu", |k| k.silu, |x| x / (1.0 + (-x).exp())),
        ("gelu", |k| k.gelu, gelu),
        ("gelu_erf", |k| k.gelu_erf, |x| 0.5 * x * erfc(-x / std::f64::consts::SQRT_2)),
        ("gelu_quick", |k| k.gelu_quick, |x| x / (1.0 + (-1.702 * x).exp())),
    ];
    for k in levels() {
        for (name, get, want) in cases {
            for n in SIZES {
                let mut noise = Noise::new(n as u64);
                let x: Vec<f32> = (0..n).map(|_| noise.float() * 20.0).collect();
                let mut y = vec![f32::NAN; n];
                // SAFETY: the contract of `Map`: both have `n` floats, and do not overlap. `levels` has only levels
                // that this machine supports.
                unsafe { get(&k)(n, y.as_mut_ptr(), x.as_ptr()) };
                for (x, y) in x.iter().zip(&y) {
                    let w = want(f64::from(*x));
                    let tolerance = 1e-6 * w.abs() + 1e-7 * if name == "gelu" { 1.0 } else { 1e-3 };
                    assert!((f64::from(*y) - w).abs() <= tolerance, "{:?} {name}({x}) = {y}, want {w}", k.level);
                }
                // In place.
                let mut z = x.clone();
                // SAFETY: the contract of `Map`: `z` has `n` floats, and is source and destination.
                unsafe { get(&k)(n, z.as_mut_ptr(), z.as_ptr()) };
                assert_eq!(y, z);
            }
        }
    }
}

#[test]
fn small_and_large_arguments() {
    for k in levels() {
        let x =
            [0.0, -0.0, 1e-30, -1e-4, 0.624_999_9, 0.625, -0.7, 9.0, 1e9, f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
        let mut y = [0.0; 12];
        // SAFETY: the contract of `Map`: both have 12 floats, and do not overlap.
        unsafe { (k.tanh)(12, y.as_mut_ptr(), x.as_ptr()) };
        for (x, y) in x.into_iter().zip(y).take(11) {
            assert!(
                (f64::from(y) - f64::from(x).tanh()).abs() <= 2.5e-7 * f64::from(y).abs(),
                "{:?} tanh({x}) = {y}",
                k.level
            );
        }
        assert!(y[11].is_nan());
        // SAFETY: the contracts of `Kernels`: both have 12 floats, and do not overlap.
        unsafe { (k.clamp)(12, y.as_mut_ptr(), x.as_ptr(), -0.5, 0.75) };
        let want = [0.0, -0.0, 1e-30, -1e-4, 0.624_999_9, 0.625, -0.5, 0.75, 0.75, -0.5, 0.75];
        assert_eq!(y[..11], want, "{:?}", k.level);
        assert!(y[11].is_nan());
        // SAFETY: as above.
        unsafe { (k.relu)(12, y.as_mut_ptr(), x.as_ptr()) };
        assert_eq!([y[3], y[5], y[9], y[10]], [0.0, 0.625, 0.0, f32::INFINITY], "{:?}", k.level);
        assert!(y[1].to_bits() == 0 && y[11].is_nan(), "{:?}", k.level);
    }
}

#[test]
fn sines_and_cosines_agree_with_doubles() {
    use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    // The scalar kernels are not used for large angles.
    for k in levels().into_iter().filter(|k| k.level != Level::Scalar) {
        for n in SIZES {
            let mut noise = Noise::new(n as u64);
            let ends = [0.0, -0.0, 1e-20, FRAC_PI_4, FRAC_PI_2, PI, -3.0 * FRAC_PI_4, 65_535.9, -65_535.9];
            let x: Vec<f32> = (0..n)
                .map(|i| match i % 4 {
                    0 => ends[i / 4 % ends.len()],
                    1 => noise.float(),
                    2 => noise.float() * 100.0,
                    _ => noise.float() * 60_000.0,
                })
                .collect();
            let (mut sin, mut cos) = (vec![f32::NAN; n], vec![f32::NAN; n]);
            // SAFETY: the contract of `Kernels`: all rows have `n` floats.
            unsafe { (k.sin_cos)(n, sin.as_mut_ptr(), cos.as_mut_ptr(), x.as_ptr()) };
            for i in 0..n {
                let (want_sin, want_cos) = f64::from(x[i]).sin_cos();
                let off = (f64::from(sin[i]) - want_sin).abs().max((f64::from(cos[i]) - want_cos).abs());
                assert!(off <= 1.2e-7, "{:?} of {}: {} and {}, off by {off:e}", k.level, x[i], sin[i], cos[i]);
            }
        }
    }
}

/// Pairs are rotated by their angles, whole vectors and the rest.
#[test]
fn rotations_agree_with_doubles() {
    for k in levels() {
        for n in [2, 6, 16, 18, 34, 128] {
            let mut noise = Noise::new(n as u64);
            let (x, angles) = (noise.floats(2 * n), noise.floats(n));
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
            let near = |got: f32, a: f32, c: f32, b: f32, s: f32| {
                let want = f64::from(a) * f64::from(c) + f64::from(b) * f64::from(s);
                assert!((f64::from(got) - want).abs() < 1e-6, "{:?}, {n}: {got}, not {want}", k.level);
            };
            let mut y = vec![f32::NAN; 2 * n];
            // SAFETY: the contracts of `Kernels`: `x` and `y` have `2 * n` floats, the others `n`.
            unsafe { (k.turn_halves)(n, y.as_mut_ptr(), x.as_ptr(), cos.as_ptr(), sin.as_ptr()) };
            for i in 0..n {
                near(y[i], x[i], cos[i], -x[n + i], sin[i]);
                near(y[n + i], x[i], sin[i], x[n + i], cos[i]);
            }
            let mut y = vec![f32::NAN; n + 1];
            // SAFETY: the contracts of `Kernels`: all have `n` floats.
            unsafe { (k.turn_pairs)(n, y.as_mut_ptr(), x.as_ptr(), cos.as_ptr(), sin.as_ptr()) };
            for i in 0..n {
                near(y[i], x[i], cos[i], x[i ^ 1], sin[i]);
            }
            assert!(y[n].is_nan(), "{:?}: written behind {n} elements", k.level);
        }
    }
}

#[test]
fn exp_at_the_ends() {
    for k in levels() {
        let x = [f32::NEG_INFINITY, -1e9, -104.1, 0.0, -0.0, 88.5, 89.5, f32::INFINITY, f32::NAN, -86.0, 1e-9];
        let mut y = [0.0; 11];
        // SAFETY: the contract of `Map`: both have 11 floats, and do not overlap.
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
            // SAFETY: the contract of `Kernels`: all rows have `n` elements, and none overlap.
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
        // SAFETY: the contract of `Kernels`: all rows have 65536 elements (of which some calls use 65535, an odd
        // number), and none overlap.
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

/// Random blocks that decode to numbers of moderate size.
pub fn random_row(t: ggml_type, n: usize, noise: &mut Noise) -> Vec<u8> {
    let traits = crate::quant::traits(t);
    let (values, bytes) = (traits.blck_size as usize, traits.type_size);
    if t == ggml_type::GGML_TYPE_F32 {
        return noise.floats(n).into_iter().flat_map(f32::to_le_bytes).collect();
    }
    let decode = traits.to_float.expect("a format that is read");
    let mut row = Vec::with_capacity(n / values * bytes);
    let mut y = vec![0.0; values];
    while row.len() < n / values * bytes {
        let mut block: Vec<u8> = (0..bytes).map(|_| (noise.bits() >> 32) as u8).collect();
        decode(&block, &mut y);
        if y.iter().all(|v| v.is_finite() && v.abs() < 1e4) && y.iter().any(|v| v.abs() > 1e-3) {
            row.append(&mut block);
        }
    }
    row
}

/// The values of a row.
pub fn decode_row(t: ggml_type, row: &[u8], n: usize) -> Vec<f32> {
    let mut y = vec![0.0; n];
    match t {
        ggml_type::GGML_TYPE_F32 => {
            y.iter_mut().zip(row.chunks_exact(4)).for_each(|(y, b)| *y = f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        }
        ggml_type::GGML_TYPE_Q8_K => crate::quant::block::decode_row::<crate::quant::q8_k::BlockQ8K>(row, &mut y),
        _ => crate::quant::traits(t).to_float.expect("a format that is read")(row, &mut y),
    }
    y
}

/// The values of a row of activations.
fn decode_activations(t: ggml_type, row: &[u8], n: usize) -> Vec<f32> {
    use crate::quant::{block, q8_1::BlockQ8_1};
    if t != ggml_type::GGML_TYPE_Q8_1 {
        return decode_row(t, row, n);
    }
    let blocks = row.chunks_exact(36).map(block::read::<BlockQ8_1>);
    blocks.flat_map(|b| b.qs.map(|q| f32::from(q) * crate::quant::convert::f16_to_f32(b.d))).collect()
}

#[test]
fn dot_products_of_every_format_agree_with_doubles() {
    for k in levels() {
        for (t, dot) in k.vec_dot.iter().enumerate() {
            let (Some(t), Some(dot)) = (ggml_type::from_raw(t as i32), dot) else { continue };
            let act = dot_type(t).unwrap();
            let from = k.from_float[act as usize].unwrap();
            let step = crate::quant::traits(t).blck_size as usize;
            for n in [1, 2, 3, 5, 16, 33].map(|i| i * step) {
                let mut noise = Noise::new(n as u64 + 77);
                let x = random_row(t, n, &mut noise);
                let y = noise.floats(n);
                let mut a = vec![0u8; crate::quant::row_size(act, n as i64)];
                // SAFETY: the contracts of `FromFloat` and `VecDot`: `y` has `n` floats, and `x` and `a` are rows of
                // `n` values in their formats.
                let got = unsafe {
                    from(y.as_ptr(), a.as_mut_ptr(), n);
                    dot(n, x.as_ptr(), a.as_ptr())
                };
                let (xv, av) = (decode_row(t, &x, n), decode_activations(act, &a, n));
                let products = xv.iter().zip(&av).map(|(x, a)| f64::from(*x) * f64::from(*a));
                let (want, size) = products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()));
                // Q8_1 stores its sums as halves.
                let tolerance = if act == ggml_type::GGML_TYPE_Q8_1 { 1e-3 } else { 2e-6 };
                assert!(
                    (f64::from(got) - want).abs() <= tolerance * size + 1e-30,
                    "{:?} {t:?} n={n}: {got}, want {want} (of {size})",
                    k.level
                );
            }
        }
    }
}

/// Activations of a host may have bytes of -128, which the conversions here do not produce. The byte product of AVX2
/// cannot negate them.
#[test]
fn dot_products_of_any_bytes_agree_with_doubles() {
    use crate::quant::{q8_0::BlockQ8_0, q8_k::BlockQ8K};
    let n = 512;
    for k in levels() {
        for (t, dot) in k.vec_dot.iter().enumerate() {
            let (Some(t), Some(dot)) = (ggml_type::from_raw(t as i32), dot) else { continue };
            let act = dot_type(t).unwrap();
            let mut noise = Noise::new(t as u64 + 3);
            let x = random_row(t, n, &mut noise);
            let byte = |noise: &mut Noise| if noise.bits() >> 62 == 0 { -128 } else { (noise.bits() >> 56) as i8 };
            let a: Vec<u8> = match act {
                ggml_type::GGML_TYPE_Q8_0 => (0..n / 32)
                    .flat_map(|_| {
                        let b = BlockQ8_0 { d: 0x3c00, qs: std::array::from_fn(|_| byte(&mut noise)) };
                        [b.d.to_le_bytes().to_vec(), b.qs.map(|q| q as u8).to_vec()].concat()
                    })
                    .collect(),
                ggml_type::GGML_TYPE_Q8_K => (0..n / 256)
                    .flat_map(|_| {
                        let mut b = BlockQ8K { d: 0.5, qs: std::array::from_fn(|_| byte(&mut noise)), bsums: [0; 16] };
                        for (s, q) in b.bsums.iter_mut().zip(b.qs.chunks_exact(16)) {
                            *s = q.iter().map(|q| i16::from(*q)).sum();
                        }
                        let sums = b.bsums.iter().flat_map(|s| s.to_le_bytes()).collect();
                        [b.d.to_le_bytes().to_vec(), b.qs.map(|q| q as u8).to_vec(), sums].concat()
                    })
                    .collect(),
                _ => continue,
            };
            // SAFETY: the contract of `VecDot`: `x` and `a` are rows of `n` values in their formats.
            let got = unsafe { dot(n, x.as_ptr(), a.as_ptr()) };
            let (xv, av) = (decode_row(t, &x, n), decode_activations(act, &a, n));
            let products = xv.iter().zip(&av).map(|(x, a)| f64::from(*x) * f64::from(*a));
            let (want, size) = products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()));
            assert!(
                (f64::from(got) - want).abs() <= 2e-6 * size + 1e-30,
                "{:?} {t:?}: {got}, want {want} (of {size})",
                k.level
            );
        }
    }
}

#[test]
fn activation_formats_are_the_same_at_every_level() {
    let all = levels();
    for t in [ggml_type::GGML_TYPE_Q8_0, ggml_type::GGML_TYPE_Q8_1, ggml_type::GGML_TYPE_Q8_K] {
        for n in [256, 512, 2560] {
            let mut noise = Noise::new(n as u64);
            let mut x = noise.floats(n);
            // Ties, both signs, zeros and tiny numbers.
            x[..256]
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = (i as f32 - 127.5) * if n == 512 { 0.5 } else { 1.0 });
            x[n - 32..].fill(if n == 2560 { 1e-42 } else { 0.0 });
            let rows: Vec<Vec<u8>> = all
                .iter()
                .map(|k| {
                    let mut y = vec![0u8; crate::quant::row_size(t, n as i64)];
                    // SAFETY: the contract of `FromFloat`: `x` has `n` floats, and `y` has room for a row of `n`
                    // values.
                    unsafe { k.from_float[t as usize].unwrap()(x.as_ptr(), y.as_mut_ptr(), n) };
                    y
                })
                .collect();
            assert!(rows.iter().all(|r| *r == rows[0]), "{t:?}");
            let back = decode_activations(t, &rows[0], n);
            let top = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            assert!(back.iter().zip(&x[..n - 32]).all(|(b, x)| (b - x).abs() <= top / 200.0), "{t:?}");
        }
    }
}

/// `a * b + c`, rounded once. `mul_add` is the C library's where the compiler does not know that the processor has the
/// instruction, and MinGW's is wrong in its last bits.
fn fused(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c)); // the product is exact
    let sum = product + c;
    let part = sum - product;
    let rest = (product - (sum - part)) + (c - part); // what the sum lacks
    // A sum that is not exact gets an odd last bit: then it is on the right side of the middle between two floats.
    if rest == 0.0 || sum.to_bits() & 1 == 1 {
        return sum as f32;
    }
    let away = (rest > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 }) as f32
}

/// The result for a row and a column of `n` values, in the order of a tile: the exact sum of each group, times its
/// scale, is added in the order of `k`. `act` has blocks of the form of the unpacked weights.
fn in_order(level: Level, unpacker: tile::Unpacker, row: &[u8], act: &[u8], n: usize) -> f32 {
    let form::Form { group, offsets, bits } = unpacker.form;
    let (mut q, mut scales, mut more) = (vec![0i8; n], vec![0.0f32; n / group], vec![0.0f32; n / group]);
    // SAFETY: the contract of `UnpackRow`: the row has `n` values, and there is room for them, their scales and
    // offsets.
    unsafe { (unpacker.row)(row.as_ptr(), n, q.as_mut_ptr(), scales.as_mut_ptr(), more.as_mut_ptr()) };
    assert!(bits == 8 || q.iter().all(|q| *q as u8 >> bits == 0), "values of more than {bits} bits");
    let (flip, bias) = (flip(level), bias(unpacker.form));
    // The processor without features does not fuse.
    let mul_add = |a: f32, b: f32, c: f32| if level == Level::Scalar { a * b + c } else { fused(a, b, c) };
    let mut result = 0.0f32;
    for (g, q) in q.chunks(group).enumerate() {
        let block = &act[group * g / 32 * unpacker.form.act_bytes()..];
        let values = &block[group * g % 32..][..group];
        let d = f32::from_le_bytes(block[32..36].try_into().unwrap());
        let sum: i32 =
            q.iter().zip(values).map(|(q, a)| (i32::from(*q ^ flip as i8) - bias) * i32::from(*a as i8)).sum();
        result = mul_add(sum as f32 * scales[g], d, result);
        if offsets {
            let total: i32 = values.iter().map(|a| i32::from(*a as i8)).sum();
            result = mul_add(more[g], d * total as f32, result);
        }
    }
    result
}

/// What is added to values of a few bits.
fn bias(form: form::Form) -> i32 {
    if form.bits >= 8 || form.offsets { 0 } else { 1 << (form.bits - 1) }
}

/// What unpacked bytes are combined with.
fn flip(level: Level) -> u8 {
    if matches!(level, Level::AvxVnni | Level::Avx512Vnni | Level::Avx512Bf16 | Level::Amx) { 0x80 } else { 0 }
}

/// Numbers of values of a row, and of rows.
const ROWS: [(usize, usize); 7] = [(32, 3), (64, 7), (96, 9), (256, 1), (512, 8), (1280, 19), (2304, 5)];

/// Rows of a format with all kinds of scales.
fn rows_of(t: ggml_type, n: usize, rows: usize, noise: &mut Noise) -> Vec<u8> {
    let mut x = random_row(t, n * rows, noise);
    match t {
        ggml_type::GGML_TYPE_MXFP4 => {
            for (i, block) in x.chunks_mut(17).enumerate() {
                block[0] = [0, 1, 2, 127, 200, 3][i % 6];
            }
        }
        ggml_type::GGML_TYPE_NVFP4 => {
            for (i, block) in x.chunks_mut(36).enumerate() {
                block[..4].copy_from_slice(&[[0, 1, 0x7f, 0xff], [0x7e, 0x80, 0x38, 7]][i % 2]);
            }
        }
        _ => {}
    }
    x
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// A result of matrix times column has the bits of a tile.
#[test]
fn matrix_times_column_adds_in_the_order_of_a_tile() {
    for k in levels() {
        let mut n_formats = 0;
        for t in 0..crate::quant::types::COUNT {
            let (Some(gemv), Some(unpacker)) = (k.gemv[t], k.byte_tiles.unpack[t]) else { continue };
            n_formats += 1;
            let in_file = k.gemv_in_file[t].unwrap_or(gemv);
            let act_index = unpacker.form.act_index();
            assert!(matches!(in_file.layout, gemv::RowForm::Blocks(form) if form.act_index() == act_index));
            let t = ggml_type::from_raw(t as i32).unwrap();
            let unit = crate::quant::traits(t).blck_size as usize;
            let sizes = ROWS.into_iter().filter(|(n, _)| n % unit == 0);
            for ((n, rows), gemv) in sizes.flat_map(|size| [gemv, in_file].map(|gemv| (size, gemv))) {
                let mut noise = Noise::new((n + rows) as u64);
                let x = rows_of(t, n, rows, &mut noise);
                let stride = x.len() / rows;
                let mut y = noise.floats(n);
                y[n - 1] = if rows == 9 { f32::INFINITY } else { 0.5 };
                let form = unpacker.form;
                let (mut a, mut blocks) = (vec![0u8; gemv.layout.act_bytes(n)], vec![0u8; n / 32 * form.act_bytes()]);
                let mut got = vec![f32::NAN; rows + 1];
                // SAFETY: the contracts of `Gemv` and `ActRow`: `y` has `n` floats, `a` and `blocks` the bytes of a
                // row, `x` has `rows` rows, and `got` room for them.
                unsafe {
                    (gemv.act)(n, y.as_ptr(), a.as_mut_ptr());
                    k.byte_tiles.act[form.act_index()](n, y.as_ptr(), blocks.as_mut_ptr());
                    (gemv.rows)(n, x.as_ptr(), stride, rows, a.as_ptr(), got.as_mut_ptr());
                }
                assert!(got[rows].is_nan(), "{t:?}: written behind {rows} rows");
                for r in 0..rows {
                    let want = in_order(k.level, unpacker, &x[r * stride..], &blocks, n);
                    assert!(same(got[r], want), "{:?} {t:?}, {n} values, row {r}: {}, not {want}", k.level, got[r]);
                }
            }
        }
        assert!(n_formats >= 25, "{n_formats} formats at {:?}", k.level);
    }
}

/// Interleaved rows give the same, in one step or several, and unpack to the bytes and scales of rows that are unpacked
/// one by one. The rows can be restored.
#[test]
fn interleaved_rows_compute_in_the_order_of_a_tile() {
    for k in levels() {
        let mut n_formats = 0;
        for t in 0..crate::quant::types::COUNT {
            let (Some(f), Some(unpacker)) = (k.interleaved[t], k.byte_tiles.unpack[t]) else { continue };
            n_formats += 1;
            let lanes = f.lanes;
            let t = ggml_type::from_raw(t as i32).unwrap();
            assert_eq!(
                (f.form.act_index(), f.shape.values as i64, f.shape.bytes),
                (unpacker.form.act_index(), t.blck_size(), t.type_size()),
                "{t:?}"
            );
            for (n, _) in ROWS.into_iter().filter(|(n, _)| n % f.shape.values == 0) {
                let mut noise = Noise::new(n as u64);
                let x = rows_of(t, n, lanes, &mut noise);
                let stride = x.len() / lanes;
                let rows: Vec<*const u8> = x.chunks(stride).map(<[u8]>::as_ptr).collect();
                let most = f.columns[0].0;
                let columns: Vec<Vec<u8>> = (0..most)
                    .map(|c| {
                        let mut y = noise.floats(n);
                        y[n - 1] = if n == 96 && c == 0 { f32::NAN } else { 0.5 };
                        let mut act = vec![0u8; n / 32 * f.form.act_bytes()];
                        // SAFETY: the contract of `ActRow`: `y` has `n` floats, and `act` the bytes of a row.
                        unsafe { k.byte_tiles.act[f.form.act_index()](n, y.as_ptr(), act.as_mut_ptr()) };
                        act
                    })
                    .collect();
                let mut strip = vec![0u8; x.len()];
                let step = n / 2 / f.shape.values * f.shape.values;
                let (strip_at, act_at) = (step * stride / n * lanes, step / 32 * f.form.act_bytes());
                let groups = n / f.form.group;
                let wide = f.form.bits == 16;
                let mut panel = (
                    vec![0u8; n * lanes * if wide { 2 } else { 1 }],
                    vec![0.0f32; groups * lanes],
                    vec![0.0f32; groups * lanes],
                );
                // SAFETY: the contracts of the kernels: there are `lanes` rows of `n` values, and room for the strip
                // and the panel.
                unsafe {
                    (f.interleave)(n, rows.as_ptr(), strip.as_mut_ptr(), std::ptr::null());
                    let to = interleave::Unpacked {
                        q: panel.0.as_mut_ptr(),
                        scales: panel.1.as_mut_ptr(),
                        offsets: panel.2.as_mut_ptr(),
                    };
                    (f.unpack)(n, strip.as_ptr(), to, lanes);
                }
                let mut widths = Vec::new();
                for &(width, kernel) in f.columns {
                    widths.push(width);
                    let (mut got, mut twice) = (vec![vec![f32::NAN; lanes]; width], vec![vec![f32::NAN; lanes]; width]);
                    let acts: Vec<*const u8> = columns.iter().map(|a| a.as_ptr()).collect();
                    let rest: Vec<*const u8> = columns.iter().map(|a| a[act_at..].as_ptr()).collect();
                    let to: Vec<*mut f32> = got.iter_mut().map(|d| d.as_mut_ptr()).collect();
                    let in_two: Vec<*mut f32> = twice.iter_mut().map(|d| d.as_mut_ptr()).collect();
                    // SAFETY: the contract of `Columns`: there are `width` columns of `n` values, and room for `lanes`
                    // results of each.
                    unsafe {
                        kernel(n, strip.as_ptr(), true, acts.as_ptr(), to.as_ptr(), lanes, false);
                        kernel(step, strip.as_ptr(), false, acts.as_ptr(), in_two.as_ptr(), lanes - 1, false);
                        kernel(
                            n - step,
                            strip[strip_at..].as_ptr(),
                            true,
                            rest.as_ptr(),
                            in_two.as_ptr(),
                            lanes - 1,
                            true,
                        );
                    }
                    for (c, act) in columns[..width].iter().enumerate() {
                        for (r, row) in x.chunks(stride).enumerate() {
                            let want = in_order(k.level, unpacker, row, act, n);
                            let at = format!("{:?} {t:?}, {n} values, row {r}, column {c} of {width}", k.level);
                            assert!(same(got[c][r], want), "{at}: {}, not {want}", got[c][r]);
                            assert!(r == lanes - 1 || same(twice[c][r], want), "{at}: in two steps");
                        }
                        assert!(twice[c][lanes - 1].is_nan(), "{t:?}: written behind the rows");
                    }
                }
                assert!(widths.is_sorted_by(|a, b| a > b) && widths.last() == Some(&1), "{t:?}: {widths:?}");
                for (r, row) in x.chunks(stride).enumerate() {
                    let (mut q, mut s, mut o) = (vec![0i8; n], vec![0.0f32; groups], vec![0.0f32; groups]);
                    // SAFETY: the contract of `UnpackRow`: the row has `n` values, and there is room for them, their
                    // scales and offsets.
                    unsafe { (unpacker.row)(row.as_ptr(), n, q.as_mut_ptr(), s.as_mut_ptr(), o.as_mut_ptr()) };
                    for i in (0..n).filter(|_| wide) {
                        let at = 2 * ((i / 2 * lanes + r) * 2 + i % 2);
                        assert_eq!(
                            i16::from_le_bytes(panel.0[at..at + 2].try_into().unwrap()),
                            i16::from(q[i]) - bias(unpacker.form) as i16,
                            "{:?} {t:?}, row {r}, value {i}",
                            k.level
                        );
                    }
                    for i in (0..n).filter(|_| !wide) {
                        assert_eq!(
                            panel.0[(i / 4 * lanes + r) * 4 + i % 4],
                            (i32::from(q[i]) - bias(unpacker.form) + bias(f.form)) as u8,
                            "{:?} {t:?}, row {r}, value {i}",
                            k.level
                        );
                    }
                    for g in 0..groups {
                        assert!(
                            same(panel.1[g * lanes + r], s[g]) && same(panel.2[g * lanes + r], o[g]),
                            "{t:?}, row {r}, group {g}"
                        );
                    }
                }
                let mut back = vec![0u8; x.len()];
                interleave::restore(&f, &strip, &mut back, stride);
                assert!(back == x, "{t:?}: the rows are not restored");
            }
        }
        assert_eq!(n_formats, if k.level == Level::Scalar { 0 } else { 18 }, "{:?}", k.level);
    }
}
