//! Products of one column are joined, with and without integers, unless another node needs an intermediate result or
//! memory is in the way.

use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::{GGML_ROPE_TYPE_NEOX, ggml_glu_op, ggml_status};
use crate::backend::{DeviceRef, view as memory};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::rope::{Rope, rope};
use crate::tensor::ops::{Place, copy, glu, matmul, rows, unary, view};
use crate::vulkan::backend::device::{Card, author};
use crate::vulkan::chains::{Chain, find};
use crate::vulkan::tests::devices::{Quiet, devices, publish};
use crate::vulkan::tests::lab::{Lab, agrees, bind_apart, floats, scattered};
use std::sync::{Arc, OnceLock};

/// The device of the tests as a card, and as a card with fast integer dot products if the driver has any. Empty without
/// a driver.
pub(in crate::vulkan) fn cards() -> &'static [(&'static str, DeviceRef)] {
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

pub(in crate::vulkan) fn weight(l: &mut Lab, format: ggml_type, ne: &[i64], seed: u32) -> TensorRef {
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

/// How the queries and keys of a model are rotated.
struct Rotation {
    rope: Rope,
    factors: bool,
    biases: bool,
    /// Format of the cache.
    cache: ggml_type,
}

/// Queries, keys and values of three, two and two heads, as a model makes them for a token: queries and keys are
/// rotated; keys and values go to rows of their caches, each by an index of its own.
fn rotated(l: &mut Lab, f: ggml_type, with: &Rotation) -> Vec<TensorRef> {
    const HEAD: i64 = 20;
    let all = products(l, f, &[3 * HEAD, 2 * HEAD, 2 * HEAD]);
    let at = l.i32s(&[1], &[77]);
    let factors = with.factors.then(|| l.f32s(&[HEAD / 2], |i| 1.0 + 0.5 * i as f32));
    let [mut q, mut k, mut v] = [all[0], all[1], all[2]];
    if with.biases {
        [q, k, v] = [q, k, v].map(|t| {
            let bias = l.noise(&[t.ne()[0]], 5);
            add(&mut l.ctx, t, bias).unwrap()
        });
    }
    [q, k] = [q, k].map(|t| {
        let heads = view::reshape(&mut l.ctx, t, &[HEAD, t.ne()[0] / HEAD, 1]).unwrap();
        rope(&mut l.ctx, heads, at, factors, &with.rope, Place::New).unwrap()
    });
    let cached = |(t, row): (TensorRef, i64)| {
        let ids = l.i64s(&[1], &[row]);
        let cache = match with.cache {
            GGML_TYPE_F32 => l.f32s(&[2 * HEAD, 5], |i| i as f32 * 0.01),
            _ => l.f16s(&[2 * HEAD, 5], |i| i as f32 * 0.01),
        };
        let t = view::reshape(&mut l.ctx, t, &[2 * HEAD, 1]).unwrap();
        let end = rows::set_rows(&mut l.ctx, cache, t, ids).unwrap();
        // F16 rows are compared as numbers.
        if with.cache == GGML_TYPE_F32 { end } else { copy::cast(&mut l.ctx, end, GGML_TYPE_F32).unwrap() }
    };
    let [k, v] = [(k, 3), (v, 1)].map(cached);
    vec![q, k, v]
}

pub(in crate::vulkan) fn yarn(n_dims: i32, mode: i32) -> Rope {
    let plain = Rope::plain(n_dims, mode);
    Rope {
        n_ctx_orig: 64,
        freq_scale: 0.5,
        ext_factor: 0.7,
        attn_factor: 1.2,
        beta_fast: 32.0,
        beta_slow: 1.0,
        ..plain
    }
}

/// Llama: neighbours.
fn rotated_neighbours(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    rotated(l, f, &Rotation { rope: Rope::plain(20, 0), factors: false, biases: false, cache: GGML_TYPE_F16 })
}

/// Llama 3.1: factors of the frequencies. Only a part of a head is rotated.
fn rotated_by_factors(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    rotated(l, f, &Rotation { rope: yarn(12, 0), factors: true, biases: false, cache: GGML_TYPE_F32 })
}

/// Halves, of which there are others after them.
fn rotated_halves(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    rotated(l, f, &Rotation { rope: yarn(12, GGML_ROPE_TYPE_NEOX), factors: true, biases: false, cache: GGML_TYPE_F16 })
}

/// Qwen 2: halves, and biases, which leave no room for a second index.
fn rotated_with_biases(l: &mut Lab, f: ggml_type) -> Vec<TensorRef> {
    let rope = Rope::plain(20, GGML_ROPE_TYPE_NEOX);
    rotated(l, f, &Rotation { rope, factors: false, biases: true, cache: GGML_TYPE_F32 })
}

const ALL: [(Make, [usize; 3], usize); 9] = [
    (three, [3, 0, 0], 3),
    (two_and_biases, [2, 2, 0], 4),
    (bias_and_residual, [1, 2, 0], 3),
    (gate_and_up, [2, 0, 1], 3),
    (values_into_rows, [2, 0, 0], 3),
    (rotated_neighbours, [3, 0, 0], 7),
    (rotated_by_factors, [3, 0, 0], 7),
    (rotated_halves, [3, 0, 0], 7),
    (rotated_with_biases, [3, 3, 0], 9),
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

/// What a rotation needs and does not find: it is computed by itself.
#[test]
fn rotations_that_cannot_be_joined() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for what in ["nothing", "output", "reader", "odd", "another rotation", "over the positions", "over the column"]
        {
            let make = |lab: &mut Lab| {
                let all = products(lab, GGML_TYPE_Q8_0, &[40, 40, if what == "odd" { 3 } else { 8 }]);
                let at = lab.i32s(&[1], &[9]);
                let plain = Rope::plain(20, 0);
                let others = Rope { freq_base: if what == "another rotation" { 5000.0 } else { 10000.0 }, ..plain };
                let turned = [(all[0], plain), (all[1], others)].map(|(t, with)| {
                    let heads = view::reshape(&mut lab.ctx, t, &[20, 2, 1]).unwrap();
                    rope(&mut lab.ctx, heads, at, None, &with, Place::New).unwrap()
                });
                let mut ends = vec![turned[0], turned[1], all[2]];
                match what {
                    "output" => all[0].add_flag(GGML_TENSOR_FLAG_OUTPUT),
                    "reader" => ends.push(unary::scale(&mut lab.ctx, all[0], 2.0).unwrap()),
                    _ => {}
                }
                (ends, at)
            };
            let mut lab = Lab::new();
            let (ends, at) = make(&mut lab);
            let graph = lab.graph(&ends);
            let column = graph.node(1);
            let own = device.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
            let mut place = own.base();
            let over = match what {
                "over the positions" => Some(at),
                "over the column" => Some(column),
                _ => None,
            };
            // The rotation has the memory of what other workgroups would still read.
            for t in lab.ctx.tensors().filter(|t| t.data().is_null() && t.view_src().is_none()) {
                if over.is_none() || t != ends[0] {
                    place = place.wrapping_add((place as usize).next_multiple_of(256) - place as usize);
                    assert_eq!(memory::bind(own.handle(), t, place), ggml_status::GGML_STATUS_SUCCESS);
                    place = place.wrapping_add(t.nbytes() + 1024);
                }
            }
            if let Some(over) = over {
                assert_eq!(memory::bind(own.handle(), ends[0], over.data().cast()), ggml_status::GGML_STATUS_SUCCESS);
            }
            for t in lab.ctx.tensors().filter(|t| t.data().is_null()) {
                assert_eq!(memory::init(t), ggml_status::GGML_STATUS_SUCCESS);
            }
            lab.fill();
            let found = chains(graph, *device);
            let nodes: usize = found.iter().map(|c| c.2).sum();
            let all = if what == "nothing" { 5 } else { 4 };
            match what {
                // The third matrix does without the others, or they without their rotations.
                "odd" => assert!(nodes < 6 && found.len() == 1, "{way}, {what}: {found:?}"),
                "over the column" | "over the positions" => assert!(nodes < 5, "{way}, {what}: {found:?}"),
                _ => assert_eq!(nodes, all, "{way}, {what}: {found:?}"),
            }
            if over.is_none() {
                assert!(agrees(*device, &format!("{way}, {what}"), 2e-4, &|l| make(l).0));
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
            bind_apart(own.handle(), lab.ctx.tensors().filter(|t| *t != second && t.data().is_null()));
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

/// After the last product, an allocator gives the memory of the column to other tensors. That is no reason to compute
/// SET_ROWS, which comes later, in a dispatch of its own. Before a product, it is one.
#[test]
fn the_column_may_be_overwritten_behind_the_last_product() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for behind in [true, false] {
            let mut lab = Lab::new();
            let x = lab.noise(&[512], 1);
            let [a, b] = [2, 3].map(|seed| weight(&mut lab, GGML_TYPE_Q8_0, &[512, 64], seed));
            let [first, second] = [a, b].map(|w| matmul::mul_mat(&mut lab.ctx, w, x).unwrap());
            let old = lab.noise(&[64], 4);
            let between = unary::scale(&mut lab.ctx, old, 2.0).unwrap();
            let (cache, ids) = (lab.f32s(&[64, 4], |i| i as f32), lab.i64s(&[1], &[2]));
            let set = rows::set_rows(&mut lab.ctx, cache, second, ids).unwrap();
            let order = if behind { [first, second, between, set] } else { [first, between, second, set] };
            let graph = lab.graph(&order);
            let own = device.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
            bind_apart(own.handle(), lab.ctx.tensors().filter(|t| *t != between && t.view_src().is_none()));
            assert_eq!(memory::bind(own.handle(), between, x.data().cast()), ggml_status::GGML_STATUS_SUCCESS);
            assert_eq!(memory::init(set), ggml_status::GGML_STATUS_SUCCESS);
            lab.fill();
            let joined = if behind { (0, [2, 0, 0], 3) } else { (2, [1, 0, 0], 2) };
            assert_eq!(chains(graph, *device), [joined], "{way}, behind {behind}");
            compute(graph, *device);
            assert!(floats(between).iter().enumerate().all(|(i, v)| *v == 2.0 * scattered(i, 4)), "{way}");
            // The same product, from the column that it sees.
            let mut twin = Lab::new();
            let seen = |i: usize| if behind || i >= 64 { scattered(i, 1) } else { 2.0 * scattered(i, 4) };
            let (x, b) = (twin.f32s(&[512], seen), weight(&mut twin, GGML_TYPE_Q8_0, &[512, 64], 3));
            let alone = matmul::mul_mat(&mut twin.ctx, b, x).unwrap();
            let graph = twin.graph(&[alone]);
            let _buffer = twin.place(*device);
            compute(graph, *device);
            for (i, (got, want)) in floats(cache)[128..192].iter().zip(floats(alone)).enumerate() {
                // Rounded to bytes or not, by how many products there are.
                assert!((got - want).abs() < 0.3, "{way}, behind {behind}, value {i}: {got} for {want}");
            }
        }
    }
}

/// A sum, or a gated function, must not have the memory of the column or of a matrix, which other workgroups still
/// read.
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
            bind_apart(own.handle(), lab.ctx.tensors().filter(|t| *t != sum && t.data().is_null()));
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
