//! What computing a graph needs: threads and scratch memory.
#![forbid(unsafe_code)]

use super::exec::is_live;
use super::exec::worker::Scratch;
use super::{check, table};
use crate::tensor::TensorRef;

/// Needs of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Threads that are of use, at most those asked for.
    pub n_threads: usize,
    /// Bytes of scratch memory, aligned.
    pub scratch: usize,
}

impl Plan {
    /// The needs of nodes when at most `n_threads` threads may be used. Nodes that cannot be computed need nothing.
    pub fn of(nodes: impl Iterator<Item = TensorRef>, n_threads: usize) -> Self {
        let mut plan = Self { n_threads: 1, scratch: 0 };
        for node in nodes.filter(|&n| is_live(n)) {
            let Some(row) = table::row(node).filter(|r| r.kernel.is_some()) else { continue };
            if node.is_empty() {
                continue;
            }
            if row.is_wide(node) {
                plan.n_threads = n_threads;
            }
            if let Some(f) = row.scratch.filter(|_| check::supported(node).is_ok()) {
                plan.scratch = plan.scratch.max(f(node, n_threads));
            }
        }
        plan
    }

    /// Bytes to ask for, so that the aligned part is large enough wherever they lie.
    pub fn work_size(&self) -> usize {
        Scratch::bytes_to_hold(self.scratch)
    }
}
