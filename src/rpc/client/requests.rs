//! Requests in order on one connection, and their replies. Any thread sends requests. A thread that needs a reply reads
//! all replies up to its own. So a request without a reply costs a write; one with a reply costs a write and a read on
//! the thread that sent it.
//!
//! Small requests wait for each other and are sent together: with the next graph, with the next request whose reply is
//! needed, and at the latest when the stream is synchronised.
//!
//! After the first failure nothing more is sent or read.
#![forbid(unsafe_code)]

use crate::backend::author::{HostTarget, NOT_READ};
use crate::error::{Error, Result, invalid};
use crate::log_error;
use crate::rpc::protocol::Request;
use crate::rpc::transport::Channel;
use crate::sys::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Requests that wait to leave together, in bytes.
const TOGETHER: usize = 32 << 10;
/// Bytes that may be sent while replies wait to be read. A server that cannot send its replies reads no requests.
const UNREAD: usize = 64 << 10;

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

/// A request whose reply is read later.
pub struct Asked {
    number: u64,
    slot: Arc<Slot>,
}

/// The requests of a connection.
pub struct Requests {
    endpoint: String,
    reply: Duration,
    sender: Mutex<Sender>,
    expected: Mutex<VecDeque<Expected>>,
    receiver: Mutex<Receiver>,
    failure: OnceLock<String>,
}

impl Requests {
    /// Those on a channel to a server that was greeted. `reply`: the time for a reply.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn new(endpoint: &str, channel: Channel, reply: Duration) -> Result<Self> {
        let receiver = Receiver { channel: channel.another()?, received: 0 };
        let sender = Sender { channel, waiting: Vec::new(), requested: 0, ahead: 0 };
        Ok(Self {
            endpoint: endpoint.to_owned(),
            reply,
            sender: Mutex::new(sender),
            expected: Mutex::default(),
            receiver: Mutex::new(receiver),
            failure: OnceLock::new(),
        })
    }

    /// Whether the connection has failed.
    pub fn have_failed(&self) -> bool {
        self.failure.get().is_some()
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
        self.send(data.len(), |s| {
            request.write(data.len(), &mut s.waiting);
            s.add(data, leave)
        })
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

    /// Queues a request whose reply of `size` bytes is read later.
    pub fn ask(&self, request: &Request, size: usize) -> Result<Asked> {
        let slot = Arc::new(Slot::default());
        let number = self.request(request, size, Target::Slot(slot.clone()))?;
        Ok(Asked { number, slot })
    }

    /// Sends what waits to leave.
    pub fn leave(&self) -> Result<()> {
        self.sending(Sender::leave)
    }

    /// Waits for a reply, which goes to `out`.
    pub fn answer(&self, asked: &Asked, out: &mut [u8]) -> Result<()> {
        self.leave()?;
        self.receive(asked.number, Some((asked.number, out)))?;
        if let Some(bytes) = lock(&asked.slot.0).take() {
            out.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Sends a request for bytes that go to the host's memory.
    pub fn fetch(&self, request: &Request, mut target: HostTarget) -> Result<()> {
        let size = target.bytes().len();
        self.request(request, size, Target::Host(target)).map(|_| ())
    }

    /// Sends what waits to leave. Returns the number of replies that were requested.
    pub fn requested(&self) -> Result<u64> {
        self.sending(|s| s.leave().map(|()| s.requested))
    }

    /// Reads replies up to number `upto`. `mine`: the memory for one of them.
    pub fn receive(&self, upto: u64, mut mine: Option<(u64, &mut [u8])>) -> Result<()> {
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

impl Drop for Requests {
    fn drop(&mut self) {
        let mut sender = lock(&self.sender);
        if !self.have_failed() {
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
pub fn mark_unread(target: &mut HostTarget) {
    target.bytes().fill(NOT_READ);
}
