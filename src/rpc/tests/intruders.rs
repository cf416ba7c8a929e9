//! Clients that mean harm, with more than one message: other clients' buffers, freed ones, greetings and keys, the
//! cache, floods, and work that would never end. `hostile` has the attacks of a single message. The same holds after
//! each.

use super::hostile::{Raw, SIZE};
use super::{Served, Work, expected, floats, served, until};
use crate::abi::ggml::ggml_op::{self, *};
use crate::rpc::protocol::{CAPS, Command, Graph, Request, WireTensor, hash};
use crate::rpc::server::{Cache, Options};
use crate::rpc::transport::Key;
use crate::rpc::transport::key::{self, PROOF, Role};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// What an attack is called, and the attack.
type Attack = (&'static str, fn(&Served));

/// Runs attacks on a server, each with a name, while a client is connected that has done nothing wrong. After each
/// attack the results of that client are still right, and the server has freed everything that the attack used.
fn siege(s: &Served, attacks: &[Attack]) {
    let backend = s.backend();
    let (work, right) = (Work::new(&backend), expected(9));
    assert_eq!(work.run(&backend, 9), right);
    let used = s.host.used();
    for (name, attack) in attacks {
        println!("{name}");
        attack(s);
        assert!(work.run(&backend, 9) == right, "after: {name}");
        until(name, || s.host.used() == used && s.host.sessions() == 1);
    }
}

fn closed(raw: &mut Raw, request: &Request) {
    raw.send(request);
    assert!(raw.is_closed(), "{request:?}");
}

fn get(tensor: WireTensor) -> Request {
    Request::GetTensor { tensor, offset: 0, size: 4 }
}

/// Each use of a buffer that is not this client's.
fn uses(raw: &Raw, buffer: u64, base: u64) -> Vec<Request> {
    let (own, its) = (raw.tensor(), floats(buffer, base));
    let mut graph = raw.graph();
    (graph.tensors[0].buffer, graph.tensors[0].data) = (buffer, base);
    let mut result = raw.graph();
    (result.tensors[2].buffer, result.tensors[2].data) = (buffer, base);
    vec![
        get(its.clone()),
        Request::MemsetTensor { tensor: its.clone(), offset: 0, size: 64, value: 0x41 },
        Request::CopyTensor { src: its.clone(), dst: own.clone() },
        Request::CopyTensor { src: own, dst: its.clone() },
        Request::InitTensor { tensor: its },
        Request::BufferClear { buffer, value: 0x41 },
        Request::BufferGetBase { buffer },
        Request::FreeBuffer { buffer },
        Request::GraphCompute(graph),
        Request::GraphCompute(result),
    ]
}

fn of_another_session(s: &Served) {
    let mut victim = Raw::new(&s.address);
    victim.send(&Request::BufferClear { buffer: victim.buffer, value: 7 });
    for i in 0..10 {
        let mut raw = Raw::new(&s.address);
        let request = uses(&raw, victim.buffer, victim.base).remove(i);
        closed(&mut raw, &request);
    }
    victim.send(&Request::GetTensor { tensor: victim.tensor(), offset: 0, size: 64 });
    assert_eq!(victim.reply().unwrap(), [7; 64]);
}

fn freed(s: &Served) {
    for i in 0..10 {
        let mut raw = Raw::new(&s.address);
        let (buffer, base) = (raw.buffer, raw.base);
        raw.send(&Request::AllocBuffer { device: 0, size: SIZE });
        raw.buffer = raw.number();
        raw.send(&Request::BufferGetBase { buffer: raw.buffer });
        raw.base = raw.number();
        raw.send(&Request::FreeBuffer { buffer });
        let request = uses(&raw, buffer, base).remove(i);
        closed(&mut raw, &request);
    }
}

fn an_old_address_in_a_new_buffer(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let old = raw.base;
    raw.send(&Request::FreeBuffer { buffer: raw.buffer });
    raw.send(&Request::AllocBuffer { device: 0, size: SIZE });
    let buffer = raw.number();
    closed(&mut raw, &get(floats(buffer, old)));
}

fn a_tensor_over_two_buffers(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let first = raw.base;
    raw.send(&Request::AllocBuffer { device: 0, size: SIZE });
    let buffer = raw.number();
    raw.send(&Request::BufferGetBase { buffer });
    let second = raw.number();
    let n = ((second + SIZE - first) / 4) as u32;
    let tensor = WireTensor { ne: [n, 1, 1, 1], nb: [4, 4 * n, 4 * n, 4 * n], ..raw.tensor() };
    closed(&mut raw, &get(tensor));
}

fn without_a_greeting(s: &Served) {
    for command in Command::all().filter(|c| *c != Command::Hello) {
        let mut raw = Raw::silent(&s.address);
        raw.bytes(&[&[command as u8][..], &[0; 8]].concat());
        assert!(raw.is_closed(), "{command:?}");
    }
}

fn greetings_of_other_versions(s: &Served) {
    for size in [0u64, 1, 3, CAPS as u64 - 1, CAPS as u64 + 1, 1 << 20, 1 << 60, u64::MAX] {
        let mut raw = Raw::silent(&s.address);
        raw.bytes(&[&[14][..], &size.to_le_bytes(), &[0; CAPS]].concat());
        assert!(raw.is_closed(), "{size}");
    }
}

fn a_second_greeting_in_the_middle(s: &Served) {
    let mut raw = Raw::new(&s.address);
    raw.send(&Request::GraphCompute(raw.graph()));
    closed(&mut raw, &Request::Hello { caps: [0xff; CAPS] });
}

fn leaves_before_the_reply(s: &Served) {
    for _ in 0..50 {
        let mut raw = Raw::new(&s.address);
        (0..20).for_each(|_| raw.send(&get(raw.tensor())));
    }
}

fn leaves_in_the_middle_of_a_graph(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let mut bytes = Vec::new();
    Request::GraphCompute(raw.graph()).write(0, &mut bytes);
    for end in [1, 5, 9, 20, bytes.len() - 1] {
        let mut raw = Raw::new(&s.address);
        raw.bytes(&bytes[..end]);
        let _ = raw.stream.shutdown(Shutdown::Both);
    }
    raw.bytes(&bytes);
}

fn comes_and_goes(s: &Served) {
    (0..300).for_each(|_| drop(Raw::silent(&s.address)));
}

fn an_upload_that_never_ends(s: &Served) {
    let mut raw = Raw::new(&s.address);
    raw.with(&Request::SetTensor { tensor: raw.tensor(), keep: false, offset: 0 }, 64, &[1; 63]);
    assert!(raw.is_closed());
}

fn an_upload_byte_by_byte(s: &Served) {
    let mut raw = Raw::new(&s.address);
    raw.with(&Request::SetTensor { tensor: raw.tensor(), keep: true, offset: 0 }, 64, &[]);
    let start = Instant::now();
    while raw.stream.write_all(&[1]).is_ok() && start.elapsed() < Duration::from_secs(12) {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(start.elapsed() < Duration::from_secs(12));
}

fn a_graph_byte_by_byte(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let mut bytes = Vec::new();
    Request::GraphCompute(raw.graph()).write(0, &mut bytes);
    let start = Instant::now();
    for byte in bytes {
        if raw.stream.write_all(&[byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() < Duration::from_secs(12));
}

fn a_flood_of_graphs(s: &Served) {
    let mut raw = Raw::new(&s.address);
    for uid in 1..3000 {
        let graph = Graph { uid, ..raw.graph() };
        raw.send(&Request::GraphCompute(graph));
        // What is sent ahead has the time of one graph.
        if uid.is_multiple_of(50) {
            raw.send(&get(raw.tensor()));
            assert_eq!(raw.reply().unwrap(), [0; 4]);
        }
    }
}

fn a_flood_of_buffers(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let mut n = 0;
    loop {
        raw.send(&Request::AllocBuffer { device: 0, size: 1 });
        match raw.reply() {
            Some(reply) if reply != [0; 16] => n += 1,
            _ => break,
        }
    }
    assert!(n < 256, "{n} buffers");
}

fn all_of_the_memory(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let mut got = 0;
    loop {
        raw.send(&Request::AllocBuffer { device: 0, size: 8 << 20 });
        if raw.reply().unwrap() == [0; 16] {
            break;
        }
        got += 8;
    }
    assert!(got < 64, "{got} MiB");
}

fn a_buffer_larger_than_all_memory(s: &Served) {
    let mut raw = Raw::new(&s.address);
    for size in [64 << 20, 1 << 40, i64::MAX as u64, u64::MAX, u64::MAX - 4095] {
        raw.send(&Request::AllocBuffer { device: 0, size });
        assert_eq!(raw.reply().unwrap(), [0; 16]);
    }
}

/// 2000 products of 2^30 multiplications each.
pub(super) fn endless(raw: &mut Raw) -> Graph {
    raw.send(&Request::AllocBuffer { device: 0, size: 32 << 20 });
    raw.buffer = raw.number();
    raw.send(&Request::BufferGetBase { buffer: raw.buffer });
    raw.base = raw.number();
    let (k, n) = (1u32 << 14, 1u32 << 8);
    let nb = [4, 4 * k, 4 * k * n, 4 * k * n];
    let at = |id: u64, data| WireTensor { id, ne: [k, n, 1, 1], nb, data, ..raw.tensor() };
    let size = u64::from(4 * k * n);
    let mut tensors = vec![at(1, raw.base), at(2, raw.base)];
    let product = WireTensor {
        ne: [n, n, 1, 1],
        nb: [4, 4 * n, 4 * n * n, 4 * n * n],
        op: GGML_OP_MUL_MAT as u32,
        ..raw.tensor()
    };
    for id in 3..2003 {
        let mut node = WireTensor { id, data: raw.base + size, ..product.clone() };
        node.src[..2].copy_from_slice(&[1, 2]);
        tensors.push(node);
    }
    Graph { device: 0, uid: 1, nodes: (3..2003).collect(), tensors }
}

fn a_graph_that_takes_minutes(s: &Served) {
    let mut raw = Raw::new(&s.address);
    let graph = endless(&mut raw);
    let start = Instant::now();
    raw.send(&Request::GraphCompute(graph));
    assert!(raw.is_closed() && start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

fn a_node_that_takes_hours(s: &Served) {
    let mut raw = Raw::new(&s.address);
    raw.send(&Request::AllocBuffer { device: 0, size: 24 << 20 });
    let buffer = raw.number();
    raw.send(&Request::BufferGetBase { buffer });
    let base = raw.number();
    // 2048 x 1024 results, each the mean of up to as many elements.
    let (side, high) = (1u32 << 11, 1u32 << 10);
    let plane = WireTensor {
        id: 1,
        buffer,
        data: base,
        ne: [side, high, 1, 1],
        nb: [4, 4 * side, 4 * side * high, 4 * side * high],
        ..raw.tensor()
    };
    let mut pooled = WireTensor { id: 2, data: base + (8 << 20), op: GGML_OP_POOL_2D as u32, ..plane.clone() };
    pooled.ne[1] = high;
    pooled.op_params[..7].copy_from_slice(&[1, (1 << 11) - 1, (1 << 11) - 1, 1, 1, (1 << 10) - 1, (1 << 10) - 1]);
    pooled.src[0] = 1;
    let start = Instant::now();
    raw.send(&Request::GraphCompute(Graph { device: 0, uid: 0, nodes: vec![2], tensors: vec![plane, pooled] }));
    assert!(raw.is_closed() && start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

fn every_operation_with_every_parameter(s: &Served) {
    let values = [0, -1, 1, i32::MAX, i32::MIN, f32::INFINITY.to_bits() as i32, f32::NAN.to_bits() as i32, 0x4141_4141];
    for op in (1..ggml_op::GGML_OP_COUNT as i32).filter_map(ggml_op::from_raw) {
        for value in values {
            let mut raw = Raw::new(&s.address);
            let mut graph = raw.graph();
            let node = &mut graph.tensors[2];
            (node.op, node.op_params) = (op as u32, [value; 16]);
            for (i, src) in node.src.iter_mut().enumerate() {
                *src = 1 + i as u64 % 2;
            }
            raw.send(&Request::GraphCompute(graph));
            let _ = raw.stream.shutdown(Shutdown::Write);
            // Refused or computed; the end comes in time.
            assert!(raw.is_closed(), "{op:?} with {value:#x}");
        }
    }
}

fn options(o: &mut Options) {
    (o.message, o.handshake, o.graph) =
        (Duration::from_millis(900), Duration::from_secs(2), Duration::from_millis(500));
    o.buffers = 200;
    o.connections = 400;
}

#[test]
fn intruders_get_nothing_and_disturb_nobody() {
    let s = served(options, None);
    let attacks: [Attack; 20] = [
        ("ten uses of another session's buffer", of_another_session),
        ("ten uses of a freed buffer", freed),
        ("an old address in a new buffer", an_old_address_in_a_new_buffer),
        ("a tensor over two buffers", a_tensor_over_two_buffers),
        ("22 commands without a greeting", without_a_greeting),
        ("eight greetings of other versions", greetings_of_other_versions),
        ("a second greeting in the middle", a_second_greeting_in_the_middle),
        ("leaving before the reply", leaves_before_the_reply),
        ("leaving in the middle of a graph", leaves_in_the_middle_of_a_graph),
        ("coming and going", comes_and_goes),
        ("an upload that never ends", an_upload_that_never_ends),
        ("an upload byte by byte", an_upload_byte_by_byte),
        ("a graph byte by byte", a_graph_byte_by_byte),
        ("a flood of graphs", a_flood_of_graphs),
        ("a flood of buffers", a_flood_of_buffers),
        ("all of the memory", all_of_the_memory),
        ("a buffer larger than all memory", a_buffer_larger_than_all_memory),
        ("a graph that takes minutes", a_graph_that_takes_minutes),
        ("a node that takes hours", a_node_that_takes_hours),
        ("every operation with every parameter", every_operation_with_every_parameter),
    ];
    siege(&s, &attacks);
}

/// Greets a server that requires a key. `proof` makes the client's proof from the server's capabilities.
fn with_key(s: &Served, caps: [u8; CAPS], proof: impl FnOnce(&[u8; CAPS]) -> Vec<u8>) -> Raw {
    let mut raw = Raw::silent(&s.address);
    raw.send(&Request::Hello { caps });
    let greeting = raw.reply().unwrap();
    let theirs: [u8; CAPS] = *greeting[4..].first_chunk().unwrap();
    raw.bytes(&proof(&theirs));
    raw
}

#[test]
fn nobody_gets_in_without_the_key() {
    let secret = Key::new(b"a key of the tests").unwrap();
    let s = served(|o| (o.key, o.handshake) = (Some(secret.clone()), Duration::from_secs(1)), None);
    let caps = key::caps().unwrap();
    let other = Key::new(b"another key, of others").unwrap();
    let right = |theirs: &[u8; CAPS]| secret.proof(Role::Client, &caps, theirs).unwrap().to_vec();

    let mut good = with_key(&s, caps, right);
    let mut proof = [0; PROOF];
    good.stream.read_exact(&mut proof).unwrap();
    good.send(&Request::DeviceCount);
    assert_eq!(good.reply().unwrap(), [1, 0, 0, 0]);

    let mut request = Vec::new();
    Request::AllocBuffer { device: 0, size: 64 }.write(0, &mut request);
    let old = std::sync::Mutex::new(Vec::new());
    drop(with_key(&s, caps, |theirs| {
        *old.lock().unwrap() = right(theirs);
        Vec::new()
    }));
    type Proof<'a> = Box<dyn Fn(&[u8; CAPS]) -> Vec<u8> + 'a>;
    let wrong: [(&str, [u8; CAPS], Proof<'_>); 9] = [
        ("no key", [0; CAPS], Box::new(|_| Vec::new())),
        ("no key, and a request", [0; CAPS], Box::new(|_| request.clone())),
        ("no proof", caps, Box::new(|_| Vec::new())),
        ("a request as a proof", caps, Box::new(|_| request.repeat(4))),
        ("zeros as a proof", caps, Box::new(|_| vec![0; PROOF])),
        (
            "the proof of another key",
            caps,
            Box::new(|theirs| other.proof(Role::Client, &caps, theirs).unwrap().to_vec()),
        ),
        (
            "the proof of the server",
            caps,
            Box::new(|theirs| secret.proof(Role::Server, &caps, theirs).unwrap().to_vec()),
        ),
        ("the proof of another connection", caps, Box::new(|_| old.lock().unwrap().clone())),
        ("half of the proof", caps, Box::new(|theirs| right(theirs)[..PROOF / 2].to_vec())),
    ];
    for (name, caps, proof) in wrong {
        let mut raw = with_key(&s, caps, proof);
        assert!(raw.is_closed(), "{name}");
    }
    good.send(&Request::DeviceCount);
    assert_eq!(good.reply().unwrap(), [1, 0, 0, 0]);
    until("intruders leave nothing behind", || s.host.sessions() == 1 && s.host.used() == 0);
}

#[test]
fn the_cache_gives_and_takes_no_more_than_it_may() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("cache");
    let s = served(|_| {}, Some(Cache::open(&folder, Some(8 * 4096)).unwrap()));
    let files = || std::fs::read_dir(&folder).unwrap().count();
    let mut raw = Raw::new(&s.address);
    let whole = raw.tensor();
    let set = |tensor: WireTensor, keep| Request::SetTensor { tensor, keep, offset: 0 };
    let asked = |raw: &mut Raw, tensor: WireTensor, offset, hash| {
        raw.send(&Request::SetTensorHash { tensor, offset, hash });
        raw.reply()
    };
    let data: Vec<u8> = (0..64).collect();
    // The name of a file is the hash of its content, and the cache writes a file only if the client requests it.
    raw.with(&set(whole.clone(), false), 64, &data);
    assert_eq!((asked(&mut raw, whole.clone(), 0, hash(&data)), files()), (Some(vec![0]), 0));
    raw.with(&set(whole.clone(), true), 64, &data);
    assert_eq!((asked(&mut raw, whole.clone(), 0, hash(&data)), files()), (Some(vec![1]), 1));
    // More than the rest of the tensor holds is not written; neither is what the name does not say.
    let short = WireTensor { ne: [15, 1, 1, 1], nb: [4, 60, 60, 60], ..whole.clone() };
    assert_eq!(asked(&mut raw, short, 0, hash(&data)), Some(vec![0]));
    assert_eq!(asked(&mut raw, whole.clone(), 4, hash(&data)), Some(vec![0]));
    std::fs::write(folder.join(format!("{:016x}", 5)), [1; 64]).unwrap();
    assert_eq!(asked(&mut raw, whole.clone(), 0, 5), Some(vec![0]));
    // The cache does not follow a link to another file.
    let secret = temporary.path().join("secret");
    std::fs::write(&secret, [9; 64]).unwrap();
    let link = crate::sys::file::symlink(&secret, folder.join(format!("{:016x}", hash(&[9; 64]))));
    let linked = !link.is_err_and(|e| e.kind() == std::io::ErrorKind::Unsupported);
    assert_eq!(asked(&mut raw, whole.clone(), 0, hash(&[9; 64])), Some(vec![0]));
    raw.send(&Request::GetTensor { tensor: whole.clone(), offset: 0, size: 64 });
    assert_eq!(raw.reply().unwrap(), data);
    // A flood fills it up to its limit.
    let all = WireTensor { ne: [256, 1, 1, 1], nb: [4, 1024, 1024, 1024], ..whole.clone() };
    for i in 0..20 {
        raw.with(&set(all.clone(), true), 1024, &[i; 1024]);
    }
    assert_eq!(asked(&mut raw, all.clone(), 0, hash(&[1; 1024])), Some(vec![1]));
    assert_eq!(asked(&mut raw, all, 0, hash(&[19; 1024])), Some(vec![0]));
    // With the link, which is nothing that the cache has written.
    assert_eq!(files(), 8 + usize::from(linked));
}
