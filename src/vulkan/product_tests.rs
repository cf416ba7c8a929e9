//! Products of one column are joined, with and without integers, unless another node needs an intermediate result or memory is in the way.

use super::device::{Card, author};
use super::fusion::{Chain, find};
use super::lab::{Lab, agrees, floats, scattered};
use super::testing::{Quiet, devices, publish};
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::{ggml_glu_op, ggml_status};
use crate::backend::{DeviceRef, view as memory};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::{Place, glu, matmul, rows, unary, view};
use std::sync::{Arc, OnceLock};

/// The device of the tests as a card, and as a card with fast integer dot products if the driver has any. Empty without a driver.
fn cards() -> &'static [(&'static str, DeviceRef)] {
    static CARDS: OnceLock<Vec<(&str, DeviceRef)>> = OnceLock::new();
    CARDS.get_or_init(|| {
        let Some([device, _]) = devices() else { return Vec::new() };
        let mut card = (**author(device).unwrap().info()).clone();
        card.software = false;
        card.features.fast_integer_dot = false;
        let mut ints = card.clone();
        ints.features.fast_integer_dot = ints.features.integer_dot;
        let reg = publish([card, ints].map(|i| Card { info: Arc::new(i), direct: true }).to_vec());
        vec![("floats", reg.device(0).unwrap()), ("integers", reg.device(1).unwrap())]
    })
}

fn weight(l: &mut Lab, format: ggml_type, ne: &[i64], seed: u32) -> TensorRef {
    match format {
        GGML_TYPE_F32 => l.noise(ne, seed),
        GGML_TYPE_F16 => l.f16s(ne, |i| scattered(i, seed)),
        _ => l.blocks(format, ne, |i| scattered(i, seed)).0,
    }
}

/// A column after a norm, as the products of a model read it.
fn column(l: &mut Lab, k: i64) -> TensorRef {
    let (x, w) = (l.noise(&[k], 1), l.noise(&[k], 2));
    let n = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
    mul(&mut l.ctx, n, w).unwrap()
}

/// Products of a column with matrices of these numbers of rows.
fn products(l: &mut Lab, format: ggml_type, rows: &[i64]) -> Vec<TensorRef> {
    let x = column(l, 512);
    let product = |(i, &m): (usize, &i64)| {
        let a = weight(l, format, &[512, m], 10 + i as u32);
        matmul::mul_mat(&mut l.ctx, a, x).unwrap()
    };
    rows.iter().enumerate().map(product).collect()
}

/// The chains of a graph: first node, numbers of products, summands and of gated functions, number of nodes.
fn chains(graph: GraphRef, device: DeviceRef) -> Vec<(usize, [usize; 3], usize)> {
    let mut taken = vec![false; graph.n_nodes()];
    let mut all = Vec::new();
    for i in 0..graph.n_nodes() {
        let Some(found) = find(graph, i, &taken, author(device).unwrap().info()) else { continue };
        found.nodes.iter().for_each(|&k| taken[k] = true);
        if let Chain::Products(joined) = found.chain {
            let summands = joined.parts.iter().flatten().flat_map(|p| p.summands).flatten().count();
            all.push((
                i,
                [joined.parts.iter().flatten().count(), summands, joined.gate.iter().count()],
                found.nodes.len(),
            ));
        }
    }
    all
}

fn swiglu(l: &mut Lab, gate: TensorRef, up: TensorRef) -> TensorRef {
    glu::glu(&mut l.ctx, ggml_glu_op::GGML_GLU_OP_SWIGLU, gate, Some(up), false).unwrap()
}

fn compute(graph: GraphRef, device: DeviceRef) {
    let stream = device.init(None).unwrap();
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    stream.synchronize();
}

type Make = fn(&mut Lab, ggml_type) -> Vec<TensorRef>;

/// Q, K and V. Odd numbers of rows: a workgroup has rows of two matrices, and a row too few.
fn three(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    products(l, f, &[33, 16, 8])
}

fn two_and_biases(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    let all = products(l, f, &[20, 12]);
    all.into_iter()
        .map(|t| {
            let bias = l.noise(&[t.ne()[0]], 5);
            add(&mut l.ctx, t, bias).unwrap()
        })
        .collect()
}

fn bias_and_residual(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    let t = products(l, f, &[19])[0];
    let (bias, residual) = (l.noise(&[19], 5), l.noise(&[19], 6));
    let t = add(&mut l.ctx, t, bias).unwrap();
    vec![add(&mut l.ctx, residual, t).unwrap()]
}

fn gate_and_up(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    let all = products(l, f, &[24, 24]);
    vec![swiglu(l, all[1], all[0])]
}

/// The values of a token go to the cache, under the name of a view.
fn values_into_rows(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    let all = products(l, f, &[20, 12]);
    let ids = l.i64s(&[1], &[3]);
    let cache = l.f32s(&[12, 5], |i| i as f32 * 0.01);
    let row = view::reshape(&mut l.ctx, all[1], &[12, 1]).unwrap();
    vec![all[0], rows::set_rows(&mut l.ctx, cache, row, ids).unwrap()]
}

const ALL: [(Make, [usize; 3], usize); 5] = [
    (three, [3, 0, 0], 3),
    (two_and_biases, [2, 2, 0], 4),
    (bias_and_residual, [1, 2, 0], 3),
    (gate_and_up, [2, 0, 1], 3),
    (values_into_rows, [2, 0, 0], 3),
];

#[test]
fn joined_products_give_what_their_nodes_give() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for (i, (make, parts, nodes)) in ALL.into_iter().enumerate() {
            for format in
                [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS]
            {
                let mut lab = Lab::new();
                let ends = make(&mut lab, format);
                let graph = lab.graph(&ends);
                let _buffer = lab.place(*device);
                // The norm and its product come first.
                assert_eq!(chains(graph, *device), [(2, parts, nodes)], "{way}, join {i}, {format:?}");
                // The CPU rounds the column to bytes, too, and by other blocks.
                assert!(agrees(*device, &format!("{way}, join {i}, {format:?}"), 2e-4, &|l| make(l, format)));
            }
        }
    }
}

#[test]
fn products_that_others_read_are_not_joined_with_what_follows() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for output in [true, false] {
            for which in [0, 1] {
                let mut lab = Lab::new();
                let all = products(&mut lab, GGML_TYPE_Q8_0, &[24, 24]);
                let gated = swiglu(&mut lab, all[0], all[1]);
                let mut ends = vec![gated];
                if output {
                    all[which].add_flag(GGML_TENSOR_FLAG_OUTPUT);
                } else {
                    ends.push(unary::scale(&mut lab.ctx, all[which], 2.0).unwrap());
                }
                let graph = lab.graph(&ends);
                let _buffer = lab.place(*device);
                // Both are still products of one column.
                assert_eq!(chains(graph, *device), [(2, [2, 0, 0], 2)], "{way}, output {output}, product {which}");
                compute(graph, *device);
                let [a, b, d] = [all[0], all[1], gated].map(floats);
                for i in 0..24 {
                    let want = a[i] / (1.0 + (-a[i]).exp()) * b[i];
                    assert!((d[i] - want).abs() < 1e-4, "{way}: {} for {want}", d[i]);
                }
            }
        }
    }
}

/// An evaluation callback of a scheduler computes the graph in slices. What a slice ends with is written.
#[test]
fn the_end_of_a_slice_is_written() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        let mut lab = Lab::new();
        let end = gate_and_up(&mut lab, GGML_TYPE_Q8_0);
        let graph = lab.graph(&end);
        let _buffer = lab.place(*device);
        // Norm, weight, and both products, without the gated function.
        let mut slice = graph.slice(0..4);
        // SAFETY: a slice of a valid graph, which lives as long as the handle.
        let part = unsafe { GraphRef::from_ptr(&raw mut slice) }.unwrap();
        assert_eq!(chains(part, *device), [(2, [2, 0, 0], 2)], "{way}");
        compute(part, *device);
        let mut twin = Lab::new();
        let end = gate_and_up(&mut twin, GGML_TYPE_Q8_0);
        let all = twin.graph(&end);
        let cpu = crate::cpu::reg().device(0).unwrap();
        let _buffer = twin.place(cpu);
        compute(all, cpu);
        let [got, want] = [graph, all].map(|g| [2, 3].map(|i| floats(g.node(i))));
        for (a, b) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((a - b).abs() < 0.3, "{way}: {a} for {b}");
        }
    }
}

/// A product whose result has the memory of what a node before it reads must wait for that node.
#[test]
fn products_do_not_overtake_readers_of_their_memory() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for over in [false, true] {
            let mut lab = Lab::new();
            let x = lab.noise(&[512], 1);
            let (a, b) =
                (weight(&mut lab, GGML_TYPE_Q8_0, &[512, 64], 2), weight(&mut lab, GGML_TYPE_Q8_0, &[512, 64], 3));
            let first = matmul::mul_mat(&mut lab.ctx, a, x).unwrap();
            let old = lab.noise(&[64], 4);
            let between = unary::scale(&mut lab.ctx, old, 2.0).unwrap();
            let second = matmul::mul_mat(&mut lab.ctx, b, x).unwrap();
            let graph = lab.graph(&[first, between, second]);
            let own = device.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
            let mut at = own.base();
            for t in lab.ctx.tensors() {
                if t == second || !t.data().is_null() {
                    continue;
                }
                at = at.wrapping_add((at as usize).next_multiple_of(256) - at as usize);
                assert_eq!(memory::bind(own.handle(), t, at), ggml_status::GGML_STATUS_SUCCESS);
                at = at.wrapping_add(t.nbytes() + 1024);
            }
            let place = if over { old.data().cast::<u8>() } else { own.base().wrapping_add(512 << 10) };
            assert_eq!(memory::bind(own.handle(), second, place), ggml_status::GGML_STATUS_SUCCESS);
            lab.fill();
            assert_eq!(chains(graph, *device).len(), usize::from(!over), "{way}, over {over}");
            compute(graph, *device);
            let doubled = floats(between);
            for (i, v) in doubled.iter().enumerate() {
                assert_eq!(*v, 2.0 * scattered(i, 4), "{way}, over {over}, value {i}");
            }
        }
    }
}

/// A sum, or a gated function, must not have the memory of the column or of a matrix, which other workgroups still read.
#[test]
fn results_over_their_sources_are_not_joined() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for over in ["column", "summand", "nothing"] {
            let mut lab = Lab::new();
            let x = lab.noise(&[512], 1);
            let a = weight(&mut lab, GGML_TYPE_Q8_0, &[512, 512], 2);
            let residual = lab.noise(&[512], 3);
            let product = matmul::mul_mat(&mut lab.ctx, a, x).unwrap();
            let sum = add(&mut lab.ctx, product, residual).unwrap();
            let graph = lab.graph(&[sum]);
            let own = device.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
            let mut at = own.base();
            for t in lab.ctx.tensors().filter(|t| *t != sum && t.data().is_null()) {
                at = at.wrapping_add((at as usize).next_multiple_of(256) - at as usize);
                assert_eq!(memory::bind(own.handle(), t, at), ggml_status::GGML_STATUS_SUCCESS);
                at = at.wrapping_add(t.nbytes() + 1024);
            }
            let place = match over {
                "column" => x.data(),
                "summand" => residual.data(),
                _ => own.base().wrapping_add(768 << 10).cast(),
            };
            assert_eq!(memory::bind(own.handle(), sum, place.cast()), ggml_status::GGML_STATUS_SUCCESS);
            lab.fill();
            assert_eq!(chains(graph, *device).len(), usize::from(over != "column"), "{way}, over the {over}");
            compute(graph, *device);
            let mut twin = Lab::new();
            let (x, a) = (twin.noise(&[512], 1), weight(&mut twin, GGML_TYPE_Q8_0, &[512, 512], 2));
            let residual = twin.noise(&[512], 3);
            let product = matmul::mul_mat(&mut twin.ctx, a, x).unwrap();
            let want = add(&mut twin.ctx, product, residual).unwrap();
            let graph = twin.graph(&[want]);
            let cpu = crate::cpu::reg().device(0).unwrap();
            let _buffer = twin.place(cpu);
            compute(graph, cpu);
            let error = floats(sum).iter().zip(floats(want)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(error < 0.3, "{way}, over the {over}: {error}");
        }
    }
}

/// The norm also writes the blocks of integers that products of few and many columns read, once for all of them.
#[test]
fn columns_are_converted_once() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for n in [1, 3, 40] {
            for k in [96, 512, 2080] {
                let make = |l: &mut Lab| {
                    let (x, w) = (l.noise(&[k, n], 1), l.noise(&[k], 2));
                    let t = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
                    let t = mul(&mut l.ctx, t, w).unwrap();
                    // Two formats, which do not join.
                    let (a, b) = (weight(l, GGML_TYPE_Q8_0, &[k, 40], 3), weight(l, GGML_TYPE_Q4_0, &[k, 24], 4));
                    let (a, b) =
                        (matmul::mul_mat(&mut l.ctx, a, t).unwrap(), matmul::mul_mat(&mut l.ctx, b, t).unwrap());
                    // The rows themselves are also read.
                    vec![a, b, unary::scale(&mut l.ctx, t, 2.0).unwrap()]
                };
                assert!(agrees(*device, &format!("{way}, {n} columns of {k}"), 2e-4, &make));
                let experts = |l: &mut Lab| {
                    let (x, w) = (l.noise(&[k, n], 1), l.noise(&[k], 2));
                    let t = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
                    let t = mul(&mut l.ctx, t, w).unwrap();
                    let t = view::reshape(&mut l.ctx, t, &[k, 1, n]).unwrap();
                    let ids: Vec<i32> = (0..2 * n as i32).map(|i| i * 5 % 4).collect();
                    let (a, ids) = (weight(l, GGML_TYPE_Q8_0, &[k, 40, 4], 3), l.i32s(&[2, n], &ids));
                    let b = weight(l, GGML_TYPE_Q8_0, &[k, 40, 4], 4);
                    [a, b].map(|m| matmul::mul_mat_id(&mut l.ctx, m, t, ids).unwrap()).to_vec()
                };
                assert!(agrees(*device, &format!("{way}, experts, {n} columns of {k}"), 2e-4, &experts));
            }
        }
    }
}
