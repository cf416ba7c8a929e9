//! Clients that mean harm. After each attack the server must have closed the connection, or refused in its reply, and a
//! client that has done nothing wrong must get the right result. In the end everything that the attackers had must be
//! free again.

use super::{Work, expected, floats, served, until};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_type;
use crate::rpc::protocol::{CAPS, Command, Graph, Pieces, Request, WireTensor};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of the attacker's buffer.
pub(super) const SIZE: u64 = 4096;
/// Tensors that a graph may have here.
const MOST_TENSORS: usize = 64;

/// A client that can send any bytes.
pub(super) struct Raw {
    pub stream: TcpStream,
    pub buffer: u64,
    pub base: u64,
}

impl Raw {
    pub fn silent(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, buffer: 0, base: 0 }
    }

    /// Greets, and gets a buffer.
    pub fn new(address: &str) -> Self {
        let mut raw = Self::silent(address);
        raw.send(&Request::Hello { caps: [0; CAPS] });
        assert_eq!(raw.reply().unwrap().len(), 4 + CAPS);
        raw.send(&Request::AllocBuffer { device: 0, size: SIZE });
        raw.buffer = raw.number();
        raw.send(&Request::BufferGetBase { buffer: raw.buffer });
        raw.base = raw.number();
        raw
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        // The server may have closed the connection in the middle.
        let _ = self.stream.write_all(bytes);
    }

    pub fn with(&mut self, request: &Request, claimed: usize, data: &[u8]) {
        let mut bytes = Vec::new();
        request.write(claimed, &mut bytes);
        bytes.extend(data);
        self.bytes(&bytes);
    }

    pub fn send(&mut self, request: &Request) {
        self.with(request, 0, &[]);
    }

    pub fn reply(&mut self) -> Option<Vec<u8>> {
        let mut size = [0; 8];
        self.stream.read_exact(&mut size).ok()?;
        let mut reply = vec![0; usize::try_from(u64::from_le_bytes(size)).ok().filter(|&n| n <= 1 << 20)?];
        self.stream.read_exact(&mut reply).ok()?;
        Some(reply)
    }

    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(*self.reply().unwrap().first_chunk().unwrap())
    }

    /// Whether the server has closed the connection, after sending nothing.
    pub fn is_closed(&mut self) -> bool {
        let start = Instant::now();
        let nothing = match self.stream.read(&mut [0; 1]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        };
        nothing && start.elapsed() < Duration::from_secs(15)
    }

    pub fn tensor(&self) -> WireTensor {
        floats(self.buffer, self.base)
    }

    /// `c = a + b`, each of 16 floats.
    pub fn graph(&self) -> Graph {
        let at = |id: u64| WireTensor { id, data: self.base + 64 * (id - 1), ..self.tensor() };
        let mut sum = WireTensor { op: GGML_OP_ADD as u32, ..at(3) };
        sum.src[..2].copy_from_slice(&[1, 2]);
        Graph { device: 0, uid: 1, nodes: vec![3], tensors: vec![at(1), at(2), sum] }
    }
}

type Attack = Box<dyn Fn(&mut Raw)>;
type ForgeTensor = fn(&Raw, &mut WireTensor);
type ForgeGraph = fn(&Raw, &mut Graph);
type Make = fn(&Raw) -> Request;
/// A request with a tensor, and how many bytes of data it has.
type Use = fn(WireTensor) -> (Request, usize);

/// Attacks with one tensor, in each request that has one.
fn on_tensors() -> Vec<(String, Attack)> {
    let forgeries: [(&str, ForgeTensor); 30] = [
        ("a buffer of nobody", |_, t| t.buffer ^= 1),
        ("a pointer as a buffer", |_, t| t.buffer = 0x7fff_dead_beef),
        ("no buffer", |_, t| t.buffer = 0),
        ("no buffer and no data", |_, t| (t.buffer, t.data) = (0, 0)),
        ("data before the buffer", |_, t| t.data -= 4),
        ("data at null", |_, t| t.data = 0),
        ("data behind the buffer", |_, t| t.data += SIZE),
        ("data across the end", |_, t| t.data += SIZE - 60),
        ("data at the end of memory", |_, t| t.data = u64::MAX - 3),
        ("a row longer than the buffer", |_, t| t.ne[0] = 1025),
        ("elements beyond counting", |_, t| t.ne = [u32::MAX; 4]),
        ("2^62 elements", |_, t| t.ne = [1 << 31, 1 << 31, 1, 1]),
        ("strides out of the buffer", |_, t| (t.ne[1], t.nb[1]) = (2, 4096)),
        ("the largest strides", |_, t| (t.ne, t.nb) = ([2; 4], [u32::MAX; 4])),
        ("elements on each other", |_, t| t.nb[0] = 0),
        ("a type that was removed", |_, t| t.dtype = 4),
        ("another type that was removed", |_, t| t.dtype = 5),
        ("a layout that was removed", |_, t| t.dtype = 31),
        ("strides that wrap", |_, t| {
            (t.ne, t.nb) = ([16, u32::MAX, u32::MAX, u32::MAX], [4, u32::MAX, u32::MAX, u32::MAX])
        }),
        ("strides that wrap to 0", |_, t| (t.ne, t.nb) = ([1, 1 << 31, 1 << 31, 5], [4, 1 << 31, 1 << 31, 1 << 31])),
        ("strides less than an element", |_, t| t.nb[0] = 3),
        ("a year of elements in 64 bytes", |_, t| (t.ne, t.nb) = ([16, u32::MAX, 1 << 20, 1], [4, 0, 0, 0])),
        ("rows on each other", |_, t| (t.ne, t.nb) = ([16, 1 << 16, 1, 1], [4, 0, 0, 0])),
        ("more rows than can be", |_, t| (t.ne[1], t.ne[2]) = (u32::MAX, u32::MAX)),
        ("the number of types", |_, t| t.dtype = ggml_type::GGML_TYPE_COUNT as u32),
        ("a negative type", |_, t| t.dtype = u32::MAX),
        ("blocks that are broken", |_, t| (t.dtype, t.ne[0]) = (ggml_type::GGML_TYPE_Q4_0 as u32, 31)),
        ("an operation that is none", |_, t| t.op = 5000),
        ("the number of operations", |_, t| t.op = ggml_op::GGML_OP_COUNT as u32),
        ("a function of the host", |_, t| (t.op, t.op_params) = (GGML_OP_CUSTOM as u32, [0x41414141; 16])),
    ];
    let uses: [(&str, Use); 7] = [
        ("read", |tensor| (Request::GetTensor { tensor, offset: 0, size: 4 }, 0)),
        ("written", |tensor| (Request::SetTensor { tensor, keep: false, offset: 0 }, 4)),
        ("set", |tensor| (Request::MemsetTensor { tensor, offset: 0, size: 4, value: 1 }, 0)),
        ("prepared", |tensor| (Request::InitTensor { tensor }, 0)),
        ("found by a hash", |tensor| (Request::SetTensorHash { tensor, offset: 0, hash: 1 }, 0)),
        ("copied", |tensor| (Request::CopyTensor { dst: tensor.clone(), src: tensor }, 0)),
        ("read in pieces", |tensor| {
            let pieces = Pieces { offset: 0, size: 4, count: 2, stride: 8 };
            (Request::GetTensor2d { tensor, pieces }, 0)
        }),
    ];
    let mut all: Vec<(String, Attack)> = Vec::new();
    for (forgery, forge) in forgeries {
        for (name, used) in uses {
            let attack = move |raw: &mut Raw| {
                let mut tensor = raw.tensor();
                forge(raw, &mut tensor);
                let (request, data) = used(tensor);
                raw.with(&request, data, &[0; 8][..data]);
            };
            all.push((format!("{forgery}, {name}"), Box::new(attack)));
        }
        // A graph with the forgery in a source, and in its result.
        for (name, at) in [("a source", 1), ("a node", 2)] {
            let attack = move |raw: &mut Raw| {
                let mut graph = raw.graph();
                let mut t = raw.tensor();
                forge(raw, &mut t);
                let its = &mut graph.tensors[at];
                (its.buffer, its.data, its.ne, its.nb, its.dtype) = (t.buffer, t.data, t.ne, t.nb, t.dtype);
                if t.op != 0 {
                    (its.op, its.op_params) = (t.op, t.op_params);
                }
                raw.send(&Request::GraphCompute(graph));
            };
            all.push((format!("{forgery}, {name}"), Box::new(attack)));
        }
    }
    all
}

/// Attacks with ranges.
fn on_ranges() -> Vec<(String, Attack)> {
    let mut all: Vec<(String, Attack)> = Vec::new();
    for (offset, size) in [(64, 1), (u64::MAX, 1), (1, u64::MAX), (1, 64), (u64::MAX - 3, 8), (0, SIZE), (0, 1 << 60)] {
        let uses: [fn(WireTensor, u64, u64) -> Request; 2] = [
            |tensor, offset, size| Request::GetTensor { tensor, offset, size },
            |tensor, offset, size| Request::MemsetTensor { tensor, offset, size, value: 0x41 },
        ];
        for (i, used) in uses.into_iter().enumerate() {
            let attack = move |raw: &mut Raw| raw.send(&used(raw.tensor(), offset, size));
            all.push((format!("range {offset} {size}, use {i}"), Box::new(attack)));
        }
    }
    for (offset, claimed) in [(0, 65), (64, 1), (u64::MAX, 8), (0, 1 << 40), (60, 8)] {
        for keep in [false, true] {
            let attack = move |raw: &mut Raw| {
                let request = Request::SetTensor { tensor: raw.tensor(), keep, offset };
                raw.with(&request, claimed, &[0x41; 8]);
            };
            all.push((format!("{claimed} bytes at {offset}, keep {keep}"), Box::new(attack)));
        }
    }
    for offset in [65, u64::MAX] {
        let attack = move |raw: &mut Raw| raw.send(&Request::SetTensorHash { tensor: raw.tensor(), offset, hash: 0 });
        all.push((format!("a hash at {offset}"), Box::new(attack)));
    }
    for (offset, size, count, stride) in [
        (0, 0, 1, 0),
        (0, 4, 0, 4),
        (0, 8, 2, 4),
        (0, 4, u64::MAX, u64::MAX),
        (0, u64::MAX, 2, u64::MAX),
        (0, 4, 1 << 40, 4),
        (0, 32, 3, 32),
        (u64::MAX, 4, 1, 4),
        (61, 4, 1, 4),
    ] {
        let pieces = Pieces { offset, size, count, stride };
        let read = move |raw: &mut Raw| raw.send(&Request::GetTensor2d { tensor: raw.tensor(), pieces });
        all.push((format!("read {pieces:?}"), Box::new(read)));
        let write = move |raw: &mut Raw| {
            raw.with(&Request::SetTensor2d { tensor: raw.tensor(), pieces }, 64, &[0x41; 64]);
        };
        all.push((format!("write {pieces:?}"), Box::new(write)));
    }
    // The pieces fit, and the message has more.
    let more = |raw: &mut Raw| {
        let pieces = Pieces { offset: 0, size: 4, count: 2, stride: 8 };
        raw.with(&Request::SetTensor2d { tensor: raw.tensor(), pieces }, 64, &[0x41; 64]);
    };
    all.push(("64 bytes for two pieces of 4".into(), Box::new(more)));
    all
}

/// Attacks with graphs.
fn on_graphs() -> Vec<(String, Attack)> {
    let forgeries: [(&str, ForgeGraph); 27] = [
        ("another device", |_, g| g.device = 1),
        ("no nodes", |_, g| g.nodes.clear()),
        ("more nodes than tensors", |_, g| g.nodes = vec![3; 9]),
        ("a node twice", |_, g| g.nodes = vec![3, 3]),
        ("an unknown node", |_, g| g.nodes = vec![77]),
        ("node 0", |_, g| g.nodes = vec![0]),
        ("a tensor twice", |_, g| g.tensors[1].id = 1),
        ("a tensor 0", |_, g| g.tensors[0].id = 0),
        ("an unknown source", |_, g| g.tensors[2].src[1] = 99),
        ("itself as a source", |_, g| g.tensors[2].src[0] = 3),
        ("a circle", |_, g| {
            g.tensors[0].op = GGML_OP_ADD as u32;
            g.tensors[0].src[..2].copy_from_slice(&[3, 2]);
            g.nodes = vec![1, 3];
        }),
        ("a circle of views", |_, g| (g.tensors[0].view_src, g.tensors[1].view_src) = (2, 1)),
        ("a view of itself", |_, g| g.tensors[0].view_src = 1),
        ("a view of an unknown", |_, g| g.tensors[0].view_src = 99),
        ("a view elsewhere", |_, g| (g.tensors[1].view_src, g.tensors[1].view_offs) = (1, 60)),
        ("a view far away", |_, g| (g.tensors[1].view_src, g.tensors[1].view_offs) = (1, u64::MAX)),
        ("no sources", |_, g| g.tensors[2].src = [0; 10]),
        ("a source of another shape", |_, g| g.tensors[1].ne[0] = 15),
        ("data that is not aligned", |_, g| g.tensors[2].data += 1),
        ("a result partly on its source", |_, g| {
            g.tensors[2].op = GGML_OP_SOFT_MAX as u32;
            g.tensors[2].src[1] = 3;
        }),
        ("an operation without its sources", |_, g| g.tensors[2].op = GGML_OP_FLASH_ATTN_EXT as u32),
        ("a mode that is none", |_, g| {
            (g.tensors[2].op, g.tensors[2].op_params) = (GGML_OP_ROPE as u32, [-1; 16]);
        }),
        ("an index out of range", |_, g| {
            // The first byte of the buffer is not 0, so that the index is large.
            g.tensors[1].dtype = ggml_type::GGML_TYPE_I32 as u32;
            (g.tensors[1].ne, g.tensors[2].op) = ([1, 1, 1, 1], GGML_OP_GET_ROWS as u32);
        }),
        ("a source that this version does not know", |_, g| g.tensors[2].src[9] = 1),
        ("a parameter that this version does not know", |_, g| g.tensors[2].op_params[15] = 1),
        ("a view with a parameter that this version does not know", |_, g| {
            (g.tensors[2].op, g.tensors[2].src) = (GGML_OP_RESHAPE as u32, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            g.tensors[2].op_params[0] = 1;
        }),
        ("a product of all memory", |_, g| {
            (g.tensors[2].op, g.tensors[2].ne) = (GGML_OP_MUL_MAT as u32, [u32::MAX, u32::MAX, 1, 1]);
        }),
    ];
    let forged = forgeries.into_iter().map(|(name, forge)| {
        let attack = move |raw: &mut Raw| {
            let buffer = raw.buffer;
            raw.send(&Request::BufferClear { buffer, value: 0x41 });
            let mut graph = raw.graph();
            forge(raw, &mut graph);
            raw.send(&Request::GraphCompute(graph));
        };
        (format!("a graph with {name}"), Box::new(attack) as Attack)
    });
    forged.collect()
}

/// Attacks on everything else.
fn on_the_rest() -> Vec<(String, Attack)> {
    let requests: [(&str, Make); 16] = [
        ("clears a buffer of nobody", |_| Request::BufferClear { buffer: 5, value: 0 }),
        ("frees a buffer of nobody", |_| Request::FreeBuffer { buffer: 0 }),
        ("frees its address", |raw| Request::FreeBuffer { buffer: raw.base }),
        ("where is a buffer of nobody", |_| Request::BufferGetBase { buffer: u64::MAX }),
        ("memory of device 1", |_| Request::GetDeviceMemory { device: 1 }),
        ("alignment of device -1", |_| Request::GetAlignment { device: u32::MAX }),
        ("size of device 7", |_| Request::GetMaxSize { device: 7 }),
        ("a buffer of device 2", |_| Request::AllocBuffer { device: 2, size: 64 }),
        ("greets again", |_| Request::Hello { caps: [0; CAPS] }),
        ("computes what it never sent", |_| Request::GraphRecompute { device: 0, uid: 3 }),
        ("computes again on device 3", |_| Request::GraphRecompute { device: 3, uid: 1 }),
        ("sums over servers", |_| Request::CommAllreduce { device: 0 }),
        ("a size on device 1", |raw| Request::GetAllocSize {
            device: 1,
            tensor: raw.tensor(),
            srcs: vec![raw.tensor(); 10],
        }),
        ("the size of no type", |raw| {
            let tensor = WireTensor { dtype: 999, ..raw.tensor() };
            Request::GetAllocSize { device: 0, tensor, srcs: vec![raw.tensor(); 10] }
        }),
        ("a copy to another layout", |raw| {
            let dst = WireTensor { ne: [8, 2, 1, 1], nb: [4, 32, 64, 64], ..raw.tensor() };
            Request::CopyTensor { src: raw.tensor(), dst }
        }),
        ("a copy onto itself, shifted", |raw| {
            let dst = WireTensor { data: raw.base + 32, ..raw.tensor() };
            Request::CopyTensor { src: raw.tensor(), dst }
        }),
    ];
    let mut all: Vec<(String, Attack)> = Vec::new();
    for (name, request) in requests {
        all.push((name.into(), Box::new(move |raw: &mut Raw| raw.send(&request(raw)))));
    }
    for raw_command in [23u8, 24, 100, 255] {
        let attack = move |raw: &mut Raw| raw.bytes(&[&[raw_command][..], &[0; 8]].concat());
        all.push((format!("command {raw_command}"), Box::new(attack)));
    }
    for command in Command::all() {
        let attack = move |raw: &mut Raw| raw.bytes(&[&[command as u8][..], &u64::MAX.to_le_bytes()].concat());
        // A tensor may be as large as its buffer: the head is read first, and this one is cut.
        if !matches!(command, Command::SetTensor | Command::SetTensor2d) {
            all.push((format!("{command:?} of 2^64 bytes"), Box::new(attack)));
        }
    }
    all.push((
        "a buffer freed twice".into(),
        Box::new(|raw| {
            let buffer = raw.buffer;
            (0..2).for_each(|_| raw.send(&Request::FreeBuffer { buffer }));
        }),
    ));
    all.push((
        "a graph whose buffer was freed".into(),
        Box::new(|raw| {
            let (graph, buffer) = (raw.graph(), raw.buffer);
            raw.send(&Request::GraphCompute(graph));
            raw.send(&Request::FreeBuffer { buffer });
            raw.send(&Request::GraphRecompute { device: 0, uid: 1 });
        }),
    ));
    all.push((
        "more tensors than a graph may have".into(),
        Box::new(|raw| {
            let mut graph = raw.graph();
            let more = (4..=MOST_TENSORS as u64 + 1).map(|id| WireTensor { id, ..raw.tensor() });
            graph.tensors.extend(more);
            raw.send(&Request::GraphCompute(graph));
        }),
    ));
    all.push((
        "a million nodes that are not there".into(),
        Box::new(|raw| {
            let mut bytes = Vec::new();
            let graph = raw.graph();
            Request::GraphCompute(graph).write(0, &mut bytes);
            bytes[9 + 12..9 + 16].copy_from_slice(&1_000_000u32.to_le_bytes());
            raw.bytes(&bytes);
        }),
    ));
    all.push((
        "half a message".into(),
        Box::new(|raw| {
            let mut bytes = Vec::new();
            Request::GetTensor { tensor: raw.tensor(), offset: 0, size: 4 }.write(0, &mut bytes);
            raw.bytes(&bytes[..bytes.len() / 2]);
            let _ = raw.stream.shutdown(Shutdown::Write);
        }),
    ));
    all
}

#[test]
fn no_attack_gets_anything_or_disturbs_another() {
    let s = served(|o| (o.message, o.tensors) = (Duration::from_secs(2), MOST_TENSORS), None);
    let backend = s.backend();
    let (work, right) = (Work::new(&backend), expected(9));
    assert_eq!(work.run(&backend, 9), right);
    let used = s.host.used();
    let attacks: Vec<_> = [on_tensors(), on_ranges(), on_graphs(), on_the_rest()].into_iter().flatten().collect();
    assert!(attacks.len() >= 60, "{}", attacks.len());
    for (i, (name, attack)) in attacks.iter().enumerate() {
        let mut raw = Raw::new(&s.address);
        attack(&mut raw);
        assert!(raw.is_closed(), "{name}");
        if i.is_multiple_of(16) {
            assert!(work.run(&backend, 9) == right, "after: {name}");
        }
    }
    assert_eq!(work.run(&backend, 9), right);
    until("attackers leave nothing behind", || s.host.used() == used && s.host.sessions() == 1);
    println!("{} attacks", attacks.len());
}

#[test]
fn what_is_allowed_stays_allowed() {
    let s = served(|_| {}, None);
    let mut raw = Raw::new(&s.address);
    // Fresh memory holds nothing of anybody.
    raw.send(&Request::GetTensor { tensor: raw.tensor(), offset: 0, size: 64 });
    assert_eq!(raw.reply().unwrap(), [0; 64]);
    // Nor does memory that was just given back.
    for _ in 0..20 {
        let buffer = raw.buffer;
        raw.send(&Request::BufferClear { buffer, value: 0x41 });
        raw.send(&Request::FreeBuffer { buffer });
        raw.send(&Request::AllocBuffer { device: 0, size: SIZE });
        raw.buffer = raw.number();
        raw.send(&Request::BufferGetBase { buffer: raw.buffer });
        raw.base = raw.number();
        let tensor = WireTensor { ne: [1024, 1, 1, 1], ..raw.tensor() };
        raw.send(&Request::GetTensor { tensor, offset: 0, size: SIZE });
        assert!(raw.reply().unwrap().iter().all(|&b| b == 0));
    }
    let request = Request::SetTensor { tensor: raw.tensor(), keep: false, offset: 60 };
    raw.with(&request, 4, &1f32.to_le_bytes());
    raw.send(&Request::GraphCompute(raw.graph()));
    raw.send(&Request::GraphRecompute { device: 0, uid: 1 });
    let sum = WireTensor { data: raw.base + 128, ..raw.tensor() };
    raw.send(&Request::GetTensor { tensor: sum, offset: 60, size: 4 });
    assert_eq!(raw.reply().unwrap(), 1f32.to_le_bytes());
    // More than there is, and nothing: a refusal in the reply, as the original has it.
    for size in [0, 1 << 30, u64::MAX] {
        raw.send(&Request::AllocBuffer { device: 0, size });
        assert_eq!(raw.reply().unwrap(), [0; 16]);
    }
    raw.send(&Request::CommInit { device: 0 });
    assert_eq!(raw.reply().unwrap(), [0]);
    raw.send(&Request::SetTensorHash { tensor: raw.tensor(), offset: 0, hash: 1 });
    assert_eq!(raw.reply().unwrap(), [0]);
    // The source of another server: only its shape counts.
    let srcs = vec![WireTensor { buffer: 77, data: 5, ..raw.tensor() }; 10];
    raw.send(&Request::GetAllocSize { device: 0, tensor: WireTensor { buffer: 0, data: 0, ..raw.tensor() }, srcs });
    assert_eq!(raw.number(), 64);
    // Another client's buffer is none of its own.
    let mut other = Raw::new(&s.address);
    other.send(&Request::BufferClear { buffer: raw.buffer, value: 1 });
    assert!(other.is_closed());
    raw.send(&Request::GetTensor { tensor: raw.tensor(), offset: 60, size: 4 });
    assert_eq!(raw.reply().unwrap(), 1f32.to_le_bytes());
}

#[test]
fn slow_clients_and_floods_end() {
    let limits = |o: &mut crate::rpc::server::Options| {
        (o.message, o.handshake, o.connections) = (Duration::from_millis(600), Duration::from_millis(600), 4);
        o.per_address = Some(4);
    };
    let s = served(limits, None);
    let backend = s.backend();
    let work = Work::new(&backend);
    // Greetings that never come, and one that is not of this protocol.
    let mut silent: Vec<_> = (0..3).map(|_| Raw::silent(&s.address)).collect();
    until("they are there", || s.host.sessions() == 4);
    // They take no client's place; as many clients as there may be do.
    let clients: Vec<_> = (0..3).map(|_| Raw::new(&s.address)).collect();
    let mut late = Raw::silent(&s.address);
    late.send(&Request::Hello { caps: [0; CAPS] });
    assert!(late.is_closed());
    assert!(silent.iter_mut().all(Raw::is_closed));
    drop(clients);
    let mut http = Raw::silent(&s.address);
    http.bytes(b"GET / HTTP/1.1\r\n\r\n");
    assert!(http.is_closed());
    let mut short = Raw::silent(&s.address);
    short.bytes(&[&[14, 23, 0, 0, 0, 0, 0, 0, 0], &[0u8; CAPS][..]].concat());
    assert!(short.is_closed());
    until("the places are free", || s.host.sessions() == 1);
    // A byte now and then does not make it a message.
    let mut slow = Raw::new(&s.address);
    let mut bytes = Vec::new();
    Request::GetTensor { tensor: slow.tensor(), offset: 0, size: 4 }.write(0, &mut bytes);
    let start = Instant::now();
    for byte in bytes {
        if slow.stream.write_all(&[byte]).is_err() || start.elapsed() > Duration::from_secs(10) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    // A client that reads no replies blocks no other client, and is disconnected after a while.
    let mut deaf = Raw::new(&s.address);
    for _ in 0..20_000 {
        deaf.send(&Request::GetTensor {
            tensor: WireTensor { ne: [1024, 1, 1, 1], ..deaf.tensor() },
            offset: 0,
            size: SIZE,
        });
    }
    assert_eq!(work.run(&backend, 3), expected(3));
    until("all have left", || s.host.sessions() == 1);
}
