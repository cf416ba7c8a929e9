//! Products of one to eight columns: one pass over the weights, and for each column the bits that it gets alone.

use crate::abi::ggml::ggml_type::{self, *};
use crate::backend::DeviceRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::{Place, matmul, view};
use crate::vulkan::backend::device::{Card, author};
use crate::vulkan::shaders::interface::formats;
use crate::vulkan::tests::devices::{Quiet, devices, publish};
use crate::vulkan::tests::lab::{Lab, agrees, results, scattered};
use crate::vulkan::tests::products::{cards, weight};
use std::sync::Arc;

/// The device of the tests as it is, and as the cards of the tests of products. Empty without a driver.
fn ways() -> Vec<(&'static str, DeviceRef)> {
    let software = devices().map(|[device, _]| ("software", device));
    software.into_iter().chain(cards().iter().copied()).collect()
}

/// Rows after a norm, which also writes them as blocks of integers where products read those.
fn normed(l: &mut Lab, x: TensorRef) -> TensorRef {
    let w = l.noise(&[x.ne()[0]], 3);
    let x = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
    mul(&mut l.ctx, x, w).unwrap()
}

/// The product of `n` columns from number `first` on, after a norm.
fn product(l: &mut Lab, format: ggml_type, [k, m]: [i64; 2], first: usize, n: usize) -> TensorRef {
    let x = l.f32s(&[k, n as i64], |i| scattered(first * k as usize + i, 2));
    let (x, a) = (normed(l, x), weight(l, format, &[k, m], 1));
    matmul::mul_mat(&mut l.ctx, a, x).unwrap()
}

/// Fails unless so many columns together give the bytes that each gives alone.
fn check(device: DeviceRef, way: &str, format: ggml_type, shape: [i64; 2], counts: &[usize]) {
    let column = 4 * shape[1] as usize;
    let alone: Vec<Vec<u8>> =
        (0..8).map(|j| results(device, &|l| vec![product(l, format, shape, j, 1)]).unwrap().remove(0)).collect();
    for &n in counts {
        let together = results(device, &|l| vec![product(l, format, shape, 0, n)]).unwrap().remove(0);
        for (j, (a, b)) in together.chunks(column).zip(&alone).enumerate() {
            assert!(a == &b[..], "{way}, {format:?} of {shape:?}: column {j} of {n} differs from the same one alone");
        }
    }
}

#[test]
fn columns_together_have_the_bits_of_each_alone() {
    let _quiet = Quiet::new();
    for (way, device) in ways() {
        for &format in formats::ALL {
            let ints = way == "integers";
            if ints && !formats::INTS.contains(&format) {
                continue;
            }
            // Every number of columns for some formats: each is a pipeline, for which a software driver takes a second
            // and more.
            let counts: &[usize] = match format {
                GGML_TYPE_F32 | GGML_TYPE_Q8_0 => &[2, 3, 4, 5, 6, 7, 8],
                GGML_TYPE_F16 | GGML_TYPE_Q4_K | GGML_TYPE_Q6_K => &[3, 8],
                _ => &[5],
            };
            let k = if format.blck_size() == 1 { 267 } else { 512 };
            check(device, way, format, [k, 21], counts);
        }
    }
}

/// So many rows that a workgroup of a card computes several.
#[test]
fn rows_together_have_the_bits_of_each_alone() {
    let _quiet = Quiet::new();
    for (way, device) in ways() {
        for format in [GGML_TYPE_F32, GGML_TYPE_Q8_0] {
            let shape = [64, 2051];
            check(device, way, format, shape, &[1, 2, 8]);
            // The same rows as those of a small matrix.
            let of_few = results(device, &|l| vec![product(l, format, [64, 70], 0, 5)]).unwrap().remove(0);
            let of_many = results(device, &|l| vec![product(l, format, shape, 0, 5)]).unwrap().remove(0);
            for (j, (few, many)) in of_few.chunks(4 * 70).zip(of_many.chunks(4 * 2051)).enumerate() {
                assert!(few == &many[..4 * 70], "{way}, {format:?}: column {j} depends on the number of rows");
            }
        }
    }
}

/// A product that is joined with an addition.
#[test]
fn joined_products_have_the_bits_of_others() {
    let _quiet = Quiet::new();
    for (way, device) in ways() {
        for format in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K] {
            let both = results(device, &|l| {
                [1, 3]
                    .map(|n| {
                        let t = product(l, format, [512, 21], 0, n);
                        let zero = l.f32s(&[21, n as i64], |_| 0.0);
                        add(&mut l.ctx, t, zero).unwrap()
                    })
                    .to_vec()
            });
            let [one, three] = both.unwrap().try_into().unwrap();
            assert!(one == three[..one.len()], "{way}, {format:?}");
        }
    }
}

/// Heads that share keys are columns of one product: heads next to each other or positions next to each other, several
/// batches. Each head has the bits that it gets alone.
#[test]
fn heads_that_share_a_matrix() {
    let _quiet = Quiet::new();
    for (way, device) in ways() {
        for (n, heads, groups, batches) in
            [(1, 8, 2, 1), (1, 12, 1, 2), (2, 8, 2, 1), (5, 6, 3, 1), (3, 4, 2, 2), (9, 4, 2, 1)]
        {
            for (turned, format) in [(false, GGML_TYPE_F32), (true, GGML_TYPE_F32), (true, GGML_TYPE_Q8_0)] {
                let make = |l: &mut Lab| {
                    let a = weight(l, format, &[64, 33, groups, batches], 1);
                    let b = if turned {
                        let b = l.noise(&[64, heads, n, batches], 2);
                        view::permute(&mut l.ctx, b, [0, 2, 1, 3]).unwrap()
                    } else {
                        l.noise(&[64, n, heads, batches], 2)
                    };
                    let mut all = vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()];
                    for i in 0..(heads * batches) as usize {
                        let (head, batch) = (i % heads as usize, i / heads as usize);
                        let group = head / (heads / groups) as usize;
                        let at = |t: TensorRef, i2: usize| i2 * t.nb()[2] + batch * t.nb()[3];
                        let x = view::view(&mut l.ctx, a, &[64, 33], &[a.nb()[1]], at(a, group)).unwrap();
                        let y = view::view(&mut l.ctx, b, &[64, n], &[b.nb()[1]], at(b, head)).unwrap();
                        all.push(matmul::mul_mat(&mut l.ctx, x, y).unwrap());
                    }
                    all
                };
                let what = format!("{way}, {n} columns, {heads} heads for {groups}, {batches} batches, {format:?}");
                let most = if format == GGML_TYPE_F32 { 1e-9 } else { 2e-4 };
                assert!(agrees(device, &what, most, &make));
                let mut found = results(device, &make).unwrap();
                let whole = found.remove(0);
                assert!(whole == found.concat(), "{what}: heads differ from those alone");
            }
        }
    }
}

/// The output of a large model has more rows than many devices have groups. It is computed by the same method, in few
/// parts.
#[test]
fn rows_beyond_the_groups_of_a_device() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let mut info = (**author(device).unwrap().info()).clone();
    info.software = false;
    let wide = publish(vec![Card { info: Arc::new(info.clone()), direct: true }]).device(0).unwrap();
    info.limits.groups = [300; 3];
    let narrow = publish(vec![Card { info: Arc::new(info), direct: true }]).device(0).unwrap();
    for n in [1, 2, 8] {
        // Two rows for each group, or four.
        let make = |l: &mut Lab| {
            let (a, b) = (l.noise(&[32, 2561], 1), l.noise(&[32, n], 2));
            vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
        };
        assert!(agrees(narrow, &format!("{n} columns"), 1e-10, &make));
        assert!(results(narrow, &make) == results(wide, &make), "{n} columns in parts");
    }
}
