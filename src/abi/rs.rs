//! ggml-rs.h: what this library has beyond the original's interface.

use libggml_macros::Numbered;

/// What happens when a caller breaks the contract.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_rs_policy {
    /// The process ends, after the callback of `ggml_set_abort_callback`: what the original does.
    GGML_RS_POLICY_ABORT = 0,
    /// The function that was called fails: NULL, false, 0, `GGML_STATUS_FAILED`, or nothing for a function without a result.
    GGML_RS_POLICY_ERROR = 1,
}

/// How a report is written.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_rs_format {
    /// For programs.
    GGML_RS_FORMAT_JSON = 0,
    /// For people: one page that needs nothing else.
    GGML_RS_FORMAT_HTML = 1,
}

/// Why a node runs on the CPU although the scheduler has an accelerator.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_rs_fallback_cause {
    /// No accelerator can compute it: the operation, a type or a shape is not supported there.
    GGML_RS_FALLBACK_UNSUPPORTED = 0,
    /// A weight that it reads, or its own memory, lies where only the CPU reads it.
    GGML_RS_FALLBACK_MEMORY = 1,
    /// The host placed it with `ggml_backend_sched_set_tensor_backend`.
    GGML_RS_FALLBACK_HOST = 2,
    /// Nodes beside it are on the CPU.
    GGML_RS_FALLBACK_NEIGHBOURS = 3,
}

/// A node that runs on the CPU although the scheduler has an accelerator.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_rs_fallback {
    /// The node.
    pub node: *mut super::ggml::ggml_tensor,
    /// Why.
    pub cause: ggml_rs_fallback_cause,
    /// The same for people, in one line.
    pub reason: [std::ffi::c_char; 256],
}
