//! Graphs that come again: what is recognised, what is not, and what backends with graph plans get to see.

use super::Scheduler;
use super::race::EXPECTED;
use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::ggml_backend_buffer_usage::*;
use crate::abi::backend::ggml_backend_graph_plan_t;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::ggml::{ggml_cgraph as Opaque, ggml_op, ggml_status, ggml_tensor};
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::{Place, unary};
use crate::tensor::{Context, TensorRef};
use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

const OK: ggml_status = ggml_status::GGML_STATUS_SUCCESS;

fn no_sub(t: TensorRef) -> bool {
    t.op() != ggml_op::GGML_OP_SUB
}

pub(super) fn set(t: TensorRef, value: f32) {
    let bytes: Vec<u8> = (0..t.nelements()).flat_map(|_| value.to_ne_bytes()).collect();
    tensor_io::set_bytes(t, &bytes, 0);
}

fn get(t: TensorRef) -> f32 {
    let mut bytes = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut bytes, 0);
    f32::from_ne_bytes(bytes[..4].try_into().unwrap())
}

/// A device, a CPU, weights on the device, and a context in which graphs are built again and again.
struct Host {
    /// First, so that it goes before the devices: plans are given back to them.
    sched: Scheduler,
    gpu: Fake,
    _cpu: Fake,
    _weights: Context,
    buffer: BufferBox,
    w: TensorRef,
    ctx: Context,
}

/// What may differ from graph to graph.
#[derive(Clone, Copy)]
struct Shape {
    factor: f32,
    /// Which of two equal results is read last.
    late: bool,
    n: i64,
}

const SHAPE: Shape = Shape { factor: 2.0, late: false, n: 64 };

impl Host {
    fn new(parallel: bool) -> Self {
        let gpu = Fake::lazy(Spec { supports: no_sub, ..Spec::gpu() });
        let cpu = Fake::new(Spec::cpu());
        let mut weights = Context::with_size(1 << 12, true).unwrap();
        let w = weights.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
        let buffer = gpu.buft.alloc_buffer_n(&mut [w.as_ptr()] as &mut [*mut ggml_tensor]).unwrap().unwrap();
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        set(w, 1.0);
        let sched = Scheduler::new(&[gpu.handle(), cpu.handle()], None, 100, parallel, true);
        Self { gpu, _cpu: cpu, _weights: weights, buffer, w, ctx: Context::with_size(1 << 20, true).unwrap(), sched }
    }

    /// (x + w) * factor on the device, minus x on the CPU, plus w (or plus the sum from before) on the device.
    fn build(&mut self, shape: Shape) -> (GraphRef, TensorRef, TensorRef) {
        let c = &mut self.ctx;
        c.reset();
        let x = c.new_tensor(GGML_TYPE_F32, &[shape.n]).unwrap();
        x.add_flag(GGML_TENSOR_FLAG_INPUT);
        let early = if shape.n == 64 { binary::add(c, x, self.w).unwrap() } else { binary::add(c, x, x).unwrap() };
        let product = unary::scale(c, early, shape.factor).unwrap();
        let difference = binary::binary(c, Binary::Sub, product, x, Place::New).unwrap();
        let y = binary::add(c, difference, if shape.late { early } else { product }).unwrap();
        y.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        let g = build::new(c, 64, false).unwrap();
        g.expand(y, true);
        (g, x, y)
    }

    fn expected(shape: Shape, x: f32) -> f32 {
        let early = if shape.n == 64 { x + 1.0 } else { x + x };
        let product = early * shape.factor;
        product - x + if shape.late { early } else { product }
    }

    /// Builds, allocates and computes; whether the graph was recognised.
    fn round(&mut self, shape: Shape, value: f32) -> bool {
        let before = self.sched.engine().n_repeats();
        self.sched.reset().unwrap();
        let (g, x, y) = self.build(shape);
        self.sched.alloc_graph(g).unwrap();
        set(x, value);
        assert_eq!(self.sched.compute_async(g).unwrap(), OK);
        self.sched.synchronize().unwrap();
        assert_eq!(get(y), Self::expected(shape, value));
        self.sched.engine().n_repeats() > before
    }
}

#[test]
fn a_graph_that_comes_again_is_recognised_and_computes_the_same() {
    let mut h = Host::new(false);
    let seen: Vec<bool> = (0..6).map(|i| h.round(SHAPE, i as f32)).collect();
    assert_eq!(seen, [false, false, true, true, true, true]);
    assert_eq!(h.sched.engine().n_splits(), 3);
    let (_, _, y) = h.build(SHAPE);
    assert_eq!(h.sched.engine().placement(y).backend, 0, "placements can still be asked for");
}

/// A1: counts, sizes and operations agree, but another result is read late.
#[test]
fn other_edges_parameters_or_sizes_are_not_recognised() {
    // A graph of the same structure and sizes takes the place of the first one; another is kept beside it.
    let others = [
        (Shape { late: true, ..SHAPE }, true),
        (Shape { factor: 3.0, ..SHAPE }, false),
        (Shape { n: 32, ..SHAPE }, true),
    ];
    for (other, beside) in others {
        let mut h = Host::new(false);
        for i in 0..3 {
            h.round(SHAPE, i as f32);
        }
        assert!(!h.round(other, 5.0));
        assert_eq!(h.round(SHAPE, 7.0), beside);
        for i in 0..12 {
            h.round(other, i as f32);
        }
        assert!(h.round(other, 1.0), "after some rounds the other graph is known");
    }
}

/// S10: what the host places is part of the comparison, and a changed request counts.
#[test]
fn other_requests_of_the_host_are_not_recognised() {
    let mut h = Host::new(false);
    let mut round = |request: Option<usize>| {
        let before = h.sched.engine().n_repeats();
        h.sched.reset().unwrap();
        let (g, x, y) = h.build(SHAPE);
        if let Some(b) = request {
            h.sched.set_tensor_backend(g.node(0), b).unwrap();
            assert_eq!(h.sched.engine().placement(g.node(0)).backend, b as i8);
        }
        h.sched.alloc_graph(g).unwrap();
        assert_eq!(h.sched.engine().placement(g.node(0)).backend, request.unwrap_or(0) as i8);
        set(x, 2.0);
        assert_eq!(h.sched.compute_async(g).unwrap(), OK);
        h.sched.synchronize().unwrap();
        assert_eq!(get(y), Host::expected(SHAPE, 2.0));
        h.sched.engine().n_repeats() > before
    };
    assert_eq!([None, None, None].map(&mut round), [false, false, true]);
    assert!(!round(Some(1)));
    let seen: Vec<bool> = (0..8).map(|_| round(Some(1))).collect();
    assert!(seen[7]);
    assert!(!round(None));
}

#[test]
fn buffers_that_change_and_plans_that_are_made_again_are_noticed() {
    let mut h = Host::new(false);
    for i in 0..3 {
        h.round(SHAPE, i as f32);
    }
    // No weight any more: the node is placed for another reason, or elsewhere.
    h.buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_ANY);
    assert!(!h.round(SHAPE, 1.0));
    for _ in 0..8 {
        h.round(SHAPE, 1.0);
    }
    assert!(h.round(SHAPE, 1.0));
    // S19, A11: a reservation in between gives another plan, and the same buffers where they suffice.
    let allocs = h.gpu.state.allocs.load(SeqCst);
    h.sched.reset().unwrap();
    let (g, ..) = h.build(SHAPE);
    h.sched.reserve(g).unwrap();
    assert!(!h.round(SHAPE, 4.0));
    assert_eq!(h.gpu.state.allocs.load(SeqCst), allocs, "the buffers sufficed");
}

#[test]
fn in_a_pipeline_each_copy_has_its_turn() {
    let mut h = Host::new(true);
    for i in 0..12 {
        h.round(SHAPE, i as f32);
    }
    // Without a wait for all between them, copies take turns, and each is recognised by itself.
    let mut results = Vec::new();
    for i in 0..24 {
        let before = h.sched.engine().n_repeats();
        h.sched.reset().unwrap();
        let (g, x, y) = h.build(SHAPE);
        h.sched.alloc_graph(g).unwrap();
        assert_eq!(h.sched.engine().cur_copy(), i % 4);
        set(x, i as f32);
        assert_eq!(h.sched.compute_async(g).unwrap(), OK);
        h.gpu.handle().synchronize();
        assert_eq!(get(y), Host::expected(SHAPE, i as f32), "graph {i}");
        results.push(h.sched.engine().n_repeats() > before);
    }
    assert!(results[12..].iter().all(|&repeated| repeated), "{results:?}");
}

/// Two graphs of different structure take turns: neither is planned again, and no buffer is made.
#[test]
fn two_graphs_that_take_turns_are_both_recognised() {
    for parallel in [false, true] {
        let mut h = Host::new(parallel);
        let shapes = [SHAPE, Shape { late: true, ..SHAPE }, Shape { n: 32, ..SHAPE }];
        // In a pipeline each copy has to come three times.
        for i in 0..36 {
            h.round(shapes[i % 3], i as f32);
        }
        let allocs = h.gpu.state.allocs.load(SeqCst);
        for i in 0..12 {
            assert!(h.round(shapes[i % 3], i as f32), "round {i}, parallel {parallel}");
        }
        assert_eq!(h.gpu.state.allocs.load(SeqCst), allocs);
    }
}

/// More graphs than are kept, in all orders: what is thrown out is worked out again, and results are right.
#[test]
fn graphs_that_are_thrown_out_come_back() {
    for parallel in [false, true] {
        let mut h = Host::new(parallel);
        for i in 0..200usize {
            let n = [64, 1, 2, 3, 4, 5, 6, 7][i * i % 23 % 8];
            let shape = Shape { n, late: i % 7 < 3, ..SHAPE };
            h.round(shape, i as f32);
            if i % 31 == 0 {
                h.sched.reset().unwrap();
                let (g, ..) = h.build(Shape { n: 64 + i as i64, ..SHAPE });
                h.sched.reserve(g).unwrap();
            }
        }
    }
}

/// A graph that was recognised, after another one in the same memory, can be split again as it is: its own sources come
/// back.
#[test]
fn a_graph_that_was_recognised_can_be_split_again() {
    let mut h = Host::new(false);
    let other = Shape { late: true, ..SHAPE };
    for i in 0..8 {
        h.round([SHAPE, other][i % 2], i as f32);
    }
    h.sched.reset().unwrap();
    let (g, x, y) = h.build(SHAPE);
    let before = h.sched.engine().n_repeats();
    h.sched.alloc_graph(g).unwrap();
    assert_eq!(h.sched.engine().n_repeats(), before + 1);
    for i in 0..2 {
        h.sched.reset().unwrap();
        h.sched.alloc_graph(g).unwrap();
        set(x, i as f32);
        assert_eq!(h.sched.compute_async(g).unwrap(), OK);
        h.sched.synchronize().unwrap();
        assert_eq!(get(y), Host::expected(SHAPE, i as f32));
    }
}

thread_local! {
    /// Plans created, updated, computed, freed; graphs computed without one.
    static CALLS: Cell<[usize; 5]> = const { Cell::new([0; 5]) };
    static COMPUTE: Cell<Option<unsafe extern "C" fn(ggml_backend_t, *mut Opaque) -> raw::ggml_status>> =
        const { Cell::new(None) };
    static BACKEND: Cell<ggml_backend_t> = const { Cell::new(std::ptr::null_mut()) };
}

fn count(i: usize) {
    let mut calls = CALLS.get();
    calls[i] += 1;
    CALLS.set(calls);
}

unsafe extern "C" fn create(_: ggml_backend_t, g: *const Opaque) -> ggml_backend_graph_plan_t {
    count(0);
    // SAFETY: a valid graph, by the vtable's contract. The plan keeps the struct, and with it the list of nodes.
    Box::into_raw(Box::new(unsafe { g.cast::<ggml_cgraph>().read() })).cast()
}

unsafe extern "C" fn update(_: ggml_backend_t, plan: ggml_backend_graph_plan_t, g: *const Opaque) {
    count(1);
    // SAFETY: a plan of ours and a valid graph.
    unsafe { plan.cast::<ggml_cgraph>().write(g.cast::<ggml_cgraph>().read()) };
}

unsafe extern "C" fn compute_plan(b: ggml_backend_t, plan: ggml_backend_graph_plan_t) -> raw::ggml_status {
    count(2);
    // SAFETY: a plan of ours; the function is the device's own.
    unsafe { COMPUTE.get().unwrap()(b, plan.cast()) }
}

unsafe extern "C" fn free_plan(_: ggml_backend_t, plan: ggml_backend_graph_plan_t) {
    count(3);
    // SAFETY: a plan of ours, freed once.
    drop(unsafe { Box::from_raw(plan.cast::<ggml_cgraph>()) });
}

unsafe extern "C" fn compute_graph(b: ggml_backend_t, g: *mut Opaque) -> raw::ggml_status {
    count(4);
    // SAFETY: the device's own function.
    unsafe { COMPUTE.get().unwrap()(b, g) }
}

/// Gives the device plans that count how often they are called.
fn give_plans(h: &Host) {
    let p = h.gpu.handle().as_ptr();
    CALLS.set([0; 5]);
    BACKEND.set(p);
    // SAFETY: the fake device's stream is used by this thread only.
    unsafe {
        let iface = &raw mut (*p).iface;
        COMPUTE.set((*iface).graph_compute);
        (*iface).graph_plan_create = Some(create);
        (*iface).graph_plan_update = Some(update);
        (*iface).graph_plan_compute = Some(compute_plan);
        (*iface).graph_plan_free = Some(free_plan);
        (*iface).graph_compute = Some(compute_graph);
    }
}

#[test]
fn splits_that_come_again_are_computed_by_plans() {
    let mut h = Host::new(false);
    give_plans(&h);
    // Two splits on the device. Split twice, then recognised: a plan each, made once.
    h.round(SHAPE, 1.0);
    h.round(SHAPE, 2.0);
    assert_eq!(CALLS.get(), [0, 0, 0, 0, 4]);
    for i in 0..4 {
        assert!(h.round(SHAPE, i as f32));
    }
    assert_eq!(CALLS.get(), [2, 0, 8, 0, 4]);
    // Another graph in the place of the first: plans wait until it comes again, and are changed then.
    let other = Shape { factor: 3.0, ..SHAPE };
    let mut n = 0;
    while !h.round(other, 1.0) {
        n += 1;
    }
    assert_eq!(CALLS.get(), [2, 2, 10, 0, 4 + 2 * n]);
    // A graph that is kept beside it has plans of its own.
    let beside = Shape { late: true, ..SHAPE };
    for i in 0..3 {
        h.round(beside, i as f32);
    }
    assert_eq!(CALLS.get()[..2], [4, 2]);
    assert!(h.round(beside, 4.0));
    assert_eq!(CALLS.get()[..2], [4, 2]);
    drop(h);
    assert_eq!(CALLS.get()[3], 4);
}

/// A host with plans, whose one allocation of a graph was computed three times; the graph and its result.
fn computed_three_times() -> (Host, GraphRef, TensorRef) {
    let mut h = Host::new(false);
    give_plans(&h);
    let (g, x, y) = h.build(SHAPE);
    h.sched.alloc_graph(g).unwrap();
    for i in 0..3 {
        set(x, i as f32);
        assert_eq!(h.sched.compute_async(g).unwrap(), OK);
        h.sched.synchronize().unwrap();
        assert_eq!(get(y), Host::expected(SHAPE, i as f32));
    }
    (h, g, y)
}

#[test]
fn the_race_checker_hears_of_plans() {
    let (h, g, y) = computed_three_times();
    assert!(CALLS.get()[2] > 0);
    assert_eq!(h.sched.compute_async(g).unwrap(), OK);
    EXPECTED.with_borrow_mut(|e| *e = Some(Vec::new()));
    get(y); // before the device is waited for
    let heard = EXPECTED.with_borrow_mut(Option::take).unwrap();
    h.sched.synchronize().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
}

#[test]
fn one_allocation_computed_again_uses_plans_too() {
    let _host = computed_three_times();
    assert_eq!(CALLS.get(), [2, 0, 4, 0, 2]);
}
