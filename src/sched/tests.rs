//! The scheduler over fake devices. Names such as S2 are those of the regressions that a test guards against.

use super::callbacks::Eval;
use super::cause::Cause;
use super::settings::MAX_COPIES;
use super::*;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32};
use crate::abi::ggml::{ggml_op, ggml_status, ggml_tensor};
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::{Place, copy, matmul, unary, view};
use crate::tensor::{Context, TensorRef};
use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;

const OK: ggml_status = ggml_status::GGML_STATUS_SUCCESS;

fn ctx() -> Context {
    Context::with_size(32 << 20, true).unwrap()
}

fn input(c: &mut Context, n: i64) -> TensorRef {
    let t = c.new_tensor(GGML_TYPE_F32, &[n]).unwrap();
    t.add_flag(GGML_TENSOR_FLAG_INPUT);
    t
}

fn graph(c: &mut Context, ends: &[TensorRef]) -> GraphRef {
    let g = build::new(c, 20000, false).unwrap();
    ends.iter().for_each(|t| {
        t.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        g.expand(*t, true)
    });
    g
}

pub(super) fn set(t: TensorRef, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    tensor_io::set_bytes(t, &bytes, 0);
}

pub(super) fn get(t: TensorRef) -> Vec<f32> {
    let mut bytes = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut bytes, 0);
    bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// Memory for all tensors of a context, as weights.
pub(super) fn weights(c: &Context, device: &Fake) -> BufferBox {
    let mut list: Vec<*mut ggml_tensor> = c.tensors().map(|t| t.as_ptr()).collect();
    let buffer = device.buft.alloc_buffer_n(&mut list).unwrap().unwrap();
    buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    buffer
}

fn scheduler(devices: &[&Fake], parallel: bool) -> Scheduler {
    let backends: Vec<_> = devices.iter().map(|d| d.handle()).collect();
    Scheduler::new(&backends, None, 1000, parallel, true)
}

fn gpu_and_cpu() -> (Fake, Fake) {
    (Fake::lazy(Spec::gpu()), Fake::new(Spec::cpu()))
}

/// Weights on the device: 2 * x + w for each layer, with a step on the CPU (an operation that the device lacks)
/// between.
struct Layers {
    _ctx: Context,
    _buffer: BufferBox,
    w: Vec<TensorRef>,
}

impl Layers {
    fn new(gpu: &Fake, n: usize) -> Self {
        let mut c = ctx();
        let w: Vec<_> = (0..n).map(|_| c.new_tensor(GGML_TYPE_F32, &[64]).unwrap()).collect();
        let buffer = weights(&c, gpu);
        for (i, t) in w.iter().enumerate() {
            set(*t, &[i as f32; 64]);
        }
        Self { _ctx: c, _buffer: buffer, w }
    }

    fn graph(&self, c: &mut Context) -> (GraphRef, TensorRef, TensorRef) {
        let x = input(c, 64);
        x.set_name(b"x");
        let mut t = x;
        for w in &self.w {
            t = binary::add(c, t, *w).unwrap();
            t = unary::scale(c, t, 2.0).unwrap();
            t = binary::binary(c, Binary::Sub, t, x, Place::New).unwrap();
        }
        (graph(c, &[t]), x, t)
    }

    fn expected(&self, x: f32) -> f32 {
        (0..self.w.len()).fold(x, |t, i| (t + i as f32) * 2.0 - x)
    }
}

fn no_sub(t: TensorRef) -> bool {
    t.op() != ggml_op::GGML_OP_SUB
}

/// S2, S3: one allocation computed again and again with other inputs, nothing reset between, with pipeline copies.
#[test]
fn the_same_allocation_uses_the_same_copy() {
    for parallel in [false, true] {
        let gpu = Fake::lazy(Spec { supports: no_sub, ..Spec::gpu() });
        let cpu = Fake::new(Spec::cpu());
        let layers = Layers::new(&gpu, 3);
        let s = scheduler(&[&gpu, &cpu], parallel);
        let mut c = ctx();
        let (g, x, y) = layers.graph(&mut c);
        // The first copy would also be in use after a mistaken start from the beginning.
        for _ in 0..2 {
            s.reset().unwrap();
            s.alloc_graph(g).unwrap();
        }
        assert_eq!(s.engine().n_splits(), 6);
        let copy = s.engine().cur_copy();
        assert_eq!(copy, usize::from(parallel));
        for i in 0..5 {
            set(x, &[i as f32; 64]);
            assert_eq!(s.compute_async(g).unwrap(), OK);
            // A device input was copied: the host may write it again at once. S7: what crosses back waits for its
            // readers.
            s.synchronize().unwrap();
            assert_eq!(get(y), [layers.expected(i as f32); 64], "run {i}");
            assert_eq!(s.engine().cur_copy(), copy);
        }
    }
}

/// S4, S6: graphs in flight on a device that is as late as it may be, inputs written in between.
#[test]
fn pipelined_graphs_do_not_disturb_each_other() {
    let gpu = Fake::lazy(Spec::gpu());
    let cpu = Fake::new(Spec::cpu());
    let layers = Layers::new(&gpu, 2);
    let s = scheduler(&[&gpu, &cpu], true);
    let mut c = ctx();
    let (g, ..) = layers.graph(&mut c);
    s.reserve(g).unwrap();
    let allocs = gpu.state.allocs.load(SeqCst);
    let mut results = Vec::new();
    for i in 0..9 {
        let mut c = ctx();
        let (g, x, y) = layers.graph(&mut c);
        s.reset().unwrap();
        s.alloc_graph(g).unwrap();
        assert_eq!(s.engine().cur_copy(), i % MAX_COPIES);
        set(x, &[i as f32; 64]);
        assert_eq!(s.compute_async(g).unwrap(), OK);
        // The result is fetched in the device's queue, after the computation.
        results.push((Box::new([0u8; 256]), c));
        let target = results[i].0.as_mut_ptr();
        // SAFETY: the box lives, unread, until the device is synchronised below.
        unsafe { gpu.handle().get_async(y, target, 0, 256) };
    }
    assert_eq!(gpu.state.allocs.load(SeqCst), allocs, "rotating copies needs no new buffer");
    s.synchronize().unwrap();
    for (i, (bytes, _)) in results.iter().enumerate() {
        let first = f32::from_ne_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(first, layers.expected(i as f32), "graph {i}");
    }
}

/// S10: what the host placed counts when memory is reserved, so that the graph fits later.
#[test]
fn reserving_keeps_what_the_host_placed() {
    let (gpu, cpu) = gpu_and_cpu();
    let s = scheduler(&[&gpu, &cpu], false);
    let make = |s: &Scheduler| {
        let mut c = ctx();
        let x = input(&mut c, 1000);
        let y = copy::cont(&mut c, x).unwrap();
        let z = copy::cont(&mut c, y).unwrap();
        let g = graph(&mut c, &[z]);
        s.set_tensor_backend(y, 0).unwrap();
        (c, g, x, y, z)
    };
    let (_c, g, _, y, _) = make(&s);
    s.reserve(g).unwrap();
    assert!(s.engine().buffer_size(0) >= 8000 && !s.engine().placement(y).is_set());
    let allocs = (gpu.state.allocs.load(SeqCst), cpu.state.allocs.load(SeqCst));
    let (_d, g, x, y, z) = make(&s);
    s.alloc_graph(g).unwrap();
    assert_eq!(s.engine().placement(y), cause::Placement::new(0, Cause::USER));
    assert_eq!((gpu.state.allocs.load(SeqCst), cpu.state.allocs.load(SeqCst)), allocs);
    set(x, &[3.0; 1000]);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(z), [3.0; 1000]);
}

/// S12: the device with the weight cannot compute the node.
#[test]
fn the_cpu_computes_what_the_weights_device_cannot() {
    let gpu = Fake::lazy(Spec { supports: |t| t.op() != ggml_op::GGML_OP_MUL, ..Spec::gpu() });
    let cpu = Fake::new(Spec::cpu());
    let mut model = ctx();
    let w = model.new_tensor(GGML_TYPE_F32, &[8]).unwrap();
    let _buffer = weights(&model, &gpu);
    set(w, &[3.0; 8]);
    let mut c = ctx();
    let x = input(&mut c, 8);
    let y = binary::mul(&mut c, x, w).unwrap();
    let g = graph(&mut c, &[y]);
    let s = scheduler(&[&gpu, &cpu], false);
    s.alloc_graph(g).unwrap();
    assert_eq!(s.engine().placement(y), cause::Placement::new(1, Cause::BEST_INPUTS));
    assert_eq!(y.src(1).unwrap().name(), "CPU#leaf_1#0");
    set(x, &[2.0; 8]);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    assert_eq!(get(y), [6.0; 8]);
}

/// S13: far more inputs in one split than the original's first limit.
#[test]
fn a_split_may_have_many_inputs() {
    for parallel in [false, true] {
        let (gpu, cpu) = gpu_and_cpu();
        let s = scheduler(&[&gpu, &cpu], parallel);
        let mut c = ctx();
        let xs: Vec<_> = (0..200).map(|_| input(&mut c, 8)).collect();
        let mut sum = xs[0];
        for x in &xs[1..] {
            sum = binary::add(&mut c, sum, *x).unwrap();
        }
        let g = graph(&mut c, &[sum]);
        g.nodes().for_each(|t| s.set_tensor_backend(t, 0).unwrap());
        s.alloc_graph(g).unwrap();
        assert_eq!((s.engine().n_splits(), s.engine().splits()[0].inputs.len()), (1, 200));
        xs.iter().enumerate().for_each(|(i, x)| set(*x, &[i as f32; 8]));
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        assert_eq!(get(sum), [19900.0; 8]);
    }
}

/// S14: as many splits as nodes.
#[test]
fn a_graph_may_have_many_splits() {
    let (gpu, cpu) = gpu_and_cpu();
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let x = input(&mut c, 4);
    let mut t = x;
    for i in 0..10000 {
        t = unary::scale(&mut c, t, if i % 2 == 0 { 2.0 } else { 0.5 }).unwrap();
        s.set_tensor_backend(t, i % 2).unwrap();
    }
    let g = graph(&mut c, &[t]);
    s.alloc_graph(g).unwrap();
    assert_eq!(s.engine().n_splits(), 10000);
    set(x, &[7.0; 4]);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(t), [7.0; 4]);
}

/// S15: every allocation fails once; the next attempt works, and nothing is lost.
#[test]
fn failed_allocations_are_errors() {
    let gpu = Fake::lazy(Spec { supports: no_sub, max_size: 256, ..Spec::gpu() });
    let cpu = Fake::new(Spec::cpu());
    let layers = Layers::new(&gpu, 3);
    let lives = || gpu.state.live.load(SeqCst) + cpu.state.live.load(SeqCst);
    let before = lives();
    let mut failures = 0;
    for device in [&gpu, &cpu] {
        for k in 1..=3 {
            for reserve in [false, true] {
                let s = scheduler(&[&gpu, &cpu], false);
                device.state.fail_at.store(device.state.allocs.load(SeqCst) + k, SeqCst);
                let mut c = ctx();
                let (g, ..) = layers.graph(&mut c);
                let result = if reserve { s.reserve(g) } else { s.alloc_graph(g) };
                failures += usize::from(result.is_err());
                if let Err(e) = result {
                    assert_eq!(e.status(), ggml_status::GGML_STATUS_ALLOC_FAILED);
                }
                device.state.fail_at.store(0, SeqCst);
                s.reset().unwrap();
                let mut c = ctx();
                let (g, x, y) = layers.graph(&mut c);
                s.alloc_graph(g).unwrap();
                set(x, &[1.0; 64]);
                assert_eq!(s.compute_async(g).unwrap(), OK);
                s.synchronize().unwrap();
                assert_eq!(get(y), [layers.expected(1.0); 64]);
                drop(s);
                assert_eq!(lives(), before);
            }
        }
    }
    assert!(failures >= 4, "{failures}");
}

/// S16: a tensor that no backend can compute where it is leads to an error and does not end the process.
#[test]
fn impossible_placements_are_errors() {
    let (gpu, cpu) = gpu_and_cpu();
    let stranger = Fake::new(Spec::gpu());
    let mut model = ctx();
    let w = model.new_tensor(GGML_TYPE_F32, &[8]).unwrap();
    let _buffer = weights(&model, &stranger);
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let y = unary::scale(&mut c, w, 2.0).unwrap();
    let g = graph(&mut c, &[y]);
    assert!(matches!(s.alloc_graph(g), Err(crate::error::Error::Unsupported(_))));
    assert_eq!(s.engine().n_splits(), 0);
    let none = Fake::new(Spec { supports: |_| false, ..Spec::cpu() });
    let s = scheduler(&[&none], false);
    let x = input(&mut c, 8);
    let y = unary::scale(&mut c, x, 2.0).unwrap();
    let g = graph(&mut c, &[y]);
    assert!(s.compute_async(g).is_err());
}

/// S17: nodes are offloaded from weights in host memory if the device offers it, but not from weights in a device's own
/// memory.
#[test]
fn only_weights_in_host_memory_are_offloaded_from() {
    for host in [true, false] {
        let cpu = Fake::new(Spec { host, ..Spec::cpu() });
        let gpu = Fake::lazy(Spec { offloads: true, ..Spec::gpu() });
        let mut model = ctx();
        let w = model.new_tensor(GGML_TYPE_F32, &[4, 4]).unwrap();
        let _buffer = weights(&model, &cpu);
        set(w, &(0..16).map(|i| i as f32).collect::<Vec<_>>());
        let s = scheduler(&[&gpu, &cpu], false);
        let mut c = ctx();
        let x = input(&mut c, 4);
        let y = matmul::mul_mat(&mut c, w, x).unwrap();
        let g = graph(&mut c, &[y]);
        s.alloc_graph(g).unwrap();
        let expected = if host { (0, Cause::OFFLOAD) } else { (1, Cause::weight(0)) };
        assert_eq!(s.engine().placement(y), cause::Placement::new(expected.0, expected.1));
        set(x, &[1.0; 4]);
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        assert_eq!(get(y), [6.0, 22.0, 38.0, 54.0]);
    }
}

/// S19: the same graph, split again after a reset, without being built again.
#[test]
fn a_graph_can_be_split_again() {
    let gpu = Fake::lazy(Spec { supports: no_sub, ..Spec::gpu() });
    let cpu = Fake::new(Spec::cpu());
    let layers = Layers::new(&gpu, 3);
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let (g, x, y) = layers.graph(&mut c);
    let (other, ..) = layers.graph(&mut c);
    for i in 0..4 {
        s.reset().unwrap();
        if i == 2 {
            s.split_graph(other).unwrap();
            s.reset().unwrap();
        }
        s.alloc_graph(g).unwrap();
        assert_eq!(s.engine().n_splits(), 6);
        set(x, &[i as f32; 64]);
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        assert_eq!(get(y), [layers.expected(i as f32); 64]);
    }
}

/// S20: a view goes with the memory it looks at, not with its neighbours.
#[test]
fn views_of_placed_memory_stay_with_it() {
    let (gpu, cpu) = gpu_and_cpu();
    let mut cache_ctx = ctx();
    let cache = cache_ctx.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
    let mut list = [cache.as_ptr()];
    let _cache = gpu.buft.alloc_buffer_n(&mut list).unwrap().unwrap();
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let x = input(&mut c, 16);
    let y = unary::scale(&mut c, x, 3.0).unwrap();
    s.set_tensor_backend(y, 1).unwrap();
    let place = view::view(&mut c, cache, &[16], &[], 64).unwrap();
    let stored = copy::cpy(&mut c, y, place).unwrap();
    let g = graph(&mut c, &[stored]);
    s.alloc_graph(g).unwrap();
    for t in [place, stored] {
        assert_eq!(s.engine().placement(t), cause::Placement::new(0, Cause::BUFFER), "{}", t.name());
    }
    assert_eq!(s.engine().placement(y).backend, 1);
    set(x, &[2.0; 16]);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(cache)[16..32], [6.0; 16]);
}

/// S1: a split without inputs does not write into memory that the split before it still reads.
#[test]
fn a_split_without_inputs_waits_for_the_one_before() {
    let cpu = Fake::new(Spec::cpu());
    let gpu = Fake::lazy(Spec { reads: vec![cpu.buft], ..Spec::gpu() });
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let (x, y) = (input(&mut c, 64), input(&mut c, 64));
    // The device reads x in place. After that, the memory of x is free for what the CPU computes next. (An operation
    // that may work in place would keep it.)
    let a = copy::cont(&mut c, x).unwrap();
    let b = copy::cont(&mut c, y).unwrap();
    let b = unary::scale(&mut c, b, 5.0).unwrap();
    s.set_tensor_backend(a, 0).unwrap();
    s.set_tensor_backend(b, 1).unwrap();
    s.set_tensor_backend(b.src(0).unwrap(), 1).unwrap();
    let g = graph(&mut c, &[a, b]);
    s.alloc_graph(g).unwrap();
    assert_eq!((s.engine().n_splits(), s.engine().splits()[1].inputs.len()), (2, 0));
    set(x, &[1.0; 64]);
    set(y, &[10.0; 64]);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!((get(a)[0], get(b)[0]), (1.0, 50.0));
}

/// S11: only the experts in use are copied, by the routing of each product.
#[test]
fn only_the_experts_in_use_are_copied() {
    let cpu = Fake::new(Spec::cpu());
    let gpu = Fake::lazy(Spec { offloads: true, supports: |t| t.op() != ggml_op::GGML_OP_ADD, ..Spec::gpu() });
    let mut model = ctx();
    let experts: Vec<_> = (0..2).map(|_| model.new_tensor(GGML_TYPE_F32, &[64, 64, 8]).unwrap()).collect();
    let _buffer = weights(&model, &cpu);
    for (k, e) in experts.iter().enumerate() {
        let values: Vec<f32> = (0..64 * 64 * 8).map(|i| (i / 4096 + 10 * k) as f32).collect();
        set(*e, &values);
    }
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let x = c.new_tensor(GGML_TYPE_F32, &[64, 1, 1]).unwrap();
    x.add_flag(GGML_TENSOR_FLAG_INPUT);
    let routing: Vec<_> = (0..2)
        .map(|_| {
            let ids = c.new_tensor(GGML_TYPE_I32, &[2, 1]).unwrap();
            ids.add_flag(GGML_TENSOR_FLAG_INPUT);
            ids
        })
        .collect();
    let a = matmul::mul_mat_id(&mut c, experts[0], x, routing[0]).unwrap();
    let b = matmul::mul_mat_id(&mut c, experts[1], x, routing[1]).unwrap();
    let g = graph(&mut c, &[a, b]);
    s.alloc_graph(g).unwrap();
    assert_eq!(s.engine().placement(a).cause, Cause::OFFLOAD);
    set(x, &[1.0; 64]);
    let bits = |v: [i32; 2]| v.map(|v| f32::from_bits(v as u32));
    set(routing[0], &bits([1, 2]));
    set(routing[1], &bits([7, 4]));
    gpu.state.bytes_set.store(0, SeqCst);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!((get(a)[0], get(a)[64]), (64.0, 128.0));
    assert_eq!((get(b)[0], get(b)[64]), (17.0 * 64.0, 14.0 * 64.0));
    // Two experts for each node, and the start of the expert after a run: after 1 and 2, and after 4. Expert 7 is the
    // last one.
    let copied = 4 * 64 * 64 * 4 + 2 * 512;
    let inputs = 64 * 4 + 2 * 8;
    assert_eq!(gpu.state.bytes_set.load(SeqCst), copied + inputs);
    // A routing that names an expert that is not there is an error.
    set(routing[1], &bits([7, 8]));
    assert!(s.compute_async(g).is_err());
    s.synchronize().unwrap();
}

struct Seen {
    asked: Vec<String>,
    shown: Vec<String>,
    stop_at: usize,
}

unsafe extern "C" fn watch(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool {
    // SAFETY: the scheduler shows valid tensors; the data is the test's `Seen`.
    let (t, seen) = unsafe { (TensorRef::from_ptr(t).unwrap(), &mut *user_data.cast::<Seen>()) };
    if ask {
        seen.asked.push(t.name());
        return t.name().starts_with("look");
    }
    seen.shown.push(format!("{}={}", t.name(), get(t)[0]));
    seen.shown.len() != seen.stop_at
}

#[test]
fn the_host_can_watch_nodes_and_stop() {
    for stop_at in [0, 1] {
        let (gpu, cpu) = gpu_and_cpu();
        let s = scheduler(&[&gpu, &cpu], false);
        let mut c = ctx();
        let x = input(&mut c, 4);
        let mut t = x;
        for (i, name) in ["a", "look1", "b", "c", "look2", "d"].iter().enumerate() {
            t = unary::scale(&mut c, t, 2.0).unwrap();
            t.set_name(name.as_bytes());
            s.set_tensor_backend(t, usize::from(i > 2)).unwrap();
        }
        let g = graph(&mut c, &[t]);
        let mut seen = Seen { asked: Vec::new(), shown: Vec::new(), stop_at };
        s.set_eval(Eval { callback: Some(watch), user_data: (&raw mut seen).cast() }).unwrap();
        s.alloc_graph(g).unwrap();
        assert_eq!(s.engine().n_splits(), 2);
        set(x, &[1.0; 4]);
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        if stop_at == 0 {
            assert_eq!(seen.asked, ["a", "look1", "b", "c", "look2", "d"]);
            assert_eq!(seen.shown, ["look1=4", "look2=32"]);
            assert_eq!(get(t)[0], 64.0);
        } else {
            // The split ends, the next one runs.
            assert_eq!(seen.asked, ["a", "look1", "c", "look2", "d"]);
        }
    }
}

#[test]
fn a_failing_backend_is_a_status() {
    let (gpu, cpu) = gpu_and_cpu();
    let layers = Layers::new(&gpu, 1);
    let s = scheduler(&[&gpu, &cpu], false);
    let mut c = ctx();
    let (g, x, y) = layers.graph(&mut c);
    s.alloc_graph(g).unwrap();
    set(x, &[1.0; 64]);
    gpu.state.refuse.store(true, SeqCst);
    assert_eq!(s.compute_async(g).unwrap(), ggml_status::GGML_STATUS_ABORTED);
    gpu.state.refuse.store(false, SeqCst);
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!(get(y), [layers.expected(1.0); 64]);
}

#[test]
fn measuring_makes_no_buffer_and_agrees_with_reserving() {
    let (gpu, cpu) = gpu_and_cpu();
    let layers = Layers::new(&gpu, 2);
    let s = scheduler(&[&gpu, &cpu], false);
    let allocs = gpu.state.allocs.load(SeqCst);
    let mut c = ctx();
    let (g, ..) = layers.graph(&mut c);
    let sizes = s.measure(g).unwrap();
    assert_eq!(gpu.state.allocs.load(SeqCst), allocs);
    s.reset().unwrap();
    let (g, ..) = layers.graph(&mut c);
    s.reserve(g).unwrap();
    assert_eq!(sizes, [s.engine().buffer_size(0), s.engine().buffer_size(1)]);
}

/// S6: the host writes an input again as soon as the graph is started. The device reads the input directly and through
/// a view, in place or from a copy.
#[test]
fn inputs_may_be_written_as_soon_as_the_graph_is_started() {
    for parallel in [false, true] {
        for in_place in [false, true] {
            let cpu = Fake::new(Spec::cpu());
            let reads = if in_place { vec![cpu.buft] } else { Vec::new() };
            let gpu = Fake::lazy(Spec { reads, host_copies: true, ..Spec::gpu() });
            let s = scheduler(&[&gpu, &cpu], parallel);
            let mut c = ctx();
            let x = input(&mut c, 64);
            // Otherwise a result may take its place.
            x.add_flag(GGML_TENSOR_FLAG_OUTPUT);
            let v = view::view(&mut c, x, &[32], &[], 128).unwrap();
            let a = unary::scale(&mut c, v, 2.0).unwrap();
            let b = unary::scale(&mut c, x, 3.0).unwrap();
            s.set_tensor_backend(a, 0).unwrap();
            s.set_tensor_backend(b, 0).unwrap();
            let g = graph(&mut c, &[a, b]);
            s.alloc_graph(g).unwrap();
            for i in 0..3 {
                set(x, &[i as f32; 64]);
                assert_eq!(s.compute_async(g).unwrap(), OK);
                set(x, &[77.0; 64]);
                s.synchronize().unwrap();
                let expected = (2.0 * i as f32, 3.0 * i as f32);
                assert_eq!((get(a)[0], get(b)[0]), expected, "parallel {parallel}, in place {in_place}");
            }
        }
    }
}

/// S7: what the CPU computed is being copied by a device in its own time when the CPU computes the next graph.
#[test]
fn memory_that_is_being_copied_is_not_written() {
    for parallel in [false, true] {
        let gpu = Fake::lazy(Spec { host_copies: true, ..Spec::gpu() });
        let cpu = Fake::new(Spec::cpu());
        let s = scheduler(&[&gpu, &cpu], parallel);
        let mut results = Vec::new();
        for i in 0..6 {
            let mut c = ctx();
            let x = input(&mut c, 64);
            let e = unary::scale(&mut c, x, 10.0).unwrap();
            let y = unary::scale(&mut c, e, 2.0).unwrap();
            s.set_tensor_backend(e, 1).unwrap();
            s.set_tensor_backend(y, 0).unwrap();
            let g = graph(&mut c, &[y]);
            s.alloc_graph(g).unwrap();
            set(x, &[i as f32; 64]);
            assert_eq!(s.compute_async(g).unwrap(), OK);
            results.push((Box::new([0u8; 256]), c));
            let target = results[i].0.as_mut_ptr();
            // SAFETY: the box lives, unread, until the device is synchronised below.
            unsafe { gpu.handle().get_async(y, target, 0, 256) };
            s.reset().unwrap();
        }
        s.synchronize().unwrap();
        for (i, (bytes, _)) in results.iter().enumerate() {
            let first = f32::from_ne_bytes(bytes[..4].try_into().unwrap());
            assert_eq!(first, 20.0 * i as f32, "graph {i}, parallel {parallel}");
        }
    }
}

/// Two graphs take turns, each with a plan of its own, and the second begins before the first is done.
#[test]
fn two_plans_take_turns_in_the_same_buffers() {
    let gpu = Fake::lazy(Spec { host_copies: true, ..Spec::gpu() });
    let cpu = Fake::new(Spec::cpu());
    let s = scheduler(&[&gpu, &cpu], true);
    let mut memory = [ctx(), ctx()];
    // One value on the CPU, ten times that on the way to the device, twenty times that there.
    let few = |c: &mut Context| {
        c.reset();
        let x = input(c, 64);
        let e = unary::scale(c, x, 10.0).unwrap();
        let y = unary::scale(c, e, 2.0).unwrap();
        s.reset().unwrap();
        s.set_tensor_backend(e, 1).unwrap();
        s.set_tensor_backend(y, 0).unwrap();
        let g = graph(c, &[y]);
        s.alloc_graph(g).unwrap();
        (g, vec![x], y)
    };
    let many = |c: &mut Context| {
        c.reset();
        let xs: Vec<_> = (0..16).map(|_| input(c, 64)).collect();
        let y = xs[1..].iter().fold(xs[0], |sum, &x| binary::add(c, sum, x).unwrap());
        s.reset().unwrap();
        let g = graph(c, &[y]);
        g.nodes().for_each(|t| s.set_tensor_backend(t, 1).unwrap());
        s.alloc_graph(g).unwrap();
        (g, xs, y)
    };
    for i in 0..40 {
        // The first rounds wait for all work after each computation.
        let is_late = i >= 20;
        let (g, xs, y) = few(&mut memory[0]);
        set(xs[0], &[i as f32; 64]);
        assert_eq!(s.compute_async(g).unwrap(), OK);
        let mut bytes = [0u8; 256];
        if !is_late {
            s.synchronize().unwrap();
        }
        // SAFETY: the bytes live, unread, until the device is synchronised below.
        unsafe { gpu.handle().get_async(y, bytes.as_mut_ptr(), 0, 256) };
        let (g, xs, y) = many(&mut memory[1]);
        xs.iter().for_each(|&x| set(x, &[1.0; 64]));
        assert_eq!(s.compute_async(g).unwrap(), OK);
        s.synchronize().unwrap();
        assert_eq!(get(y), [16.0; 64]);
        let first = f32::from_ne_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(first, 20.0 * i as f32, "graph {i}");
    }
}

/// The wait for the split before is not enough: the one before that may still read the memory.
#[test]
fn a_split_waits_for_all_who_use_its_memory() {
    let cpu = Fake::new(Spec::cpu());
    let reader = Fake::lazy(Spec { reads: vec![cpu.buft], ..Spec::gpu() });
    let other = Fake::lazy(Spec { name: c"GPU2", ..Spec::gpu() });
    let s = scheduler(&[&reader, &other, &cpu], false);
    let mut c = ctx();
    let (x, y, z) = (input(&mut c, 64), input(&mut c, 64), input(&mut c, 64));
    let a = copy::cont(&mut c, x).unwrap();
    let b = unary::scale(&mut c, z, 3.0).unwrap();
    let d = copy::cont(&mut c, y).unwrap();
    let e = unary::scale(&mut c, d, 5.0).unwrap();
    for (t, device) in [(a, 0), (b, 1), (d, 2), (e, 2)] {
        s.set_tensor_backend(t, device).unwrap();
    }
    let g = graph(&mut c, &[a, b, e]);
    s.alloc_graph(g).unwrap();
    assert_eq!((s.engine().n_splits(), s.engine().splits()[2].inputs.len()), (3, 0));
    for (t, v) in [(x, 1.0), (y, 10.0), (z, 100.0)] {
        set(t, &[v; 64]);
    }
    assert_eq!(s.compute_async(g).unwrap(), OK);
    s.synchronize().unwrap();
    assert_eq!((get(a)[0], get(b)[0], get(e)[0]), (1.0, 300.0, 50.0));
}

/// The report that the environment requests describes the graph with the most work, whichever scheduler has it,
/// and in whichever order they come.
#[test]
fn the_report_is_of_the_graph_with_the_most_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let cpu = Fake::new(Spec::cpu());
    let first = scheduler(&[&cpu], false);
    let second = scheduler(&[&cpu], false);
    let said = || {
        let text = std::fs::read_to_string(&path).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["nodes"].as_array().unwrap().len()
    };
    // Columns of one product, and how many sums follow it: more nodes need not be more work.
    let round = |sched: &Scheduler, columns: i64, sums: usize| {
        let mut c = ctx();
        let a = c.new_tensor(GGML_TYPE_F32, &[64, 64]).unwrap();
        let b = c.new_tensor(GGML_TYPE_F32, &[64, columns]).unwrap();
        for t in [a, b] {
            t.add_flag(GGML_TENSOR_FLAG_INPUT);
        }
        let mut t = matmul::mul_mat(&mut c, a, b).unwrap();
        for _ in 0..sums {
            t = unary::scale(&mut c, t, 2.0).unwrap();
        }
        let g = graph(&mut c, &[t]);
        sched.write().unwrap().settings.report_path = Some(path.clone());
        sched.reset().unwrap();
        sched.alloc_graph(g).unwrap();
    };
    round(&first, 2, 3);
    assert_eq!(said(), 4);
    round(&first, 64, 2);
    assert_eq!(said(), 3, "fewer nodes, more work");
    round(&first, 1, 9);
    assert_eq!(said(), 3);
    round(&second, 8, 5);
    assert_eq!(said(), 3, "less than the other scheduler had");
    round(&second, 100, 1);
    assert_eq!(said(), 2);
}
