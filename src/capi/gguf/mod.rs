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

passed! { 'c:
    *const gguf_context, Some("ctx") => &'c Gguf, shared;
    *mut gguf_context, Some("ctx") => &'c mut Gguf, exclusive;
}

given! {
    *mut gguf_context => Box<Gguf>, boxed;
}
