//! gguf.h, in the order in which the header shows it: `read` (making and freeing), `query`, `edit`, `write`.

pub(crate) mod read;
pub(crate) mod query;
pub(crate) mod edit;
pub(crate) mod write;
#[cfg(unix)]
mod vector;

pub use edit::*;
pub use query::*;
pub use read::*;
pub use write::*;

use crate::abi::gguf::gguf_context;
use crate::gguf::Gguf;

/// # Safety
/// `ctx` is NULL or a valid `gguf_context` that nobody changes meanwhile.
pub(crate) unsafe fn file<'a>(ctx: *const gguf_context) -> Option<&'a Gguf> {
    // SAFETY: forwarded to the caller; a `gguf_context` is a `Gguf` behind an opaque name.
    unsafe { ctx.cast::<Gguf>().as_ref() }
}

/// # Safety
/// `ctx` is NULL or a valid `gguf_context` that nobody else uses meanwhile.
#[track_caller]
pub(crate) unsafe fn file_mut<'a>(ctx: *mut gguf_context) -> &'a mut Gguf {
    // SAFETY: forwarded to the caller.
    match unsafe { ctx.cast::<Gguf>().as_mut() } {
        Some(f) => f,
        None => crate::capi::convert::broken("GGML_ASSERT(ctx != NULL) failed"),
    }
}
