//! The float kernels: generic code over [`Lanes`] that is compiled for each instruction set.
//!
//! Sums use several vector accumulators, so their rounding depends on the instruction set, but not on the number of
//! threads or on alignment.

use super::lanes::Lanes;

// Loops over vectors are macros, not functions that take a closure: a closure that is too large to be inlined would be
// compiled without the instruction set, and every instruction in it would become a call.

/// `dst[i] = f(a[i])` for `n` floats.
macro_rules! map {
    ($n:expr, $dst:expr, $a:expr, |$x:ident| $f:expr) => {{
        let whole = $n - $n % V::N;
        let mut i = 0;
        while i < whole {
            let $x = V::load($a.add(i));
            $f.store($dst.add(i));
            i += V::N;
        }
        if i < $n {
            let $x = V::load_part($a.add(i), $n - i);
            $f.store_part($dst.add(i), $n - i);
        }
    }};
}

/// `dst[i] = f(a[i], b[i])` for `n` floats.
macro_rules! map2 {
    ($n:expr, $dst:expr, $a:expr, $b:expr, |$x:ident, $y:ident| $f:expr) => {{
        let whole = $n - $n % V::N;
        let mut i = 0;
        while i < whole {
            let ($x, $y) = (V::load($a.add(i)), V::load($b.add(i)));
            $f.store($dst.add(i));
            i += V::N;
        }
        if i < $n {
            let ($x, $y) = (V::load_part($a.add(i), $n - i), V::load_part($b.add(i), $n - i));
            $f.store_part($dst.add(i), $n - i);
        }
    }};
}

/// Converts `n` floats to numbers of 16 bits by the methods that store one vector and two.
macro_rules! narrow {
    ($n:expr, $dst:expr, $x:expr, $one:ident, $pair:ident) => {{
        let mut i = 0;
        while $n - i >= 2 * V::N {
            V::$pair(V::load($x.add(i)), V::load($x.add(i + V::N)), $dst.add(i));
            i += 2 * V::N;
        }
        if $n - i >= V::N {
            V::load($x.add(i)).$one($dst.add(i));
            i += V::N;
        }
        if i < $n {
            let mut rest = [0u16; 32];
            V::load_part($x.add(i), $n - i).$one(rest.as_mut_ptr());
            for (j, h) in rest.into_iter().enumerate().take($n - i) {
                $dst.add(i + j).write_unaligned(h);
            }
        }
    }};
}

/// Sum of `full(i)` over whole vectors, and of `part` for the rest. The lanes are added to a double every 4096
/// elements: this is for numbers of one sign. Sums that may cancel are those of [`sum`] and [`dot_wide`].
#[inline(always)]
unsafe fn reduce<V: Lanes>(n: usize, full: impl Fn(usize) -> V, part: impl FnOnce(usize, usize) -> V) -> f64 {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let mut total = 0.0;
        let mut i = 0;
        while n - i >= V::N {
            let end = n.min(i + 4096);
            let mut acc = [V::splat(0.0); 4];
            while end - i >= 4 * V::N {
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = acc.add(full(i + j * V::N));
                }
                i += 4 * V::N;
            }
            while end - i >= V::N {
                acc[0] = acc[0].add(full(i));
                i += V::N;
            }
            total += f64::from(acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum());
        }
        if i < n {
            total += f64::from(part(i, n - i).sum());
        }
        total
    }
}

/// Vectors whose lanes are added to doubles of their own, so that the additions do not wait for each other.
const WIDE: usize = 2;

/// Adds `add(i, sums)` for whole vectors, and `part` for the rest, in double precision.
macro_rules! wide {
    ($n:expr, |$i:ident, $sums:ident| $add:expr, |$rest:ident| $part:expr) => {{
        let mut acc = [V::no_sums(); WIDE];
        let mut i = 0;
        while $n - i >= WIDE * V::N {
            for j in 0..WIDE {
                let ($i, $sums) = (i + j * V::N, acc[j]);
                acc[j] = $add;
            }
            i += WIDE * V::N;
        }
        while $n - i >= V::N {
            let ($i, $sums) = (i, acc[0]);
            acc[0] = $add;
            i += V::N;
        }
        if i < $n {
            let ($i, $sums, $rest) = (i, acc[1], $n - i);
            acc[1] = $part;
        }
        V::total(acc[0]) + V::total(acc[1])
    }};
}

/// What is left of `x` without `n` times ln 2, which is split into two parts. The first has few bits, so its multiples
/// are exact.
#[inline(always)]
unsafe fn without_powers<V: Lanes>(x: V, n: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let r = n.neg_mul_add(V::splat(LN_2[0]), x);
        n.neg_mul_add(V::splat(LN_2[1]), r)
    }
}

/// Cephes' polynomial for `e^r` on `|r| <= ln 2 / 2`.
#[inline(always)]
unsafe fn exp_of_rest<V: Lanes>(r: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let p = V::splat(1.987_569_2e-4).mul_add(r, V::splat(1.398_2e-3)).mul_add(r, V::splat(8.333_452e-3));
        let p = p.mul_add(r, V::splat(4.166_579_6e-2)).mul_add(r, V::splat(1.666_666_6e-1)).mul_add(r, V::splat(0.5));
        p.mul_add(r, V::splat(1.0)).mul_add(r, V::splat(1.0))
    }
}

/// `e^x` for numbers whose powers are normal: at most 2 units in the last place; zero below -86.99, infinity above
/// 88.73, NaN for NaN.
///
/// # Safety
/// As for [`Lanes`]: the processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn exp_normal<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let x = x.max(V::splat(-87.5)).min(V::splat(89.0));
        let (n, power) = x.split_power(V::splat(std::f32::consts::LOG2_E));
        exp_of_rest(without_powers(x, n)).times_power(power)
    }
}

/// `e^x`: at most 2 units in the last place, subnormal numbers included; infinity above 88.73, NaN for NaN.
#[inline(always)]
unsafe fn exp<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let x = x.max(V::splat(LEAST_POWER)).min(V::splat(89.0));
        let (n, powers) = x.split_powers(V::splat(std::f32::consts::LOG2_E), x);
        exp_of_rest(without_powers(x, n)).times_powers(powers)
    }
}

/// [`exp`] for numbers up to 70, with fewer operations.
#[inline(always)]
unsafe fn exp_falling<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let x = x.max(V::splat(LEAST_POWER));
        let (n, powers) = x.split_powers(V::splat(std::f32::consts::LOG2_E), V::splat(-1.0));
        exp_of_rest(without_powers(x, n)).times_powers(powers)
    }
}

/// From this number on, all powers are normal, and [`exp`] and [`exp_normal`] have the same bits.
const NORMAL_POWER: f32 = -86.5;
/// The power of this number is exactly zero, without a multiplication that underflows.
const LEAST_POWER: f32 = -105.2;

/// `e^x 2^-e` for an integer `e`; zero below `2^-126`. For each `e`, the result has the same digits.
#[inline(always)]
unsafe fn exp_scaled_lanes<V: Lanes>(x: V, e: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        // Far enough below for zero, but not minus infinity, which has no remainder.
        let x = x.max(V::splat(-1e38));
        let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
        let r = n.neg_mul_add(V::splat(LN_2[0]), x);
        let r = n.neg_mul_add(V::splat(LN_2[1]), r);
        // Of numbers so large that their digits say nothing about the remainder, this is not small.
        let r = r.max(V::splat(-0.5)).min(V::splat(0.5));
        let power = n.sub(e).max(V::splat(-126.0)).min(V::splat(128.0)).power();
        exp_of_rest(r).times_power(power)
    }
}

/// `e^-x` with two operations less: at most 2 units in the last place.
#[inline(always)]
unsafe fn exp_of_negative<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let x = x.max(V::splat(-89.0)).min(V::splat(87.5));
        let (n, power) = x.split_power(V::splat(-std::f32::consts::LOG2_E));
        // What is left has the other sign, and so have the odd terms of the polynomial.
        let r = n.mul_add(V::splat(LN_2[0]), x);
        let r = n.mul_add(V::splat(LN_2[1]), r);
        let p = V::splat(SHORT_EXP[4]).mul_add(r, V::splat(-SHORT_EXP[3])).mul_add(r, V::splat(SHORT_EXP[2]));
        let p = p.mul_add(r, V::splat(-SHORT_EXP[1])).mul_add(r, V::splat(SHORT_EXP[0]));
        p.neg_mul_add(r, V::splat(1.0)).times_power(power)
    }
}

/// The two parts of ln 2.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Polynomial of `(e^r - 1) / r` for `|r| <= ln 2 / 2`, with the least relative error of `e^r`: 9.2e-8.
const SHORT_EXP: [f32; 5] = [0.999_999_7, 0.499_991_48, 0.166_676_39, 0.041_898_16, 0.008_290_271];

/// Hyperbolic tangent: at most 3 units in the last place.
#[inline(always)]
unsafe fn tanh_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let size = x.max(zero.sub(x));
        let far = one.sub(V::splat(2.0).div(exp_normal(size.add(size)).add(one)));
        // Cephes' polynomial near zero, where the difference above loses its digits.
        let z = x.mul(x);
        let p = V::splat(-5.704_988_7e-3).mul_add(z, V::splat(2.063_909e-2));
        let p = p.mul_add(z, V::splat(-5.373_971_6e-2));
        let p = p.mul_add(z, V::splat(1.333_144_2e-1));
        let p = p.mul_add(z, V::splat(-3.333_328e-1));
        size.if_less(V::splat(0.625), p.mul(z).mul_add(size, size), far).with_sign_of(x)
    }
}

/// `ln(1 + e^x)` as `max(x, 0) + ln(1 + e^-|x|)`.
#[inline(always)]
unsafe fn softplus_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let zero = V::splat(0.0);
        let e = exp_falling(x.min(zero.sub(x)));
        let mut p = V::splat(LOG_OF_ONE_AND[8]);
        for i in (0..8).rev() {
            p = p.mul_add(e, V::splat(LOG_OF_ONE_AND[i]));
        }
        // The first term is added last, so that the others are rounded with it.
        zero.max(x).add(p.mul(e).neg_mul_add(e, e))
    }
}

/// Polynomial of `(1 - ln(1 + e) / e) / e` for `e` from 0 to 1: relative error of the logarithm 5.3e-9.
const LOG_OF_ONE_AND: [f32; 9] = [
    0.499_999_3,
    -0.333_304_7,
    0.249_581_49,
    -0.196_931_23,
    0.153_488_19,
    -0.106_694_21,
    0.057_554_517,
    -0.020_145_984,
    0.003_305_438_7,
];

/// Sine and cosine, at most 2 units in the last place of 1, for numbers of magnitude below [`MAX_ANGLE`]. Lanes that do
/// not fuse are less precise.
#[inline(always)]
unsafe fn sin_cos_lanes<V: Lanes>(x: V) -> (V, V) {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let (zero, half) = (V::splat(0.0), V::splat(0.5));
        let n = x.mul(V::splat(std::f32::consts::FRAC_2_PI)).round();
        // pi / 2 in three parts: the first product is exact, as it is fused, and so is the difference.
        let r = n.neg_mul_add(V::splat(std::f32::consts::FRAC_PI_2), x);
        let r = n.neg_mul_add(V::splat(-4.371_139e-8), r);
        let r = n.neg_mul_add(V::splat(-1.715_124_5e-15), r);
        let z = r.mul(r);
        // Cephes' polynomials for |r| <= pi / 4.
        let p = V::splat(-1.951_529_6e-4).mul_add(z, V::splat(8.332_161e-3)).mul_add(z, V::splat(-1.666_665_5e-1));
        let sin = p.mul(z).mul_add(r, r);
        let p = V::splat(2.443_315_7e-5).mul_add(z, V::splat(-1.388_731_6e-3)).mul_add(z, V::splat(4.166_664_6e-2));
        let cos = p.mul_add(z, V::splat(-0.5)).mul_add(z, V::splat(1.0));
        // The quarter turn, from -2 to 2.
        let q = n.mul(V::splat(0.25)).round().neg_mul_add(V::splat(4.0), n);
        let size = q.max(zero.sub(q));
        let one_and_half = V::splat(1.5);
        let s = size.if_less(half, sin, size.if_less(one_and_half, cos, sin));
        let c = size.if_less(half, cos, size.if_less(one_and_half, sin, cos));
        let (minus_s, minus_c) = (zero.sub(s), zero.sub(c));
        (
            q.if_less(V::splat(-0.5), minus_s, one_and_half.if_less(q, minus_s, s)),
            q.if_less(V::splat(-1.5), minus_c, half.if_less(q, minus_c, c)),
        )
    }
}

/// Numbers of this magnitude and above are not for `Kernels::sin_cos`.
pub const MAX_ANGLE: f32 = 65_536.0;

/// `1 / (1 + e^-x)`, subnormal numbers included.
#[inline(always)]
unsafe fn sigmoid_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let power = exp_falling(x.min(zero.sub(x)));
        x.if_less(zero, power, one).div(one.add(power))
    }
}

/// [`sigmoid_lanes`] as a factor: with fewer operations, and zero from -88 on.
#[inline(always)]
unsafe fn logistic<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe { V::splat(1.0).div(V::splat(1.0).add(exp_of_negative(x))) }
}

/// `x / (1 + e^-x)`.
#[inline(always)]
unsafe fn silu_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe { x.div(V::splat(1.0).add(exp_of_negative(x))) }
}

/// `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, which is `x` times the logistic function of twice the argument.
#[inline(always)]
unsafe fn gelu_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        const TWICE: f32 = 2.0 * 0.797_884_6;
        // Below, the factor is 0, and minus infinity times it would be NaN.
        let x = x.max(V::splat(-14.0));
        let cube = x.mul(x).mul_add(V::splat(0.044715), V::splat(1.0));
        x.mul(logistic(x.mul(cube).mul(V::splat(TWICE))))
    }
}

/// Polynomial of `e^(a^2 / 2) P(X > a) / t` with `t = 1 / (1 + 0.3 a)`, where X has the standard normal distribution:
/// relative error 1.3e-7 for `a` from 0 to 13.5.
const NORMAL_TAIL: [f32; 8] = [
    0.119_626_39,
    0.120_798_36,
    0.099_637_51,
    0.129_469_14,
    -0.055_393_726,
    0.208_206_46,
    -0.158_275_92,
    0.035_931_714,
];

/// Polynomial of `(P(X < x) - 1/2) / x` in `x^2`, where X has the standard normal distribution: absolute error of the
/// probability 8e-9 for `|x|` up to 1.
const NORMAL_CENTRE: [f32; 5] = [0.398_942_2, -0.066_488_76, 0.009_964_243, -0.001_165_434_7, 9.250_1e-5];

/// `x P(X < x)`, where X has the standard normal distribution: the GELU by the error function. The relative error is at
/// most 9e-7 from -13 on, for negative numbers, too, where a sum of 1 and the error function would lose digits. Lanes
/// that do not fuse are less precise.
#[inline(always)]
unsafe fn gelu_erf_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let a = x.max(zero.sub(x)).min(V::splat(14.0));
        let t = one.div(V::splat(0.3).mul_add(a, one));
        let mut p = V::splat(NORMAL_TAIL[7]);
        for i in (0..7).rev() {
            p = p.mul_add(t, V::splat(NORMAL_TAIL[i]));
        }
        let square = a.mul(a);
        let rounding = a.neg_mul_add(a, square);
        let tail = exp_of_negative(square.mul(V::splat(0.5))).mul(p.mul(t));
        let tail = tail.mul(V::splat(0.5)).mul_add(rounding, tail);
        let far = x.if_less(zero, tail, one.sub(tail));
        // Near zero half of the result is exact.
        let mut q = V::splat(NORMAL_CENTRE[4]);
        for i in (0..4).rev() {
            q = q.mul_add(square, V::splat(NORMAL_CENTRE[i]));
        }
        x.mul(a.if_less(one, q.mul_add(x, V::splat(0.5)), far))
    }
}

/// `x` times the logistic function of `1.702 x`.
#[inline(always)]
unsafe fn gelu_quick_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe { x.mul(logistic(x.mul(V::splat(1.702)))) }
}

macro_rules! kernels {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $body:expr;)*) => {$(
        /// See the field of this name in [`Kernels`](super::table::Kernels).
        ///
        /// # Safety
        /// As for that field, and the processor has the instruction set of `V`.
        #[inline(always)]
        #[allow(clippy::extra_unused_type_parameters)] // `instantiate!` passes `V` to all of them
        pub unsafe fn $name<V: Lanes>($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contracts of `Kernels` and `Lanes`: the pointers have `n` elements, and the processor has the
            // instruction set.
            unsafe { $body }
        }
    )*};
}

// The fields of the same names in `Kernels` have the documentation.
kernels! {
    fn add(n: usize, dst: *mut f32, a: *const f32, b: *const f32) = map2!(n, dst, a, b, |a, b| a.add(b));
    fn sub(n: usize, dst: *mut f32, a: *const f32, b: *const f32) = map2!(n, dst, a, b, |a, b| a.sub(b));
    fn mul(n: usize, dst: *mut f32, a: *const f32, b: *const f32) = map2!(n, dst, a, b, |a, b| a.mul(b));
    fn div(n: usize, dst: *mut f32, a: *const f32, b: *const f32) = map2!(n, dst, a, b, |a, b| a.div(b));
    fn axpy(n: usize, dst: *mut f32, x: *const f32, v: f32) = {
        let v = V::splat(v);
        map2!(n, dst, x, dst, |x, d| x.mul_add(v, d))
    };
    fn scale(n: usize, dst: *mut f32, x: *const f32, v: f32, bias: f32) = {
        let (v, bias) = (V::splat(v), V::splat(bias));
        map!(n, dst, x, |x| x.mul_add(v, bias))
    };
    fn times(n: usize, dst: *mut f32, x: *const f32, v: f32) = {
        let v = V::splat(v);
        map!(n, dst, x, |x| x.mul(v))
    };
    fn clamp(n: usize, dst: *mut f32, x: *const f32, least: f32, most: f32) = {
        let (least, most) = (V::splat(least), V::splat(most));
        // In this order of the operands, NaN stays.
        map!(n, dst, x, |x| x.min(most).max(least))
    };
    fn relu(n: usize, dst: *mut f32, x: *const f32) = {
        let zero = V::splat(0.0);
// NaN stays, and -0 becomes 0.
        map!(n, dst, x, |x| x.max(zero).add(zero))
    };
    fn sqr(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| x.mul(x));
    fn tanh(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| tanh_lanes(x));
    fn gelu_erf(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| gelu_erf_lanes(x));
    fn softplus(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| softplus_lanes(x));
    fn turn_pairs(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            let x = V::load(x.add(i));
            x.mul_add(V::load(cos.add(i)), x.swap_pairs().mul(V::load(sin.add(i)))).store(dst.add(i));
            i += V::N;
        }
        if i < n {
            let rest = n - i;
            let x = V::load_part(x.add(i), rest);
            let turned = x.swap_pairs().mul(V::load_part(sin.add(i), rest));
            x.mul_add(V::load_part(cos.add(i), rest), turned).store_part(dst.add(i), rest);
        }
    };
    fn turn_halves(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            let (a, b) = (V::load(x.add(i)), V::load(x.add(n + i)));
            let (cos, sin) = (V::load(cos.add(i)), V::load(sin.add(i)));
            b.neg_mul_add(sin, a.mul(cos)).store(dst.add(i));
            b.mul_add(cos, a.mul(sin)).store(dst.add(n + i));
            i += V::N;
        }
        if i < n {
            let rest = n - i;
            let (a, b) = (V::load_part(x.add(i), rest), V::load_part(x.add(n + i), rest));
            let (cos, sin) = (V::load_part(cos.add(i), rest), V::load_part(sin.add(i), rest));
            b.neg_mul_add(sin, a.mul(cos)).store_part(dst.add(i), rest);
            b.mul_add(cos, a.mul(sin)).store_part(dst.add(n + i), rest);
        }
    };
    fn sin_cos(n: usize, sin: *mut f32, cos: *mut f32, x: *const f32) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            let (s, c) = sin_cos_lanes(V::load(x.add(i)));
            s.store(sin.add(i));
            c.store(cos.add(i));
            i += V::N;
        }
        if i < n {
            let (s, c) = sin_cos_lanes(V::load_part(x.add(i), n - i));
            s.store_part(sin.add(i), n - i);
            c.store_part(cos.add(i), n - i);
        }
    };
    fn vexp(n: usize, dst: *mut f32, x: *const f32) =
        map!(n, dst, x, |x| if x.any_below(NORMAL_POWER) { exp(x) } else { exp_normal(x) });
    fn sigmoid(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| sigmoid_lanes(x));
    fn silu(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| silu_lanes(x));
    fn gelu(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| gelu_lanes(x));
    fn gelu_found(n: usize, dst: *mut f32, found: *const u16) = {
        let put = |x: V, found: V| {
            let end = V::splat(10.0);
            x.if_less(end, V::splat(-10.0).if_less(x, found, V::splat(0.0)), x)
        };
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            put(V::load(dst.add(i)), V::load_f16(found.add(i))).store(dst.add(i));
            i += V::N;
        }
        if i < n {
            let mut rest = [0u16; 32];
            found.add(i).copy_to_nonoverlapping(rest.as_mut_ptr(), n - i);
            put(V::load_part(dst.add(i), n - i), V::load_f16(rest.as_ptr())).store_part(dst.add(i), n - i);
        }
    };
    fn gelu_quick(n: usize, dst: *mut f32, x: *const f32) = map!(n, dst, x, |x| gelu_quick_lanes(x));
    fn swiglu(n: usize, dst: *mut f32, x: *const f32, g: *const f32) = map2!(n, dst, x, g, |x, g| silu_lanes(x).mul(g));
    fn geglu(n: usize, dst: *mut f32, x: *const f32, g: *const f32) = map2!(n, dst, x, g, |x, g| gelu_lanes(x).mul(g));
    fn exp_sum(n: usize, dst: *mut f32, x: *const f32, top: f32) -> f64 = {
        let top = V::splat(top);
        // The greatest power may be most of the sum: what is small must not be rounded each time that it is added.
        let mut sums = V::no_sums();
        let mut i = 0;
        while n - i >= 4 * V::N {
            let mut y = [top; 4];
            for (j, y) in y.iter_mut().enumerate() {
                *y = exp_falling(V::load(x.add(i + j * V::N)).sub(top));
                y.store(dst.add(i + j * V::N));
            }
            sums = y[0].add(y[1]).add(y[2].add(y[3])).add_to(sums);
            i += 4 * V::N;
        }
        while n - i >= V::N {
            let y = exp_falling(V::load(x.add(i)).sub(top));
            y.store(dst.add(i));
            sums = y.add_to(sums);
            i += V::N;
        }
        if i < n {
            exp_falling(V::load_part(x.add(i), n - i).sub(top)).store_part(dst.add(i), n - i);
            sums = V::load_part(dst.add(i), n - i).add_to(sums);
        }
        V::total(sums)
    };
    fn exp_scaled(n: usize, dst: *mut f32, x: *const f32, e: f32) = {
        let e = V::splat(e);
        map!(n, dst, x, |x| exp_scaled_lanes(x, e))
    };
    fn add_to_doubles(n: usize, dst: *mut f64, x: *const f32) = {
        for i in 0..n {
            dst.add(i).write(dst.add(i).read() + f64::from(x.add(i).read()));
        }
    };
    fn sum(n: usize, x: *const f32) -> f64 =
        wide!(n, |i, sums| V::add_floats(x.add(i), sums), |rest| V::load_part(x.add(i), rest).add_to(sums));
    fn dot_wide(n: usize, x: *const f32, y: *const f32) -> f64 = wide!(
        n,
        |i, sums| V::load(x.add(i)).add_product_to(V::load(y.add(i)), sums),
        |rest| V::load_part(x.add(i), rest).add_product_to(V::load_part(y.add(i), rest), sums)
    );
    fn sum_sq(n: usize, x: *const f32) -> f64 = {
        let square = |v: V| v.mul(v);
        reduce::<V>(n, |i| square(V::load(x.add(i))), |i, r| square(V::load_part(x.add(i), r)))
    };
    fn center(n: usize, dst: *mut f32, x: *const f32, mean: f32) -> f64 = {
        let m = V::splat(mean);
        let (full, part) = (
            |i: usize| {
                let y = V::load(x.add(i)).sub(m);
                y.store(dst.add(i));
                y.mul(y)
            },
            |i: usize, rest: usize| {
                V::load_part(x.add(i), rest).sub(m).store_part(dst.add(i), rest);
                let y = V::load_part(dst.add(i), rest);
                y.mul(y)
            },
        );
        reduce::<V>(n, full, part)
    };
    fn max(n: usize, x: *const f32) -> f32 = {
        let mut m = V::splat(f32::NEG_INFINITY);
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            // This order of the operands skips NaN.
            m = V::load(x.add(i)).max_skip_nan(m);
            i += V::N;
        }
        let mut m = m.top();
        while i < n {
            let x = x.add(i).read_unaligned();
            m = if x > m { x } else { m };
            i += 1;
        }
        m
    };
    fn mask_scores(n: usize, dst: *mut f32, mask: *const f32, v: f32, slope: f32) -> f32 = {
        let (v, slope, mut top) = (V::splat(v), V::splat(slope), V::splat(f32::NEG_INFINITY));
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            let m = V::load(mask.add(i));
            let x = slope.mul(m).add(V::load(dst.add(i)).mul(v)).masked(m);
            x.store(dst.add(i));
            top = x.max_skip_nan(top);
            i += V::N;
        }
        let mut top = top.top();
        if i < n {
            let m = V::load_part(mask.add(i), n - i);
            slope.mul(m).add(V::load_part(dst.add(i), n - i).mul(v)).masked(m).store_part(dst.add(i), n - i);
            top = top.max(max::<V>(n - i, dst.add(i)));
        }
        top
    };
    fn f16_to_f32(n: usize, dst: *mut f32, x: *const u16) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            V::load_f16(x.add(i)).store(dst.add(i));
            i += V::N;
        }
        if i < n {
            widen_part::<V>(n - i, x.add(i), |p| V::load_f16(p)).store_part(dst.add(i), n - i);
        }
    };
    fn bf16_to_f32(n: usize, dst: *mut f32, x: *const u16) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            V::load_bf16(x.add(i)).store(dst.add(i));
            i += V::N;
        }
        if i < n {
            widen_part::<V>(n - i, x.add(i), |p| V::load_bf16(p)).store_part(dst.add(i), n - i);
        }
    };
    fn f8_to_f32(n: usize, dst: *mut f32, x: *const u8) = {
        let whole = n - n % V::N;
        let mut i = 0;
        while i < whole {
            V::load_f8(x.add(i)).store(dst.add(i));
            i += V::N;
        }
        if i < n {
            widen_bytes::<V>(n - i, x.add(i)).store_part(dst.add(i), n - i);
        }
    };
    fn f32_to_f16(n: usize, dst: *mut u16, x: *const f32) = narrow!(n, dst, x, store_f16, store_f16_pair);
    fn f32_to_bf16(n: usize, dst: *mut u16, x: *const f32) = narrow!(n, dst, x, store_bf16, store_bf16_pair);
    fn dot(n: usize, x: *const f32, y: *const f32) -> f32 =
        dot_with::<V>(n, |i| V::load(x.add(i)), |i| V::load(y.add(i)), |i, r| V::load_part(x.add(i), r), |i, r| V::load_part(y.add(i), r));
    fn dot_f16(n: usize, x: *const u16, y: *const f32) -> f32 =
        dot_with::<V>(n, |i| V::load_f16(x.add(i)), |i| V::load(y.add(i)), |i, r| widen_part(r, x.add(i), |p| V::load_f16(p)), |i, r| V::load_part(y.add(i), r));
    fn dot_bf16(n: usize, x: *const u16, y: *const f32) -> f32 =
        dot_with::<V>(n, |i| V::load_bf16(x.add(i)), |i| V::load(y.add(i)), |i, r| widen_part(r, x.add(i), |p| V::load_bf16(p)), |i, r| V::load_part(y.add(i), r));
    fn dot_f8(n: usize, x: *const u8, y: *const f32) -> f32 =
        dot_with::<V>(n, |i| V::load_f8(x.add(i)), |i| V::load(y.add(i)), |i, r| widen_bytes(r, x.add(i)), |i, r| V::load_part(y.add(i), r));
    fn vec_dot_f32(n: usize, x: *const u8, y: *const u8) -> f32 = dot::<V>(n, x.cast(), y.cast());
    fn vec_dot_f16(n: usize, x: *const u8, y: *const u8) -> f32 = {
        let (x, y) = (x.cast::<u16>(), y.cast::<u16>());
        dot_with::<V>(n, |i| V::load_f16(x.add(i)), |i| V::load_f16(y.add(i)), |i, r| widen_part(r, x.add(i), |p| V::load_f16(p)), |i, r| widen_part(r, y.add(i), |p| V::load_f16(p)))
    };
    fn vec_dot_bf16(n: usize, x: *const u8, y: *const u8) -> f32 = {
        let (x, y) = (x.cast::<u16>(), y.cast::<u16>());
        dot_with::<V>(n, |i| V::load_bf16(x.add(i)), |i| V::load_bf16(y.add(i)), |i, r| widen_part(r, x.add(i), |p| V::load_bf16(p)), |i, r| widen_part(r, y.add(i), |p| V::load_bf16(p)))
    };
    fn vec_dot_f8(n: usize, x: *const u8, y: *const u8) -> f32 = dot_f8::<V>(n, x, y.cast());
    fn from_float_f32(x: *const f32, y: *mut u8, n: usize) = std::ptr::copy(x.cast::<u8>(), y, 4 * n);
    fn from_float_f16(x: *const f32, y: *mut u8, n: usize) = f32_to_f16::<V>(n, y.cast(), x);
    fn from_float_bf16(x: *const f32, y: *mut u8, n: usize) = f32_to_bf16::<V>(n, y.cast(), x);
}

/// Reads `n` 16-bit numbers, fewer than there are lanes, and fills the other lanes with zeros.
#[inline(always)]
unsafe fn widen_part<V: Lanes>(n: usize, p: *const u16, widen: impl Fn(*const u16) -> V) -> V {
    let mut padded = [0u16; 32];
    for (i, h) in padded.iter_mut().enumerate().take(n) {
        // SAFETY: `i` is below `n`, and the caller promises `n` readable numbers.
        *h = unsafe { p.add(i).read_unaligned() };
    }
    widen(padded.as_ptr())
}

/// Reads `n` floats of 8 bits, fewer than there are lanes, and fills the other lanes with zeros.
#[inline(always)]
unsafe fn widen_bytes<V: Lanes>(n: usize, p: *const u8) -> V {
    let mut padded = [0u8; 32];
    for (i, b) in padded.iter_mut().enumerate().take(n) {
        // SAFETY: `i` is below `n`, and the caller promises `n` readable numbers.
        *b = unsafe { p.add(i).read() };
    }
    // SAFETY: `padded` has more bytes than any `V` has lanes. The caller promises the instruction set.
    unsafe { V::load_f8(padded.as_ptr()) }
}

/// Dot product of two rows that closures read.
#[inline(always)]
unsafe fn dot_with<V: Lanes>(
    n: usize,
    x: impl Fn(usize) -> V,
    y: impl Fn(usize) -> V,
    x_part: impl Fn(usize, usize) -> V,
    y_part: impl Fn(usize, usize) -> V,
) -> f32 {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let mut acc = [V::splat(0.0); 4];
        let mut i = 0;
        while n - i >= 4 * V::N {
            for (j, acc) in acc.iter_mut().enumerate() {
                *acc = x(i + j * V::N).mul_add(y(i + j * V::N), *acc);
            }
            i += 4 * V::N;
        }
        while n - i >= V::N {
            acc[0] = x(i).mul_add(y(i), acc[0]);
            i += V::N;
        }
        if i < n {
            acc[1] = x_part(i, n - i).mul_add(y_part(i, n - i), acc[1]);
        }
        acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum()
    }
}

/// Compiles the kernels for one instruction set, and defines a function `fill_float` that sets them in the table.
macro_rules! instantiate {
    ($lanes:ty $(, $features:literal)?) => {
        /// The float kernels of this instruction set.
        mod float_kernels {
            $crate::cpu::simd::float::instantiate!(@each $lanes, [$($features)?]
                add(n: usize, dst: *mut f32, a: *const f32, b: *const f32);
                sub(n: usize, dst: *mut f32, a: *const f32, b: *const f32);
                mul(n: usize, dst: *mut f32, a: *const f32, b: *const f32);
                div(n: usize, dst: *mut f32, a: *const f32, b: *const f32);
                axpy(n: usize, dst: *mut f32, x: *const f32, v: f32);
                scale(n: usize, dst: *mut f32, x: *const f32, v: f32, bias: f32);
                times(n: usize, dst: *mut f32, x: *const f32, v: f32);
                clamp(n: usize, dst: *mut f32, x: *const f32, least: f32, most: f32);
                relu(n: usize, dst: *mut f32, x: *const f32);
                sqr(n: usize, dst: *mut f32, x: *const f32);
                tanh(n: usize, dst: *mut f32, x: *const f32);
                softplus(n: usize, dst: *mut f32, x: *const f32);
                gelu_erf(n: usize, dst: *mut f32, x: *const f32);
                turn_pairs(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32);
                turn_halves(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32);
                sin_cos(n: usize, sin: *mut f32, cos: *mut f32, x: *const f32);
                vexp(n: usize, dst: *mut f32, x: *const f32);
                sigmoid(n: usize, dst: *mut f32, x: *const f32);
                silu(n: usize, dst: *mut f32, x: *const f32);
                gelu(n: usize, dst: *mut f32, x: *const f32);
                gelu_found(n: usize, dst: *mut f32, found: *const u16);
                gelu_quick(n: usize, dst: *mut f32, x: *const f32);
                swiglu(n: usize, dst: *mut f32, x: *const f32, g: *const f32);
                geglu(n: usize, dst: *mut f32, x: *const f32, g: *const f32);
                exp_sum(n: usize, dst: *mut f32, x: *const f32, top: f32) -> f64;
                exp_scaled(n: usize, dst: *mut f32, x: *const f32, e: f32);
                add_to_doubles(n: usize, dst: *mut f64, x: *const f32);
                sum(n: usize, x: *const f32) -> f64;
                dot_wide(n: usize, x: *const f32, y: *const f32) -> f64;
                sum_sq(n: usize, x: *const f32) -> f64;
                center(n: usize, dst: *mut f32, x: *const f32, mean: f32) -> f64;
                max(n: usize, x: *const f32) -> f32;
                mask_scores(n: usize, dst: *mut f32, mask: *const f32, v: f32, slope: f32) -> f32;
                f16_to_f32(n: usize, dst: *mut f32, x: *const u16);
                bf16_to_f32(n: usize, dst: *mut f32, x: *const u16);
                f8_to_f32(n: usize, dst: *mut f32, x: *const u8);
                f32_to_f16(n: usize, dst: *mut u16, x: *const f32);
                f32_to_bf16(n: usize, dst: *mut u16, x: *const f32);
                dot(n: usize, x: *const f32, y: *const f32) -> f32;
                dot_f16(n: usize, x: *const u16, y: *const f32) -> f32;
                dot_bf16(n: usize, x: *const u16, y: *const f32) -> f32;
                dot_f8(n: usize, x: *const u8, y: *const f32) -> f32;
                vec_dot_f32(n: usize, x: *const u8, y: *const u8) -> f32;
                vec_dot_f16(n: usize, x: *const u8, y: *const u8) -> f32;
                vec_dot_bf16(n: usize, x: *const u8, y: *const u8) -> f32;
                vec_dot_f8(n: usize, x: *const u8, y: *const u8) -> f32;
                from_float_f32(x: *const f32, y: *mut u8, n: usize);
                from_float_f16(x: *const f32, y: *mut u8, n: usize);
                from_float_bf16(x: *const f32, y: *mut u8, n: usize);
            );
        }

        fn fill_float(k: &mut Kernels) {
            use $crate::abi::ggml::ggml_type::*;
            $crate::cpu::simd::float::instantiate!(@set k:
                add, sub, mul, div, axpy, scale, times, clamp, relu, sqr, tanh, softplus, gelu_erf, turn_pairs, turn_halves, sin_cos, vexp, sigmoid, silu, gelu, gelu_found, gelu_quick, swiglu, geglu, exp_sum, exp_scaled, add_to_doubles, sum, dot_wide, sum_sq,
                center, max, mask_scores, f16_to_f32, bf16_to_f32, f8_to_f32, f32_to_f16, f32_to_bf16, dot, dot_f16, dot_bf16, dot_f8);
            k.vec_dot[GGML_TYPE_F8_E4M3 as usize] = Some(float_kernels::vec_dot_f8);
            k.vec_dot[GGML_TYPE_F32 as usize] = Some(float_kernels::vec_dot_f32);
            k.from_float[GGML_TYPE_F32 as usize] = Some(float_kernels::from_float_f32);
            k.vec_dot[GGML_TYPE_F16 as usize] = Some(float_kernels::vec_dot_f16);
            k.from_float[GGML_TYPE_F16 as usize] = Some(float_kernels::from_float_f16);
            k.vec_dot[GGML_TYPE_BF16 as usize] = Some(float_kernels::vec_dot_bf16);
            k.from_float[GGML_TYPE_BF16 as usize] = Some(float_kernels::from_float_bf16);
        }
    };
    (@each $lanes:ty, $features:tt $($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        $crate::cpu::simd::float::instantiate!(@one $lanes, $features $name($($arg: $ty),*) $(-> $ret)?);
    )*};
    (@one $lanes:ty, [$($features:literal)?] $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?) => {
        $(#[target_feature(enable = $features)])?
        pub unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: this function enables the features, and the contract of the field in `Kernels` covers the rest.
            unsafe { $crate::cpu::simd::float::$name::<$lanes>($($arg),*) }
        }
    };
    (@set $k:ident: $($name:ident),*) => { $( $k.$name = float_kernels::$name; )* };
}
pub(super) use instantiate;
