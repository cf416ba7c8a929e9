//! Weights that are copied ahead, to fake devices whose streams work as late as they may.

use super::Scheduler;
use super::ahead::Ahead;
use super::callbacks::{CopyWeights, Eval};
use super::tests::{get, set, weights};
use crate::abi::backend_impl::ggml_backend_t;
use crate::abi::ggml::ggml_op::GGML_OP_ADD;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::ggml::{ggml_cgraph, ggml_status, ggml_tensor};
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::{binary, matmul};
use crate::tensor::{Context, TensorRef};
use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;

const OK: ggml_status = ggml_status::GGML_STATUS_SUCCESS;
const N: usize = 8;
const LAYERS: usize = 6;

/// A model in host memory: products that the device takes, and additions that only the CPU computes.
struct Model {
    gpu: Fake,
    cpu: Fake,
    w: Vec<TensorRef>,
    _weights: (Context, BufferBox),
    c: Context,
}

impl Model {
    fn new() -> Self {
        let gpu = Fake::lazy(Spec { offloads: true, supports: |t| t.op() != GGML_OP_ADD, ..Spec::gpu() });
        let cpu = Fake::new(Spec::cpu());
        let mut c = Context::with_size(1 << 20, true).unwrap();
        let w: Vec<_> = (0..LAYERS).map(|_| c.new_tensor(GGML_TYPE_F32, &[N as i64, N as i64]).unwrap()).collect();
        let buffer = weights(&c, &cpu);
        for (i, &t) in w.iter().enumerate() {
            // Each layer multiplies by 1 or 2 and moves the columns on.
            let value = |at: usize| if at % N == (at / N + 1) % N { 1.0 + (i % 2) as f32 } else { 0.0 };
            set(t, &(0..N * N).map(value).collect::<Vec<_>>());
        }
        Self { gpu, cpu, w, _weights: (c, buffer), c: Context::with_size(1 << 20, true).unwrap() }
    }

    fn scheduler(&self, parallel: bool) -> Scheduler {
        Scheduler::new(&[self.gpu.handle(), self.cpu.handle()], None, 100, parallel, true)
    }

    /// Two products, and an addition to their input, for each pair of layers.
    fn graph(&mut self) -> (GraphRef, TensorRef, TensorRef) {
        let c = &mut self.c;
        let x = c.new_tensor(GGML_TYPE_F32, &[N as i64]).unwrap();
        x.add_flag(GGML_TENSOR_FLAG_INPUT);
        let mut t = x;
        for pair in self.w.chunks(2) {
            let a = matmul::mul_mat(c, pair[0], t).unwrap();
            let b = matmul::mul_mat(c, pair[1], a).unwrap();
            t = binary::add(c, t, b).unwrap();
        }
        t.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        let g = build::new(c, 100, false).unwrap();
        g.expand(t, true);
        (g, x, t)
    }

    fn expected(x: &[f32]) -> Vec<f32> {
        (0..LAYERS / 2).fold(x.to_vec(), |t, _| (0..N).map(|i| t[i] + 2.0 * t[(i + 2) % N]).collect())
    }
}

fn numbers(run: usize) -> Vec<f32> {
    (0..N).map(|i| (i * i + run) as f32).collect()
}

fn compute(s: &Scheduler, (g, x, y): (GraphRef, TensorRef, TensorRef), run: usize) {
    set(x, &numbers(run));
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(y), Model::expected(&numbers(run)), "run {run}");
}

/// For each weight: the splits in which it is copied, and needed.
fn ahead(s: &Scheduler) -> Vec<(usize, usize)> {
    s.engine().ahead().iter().map(|&Ahead { during, split, .. }| (during, split)).collect()
}

#[test]
fn weights_are_copied_while_the_split_before_computes() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    for run in 0..4 {
        s.reset().unwrap();
        s.alloc_graph(g.0).unwrap();
        // Two products, then the CPU's addition.
        assert_eq!(ahead(&s), [(0, 1), (1, 3), (3, 4), (4, 6), (6, 7)]);
        for _ in 0..2 {
            compute(&s, g, run);
        }
    }
}

#[test]
fn a_pipeline_reads_nothing_ahead() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(true);
    s.alloc_graph(g.0).unwrap();
    assert_eq!(ahead(&s), []);
    compute(&s, g, 1);
}

#[test]
fn weights_that_the_host_changes_are_copied_again() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    s.alloc_graph(g.0).unwrap();
    compute(&s, g, 1);
    for &w in &m.w {
        tensor_io::set_bytes(w, &[0; N * N * 4], 0);
    }
    set(g.1, &numbers(1));
    assert_eq!(s.compute_async(g.0).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(g.2), numbers(1), "each pair adds zeros");
}

#[test]
fn a_device_that_fails_leaves_no_copy_under_way() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    s.alloc_graph(g.0).unwrap();
    compute(&s, g, 1);
    m.cpu.state.refuse.store(true, SeqCst);
    assert_ne!(s.compute_async(g.0).unwrap(), OK);
    // What it would still write here shows.
    let zeros = vec![0; N * N * 4];
    for &w in &m.w[2..] {
        tensor_io::set_bytes(w, &zeros, 0);
    }
    m.cpu.state.refuse.store(false, SeqCst);
    set(g.1, &numbers(2));
    assert_eq!(s.compute_async(g.0).unwrap(), OK);
    s.synchronize().unwrap();
    let n = numbers(2);
    assert_eq!(get(g.2), (0..N).map(|i| n[i] + 2.0 * n[(i + 2) % N]).collect::<Vec<_>>());
}

unsafe extern "C" fn copies(
    _: ggml_backend_t,
    src: *const ggml_tensor,
    dst: *mut ggml_tensor,
    _: *mut ggml_cgraph,
    calls: *mut c_void,
) -> bool {
    // SAFETY: the scheduler passes valid tensors of one layout; `calls` are the test's numbers.
    let (src, dst, calls) = unsafe {
        (
            TensorRef::from_ptr(src.cast_mut()).unwrap(),
            TensorRef::from_ptr(dst).unwrap(),
            &mut *calls.cast::<[usize; 2]>(),
        )
    };
    calls[0] += 1;
    if calls[0] <= calls[1] {
        return false;
    }
    tensor_io::copy(src, dst).unwrap();
    true
}

#[test]
fn a_host_that_copies_weights_itself_does_so_each_time() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    // The first calls refuse.
    let mut calls = [0, LAYERS + 1];
    s.set_copy(CopyWeights { callback: Some(copies), user_data: (&raw mut calls).cast() }).unwrap();
    s.alloc_graph(g.0).unwrap();
    assert_eq!(ahead(&s).len(), LAYERS - 1);
    for run in 0..3 {
        compute(&s, g, run);
        assert_eq!(calls[0], LAYERS * (run + 1));
    }
    s.reset().unwrap();
    s.alloc_graph(g.0).unwrap();
    compute(&s, g, 4);
}

unsafe extern "C" fn looks(_: *mut ggml_tensor, _: bool, _: *mut c_void) -> bool {
    true
}

#[test]
fn a_host_that_looks_at_nodes_gets_copies_when_they_are_needed() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    s.alloc_graph(g.0).unwrap();
    s.set_eval(Eval { callback: Some(looks), user_data: std::ptr::null_mut() }).unwrap();
    compute(&s, g, 1);
    s.set_eval(Eval::default()).unwrap();
    compute(&s, g, 2);
}

#[test]
fn without_memory_for_two_weights_they_are_copied_one_at_a_time() {
    let mut m = Model::new();
    let g = m.graph();
    let s = m.scheduler(false);
    m.gpu.state.fail_at.store(m.gpu.state.allocs.load(SeqCst) + 1, SeqCst);
    s.alloc_graph(g.0).unwrap();
    assert_eq!(ahead(&s), []);
    compute(&s, g, 1);
}

/// Nothing else waits between these splits. Without the events, the race checker sees writes of weights that others
/// read.
#[test]
fn products_follow_each_other() {
    let m = Model::new();
    let mut c = Context::with_size(1 << 20, true).unwrap();
    let x = c.new_tensor(GGML_TYPE_F32, &[N as i64]).unwrap();
    x.add_flag(GGML_TENSOR_FLAG_INPUT);
    let y = m.w.iter().chain(&m.w[..1]).fold(x, |t, &w| matmul::mul_mat(&mut c, w, t).unwrap());
    y.add_flag(GGML_TENSOR_FLAG_OUTPUT);
    let g = build::new(&mut c, 100, false).unwrap();
    g.expand(y, true);
    let s = m.scheduler(false);
    s.alloc_graph(g).unwrap();
    // The first weight is used twice, and copied once.
    assert_eq!(ahead(&s), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    for run in 0..3 {
        set(x, &numbers(run));
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        let n = numbers(run);
        assert_eq!(get(y), (0..N).map(|i| 8.0 * n[(i + LAYERS + 1) % N]).collect::<Vec<_>>(), "run {run}");
    }
}
