//! Which weights travel to a server, counted on their way.

use super::{Served, noise, served};
use crate::abi::backend::ggml_backend_buffer_usage;
use crate::abi::ggml::ggml_type::*;
use crate::backend::{BackendBox, BufferBox, tensor_io};
use crate::rpc::protocol::{Body, CAPS, Command, OFFERED_ABOVE, hash};
use crate::rpc::server::Cache;
use crate::tensor::{Context, TensorRef};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What a client has sent.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Counts {
    offers: usize,
    /// SET_TENSOR, and the bytes of data of all of them.
    sets: usize,
    bytes: usize,
}

/// A way to a server that counts requests.
struct Meter {
    near: Served,
    counts: Arc<Mutex<Counts>>,
}

impl Meter {
    /// `silent`: the byte of the greeting that says something about the cache is 0, as from the original's server.
    fn to(server: &Served, silent: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = Served { address: listener.local_addr().unwrap().to_string(), host: server.host.clone() };
        let counts = Arc::<Mutex<Counts>>::default();
        let (all, server) = (counts.clone(), server.address.clone());
        std::thread::spawn(move || {
            for up in listener.incoming() {
                let (up, down) = (up.unwrap(), TcpStream::connect(&server).unwrap());
                let (client, from, counts) = (up.try_clone().unwrap(), down.try_clone().unwrap(), all.clone());
                std::thread::spawn(move || replies(from, client, silent));
                std::thread::spawn(move || requests(up, down, &counts));
            }
        });
        Self { near, counts }
    }

    /// What was sent since the last look.
    fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap())
    }
}

fn replies(mut from: TcpStream, mut to: TcpStream, silent: bool) {
    let mut greeting = [0; 8 + 4 + CAPS];
    if from.read_exact(&mut greeting).is_ok() {
        greeting[8 + 3] = if silent { 0 } else { greeting[8 + 3] };
        let _ = to.write_all(&greeting).and_then(|()| std::io::copy(&mut from, &mut to));
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn requests(mut from: TcpStream, mut to: TcpStream, counts: &Mutex<Counts>) {
    let mut head = [0; 9];
    while from.read_exact(&mut head).is_ok() {
        let mut body = vec![0; u64::from_le_bytes(*head[1..].first_chunk().unwrap()) as usize];
        if from.read_exact(&mut body).is_err() {
            break;
        }
        let command = Command::from_byte(head[0]).unwrap();
        let mut c = counts.lock().unwrap();
        match (command, command.body()) {
            (Command::SetTensorHash, _) => c.offers += 1,
            (Command::SetTensor, Body::Head(n)) => {
                c.sets += 1;
                c.bytes += body.len() - n;
            }
            _ => {}
        }
        drop(c);
        if to.write_all(&[&head[..], &body].concat()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Tensors of weights in floats, in a buffer of a server.
struct Weights {
    tensors: Vec<TensorRef>,
    _buffer: BufferBox,
    _ctx: Context,
}

impl Weights {
    fn new(backend: &BackendBox, sizes: &[usize]) -> Self {
        let mut ctx = Context::with_size(1 << 18, true).unwrap();
        let tensors: Vec<_> = sizes.iter().map(|&n| ctx.new_tensor(GGML_TYPE_F32, &[n as i64]).unwrap()).collect();
        let mut all: Vec<_> = tensors.iter().map(|t| t.as_ptr()).collect();
        let buffer = backend.default_buffer_type().alloc_buffer_n(&mut all).unwrap().unwrap();
        buffer.set_usage(ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        Self { tensors, _buffer: buffer, _ctx: ctx }
    }

    fn data(&self, i: usize, seed: u32) -> Vec<u8> {
        noise(self.tensors[i].nbytes() / 4, seed + 2 * i as u32)
    }

    fn set(&self, seed: u32) {
        (0..self.tensors.len()).for_each(|i| tensor_io::set_bytes(self.tensors[i], &self.data(i, seed), 0));
    }

    fn are(&self, seed: u32) -> bool {
        (0..self.tensors.len()).all(|i| read(self.tensors[i]) == self.data(i, seed))
    }
}

fn read(t: TensorRef) -> Vec<u8> {
    let mut out = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut out, 0);
    out
}

fn cache(folder: &Path) -> Option<Cache> {
    Some(Cache::open(folder, Some(1 << 30)).unwrap())
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect()
}

/// Many small ones, as norms and biases are, and one beyond the 10 MiB from which on the original's client offers.
fn model() -> Vec<usize> {
    let mut sizes: Vec<usize> = (0..300).map(|i| 100 + 7 * i).collect();
    sizes[150] = 3 << 20;
    sizes
}

fn loaded(meter: &Meter, seed: u32) -> Counts {
    let backend = meter.near.backend();
    meter.take();
    let weights = Weights::new(&backend, &model());
    weights.set(seed);
    let sent = meter.take();
    assert!(weights.are(seed));
    // What was still on its way when the last of them was set.
    let rest = meter.take();
    Counts { offers: sent.offers + rest.offers, sets: sent.sets + rest.sets, bytes: sent.bytes + rest.bytes }
}

#[test]
fn a_second_start_sends_no_weights() {
    // Also to a server that does not say that it has a cache, as the original's.
    for silent in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let s = served(|_| {}, cache(folder));
        let meter = Meter::to(&s, silent);
        let all: usize = model().iter().map(|n| 4 * n).sum();
        let first = loaded(&meter, 11);
        assert_eq!((first.sets, first.bytes), (300, all));
        assert!(first.offers < 20, "{first:?}");
        assert_eq!(files(folder).len(), 300);
        assert_eq!(loaded(&meter, 11), Counts { offers: 300, sets: 0, bytes: 0 });
        // After a file was changed on disk, its weights are sent again, with the weights that follow without an offer.
        let name = folder.join(format!("{:016x}", hash(&noise(100, 11))));
        std::fs::write(&name, [1; 400]).unwrap();
        let mended = loaded(&meter, 11);
        assert!(mended.sets >= 1 && mended.sets < 5, "{mended:?}");
        assert_eq!(loaded(&meter, 11), Counts { offers: 300, sets: 0, bytes: 0 });
    }
}

#[test]
fn a_server_without_a_cache_gets_no_offers() {
    let s = served(|_| {}, None);
    let meter = Meter::to(&s, false);
    assert_eq!((loaded(&meter, 5).offers, loaded(&meter, 5).sets), (0, 300));
    // One that does not say so gets them less and less often.
    let silent = Meter::to(&s, true);
    let sent = loaded(&silent, 5);
    assert!(sent.offers > 3 && sent.offers < 20 && sent.sets == 300, "{sent:?}");
}

#[test]
fn what_is_smaller_than_its_offer_is_sent_and_not_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let s = served(|_| {}, cache(temporary.path()));
    let meter = Meter::to(&s, false);
    let backend = meter.near.backend();
    let n = OFFERED_ABOVE / 4;
    let weights = Weights::new(&backend, &[n, n + 1]);
    weights.set(3);
    assert!(weights.are(3));
    assert_eq!((meter.take().offers, files(temporary.path()).len()), (1, 1));
}

/// Offers that are not answered yet and that the server then refuses, followed by requests that write or read the same
/// bytes.
#[test]
fn whatever_follows_an_offer_sees_its_bytes() {
    let temporary = tempfile::tempdir().unwrap();
    let s = served(|_| {}, cache(temporary.path()));
    let backend = s.backend();
    let sizes = [1000; 40];
    let weights = Weights::new(&backend, &sizes);
    weights.set(7);
    assert!(weights.are(7));
    let (last, other) = (weights.tensors[39], weights.data(0, 7));
    let offered = || {
        // All are on disk but the last, and no request has waited for the server's answer to the offer of that one.
        std::fs::remove_file(temporary.path().join(format!("{:016x}", hash(&weights.data(39, 7))))).unwrap();
        weights.set(7);
    };
    offered();
    assert!(weights.are(7));
    offered();
    tensor_io::set_bytes(last, &other, 0);
    assert!(read(last) == other);
    offered();
    tensor_io::set_bytes(last, &[9; 40], 100);
    let mut part = weights.data(39, 7);
    part[100..140].fill(9);
    assert!(read(last) == part);
    offered();
    tensor_io::memset(last, 3, 0, 4000);
    assert!(read(last) == [3; 4000]);
    offered();
    tensor_io::copy(last, weights.tensors[38]).unwrap();
    assert!(read(weights.tensors[38]) == weights.data(39, 7));
    // Buffers that are freed before their offers are answered.
    for seed in [7, 7, 100, 7] {
        Weights::new(&backend, &sizes).set(seed);
    }
    weights.set(7);
    assert!(weights.are(7));
}
