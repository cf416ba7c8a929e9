//! Clients that are silent, that leave while the server works for them, and that would have more memory than is theirs.

use super::hostile::{Raw, SIZE};
use super::intruders::endless;
use super::{Served, Work, expected, served, until};
use crate::abi::ggml::{ggml_op::*, ggml_type};
use crate::rpc::protocol::{CAPS, Graph, Pieces, Request, WireTensor, hash};
use crate::rpc::server::Cache;
use std::net::Shutdown;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Greets, and requests nothing more.
fn greeted(s: &Served) -> Raw {
    let mut raw = Raw::silent(&s.address);
    raw.send(&Request::Hello { caps: [0; CAPS] });
    assert_eq!(raw.reply().unwrap().len(), 4 + CAPS);
    raw
}

fn serves(raw: &mut Raw) -> bool {
    raw.send(&Request::DeviceCount);
    raw.reply().is_some()
}

#[test]
fn silent_clients_give_way_and_those_that_have_something_do_not() {
    let change = |o: &mut crate::rpc::server::Options| {
        (o.connections, o.per_address) = (4, Some(4));
        (o.patience.empty, o.patience.unused) = (Duration::from_secs(1), Duration::from_secs(4));
    };
    let s = served(change, None);
    let backend = s.backend();
    let (work, right) = (Work::new(&backend), expected(4));
    assert!(work.run(&backend, 4) == right);
    // Connections without a greeting have no place of a client.
    let mut silent: Vec<_> = (0..50).map(|_| Raw::silent(&s.address)).collect();
    let mut empty = greeted(&s);
    assert!(serves(&mut empty));
    // The oldest of them have given way, so that the threads of the server are bounded.
    assert!(s.host.sessions() <= 4 + 16 && silent[0].is_closed());
    drop(silent);
    let mut unused = Raw::new(&s.address);
    let mut working = Raw::new(&s.address);
    working.send(&Request::GraphCompute(working.graph()));
    assert!(serves(&mut working) && serves(&mut empty) && serves(&mut unused));
    // All places are taken, and the last answers are fresh.
    let mut early = Raw::silent(&s.address);
    early.send(&Request::Hello { caps: [0; CAPS] });
    assert!(early.is_closed());
    std::thread::sleep(Duration::from_millis(1100));
    let mut next = greeted(&s);
    assert!(empty.is_closed() && serves(&mut next) && serves(&mut working));
    // A message that never ends is no request: its client is silent.
    let mut bytes = Vec::new();
    Request::GetTensor { tensor: unused.tensor(), offset: 0, size: 4 }.write(0, &mut bytes);
    next.bytes(&bytes[..20]);
    std::thread::sleep(Duration::from_millis(1100));
    let mut after = Raw::new(&s.address);
    after.send(&Request::GraphCompute(after.graph()));
    assert!(next.is_closed() && serves(&mut after));
    // Memory in which nothing was computed is kept longer, and not for ever.
    std::thread::sleep(Duration::from_millis(4100));
    let mut last = greeted(&s);
    assert!(unused.is_closed() && serves(&mut last) && serves(&mut after) && serves(&mut working));
    assert!(work.run(&backend, 4) == right);
}

/// `count` products of 2^16 times `len` multiplications each.
fn products(raw: &mut Raw, count: usize, len: u32) -> Graph {
    let mut graph = endless(raw);
    graph.nodes.truncate(count);
    graph.tensors.truncate(2 + count);
    for t in &mut graph.tensors[..2] {
        t.ne[0] = len;
        t.nb = [4, 4 * len, 1024 * len, 1024 * len];
    }
    graph
}

#[test]
fn work_ends_when_its_client_leaves() {
    if !crate::sys::net::SEES_ENDS {
        return;
    }
    type Act = fn(&mut Raw);
    let acts: [(&str, Act); 4] = [
        ("one long graph", |raw| {
            let graph = endless(raw);
            raw.send(&Request::GraphCompute(graph));
        }),
        ("short graphs in line", |raw| {
            let graph = products(raw, 4, 1 << 12);
            raw.send(&Request::GraphCompute(graph));
            (0..2000).for_each(|_| raw.send(&Request::GraphRecompute { device: 0, uid: 1 }));
        }),
        ("memory that is cleared again and again", |raw| {
            raw.send(&Request::AllocBuffer { device: 0, size: 32 * MIB });
            let buffer = raw.number();
            // No more than the system buffers for the server: with more, it could not see that the client has left.
            (0..3000).for_each(|_| raw.send(&Request::BufferClear { buffer, value: 1 }));
        }),
        ("memory that is taken and given back", |raw| {
            (0..2000).for_each(|_| raw.send(&Request::AllocBuffer { device: 0, size: 1000 * MIB }));
            raw.send(&Request::AllocBuffer { device: 0, size: MIB });
        }),
    ];
    let s = served(|_| {}, None);
    let backend = s.backend();
    let (work, right) = (Work::new(&backend), expected(4));
    assert!(work.run(&backend, 4) == right);
    let used = s.host.used();
    for (name, act) in acts {
        let mut raw = Raw::new(&s.address);
        act(&mut raw);
        std::thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        let _ = raw.stream.shutdown(Shutdown::Write);
        until(name, || s.host.used() == used && s.host.sessions() == 1);
        println!("{name}: {:?}", start.elapsed());
        assert!(work.run(&backend, 4) == right, "{name}");
    }
}

#[test]
fn what_is_sent_ahead_has_the_time_of_one_graph() {
    let s = served(|o| o.graph = Duration::from_secs(2), None);
    let mut raw = Raw::new(&s.address);
    let graph = products(&mut raw, 1, 1 << 10); // in qemu, too, one takes less than its time
    raw.send(&Request::GraphCompute(graph));
    let start = Instant::now();
    (0..6000).for_each(|_| raw.send(&Request::GraphRecompute { device: 0, uid: 1 }));
    assert!(raw.is_closed());
    let time = start.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(12)).contains(&time), "{time:?}");
    until("its memory is free", || s.host.used() == 0);
    // A client that waits for its results may go on as long as it likes.
    let mut raw = Raw::new(&s.address);
    let graph = products(&mut raw, 1, 1 << 10); // in qemu, too, one takes less than its time
    raw.send(&Request::GraphCompute(graph));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        raw.send(&Request::GraphRecompute { device: 0, uid: 1 });
        raw.send(&Request::GetTensor { tensor: raw.tensor(), offset: 0, size: 4 });
        assert_eq!(raw.reply().unwrap(), [0; 4]);
    }
}

#[test]
fn a_client_has_its_share_of_the_memory_and_no_more() {
    let s = served(|o| o.client_memory = 8 * MIB, None);
    let mut raw = greeted(&s);
    let mut other = greeted(&s);
    let alloc = |raw: &mut Raw, size| {
        raw.send(&Request::AllocBuffer { device: 0, size });
        raw.number()
    };
    let numbers = [3 * MIB, 3 * MIB, 3 * MIB, 9 * MIB, 2 * MIB].map(|size| alloc(&mut raw, size));
    assert_eq!(numbers.map(|n| n != 0), [true, true, false, false, true]);
    raw.send(&Request::GetDeviceMemory { device: 0 });
    let memory = raw.reply().unwrap();
    assert_eq!(memory, [0u64.to_le_bytes(), (8 * MIB).to_le_bytes()].concat());
    assert!(alloc(&mut other, 8 * MIB) != 0 && serves(&mut raw));
    raw.send(&Request::FreeBuffer { buffer: numbers[0] });
    assert!(alloc(&mut raw, 3 * MIB) != 0);
    drop((raw, other));
    until("all is given back", || s.host.used() == 0);
}

/// Requests a product whose work takes 16 MiB.
fn converts(address: &str) -> Raw {
    let mut raw = Raw::new(address);
    raw.send(&Request::AllocBuffer { device: 0, size: 17 * MIB });
    raw.buffer = raw.number();
    raw.send(&Request::BufferGetBase { buffer: raw.buffer });
    raw.base = raw.number();
    let (k, n) = (1u32 << 11, 1u32 << 11);
    let row = k / 32 * 34;
    let w = WireTensor {
        dtype: ggml_type::GGML_TYPE_Q8_0 as u32,
        ne: [k, 64, 1, 1],
        nb: [34, row, 64 * row, 64 * row],
        ..raw.tensor()
    };
    let x =
        WireTensor { id: 2, ne: [k, n, 1, 1], nb: [4, 4 * k, 4 * k * n, 4 * k * n], data: raw.base, ..raw.tensor() };
    let (op, ne, nb) = (GGML_OP_MUL_MAT as u32, [64, n, 1, 1], [4, 256, 256 * n, 256 * n]);
    let mut y = WireTensor { id: 3, ne, nb, op, ..raw.tensor() };
    y.data = raw.base + 16 * MIB;
    y.src[..2].copy_from_slice(&[1, 2]);
    raw.send(&Request::GraphCompute(Graph { device: 0, uid: 0, nodes: vec![3], tensors: vec![w, x, y] }));
    raw
}

#[test]
fn what_a_client_has_besides_its_buffers_is_bounded() {
    let temporary = tempfile::tempdir().unwrap();
    let cache = Cache::open(temporary.path(), None).unwrap();
    let s = served(|o| (o.client_work, o.tensors) = (MIB, 4096), Some(cache));
    let roomy = served(|o| (o.client_work, o.tensors) = (64 * MIB, 4096), None);
    // Graphs that are kept: old ones give way.
    let mut raw = Raw::new(&s.address);
    for sent in 1..=1000 {
        let graph = Graph { uid: sent, ..raw.graph() };
        raw.send(&Request::GraphCompute(graph));
        // One that is used stays.
        raw.send(&Request::GraphRecompute { device: 0, uid: 1 });
        assert!(!sent.is_multiple_of(50) || serves(&mut raw), "{sent}");
        assert!(s.host.used() <= MIB + SIZE, "{sent}");
    }
    raw.send(&Request::GraphRecompute { device: 0, uid: 1000 });
    assert!(serves(&mut raw) && s.host.used() > MIB / 4);
    raw.send(&Request::GraphRecompute { device: 0, uid: 2 });
    assert!(raw.is_closed());
    until("the graphs are gone", || s.host.sessions() == 0 && s.host.used() == 0);
    // A graph that is too large, and the message of one that would be if it came.
    let large = |raw: &mut Raw| {
        let mut graph = raw.graph();
        graph.tensors.extend((4..1500).map(|id| WireTensor { id, ..raw.tensor() }));
        raw.send(&Request::GraphCompute(graph.clone()));
        graph
    };
    assert!({
        let mut raw = Raw::new(&roomy.address);
        large(&mut raw);
        serves(&mut raw)
    });
    let mut raw = Raw::new(&s.address);
    let mut graph = large(&mut raw);
    assert!(raw.is_closed());
    let mut raw = Raw::new(&s.address);
    let mut bytes = Vec::new();
    graph.tensors.extend((1500..4300).map(|id| WireTensor { id, ..WireTensor::default() }));
    Request::GraphCompute(graph).write(0, &mut bytes);
    raw.bytes(&bytes[..9]);
    assert!(raw.is_closed());
    // The work of a graph: a source of 16 MiB is converted for the weights.
    assert!(serves(&mut converts(&roomy.address)) && converts(&s.address).is_closed());
    // Data comes in pieces, however large a message is.
    let mut raw = Raw::new(&s.address);
    raw.send(&Request::AllocBuffer { device: 0, size: 6 * MIB });
    raw.buffer = raw.number();
    raw.send(&Request::BufferGetBase { buffer: raw.buffer });
    raw.base = raw.number();
    let n = (6 * MIB / 4) as u32;
    let all = WireTensor { ne: [n, 1, 1, 1], nb: [4, 4 * n, 4 * n, 4 * n], ..raw.tensor() };
    let data: Vec<u8> = (0..6 * MIB).map(|i| (i * 31 % 251) as u8).collect();
    let size = data.len();
    let read = |raw: &mut Raw, offset: u64| {
        raw.send(&Request::GetTensor { tensor: all.clone(), offset, size: MIB });
        raw.reply().unwrap()
    };
    raw.with(&Request::SetTensor { tensor: all.clone(), keep: true, offset: 0 }, size, &data);
    assert!((0..6).all(|i| read(&mut raw, i * MIB) == data[(i * MIB) as usize..][..MIB as usize]));
    raw.send(&Request::BufferClear { buffer: raw.buffer, value: 0 });
    raw.send(&Request::SetTensorHash { tensor: all.clone(), offset: 0, hash: hash(&data) });
    assert_eq!(raw.reply().unwrap(), [1]);
    assert!((0..6).all(|i| read(&mut raw, i * MIB) == data[(i * MIB) as usize..][..MIB as usize]));
    for (size, count, stride) in [(3 * MIB - 8, 2, 3 * MIB), (1000, 2000, 1004), (MIB, 5, MIB + 12), (4, 1000, 4)] {
        raw.send(&Request::BufferClear { buffer: raw.buffer, value: 0 });
        let pieces = Pieces { offset: 4, size, count, stride };
        let some = &data[..(size * count) as usize];
        raw.with(&Request::SetTensor2d { tensor: all.clone(), pieces }, some.len(), some);
        let mut right = vec![0; data.len()];
        for i in 0..count {
            let at = (4 + i * stride) as usize;
            right[at..at + size as usize].copy_from_slice(&some[(i * size) as usize..][..size as usize]);
        }
        assert!((0..6).all(|i| read(&mut raw, i * MIB) == right[(i * MIB) as usize..][..MIB as usize]), "{pieces:?}");
    }
}
