//! Nodes that write into the memory of others, over fake devices that refuse memory which they cannot use.

use super::Scheduler;
use super::cause::{Cause, Placement};
use super::tests::{get, set};
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32};
use crate::abi::ggml::{ggml_status, ggml_tensor};
use crate::backend::BufferBox;
use crate::backend::testing::{Fake, Spec};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::unary::Plain;
use crate::tensor::ops::{Place, copy, matmul, optimizer, rows, unary, view};
use crate::tensor::{Context, TensorRef};

const N: i64 = 16;

fn ctx() -> Context {
    Context::with_size(16 << 20, true).unwrap()
}

fn sqr(c: &mut Context, t: TensorRef) -> TensorRef {
    unary::plain(c, Plain::Sqr, t, Place::New).unwrap()
}

/// s * t, in the memory of t.
fn scale(c: &mut Context, t: TensorRef, s: f32) -> TensorRef {
    unary::scale_bias(c, t, s, 0.0, Place::Inplace).unwrap()
}

fn add(c: &mut Context, a: TensorRef, b: TensorRef) -> TensorRef {
    binary::add(c, a, b).unwrap()
}

fn sub(c: &mut Context, a: TensorRef, b: TensorRef, place: Place) -> TensorRef {
    binary::binary(c, Binary::Sub, a, b, place).unwrap()
}

fn part(c: &mut Context, t: TensorRef, n: i64, first: usize) -> TensorRef {
    view::view(c, t, &[n], &[], 4 * first).unwrap()
}

/// Devices, the last one a CPU, and a weight of 16 times 16 ones on the first.
struct Host {
    sched: Scheduler,
    devices: Vec<Fake>,
    _weights: Context,
    _buffer: BufferBox,
    w: TensorRef,
    c: Context,
}

impl Host {
    fn new(specs: Vec<Spec>, parallel: bool) -> Self {
        Self::of(specs.into_iter().map(Fake::lazy).collect(), Fake::new(Spec::cpu()), parallel)
    }

    fn of(mut devices: Vec<Fake>, cpu: Fake, parallel: bool) -> Self {
        devices.push(cpu);
        let backends: Vec<_> = devices.iter().map(|d| d.handle()).collect();
        let mut weights = ctx();
        let w = weights.new_tensor(GGML_TYPE_F32, &[N, N]).unwrap();
        let mut list: Vec<*mut ggml_tensor> = vec![w.as_ptr()];
        let buffer = devices[0].buft.alloc_buffer_n(&mut list).unwrap().unwrap();
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        set(w, &[1.0; 256]);
        let sched = Scheduler::new(&backends, None, 100, parallel, false);
        Self { sched, devices, _weights: weights, _buffer: buffer, w, c: ctx() }
    }

    fn input(&mut self) -> TensorRef {
        let t = self.c.new_tensor(GGML_TYPE_F32, &[N]).unwrap();
        t.add_flag(GGML_TENSOR_FLAG_INPUT);
        t
    }

    /// The sum of the elements of an input, 16 times, on the first device.
    fn product(&mut self, x: TensorRef) -> TensorRef {
        matmul::mul_mat(&mut self.c, self.w, x).unwrap()
    }

    fn graph(&mut self, ends: &[TensorRef]) -> GraphRef {
        let g = build::new(&mut self.c, 100, false).unwrap();
        for t in ends {
            t.add_flag(GGML_TENSOR_FLAG_OUTPUT);
            g.expand(*t, true);
        }
        g
    }

    /// Computes a graph twice: the second time it is the same graph, and all of it is put in place again.
    fn run(&mut self, ends: &[TensorRef], inputs: &[(TensorRef, f32)]) -> Vec<Vec<f32>> {
        let g = self.graph(ends);
        self.sched.alloc_graph(g).unwrap();
        let mut results = Vec::new();
        for _ in 0..2 {
            inputs.iter().for_each(|&(t, v)| set(t, &vec![v; t.nelements() as usize]));
            assert_eq!(self.sched.compute_async(g).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
            self.sched.synchronize().unwrap();
            results = ends.iter().map(|&t| get(t)).collect();
        }
        results
    }

    fn place(&self, t: TensorRef) -> usize {
        usize::try_from(self.sched.engine().placement(t).backend).unwrap()
    }
}

fn gpu(supports: fn(TensorRef) -> bool) -> Spec {
    Spec { supports, ..Spec::gpu() }
}

fn no_sqr(t: TensorRef) -> bool {
    t.op() != GGML_OP_SQR
}

fn no_scale(t: TensorRef) -> bool {
    t.op() != GGML_OP_SCALE
}

/// S23: the device computes the node in place, but not the one whose memory it is.
#[test]
fn writers_are_where_the_memory_is() {
    for parallel in [false, true] {
        let mut h = Host::new(vec![gpu(no_sqr)], parallel);
        let x = h.input();
        let p = h.product(x);
        let s = sqr(&mut h.c, p);
        let half = scale(&mut h.c, s, 0.5);
        let y = add(&mut h.c, half, p);
        assert_eq!(h.run(&[y], &[(x, 1.0)]), [[144.0; 16]]);
        assert_eq!([p, s, half, y].map(|t| h.place(t)), [0, 1, 1, 0]);
        assert_eq!(h.sched.engine().placement(half), Placement::new(1, Cause::WRITES));
    }
}

/// The other way round: only the CPU computes the writer, so the memory moves there.
#[test]
fn the_memory_moves_if_nobody_else_computes_the_writer() {
    let mut h = Host::new(vec![gpu(no_scale)], false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    let half = scale(&mut h.c, s, 0.5);
    let y = add(&mut h.c, half, p);
    assert_eq!(h.run(&[y], &[(x, 1.0)]), [[144.0; 16]]);
    assert_eq!(h.sched.engine().placement(s), Placement::new(1, Cause::WRITTEN));
    assert_eq!((h.place(half), h.place(y)), (1, 0));
}

/// A second accelerator that computes both comes before the CPU.
#[test]
fn the_memory_moves_to_the_first_that_computes_all() {
    let other = Spec { name: c"GPU2", ..Spec::gpu() };
    let mut h = Host::new(vec![gpu(no_scale), other], false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    let half = scale(&mut h.c, s, 0.5);
    let y = add(&mut h.c, half, p);
    assert_eq!(h.run(&[y], &[(x, 1.0)]), [[144.0; 16]]);
    assert_eq!([p, s, half].map(|t| h.place(t)), [0, 1, 1]);
}

/// All writers of one memory are together, those through views and those of writers too.
#[test]
fn chains_and_views_are_one_group() {
    let mut h = Host::new(vec![gpu(|t| no_sqr(t) && t.op() != GGML_OP_SUB)], false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    let half = scale(&mut h.c, s, 0.5);
    let more = sub(&mut h.c, half, p, Place::Inplace);
    let right = part(&mut h.c, more, 8, 8);
    let tripled = scale(&mut h.c, right, 3.0);
    let target = part(&mut h.c, more, 4, 0);
    let source = part(&mut h.c, p, 4, 0);
    let stored = copy::cpy(&mut h.c, source, target).unwrap();
    let end = add(&mut h.c, tripled, right);
    let start = copy::cont(&mut h.c, stored).unwrap();
    let results = h.run(&[end, start], &[(x, 1.0)]);
    // 16 * 16 / 2 - 16 = 112.
    assert_eq!(results, [vec![672.0; 8], vec![16.0; 4]]);
    for t in [s, half, more, right, tripled, target, stored] {
        assert_eq!(h.place(t), 1, "{:?}", t.op());
    }
}

/// An input that the device fills and writes rows into stays in the host's memory.
#[test]
fn inputs_are_written_where_the_host_writes_them() {
    let mut h = Host::new(vec![Spec::gpu()], false);
    let x = h.input();
    let p = h.product(x);
    let mask = h.c.new_tensor(GGML_TYPE_F32, &[4, 4]).unwrap();
    let index = h.c.new_tensor(GGML_TYPE_I32, &[1]).unwrap();
    [mask, index].iter().for_each(|t| t.add_flag(GGML_TENSOR_FLAG_INPUT));
    let filled = unary::fill(&mut h.c, mask, -3.0, Place::Inplace).unwrap();
    let row = part(&mut h.c, p, 4, 0);
    let stored = rows::set_rows(&mut h.c, filled, row, index).unwrap();
    let flat = view::reshape(&mut h.c, stored, &[N]).unwrap();
    let y = add(&mut h.c, p, flat);
    let g = h.graph(&[y]);
    h.sched.alloc_graph(g).unwrap();
    assert_eq!([mask, filled, stored].map(|t| h.place(t)), [1, 1, 1]);
    set(x, &[1.0; 16]);
    set(index, &[f32::from_bits(2)]);
    assert_eq!(h.sched.compute_async(g).unwrap(), ggml_status::GGML_STATUS_SUCCESS);
    h.sched.synchronize().unwrap();
    let mut expected = [13.0; 16];
    expected[8..12].fill(32.0);
    assert_eq!(get(y), expected);
}

/// A writer may be elsewhere if its backend can use the memory: no placement changes then.
#[test]
fn who_can_use_the_memory_stays() {
    let cpu = Fake::new(Spec::cpu());
    let device = Fake::lazy(Spec { reads: vec![cpu.buft], ..gpu(no_sqr) });
    let mut h = Host::of(vec![device], cpu, false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    let half = scale(&mut h.c, s, 0.5);
    let copied = copy::cont(&mut h.c, s).unwrap();
    h.sched.set_tensor_backend(copied, 1).unwrap();
    let y = add(&mut h.c, half, p);
    let g = h.graph(&[y]);
    g.expand(copied, true);
    copied.add_flag(GGML_TENSOR_FLAG_OUTPUT);
    assert_eq!(h.run(&[y, copied], &[(x, 1.0)]), [[144.0; 16], [128.0; 16]]);
    assert_eq!([s, half].map(|t| h.place(t)), [1, 0]);
}

/// What the host has placed stays, and the other side moves.
#[test]
fn requests_of_the_host_count() {
    // The writer, and then the root.
    for placed in 0..2 {
        let mut h = Host::new(vec![Spec::gpu()], false);
        let x = h.input();
        let p = h.product(x);
        let s = sqr(&mut h.c, p);
        let half = scale(&mut h.c, s, 0.5);
        let y = add(&mut h.c, half, p);
        h.sched.set_tensor_backend([half, s][placed], 1).unwrap();
        assert_eq!(h.run(&[y], &[(x, 1.0)]), [[144.0; 16]]);
        assert_eq!([p, s, half].map(|t| h.place(t)), [0, 1, 1]);
    }
}

/// A view that the host has placed elsewhere, of memory that nodes write: no copy from before the write is read.
#[test]
fn views_of_written_memory_are_with_it() {
    let mut h = Host::new(vec![Spec::gpu()], false);
    let x = h.input();
    let p = h.product(x);
    let half = scale(&mut h.c, p, 0.5);
    let right = part(&mut h.c, half, 8, 8);
    let tripled = scale(&mut h.c, right, 3.0);
    let y = add(&mut h.c, tripled, right);
    h.sched.set_tensor_backend(right, 1).unwrap();
    assert_eq!(h.run(&[y], &[(x, 1.0)]), [[48.0; 8]]);
    assert_eq!(h.sched.engine().placement(right), Placement::new(0, Cause::BASE));
}

/// Nothing works: the message names both nodes and both backends.
#[test]
fn an_impossible_pair_is_an_error() {
    let only_sqr = |t: TensorRef| t.op() != GGML_OP_SCALE;
    let cpu = Fake::new(Spec { supports: no_sqr, ..Spec::cpu() });
    let mut h = Host::of(vec![Fake::lazy(gpu(only_sqr))], cpu, false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    s.set_name(b"root");
    let half = scale(&mut h.c, s, 0.5);
    half.set_name(b"writer");
    let g = h.graph(&[half]);
    let text = h.sched.alloc_graph(g).unwrap_err().to_string();
    for part in ["'writer' (SCALE) is on CPU", "'root' (SQR), which is on GPU"] {
        assert!(text.contains(part), "{text}");
    }
    // The same where the host has decided: of what it has placed, and of what has a buffer.
    let mut h = Host::new(vec![Spec::gpu()], false);
    let x = h.input();
    let p = h.product(x);
    let s = sqr(&mut h.c, p);
    let half = scale(&mut h.c, s, 0.5);
    h.sched.set_tensor_backend(s, 0).unwrap();
    h.sched.set_tensor_backend(half, 1).unwrap();
    let g = h.graph(&[half]);
    assert!(h.sched.alloc_graph(g).unwrap_err().to_string().contains("writes into the memory"));
    h.sched.reset().unwrap();
    let row = part(&mut h.c, h.w, 16, 0);
    let stored = copy::cpy(&mut h.c, x, row).unwrap();
    h.sched.set_tensor_backend(stored, 1).unwrap();
    let g = h.graph(&[stored]);
    assert!(h.sched.alloc_graph(g).unwrap_err().to_string().contains("a buffer of type GPU"));
}

/// What a step of AdamW writes into copies of its moments would be lost.
#[test]
fn moments_elsewhere_are_an_error() {
    let mut h = Host::new(vec![Spec::gpu()], false);
    let mut memory = ctx();
    let [weight, m, v] = [(); 3].map(|()| memory.new_tensor(GGML_TYPE_F32, &[N]).unwrap());
    weight.add_flag(GGML_TENSOR_FLAG_PARAM);
    let _buffers = [(0, vec![m.as_ptr(), v.as_ptr()]), (1, vec![weight.as_ptr()])]
        .map(|(device, mut list)| h.devices[device].buft.alloc_buffer_n(&mut list).unwrap().unwrap());
    let gradient = h.input();
    let numbers = h.c.new_tensor(GGML_TYPE_F32, &[7]).unwrap();
    numbers.add_flag(GGML_TENSOR_FLAG_INPUT);
    let step = optimizer::opt_step_adamw(&mut h.c, weight, gradient, m, v, numbers).unwrap();
    let g = h.graph(&[step]);
    let text = h.sched.alloc_graph(g).unwrap_err().to_string();
    assert!(text.contains("moment") && text.contains("a buffer of type GPU"), "{text}");
}

/// S24: a copy that was made before a node wrote into the memory is not used by nodes that read it afterwards.
#[test]
fn copies_are_made_again_after_a_write() {
    for parallel in [false, true] {
        let mut h = Host::new(vec![gpu(|t| no_sqr(t) && no_scale(t))], parallel);
        let x = h.input();
        let p = h.product(x);
        let s = sqr(&mut h.c, p);
        let before = add(&mut h.c, s, p);
        let half = scale(&mut h.c, s, 0.5);
        let after = sub(&mut h.c, s, before, Place::New);
        let g = h.graph(&[before, half, after]);
        assert_eq!(g.n_nodes(), 5);
        assert_eq!(h.run(&[before, half, after], &[(x, 1.0)]), [[272.0; 16], [128.0; 16], [-144.0; 16]]);
        assert_eq!([before, half, after].map(|t| h.place(t)), [0, 1, 0]);
    }
}

/// An input that a device has and writes is not copied before the device is done.
#[test]
fn a_written_input_is_not_copied_too_early() {
    let mut h = Host::new(vec![Spec::gpu()], false);
    let x = h.input();
    let doubled = scale(&mut h.c, x, 2.0);
    let y = copy::cont(&mut h.c, x).unwrap();
    [(x, 0), (doubled, 0), (y, 1)].into_iter().for_each(|(t, b)| h.sched.set_tensor_backend(t, b).unwrap());
    let g = h.graph(&[doubled]);
    g.expand(y, true);
    assert_eq!(h.run(&[doubled, y], &[(x, 1.0)]), [[2.0; 16], [2.0; 16]]);
}

/// Consistent graphs, of which the original's placement is right, keep it.
#[test]
fn a_cache_on_the_device_is_written_there() {
    let mut h = Host::new(vec![Spec::gpu()], false);
    let mut memory = ctx();
    let cache = memory.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
    let mut list = [cache.as_ptr()];
    let _buffer = h.devices[0].buft.alloc_buffer_n(&mut list).unwrap().unwrap();
    let x = h.input();
    let p = h.product(x);
    let place = part(&mut h.c, cache, 16, 16);
    let stored = copy::cpy(&mut h.c, p, place).unwrap();
    assert_eq!(h.run(&[stored], &[(x, 1.0)]), [[16.0; 16]]);
    assert_eq!(h.sched.engine().placement(stored), Placement::new(0, Cause::BUFFER));
}
