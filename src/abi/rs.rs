//! ggml-rs.h: what this library has beyond the original's interface.

use libggml_macros::Numbered;
use std::ffi::c_char;

/// Digest of the layouts and enum values that the library shares with hosts and modules, whatever `GGML_MAX_NAME` is.
/// Two libraries with the same digest and the same `GGML_MAX_NAME` may be exchanged under compiled code, as far as data
/// goes.
pub const GGML_RS_ABI_DIGEST: u64 = 0x1488_685f_fea3_d7a2;

/// What a host can ask before it passes structs: which library this is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ggml_rs_abi {
    /// Bytes of this struct in the library; later versions may append fields.
    pub size: usize,
    /// The digest, to be compared with `GGML_RS_ABI_DIGEST` of the header that the host was compiled with.
    pub digest: u64,
    /// Bytes of a tensor's name, to be compared with `GGML_MAX_NAME`.
    pub max_name: usize,
    /// The version, such as "0.28.0".
    pub version: *const c_char,
    /// Names of the built-in backends, with spaces between them, whether or not they find a device here.
    pub backends: *const c_char,
}

// SAFETY: the texts are constants.
unsafe impl Sync for ggml_rs_abi {}

/// What happens when a caller breaks the contract.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_rs_policy {
    /// The process ends, after the callback of `ggml_set_abort_callback`: what the original does.
    GGML_RS_POLICY_ABORT = 0,
    /// The function that was called fails: NULL, false, 0, `GGML_STATUS_FAILED`, or nothing for a function without a
    /// result.
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
