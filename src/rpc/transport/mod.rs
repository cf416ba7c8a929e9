//! Connections. `channel` reads and writes with time limits, `endpoint` finds addresses, `key` proves that both sides
//! know a secret.
#![forbid(unsafe_code)]

mod channel;
mod endpoint;
pub mod key;

pub use channel::{Channel, Limits, Watch};
pub use endpoint::{Endpoint, is_local};
pub use key::Key;
