//! Layers with experts: products of few tokens with what follows them, weighted sums, the choice of experts, norms of
//! heads. Each chain is found, and gives what its nodes give; what others read, or memory in the way, is not fused
//! over.

use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::ggml_unary_op::{self, *};
use crate::abi::ggml::{GGML_ROPE_TYPE_NEOX, ggml_glu_op, ggml_status};
use crate::backend::{DeviceRef, view as memory};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, add_id, div, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::rope::{Rope, rope};
use crate::tensor::ops::softmax::soft_max;
use crate::tensor::ops::unary::Plain;
use crate::tensor::ops::{Place, copy, glu, matmul, reduce, rows, sort, unary, view};
use crate::vulkan::backend::device::author;
use crate::vulkan::chains;
use crate::vulkan::tests::chains::name;
use crate::vulkan::tests::devices::{Quiet, kinds};
use crate::vulkan::tests::lab::{Lab, agrees, as_floats, bind_apart, bytes, floats, results, scattered};
use crate::vulkan::tests::products::{cards, weight, yarn};

/// The chains of a graph: name, number of nodes.
fn chains(graph: GraphRef, device: DeviceRef) -> Vec<(&'static str, usize)> {
    let info = author(device).unwrap().info();
    let mut taken = vec![false; graph.n_nodes()];
    let mut all = Vec::new();
    for i in 0..graph.n_nodes() {
        if taken[i] {
            continue;
        }
        if let Some(found) = chains::find(graph, i, &taken, info) {
            found.nodes.iter().for_each(|&k| taken[k] = true);
            all.push((name(&found.chain), found.nodes.len()));
        }
    }
    all
}

fn chains_of(device: DeviceRef, make: &dyn Fn(&mut Lab) -> Vec<TensorRef>) -> Vec<(&'static str, usize)> {
    let mut lab = Lab::new();
    let ends = make(&mut lab);
    let graph = lab.graph(&ends);
    let _buffer = lab.place(device);
    chains(graph, device)
}

fn compute(graph: GraphRef, device: DeviceRef) {
    let stream = device.init(None).unwrap();
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    stream.synchronize();
}

/// Computes the nodes of a graph one by one, so that nothing is fused.
fn compute_nodes(graph: GraphRef, device: DeviceRef) {
    for i in 0..graph.n_nodes() {
        let mut slice = graph.slice(i..i + 1);
        // SAFETY: a slice of a valid graph, which lives as long as the handle.
        let one = unsafe { GraphRef::from_ptr(&raw mut slice) }.unwrap();
        assert_eq!(chains(one, device), []);
        compute(one, device);
    }
}

/// The same as `results`, node by node.
fn unfused(device: DeviceRef, make: &dyn Fn(&mut Lab) -> Vec<TensorRef>) -> Vec<Vec<u8>> {
    let mut lab = Lab::new();
    let ends = make(&mut lab);
    let graph = lab.graph(&ends);
    let _buffer = lab.place(device);
    compute_nodes(graph, device);
    ends.iter().map(|t| bytes(*t)).collect()
}

/// Fails unless each number of a graph with fusion is close to that without.
fn assert_close(device: DeviceRef, make: &dyn Fn(&mut Lab) -> Vec<TensorRef>, most: f32, what: &str) {
    let (a, b) = (results(device, make).unwrap(), unfused(device, make));
    for (x, y) in a.iter().zip(&b).flat_map(|(a, b)| as_floats(a).into_iter().zip(as_floats(b))) {
        assert!((x - y).abs() <= most * (1.0 + y.abs()), "{what}: {x} for {y}");
    }
}

/// Experts that tokens go through.
#[derive(Clone, Copy)]
struct Experts {
    tokens: i64,
    slots: i64,
    biases: bool,
    /// The sum is added to what came before.
    residual: bool,
    ids: fn(usize) -> i32,
}

const COLUMNS: i64 = 256;
const HIDDEN: i64 = 96;
const N_EXPERTS: i64 = 5;

impl Experts {
    fn ids(&self, l: &mut Lab) -> TensorRef {
        let ids: Vec<i32> = (0..(self.slots * self.tokens) as usize).map(self.ids).collect();
        l.i32s(&[self.slots, self.tokens], &ids)
    }

    /// A product, with a bias if there are any.
    fn product(
        &self,
        l: &mut Lab,
        f: ggml_type,
        [k, m]: [i64; 2],
        x: TensorRef,
        ids: TensorRef,
        seed: u32,
    ) -> TensorRef {
        let a = weight(l, f, &[k, m, N_EXPERTS], seed);
        let t = matmul::mul_mat_id(&mut l.ctx, a, x, ids).unwrap();
        if !self.biases {
            return t;
        }
        let bias = l.noise(&[m, N_EXPERTS], seed + 1);
        add_id(&mut l.ctx, t, bias, ids).unwrap()
    }

    fn gated(&self, l: &mut Lab, f: ggml_type, ids: TensorRef) -> TensorRef {
        let x = l.noise(&[COLUMNS, 1, self.tokens], 1);
        let up = self.product(l, f, [COLUMNS, HIDDEN], x, ids, 10);
        let gate = self.product(l, f, [COLUMNS, HIDDEN], x, ids, 20);
        if self.biases {
            return glu::swiglu_oai(&mut l.ctx, gate, Some(up), 1.702, 7.0).unwrap();
        }
        glu::glu(&mut l.ctx, ggml_glu_op::GGML_GLU_OP_SWIGLU, gate, Some(up), false).unwrap()
    }

    /// The weighted sum of `x`.
    fn sum(&self, l: &mut Lab, x: TensorRef) -> TensorRef {
        let weights = l.noise(&[1, self.slots, self.tokens], 30);
        let all = mul(&mut l.ctx, x, weights).unwrap();
        let (nb, ne) = (all.nb(), all.ne());
        let mut part =
            |i: i64| view::view(&mut l.ctx, all, &[ne[0], self.tokens], &[nb[2]], i as usize * nb[1]).unwrap();
        let parts: Vec<_> = (0..self.slots).map(&mut part).collect();
        let mut total = parts[0];
        for p in &parts[1..] {
            total = add(&mut l.ctx, total, *p).unwrap();
        }
        if self.residual {
            let before = l.noise(&[ne[0], self.tokens], 31);
            total = add(&mut l.ctx, total, before).unwrap();
        }
        total
    }

    fn down(&self, l: &mut Lab, f: ggml_type, ids: TensorRef) -> TensorRef {
        let x = l.noise(&[COLUMNS, self.slots, self.tokens], 2);
        let down = self.product(l, f, [COLUMNS, HIDDEN + 1], x, ids, 40);
        self.sum(l, down)
    }
}

const PLAIN: Experts =
    Experts { tokens: 1, slots: 3, biases: false, residual: false, ids: |i| (i as i32 * 3 + 1) % N_EXPERTS as i32 };

const LAYERS: [Experts; 4] = [
    PLAIN,
    Experts { tokens: 3, residual: true, ..PLAIN },
    Experts { tokens: 1, slots: 2, biases: true, ..PLAIN },
    Experts { tokens: 4, slots: 4, biases: true, residual: true, ..PLAIN },
];

#[test]
fn products_with_experts_are_joined() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for (i, layer) in LAYERS.iter().enumerate() {
            // TQ1_0 is decoded at one place (LONG).
            for f in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_TQ1_0, GGML_TYPE_MXFP4] {
                let what = format!("{way}, layer {i}, {f:?}");
                let gated = |l: &mut Lab| {
                    let ids = layer.ids(l);
                    vec![layer.gated(l, f, ids)]
                };
                let down = |l: &mut Lab| {
                    let ids = layer.ids(l);
                    vec![layer.down(l, f, ids)]
                };
                let biases = usize::from(layer.biases);
                assert_eq!(chains_of(*device, &gated), [("experts", 3 + 2 * biases)], "{what}");
                let nodes = 1 + biases + layer.slots as usize + usize::from(layer.residual);
                assert_eq!(chains_of(*device, &down), [("experts", nodes)], "{what}");
                assert!(agrees(*device, &format!("{what}, gated"), 2e-4, &gated));
                assert!(agrees(*device, &format!("{what}, down"), 2e-4, &down));
            }
        }
    }
}

/// Numbers of experts that do not exist: their product is 0.
#[test]
fn experts_that_do_not_exist_add_nothing() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for layer in LAYERS {
            let layer = Experts { ids: |i| [-1, 2, i32::MAX, 0, 5, i32::MIN][i % 6], ..layer };
            let make = |l: &mut Lab| {
                let ids = layer.ids(l);
                vec![layer.gated(l, GGML_TYPE_Q8_0, ids), layer.down(l, GGML_TYPE_Q8_0, ids)]
            };
            assert_eq!(chains_of(*device, &make).len(), 2, "{way}");
            assert_close(*device, &make, 1e-3, way);
        }
    }
}

/// Many tokens: the products are tiles, and the weights are part of the sum.
#[test]
fn sums_of_experts_are_weighted() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        for layer in [Experts { tokens: 40, ..PLAIN }, Experts { tokens: 9, slots: 8, residual: true, ..PLAIN }] {
            let make = |l: &mut Lab| {
                let x = l.noise(&[70, layer.slots, layer.tokens], 2);
                vec![layer.sum(l, x)]
            };
            assert_eq!(chains_of(*device, &make)[0], ("sum", layer.slots as usize), "{way}");
            assert!(agrees(*device, way, 1e-12, &make));
        }
    }
}

/// Products of many tokens with the same experts: where some experts do not exist, each product's results for these are
/// 0.
#[test]
fn many_tokens_with_experts_agree() {
    let _quiet = Quiet::new();
    for (way, device) in kinds().iter().chain(cards()) {
        for (sorted, format) in [(true, GGML_TYPE_Q8_0), (true, GGML_TYPE_F16), (false, GGML_TYPE_Q8_0)] {
            let make = |l: &mut Lab| {
                let (n, slots) = (40, 3);
                let ids = if sorted {
                    let ratings = l.noise(&[N_EXPERTS, n], 9);
                    sort::argsort_top_k(&mut l.ctx, ratings, slots as i32).unwrap()
                } else {
                    let some: Vec<i32> = (0..n * slots).map(|i| [3, -1, 0, 4, 99, 1][i as usize * 5 % 6]).collect();
                    l.i32s(&[slots, n], &some)
                };
                let x = l.noise(&[COLUMNS, 1, n], 1);
                let [gate, up] = [10, 11].map(|seed| {
                    let a = weight(l, format, &[COLUMNS, COLUMNS, N_EXPERTS], seed);
                    matmul::mul_mat_id(&mut l.ctx, a, x, ids).unwrap()
                });
                let t = glu::glu(&mut l.ctx, ggml_glu_op::GGML_GLU_OP_SWIGLU, gate, Some(up), false).unwrap();
                let a = weight(l, format, &[COLUMNS, HIDDEN, N_EXPERTS], 12);
                vec![matmul::mul_mat_id(&mut l.ctx, a, t, ids).unwrap(), gate, up]
            };
            let what = format!("{way}, sorted {sorted}, {format:?}");
            if sorted {
                assert!(agrees(*device, &what, 2e-4, &make));
            }
            assert_close(*device, &make, 1e-5, &what);
        }
    }
}

/// What others read is written, and the rest is joined no further.
#[test]
fn what_others_read_of_experts_is_written() {
    let _quiet = Quiet::new();
    let layer = Experts { biases: true, residual: true, ..PLAIN };
    for (way, device) in cards() {
        let nodes = {
            let mut lab = Lab::new();
            let ids = layer.ids(&mut lab);
            let ends = [layer.gated(&mut lab, GGML_TYPE_Q8_0, ids), layer.down(&mut lab, GGML_TYPE_Q8_0, ids)];
            lab.graph(&ends).n_nodes()
        };
        for output in [true, false] {
            for i in 0..nodes {
                let make = |l: &mut Lab| {
                    let ids = layer.ids(l);
                    let mut ends = vec![layer.gated(l, GGML_TYPE_Q8_0, ids), layer.down(l, GGML_TYPE_Q8_0, ids)];
                    let node = l.graph(&ends).node(i);
                    if output {
                        node.add_flag(GGML_TENSOR_FLAG_OUTPUT);
                        ends.push(node);
                    } else if node.is_contiguous() {
                        ends.push(unary::scale(&mut l.ctx, node, 2.0).unwrap());
                    }
                    ends
                };
                assert_close(*device, &make, 1e-3, &format!("{way}, node {i}, output {output}"));
            }
        }
    }
}

/// The result has the memory of what other workgroups still read.
#[test]
fn results_over_what_experts_read_are_not_joined() {
    let _quiet = Quiet::new();
    for (way, device) in cards() {
        for over in ["nothing", "column", "weights", "ids", "residual"] {
            let layer = Experts { residual: true, ..PLAIN };
            let mut lab = Lab::new();
            let ids = layer.ids(&mut lab);
            let sum = layer.down(&mut lab, GGML_TYPE_Q8_0, ids);
            let graph = lab.graph(&[sum]);
            let column = graph.node(0).src(1).unwrap();
            let is_weight = |t: &TensorRef| (*t).ne()[..2] == [1, layer.slots];
            let weights = graph.nodes().find_map(|n| n.src(1).filter(is_weight)).unwrap();
            let own = device.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
            let rest = lab.ctx.tensors().filter(|t| *t != sum && t.data().is_null() && t.view_src().is_none());
            bind_apart(own.handle(), rest);
            let place = match over {
                "column" => column.data(),
                "weights" => weights.data(),
                "ids" => ids.data(),
                "residual" => sum.src(1).unwrap().data(),
                _ => own.base().wrapping_add(768 << 10).cast(),
            };
            assert_eq!(memory::bind(own.handle(), sum, place.cast()), ggml_status::GGML_STATUS_SUCCESS);
            for t in lab.ctx.tensors().filter(|t| t.data().is_null()) {
                assert_eq!(memory::init(t), ggml_status::GGML_STATUS_SUCCESS);
            }
            lab.fill();
            let whole = chains(graph, *device)[0] == ("experts", 2 + layer.slots as usize);
            assert_eq!(whole, matches!(over, "nothing" | "residual"), "{way}, over the {over}");
            compute(graph, *device);
            let got = floats(sum);
            let want = unfused(*device, &|l| {
                let ids = layer.ids(l);
                vec![layer.down(l, GGML_TYPE_Q8_0, ids)]
            });
            for (x, y) in got.iter().zip(as_floats(&want[0])) {
                assert!((x - y).abs() <= 1e-3 * (1.0 + y.abs()), "{way}, over the {over}: {x} for {y}");
            }
        }
    }
}

/// A way to choose experts.
#[derive(Clone, Copy, Debug)]
struct Route {
    experts: i64,
    tokens: i64,
    k: i32,
    gating: Gate,
    /// 0: by the values, 1: with a bias, 2: by another tensor.
    select: u32,
    late: bool,
    /// 1: by the sum, 2: by the clamped sum.
    norm: u32,
    scale: Option<[f32; 2]>,
    top_k: bool,
    /// Values of the logits.
    value: fn(usize) -> f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Gate {
    None,
    SoftMax,
    Unary(ggml_unary_op),
    RootSoftplus,
}

const ROUTE: Route = Route {
    experts: 128,
    tokens: 1,
    k: 8,
    gating: Gate::SoftMax,
    select: 0,
    late: false,
    norm: 0,
    scale: None,
    top_k: false,
    // Some are equal.
    value: |i| (4.0 * scattered(i, 3) * 16.0).round() / 16.0,
};

const SIGMOID: Gate = Gate::Unary(GGML_UNARY_OP_SIGMOID);

impl Route {
    /// The sort, and the weights.
    fn make(&self, l: &mut Lab) -> [TensorRef; 2] {
        let (n, t, k) = (self.experts, self.tokens, i64::from(self.k));
        let logits = l.f32s(&[n, t], self.value);
        let ctx = &mut l.ctx;
        let values = match self.gating {
            Gate::None => logits,
            Gate::SoftMax => soft_max(ctx, logits, None, 1.0, 0.0, Place::New).unwrap(),
            Gate::Unary(op) => unary::unary(ctx, op, logits, Place::New).unwrap(),
            Gate::RootSoftplus => {
                let t = unary::unary(ctx, GGML_UNARY_OP_SOFTPLUS, logits, Place::New).unwrap();
                unary::plain(ctx, Plain::Sqrt, t, Place::New).unwrap()
            }
        };
        let by = match self.select {
            0 => values,
            1 => {
                let bias = l.noise(&[n], 4);
                add(&mut l.ctx, values, bias).unwrap()
            }
            _ => l.noise(&[n, t], 5),
        };
        let ctx = &mut l.ctx;
        let ids = if self.top_k { sort::top_k(ctx, by, self.k) } else { sort::argsort_top_k(ctx, by, self.k) }.unwrap();
        let table = view::reshape(ctx, values, &[1, n, t]).unwrap();
        let mut w = rows::get_rows(ctx, table, ids).unwrap();
        if self.late {
            let flat = view::reshape(ctx, w, &[k, t]).unwrap();
            let soft = soft_max(ctx, flat, None, 1.0, 0.0, Place::New).unwrap();
            w = view::reshape(ctx, soft, &[1, k, t]).unwrap();
        }
        if self.norm > 0 {
            let flat = view::reshape(ctx, w, &[k, t]).unwrap();
            let mut sums = reduce::sum_rows(ctx, flat).unwrap();
            if self.norm == 2 {
                sums = unary::clamp(ctx, sums, 6.103_515_6e-5, f32::INFINITY, Place::New).unwrap();
            }
            let quotient = div(ctx, flat, sums).unwrap();
            w = view::reshape(ctx, quotient, &[1, k, t]).unwrap();
        }
        if let Some([factor, summand]) = self.scale {
            w = unary::scale_bias(ctx, w, factor, summand, Place::New).unwrap();
        }
        [if self.top_k { ids } else { ids.src(0).unwrap() }, w]
    }

    /// Nodes that compute.
    fn nodes(&self) -> usize {
        let gating = match self.gating {
            Gate::None => 0,
            Gate::RootSoftplus => 2,
            _ => 1,
        };
        let norm = [0, 2, 3][self.norm as usize];
        gating + usize::from(self.select == 1) + 2 + usize::from(self.late) + norm + usize::from(self.scale.is_some())
    }

    /// The chosen experts, and the bits of their weights.
    fn read(&self, [ids, weights]: [&[u8]; 2]) -> (Vec<i32>, Vec<u32>) {
        let words =
            |b: &[u8]| -> Vec<u32> { b.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect() };
        let (ids, k) = (words(ids), self.k as usize);
        let row = ids.len() / self.tokens as usize;
        let first = |t: usize| ids[t * row..][..k].iter().map(|i| *i as i32).collect::<Vec<_>>();
        ((0..self.tokens as usize).flat_map(first).collect(), words(weights))
    }
}

fn routes() -> Vec<Route> {
    vec![
        // OLMoE; Qwen 3; Llama 4; DeepSeek 3; gpt-oss; DeepSeek 4.
        ROUTE,
        Route { norm: 2, ..ROUTE },
        Route { experts: 16, k: 1, gating: SIGMOID, select: 2, ..ROUTE },
        Route { experts: 256, gating: SIGMOID, select: 1, norm: 2, scale: Some([2.5, 0.0]), ..ROUTE },
        Route { experts: 32, k: 4, gating: Gate::None, late: true, ..ROUTE },
        Route { experts: 256, k: 6, gating: Gate::RootSoftplus, select: 1, norm: 1, scale: Some([1.5, 0.0]), ..ROUTE },
        Route { experts: 60, k: 4, gating: Gate::None, select: 1, ..ROUTE },
        Route { experts: 8, k: 2, gating: SIGMOID, scale: Some([0.5, 0.25]), top_k: true, ..ROUTE },
        Route { experts: 512, k: 10, norm: 2, top_k: true, ..ROUTE },
        Route { experts: 1024, k: 64, gating: Gate::None, late: true, norm: 1, scale: Some([2.0, 0.0]), ..ROUTE },
        Route { experts: 5, k: 5, gating: Gate::None, ..ROUTE },
    ]
}

#[test]
fn experts_are_chosen_by_one_dispatch() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        for route in routes() {
            for tokens in [1, 7] {
                let route = Route { tokens, ..route };
                // The bias is added to leaves before the chain.
                let before = usize::from(route.gating == Gate::None && route.select == 1);
                let make = |l: &mut Lab| {
                    let [ids, weights] = route.make(l);
                    vec![weights, ids]
                };
                assert_eq!(chains_of(*device, &make), [("routing", route.nodes() - before)], "{way}, {route:?}");
                let (a, b) = (results(*device, &make).unwrap(), unfused(*device, &make));
                let (a, b) = (route.read([&a[1], &a[0]]), route.read([&b[1], &b[0]]));
                assert_eq!(a.0, b.0, "{way}, {route:?}");
                let same = a.1.iter().zip(&b.1).all(|(x, y)| {
                    let (x, y) = (f32::from_bits(*x), f32::from_bits(*y));
                    x.to_bits() == y.to_bits() || (x - y).abs() <= 4e-7 * y.abs()
                });
                assert!(same, "{way}, {route:?}: {:?} for {:?}", a.1, b.1);
            }
        }
    }
}

/// NaN of both signs, infinities, zeros of both signs: the order is that of the sort, so that experts are chosen once.
#[test]
fn experts_of_any_bits_are_chosen_once() {
    let _quiet = Quiet::new();
    let value = |i: usize| {
        [f32::NAN, 0.0, -f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY, 1.0, f32::MIN_POSITIVE, -1.0][i * 7 % 9]
    };
    for (way, device) in kinds() {
        for (experts, k, top_k) in [(9, 9, false), (128, 64, false), (300, 40, true)] {
            let route = Route { experts, k, top_k, tokens: 3, gating: Gate::None, value, ..ROUTE };
            let make = |l: &mut Lab| {
                let [ids, weights] = route.make(l);
                vec![weights, ids]
            };
            assert_eq!(chains_of(*device, &make), [("routing", 2)], "{way}");
            let (a, b) = (results(*device, &make).unwrap(), unfused(*device, &make));
            let (a, b) = (route.read([&a[1], &a[0]]), route.read([&b[1], &b[0]]));
            assert_eq!(a.0, b.0, "{way}, {route:?}");
            for t in a.0.chunks(k as usize) {
                let mut once = t.to_vec();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), k as usize, "{way}");
            }
            let same = |(x, y): (&u32, &u32)| x == y || f32::from_bits(*x).is_nan() && f32::from_bits(*y).is_nan();
            assert!(a.1.iter().zip(&b.1).all(same), "{way}, {route:?}");
        }
    }
}

/// What others read of the choice is written: the values, the sums, the whole order.
#[test]
fn what_others_read_of_a_choice_is_written() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        for route in [routes()[1], routes()[3], routes()[4], routes()[5]] {
            let nodes = {
                let mut lab = Lab::new();
                let [_, weights] = route.make(&mut lab);
                lab.graph(&[weights]).n_nodes()
            };
            for i in 0..nodes {
                let run = |fused: bool| {
                    let mut lab = Lab::new();
                    let [ids, weights] = route.make(&mut lab);
                    let graph = lab.graph(&[weights]);
                    let node = graph.node(i);
                    node.add_flag(GGML_TENSOR_FLAG_OUTPUT);
                    let _buffer = lab.place(*device);
                    if fused {
                        compute(graph, *device)
                    } else {
                        compute_nodes(graph, *device)
                    }
                    let first = route.read([&bytes(ids), &bytes(weights)]);
                    // A view of the order has the rest of it between its rows.
                    let node = if node.is_contiguous() { bytes(node) } else { Vec::new() };
                    (first, node)
                };
                let (a, b) = (run(true), run(false));
                assert_eq!(a.0.0, b.0.0, "{way}, {route:?}, node {i}");
                let near = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x - y).abs() <= 4e-7 * y.abs();
                assert!(
                    as_floats(&a.1).into_iter().zip(as_floats(&b.1)).all(|(x, y)| near(x, y)),
                    "{way}, {route:?}, node {i}"
                );
            }
        }
    }
}

/// What the shader cannot do is left to the nodes.
#[test]
fn choices_that_are_not_joined() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        for route in [
            Route { experts: 1025, ..ROUTE },
            Route { k: 65, ..ROUTE },
            Route { gating: Gate::Unary(GGML_UNARY_OP_TANH), ..ROUTE },
        ] {
            let make = |l: &mut Lab| {
                let [ids, weights] = route.make(l);
                vec![weights, ids]
            };
            let found = chains_of(*device, &make);
            let all = found.iter().map(|c| c.1).sum::<usize>();
            assert!(all < route.nodes(), "{way}, {route:?}: {found:?}");
            let (a, b) = (results(*device, &make).unwrap(), unfused(*device, &make));
            assert_eq!(route.read([&a[1], &a[0]]).0, route.read([&b[1], &b[0]]).0, "{way}, {route:?}");
        }
        // A softmax with a scale.
        let make = |l: &mut Lab| {
            let logits = l.noise(&[16, 1], 1);
            let values = soft_max(&mut l.ctx, logits, None, 2.0, 0.0, Place::New).unwrap();
            let ids = sort::argsort_top_k(&mut l.ctx, values, 2).unwrap();
            let table = view::reshape(&mut l.ctx, values, &[1, 16, 1]).unwrap();
            vec![rows::get_rows(&mut l.ctx, table, ids).unwrap()]
        };
        assert_eq!(chains_of(*device, &make), [("routing", 2)], "{way}: the sort and the values alone");
        assert!(agrees(*device, way, 1e-12, &make));
    }
}

/// Heads that are normalised and rotated.
#[derive(Clone, Copy)]
struct Heads {
    tokens: i64,
    rope: fn() -> Rope,
    factors: bool,
    /// Format of the cache of keys, or none.
    cache: Option<ggml_type>,
}

const HEAD: i64 = 40;

impl Heads {
    fn make(&self, l: &mut Lab) -> Vec<TensorRef> {
        let n = self.tokens;
        let position: Vec<i32> = (0..n as i32).map(|i| 70 + 3 * i).collect();
        let at = l.i32s(&[n], &position);
        let factors = self.factors.then(|| l.f32s(&[HEAD / 2], |i| 1.0 + 0.5 * i as f32));
        let mut turned = |heads: i64, seed: u32| {
            let (x, w) = (l.noise(&[HEAD, heads, n], seed), l.noise(&[HEAD], seed + 1));
            let t = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
            let t = mul(&mut l.ctx, t, w).unwrap();
            rope(&mut l.ctx, t, at, factors, &(self.rope)(), Place::New).unwrap()
        };
        let (q, mut k) = (turned(3, 1), turned(2, 3));
        if let Some(format) = self.cache {
            let to: Vec<i64> = (0..n).map(|i| (5 * i + 3) % 11).collect();
            let ids = l.i64s(&[n], &to);
            let cache = match format {
                GGML_TYPE_F32 => l.f32s(&[2 * HEAD, 11], |i| i as f32 * 0.01),
                _ => l.f16s(&[2 * HEAD, 11], |i| i as f32 * 0.01),
            };
            let rows_of = view::reshape(&mut l.ctx, k, &[2 * HEAD, n]).unwrap();
            k = rows::set_rows(&mut l.ctx, cache, rows_of, ids).unwrap();
            if format != GGML_TYPE_F32 {
                k = copy::cast(&mut l.ctx, k, GGML_TYPE_F32).unwrap();
            }
        }
        vec![q, k]
    }
}

#[test]
fn heads_are_normalised_and_rotated_by_one_dispatch() {
    let _quiet = Quiet::new();
    let neox: fn() -> Rope = || Rope::plain(HEAD as i32, GGML_ROPE_TYPE_NEOX);
    let all = [
        Heads { tokens: 1, rope: neox, factors: false, cache: Some(GGML_TYPE_F16) },
        Heads { tokens: 5, rope: || yarn(24, GGML_ROPE_TYPE_NEOX), factors: true, cache: Some(GGML_TYPE_F32) },
        Heads { tokens: 5, rope: || yarn(24, 0), factors: false, cache: None },
        Heads { tokens: 3, rope: || Rope::plain(HEAD as i32, 0), factors: true, cache: Some(GGML_TYPE_F16) },
    ];
    for (way, device) in kinds() {
        for (i, heads) in all.iter().enumerate() {
            let make = |l: &mut Lab| heads.make(l);
            let nodes = 6 + usize::from(heads.cache.is_some());
            assert_eq!(chains_of(*device, &make), [("heads", nodes)], "{way}, heads {i}");
            assert!(agrees(*device, &format!("{way}, heads {i}"), 1e-6, &make));
            // A node that is an output ends the chain of its tensor, and the other one is still joined.
            let nodes = {
                let mut lab = Lab::new();
                let ends = heads.make(&mut lab);
                lab.graph(&ends).n_nodes()
            };
            for k in 0..nodes {
                let run = |on: DeviceRef| {
                    let mut lab = Lab::new();
                    let ends = heads.make(&mut lab);
                    let graph = lab.graph(&ends);
                    graph.node(k).add_flag(GGML_TENSOR_FLAG_OUTPUT);
                    let _buffer = lab.place(on);
                    compute(graph, on);
                    [graph.node(k), ends[0], ends[1]]
                        .map(|t| if t.dtype() == GGML_TYPE_F32 { floats(t) } else { vec![] })
                };
                let (a, b) = (run(*device), run(crate::cpu::reg().device(0).unwrap()));
                for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
                    assert!((x - y).abs() < 3e-3, "{way}, heads {i}, node {k}: {x} for {y}");
                }
            }
        }
    }
}

/// Different rotations of queries and keys are two dispatches; a row that does not exist is not written.
#[test]
fn heads_that_are_not_joined() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        let make = |l: &mut Lab| {
            let at = l.i32s(&[1], &[9]);
            let turned = [5000.0, 10000.0].map(|freq_base| {
                let (x, w) = (l.noise(&[HEAD, 2, 1], 1), l.noise(&[HEAD], 2));
                let t = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
                let t = mul(&mut l.ctx, t, w).unwrap();
                rope(&mut l.ctx, t, at, None, &Rope { freq_base, ..Rope::plain(HEAD as i32, 0) }, Place::New).unwrap()
            });
            turned.to_vec()
        };
        assert_eq!(chains_of(*device, &make), [("heads", 3), ("heads", 3)], "{way}");
        assert!(agrees(*device, way, 1e-6, &make));
        let far = |l: &mut Lab| {
            let (x, w, at) = (l.noise(&[HEAD, 2, 3], 1), l.noise(&[HEAD], 2), l.i32s(&[3], &[1, 2, 3]));
            let t = norm(&mut l.ctx, Norm::Rms, x, 1e-5, Place::New).unwrap();
            let t = mul(&mut l.ctx, t, w).unwrap();
            let t = rope(&mut l.ctx, t, at, None, &Rope::plain(HEAD as i32, 0), Place::New).unwrap();
            let t = view::reshape(&mut l.ctx, t, &[2 * HEAD, 3]).unwrap();
            let ids = l.i64s(&[3], &[-1, 2, 1 << 40]);
            let cache = l.f32s(&[2 * HEAD, 4], |i| i as f32);
            vec![rows::set_rows(&mut l.ctx, cache, t, ids).unwrap()]
        };
        assert_eq!(chains_of(*device, &far), [("heads", 4)], "{way}");
        let got = as_floats(&results(*device, &far).unwrap()[0]);
        for (i, x) in got.iter().enumerate() {
            assert_eq!(*x == i as f32, i / 80 != 2, "{way}, value {i}: {x}");
        }
    }
}
