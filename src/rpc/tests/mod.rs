//! Servers and clients of this process on the loopback: `hostile` and `intruders` have clients that mean harm, `absent`
//! those that are silent, gone or greedy, `strangers` measures what these take of a process, `faults` servers that do
//! harm; `uploads` counts what travels.

mod absent;
mod faults;
mod hostile;
mod intruders;
mod strangers;
mod uploads;

use super::client;
use super::protocol::WireTensor;
use super::server::{Cache, Host, Options, serve};
use crate::abi::ggml::ggml_status::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::backend::{BackendBox, BufferBox, DeviceRef, RegRef, tensor_io};
use crate::cpu;
use crate::graph::{GraphRef, build};
use crate::tensor::ops::{binary, matmul, view};
use crate::tensor::{Context, TensorRef};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server of the CPU.
struct Served {
    address: String,
    host: Arc<Host>,
}

fn served(change: impl FnOnce(&mut Options), cache: Option<Cache>) -> Served {
    let mut options = Options::new(64 << 20);
    change(&mut options);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let host = Host::new(
        vec![cpu::device::device()],
        Box::new(|d, deadline| crate::capi::rpc::open(d, 2, deadline)),
        crate::capi::rpc::checks(2),
        options,
        cache,
    );
    let its = host.clone();
    std::thread::spawn(move || serve(&listener, &its));
    Served { address, host }
}

impl Served {
    fn reg(&self) -> RegRef {
        client::add_server(&self.address, |_| std::ptr::null(), crate::cpu::check::accepts).unwrap()
    }

    fn device(&self) -> DeviceRef {
        self.reg().device(0).unwrap()
    }

    fn backend(&self) -> BackendBox {
        self.device().init(None).unwrap()
    }
}

/// Waits until something holds, for at most ten seconds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn noise(n: usize, seed: u32) -> Vec<u8> {
    let mut s = seed | 1;
    let mut next = || {
        s = s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (s >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).flat_map(|_| next().to_le_bytes()).collect()
}

/// `(w x) + reshape(w x)`: a product, a view and a sum. Fields are dropped in their order.
struct Work {
    graph: GraphRef,
    w: TensorRef,
    x: TensorRef,
    sum: TensorRef,
    _buffer: BufferBox,
    _ctx: Context,
}

impl Work {
    fn new(backend: &BackendBox) -> Self {
        let mut ctx = Context::with_size(1 << 18, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_F32, &[64, 8]).unwrap();
        let x = ctx.new_tensor(GGML_TYPE_F32, &[64, 3]).unwrap();
        let product = matmul::mul_mat(&mut ctx, w, x).unwrap();
        let flat = view::reshape(&mut ctx, product, &[8, 3]).unwrap();
        let sum = binary::add(&mut ctx, product, flat).unwrap();
        let graph = build::new(&mut ctx, 16, false).unwrap();
        graph.expand(sum, true);
        graph.set_uid(crate::graph::next_uid());
        let mut all: Vec<_> = [w, x, product, flat, sum].map(TensorRef::as_ptr).to_vec();
        let buffer = backend.default_buffer_type().alloc_buffer_n(&mut all).unwrap().unwrap();
        tensor_io::set_bytes(w, &noise(512, 7), 0);
        Self { graph, w, x, sum, _buffer: buffer, _ctx: ctx }
    }

    fn try_run(&self, backend: &BackendBox, seed: u32) -> (ggml_status, Vec<u8>) {
        tensor_io::set_bytes(self.x, &noise(192, seed), 0);
        let status = backend.graph_compute(self.graph);
        let mut out = vec![0xee; 96];
        tensor_io::get_bytes(self.sum, &mut out, 0);
        (status, out)
    }

    fn run(&self, backend: &BackendBox, seed: u32) -> Vec<u8> {
        let (status, out) = self.try_run(backend, seed);
        assert_eq!(status, GGML_STATUS_SUCCESS);
        out
    }
}

/// What the CPU of this process computes.
fn expected(seed: u32) -> Vec<u8> {
    let backend = cpu::device::device().init(None).unwrap();
    Work::new(&backend).run(&backend, seed)
}

/// Sources in memory of this process, operations of the host, and operations that no CPU computes. The device's answers
/// keep a scheduler from making such a graph. If a host computes one all the same, the computation fails. The client
/// sends nothing of it, so the connection stays.
#[test]
fn what_a_server_would_refuse_fails_and_harms_nothing() {
    use crate::abi::ggml::ggml_op;
    let s = served(|_| {}, None);
    let (backend, device) = (s.backend(), s.device());
    let work = Work::new(&backend);
    let before = work.run(&backend, 1);
    let (dtype, buffer, data) = (work.w.dtype(), work.w.buffer_raw(), work.w.data());
    let host = cpu::device::device().buffer_type().unwrap().alloc_buffer(4096).unwrap();
    type Spoil<'a> = &'a dyn Fn();
    let spoil: [(&str, bool, Spoil); 4] = [
        ("a source in host memory", true, &|| {
            work.w.set_buffer_raw(host.as_ptr());
            work.w.set_data(host.base());
        }),
        ("a source without memory", true, &|| work.w.set_buffer_raw(std::ptr::null_mut())),
        ("an operation of the host", false, &|| work.sum.set_op(ggml_op::GGML_OP_MAP_CUSTOM1)),
        ("a type that is not multiplied", false, &|| work.w.set_dtype(GGML_TYPE_I32)),
    ];
    for (what, is_supported, spoil) in spoil {
        spoil();
        let all = work.graph.nodes().all(|node| device.supports_op(node));
        assert_eq!(all, is_supported, "{what}");
        work.graph.set_uid(crate::graph::next_uid());
        assert_ne!(backend.graph_compute(work.graph), GGML_STATUS_SUCCESS, "{what}");
        work.w.set_dtype(dtype);
        work.w.set_buffer_raw(buffer);
        work.w.set_data(data);
        work.sum.set_op(ggml_op::GGML_OP_ADD);
        work.graph.set_uid(crate::graph::next_uid());
        assert!(work.run(&backend, 1) == before, "{what}");
    }
}

/// A scheduler cuts a graph where its backend changes, so the server's part can begin and end with views of what the
/// CPU has.
#[test]
fn views_of_memory_elsewhere_are_not_sent() {
    use crate::abi::ggml::ggml_op;
    let s = served(|_| {}, None);
    let backend = s.backend();
    let work = Work::new(&backend);
    let before = work.run(&backend, 1);
    let mut ctx = Context::with_size(1 << 16, true).unwrap();
    let custom = ctx.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
    custom.set_op(ggml_op::GGML_OP_MAP_CUSTOM1);
    let part = view::view(&mut ctx, custom, &[32], &[], 0).unwrap();
    let mut list = vec![custom.as_ptr(), part.as_ptr()];
    let _buffer = cpu::device::device().buffer_type().unwrap().alloc_buffer_n(&mut list).unwrap().unwrap();
    let whole = build::new(&mut ctx, 16, false).unwrap();
    for nodes in [vec![part], std::iter::once(part).chain(work.graph.nodes()).chain([part]).collect()] {
        whole.clear();
        nodes.iter().for_each(|&node| assert!(whole.push_node(node)));
        whole.set_uid(crate::graph::next_uid());
        (0..2).for_each(|_| assert_eq!(backend.graph_compute(whole), GGML_STATUS_SUCCESS));
    }
    let mut out = vec![0; 96];
    tensor_io::get_bytes(work.sum, &mut out, 0);
    assert!(out == before && work.run(&backend, 1) == before);
}

#[test]
fn a_server_computes_what_this_process_would_and_forgets_it_afterwards() {
    let s = served(|_| {}, None);
    let device = s.device();
    assert!(device.name().starts_with("RPC") && device.description() == s.address);
    assert_eq!(device.reg(), Some(client::reg(|_| std::ptr::null())));
    // What is not left for work.
    assert_eq!(device.memory().1, 62 << 20);
    let backend = s.backend();
    {
        let work = Work::new(&backend);
        // The second time only the number of the graph travels, the third time after another buffer was freed.
        assert_eq!(work.run(&backend, 1), expected(1));
        assert_eq!(work.run(&backend, 2), expected(2));
        drop(Work::new(&backend));
        assert_eq!(work.run(&backend, 3), expected(3));
        assert!(s.host.used() > 0 && s.host.sessions() == 1);
    }
    drop(backend);
    until("everything is given back", || s.host.used() == 0 && s.host.sessions() == 0);
}

#[test]
fn every_way_into_and_out_of_a_tensor() {
    let s = served(|_| {}, None);
    let backend = s.backend();
    let work = Work::new(&backend);
    let read = |t: TensorRef| {
        let mut out = vec![0; t.nbytes()];
        tensor_io::get_bytes(t, &mut out, 0);
        out
    };
    let mut expected = noise(512, 7);
    assert_eq!(read(work.w), expected);
    tensor_io::memset(work.w, 9, 100, 30);
    expected[100..130].fill(9);
    assert_eq!(read(work.w), expected);
    let p = tensor_io::Pieces { offset: 8, size: 12, count: 5, stride_tensor: 256, stride_data: 20 };
    let data: Vec<u8> = (0..p.extent() as u8).collect();
    // SAFETY: `data` has as many bytes as the pieces reach.
    unsafe { tensor_io::set_2d(work.w, data.as_ptr(), p) };
    (0..5).for_each(|i| expected[8 + 256 * i..][..12].copy_from_slice(&data[20 * i..][..12]));
    assert_eq!(read(work.w), expected);
    let mut back = vec![0xee; p.extent()];
    // SAFETY: as above.
    unsafe { tensor_io::get_2d(work.w, back.as_mut_ptr(), p) };
    assert!((0..5).all(|i| back[20 * i..][..12] == data[20 * i..][..12]) && back[12..20] == [0xee; 8]);
    let other = Work::new(&backend);
    tensor_io::copy(work.w, other.w).unwrap();
    assert_eq!(read(other.w), expected);
    other._buffer.clear(3);
    assert!(read(other.w).iter().all(|&b| b == 3) && read(work.w) == expected);
    // Queued: the bytes are there when the stream has been synchronised.
    let (mut a, mut b, fresh) = (vec![0; 64], vec![0; 2048], noise(512, 5));
    // SAFETY: all stay until the stream is synchronised.
    unsafe {
        backend.set_async(other.w, fresh.as_ptr(), 0, 2048);
        backend.get_async(other.w, a.as_mut_ptr(), 4, 64);
        backend.get_async(work.w, b.as_mut_ptr(), 0, 2048);
    }
    backend.synchronize();
    assert!(a == fresh[4..68] && b == expected);
}

#[test]
fn several_clients_have_no_part_in_each_other() {
    let s = served(|_| {}, None);
    // A second name for the server is a second connection.
    let other = Served { address: s.address.replace("127.0.0.1", "localhost"), host: s.host.clone() };
    let threads = [s.backend(), other.backend()].map(|backend| {
        std::thread::spawn(move || {
            let work = Work::new(&backend);
            for seed in 0..200 {
                assert!(work.run(&backend, seed) == work.run(&backend, seed));
            }
            assert_eq!(work.run(&backend, 5), expected(5));
        })
    });
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_graph_that_a_message_cannot_describe_fails_and_harms_nothing() {
    let s = served(|_| {}, None);
    let backend = s.backend();
    let work = Work::new(&backend);
    let nb = work.x.nb();
    work.x.set_nb([nb[0], nb[1], usize::MAX / 2, usize::MAX / 2]);
    assert_eq!(work.run(&backend, 4), expected(4));
    work.x.set_nb([nb[0], 1 << 33, nb[2], nb[3]]);
    assert!(!backend.device().supports_op(work.sum.src(0).unwrap()));
    work.graph.set_uid(0);
    assert_eq!(backend.graph_compute(work.graph), GGML_STATUS_FAILED);
    work.x.set_nb(nb);
    assert_eq!(work.run(&backend, 4), expected(4));
}

/// The server might be another implementation, which would compute something else.
#[test]
fn what_this_version_does_not_know_is_not_sent() {
    let s = served(|_| {}, None);
    let backend = s.backend();
    let work = Work::new(&backend);
    assert_eq!(work.run(&backend, 4), expected(4));
    let (product, flat) = (work.sum.src(0).unwrap(), work.sum.src(1).unwrap());
    for (node, source) in [(product, 2), (work.sum, 9), (flat, 1)] {
        node.set_src(source, Some(work.x));
        work.graph.set_uid(0);
        assert!(!backend.device().supports_op(node));
        assert_eq!(backend.graph_compute(work.graph), GGML_STATUS_FAILED);
        node.set_src(source, None);
        node.set_op_param_i32(12, 1);
        assert!(!backend.device().supports_op(node));
        assert_eq!(backend.graph_compute(work.graph), GGML_STATUS_FAILED);
        node.set_op_param_i32(12, 0);
        assert!(backend.device().supports_op(node));
    }
    assert_eq!(work.run(&backend, 4), expected(4));
}

/// A tensor of 16 floats at the start of a buffer.
fn floats(buffer: u64, data: u64) -> WireTensor {
    WireTensor { id: 1, buffer, ne: [16, 1, 1, 1], nb: [4, 64, 64, 64], data, flags: 16, ..WireTensor::default() }
}
