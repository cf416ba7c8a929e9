//! What the sessions of a server share: its devices, the memory that clients may have, and the streams that sessions
//! have left.
#![forbid(unsafe_code)]

use super::cache::Cache;
use super::memory::Budget;
use super::options::Options;
use super::places::Places;
use super::stream::{Deadline, Timed};
use crate::backend::{BackendBox, DeviceRef};
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use std::sync::{Arc, Mutex};

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
    pub(super) devices: Vec<DeviceRef>,
    open: Open,
    pub(super) checks: Checks,
    pub(super) options: Options,
    pub(super) budget: Arc<Budget>,
    /// What of it buffers may have: some is left for the work on graphs.
    pub(super) memory: Arc<Budget>,
    pub(super) cache: Option<Cache>,
    pub(super) places: Arc<Places>,
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

    /// A stream on a device: one that a session has left, or a new one.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn stream(&self, device: usize) -> Result<Timed> {
        let mut left = lock(&self.left);
        if let Some(at) = left.iter().position(|(d, _)| *d == device) {
            return Ok(left.swap_remove(at).1);
        }
        drop(left);
        let opened = Timed::open(|deadline| (self.open)(self.devices[device], deadline));
        opened.ok_or_else(|| Error::Backend(format!("the device {} cannot be opened", self.devices[device].name())))
    }

    /// Keeps a stream for the next session, one for each device, unless it has much memory for its work.
    pub fn leave(&self, device: usize, stream: Timed, scratch: u64) {
        stream.leave();
        let mut left = lock(&self.left);
        if scratch <= LEFT && left.iter().all(|(d, _)| *d != device) {
            left.push((device, stream));
        }
    }
}
