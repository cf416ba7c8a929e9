//! Graphs of the structure of the one before, with other sizes and in other memory: what is taken over, and what is
//! not.

use super::Scheduler;
use super::repeat_tests::set;
use crate::abi::backend::ggml_backend_buffer_usage::*;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::ggml::{ggml_op, ggml_status, ggml_tensor};
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::{Place, unary};
use crate::tensor::{Context, TensorRef};

fn get(t: TensorRef) -> Vec<f32> {
    let mut bytes = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut bytes, 0);
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// The accelerator subtracts nothing, and adds only short rows.
fn short_sums(t: TensorRef) -> bool {
    t.op() != ggml_op::GGML_OP_SUB && (t.op() != ggml_op::GGML_OP_ADD || t.ne()[0] <= 64)
}

/// What may differ from graph to graph.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shape {
    n: i64,
    /// Tensors made before the graph.
    before: usize,
    /// The last sum reads the first product, not the second.
    early: bool,
    /// The host reads the first product.
    output: bool,
    /// Which of two equal weights is added.
    weight: usize,
    /// Subtract, or multiply.
    minus: bool,
}

const SHAPE: Shape = Shape { n: 64, before: 0, early: false, output: false, weight: 0, minus: true };

struct Host {
    sched: Scheduler,
    gpu: Fake,
    cpu: Fake,
    _memory: Vec<BufferBox>,
    _weights: Context,
    w: [TensorRef; 2],
    ctx: Context,
}

/// Backend and cause of each node, and of each split its backend, nodes and inputs.
type Decisions = (Vec<(i8, super::cause::Cause)>, Vec<(usize, std::ops::Range<usize>, Vec<u32>)>);

impl Host {
    fn new() -> Self {
        let gpu = Fake::lazy(Spec { supports: short_sums, ..Spec::gpu() });
        let cpu = Fake::new(Spec::cpu());
        let mut weights = Context::with_size(1 << 12, true).unwrap();
        let w = [(); 2].map(|()| weights.new_tensor(GGML_TYPE_F32, &[1]).unwrap());
        // Each in a buffer of its own: one on the accelerator, one in the host's memory.
        let memory = std::iter::zip(w, [gpu.buft, cpu.buft]).map(|(w, buft)| {
            let buffer = buft.alloc_buffer_n(&mut [w.as_ptr()] as &mut [*mut ggml_tensor]).unwrap().unwrap();
            buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            set(w, 1.0);
            buffer
        });
        let memory = memory.collect();
        let sched = Scheduler::new(&[gpu.handle(), cpu.handle()], None, 100, false, true);
        let ctx = Context::with_size(1 << 20, true).unwrap();
        Self { sched, gpu, cpu, _memory: memory, _weights: weights, w, ctx }
    }

    fn build(&mut self, s: Shape) -> (GraphRef, TensorRef, TensorRef) {
        let c = &mut self.ctx;
        c.reset();
        (0..s.before).for_each(|_| _ = c.new_tensor(GGML_TYPE_F32, &[1]).unwrap());
        let x = c.new_tensor(GGML_TYPE_F32, &[s.n]).unwrap();
        x.add_flag(GGML_TENSOR_FLAG_INPUT);
        let sum = binary::add(c, x, self.w[s.weight]).unwrap();
        let first = unary::scale(c, sum, 2.0).unwrap();
        if s.output {
            first.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        }
        let view = c.new_view(first, &[s.n], 0).unwrap();
        view.set_op(ggml_op::GGML_OP_VIEW);
        view.set_src(0, Some(first));
        let second = unary::scale(c, view, 3.0).unwrap();
        let op = if s.minus { Binary::Sub } else { Binary::Mul };
        let third = binary::binary(c, op, second, x, Place::New).unwrap();
        let y = binary::add(c, third, if s.early { first } else { second }).unwrap();
        y.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        let g = build::new(c, 64, false).unwrap();
        g.expand(y, true);
        (g, x, y)
    }

    fn expected(s: Shape, x: f32) -> f32 {
        let (first, second) = (2.0 * (x + 1.0), 6.0 * (x + 1.0));
        let third = if s.minus { second - x } else { second * x };
        third + if s.early { first } else { second }
    }

    fn decisions(&self, g: GraphRef) -> Decisions {
        let nodes = g.nodes().map(|t| self.sched.engine().placement(t)).map(|p| (p.backend, p.cause)).collect();
        let engine = self.sched.engine();
        let splits = engine
            .splits()
            .iter()
            .map(|s| (s.backend, s.nodes.clone(), s.inputs.iter().map(|i| i.id).collect()))
            .collect();
        (nodes, splits)
    }

    /// Builds, allocates and computes; whether the placement was taken over. It is always that of a new scheduler.
    fn round(&mut self, s: Shape, value: f32) -> bool {
        let before = self.sched.engine().n_follows();
        self.sched.reset().unwrap();
        let (g, x, y) = self.build(s);
        self.sched.alloc_graph(g).unwrap();
        set(x, value);
        assert_eq!(self.sched.compute_async(g).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
        self.sched.synchronize().unwrap();
        assert_eq!(get(y), vec![Self::expected(s, value); s.n as usize], "{s:?}");
        let here = self.decisions(g);
        let follows = self.sched.engine().n_follows() > before;
        let known = std::mem::replace(
            &mut self.sched,
            Scheduler::new(&[self.gpu.handle(), self.cpu.handle()], None, 100, false, true),
        );
        let (g, _, _) = self.build(s);
        self.sched.alloc_graph(g).unwrap();
        assert_eq!(here, self.decisions(g), "{s:?}");
        self.sched = known;
        follows
    }
}

/// Graphs of one structure that take turns get an entry each, in which all is as it was.
#[test]
fn graphs_that_take_turns_are_kept() {
    let mut h = Host::new();
    let shapes = [64, 32, 16].map(|n| Shape { n, ..SHAPE });
    let mut seen = Vec::new();
    for i in 0..18 {
        let n_repeats = h.sched.engine().n_repeats();
        h.round(shapes[i % 3], i as f32);
        seen.push(h.sched.engine().n_repeats() - n_repeats);
    }
    assert_eq!(seen[12..], [1; 6], "{seen:?}");
}

#[test]
fn sizes_and_addresses_may_differ() {
    let mut h = Host::new();
    assert!(!h.round(SHAPE, 1.0));
    for (i, (n, before)) in [(32, 0), (48, 1), (16, 7), (1, 3), (64, 0), (33, 40)].into_iter().enumerate() {
        assert!(h.round(Shape { n, before, ..SHAPE }, i as f32), "{n} elements behind {before}");
    }
}

/// A device that answers otherwise for the new size is heeded.
#[test]
fn devices_are_asked_again() {
    let mut h = Host::new();
    h.round(SHAPE, 1.0);
    assert!(!h.round(Shape { n: 100, ..SHAPE }, 2.0));
    assert!(h.round(Shape { n: 120, before: 2, ..SHAPE }, 3.0));
    assert!(!h.round(SHAPE, 4.0));
    assert!(h.round(Shape { n: 63, ..SHAPE }, 5.0));
}

#[test]
fn edges_operations_flags_and_buffers_may_not_differ() {
    let others = [
        Shape { early: true, ..SHAPE },
        Shape { output: true, ..SHAPE },
        Shape { weight: 1, ..SHAPE },
        Shape { minus: false, ..SHAPE },
    ];
    for other in others {
        let mut h = Host::new();
        h.round(SHAPE, 1.0);
        assert!(!h.round(Shape { n: 32, ..other }, 2.0), "{other:?}");
        assert!(h.round(Shape { n: 16, before: 1, ..other }, 3.0), "{other:?}");
        assert!(h.round(SHAPE, 4.0), "the first one is still known beside {other:?}");
    }
}

/// The same weight in other memory.
#[test]
fn weights_that_have_moved_are_seen() {
    let mut h = Host::new();
    h.round(SHAPE, 1.0);
    assert!(h.round(Shape { n: 32, ..SHAPE }, 2.0));
    let (w, other) = (h.w[0], h.w[1]);
    w.set_buffer_raw(other.buffer_raw());
    w.set_data(other.data());
    assert!(!h.round(Shape { n: 16, ..SHAPE }, 3.0));
    assert!(h.round(Shape { n: 8, ..SHAPE }, 4.0));
}

/// What the host places holds for one graph, and the next one is placed from the start.
#[test]
fn what_the_host_places_is_not_taken_over() {
    let mut h = Host::new();
    for n in [64, 32] {
        h.round(Shape { n, ..SHAPE }, 1.0);
    }
    h.sched.reset().unwrap();
    let (g, _, y) = h.build(Shape { n: 48, ..SHAPE });
    h.sched.set_tensor_backend(y, 1).unwrap();
    let before = h.sched.engine().n_follows();
    h.sched.alloc_graph(g).unwrap();
    assert_eq!((h.sched.engine().placement(y).backend, h.sched.engine().n_follows()), (1, before));
    assert!(!h.round(Shape { n: 16, ..SHAPE }, 2.0));
    // Placed after the split: that is not of the graph either.
    h.sched.set_tensor_backend(y, 1).unwrap();
    assert!(!h.round(Shape { n: 32, ..SHAPE }, 2.0));
    assert!(h.round(Shape { n: 16, ..SHAPE }, 2.0));
}

/// A host may split a graph again whose sources are copies from the last time.
#[test]
fn copies_from_the_last_split_are_taken_back() {
    let mut h = Host::new();
    h.round(SHAPE, 1.0);
    h.sched.reset().unwrap();
    let (g, _, _) = h.build(SHAPE);
    h.sched.alloc_graph(g).unwrap();
    let first = h.decisions(g);
    for t in g.nodes().chain(g.leafs()).filter(|t| h.w.iter().all(|w| w != t)) {
        t.set_buffer_raw(std::ptr::null_mut());
        t.set_data(std::ptr::null_mut());
    }
    let before = h.sched.engine().n_follows();
    h.sched.reset().unwrap();
    h.sched.split_graph(g).unwrap();
    assert_eq!((h.decisions(g), h.sched.engine().n_follows()), (first, before + 1));
}

/// In a pipeline the flags of inputs are changed, and copies take turns.
#[test]
fn pipelines_follow_too() {
    let mut h = Host::new();
    h.sched = Scheduler::new(&[h.gpu.handle(), h.cpu.handle()], None, 100, true, true);
    let mut followed = Vec::new();
    for (i, (n, before)) in [(64, 0), (32, 0), (48, 1), (16, 2), (64, 0), (8, 0), (64, 3)].into_iter().enumerate() {
        let s = Shape { n, before, ..SHAPE };
        let n_follows = h.sched.engine().n_follows();
        h.sched.reset().unwrap();
        let (g, x, y) = h.build(s);
        h.sched.alloc_graph(g).unwrap();
        set(x, i as f32);
        assert_eq!(h.sched.compute_async(g).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
        h.sched.synchronize().unwrap();
        assert_eq!(get(y), vec![Host::expected(s, i as f32); n as usize], "round {i}");
        followed.push(h.sched.engine().n_follows() > n_follows);
    }
    // Each copy has an entry of its own.
    assert_eq!(followed, [false, false, false, false, true, true, true]);
}

/// The same requests for the same places are a part of the structure; others count.
#[test]
fn requests_of_the_host_may_be_the_same_again() {
    let mut h = Host::new();
    let mut allocate = |n: i64, before: usize, request: Option<usize>| {
        h.sched.reset().unwrap();
        let (g, _, y) = h.build(Shape { n, before, ..SHAPE });
        if let Some(backend) = request {
            h.sched.set_tensor_backend(y, backend).unwrap();
        }
        let n_follows = h.sched.engine().n_follows();
        h.sched.alloc_graph(g).unwrap();
        (h.sched.engine().placement(y).backend, h.sched.engine().n_follows() > n_follows)
    };
    assert_eq!(allocate(64, 0, None), (0, false));
    assert_eq!(allocate(32, 0, Some(1)), (1, false));
    assert_eq!(allocate(16, 1, Some(1)), (1, true));
    assert_eq!(allocate(48, 0, Some(0)), (0, false));
    assert_eq!(allocate(16, 2, Some(0)), (0, true));
    assert_eq!(allocate(16, 0, None), (0, false));
    assert_eq!(allocate(8, 5, None), (0, true));
}
