//! Regressions of operations on devices (rows V of the list in docs/TESTS.md).

use crate::abi::ggml::ggml_sort_order::*;
use crate::abi::ggml::ggml_status;
use crate::abi::ggml::ggml_type::*;
use crate::backend::DeviceRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::rope::{Rope, rope};
use crate::tensor::ops::{Place, attention, copy, matmul, reduce, rows, softmax, sort, unary, view};
use crate::vulkan::backend::device::{Card, author};
use crate::vulkan::tests::devices::{Quiet, devices, publish};
use crate::vulkan::tests::lab::{Lab, agrees, bytes, floats, ints, results, scattered};
use std::sync::Arc;

fn device() -> Option<DeviceRef> {
    devices().map(|d| d[0])
}

/// Keys, values and queries, and a mask from `masked(query, key)`.
fn attend(
    l: &mut Lab,
    [columns, keys, queries, heads, kv_heads]: [i64; 5],
    size: f32,
    masked: impl Fn(usize, usize) -> bool,
) -> TensorRef {
    // F16 represents these exactly, because the CPU rounds queries to F16.
    let exact = |i, seed| size * (scattered(i, seed) * 32.0).round() / 32.0;
    let q = l.f32s(&[columns, queries, heads], |i| exact(i, 1));
    let k = l.f16s(&[columns, keys, kv_heads], |i| exact(i, 2));
    let v = l.f16s(&[columns, keys, kv_heads], |i| scattered(i, 3));
    let mask = l.f16s(&[keys, queries], |i| {
        let (query, key) = (i / keys as usize, i % keys as usize);
        if masked(query, key) { f32::NEG_INFINITY } else { 0.0 }
    });
    let scale = 1.0 / (columns as f32).sqrt();
    attention::flash_attn(&mut l.ctx, [q, k, v], Some(mask), scale, 0.0, 0.0).unwrap()
}

// Row V7: sizes that do not fill a workgroup, and indices out of range. Memory around the result is not written.
#[test]
fn odd_sizes_write_nothing_beside() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    type Make = fn(&mut Lab) -> TensorRef;
    let all: [(&str, Make); 12] = [
        ("soft_max", |l| {
            let a = l.noise(&[33, 3], 1);
            softmax::soft_max(&mut l.ctx, a, None, 1.0, 0.0, Place::New).unwrap()
        }),
        ("argmax", |l| {
            let a = l.noise(&[37, 5], 1);
            reduce::argmax(&mut l.ctx, a).unwrap()
        }),
        ("argsort", |l| {
            let a = l.noise(&[1025, 1], 1);
            sort::argsort(&mut l.ctx, a, GGML_SORT_ORDER_ASC).unwrap()
        }),
        ("top_k", |l| {
            let a = l.noise(&[1537, 2], 1);
            sort::top_k(&mut l.ctx, a, 7).unwrap()
        }),
        ("flash_attn", |l| attend(l, [72, 113, 3, 4, 2], 1.0, |q, k| k > q + 50)),
        ("mul_mat", |l| {
            let (a, b) = (l.noise(&[35, 17], 1), l.noise(&[35, 3], 2));
            matmul::mul_mat(&mut l.ctx, a, b).unwrap()
        }),
        ("mul_mat f16", |l| {
            let (a, b) = (l.f16s(&[70, 67], |i| scattered(i, 1)), l.noise(&[70, 65], 2));
            matmul::mul_mat(&mut l.ctx, a, b).unwrap()
        }),
        ("rms_norm", |l| {
            let a = l.noise(&[31, 9], 1);
            norm(&mut l.ctx, Norm::Rms, a, 1e-6, Place::New).unwrap()
        }),
        ("add", |l| {
            let (a, b) = (l.noise(&[13, 7, 3], 1), l.noise(&[1, 7], 2));
            add(&mut l.ctx, a, b).unwrap()
        }),
        ("to q8_0", |l| {
            let a = l.noise(&[96, 3], 1);
            copy::cast(&mut l.ctx, a, GGML_TYPE_Q8_0).unwrap()
        }),
        ("sum_rows", |l| {
            let a = l.noise(&[65, 3], 1);
            reduce::sum_rows(&mut l.ctx, a).unwrap()
        }),
        ("concat", |l| {
            let (a, b) = (l.noise(&[5, 3], 1), l.noise(&[5, 4], 2));
            copy::concat(&mut l.ctx, a, b, 1).unwrap()
        }),
    ];
    for (what, make) in all {
        let mut lab = Lab::new();
        let before = lab.guard();
        let end = make(&mut lab);
        let behind = lab.guard();
        let graph = lab.graph(&[end]);
        let _buffer = lab.place(device);
        assert!(device.supports_op(end), "{what}");
        let stream = device.init(None).unwrap();
        assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
        for guard in [before, behind] {
            assert!(bytes(guard).iter().all(|b| *b == 0xab), "{what} writes beside its result");
        }
    }
}

#[test]
fn indices_out_of_range_touch_nothing() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let mut l = Lab::new();
    let table = l.f32s(&[6, 5], |i| i as f32);
    let ids = l.i32s(&[5], &[4, -1, 5, i32::MAX, 0]);
    let got = rows::get_rows(&mut l.ctx, table, ids).unwrap();
    let (cache, new) = (l.f32s(&[6, 4], |_| 7.0), l.f32s(&[6, 4], |i| -(i as f32)));
    let places = l.i64s(&[4], &[2, -3, 4, 1 << 40]);
    let set = rows::set_rows(&mut l.ctx, cache, new, places).unwrap();
    let (experts, x) = (l.noise(&[32, 8, 3], 1), l.noise(&[32, 1, 2], 2));
    let chosen = l.i32s(&[2, 2], &[2, 3, -1, 0]);
    let products = matmul::mul_mat_id(&mut l.ctx, experts, x, chosen).unwrap();
    let graph = l.graph(&[got, set, products]);
    let _buffer = l.place(device);
    let stream = device.init(None).unwrap();
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    let got = floats(got);
    assert_eq!(got[..6], [24.0, 25.0, 26.0, 27.0, 28.0, 29.0]);
    assert!(got[6..24].iter().all(|v| *v == 0.0));
    assert_eq!(got[24..], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let set = floats(cache);
    assert!(set[..12].iter().chain(&set[18..]).all(|v| *v == 7.0));
    assert_eq!(set[12..18], [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
}

// Row V8: results do not vary, which they do if a barrier is missing.
#[test]
fn results_are_the_same_every_time() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let make = |l: &mut Lab| {
        let (a, b) = (l.f16s(&[256, 70], |i| scattered(i, 1)), l.noise(&[256, 33], 2));
        let product = matmul::mul_mat(&mut l.ctx, a, b).unwrap();
        let soft = softmax::soft_max(&mut l.ctx, product, None, 1.0, 0.0, Place::New).unwrap();
        let normed = norm(&mut l.ctx, Norm::Layer, soft, 1e-5, Place::New).unwrap();
        let w = l.noise(&[70], 3);
        let scaled = mul(&mut l.ctx, normed, w).unwrap();
        let sorted = sort::argsort(&mut l.ctx, scaled, GGML_SORT_ORDER_DESC).unwrap();
        let long = l.noise(&[3000, 2], 4);
        let long = sort::argsort(&mut l.ctx, long, GGML_SORT_ORDER_ASC).unwrap();
        let attention = attend(l, [64, 130, 9, 4, 2], 1.0, |q, k| k > q + 100);
        vec![product, soft, scaled, sorted, long, attention]
    };
    let first = results(device, &make).unwrap();
    for round in 0..20 {
        assert!(results(device, &make).unwrap() == first, "round {round}");
    }
}

// Row V9: scores beyond the range of F16; rows that are masked at the start, in long parts, or entirely.
#[test]
fn attention_stays_finite() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let small = [64, 130, 5, 4, 2];
    for size in [1.0, 32.0, 1024.0] {
        let what = format!("attention of {size}");
        assert!(agrees(device, &what, 1e-4, &|l: &mut Lab| vec![attend(l, small, size, |q, k| k > q + 60)]));
        assert!(agrees(device, &what, 1e-4, &|l: &mut Lab| vec![attend(l, small, size, |_, k| k < 100)]));
        assert!(agrees(device, &what, 1e-4, &|l: &mut Lab| vec![attend(l, small, size, |q, _| q == 2)]));
    }
    assert!(agrees(device, "all masked", 0.0, &|l: &mut Lab| vec![attend(l, small, 1.0, |_, _| true)]));
}

// Row V10: equal values.
#[test]
fn the_largest_of_equals_are_distinct() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    for n in [5i64, 64, 1000, 5000] {
        for k in [1, 3, n.min(700)] {
            let mut l = Lab::new();
            let a = l.f32s(&[n, 2], |_| 1.5);
            let top = sort::top_k(&mut l.ctx, a, k as i32).unwrap();
            let graph = l.graph(&[top]);
            let _buffer = l.place(device);
            let stream = device.init(None).unwrap();
            assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
            for row in ints(top).chunks(k as usize) {
                let mut row = row.to_vec();
                row.sort_unstable();
                row.dedup();
                assert!(
                    row.len() == k as usize && row[0] >= 0 && i64::from(row[row.len() - 1]) < n,
                    "{n} {k}: {row:?}"
                );
            }
        }
    }
}

// Rows V5 and V11: work with more groups than one dimension allows uses several dimensions, or is not supported.
// Offsets do not overflow.
#[test]
fn devices_with_few_groups_compute_the_same() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let mut info = (**author(device).unwrap().info()).clone();
    info.limits.groups = [24, 16, 8];
    let reg = publish(vec![Card { info: Arc::new(info), direct: true }]);
    let narrow = reg.device(0).unwrap();
    type Make = fn(&mut Lab) -> TensorRef;
    let all: [(&str, Make, bool); 8] = [
        (
            "add",
            |l| {
                // More groups than one dimension allows, but not more than two, with the division for software drivers
                // and that for GPUs. `supports` does not check this: Vulkan guarantees 65,535 in each, so that two are
                // enough for 2^31 rows.
                let (a, b) = (l.noise(&[40, 900], 1), l.noise(&[40, 1], 2));
                add(&mut l.ctx, a, b).unwrap()
            },
            true,
        ),
        (
            "soft_max",
            |l| {
                let a = l.noise(&[20, 40, 3], 1);
                softmax::soft_max(&mut l.ctx, a, None, 1.0, 0.0, Place::New).unwrap()
            },
            false,
        ),
        (
            "rms_norm",
            |l| {
                let a = l.noise(&[20, 200], 1);
                norm(&mut l.ctx, Norm::Rms, a, 1e-6, Place::New).unwrap()
            },
            true,
        ),
        (
            "mul_mat",
            |l| {
                let (a, b) = (l.noise(&[32, 150], 1), l.noise(&[32, 15, 4, 2], 2));
                matmul::mul_mat(&mut l.ctx, a, b).unwrap()
            },
            true,
        ),
        (
            "large mul_mat",
            |l| {
                let (a, b) = (l.noise(&[32, 15000], 1), l.noise(&[32, 400], 2));
                matmul::mul_mat(&mut l.ctx, a, b).unwrap()
            },
            false,
        ),
        (
            "sum_rows",
            |l| {
                let a = l.noise(&[20, 250], 1);
                reduce::sum_rows(&mut l.ctx, a).unwrap()
            },
            true,
        ),
        (
            "scale",
            |l| {
                let a = l.noise(&[1 << 17], 1);
                unary::scale(&mut l.ctx, a, 2.0).unwrap()
            },
            true,
        ),
        (
            "get_rows",
            |l| {
                let ids: Vec<i32> = (0..900).map(|i| i * 7 % 300).collect();
                let (a, ids) = (l.noise(&[10, 300], 1), l.i32s(&[900], &ids));
                rows::get_rows(&mut l.ctx, a, ids).unwrap()
            },
            true,
        ),
    ];
    for (what, make, surely) in all {
        let done = agrees(narrow, what, 1e-10, &|l: &mut Lab| vec![make(l)]);
        assert!(done || !surely, "{what} is refused");
    }
}

/// The methods of GPUs for few columns have a workgroup for each row.
#[test]
fn products_with_more_rows_than_groups_are_computed_in_parts() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let mut info = (**author(device).unwrap().info()).clone();
    info.software = false;
    info.limits.groups[0] = 24;
    let reg = publish(vec![Card { info: Arc::new(info), direct: true }]);
    let card = reg.device(0).unwrap();
    for shape in [[1i64, 1], [3, 1], [3, 2]] {
        let product = |l: &mut Lab| {
            let (a, b) = (l.noise(&[32, 150], 1), l.noise(&[32, shape[0], shape[1]], 2));
            vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
        };
        assert!(agrees(card, &format!("{shape:?} columns"), 1e-10, &product));
    }
}

// Row V12: permuted sources, slices, and masks with any number of rows.
#[test]
fn permuted_and_sliced_sources() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    for queries in [1i64, 7, 33] {
        for spare in [0i64, 31] {
            let attention = |l: &mut Lab| {
                // The layout of a KV cache, with the heads of a position side by side. A slice of it is used.
                let q = l.noise(&[64, 4, queries], 1);
                let q = view::permute(&mut l.ctx, q, [0, 2, 1, 3]).unwrap();
                let [k, v] = [2, 3].map(|seed| {
                    let cache = l.f16s(&[64 * 2, 200], |i| scattered(i, seed));
                    let slice = view::view(&mut l.ctx, cache, &[64, 2, 90], &[128, 256], 256 * 10).unwrap();
                    view::permute(&mut l.ctx, slice, [0, 2, 1, 3]).unwrap()
                });
                let mask =
                    l.f16s(&[90, queries + spare], |i| if i % 90 > 40 + i / 90 { f32::NEG_INFINITY } else { 0.25 });
                vec![attention::flash_attn(&mut l.ctx, [q, k, v], Some(mask), 0.125, 8.0, 0.0).unwrap()]
            };
            assert!(agrees(device, &format!("{queries} queries, {spare} more rows of mask"), 1e-4, &attention));
        }
    }
    for mode in [0, crate::abi::ggml::GGML_ROPE_TYPE_NEOX] {
        let turn = |l: &mut Lab| {
            let wide = l.noise(&[96, 6, 10], 1);
            let slice = view::view(&mut l.ctx, wide, &[64, 3, 9], &[2 * 96 * 4, 96 * 6 * 4], 96 * 4 + 32).unwrap();
            let at = l.i32s(&[9], &[3, 1, 4, 1, 5, 9, 2, 6, 5]);
            vec![rope(&mut l.ctx, slice, at, None, &Rope::plain(64, mode), Place::New).unwrap()]
        };
        assert!(agrees(device, "rope of a slice", 1e-8, &turn));
    }
    let product = |l: &mut Lab| {
        let (a, b) = (l.noise(&[48, 5, 30], 1), l.noise(&[48, 7, 20], 2));
        let a = view::permute(&mut l.ctx, a, [0, 2, 1, 3]).unwrap();
        let b = view::permute(&mut l.ctx, b, [0, 2, 1, 3]).unwrap();
        let b = view::view(&mut l.ctx, b, &[48, 20, 5], &[b.nb()[1], b.nb()[2]], 0).unwrap();
        vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
    };
    assert!(agrees(device, "product of permuted sources", 1e-8, &product));
}

// Row V7 for the method that all devices have: rows at odd words, an odd number of blocks in a column, rows and columns
// that do not fill a workgroup. The results are those of the dequantized values.
#[test]
fn products_of_rows_at_any_address() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    // A card would use other methods: those of vectors, tiles and matrices, the last of which round to F16.
    let mut info = (**author(device).unwrap().info()).clone();
    info.software = true;
    let device = publish(vec![Card { info: Arc::new(info), direct: true }]).device(0).unwrap();
    for dtype in [GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q5_1] {
        for (k, m, n) in [(32, 33, 1), (64, 70, 1), (96, 3, 2), (128, 40, 8), (192, 31, 9), (64, 65, 3)] {
            for skipped in [0, 1] {
                let (mut want, mut l) = (Vec::new(), Lab::new());
                let (a, numbers) = l.blocks(dtype, &[k, m + skipped], |i| scattered(i, 1));
                let nb = a.nb()[1];
                let a = view::view(&mut l.ctx, a, &[k, m], &[nb], nb * skipped as usize).unwrap();
                let b = l.noise(&[k, n], 2);
                for j in 0..n as usize {
                    for row in numbers.chunks(k as usize).skip(skipped as usize) {
                        let column = (0..k as usize).map(|i| scattered(j * k as usize + i, 2));
                        want.push(row.iter().zip(column).map(|(x, y)| f64::from(x * y)).sum::<f64>());
                    }
                }
                let before = l.guard();
                let d = matmul::mul_mat(&mut l.ctx, a, b).unwrap();
                let after = l.guard();
                let graph = l.graph(&[d]);
                let _buffer = l.place(device);
                let stream = device.init(None).unwrap();
                assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
                let what = format!("{dtype:?} k {k} m {m} n {n}, {skipped} rows before");
                for (i, (x, y)) in floats(d).iter().zip(&want).enumerate() {
                    assert!((f64::from(*x) - y).abs() < 1e-3, "{what}: value {i}: {x} instead of {y}");
                }
                assert!([before, after].map(bytes).concat().iter().all(|b| *b == 0xab), "{what}: written beside");
            }
        }
    }
}

/// Running out of memory between two dispatches returns a status, and everything works afterwards.
#[test]
fn no_memory_for_a_graph_is_a_status() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    let mut l = Lab::new();
    let a = l.noise(&[64, 32], 1);
    let turned = view::transpose(&mut l.ctx, a).unwrap();
    let sum = reduce::sum(&mut l.ctx, turned).unwrap();
    let graph = l.graph(&[sum]);
    let _buffer = l.place(device);
    assert!(device.supports_op(sum));
    let stream = device.init(None).unwrap();
    crate::vulkan::device::memory::faults::fail_next(1);
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_ALLOC_FAILED);
    crate::vulkan::device::memory::faults::fail_next(0);
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    let want: f32 = (0..2048).map(|i| scattered(i, 1)).sum();
    assert!((floats(sum)[0] - want).abs() < 1e-2);
}
