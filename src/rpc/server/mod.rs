//! Serving devices of this machine. `serve` accepts connections, and each has a thread with a `session` of its own: its buffers (`memory`), its
//! graphs (`graph`), its streams. Sessions share the budget of memory and the `cache` of weights, and nothing else.
//!
//! - `tensors`: descriptions become tensors of this process, if all about them is right
//! - `stream`: the streams of devices, with a limit of time for each graph
//! - `data`: what is written into tensors and read from them, in pieces as it comes

mod cache;
mod data;
mod graph;
mod memory;
mod session;
mod start;
mod stream;
mod tensors;

pub use cache::Cache;
pub use memory::Budget;
pub use start::start;
pub use stream::Deadline;

use super::transport::{Channel, Key, Limits, is_local};
use crate::backend::{BackendBox, DeviceRef};
use crate::error::{Error, Result};
use crate::guard::contained;
use crate::mutant;
use crate::sys::sync::lock;
use crate::sys::thread;
use crate::tensor::TensorRef;
use crate::{log_error, log_info, log_warn};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::Timed;

/// What a server allows.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of buffers and graphs of all clients together.
    pub memory: u64,
    /// Clients at once.
    pub connections: usize,
    /// Tensors of a graph.
    pub tensors: usize,
    /// Buffers of a client.
    pub buffers: usize,
    /// Time for a message, for the handshake, and between messages.
    pub message: Duration,
    /// Time for the handshake.
    pub handshake: Duration,
    /// Time between messages.
    pub idle: Duration,
    /// Time for a graph.
    pub graph: Duration,
    /// Secret that clients must have.
    pub key: Option<Key>,
}

impl Options {
    /// The defaults, with a limit of memory.
    pub fn new(memory: u64) -> Self {
        Self {
            memory,
            connections: 16,
            tensors: 1 << 18,
            buffers: 1 << 14,
            message: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(24 * 3600),
            graph: Duration::from_secs(600),
            key: None,
        }
    }
}

/// Opens a stream on a device, with the threads that the server was started with. The device's abort callback asks the deadline, which lives longer
/// than the stream.
pub type Open = Box<dyn Fn(DeviceRef, &Arc<Deadline>) -> Option<BackendBox> + Send + Sync>;

/// What all sessions share.
pub struct Host {
    devices: Vec<DeviceRef>,
    open: Open,
    /// Checks a node as the CPU backend does, without its memory.
    check: fn(TensorRef) -> Result<()>,
    options: Options,
    budget: Arc<Budget>,
    cache: Option<Cache>,
    sessions: AtomicUsize,
    /// Streams that sessions have left, by device: the next one takes them over.
    left: Mutex<Vec<(usize, Timed)>>,
}

impl Host {
    /// A server of these devices.
    pub fn new(
        devices: Vec<DeviceRef>,
        open: Open,
        check: fn(TensorRef) -> Result<()>,
        options: Options,
        cache: Option<Cache>,
    ) -> Arc<Self> {
        let budget = Budget::new(options.memory);
        let (sessions, left) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { devices, open, check, options, budget, cache, sessions, left })
    }

    /// Bytes that clients have at present.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.budget.used()
    }

    /// Clients at present.
    #[cfg(test)]
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }

    fn stream(&self, device: usize) -> Result<Timed> {
        let mut left = lock(&self.left);
        if let Some(at) = left.iter().position(|(d, _)| *d == device) {
            return Ok(left.swap_remove(at).1);
        }
        drop(left);
        let opened = Timed::open(|deadline| (self.open)(self.devices[device], deadline));
        opened.ok_or_else(|| Error::Backend(format!("the device {} cannot be opened", self.devices[device].name())))
    }

    /// Keeps a stream for the next session, one for each device.
    fn leave(&self, device: usize, stream: Timed) {
        let mut left = lock(&self.left);
        if left.iter().all(|(d, _)| *d != device) {
            left.push((device, stream));
        }
    }
}

/// Counts a session while it lives.
struct Place(Arc<Host>);

impl Place {
    fn take(host: &Arc<Host>) -> Option<Self> {
        let taken = host.sessions.fetch_add(1, Ordering::SeqCst) < host.options.connections;
        let place = Self(host.clone());
        (taken || mutant::on("RPC places")).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves clients until the listener fails.
///
/// # Errors
/// Why the listener fails.
pub fn serve(listener: &TcpListener, host: &Arc<Host>) -> Result<()> {
    let mut failures = 0;
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                failures = 0;
                admit(stream, peer, host);
            }
            // A client that has gone already, or no handle left: the next may have one.
            Err(e) if failures < 100 => {
                failures += 1;
                log_warn!("RPC server: accepting a client: {e}");
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(source) => return Err(Error::Io { what: "accepting clients".into(), source }),
        }
    }
}

fn admit(stream: TcpStream, peer: SocketAddr, host: &Arc<Host>) {
    let Some(place) = Place::take(host) else {
        log_warn!("RPC server: {peer} is turned away: {} clients are connected", host.options.connections);
        return;
    };
    let spawned = thread::builder().name("ggml-rpc".into()).spawn(move || {
        let ended = contained(|| attend(stream, peer, &place.0)).unwrap_or_else(|text| Err(Error::Backend(text)));
        match ended {
            Ok(()) => log_info!("RPC server: {peer} has left"),
            Err(e) => log_error!("RPC server: {peer}: {e}; the connection is closed"),
        }
    });
    if let Err(e) = spawned {
        log_error!("RPC server: {peer} is turned away: no thread for it: {e}");
    }
}

fn attend(stream: TcpStream, peer: SocketAddr, host: &Arc<Host>) -> Result<()> {
    // Of other machines, only the address of each is known: who stays silent makes no line for every attempt.
    let limits = Limits { message: host.options.handshake, idle: host.options.handshake };
    let mut channel = Channel::new(stream, limits)?;
    session::greet(&mut channel, host.options.key.as_ref(), host.cache.is_some())?;
    channel.set_limits(Limits { message: host.options.message, idle: host.options.idle });
    log_info!("RPC server: {peer} is connected{}", if is_local(&peer) { "" } else { " from another machine" });
    let mut session = session::Session::new(host.clone(), channel);
    let ended = session.run();
    session.channel.close();
    ended
}
