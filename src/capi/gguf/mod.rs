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
use crate::capi::convert::{boxed, exclusive, given, passed, shared};
use crate::gguf::Gguf;

// SAFETY: the functions of `read` make a `gguf_context` of a boxed `Gguf`.
passed! { unsafe 'c:
    *const gguf_context => &'c Gguf, shared;
    *mut gguf_context => &'c mut Gguf, exclusive;
}

// SAFETY: as above.
given! { unsafe:
    *mut gguf_context => Box<Gguf>, boxed;
}
