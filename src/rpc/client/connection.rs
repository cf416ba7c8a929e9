//! One connection to a server. Any thread sends requests. A thread that needs a reply reads all replies up to its own.
//! So a request without a reply costs a write; one with a reply costs a write and a read on the thread that sent it.
//!
//! Small requests wait for each other and are sent together: with the next graph, with the next request whose reply is
//! needed, and at the latest when the stream is synchronised.
//!
//! Weights that were offered to the server, and are not answered yet, come before any other request (`offers`).
//!
//! After the first failure a connection does nothing more. The next use of its server makes a new one.
#![forbid(unsafe_code)]

use super::graphs::Graphs;
use super::offers::Offers;
use crate::backend::author::HostTarget;
use crate::backend::author::NOT_READ;
use crate::error::{Error, Result, invalid};
use crate::log_error;
use crate::rpc::protocol::{CAPS, NO_CACHE, Reader, Request, VERSION};
use crate::rpc::transport::key::{self, PROOF, Role};
use crate::rpc::transport::{Channel, Endpoint, Key, Limits};
use crate::sys::fork;
use crate::sys::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Requests that wait to leave together, in bytes.
const TOGETHER: usize = 32 << 10;
/// Bytes that may be sent while replies wait to be read. A server that cannot send its replies reads no requests.
const UNREAD: usize = 64 << 10;

/// What the user has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time to connect.
    pub connect: Duration,
    /// Time for a reply, with everything before it that is still computed.
    pub reply: Duration,
    /// Secret that the server must have.
    pub key: Option<Key>,
}

/// Where a reply goes.
enum Target {
    /// To a slot, from which the thread that waits for the reply takes it.
    Slot(Arc<Slot>),
    /// To memory of the host.
    Host(HostTarget),
}

/// A reply that another thread may have read.
#[derive(Default)]
struct Slot(Mutex<Option<Vec<u8>>>);

struct Expected {
    size: usize,
    target: Target,
}

struct Sender {
    channel: Channel,
    waiting: Vec<u8>,
    /// Number of replies that were requested.
    requested: u64,
    /// Bytes sent since all replies were read.
    ahead: usize,
}

struct Receiver {
    channel: Channel,
    /// Number of replies that were read.
    received: u64,
}

/// A connection.
pub struct Connection {
    endpoint: String,
    reply: Duration,
    sender: Mutex<Sender>,
    expected: Mutex<VecDeque<Expected>>,
    receiver: Mutex<Receiver>,
    failure: OnceLock<String>,
    /// The process that uses it: one that is forked from it makes its own.
    process: u32,
    /// Graphs that the server has.
    graphs: Mutex<Graphs>,
    /// Which weights are offered by their hash.
    pub(super) offers: Mutex<Offers>,
}

/// A request whose reply is read later.
pub(super) struct Asked {
    number: u64,
    slot: Arc<Slot>,
}

/// A place among the requests of a connection.
#[derive(Clone)]
pub struct Mark {
    connection: Arc<Connection>,
    requested: u64,
}

impl Mark {
    /// Reads all replies to requests before the mark.
    pub fn wait(&self) {
        let _ = self.connection.receive(self.requested, None);
    }
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// `text` is no endpoint, the server cannot be reached, or it has another version of the protocol or another key.
    pub fn open(text: &str, settings: &Settings) -> Result<Arc<Self>> {
        let endpoint = Endpoint::parse(text)?;
        let limits = Limits { message: settings.connect, idle: settings.connect };
        let mut channel = Channel::connect(&endpoint.addresses()?, settings.connect, limits)?;
        let has_no_cache = greet(&mut channel, settings)?;
        channel.set_limits(Limits { message: settings.reply, idle: settings.reply });
        let receiver = Receiver { channel: channel.another()?, received: 0 };
        let sender = Sender { channel, waiting: Vec::new(), requested: 0, ahead: 0 };
        Ok(Arc::new(Self {
            endpoint: text.to_owned(),
            reply: settings.reply,
            sender: Mutex::new(sender),
            expected: Mutex::default(),
            receiver: Mutex::new(receiver),
            failure: OnceLock::new(),
            process: fork::generation(),
            graphs: Mutex::default(),
            offers: Mutex::new(Offers::new(!has_no_cache)),
        }))
    }

    /// Whether the connection has failed.
    pub fn is_lost(&self) -> bool {
        self.failure.get().is_some() || self.process != fork::generation()
    }

    /// An error if the connection has failed.
    ///
    /// # Errors
    /// It has.
    pub fn alive(&self) -> Result<()> {
        match self.failure.get() {
            Some(why) => Err(Error::Backend(format!("the RPC server {} was lost ({why})", self.endpoint))),
            None => Ok(()),
        }
    }

    /// Logs an error, unless it only says again that the connection has failed.
    pub fn complain(&self, e: &Error) {
        if !self.is_lost() {
            log_error!("RPC: {e}");
        }
    }

    /// Ends the connection: the server says what cannot be.
    pub fn distrust(&self, what: &str) -> Error {
        lock(&self.sender).channel.close();
        self.fail(&invalid!("it says {what}"))
    }

    /// Ends the connection. Only the first reason is kept, and logged.
    fn fail(&self, why: &Error) -> Error {
        if self.failure.set(why.to_string()).is_ok() {
            log_error!(
                "RPC: the server {} is lost: {why}. What it had is gone: free its buffers and backends, and create them again",
                self.endpoint
            );
        }
        self.alive().err().unwrap_or_else(|| invalid!("lost"))
    }

    /// What one thread does at a time. An error ends the connection.
    fn sending<T>(&self, act: impl FnOnce(&mut Sender) -> Result<T>) -> Result<T> {
        self.alive()?;
        let mut sender = lock(&self.sender);
        act(&mut sender).map_err(|e| {
            sender.channel.close();
            self.fail(&e)
        })
    }

    /// Sends a request that has no reply. `leave`: at once, with all that wait.
    pub fn post(&self, request: &Request, data: &[u8], leave: bool) -> Result<()> {
        self.settle()?;
        self.post_beside(request, data, leave)
    }

    /// As [`Self::post`], whatever is offered. Only `offers` knows what may be sent so.
    pub(super) fn post_beside(&self, request: &Request, data: &[u8], leave: bool) -> Result<()> {
        self.send(data.len(), |s| {
            request.write(data.len(), &mut s.waiting);
            s.add(data, leave)
        })
    }

    /// As [`Self::post`] for a graph. Which graphs the server has changes in the order of the requests.
    pub fn post_graph(&self, device: u32, uid: u64, describe: impl FnOnce() -> Result<Request>) -> Result<()> {
        self.alive()?;
        self.settle()?;
        let mut graphs = lock(&self.graphs);
        // A graph that cannot be described is no failure of the connection, and is not counted.
        let request = if graphs.has(device, uid) { Request::GraphRecompute { device, uid } } else { describe()? };
        graphs.has_or_will(device, uid);
        self.send(0, |s| {
            request.write(0, &mut s.waiting);
            s.add(&[], true)
        })
    }

    /// Frees a buffer.
    pub fn post_free(&self, buffer: u64) {
        if self.is_lost() || self.settle().is_err() {
            return;
        }
        let mut graphs = lock(&self.graphs);
        graphs.spoil();
        // If it fails, the server has freed everything.
        let _ = self.post_beside(&Request::FreeBuffer { buffer }, &[], true);
    }

    /// Sends something with `more` bytes of data. A server that cannot send its replies reads no requests, so replies
    /// are read first if more would be sent than it takes anyway.
    fn send(&self, more: usize, mut act: impl FnMut(&mut Sender) -> Result<()>) -> Result<()> {
        loop {
            // Only the holder of the sender's lock requests replies, so no request comes between this check and `act`.
            let first = self.sending(|s| {
                let is_free = s.ahead.saturating_add(more) < UNREAD || lock(&self.expected).is_empty();
                match is_free {
                    true => act(s).map(|()| None),
                    false => s.leave().map(|()| Some(s.requested)),
                }
            })?;
            match first {
                None => return Ok(()),
                Some(requested) => self.receive(requested, None)?,
            }
        }
    }

    fn request(&self, request: &Request, size: usize, target: Target) -> Result<u64> {
        self.sending(|s| {
            request.write(0, &mut s.waiting);
            // In the order in which requests leave: `sender` is locked.
            lock(&self.expected).push_back(Expected { size, target });
            s.requested += 1;
            Ok(s.requested)
        })
    }

    /// Queues a request whose reply of `size` bytes is read later. Every caller except `offers` settles all offers
    /// first; `offers` knows which requests may be sent before that.
    pub(super) fn ask(&self, request: &Request, size: usize) -> Result<Asked> {
        let slot = Arc::new(Slot::default());
        let number = self.request(request, size, Target::Slot(slot.clone()))?;
        Ok(Asked { number, slot })
    }

    /// Sends what waits to leave.
    pub(super) fn leave(&self) -> Result<()> {
        self.sending(Sender::leave)
    }

    /// Waits for a reply, which goes to `out`.
    pub(super) fn answer(&self, asked: &Asked, out: &mut [u8]) -> Result<()> {
        self.leave()?;
        self.receive(asked.number, Some((asked.number, out)))?;
        if let Some(bytes) = lock(&asked.slot.0).take() {
            out.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Sends a request, and waits for its reply of exactly `out.len()` bytes.
    pub fn call_into(&self, request: &Request, out: &mut [u8]) -> Result<()> {
        self.settle()?;
        self.answer(&self.ask(request, out.len())?, out)
    }

    /// As [`Self::call_into`] for a small reply.
    pub fn call<const N: usize>(&self, request: &Request) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.call_into(request, &mut out)?;
        Ok(out)
    }

    /// Sends a request for bytes that go to the host's memory; they are there when a later mark has been waited for.
    pub fn fetch(&self, request: &Request, mut target: HostTarget) -> Result<()> {
        let size = target.bytes().len();
        if let Err(e) = self.alive().and_then(|()| self.settle()) {
            mark_unread(&mut target);
            return Err(e);
        }
        self.request(request, size, Target::Host(target)).map(|_| ())
    }

    /// The present end of the requests; everything before it has left.
    pub fn mark(self: &Arc<Self>) -> Mark {
        let settled = self.settle();
        let requested = settled.and_then(|()| self.sending(|s| s.leave().map(|()| s.requested))).unwrap_or(u64::MAX);
        Mark { connection: self.clone(), requested }
    }

    /// Reads replies up to number `upto`. `mine`: the memory for one of them.
    fn receive(&self, upto: u64, mut mine: Option<(u64, &mut [u8])>) -> Result<()> {
        let mut r = lock(&self.receiver);
        while r.received < upto {
            if let Err(e) = self.alive() {
                self.give_up();
                return Err(e);
            }
            let Some(next) = lock(&self.expected).pop_front() else { break };
            let number = r.received + 1;
            let own = mine.as_mut().filter(|(wanted, _)| *wanted == number).map(|(_, out)| &mut **out);
            if let Err(e) = self.one(&mut r, next, own) {
                r.channel.close();
                let e = self.fail(&e);
                self.give_up();
                return Err(e);
            }
            r.received = number;
        }
        if lock(&self.expected).is_empty() {
            lock(&self.sender).ahead = 0;
        }
        Ok(())
    }

    fn one(&self, r: &mut Receiver, next: Expected, own: Option<&mut [u8]>) -> Result<()> {
        let mut next = next;
        let read = || {
            let size = r.channel.reply_size(self.reply)?;
            if size != next.size as u64 {
                return Err(invalid!("a reply of {size} bytes instead of {}", next.size));
            }
            match (&mut next.target, own) {
                (_, Some(out)) => r.channel.read(out, size),
                (Target::Slot(slot), None) => {
                    *lock(&slot.0) = Some(r.channel.read_vec(next.size)?);
                    Ok(())
                }
                (Target::Host(target), None) => r.channel.read(target.bytes(), size),
            }
        };
        let done = read();
        if done.is_err()
            && let Target::Host(target) = &mut next.target
        {
            mark_unread(target);
        }
        done
    }

    /// Replies that will not come: the host finds what marks bytes as not read.
    fn give_up(&self) {
        for mut expected in lock(&self.expected).drain(..) {
            if let Target::Host(target) = &mut expected.target {
                mark_unread(target);
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut sender = lock(&self.sender);
        if self.failure.get().is_none() {
            let _ = sender.leave();
        }
        sender.channel.close();
    }
}

impl Sender {
    /// Adds data to the request that waits.
    fn add(&mut self, data: &[u8], leave: bool) -> Result<()> {
        self.ahead = self.ahead.saturating_add(data.len());
        if data.len() <= TOGETHER {
            self.waiting.extend(data);
            return if leave || self.waiting.len() > TOGETHER { self.leave() } else { Ok(()) };
        }
        self.leave()?;
        self.channel.write(data)
    }

    fn leave(&mut self) -> Result<()> {
        self.ahead = self.ahead.saturating_add(self.waiting.len());
        if !self.waiting.is_empty() {
            self.channel.write(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

/// The host finds what marks bytes as not read, not what was in its memory before.
fn mark_unread(target: &mut HostTarget) {
    target.bytes().fill(NOT_READ);
}

/// The client's side of the first message. Returns whether the server says that it has no cache.
fn greet(channel: &mut Channel, settings: &Settings) -> Result<bool> {
    let ours = if settings.key.is_some() { key::caps()? } else { [0; CAPS] };
    let mut hello = Vec::new();
    Request::Hello { caps: ours }.write(0, &mut hello);
    channel.write(&hello)?;
    let mut reply = [0; 4 + CAPS];
    match channel.reply_size(settings.connect)? {
        size if size == reply.len() as u64 => channel.read(&mut reply, size)?,
        size => return Err(invalid!("a greeting of {size} bytes: this is no RPC server of ggml, or another version")),
    }
    let mut r = Reader::new(&reply);
    let ([major, minor, patch, cache], theirs) = (r.array()?, r.array::<CAPS>()?);
    if major != VERSION[0] || minor > VERSION[1] {
        let [a, b, c] = VERSION;
        return Err(invalid!(
            "it speaks version {major}.{minor}.{patch} of the protocol, and this library {a}.{b}.{c}"
        ));
    }
    let has_no_cache = cache == NO_CACHE;
    let Some(key) = &settings.key else {
        return match key::has_key(&theirs) {
            true => Err(invalid!("it wants a key: set GGML_RPC_KEY_FILE")),
            false => Ok(has_no_cache),
        };
    };
    if !key::has_key(&theirs) {
        return Err(invalid!("it does not have the key of GGML_RPC_KEY_FILE"));
    }
    channel.write(&key.proof(Role::Client, &ours, &theirs)?)?;
    let mut proof = [0; PROOF];
    let other = |_| invalid!("it has another key");
    channel.read(&mut proof, PROOF as u64).map_err(other)?;
    if key.is_proven(Role::Server, &ours, &theirs, &proof) { Ok(has_no_cache) } else { Err(other(invalid!(""))) }
}
