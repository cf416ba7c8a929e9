//! ggml-rs.h: what this library has beyond the original's interface.

use libggml_macros::Numbered;
use std::ffi::c_char;

/// Digest of the layouts and enum values that the library shares with hosts and modules, whatever `GGML_MAX_NAME` is.
/// Two libraries with the same digest and the same `GGML_MAX_NAME` have the same data layouts for compiled code.
pub const GGML_RS_ABI_DIGEST: u64 = 0x1488_685f_fea3_d7a2;

/// Describes the library, so that a host can check it before it passes structs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ggml_rs_abi {
    /// Size of this struct in the library. Later versions may append members.
    pub size: usize,
    /// Digest of the interface. Compare it with `GGML_RS_ABI_DIGEST` of the header that the host was compiled with.
    pub digest: u64,
    /// Size in bytes of a tensor's name. Compare it with `GGML_MAX_NAME`.
    pub max_name: usize,
    /// Version, such as "0.28.0".
    pub version: *const c_char,
    /// Names of the built-in backends, separated by spaces, whether or not they find a device.
    pub backends: *const c_char,
}

// SAFETY: the texts are constants.
unsafe impl Sync for ggml_rs_abi {}

/// What happens when the caller breaks a contract.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_rs_policy {
    /// The process aborts, after the callback of `ggml_set_abort_callback`, as with the original.
    GGML_RS_POLICY_ABORT = 0,
    /// The call fails: it returns NULL, false, 0 or `GGML_STATUS_FAILED`, or nothing if it has no result.
    GGML_RS_POLICY_ERROR = 1,
}

/// Format of a report.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_rs_format {
    /// For programs.
    GGML_RS_FORMAT_JSON = 0,
    /// For people: one self-contained page.
    GGML_RS_FORMAT_HTML = 1,
}

/// Why a node runs on the CPU although the scheduler has an accelerator.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_rs_fallback_cause {
    /// No accelerator supports its operation with these types and shapes.
    GGML_RS_FALLBACK_UNSUPPORTED = 0,
    /// A weight that it reads, or its own memory, is where only the CPU can use it.
    GGML_RS_FALLBACK_MEMORY = 1,
    /// The host assigned it with `ggml_backend_sched_set_tensor_backend`.
    GGML_RS_FALLBACK_HOST = 2,
    /// The nodes around it run on the CPU.
    GGML_RS_FALLBACK_NEIGHBOURS = 3,
}

/// A node that runs on the CPU although the scheduler has an accelerator.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_rs_fallback {
    /// The node.
    pub node: *mut super::ggml::ggml_tensor,
    /// The cause.
    pub cause: ggml_rs_fallback_cause,
    /// The cause in one line, for people.
    pub reason: [std::ffi::c_char; 256],
}
