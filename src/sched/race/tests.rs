//! Seeded violations are reported, correct runs are not. The schedulers of the other tests run under the checker too:
//! there a race fails the test.

use super::shadow::{Origin, Shadow, Span, Use};
use super::*;
use crate::abi::ggml::ggml_tensor;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::{GraphRef, build};
use crate::tensor::ops::{Place, unary, view};
use crate::tensor::{Context, TensorRef};
use std::sync::Arc;

/// Tensors with memory on a device: x, and a graph for y = 2 x and z = 2 y.
struct World {
    c: Context,
    x: TensorRef,
    y: TensorRef,
    z: TensorRef,
    first: GraphRef,
    second: GraphRef,
    buffer: BufferBox,
}

impl World {
    fn new(device: &Fake) -> Self {
        observe::watch(watch);
        let mut c = Context::with_size(1 << 20, true).unwrap();
        let x = c.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
        let y = unary::scale(&mut c, x, 2.0).unwrap();
        let z = unary::scale(&mut c, y, 2.0).unwrap();
        for (t, name) in [(x, b"x"), (y, b"y"), (z, b"z")] {
            t.set_name(name);
        }
        let mut list: Vec<*mut ggml_tensor> = c.tensors().map(|t| t.as_ptr()).collect();
        let buffer = device.buft.alloc_buffer_n(&mut list).unwrap().unwrap();
        let first = build::new(&mut c, 4, false).unwrap();
        first.expand(y, true);
        let second = build::new(&mut c, 4, false).unwrap();
        z.add_flag(GGML_TENSOR_FLAG_COMPUTE);
        assert!(second.push_node(z));
        Self { c, x, y, z, first, second, buffer }
    }
}

fn set(t: TensorRef) {
    tensor_io::set_bytes(t, &[0; 256], 0);
}

fn get(t: TensorRef) {
    tensor_io::get_bytes(t, &mut [0; 256], 0);
}

/// The races of `f`.
fn races(f: impl FnOnce()) -> Vec<String> {
    EXPECTED.set(Some(Vec::new()));
    f();
    EXPECTED.take().unwrap()
}

#[test]
fn the_host_must_wait_before_it_reads_or_writes() {
    let gpu = Fake::lazy(Spec::gpu());
    let w = World::new(&gpu);
    set(w.x);
    gpu.handle().graph_compute_async(w.first);
    let seen = races(|| set(w.x));
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(
        seen[0],
        "bytes 0..256 of GPU: the host sets 'x' [writes 'x'] while GPU computes SCALE 'y' [reads 'x'] may not be done"
    );
    assert_eq!(races(|| get(w.x)).len(), 0, "two readers");
    assert_eq!(races(|| get(w.y)).len(), 1);
    assert_eq!(races(|| tensor_io::memset(w.y, 0, 128, 4)).len(), 1);
    assert_eq!(races(|| tensor_io::memset(w.z, 0, 0, 256)).len(), 0, "nobody computes z");
    assert_eq!(races(|| w.buffer.clear(0)).len(), 2);
    gpu.handle().synchronize();
    set(w.x);
    get(w.y);
    w.buffer.clear(0);
}

#[test]
fn streams_are_ordered_by_events_and_copies_only() {
    let (a, b) = (Fake::lazy(Spec::gpu()), Fake::lazy(Spec { name: c"B", ..Spec::gpu() }));
    let w = World::new(&a);
    let event = a.handle().device().event_new().unwrap();
    let compute = |wait: bool, record: bool| {
        races(|| {
            a.handle().graph_compute_async(w.first);
            if record {
                event.record(a.handle());
            }
            if wait {
                event.wait(b.handle());
            }
            b.handle().graph_compute_async(w.second);
        })
    };
    assert_eq!(compute(true, true).len(), 0);
    a.handle().synchronize();
    // The first stream writes y again, which the second may still read.
    assert_eq!(compute(true, true).len(), 1);
    b.handle().synchronize();
    assert_eq!(compute(false, true).len(), 1, "nobody waits");
    b.handle().synchronize();
    a.handle().synchronize();
    // The event still marks the point at which it was recorded last.
    assert_eq!(compute(true, false).len(), 1, "an old mark");
    b.handle().synchronize();
    event.synchronize();
    assert_eq!(races(|| get(w.y)).len(), 1, "the mark is not behind the last work");
    event.record(a.handle());
    event.synchronize();
    get(w.y);
    // A copy is in both queues.
    let other = World::new(&b);
    let seen = races(|| {
        a.handle().graph_compute_async(w.first);
        assert!(b.handle().try_copy_async(a.handle(), w.y, other.x));
        b.handle().graph_compute_async(other.first);
        a.handle().graph_compute_async(w.first);
        b.handle().synchronize();
        get(other.y);
    });
    assert_eq!(seen.len(), 0, "{seen:?}");
    assert_eq!(races(|| get(w.y)).len(), 1, "the second computation of y");
    a.handle().synchronize();
}

#[test]
fn memory_is_not_freed_and_host_memory_not_written_while_a_queue_uses_it() {
    let cpu = Fake::new(Spec::cpu());
    let gpu = Fake::lazy(Spec { host_copies: true, ..Spec::gpu() });
    let (host, device) = (World::new(&cpu), World::new(&gpu));
    assert!(gpu.handle().try_copy_async(cpu.handle(), host.y, device.x));
    let seen = races(|| _ = cpu.handle().graph_compute_async(host.first));
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].contains("GPU copies 'y' of CPU to 'x'"), "{seen:?}");
    gpu.handle().synchronize();
    cpu.handle().graph_compute_async(host.first);
    let mut bytes = [0; 256];
    // SAFETY: the bytes stay, unread, until the stream is synchronised.
    unsafe { gpu.handle().get_async(device.x, bytes.as_mut_ptr(), 0, 256) };
    assert_eq!(races(|| set(device.x)).len(), 1);
    let seen = races(|| {
        let World { c, buffer, .. } = device;
        // Only said: the device's work still uses the memory.
        observe::notify(|| Operation::FreeBuffer(buffer.handle()));
        gpu.handle().synchronize();
        drop((c, buffer));
    });
    assert_eq!(seen, ["the host frees the buffer GPU while GPU reads 'x' [reads 'x'] may not be done"]);
}

#[test]
fn rows_side_by_side_do_not_meet() {
    let (a, b) = (Fake::lazy(Spec::gpu()), Fake::lazy(Spec { name: c"B", ..Spec::gpu() }));
    let w = World::new(&a);
    let mut c = Context::with_size(1 << 20, true).unwrap();
    let row = [8 * 4, 8 * 4 * 8, 8 * 4 * 8];
    let halves: Vec<_> = [0, 16, 12].map(|at| view::view(&mut c, w.x, &[4, 8], &row[..1], at).unwrap()).to_vec();
    let span = |t: TensorRef| (t.data() as usize, t.nbytes());
    let spans = halves.iter().map(|&t| Span { row: 16, stride: 32, ..Span::all(span(t).0, span(t).1) });
    let spans: Vec<_> = spans.collect();
    assert!(spans[0].interleaves(&spans[1]) && spans[1].interleaves(&spans[0]));
    assert!(!spans[0].interleaves(&spans[2]) && !spans[2].interleaves(&spans[1]));
    // The same through graphs: each stream scales its half in place.
    let graphs: Vec<_> = [0, 1, 2]
        .map(|i| {
            let t = unary::scale_bias(&mut c, halves[i], 2.0, 0.0, Place::Inplace).unwrap();
            t.add_flag(GGML_TENSOR_FLAG_COMPUTE);
            let g = build::new(&mut c, 4, false).unwrap();
            assert!(g.push_node(t));
            g
        })
        .to_vec();
    a.handle().graph_compute_async(graphs[0]);
    assert_eq!(races(|| _ = b.handle().graph_compute_async(graphs[1])).len(), 0);
    assert!(!races(|| _ = b.handle().graph_compute_async(graphs[2])).is_empty());
    a.handle().synchronize();
    b.handle().synchronize();
}

#[test]
fn a_shadow_remembers_the_last_uses_of_each_byte() {
    let mut streams = super::clock::Streams::default();
    let gpu = Fake::lazy(Spec::gpu());
    let stream = streams.number(gpu.handle());
    let mut shadow = Shadow::default();
    let mut add = |streams: &mut super::clock::Streams, start: usize, size: usize, write: bool| {
        let time = streams.give(stream);
        let span = Span::all(start, size);
        let origin = Arc::new(Origin { clause: String::new(), tensor: String::new(), span, write });
        shadow.note(Use { stream, time, origin }, streams.clock(stream));
        shadow.len()
    };
    assert_eq!(add(&mut streams, 100, 100, true), 1);
    assert_eq!(add(&mut streams, 150, 10, false), 3, "cut in three");
    assert_eq!(add(&mut streams, 50, 200, true), 5, "and what lies around");
    assert_eq!(add(&mut streams, 300, 10, true), 6);
    let host = streams.clock(super::clock::HOST).clone();
    let count = |shadow: &Shadow, start: usize, write: bool| {
        let mut n = 0;
        shadow.check(Span::all(start, 1), write, &host, |_| n += 1);
        n
    };
    assert_eq!([60, 155, 255, 305].map(|at| count(&shadow, at, true)), [1, 1, 0, 1]);
    shadow.forget(100, 305);
    assert_eq!([99, 100, 304, 305].map(|at| count(&shadow, at, false)), [1, 0, 0, 1]);
    streams.synchronized(stream);
    shadow.prune(streams.clock(super::clock::HOST));
    assert_eq!(shadow.len(), 0);
}
