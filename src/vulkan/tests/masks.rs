//! Scores of minus infinity: rows that are masked at the start, in parts or entirely give what they give on the CPU.

use crate::tensor::TensorRef;
use crate::tensor::ops::{Place, attention, matrix, reduce, softmax};
use crate::vulkan::tests::devices::{Quiet, devices};
use crate::vulkan::tests::lab::{Lab, as_floats, is_near, results, scattered};

/// Minus infinity.
const NONE: f32 = f32::NEG_INFINITY;

/// Fails unless a device gives the same numbers as the CPU, and NaN for the same elements. Returns them.
fn same(what: &str, most: f32, make: &dyn Fn(&mut Lab) -> TensorRef) -> Vec<f32> {
    let Some([device, _]) = devices() else { return Vec::new() };
    let _quiet = Quiet::new();
    let cpu = crate::cpu::reg().device(0).unwrap();
    let [here, there] = [device, cpu].map(|device| {
        let all = results(device, &|l| vec![make(l)]).unwrap_or_else(|| panic!("{what} is not supported"));
        as_floats(&all[0])
    });
    for (i, (x, y)) in here.iter().zip(&there).enumerate() {
        assert!(is_near(*x, *y, most), "{what}: element {i}: {x} instead of {y}");
    }
    here
}

/// Whether a row of a mask, or of scores, has no key, only late ones, every second one, or all.
fn masked(row: usize, key: usize, keys: usize) -> bool {
    match row % 4 {
        0 => true,
        1 => key < keys - 3,
        2 => key.is_multiple_of(2),
        _ => false,
    }
}

#[test]
fn softmax_of_masked_rows() {
    for keys in [7usize, 130, 1030] {
        for f16 in [false, true] {
            for sinks in [None, Some(0.5), Some(NONE)] {
                for max_bias in [0.0, 8.0] {
                    let what = format!("{keys} keys, mask in F16 {f16}, sinks {sinks:?}, bias {max_bias}");
                    let got = same(&what, 1e-5, &|l| {
                        let (ne, mask) = ([keys as i64, 4, 3], [keys as i64, 4]);
                        let a = l.f32s(&ne, |i| 4.0 * scattered(i, 1));
                        let value = |i: usize| {
                            if masked(i / keys, i % keys, keys) { NONE } else { scattered(i, 2) }
                        };
                        let mask = if f16 { l.f16s(&mask, value) } else { l.f32s(&mask, value) };
                        let node = softmax::soft_max(&mut l.ctx, a, Some(mask), 0.7, max_bias, Place::New).unwrap();
                        let sinks = sinks.map(|s| l.f32s(&[3], |_| s));
                        softmax::add_sinks(node, sinks);
                        node
                    });
                    for (i, row) in got.chunks(keys).enumerate() {
                        let sum: f32 = row.iter().sum();
                        match (i % 4, sinks) {
                            // A row without a key: its sink takes everything.
                            (0, Some(0.5)) => assert_eq!(sum, 0.0, "{what}"),
                            (0, _) => assert!(row.iter().all(|x| x.is_nan()), "{what}"),
                            (_, Some(0.5)) => assert!(sum > 0.0 && sum < 1.0, "{what}: {sum}"),
                            _ => assert!((sum - 1.0).abs() < 1e-5, "{what}: {sum}"),
                        }
                    }
                }
            }
        }
    }
}

/// Scores that are minus infinity themselves, as after DIAG_MASK_INF, and the lowest finite ones.
#[test]
fn softmax_of_infinite_scores() {
    same("a triangle", 1e-5, &|l| {
        let a = l.noise(&[70, 9, 2], 1);
        let a = matrix::diag_mask(&mut l.ctx, a, 3, matrix::Mask::NegInf, Place::New).unwrap();
        softmax::soft_max(&mut l.ctx, a, None, 0.5, 0.0, Place::New).unwrap()
    });
    for low in [NONE, f32::MIN, -1e38, -1e30] {
        same(&format!("scores of {low}"), 1e-5, &|l| {
            let a = l.f32s(&[40, 5], |i| match i / 40 {
                0 => low,
                1 if i % 40 > 0 => low,
                2 if i % 2 == 0 => low,
                _ => scattered(i, 1),
            });
            softmax::soft_max(&mut l.ctx, a, None, 1.0, 0.0, Place::New).unwrap()
        });
    }
}

/// Queries, keys and values, with a mask.
fn attend(l: &mut Lab, keys: usize, sinks: Option<f32>, max_bias: f32, cap: f32, nan: bool) -> TensorRef {
    let exact = |i, seed| (scattered(i, seed) * 32.0).round() / 32.0;
    let n = keys as i64;
    let q = l.f32s(&[64, 6, 4], |i| exact(i, 1));
    // No query attends to the first key.
    let k = l.f16s(&[64, n, 2], |i| if nan && i / 64 % keys == 0 { f32::NAN } else { exact(i, 2) });
    let v = l.f16s(&[64, n, 2], |i| scattered(i, 3));
    let mask = l.f16s(&[n, 6], |i| {
        let (row, key) = (i / keys, i % keys);
        if key == 0 || masked(row, key, keys) { NONE } else { scattered(i, 4) }
    });
    let node = attention::flash_attn(&mut l.ctx, [q, k, v], Some(mask), 0.125, max_bias, cap).unwrap();
    let sinks = sinks.map(|s| l.f32s(&[4], |_| s));
    attention::add_sinks(node, sinks);
    node
}

#[test]
fn attention_to_masked_keys() {
    for keys in [5, 33, 300] {
        for sinks in [None, Some(0.5), Some(-200.0), Some(NONE)] {
            for (max_bias, cap) in [(0.0, 0.0), (8.0, 0.0), (0.0, 5.0)] {
                for nan in [false, true] {
                    let what = format!("{keys} keys, sinks {sinks:?}, bias {max_bias}, cap {cap}, NaN {nan}");
                    let got = same(&what, 1e-3, &|l| attend(l, keys, sinks, max_bias, cap, nan));
                    // Heads before positions in the result. A query without keys gets 0.
                    for (i, row) in got.chunks(4 * 64).enumerate() {
                        assert_eq!(row.iter().all(|x| *x == 0.0), i % 4 == 0, "{what}: position {i}");
                    }
                }
            }
        }
    }
}

/// The lowest finite scores count: models mask with them, and where all keys have them the values' mean is the result.
#[test]
fn attention_to_keys_with_the_lowest_scores() {
    for low in [-65504.0, -30000.0] {
        // Scores have two digits left.
        same(&format!("a mask of {low}"), 5e-3, &|l| {
            let q = l.f32s(&[32, 3, 2], |_| 0.5);
            let [k, v] = [2, 3].map(|seed| l.f16s(&[32, 40, 2], |i| (scattered(i, seed) * 32.0).round() / 32.0));
            let mask = l.f16s(&[40, 3], |i| if i / 40 == 0 || i % 40 < 37 { low } else { 0.0 });
            attention::flash_attn(&mut l.ctx, [q, k, v], Some(mask), 0.125, 0.0, 0.0).unwrap()
        });
    }
}

#[test]
fn scores_of_masked_keys_stay_infinite() {
    let got = same("lightning_indexer", 1e-5, &|l| {
        let (q, k) = (l.noise(&[32, 3, 5], 1), l.noise(&[32, 1, 37], 2));
        let weights = l.noise(&[3, 5], 3);
        let mask = l.f16s(&[37, 5], |i| if masked(i / 37, i % 37, 37) { NONE } else { scattered(i, 4) });
        attention::lightning_indexer(&mut l.ctx, q, k, weights, mask).unwrap()
    });
    for (i, x) in got.iter().enumerate() {
        assert_eq!(*x == NONE, masked(i / 37, i % 37, 37), "score {i}: {x}");
    }
}

/// The index of the maximum of rows of minus infinity, of NaN, and with few other elements.
#[test]
fn the_greatest_of_infinite_elements() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let cpu = crate::cpu::reg().device(0).unwrap();
    for columns in [3usize, 70, 70_000] {
        let make = |l: &mut Lab| {
            let rows: [&dyn Fn(usize) -> f32; 6] = [
                &|_| NONE,
                &|_| f32::NAN,
                &|c| if c % 2 == 0 { f32::NAN } else { NONE },
                &|c| if c + 1 == columns { f32::MIN } else { NONE },
                &|c| if c + 2 > columns { 1.0 } else { f32::NAN },
                &|c| if c == 1 { f32::INFINITY } else { scattered(c, 1) },
            ];
            let a = l.f32s(&[columns as i64, 6], |i| rows[i / columns](i % columns));
            vec![reduce::argmax(&mut l.ctx, a).unwrap()]
        };
        let [here, there] = [device, cpu].map(|device| results(device, &make).unwrap());
        assert_eq!(here, there, "{columns} columns");
    }
}
