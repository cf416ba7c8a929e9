//! The streams that graphs are computed on. A graph ends when its time is over, and when its client has left.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_status;
use crate::backend::BackendBox;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::rpc::transport::Watch;
use crate::sys::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Milliseconds between two looks at a client's connection.
const LOOK: u64 = 20;

/// The time at which the graph of a stream must have ended. The device's abort callback queries it.
pub struct Deadline {
    start: Instant,
    /// Milliseconds after `start`.
    end: AtomicU64,
    /// The connection of the client that the graph is computed for.
    client: Mutex<Option<Arc<Watch>>>,
    /// When the connection is looked at again, in milliseconds after `start`.
    look: AtomicU64,
    left: AtomicBool,
}

impl Default for Deadline {
    fn default() -> Self {
        let (end, look, left) = (AtomicU64::new(u64::MAX), AtomicU64::new(0), AtomicBool::new(false));
        Self { start: Instant::now(), end, client: Mutex::default(), look, left }
    }
}

impl Deadline {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the time is over, or the client has left.
    pub fn is_over(&self) -> bool {
        let now = self.now();
        now >= self.end.load(Ordering::Relaxed) || self.has_left(now)
    }

    fn has_left(&self, now: u64) -> bool {
        if self.left.load(Ordering::Relaxed) {
            return true;
        }
        let look = self.look.load(Ordering::Relaxed);
        let turn = || self.look.compare_exchange(look, now + LOOK, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now < look || !turn() {
            return false;
        }
        let left = lock(&self.client).as_ref().is_some_and(|client| client.is_gone());
        if left {
            self.left.store(true, Ordering::Relaxed);
        }
        left
    }

    fn set(&self, limit: Duration, client: Option<&Arc<Watch>>) {
        let end = self.start.elapsed().saturating_add(limit).as_millis();
        self.end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
        *lock(&self.client) = client.cloned();
        self.left.store(false, Ordering::Relaxed);
        self.look.store(0, Ordering::Relaxed);
    }
}

/// A stream, whose device queries the deadline. Fields are dropped in their order, so the deadline outlives the stream.
pub struct Timed {
    /// The stream.
    pub backend: BackendBox,
    deadline: Arc<Deadline>,
}

impl Timed {
    /// Opens a stream with `open`, which gets the deadline that the device's abort callback must query.
    pub fn open(open: impl FnOnce(&Arc<Deadline>) -> Option<BackendBox>) -> Option<Self> {
        let deadline = Arc::default();
        open(&deadline).map(|backend| Self { backend, deadline })
    }

    /// Forgets the client, so that another may use the stream.
    pub fn leave(&self) {
        self.deadline.set(Duration::MAX, None);
    }

    /// Computes a graph, or queues it.
    ///
    /// # Errors
    /// The device fails, is not done within `limit`, or `client` leaves.
    pub fn compute(&self, graph: GraphRef, limit: Duration, client: &Arc<Watch>) -> Result<()> {
        self.deadline.set(limit, Some(client));
        match self.backend.graph_compute_async(graph) {
            ggml_status::GGML_STATUS_SUCCESS => Ok(()),
            status => {
                self.backend.synchronize();
                let d = &self.deadline;
                Err(Error::Backend(match d.is_over() {
                    true if d.left.load(Ordering::Relaxed) => "it has left while a graph was computed".into(),
                    true => {
                        format!("a graph was stopped after {limit:?} (--graph-time, which counts what is sent ahead)")
                    }
                    false => format!("a graph was not computed ({status:?})"),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_deadline_is_over_when_its_time_is() {
        let d = Deadline::default();
        assert!(!d.is_over());
        d.set(Duration::MAX, None);
        assert!(!d.is_over());
        d.set(Duration::ZERO, None);
        assert!(d.is_over());
        d.set(Duration::from_secs(3600), None);
        assert!(!d.is_over());
    }

    #[test]
    fn a_deadline_is_over_when_the_client_leaves() {
        if !crate::sys::net::SEES_ENDS {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (d, hour) = (Deadline::default(), Duration::from_secs(3600));
        let come = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = come();
        let watch = Arc::new(Watch::of(&listener.accept().unwrap().0).unwrap());
        d.set(hour, Some(&watch));
        assert!(!d.is_over());
        drop(client);
        let start = Instant::now();
        while !d.is_over() {
            assert!(start.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(5));
        }
        // The next client is another one.
        let other = come();
        let watch = Arc::new(Watch::of(&listener.accept().unwrap().0).unwrap());
        d.set(hour, Some(&watch));
        assert!(!d.is_over());
        drop(other);
    }
}
