//! Safe functions on several rows at once, over the kernels of `simd::products`. They give each result the same bits whatever is computed with
//! it.

use super::simd::kernels;
use super::simd::products::{List, MAX_COLS, Product, Products, ROWS, STEP, WeightedSum};

/// Rows between those that are processed and those that are loaded into the cache.
const AHEAD: usize = 8;

/// Floats, or halves as their bits.
pub trait Number: Copy {
    /// Products of such rows.
    fn products(k: &Products) -> List<Product>;
    /// Sums of such rows.
    fn sums(k: &Products) -> List<WeightedSum>;
}

impl Number for f32 {
    fn products(k: &Products) -> List<Product> {
        k.f32
    }
    fn sums(k: &Products) -> List<WeightedSum> {
        k.sums_f32
    }
}

impl Number for u16 {
    fn products(k: &Products) -> List<Product> {
        k.f16
    }
    fn sums(k: &Products) -> List<WeightedSum> {
        k.sums_f16
    }
}

/// A matrix in row-major order.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Elements from one row to the next.
    pub stride: usize,
}

/// The results of some rows of a matrix: for each of them, a row with the same number.
pub struct Results<'a> {
    /// The elements.
    pub data: &'a mut [f32],
    /// Elements from one row to the next.
    pub stride: usize,
}

/// Calls `run(kernel, rows of the matrix, results)` for all rows in `which`, in kernels with as many columns as possible.
fn for_all<T: Copy>(
    kernels: List<T>,
    rows: Matrix<'_>,
    which: &[usize],
    out: Results<'_>,
    run: impl Fn(T, &[*const f32; MAX_COLS], &[*mut f32; MAX_COLS]),
) {
    let base = out.data.as_mut_ptr();
    assert!(which.iter().all(|&i| (i + 1) * rows.stride <= rows.data.len() && (i + 1) * out.stride <= out.data.len()));
    assert!(which.windows(2).all(|w| w[0] < w[1]), "rows are named once");
    let mut left = which;
    for &(width, kernel) in kernels {
        while left.len() >= width {
            let (now, later) = left.split_at(width);
            let (mut from, mut to) = ([std::ptr::null(); MAX_COLS], [std::ptr::null_mut(); MAX_COLS]);
            for (c, &i) in now.iter().enumerate() {
                from[c] = rows.data[i * rows.stride..].as_ptr();
                to[c] = base.wrapping_add(i * out.stride);
            }
            run(kernel, &from, &to);
            left = later;
        }
    }
}

/// Products of the rows `keys` and each row in `which` of `rows`: `out[i][j] = keys[j] . rows[i]`. A row of `out` has room for a multiple of
/// four results, of which those after the keys are arbitrary.
pub fn products<T: Number>(keys: &[&[T]], rows: Matrix<'_>, which: &[usize], out: Results<'_>) {
    let Some(k) = keys.first().map(|key| key.len()) else { return };
    assert!(keys.iter().all(|key| key.len() == k) && k <= rows.stride);
    assert!(keys.len().next_multiple_of(ROWS) <= out.stride);
    for_all(T::products(&kernels().products), rows, which, out, |kernel, rows, to| {
        let (mut rows, mut to) = (*rows, *to);
        for first in (0..keys.len()).step_by(ROWS) {
            // The last key stands for keys that are missing.
            let last = keys.len() - 1;
            let mut at = [std::ptr::null(); ROWS];
            for (i, at) in at.iter_mut().enumerate() {
                *at = keys[(first + i).min(last)].as_ptr().cast::<u8>();
            }
            let ahead = keys[(first + AHEAD).min(last)].as_ptr().addr().wrapping_sub(at[0].addr());
            // SAFETY: the contract of `Product`: by the assertions, and those in `for_all`, keys and rows have `k` numbers, and there is room for the
            // results in different rows of `out`.
            unsafe { kernel(k.min(STEP), at.as_ptr(), ahead, rows.as_ptr(), to.as_ptr(), false) };
            for k0 in (STEP..k).step_by(STEP) {
                at.iter_mut().for_each(|key| *key = key.wrapping_add(STEP * size_of::<T>()));
                rows.iter_mut().for_each(|row| *row = row.wrapping_add(STEP));
                // SAFETY: as above, for the next step.
                unsafe { kernel(STEP.min(k - k0), at.as_ptr(), ahead, rows.as_ptr(), to.as_ptr(), true) };
            }
            if k > STEP {
                let steps = (k - 1) / STEP * STEP;
                rows.iter_mut().for_each(|row| *row = row.wrapping_sub(steps));
            }
            to.iter_mut().for_each(|to| *to = to.wrapping_add(ROWS));
        }
    });
}

/// Adds the rows `values`, each times its weight: `out[i] += sum over j of weights[i][j] * values[j]`, for each `i` in `which`.
pub fn add_weighted<T: Number>(values: &[&[T]], weights: Matrix<'_>, which: &[usize], out: Results<'_>) {
    let Some(k) = values.first().map(|value| value.len()) else { return };
    assert!(values.iter().all(|value| value.len() == k) && values.len() <= weights.stride && k <= out.stride);
    let at: Vec<*const u8> = values.iter().map(|value| value.as_ptr().cast()).collect();
    for_all(T::sums(&kernels().products), weights, which, out, |kernel, weights, to| {
        // SAFETY: the contract of `WeightedSum`: by the assertions, and those in `for_all`, values have `k` numbers and a weight each, and there is
        // room for the results in different rows of `out`, which is a `&mut`.
        unsafe { kernel(k, at.len(), at.as_ptr(), weights.as_ptr(), to.as_ptr()) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::convert::{f16, to_f16};
    use crate::cpu::simd::tests::Noise;

    /// Results for all rows at once and for one after the other, with halves and with floats of the same values.
    fn everything(
        [keys, rows, width]: [usize; 3],
        stride: usize,
        run: impl Fn(&[usize], &mut [f32], bool),
        want: impl Fn(usize, usize) -> f64,
    ) {
        let all: Vec<usize> = (0..rows).collect();
        let mut first: Option<Vec<u32>> = None;
        for halves in [false, true] {
            for one_by_one in [false, true] {
                let mut out = vec![0.0f32; rows * stride];
                match one_by_one {
                    true => all.iter().for_each(|i| run(&[*i], &mut out, halves)),
                    false => run(&all, &mut out, halves),
                }
                let results = |i: usize| &out[i * stride..][..width];
                for i in 0..rows {
                    for (j, got) in results(i).iter().enumerate() {
                        assert!((f64::from(*got) - want(i, j)).abs() < 1e-4, "{keys} rows of {width}: [{i}, {j}]");
                    }
                }
                let bits: Vec<u32> = (0..rows).flat_map(|i| results(i).iter().map(|x| x.to_bits())).collect();
                assert!(*first.get_or_insert(bits.clone()) == bits, "{keys} rows, {width} results: other bits");
            }
        }
    }

    #[test]
    fn rows_give_the_same_bits_alone_and_together() {
        let mut noise = Noise::new(21);
        for (k, keys, rows) in [(1, 1, 1), (7, 3, 2), (16, 4, 5), (33, 9, 7), (100, 64, 13), (1030, 5, 8)] {
            let halves: Vec<u16> = noise.floats(keys * k).into_iter().map(to_f16).collect();
            let floats: Vec<f32> = halves.iter().map(|x| f16(*x)).collect();
            let (some_halves, some): (Vec<_>, Vec<_>) = (halves.chunks(k).collect(), floats.chunks(k).collect());
            let of = |x: f32| f64::from(x);

            let data = noise.floats(rows * k);
            let (matrix, stride) = (Matrix { data: &data, stride: k }, keys.next_multiple_of(4));
            let product = |which: &[usize], out: &mut [f32], halves: bool| match halves {
                true => products(&some_halves, matrix, which, Results { data: out, stride }),
                false => products(&some, matrix, which, Results { data: out, stride }),
            };
            everything([keys, rows, keys], stride, product, |i, j| {
                (0..k).map(|t| of(some[j][t]) * of(data[i * k + t])).sum()
            });

            let data = noise.floats(rows * keys);
            let weights = Matrix { data: &data, stride: keys };
            let sum = |which: &[usize], out: &mut [f32], halves: bool| match halves {
                true => add_weighted(&some_halves, weights, which, Results { data: out, stride: k }),
                false => add_weighted(&some, weights, which, Results { data: out, stride: k }),
            };
            everything([keys, rows, k], k, sum, |i, t| {
                (0..keys).map(|j| of(some[j][t]) * of(data[i * keys + j])).sum()
            });
        }
    }
}
