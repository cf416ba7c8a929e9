//! The settings with which a scheduler was made, and those that its host has set since.

use super::callbacks::{CopyWeights, Eval};
use crate::abi::backend::ggml_backend_dev_type;
use crate::backend::{BackendRef, BufferTypeRef};
use crate::environment;
use crate::ggml_assert;
use std::cell::Cell;
use std::path::PathBuf;

/// Backends a scheduler can have.
pub const MAX_BACKENDS: usize = 16;
/// Copies that a pipelining scheduler keeps of each input.
pub const MAX_COPIES: usize = 4;

/// The settings.
pub struct Settings {
    /// In the order of their priority, the last one a CPU.
    pub backends: Vec<BackendRef>,
    /// The buffer type that each computes in.
    pub bufts: Vec<BufferTypeRef>,
    /// Copies of each input: more than one for a pipelining scheduler.
    pub n_copies: usize,
    /// Whether a backend may take a node although its weights are in host memory.
    pub op_offload: bool,
    /// Some backend reorders its splits.
    pub reorders: bool,
    /// `GGML_SCHED_DEBUG`.
    pub debug: i32,
    /// `GGML_SCHED_DEBUG_REALLOC`.
    pub debug_realloc: i32,
    /// When it was made, for reports.
    pub made: String,
    /// The file of the placement report that the environment requests.
    pub report_path: Option<PathBuf>,
    /// The callback that observes the nodes.
    pub eval: Cell<Eval>,
    /// The callback that copies weights instead of the scheduler.
    pub copies_weights: Cell<CopyWeights>,
}

impl Settings {
    /// As the host gave them (the contract), and the environment.
    pub fn new(backends: &[BackendRef], bufts: Option<&[BufferTypeRef]>, parallel: bool, op_offload: bool) -> Self {
        ggml_assert!(!backends.is_empty() && backends.len() <= MAX_BACKENDS, "{} backends", backends.len());
        let last = backends[backends.len() - 1].device();
        ggml_assert!(
            last.kind() == Some(ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU),
            "the last backend of a scheduler must be a CPU, not {}",
            last.name()
        );
        let bufts = match bufts {
            Some(bufts) => bufts.to_vec(),
            None => backends.iter().map(|b| b.default_buffer_type()).collect(),
        };
        ggml_assert!(bufts.len() == backends.len());
        for (backend, &buft) in std::iter::zip(backends, &bufts) {
            ggml_assert!(backend.supports_buft(buft), "{} cannot use buffers of {}", backend.name(), buft.name());
        }
        Self {
            backends: backends.to_vec(),
            bufts,
            n_copies: if parallel { MAX_COPIES } else { 1 },
            op_offload,
            reorders: backends.iter().any(|b| b.has_graph_optimize()),
            debug: environment::SCHED_DEBUG.leading_number(),
            debug_realloc: environment::SCHED_DEBUG_REALLOC.leading_number(),
            made: crate::sys::time::utc(),
            report_path: environment::SCHED_REPORT.filled().map(PathBuf::from),
            eval: Cell::default(),
            copies_weights: Cell::default(),
        }
    }

    /// Whether experts may be held on devices: no function of the host looks at single nodes. The host's function for
    /// copies of weights does not matter, because there are no copies then.
    pub fn may_hold(&self) -> bool {
        self.op_offload && self.eval.get().callback.is_none()
    }
}
