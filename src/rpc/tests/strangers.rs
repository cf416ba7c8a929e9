//! A server in a process of its own, under clients that leave and clients that send much: the time that it computes for
//! them, and its memory.

use super::hostile::Raw;
use super::intruders::endless;
use crate::abi::ggml::ggml_type::*;
use crate::rpc::protocol::{CAPS, Graph, Pieces, Request, WireTensor};
use crate::rpc::server::{Options, set_limit, start};
use crate::sys::process::HAS_PROC;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// What the child of the tests below runs. Its arguments are "port=N" and limits, such as "graph-time=3".
#[test]
#[ignore = "a server for the tests beside it"]
fn serve_until_killed() {
    let mut port = 0;
    for argument in std::env::args() {
        match argument.split_once('=') {
            Some(("port", n)) => port = n.parse().unwrap(),
            Some((name, n)) if !name.starts_with('-') => set_limit(name, n.parse().unwrap()).unwrap(),
            _ => {}
        }
    }
    let open = |device, deadline: &_| crate::capi::rpc::open(device, 2, deadline);
    let device = crate::cpu::device::device();
    start(&format!("127.0.0.1:{port}"), None, vec![device], Box::new(open), crate::capi::rpc::checks(2)).unwrap();
}

/// The server's process.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    /// With a limit. `None` where the system has no /proc.
    fn new(limit: &str) -> Option<Self> {
        (HAS_PROC && std::path::Path::new("/proc/self/stat").exists()).then(|| {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--ignored", "rpc::tests::strangers::serve_until_killed", limit])
                .arg(format!("port={}", address.port()))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let it = Self { child, address: address.to_string() };
            super::until("the server listens", || std::net::TcpStream::connect(address).is_ok());
            it
        })
    }

    fn told(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// Processor time so far. Linux counts it in hundredths of seconds.
    fn time(&self) -> Duration {
        let stat = self.told("stat");
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let [user, system] = [11, 12].map(|i: usize| fields[i].parse::<u64>().unwrap());
        Duration::from_millis(10 * (user + system))
    }

    /// Most memory so far.
    fn peak(&self) -> u64 {
        let status = self.told("status");
        let words = status.split_once("VmHWM:").unwrap().1;
        words.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// How long it goes on computing, at most 25 seconds.
    fn computes(&self) -> Duration {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(25) {
            let (before, at) = (self.time(), start.elapsed());
            std::thread::sleep(Duration::from_secs(1));
            if self.time() - before < Duration::from_millis(30) {
                return at;
            }
        }
        start.elapsed()
    }

    fn greeted(&self) -> Raw {
        let mut raw = Raw::silent(&self.address);
        raw.send(&Request::Hello { caps: [0; CAPS] });
        assert_eq!(raw.reply().unwrap().len(), 4 + CAPS);
        raw
    }

    /// Whether a new client gets an answer.
    fn serves(&self) -> bool {
        let mut raw = self.greeted();
        raw.send(&Request::DeviceCount);
        raw.reply().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn computing_ends_when_the_client_leaves_or_its_time_is_over() {
    for (products, again, limit, range) in
        [(2000, 0, "graph-time=600", 0..5), (100, 125, "graph-time=600", 0..5), (2, 2000, "graph-time=3", 1..8)]
    {
        let Some(server) = Process::new(limit) else { return };
        let mut raw = server.greeted();
        let mut graph = endless(&mut raw);
        graph.nodes.truncate(products);
        graph.tensors.truncate(2 + products);
        raw.send(&Request::GraphCompute(graph));
        (0..again).for_each(|_| raw.send(&Request::GraphRecompute { device: 0, uid: 1 }));
        std::thread::sleep(Duration::from_secs(1));
        assert!(server.time() > Duration::from_millis(200), "it computes {products} products");
        let kept = (limit == "graph-time=3").then_some(raw);
        let more = server.computes();
        println!("{products} products, {again} times again, {limit}: {more:?}");
        assert!(range.contains(&more.as_secs()) && server.serves(), "{products}, {limit}: {more:?}");
        drop(kept);
    }
}

#[test]
fn what_a_client_sends_takes_bounded_memory() {
    type Act = fn(&mut Raw);
    let acts: [(&str, Act, usize, u64); 2] = [
        (
            "graphs without their end",
            |raw| {
                let most = Options::new(0).tensors as u64;
                let one = |id| WireTensor { id, dtype: GGML_TYPE_F32 as u32, ne: [1; 4], nb: [4; 4], ..raw.tensor() };
                let graph =
                    Graph { device: 0, uid: 1, nodes: (1..=most).collect(), tensors: (1..=most).map(one).collect() };
                let mut bytes = Vec::new();
                Request::GraphCompute(graph).write(0, &mut bytes);
                raw.bytes(&bytes[..bytes.len() - 64]);
            },
            4,
            640 * MIB,
        ),
        (
            "data in pieces",
            |raw| {
                raw.send(&Request::AllocBuffer { device: 0, size: 256 * MIB });
                raw.buffer = raw.number();
                raw.send(&Request::BufferGetBase { buffer: raw.buffer });
                raw.base = raw.number();
                let (n, nb) = (64 << 20, [4, 256 << 20, 256 << 20, 256 << 20]);
                let tensor = WireTensor { ne: [n, 1, 1, 1], nb, ..raw.tensor() };
                let pieces = Pieces { offset: 0, size: 256 * MIB, count: 1, stride: 256 * MIB };
                raw.with(&Request::SetTensor2d { tensor, pieces }, 256 << 20, &[]);
                (0..255).for_each(|_| raw.bytes(&[0; MIB as usize]));
            },
            1,
            320 * MIB,
        ),
    ];
    for (name, act, clients, most) in acts {
        let Some(server) = Process::new("client-work=128") else { return };
        let before = server.peak();
        let mut all: Vec<_> = (0..clients).map(|_| server.greeted()).collect();
        all.iter_mut().for_each(act);
        std::thread::sleep(Duration::from_secs(2));
        let grown = server.peak() - before;
        println!("{name} of {clients} clients: {} MiB", grown / MIB);
        assert!(grown < most && server.serves(), "{name}: {} MiB", grown / MIB);
    }
}

#[test]
fn buffers_of_a_client_end_at_its_limit() {
    let Some(server) = Process::new("client-memory=64") else { return };
    let mut clients = [server.greeted(), server.greeted()];
    let [got, other] = [(0, 6), (1, 1)].map(|(i, n)| {
        let mut alloc = || {
            clients[i].send(&Request::AllocBuffer { device: 0, size: 16 * MIB });
            clients[i].number() != 0
        };
        (0..n).filter(|_| alloc()).count()
    });
    assert!((3..=4).contains(&got) && other == 1 && server.serves(), "{got} of 16 MiB, {other}");
}
