//! Safe functions on several rows at once, over the kernels of `simd::products`. They give each result the same bits
//! whatever is computed with it.

use super::simd::products::{AHEAD, List, MAX_COLS, Product, Products, ROWS, STEP, WeightedSum};
use super::simd::{cover, kernels};

/// Maximum number of rows of [`products`] and [`add_weighted`]: a multiple of [`ROWS`].
pub const MAX_ROWS: usize = 64;

/// Maximum number of rows in a chain of additions of [`add_product`]. Longer chains have larger errors.
pub const MAX_CHAIN: usize = 24;

/// Floats, or halves as their bits.
pub trait Number: Copy {
    /// Whether rows are read where the host has them, and not from a cache.
    const IN_MEMORY: bool;
    /// Products of such rows.
    fn products(k: &Products) -> List<Product>;
    /// Sums of such rows.
    fn sums(k: &Products) -> List<WeightedSum>;
}

impl Number for f32 {
    const IN_MEMORY: bool = false;
    fn products(k: &Products) -> List<Product> {
        k.together.f32
    }
    fn sums(k: &Products) -> List<WeightedSum> {
        k.sums_f32
    }
}

impl Number for u16 {
    const IN_MEMORY: bool = true;
    fn products(k: &Products) -> List<Product> {
        k.together.f16
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

/// Calls `run(kernel, ahead, rows of the matrix, results)` for all rows in `which`, of which `len` elements are used,
/// in kernels with as many columns as possible. `ahead` is 0 after the first: what follows is in the cache then.
fn for_all<T: Copy>(
    kernels: List<T>,
    rows: Matrix<'_>,
    len: usize,
    which: &[usize],
    out: Results<'_>,
    ahead: usize,
    run: impl Fn(T, usize, &[*const f32; MAX_COLS], &[*mut f32; MAX_COLS]),
) {
    let base = out.data.as_mut_ptr();
    assert!(which.iter().all(|&i| i * rows.stride + len <= rows.data.len() && (i + 1) * out.stride <= out.data.len()));
    assert!(which.windows(2).all(|w| w[0] < w[1]), "rows are named once");
    for (first, width, kernel) in cover(kernels, which.len()) {
        let (mut from, mut to) = ([std::ptr::null(); MAX_COLS], [std::ptr::null_mut(); MAX_COLS]);
        for (c, &i) in which[first..first + width].iter().enumerate() {
            from[c] = rows.data[i * rows.stride..].as_ptr();
            to[c] = base.wrapping_add(i * out.stride);
        }
        run(kernel, if first == 0 { ahead } else { 0 }, &from, &to);
    }
}

/// Returns the distance in bytes from a row to the row that is loaded into the cache meanwhile, which may come after
/// these rows. Returns 0 if the rows are in a cache, or if there are at most `AHEAD` rows.
fn ahead<T: Number>(rows: &[*const u8]) -> usize {
    if T::IN_MEMORY && rows.len() > AHEAD { rows[AHEAD].addr().wrapping_sub(rows[0].addr()) } else { 0 }
}

/// Products of the rows `keys`, at most [`MAX_ROWS`], and each row in `which` of `rows`:
/// `out[i][j] = keys[j] . rows[i]`. A row of `out` has room for a multiple of four results, of which those after the
/// keys are arbitrary.
pub fn products<T: Number>(keys: &[&[T]], rows: Matrix<'_>, which: &[usize], out: Results<'_>) {
    let Some(k) = keys.first().map(|key| key.len()) else { return };
    assert!(keys.iter().all(|key| key.len() == k) && k <= rows.stride);
    assert!(keys.len().next_multiple_of(ROWS) <= out.stride && keys.len() <= MAX_ROWS);
    // The last key fills the places of missing keys.
    let n = keys.len().next_multiple_of(ROWS);
    let mut all = [keys[keys.len() - 1].as_ptr().cast::<u8>(); MAX_ROWS];
    for (at, key) in all.iter_mut().zip(keys) {
        *at = key.as_ptr().cast();
    }
    let ahead = ahead::<T>(&all[..n]);
    for_all(T::products(&kernels().products), rows, k, which, out, ahead, |kernel, ahead, rows, to| {
        for k0 in (0..k.max(1)).step_by(STEP) {
            let later;
            let at = if k0 == 0 {
                &all
            } else {
                later = all.map(|key| key.wrapping_add(k0 * size_of::<T>()));
                &later
            };
            let rows = rows.map(|row| row.wrapping_add(k0).cast::<u8>());
            // SAFETY: the contract of `Product`: by the assertions, and those in `for_all`, keys and rows have `k`
            // numbers, and there is room for the results in different rows of `out`.
            unsafe { kernel(STEP.min(k - k0), STEP, n, at.as_ptr(), ahead, rows.as_ptr(), to.as_ptr(), k0 > 0) };
        }
    });
}

/// Adds the rows `values`, at most [`MAX_ROWS`], each times its weight:
/// `out[i] += sum over j of weights[i][j] * values[j]`, for each `i` in `which`.
pub fn add_weighted<T: Number>(values: &[&[T]], weights: Matrix<'_>, which: &[usize], out: Results<'_>) {
    add_rows(values, weights, which, out, false);
}

/// [`add_weighted`]; if `apart`, the rows are added up before they are added to the results.
fn add_rows<T: Number>(values: &[&[T]], weights: Matrix<'_>, which: &[usize], out: Results<'_>, apart: bool) {
    let Some(k) = values.first().map(|value| value.len()) else { return };
    assert!(values.iter().all(|value| value.len() == k) && values.len() <= weights.stride && k <= out.stride);
    let mut at = [std::ptr::null(); MAX_ROWS];
    for (at, value) in at[..values.len()].iter_mut().zip(values) {
        *at = value.as_ptr().cast();
    }
    let ahead = ahead::<T>(&at[..values.len()]);
    for_all(T::sums(&kernels().products), weights, values.len(), which, out, ahead, |kernel, ahead, weights, to| {
        // SAFETY: the contract of `WeightedSum`: by the assertions, and those in `for_all`, values have `k` numbers and
        // a weight each, and there is room for the results in different rows of `out`, which is a `&mut`.
        unsafe { kernel(k, values.len(), at.as_ptr(), ahead, weights.as_ptr(), to.as_ptr(), apart) };
    });
}

/// Adds a product with the first `n` rows of `values`, of which `k` elements are used:
/// `out[i] += sum over j of weights[i][j] * values[j]`, for each `i` in `which`, in the order of the rows: `chain` of
/// them are added up, then their sum is added.
pub fn add_product(
    values: Matrix<'_>,
    [n, k]: [usize; 2],
    weights: Matrix<'_>,
    which: &[usize],
    out: Results<'_>,
    chain: usize,
) {
    let Results { data, stride } = out;
    for first in (0..n).step_by(chain) {
        let mut rows: [&[f32]; MAX_CHAIN] = [&[]; MAX_CHAIN];
        let rows = &mut rows[..chain.min(n - first)];
        for (j, row) in rows.iter_mut().enumerate() {
            *row = &values.data[(first + j) * values.stride..][..k];
        }
        let weights = Matrix { data: &weights.data[first..], ..weights };
        add_rows(rows, weights, which, Results { data: &mut *data, stride }, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::tests::Noise;
    use crate::quant::convert::{f16_to_f32, f32_to_f16};

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
            let halves: Vec<u16> = noise.floats(keys * k).into_iter().map(f32_to_f16).collect();
            let floats: Vec<f32> = halves.iter().map(|x| f16_to_f32(*x)).collect();
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
