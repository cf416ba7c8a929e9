//! One connection to a server: its requests, the graphs that the server has, and the weights that are offered to it.
//! Weights that were offered to the server, and are not answered yet, come before any other request (`offers`).
//!
//! After the first failure a connection does nothing more. The next use of its server makes a new one.
#![forbid(unsafe_code)]

use super::graphs::Graphs;
use super::offers::{self, Offers};
use super::requests::{Requests, mark_unread};
use crate::backend::author::HostTarget;
use crate::error::{Error, Result, invalid};
use crate::log_error;
use crate::rpc::protocol::{CAPS, NO_CACHE, Reader, Request, VERSION, WireTensor};
use crate::rpc::transport::key::{self, PROOF, Role};
use crate::rpc::transport::{Channel, Endpoint, Key, Limits};
use crate::sys::fork;
use crate::sys::sync::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// A connection.
pub struct Connection {
    requests: Requests,
    /// The process that uses it: one that is forked from it makes its own.
    process: u32,
    /// Graphs that the server has.
    graphs: Mutex<Graphs>,
    /// Which weights are offered by their hash.
    offers: Mutex<Offers>,
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
        let _ = self.connection.requests.receive(self.requested, None);
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
        Ok(Arc::new(Self {
            requests: Requests::new(text, channel, settings.reply)?,
            process: fork::generation(),
            graphs: Mutex::default(),
            offers: Mutex::new(Offers::new(!has_no_cache)),
        }))
    }

    /// Whether the connection has failed.
    pub fn is_lost(&self) -> bool {
        self.requests.have_failed() || self.process != fork::generation()
    }

    /// An error if the connection has failed.
    ///
    /// # Errors
    /// It has.
    pub fn alive(&self) -> Result<()> {
        self.requests.alive()
    }

    /// Logs an error, unless it only says again that the connection has failed.
    pub fn complain(&self, e: &Error) {
        if !self.is_lost() {
            log_error!("RPC: {e}");
        }
    }

    /// Ends the connection: the server says what cannot be.
    pub fn distrust(&self, what: &str) -> Error {
        self.requests.distrust(what)
    }

    /// Waits until all that was offered is in the server's tensors.
    fn settle(&self) -> Result<()> {
        lock(&self.offers).settle(&self.requests)
    }

    /// Sends weights, unless the server has them on disk.
    pub fn send_weights(&self, tensor: WireTensor, data: &[u8], offset: u64) -> Result<()> {
        offers::send(&self.offers, &self.requests, tensor, data, offset)
    }

    /// Sends a request that has no reply. `leave`: at once, with all that wait.
    pub fn post(&self, request: &Request, data: &[u8], leave: bool) -> Result<()> {
        self.settle()?;
        self.requests.post(request, data, leave)
    }

    /// As [`Self::post`] for a graph. Which graphs the server has changes in the order of the requests.
    pub fn post_graph(&self, device: u32, uid: u64, describe: impl FnOnce() -> Result<Request>) -> Result<()> {
        self.alive()?;
        self.settle()?;
        let mut graphs = lock(&self.graphs);
        // A graph that cannot be described is no failure of the connection, and is not counted.
        let request = if graphs.has(device, uid) { Request::GraphRecompute { device, uid } } else { describe()? };
        graphs.contains_or_insert(device, uid);
        self.requests.post(&request, &[], true)
    }

    /// Frees a buffer.
    pub fn post_free(&self, buffer: u64) {
        if self.is_lost() || self.settle().is_err() {
            return;
        }
        let mut graphs = lock(&self.graphs);
        graphs.spoil();
        // If it fails, the server has freed everything.
        let _ = self.requests.post(&Request::FreeBuffer { buffer }, &[], true);
    }

    /// Sends a request, and waits for its reply of exactly `out.len()` bytes.
    pub fn call_into(&self, request: &Request, out: &mut [u8]) -> Result<()> {
        self.settle()?;
        self.requests.answer(&self.requests.ask(request, out.len())?, out)
    }

    /// As [`Self::call_into`] for a small reply.
    pub fn call<const N: usize>(&self, request: &Request) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.call_into(request, &mut out)?;
        Ok(out)
    }

    /// Sends a request for bytes that go to the host's memory; they are there when a later mark has been waited for.
    pub fn fetch(&self, request: &Request, mut target: HostTarget) -> Result<()> {
        if let Err(e) = self.alive().and_then(|()| self.settle()) {
            mark_unread(&mut target);
            return Err(e);
        }
        self.requests.fetch(request, target)
    }

    /// The present end of the requests; everything before it has left.
    pub fn mark(self: &Arc<Self>) -> Mark {
        let settled = self.settle();
        let requested = settled.and_then(|()| self.requests.requested()).unwrap_or(u64::MAX);
        Mark { connection: self.clone(), requested }
    }
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
