//! Serving devices of this machine. `accept` accepts connections, and each has a thread with a `session` of its own:
//! its buffers (`memory`), its graphs (`graph`), its streams. Sessions share what the `host` has, above all the budget
//! of memory and the `cache` of weights, and nothing else.
//!
//! - `start`: starts a server as hosts do
//! - `options`: what a server allows; `limits`: what hosts set of it
//! - `greeting`: the first messages of a connection, with which each end proves that it has the key
//! - `places`: which connections there are, and which of them give way when there are too many
//! - `tensors`: checks descriptions of tensors, and makes tensors of this process from them
//! - `stream`: the streams of devices, with a limit of time for each graph
//! - `data`: what is written into tensors and read from them, in pieces as it comes

mod accept;
mod cache;
mod data;
mod graph;
mod greeting;
mod host;
mod limits;
mod memory;
mod options;
mod places;
mod session;
mod start;
mod stream;
mod tensors;

pub use host::Checks;
pub use limits::set_limit;
pub use start::start;
pub use stream::Deadline;

// For tests and fuzz targets, which listen themselves.
#[cfg(any(test, feature = "internals"))]
pub use {accept::serve, cache::Cache, host::Host, options::Options};
