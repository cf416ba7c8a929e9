//! Devices of other machines: ggml's RPC backend, with the wire format of the original's version 8.0.1.
//!
//! - `protocol`: what travels, as typed messages. Pure: bytes in, values out, and the other way round
//! - `transport`: TCP connections with time limits, endpoints (`host:port`), and the key that both sides may share
//! - `client`: devices, buffer types, buffers and streams whose memory and work are a server's
//! - `server`: sessions that keep buffers and graphs for one client each, and compute on devices of this machine
//!
//! # Who waits for what
//!
//! Requests of a connection are answered in their order, and most have no reply: a client sets tensors, computes and
//! sets again without waiting, and reads the replies of what it wants to know when it needs them
//! (`client/connection.rs`).
//!
//! # What a server believes
//!
//! Nothing. A number that names a buffer is looked up among those of the session, an address is an offset into that
//! buffer, and a graph is made anew of tensors that were checked one by one (`server/tensors.rs`, `server/graph.rs`).
//! Errors close the connection, and free what it had.

pub mod client;
pub mod protocol;
pub mod server;
#[cfg(test)]
mod tests;
pub mod transport;
