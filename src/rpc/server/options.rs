//! What a server allows.
#![forbid(unsafe_code)]

use super::places::Patience;
use crate::rpc::transport::Key;
use std::time::Duration;

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

    /// Clients at once from one address.
    pub fn of_one_address(&self) -> usize {
        self.per_address.unwrap_or(self.connections - self.connections / 4)
    }
}
