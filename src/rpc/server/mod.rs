//! Serving devices of this machine. `serve` accepts connections, and each has a thread with a `session` of its own: its
//! buffers (`memory`), its graphs (`graph`), its streams. Sessions share the budget of memory and the `cache` of
//! weights, and nothing else.
//!
//! - `places`: which connections there are, and which of them give way when there are too many
//! - `tensors`: checks descriptions of tensors, and makes tensors of this process from them
//! - `stream`: the streams of devices, with a limit of time for each graph
//! - `data`: what is written into tensors and read from them, in pieces as it comes

mod cache;
mod data;
mod graph;
mod memory;
mod places;
mod session;
mod start;
mod stream;
mod tensors;

pub use cache::Cache;
pub use memory::Budget;
pub use places::Patience;
pub use start::start;
pub use stream::Deadline;

use super::transport::{Channel, Key, Limits, is_local};
use crate::backend::{BackendBox, DeviceRef};
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::guard::contained;
use crate::sys::sync::lock;
use crate::sys::thread;
use crate::tensor::TensorRef;
use crate::{log_debug, log_error, log_info, log_warn};
use places::{Place, Places};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::Timed;

/// What a server allows.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of all clients together: of buffers, and of what `client_work` counts.
    pub memory: u64,
    /// Bytes of it that one client may have in buffers.
    pub client_memory: u64,
    /// Bytes of it that one client may have besides, for messages, graphs and the work memory of graphs.
    pub client_work: u64,
    /// Clients at once.
    pub connections: usize,
    /// Clients at once from one address; `None`: three quarters of all.
    pub per_address: Option<usize>,
    /// When clients give way to new ones.
    pub patience: Patience,
    /// Tensors of a graph.
    pub tensors: usize,
    /// Buffers of a client.
    pub buffers: usize,
    /// Time for a message.
    pub message: Duration,
    /// Time for the handshake.
    pub handshake: Duration,
    /// Time between messages.
    pub idle: Duration,
    /// Time for a graph, or for all that is sent ahead.
    pub graph: Duration,
    /// Secret that clients must have.
    pub key: Option<Key>,
}

impl Options {
    /// The defaults, with a limit of memory.
    pub fn new(memory: u64) -> Self {
        Self {
            memory,
            client_memory: memory,
            client_work: (memory / 8).max(512 << 20),
            connections: 16,
            per_address: None,
            patience: Patience { empty: Duration::from_secs(10), unused: Duration::from_secs(600) },
            tensors: 1 << 18,
            buffers: 1 << 14,
            message: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(24 * 3600),
            graph: Duration::from_secs(600),
            key: None,
        }
    }

    fn of_one_address(&self) -> usize {
        self.per_address.unwrap_or(self.connections - self.connections / 4)
    }
}

/// Opens a stream on a device, with the threads that the server was started with. The device's abort callback queries
/// the deadline, which lives longer than the stream.
pub type Open = Box<dyn Fn(DeviceRef, &Arc<Deadline>) -> Option<BackendBox> + Send + Sync>;

/// What the server needs to know about graphs from the backends.
pub struct Checks {
    /// Checks a node as the CPU backend does, without its memory.
    pub node: fn(TensorRef) -> Result<()>,
    /// Bytes that a stream of the device takes for its work on a graph.
    pub scratch: Box<dyn Fn(DeviceRef, GraphRef) -> u64 + Send + Sync>,
}

/// Bytes of work memory with which a stream is kept for the next session.
const LEFT: u64 = 64 << 20;

/// What all sessions share.
pub struct Host {
    devices: Vec<DeviceRef>,
    open: Open,
    checks: Checks,
    options: Options,
    budget: Arc<Budget>,
    /// What of it buffers may have: some is left for the work on graphs.
    memory: Arc<Budget>,
    cache: Option<Cache>,
    places: Arc<Places>,
    /// Streams that sessions have left, by device: the next one takes them over.
    left: Mutex<Vec<(usize, Timed)>>,
}

impl Host {
    /// A server of these devices.
    pub fn new(
        devices: Vec<DeviceRef>,
        open: Open,
        checks: Checks,
        options: Options,
        cache: Option<Cache>,
    ) -> Arc<Self> {
        let budget = Budget::new(options.memory);
        // Clients whose buffers have all the memory can still compute.
        let for_work = options.client_work.min(options.memory / 32);
        let memory = budget.part(options.memory - for_work, "buffers of all clients (--memory)");
        let places = Places::new(options.connections, options.of_one_address(), options.patience);
        Arc::new(Self { devices, open, checks, options, budget, memory, cache, places, left: Mutex::default() })
    }

    /// Bytes that clients have at present.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.budget.used()
    }

    /// Connections at present.
    #[cfg(test)]
    pub fn sessions(&self) -> usize {
        self.places.taken()
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

    /// Keeps a stream for the next session, one for each device, unless it has much memory for its work.
    fn leave(&self, device: usize, stream: Timed, scratch: u64) {
        stream.leave();
        let mut left = lock(&self.left);
        if scratch <= LEFT && left.iter().all(|(d, _)| *d != device) {
            left.push((device, stream));
        }
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
    let place = match host.places.enter(&stream, peer) {
        Ok(place) => Arc::new(place),
        Err(e) => {
            log_error!("RPC server: {peer} is turned away: {e}");
            return;
        }
    };
    let host = host.clone();
    let spawned = thread::builder().name("ggml-rpc".into()).spawn(move || {
        let attended = contained(|| attend(stream, peer, &place, &host));
        match attended.unwrap_or_else(|text| Err(Error::Backend(text))) {
            // Logged for debugging only: many connections may give way before they have greeted.
            _ if place.gave_way() => log_debug!("RPC server: {peer} has given way"),
            Ok(()) => log_info!("RPC server: {peer} has left"),
            Err(e) => log_error!("RPC server: {peer}: {e}; the connection is closed"),
        }
    });
    if let Err(e) = spawned {
        log_error!("RPC server: {peer} is turned away: no thread for it: {e}");
    }
}

fn attend(stream: TcpStream, peer: SocketAddr, place: &Arc<Place>, host: &Arc<Host>) -> Result<()> {
    // The log line for a connection follows the greeting: before it, only the address of the other end is known.
    let limits = Limits { message: host.options.handshake, idle: host.options.handshake };
    let mut channel = Channel::new(stream, limits)?;
    session::greet(&mut channel, host.options.key.as_ref(), host.cache.is_some(), || place.greeted())?;
    channel.set_limits(Limits { message: host.options.message, idle: host.options.idle });
    log_info!("RPC server: {peer} is connected{}", if is_local(&peer) { "" } else { " from another machine" });
    let mut session = session::Session::new(host.clone(), channel, place.clone());
    let mut ended = session.run();
    if let Err(e) = &ended
        && place.watch().is_gone()
    {
        log_info!("RPC server: {peer}: {e}");
        ended = Ok(());
    }
    session.channel.close();
    ended
}
