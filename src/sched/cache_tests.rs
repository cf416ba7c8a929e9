//! Graphs that take turns: what is kept of each, and what must not be.

use super::Scheduler;
use super::cause::Cause;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
use crate::abi::ggml::ggml_op;
use crate::abi::ggml::ggml_status::GGML_STATUS_SUCCESS;
use crate::abi::ggml::ggml_tensor;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::binary::Binary;
use crate::tensor::ops::{Place, binary, unary};
use crate::tensor::{Context, TensorRef};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

fn set(t: TensorRef, value: f32) {
    let bytes: Vec<u8> = (0..t.nelements()).flat_map(|_| value.to_ne_bytes()).collect();
    tensor_io::set_bytes(t, &bytes, 0);
}

/// Whether all elements have a value.
fn is_all(bytes: &[u8], value: f32) -> bool {
    bytes.chunks_exact(4).all(|b| b == value.to_ne_bytes())
}

fn get(t: TensorRef) -> Vec<u8> {
    let mut bytes = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut bytes, 0);
    bytes
}

fn input(c: &mut Context, n: i64) -> TensorRef {
    let t = c.new_tensor(GGML_TYPE_F32, &[n]).unwrap();
    t.add_flag(GGML_TENSOR_FLAG_INPUT);
    t
}

fn graph(c: &mut Context, y: TensorRef) -> GraphRef {
    y.add_flag(GGML_TENSOR_FLAG_OUTPUT);
    let g = build::new(c, 128, false).unwrap();
    g.expand(y, true);
    g
}

fn no_sub(t: TensorRef) -> bool {
    t.op() != ggml_op::GGML_OP_SUB
}

/// A device that computes as late as it may, a CPU, and a weight of 1 on the device.
struct Devices {
    gpu: Fake,
    cpu: Fake,
    w: TensorRef,
    _weights: Context,
    _buffer: BufferBox,
}

impl Devices {
    fn new() -> Self {
        let gpu = Fake::lazy(Spec { supports: no_sub, ..Spec::gpu() });
        let mut weights = Context::with_size(1 << 12, true).unwrap();
        let w = weights.new_tensor(GGML_TYPE_F32, &[1]).unwrap();
        let buffer = gpu.buft.alloc_buffer_n(&mut [w.as_ptr()] as &mut [*mut ggml_tensor]).unwrap().unwrap();
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        set(w, 1.0);
        Self { gpu, cpu: Fake::new(Spec::cpu()), w, _weights: weights, _buffer: buffer }
    }

    fn scheduler(&self, parallel: bool) -> Scheduler {
        Scheduler::new(&[self.gpu.handle(), self.cpu.handle()], None, 100, parallel, true)
    }
}

/// The next graph of a pipeline may be placed by another plan, which has its inputs where the graph in flight computes.
#[test]
fn another_plan_waits_for_graphs_in_flight() {
    let d = Devices::new();
    let s = d.scheduler(true);
    let mut memory = [(); 2].map(|()| Context::with_size(1 << 20, true).unwrap());
    // Eight multiples of one input are in memory at once.
    let few = |c: &mut Context| {
        c.reset();
        let x = input(c, 64);
        let there = binary::mul(c, x, d.w).unwrap();
        let multiples: Vec<_> = (1..=8).map(|k| unary::scale(c, there, k as f32).unwrap()).collect();
        let y = multiples[1..].iter().fold(multiples[0], |sum, &m| binary::add(c, sum, m).unwrap());
        (graph(c, y), vec![x], y)
    };
    // So many inputs that those of each copy of the pipeline reach beyond the one input above.
    let many = |c: &mut Context| {
        c.reset();
        let xs: Vec<_> = (0..16).map(|_| input(c, 64)).collect();
        let first = binary::mul(c, xs[0], d.w).unwrap();
        let y = xs[1..].iter().fold(first, |sum, &x| binary::add(c, sum, x).unwrap());
        (graph(c, y), xs, y)
    };
    let mut allocs = 0;
    for i in 0..40 {
        // Each is waited for until all is known of both.
        let is_late = i >= 20;
        if i == 20 {
            allocs = d.gpu.state.allocs.load(SeqCst);
        }
        let mut results = [[0u8; 256]; 2];
        for (is_second, bytes) in [false, true].into_iter().zip(&mut results) {
            let c = &mut memory[usize::from(is_second)];
            let (g, xs, y) = if is_second { many(c) } else { few(c) };
            s.reset().unwrap();
            s.alloc_graph(g).unwrap();
            xs.iter().for_each(|&x| set(x, i as f32));
            assert_eq!(s.compute_async(g).unwrap(), GGML_STATUS_SUCCESS);
            // SAFETY: the bytes live, unread, until the device is synchronised below.
            unsafe { d.gpu.handle().get_async(y, bytes.as_mut_ptr(), 0, 256) };
            if !is_late {
                s.synchronize().unwrap();
            }
        }
        s.synchronize().unwrap();
        assert!(is_all(&results[0], 36.0 * i as f32), "the first graph of round {i}");
        assert!(is_all(&results[1], 16.0 * i as f32), "the second graph of round {i}");
    }
    assert_eq!(d.gpu.state.allocs.load(SeqCst), allocs, "both plans fit the buffers");
    assert_eq!(s.engine().n_splits(), 1, "all is computed on the device");
}

/// x * 2 on the device, minus x on the CPU, and a sum on the device. With `early`, the sum reads another result.
/// `before` is the number of tensors that are created before those of the graph.
fn small(c: &mut Context, w: TensorRef, n: i64, before: usize, early: bool) -> (GraphRef, TensorRef, TensorRef) {
    c.reset();
    (0..before).for_each(|_| _ = c.new_tensor(GGML_TYPE_F32, &[1]).unwrap());
    let x = input(c, n);
    let there = binary::mul(c, x, w).unwrap();
    let product = unary::scale(c, there, 2.0).unwrap();
    let difference = binary::binary(c, Binary::Sub, product, x, Place::New).unwrap();
    let more = unary::scale(c, difference, 3.0).unwrap();
    let y = binary::add(c, more, if early { product } else { difference }).unwrap();
    (graph(c, y), x, y)
}

/// Allocates and computes; whether the graph was repeated.
fn round(s: &Scheduler, (g, x, y): (GraphRef, TensorRef, TensorRef), value: f32, expected: f32) -> bool {
    let before = s.engine().n_repeats();
    s.reset().unwrap();
    s.alloc_graph(g).unwrap();
    set(x, value);
    assert_eq!(s.compute_async(g).unwrap(), GGML_STATUS_SUCCESS);
    s.synchronize().unwrap();
    assert!(is_all(&get(y), expected));
    s.engine().n_repeats() > before
}

/// A chain of `n` nodes, none of which changes a value.
fn chain(c: &mut Context, n: usize) -> (GraphRef, TensorRef, TensorRef) {
    c.reset();
    let x = input(c, 16);
    let y = (0..n).fold(x, |y, _| unary::scale(c, y, 1.0).unwrap());
    (graph(c, y), x, y)
}

/// Graphs that came once do not keep two that take turns afterwards from getting an entry each.
#[test]
fn graphs_that_never_come_again_make_room() {
    let d = Devices::new();
    let s = d.scheduler(false);
    let mut c = Context::with_size(1 << 20, true).unwrap();
    for n in 1..=20 {
        assert!(!round(&s, chain(&mut c, n), 2.0, 2.0), "{n} nodes");
    }
    let seen: Vec<bool> = (0..20).map(|i| round(&s, chain(&mut c, 30 + i % 2), i as f32, i as f32)).collect();
    assert!(seen[12..].iter().all(|&repeated| repeated), "{seen:?}");
}

/// A graph that came only once is overwritten by the next new one, except that every fourth takes the least recently
/// used entry. One that came again keeps its entry.
#[test]
fn new_graphs_overwrite_the_last_one_if_it_came_only_once() {
    let d = Devices::new();
    let s = d.scheduler(false);
    let mut c = Context::with_size(1 << 20, true).unwrap();
    let mut slot_of = |n| {
        round(&s, chain(&mut c, n), 2.0, 2.0);
        s.engine().slot()
    };
    assert_eq!([1, 2, 3, 4].map(&mut slot_of), [0, 1, 2, 3], "an entry each until there are enough");
    let slots: Vec<usize> = (5..=16).map(&mut slot_of).collect();
    assert_eq!(slots, [3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1, 2]);
    assert_eq!([16, 17, 16].map(&mut slot_of), [2, 3, 2], "the graph that came again keeps its entry");
}

/// A larger graph in between makes other buffers: what was bound to those before is not bound again.
#[test]
fn a_graph_is_not_repeated_in_buffers_that_were_freed() {
    let d = Devices::new();
    for parallel in [false, true] {
        let s = d.scheduler(parallel);
        let mut c = Context::with_size(1 << 20, true).unwrap();
        // Each copy of a pipeline must come three times.
        for i in 0..12 {
            round(&s, small(&mut c, d.w, 64, 0, false), i as f32, 4.0 * i as f32);
        }
        for n in [1 << 10, 1 << 12, 1 << 14] {
            assert!(round(&s, small(&mut c, d.w, 64, 0, false), 1.0, 4.0), "repeated before the buffers grow");
            let live = d.gpu.state.live.load(SeqCst);
            let allocs = d.gpu.state.allocs.load(SeqCst);
            round(&s, small(&mut c, d.w, n, 0, true), 1.0, 5.0);
            assert!(d.gpu.state.allocs.load(SeqCst) > allocs, "the buffers have grown");
            assert_eq!(d.gpu.state.live.load(SeqCst), live, "and those before are freed");
            for i in 0..12 {
                let is_repeated = round(&s, small(&mut c, d.w, 64, 0, false), i as f32, 4.0 * i as f32);
                assert!(i > 0 || !is_repeated, "{n} elements, parallel {parallel}");
            }
        }
    }
}

/// A graph that is compared with an entry, and turns out to have another structure at its last node, leaves the entry
/// as it was: the graph in there is repeated, or followed with the same sizes.
#[test]
fn a_comparison_that_fails_leaves_the_entry_as_it_was() {
    let d = Devices::new();
    // Other addresses; other sizes.
    for (n, before) in [(64, 5), (32, 0), (32, 5)] {
        let s = d.scheduler(false);
        let mut c = Context::with_size(1 << 20, true).unwrap();
        let seen = [1, 2, 3].map(|i| round(&s, small(&mut c, d.w, 64, 0, false), i as f32, 4.0 * i as f32));
        assert_eq!(seen, [false, false, true]);
        assert!(!round(&s, small(&mut c, d.w, n, before, true), 1.0, 5.0));
        assert!(round(&s, small(&mut c, d.w, 64, 0, false), 1.0, 4.0), "repeated behind {n} elements at {before}");

        // Between the two rounds that make a graph known.
        let s = d.scheduler(false);
        assert!(!round(&s, small(&mut c, d.w, 64, 0, false), 1.0, 4.0));
        assert!(!round(&s, small(&mut c, d.w, n, before, true), 1.0, 5.0));
        let seen = [1, 2].map(|i| round(&s, small(&mut c, d.w, 64, 0, false), i as f32, 4.0 * i as f32));
        assert_eq!(seen, [false, true], "known behind {n} elements at {before}");
    }
}

/// Numbers for choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn percent(&mut self, odds: usize) -> bool {
        self.below(100) < odds
    }
}

/// What a random graph is made from: equal for graphs that come again.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    seed: u64,
    n: i64,
    before: usize,
    /// The node that the host places, and where.
    request: Option<(usize, usize)>,
}

/// A graph with its inputs, its result, and what that is for inputs of 1, 2, 3 ...
struct Made {
    g: GraphRef,
    inputs: Vec<TensorRef>,
    y: TensorRef,
    expected: f32,
}

fn make(c: &mut Context, w: TensorRef, r: Recipe) -> Made {
    c.reset();
    (0..r.before).for_each(|_| _ = c.new_tensor(GGML_TYPE_F32, &[1]).unwrap());
    let mut random = Random(r.seed);
    let mut pool: Vec<(TensorRef, f32)> = (1..=1 + random.below(3)).map(|v| (input(c, r.n), v as f32)).collect();
    let inputs: Vec<_> = pool.iter().map(|&(t, _)| t).collect();
    for _ in 0..3 + random.below(12) {
        let ((a, x), (b, y)) = (pool[random.below(pool.len())], *pool.last().unwrap());
        pool.push(match random.below(6) {
            0 => (unary::scale(c, b, 0.5).unwrap(), y * 0.5 + 0.0),
            1 => (binary::binary(c, Binary::Sub, a, b, Place::New).unwrap(), x - y),
            2 | 3 => (binary::mul(c, b, w).unwrap(), y),
            4 if x.abs() < 100.0 => (binary::binary(c, Binary::Mul, a, b, Place::New).unwrap(), x * y),
            _ => (binary::add(c, a, b).unwrap(), x + y),
        });
    }
    // All inputs are read.
    let last = *pool.last().unwrap();
    let (y, expected) =
        (1..).zip(&inputs).fold(last, |(sum, s), (value, &x)| (binary::add(c, sum, x).unwrap(), s + value as f32));
    Made { g: graph(c, y), inputs, y, expected }
}

/// Backend and cause of each node, and of each split its backend, nodes and inputs.
type Decisions = (Vec<(i8, Cause)>, Vec<(usize, std::ops::Range<usize>, Vec<u32>)>);

fn decisions(s: &Scheduler, g: GraphRef) -> Decisions {
    let engine = s.engine();
    let nodes = g.nodes().map(|t| engine.placement(t)).map(|p| (p.backend, p.cause)).collect();
    let inputs = |split: &super::split::Split| split.inputs.iter().map(|i| i.id).collect();
    (nodes, engine.splits().iter().map(|split| (split.backend, split.nodes.clone(), inputs(split))).collect())
}

fn allocate(s: &Scheduler, made: &Made, r: Recipe) {
    s.reset().unwrap();
    if let Some((node, backend)) = r.request {
        let node = made.g.node(node % made.g.n_nodes());
        s.set_tensor_backend(node, if no_sub(node) { backend } else { 1 }).unwrap();
    }
    s.alloc_graph(made.g).unwrap();
}

fn random_host(seed: u64) -> u64 {
    let mut random = Random(seed);
    let d = Devices::new();
    let parallel = random.percent(50);
    let s = d.scheduler(parallel);
    let mut memory = [(); 3].map(|()| Context::with_size(1 << 18, true).unwrap());
    let mut recipes: Vec<Recipe> = Vec::new();
    // Results on their way to the host, and what they have to be.
    let mut in_flight: VecDeque<(Box<[u8]>, f32)> = VecDeque::new();
    let wait = |s: &Scheduler, in_flight: &mut VecDeque<(Box<[u8]>, f32)>| {
        s.synchronize().unwrap();
        in_flight.drain(..).for_each(|(bytes, value)| assert!(is_all(&bytes, value), "seed {seed}"));
    };
    for step in 0..60 {
        // Mostly graphs that came before: the same, of another size, elsewhere, placed otherwise.
        let is_new = recipes.is_empty() || recipes.len() < 7 && random.percent(15);
        let at = if is_new { recipes.len() } else { random.below(recipes.len()) };
        if is_new {
            recipes.push(Recipe { seed: random.below(1000) as u64, n: 16, before: 0, request: None });
        }
        let r = &mut recipes[at];
        match random.below(12) {
            0 => r.n = [1, 8, 16, 64, 700][random.below(5)],
            1 => r.before = random.below(20),
            2 => r.request = random.percent(70).then(|| (random.below(16), random.below(2))),
            _ => {}
        }
        let r = *r;
        let place = at % memory.len();
        let made = make(&mut memory[place], d.w, r);
        match random.below(20) {
            0 => {
                wait(&s, &mut in_flight);
                s.reset().unwrap();
                s.reserve(made.g).unwrap();
                continue;
            }
            1 => {
                wait(&s, &mut in_flight);
                s.measure(made.g).unwrap();
                continue;
            }
            2 => {
                s.reset().unwrap();
                s.split_graph(made.g).unwrap();
                continue;
            }
            _ => {}
        }
        allocate(&s, &made, r);
        let decided = decisions(&s, made.g);
        // Sometimes one allocation is computed again.
        for _ in 0..1 + random.below(5) / 4 {
            (1..).zip(&made.inputs).for_each(|(value, &x)| set(x, value as f32));
            assert_eq!(s.compute_async(made.g).unwrap(), GGML_STATUS_SUCCESS);
            let bytes = vec![0; made.y.nbytes()].into_boxed_slice();
            in_flight.push_back((bytes, made.expected));
            let target = in_flight.back_mut().unwrap().0.as_mut_ptr();
            if s.engine().placement(made.y).backend == 0 {
                // SAFETY: the bytes live until `wait`.
                unsafe { d.gpu.handle().get_async(made.y, target, 0, made.y.nbytes()) };
            } else {
                s.synchronize().unwrap();
                in_flight.back_mut().unwrap().0.copy_from_slice(&get(made.y));
            }
            if random.percent(40) {
                wait(&s, &mut in_flight);
            }
        }
        let other = d.scheduler(parallel);
        let made = make(&mut memory[place], d.w, r);
        allocate(&other, &made, r);
        let expected = decisions(&other, made.g);
        assert_eq!(decided, expected, "seed {seed}, step {step}, {r:?}");
    }
    wait(&s, &mut in_flight);
    s.engine().n_repeats()
}

/// Whatever is done in between, each graph computes what it should and is placed and split as a scheduler does that
/// never saw another.
#[test]
fn random_graphs_that_take_turns() {
    let n_repeats: u64 = (0..150).map(random_host).sum();
    assert!(n_repeats > 500, "{n_repeats} graphs were repeated");
}
