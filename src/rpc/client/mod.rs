//! Devices whose memory and work are a server's.
//!
//! - `connection`: requests in order on one connection, and their replies
//! - `lookup`: the servers of this process, by their endpoints, and their registrations
//! - `device`, `buffer`, `stream`: the backend's objects
//! - `describe`: tensors and graphs as messages; `graphs`: which graphs a server still has; `offers`: which weights it
//!   may have
#![forbid(unsafe_code)]

mod buffer;
mod connection;
mod describe;
mod device;
mod graphs;
mod lookup;
mod offers;
mod stream;

#[cfg(fuzzing)]
pub use connection::{Connection, Settings};
pub use lookup::{add_server, key_from_environment, reg, server};
pub use stream::RpcStream;

#[cfg(test)]
pub(super) mod tests {
    //! Connections for the tests of the whole.

    pub use super::connection::Connection as Peer;
    use super::connection::{Connection, Settings};
    use crate::error::Result;
    use crate::rpc::transport::Key;
    use std::sync::Arc;
    use std::time::Duration;

    /// A connection with this time limit.
    pub fn connection(address: &str, limit: Duration, key: Option<Key>) -> Result<Arc<Connection>> {
        Connection::open(address, &Settings { connect: limit, reply: limit, key })
    }
}
