//! Threads and scratch memory that computing a graph needs.
#![forbid(unsafe_code)]

use super::check::is_live;
use super::worker::Scratch;
use super::{check, table};
use crate::abi::ggml::GGML_MAX_N_THREADS;
use crate::tensor::TensorRef;

/// Needs of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of useful threads, at most the requested number. A computation starts no more than GGML_MAX_N_THREADS of
    /// them.
    pub n_threads: usize,
    /// Bytes of aligned scratch memory.
    pub scratch: usize,
}

impl Plan {
    /// The needs of nodes with at most `n_threads` threads. Nodes that are not supported need nothing.
    pub fn of(nodes: impl Iterator<Item = TensorRef>, n_threads: usize) -> Self {
        let mut plan = Self { n_threads: 1, scratch: 0 };
        // As many as `Steps` can have. The plan names the requested number, as hosts expect.
        let most = n_threads.min(GGML_MAX_N_THREADS);
        for node in nodes.filter(|&n| is_live(n)) {
            let Some(row) = table::row(node).filter(|r| r.kernel.is_some()) else { continue };
            if node.is_empty() {
                continue;
            }
            if row.is_wide(node) {
                plan.n_threads = n_threads;
            }
            if let Some(f) = row.scratch.filter(|_| check::supported(node).is_ok()) {
                plan.scratch = plan.scratch.max(f(node, most));
            }
        }
        plan
    }

    /// Bytes of scratch memory to allocate, including padding for alignment.
    pub fn work_size(&self) -> usize {
        Scratch::bytes_to_hold(self.scratch)
    }
}
