//! The streams that graphs are computed on, with a limit of time for each graph.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_status;
use crate::backend::BackendBox;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When the graph of a stream must have ended. The device's abort callback asks.
pub struct Deadline {
    start: Instant,
    /// Milliseconds after `start`.
    end: AtomicU64,
}

impl Default for Deadline {
    fn default() -> Self {
        Self { start: Instant::now(), end: AtomicU64::new(u64::MAX) }
    }
}

impl Deadline {
    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.start.elapsed().as_millis() >= u128::from(self.end.load(Ordering::Relaxed))
    }

    fn set(&self, limit: Duration) {
        let end = self.start.elapsed().saturating_add(limit).as_millis();
        self.end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A stream, whose device asks the deadline. Fields are dropped in their order: nobody asks a deadline that is gone.
pub struct Timed {
    /// The stream.
    pub backend: BackendBox,
    deadline: Arc<Deadline>,
}

impl Timed {
    /// Opens a stream with `open`, which gets the deadline that the device's abort callback has to ask.
    pub fn open(open: impl FnOnce(&Arc<Deadline>) -> Option<BackendBox>) -> Option<Self> {
        let deadline = Arc::default();
        open(&deadline).map(|backend| Self { backend, deadline })
    }

    /// Computes a graph, or queues it.
    ///
    /// # Errors
    /// The device fails, or is not done within `limit`.
    pub fn compute(&self, graph: GraphRef, limit: Duration) -> Result<()> {
        self.deadline.set(limit);
        match self.backend.graph_compute_async(graph) {
            ggml_status::GGML_STATUS_SUCCESS => Ok(()),
            status => {
                self.backend.synchronize();
                Err(Error::Backend(match self.deadline.is_over() {
                    true => format!("a graph takes longer than {limit:?} and was stopped"),
                    false => format!("a graph was not computed ({status:?})"),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_when_its_time_is() {
        let d = Deadline::default();
        assert!(!d.is_over());
        d.set(Duration::MAX);
        assert!(!d.is_over());
        d.set(Duration::ZERO);
        assert!(d.is_over());
        d.set(Duration::from_secs(3600));
        assert!(!d.is_over());
    }
}
