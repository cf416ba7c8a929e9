//! The result for a query has the same bits whatever is computed with it.

use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::tests::{compute, ctx, noise, write};
use crate::tensor::ops::attention;

/// Values of a head.
const D: usize = 96;

/// Queries, keys and masks, from which nodes for some of the queries are made.
struct Case {
    dtype: ggml_type,
    /// Heads of queries, and of keys and values.
    heads: [usize; 2],
    positions: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    mask: Vec<f32>,
}

/// Keys that some query sees.
const KEYS: usize = 600;

impl Case {
    fn new(dtype: ggml_type, heads: [usize; 2], positions: usize) -> Self {
        let seen = noise(KEYS * positions, 5);
        let mask = seen.iter().map(|x| if *x < -0.3 { f32::NEG_INFINITY } else { *x }).collect();
        Self {
            dtype,
            heads,
            positions,
            q: noise(D * positions * heads[0], 1),
            k: noise(D * KEYS * heads[1], 2),
            v: noise(D * KEYS * heads[1], 3),
            mask,
        }
    }

    /// Results for the `n` positions from `first`, with `more` masked keys after the others, whose elements are
    /// `masked`, as are those of their values.
    fn results(&self, first: usize, n: usize, more: usize, masked: f32) -> Vec<u32> {
        let places: Vec<usize> = (0..KEYS).collect();
        self.results_with(first, n, &places, KEYS + more, masked)
    }

    /// The same with the keys at `places` among `keys` of them, of which the others are masked.
    fn results_with(&self, first: usize, n: usize, places: &[usize], keys: usize, masked: f32) -> Vec<u32> {
        let mut c = ctx();
        let [heads, groups] = self.heads;
        let of = |x: &[f32], rows: usize, from: usize, n: usize, planes: usize| -> Vec<f32> {
            (0..planes).flat_map(|p| x[(p * rows + from) * D..][..n * D].to_vec()).collect()
        };
        let q = c.new_tensor(GGML_TYPE_F32, &[D as i64, n as i64, heads as i64]).unwrap();
        write(q, &of(&self.q, self.positions, first, n, heads));
        let [k, v] = [&self.k, &self.v].map(|x| {
            let t = c.new_tensor(self.dtype, &[D as i64, keys as i64, groups as i64]).unwrap();
            let mut padded = vec![masked; groups * keys * D];
            for (g, plane) in padded.chunks_exact_mut(keys * D).enumerate() {
                for (key, &place) in x[g * KEYS * D..].chunks_exact(D).zip(places) {
                    plane[place * D..][..D].copy_from_slice(key);
                }
            }
            write(t, &padded);
            t
        });
        let mask = c.new_tensor(GGML_TYPE_F16, &[keys as i64, n as i64]).unwrap();
        let mut rows = vec![f32::NEG_INFINITY; n * keys];
        for (i, row) in rows.chunks_exact_mut(keys).enumerate() {
            places.iter().zip(&self.mask[(first + i) * KEYS..]).for_each(|(&place, x)| row[place] = *x);
        }
        write(mask, &rows);
        let node = attention::flash_attn(&mut c, [q, k, v], Some(mask), 0.3, 0.0, 0.0).unwrap();
        compute(node).iter().map(|x| x.to_bits()).collect()
    }
}

#[test]
fn queries_give_the_same_bits_alone_and_together() {
    for dtype in [GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0] {
        for heads in [[4, 1], [3, 3], [8, 2]] {
            let case = Case::new(dtype, heads, 41);
            let row = D * heads[0];
            let all = case.results(0, case.positions, 0, 0.0);
            for (first, n, more) in [(0, 1, 0), (7, 1, 0), (3, 2, 0), (0, 5, 42), (40, 1, 506), (20, 17, 1)] {
                let some = case.results(first, n, more, 9.0);
                assert!(some == all[first * row..][..n * row], "{dtype:?} {heads:?}: {n} of {first}, {more} more keys");
            }
        }
    }
}

/// A cache has stale values of other sequences, which may be anything.
#[test]
fn masked_keys_do_not_matter_whatever_they_are() {
    for dtype in [GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16] {
        let case = Case::new(dtype, [4, 2], 41);
        let row = D * 4;
        let all = case.results(0, case.positions, 0, 0.0);
        for masked in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for (first, n) in [(0, 1), (3, 2), (0, 41)] {
                let some = case.results(first, n, 42, masked);
                assert!(some == all[first * row..][..n * row], "{dtype:?}: {n} of {first}, masked keys are {masked}");
            }
        }
    }
}

/// In a cache that sequences share, keys of others are before, between and after those of a sequence.
#[test]
fn the_place_of_keys_does_not_matter() {
    for dtype in [GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0] {
        let case = Case::new(dtype, [4, 2], 41);
        let row = D * 4;
        let all = case.results(0, case.positions, 0, 0.0);
        let behind: Vec<usize> = (0..KEYS).map(|i| i + 77).collect();
        let apart: Vec<usize> = (0..KEYS).map(|i| 3 * i + i / 7).collect();
        let late: Vec<usize> = (0..KEYS).map(|i| if i < 300 { i + 5 } else { i + 1400 }).collect();
        for places in [behind, apart, late] {
            for (first, n) in [(0, 1), (3, 2), (0, 41)] {
                let some = case.results_with(first, n, &places, 2100, 5.0);
                assert!(
                    some == all[first * row..][..n * row],
                    "{dtype:?}: {n} of {first}, the first key at {}",
                    places[0]
                );
            }
        }
    }
}

/// Scores whose digits end before the point: the key with the highest takes all.
#[test]
fn large_scores_stay_finite() {
    for (size, negative) in [(1e3, false), (1e9, false), (1e18, false), (1e18, true)] {
        let mut case = Case::new(GGML_TYPE_F32, [1, 1], 1);
        case.mask.fill(0.0);
        case.q.fill(size);
        let (sign, best) = (if negative { -1.0 } else { 1.0 }, 411);
        for (i, key) in case.k.chunks_exact_mut(D).enumerate() {
            key.fill(sign * size * if (i == best) != negative { 1.0 } else { 0.5 });
        }
        if negative {
            case.k[best * D..][..D].fill(-0.25 * size);
        }
        let got: Vec<f32> = case.results(0, 1, 0, 0.0).into_iter().map(f32::from_bits).collect();
        assert!(got.iter().zip(&case.v[best * D..]).all(|(x, want)| (x - want).abs() < 1e-6), "{size}");
    }
}

/// Scores that grow from key to key by much, so that sums are rescaled often.
#[test]
fn rescaling_changes_no_digits() {
    let mut case = Case::new(GGML_TYPE_F16, [2, 1], 3);
    for (i, key) in case.k.chunks_exact_mut(D).enumerate() {
        key.iter_mut().for_each(|x| *x = *x * 0.1 + 0.02 * i as f32);
    }
    case.q.iter_mut().for_each(|x| *x = x.abs());
    let all = case.results(0, 3, 0, 0.0);
    let places: Vec<usize> = (0..KEYS).map(|i| 2 * i + 31).collect();
    assert!(case.results_with(0, 3, &places, 1300, 9.0) == all);
}
