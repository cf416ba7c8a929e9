//! Small inputs, sent to fake devices whose streams work as late as they may.

use super::*;
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_META;
use crate::abi::ggml::ggml_status::GGML_STATUS_SUCCESS;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::*;
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BufferBox, tensor_io};
use crate::graph::build;
use crate::sched::Scheduler;
use crate::sched::tests::{get, set, weights};
use crate::tensor::Context;
use crate::tensor::ops::binary;
use std::sync::atomic::Ordering::SeqCst;

/// Tensors of these sizes on a device.
fn tensors(device: &Fake, sizes: &[i64]) -> (Context, BufferBox, Vec<TensorRef>) {
    let mut c = Context::with_size(1 << 16, true).unwrap();
    let all = sizes.iter().map(|&n| c.new_tensor(GGML_TYPE_F32, &[n]).unwrap()).collect();
    let buffer = weights(&c, device);
    (c, buffer, all)
}

fn numbers(n: i64, first: f32) -> Vec<f32> {
    (0..n).map(|i| first + i as f32).collect()
}

#[test]
fn neighbours_are_one_copy_and_the_host_may_write_its_memory_again() {
    let (gpu, cpu) = (Fake::lazy(Spec::gpu()), Fake::new(Spec::cpu()));
    // The second is far from the third, because a tensor that is not sent is between them.
    let sizes = [3, 40, 300, 5, 8];
    let (_host, _h, from) = tensors(&cpu, &sizes);
    let (_device, _d, to) = tensors(&gpu, &sizes);
    let parcels =
        |which: &[usize]| -> Vec<Parcel> { which.iter().map(|&i| Parcel { tensor: from[i], copy: to[i] }).collect() };
    let inbox = Inbox::new(1, 1);
    let alignment = gpu.buft.alignment();
    for round in 0..3 {
        sizes.iter().zip(&from).for_each(|(&n, &t)| set(t, &numbers(n, (n + 1000 * round) as f32)));
        let which = [4, 1, 0, 3];
        assert!(parcels(&which).iter().all(Parcel::is_small));
        gpu.state.copies_in.store(0, SeqCst);
        assert!(inbox.send(0, gpu.handle(), alignment, parcels(&which)).is_empty());
        assert_eq!(gpu.state.copies_in.load(SeqCst), 2);
        assert!(inbox.is_pending(0));
        from.iter().for_each(|&t| set(t, &vec![-1.0; t.nelements() as usize]));
        gpu.handle().synchronize();
        inbox.clear(0);
        which.iter().for_each(|&i| assert_eq!(get(to[i]), numbers(sizes[i], (sizes[i] + 1000 * round) as f32)));
    }
    assert_eq!(get(to[2]), vec![0.0; 300], "not sent");
}

#[test]
fn what_has_no_room_comes_back() {
    let (gpu, cpu) = (Fake::lazy(Spec::gpu()), Fake::new(Spec::cpu()));
    let most = (MOST_BYTES / 4) as i64;
    let sizes = [most; 6];
    let (_host, _h, from) = tensors(&cpu, &sizes);
    let (_device, _d, to) = tensors(&gpu, &sizes);
    let inbox = Inbox::new(1, 1);
    let one = |i: usize| vec![Parcel { tensor: from[i], copy: to[i] }];
    let n_left: Vec<usize> = (0..6).map(|i| inbox.send(0, gpu.handle(), 1, one(i)).len()).collect();
    assert_eq!(n_left, [0, 0, 0, 0, 1, 1]);
    gpu.handle().synchronize();
    inbox.clear(0);
    assert!(inbox.send(0, gpu.handle(), 1, one(5)).is_empty());
    gpu.handle().synchronize();
}

#[test]
fn others_are_not_small() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let (_a, _ab, a) = tensors(&cpu, &[4, 8, (MOST_BYTES / 4) as i64 + 1]);
    let (_b, _bb, b) = tensors(&gpu, &[4, 8, (MOST_BYTES / 4) as i64 + 1]);
    let is_small = |tensor, copy| Parcel { tensor, copy }.is_small();
    assert!(is_small(a[0], b[0]));
    assert!(!is_small(b[0], b[0]), "not in host memory");
    assert!(!is_small(a[0], a[0]), "the copy is in host memory");
    assert!(!is_small(a[0], b[1]), "of another size");
    assert!(!is_small(a[2], b[2]), "large");
}

#[test]
fn a_device_that_divides_tensors_gets_each_by_itself() {
    let joins = |spec: Spec| Fake::lazy(spec).handle().joins_tensors();
    assert!(joins(Spec::gpu()));
    assert!(!joins(Spec { kind: GGML_BACKEND_DEVICE_TYPE_META, ..Spec::gpu() }));
    assert!(!Fake::new(Spec::cpu()).handle().joins_tensors(), "it has no queue");
}

/// Sums of several inputs, pipelined or not: the host writes all of them again as soon as a graph was started.
#[test]
fn a_graph_with_several_inputs() {
    for parallel in [false, true] {
        let (gpu, cpu) = (Fake::lazy(Spec::gpu()), Fake::new(Spec::cpu()));
        let mut c = Context::with_size(1 << 16, true).unwrap();
        let w = c.new_tensor(GGML_TYPE_F32, &[16]).unwrap();
        let _weights = weights(&c, &gpu);
        set(w, &numbers(16, 0.5));
        let mut graphs = Context::with_size(1 << 18, true).unwrap();
        let s = Scheduler::new(&[gpu.handle(), cpu.handle()], None, 100, parallel, true);
        for run in 0..12 {
            let inputs: Vec<TensorRef> = (0..5).map(|_| graphs.new_tensor(GGML_TYPE_F32, &[16]).unwrap()).collect();
            inputs.iter().for_each(|t| t.add_flag(GGML_TENSOR_FLAG_INPUT));
            let y = inputs.iter().fold(w, |sum, &x| binary::add(&mut graphs, sum, x).unwrap());
            y.add_flag(GGML_TENSOR_FLAG_OUTPUT);
            let g = build::new(&mut graphs, 32, false).unwrap();
            g.expand(y, true);
            s.reset().unwrap();
            s.alloc_graph(g).unwrap();
            inputs.iter().enumerate().for_each(|(i, &x)| set(x, &numbers(16, (run * 10 + i) as f32)));
            gpu.state.copies_in.store(0, SeqCst);
            assert_eq!(s.compute_async(g).unwrap(), GGML_STATUS_SUCCESS);
            // With pipelining, the copies of an input follow each other, not those of different inputs.
            assert_eq!(gpu.state.copies_in.load(SeqCst), if parallel { 5 } else { 1 }, "{parallel} {run}");
            inputs.iter().for_each(|&x| set(x, &[-1e9; 16]));
            s.synchronize().unwrap();
            let expected = |i: usize| 0.5 + i as f32 + (0..5).map(|k| (run * 10 + k + i) as f32).sum::<f32>();
            assert_eq!(get(y), (0..16).map(expected).collect::<Vec<_>>(), "{parallel} {run}");
            tensor_io::set_bytes(w, &numbers(16, 0.5).iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>(), 0);
        }
    }
}
