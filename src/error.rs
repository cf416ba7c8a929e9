//! The one error type: what went wrong, with what, and what to do about it.

use crate::abi::ggml::ggml_status;

/// A recoverable failure. `capi` turns it into the header's own way of failing (NULL, false, a `ggml_status`) and logs
/// it once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Memory could not be had.
    #[error("out of memory: {what} needs {bytes} bytes")]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Requested bytes.
        bytes: usize,
    },
    /// An argument or a tensor is not what the operation needs.
    #[error("{0}")]
    Invalid(String),
    /// The library, or this device, cannot do this.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A file holds what its format forbids.
    #[error("{0}")]
    Corrupt(String),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// The file or the step.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A backend failed.
    #[error("{0}")]
    Backend(String),
    /// The host's abort callback requested a stop.
    #[error("aborted by the host")]
    Aborted,
}

/// Result with the library's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The status that a C caller gets for this error.
    pub fn status(&self) -> ggml_status {
        match self {
            Error::OutOfMemory { .. } => ggml_status::GGML_STATUS_ALLOC_FAILED,
            Error::Aborted => ggml_status::GGML_STATUS_ABORTED,
            _ => ggml_status::GGML_STATUS_FAILED,
        }
    }
}

/// An [`Error::Invalid`] with formatted text.
macro_rules! invalid {
    ($($arg:tt)*) => { $crate::error::Error::Invalid(format!($($arg)*)) };
}
pub(crate) use invalid;
