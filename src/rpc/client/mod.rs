//! Devices whose memory and work are a server's.
//!
//! - `connection`: one connection, with its `requests` in order and their replies
//! - `servers`: the servers of this process, by their endpoints
//! - `describe`: tensors as messages; `describe_graph`: graphs; `graphs`: which graphs a server still has; `offers`:
//!   which weights it may have
//! - `buffer`, `buffer_type`, `stream`, `device`: the backend's objects; `registrations`: how hosts find them
#![forbid(unsafe_code)]

mod buffer;
mod buffer_type;
mod connection;
mod describe;
mod describe_graph;
mod device;
mod graphs;
mod offers;
mod registrations;
mod requests;
mod servers;
mod stream;

#[cfg(fuzzing)]
pub use connection::{Connection, Settings};
pub use registrations::{add_server, reg};
pub use servers::server;
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
