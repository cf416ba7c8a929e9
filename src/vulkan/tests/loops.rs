//! Long loops in shaders: sums over long rows, loops in loops, many keys. Drivers that end loops early
//! (`workarounds.rs`) must refuse what they would compute wrongly; all others compute it.

use crate::abi::ggml::ggml_sort_order::GGML_SORT_ORDER_ASC;
use crate::tensor::TensorRef;
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::{Place, attention, binary, copy, matmul, matrix, reduce, rows, softmax, sort};
use crate::vulkan::backend::device::author;
use crate::vulkan::tests::devices::{Quiet, kinds};
use crate::vulkan::tests::lab::{Lab, agrees, scattered};

/// Whether each way to divide work computes the node, and none of them wrongly.
#[track_caller]
fn computed(what: &str, error: f64, make: impl Fn(&mut Lab) -> TensorRef) -> Vec<bool> {
    let _quiet = Quiet::new();
    let all = kinds().iter().map(|(way, device)| {
        let limited = author(*device).unwrap().info().limits.iterations.is_some();
        let computes = agrees(*device, &format!("{what} ({way})"), error, &|l: &mut Lab| vec![make(l)]);
        assert!(computes || limited, "{what} ({way}) is refused");
        computes
    });
    all.collect()
}

/// Small whole numbers, of which F32 has all sums here exactly.
fn whole(l: &mut Lab, ne: &[i64]) -> TensorRef {
    l.f32s(ne, |i| (scattered(i, 1) * 4.0).round() + 1.0)
}

// Mesa 22.3.6 was wrong from column 260,600 on: in the step before, the last subgroup had done 508 * 129 iterations.
#[test]
fn cumulative_sums_of_long_rows() {
    let around = [65_535, 65_536, 65_537, 242_004, 258_000, 260_096, 260_097, 260_608, 260_609];
    for n in [511, 512, 513].into_iter().chain(around).chain([375_960, 1_000_003]) {
        let computes = computed(&format!("cumsum of {n}"), 0.0, |l| {
            let a = whole(l, &[n]);
            reduce::cumsum(&mut l.ctx, a).unwrap()
        });
        assert!(n > 242_004 || computes.iter().all(|c| *c), "cumsum of {n} is refused");
    }
}

#[test]
fn sums_of_long_rows() {
    for n in [65_536, 65_537, 1_000_003, 3_000_000] {
        let computes = computed(&format!("sum of {n}"), 0.0, |l| {
            let a = whole(l, &[n]);
            reduce::sum_rows(&mut l.ctx, a).unwrap()
        });
        assert!(computes.iter().all(|c| *c), "a sum of {n} is refused");
        computed(&format!("soft_max of {n}"), 1e-9, |l| {
            let a = l.noise(&[n], 1);
            softmax::soft_max(&mut l.ctx, a, None, 1.0, 0.0, Place::New).unwrap()
        });
        computed(&format!("norm of {n}"), 1e-9, |l| {
            let a = l.noise(&[n], 1);
            norm(&mut l.ctx, Norm::Layer, a, 1e-6, Place::New).unwrap()
        });
        computed(&format!("argmax of {n}"), 0.0, |l| {
            let a = l.noise(&[n], 1);
            reduce::argmax(&mut l.ctx, a).unwrap()
        });
    }
}

// Loops in loops, with sizes on both sides of the limit of 65,535 iterations.
#[test]
fn loops_in_loops() {
    for n in [300, 330, 360, 400] {
        computed(&format!("a triangle of {n}"), 1e-9, |l| {
            let a = l.f32s(&[n, n], |i| {
                let (row, column) = (i / n as usize, i % n as usize);
                if row == column { 2.0 } else { scattered(i, 1) / n as f32 }
            });
            let b = l.noise(&[3, n], 2);
            matrix::solve_tri(&mut l.ctx, a, b, true, true, false).unwrap()
        });
    }
    for n in [900, 1000, 1020, 1100, 2000] {
        computed(&format!("gradients of {n} rows"), 1e-9, |l| {
            let ids: Vec<i32> = (0..n as i32).map(|i| i % 7).collect();
            let (a, ids, c) = (l.noise(&[64, n], 1), l.i32s(&[n], &ids), l.noise(&[64, 7], 3));
            rows::get_rows_back(&mut l.ctx, a, ids, c).unwrap()
        });
        computed(&format!("sums of {n} repetitions"), 1e-9, |l| {
            let (a, to) = (l.noise(&[64, n], 1), l.noise(&[64, 1], 2));
            copy::repeat_back(&mut l.ctx, a, to).unwrap()
        });
    }
    for keys in [2048, 16_000, 18_400, 19_500, 24_000] {
        computed(&format!("attention to {keys} keys"), 1e-6, |l| {
            let (k, v) = (l.f16s(&[128, keys], |i| scattered(i, 1)), l.f16s(&[128, keys], |i| scattered(i, 2)));
            let q = l.f32s(&[128, 1], |i| (scattered(i, 3) * 32.0).round() / 32.0);
            attention::flash_attn(&mut l.ctx, [q, k, v], None, 0.088, 0.0, 0.0).unwrap()
        });
    }
}

#[test]
fn long_rows_of_products_and_sorting() {
    for k in [65_536, 260_000, 270_016] {
        computed(&format!("a product of {k}"), 1e-6, |l| {
            let (a, b) = (l.noise(&[k, 3], 1), l.noise(&[k, 1], 2));
            matmul::mul_mat(&mut l.ctx, a, b).unwrap()
        });
    }
    for n in [65_537, 300_000] {
        computed(&format!("order of {n}"), 0.0, |l| {
            let a = l.noise(&[n], 1);
            sort::argsort(&mut l.ctx, a, GGML_SORT_ORDER_ASC).unwrap()
        });
        computed(&format!("sum of {n}"), 0.0, |l| {
            let (a, b) = (l.noise(&[n], 1), l.noise(&[n], 2));
            binary::add(&mut l.ctx, a, b).unwrap()
        });
    }
}
