//! Devices of other machines: ggml's RPC backend, with the wire format of the original's version 8.0.1.
//!
//! - `protocol`: what travels, as typed messages. Pure: bytes in, values out, and the other way round
//! - `transport`: TCP connections with time limits, endpoints (`host:port`), and the key that both sides may share
//! - `client`: devices, buffer types, buffers and streams whose memory and work are a server's
//! - `server`: sessions that keep buffers and graphs for one client each, and compute on devices of this machine
//!
//! # Which requests wait
//!
//! The server processes the requests of a connection in their order, and most have no reply. A client sets tensors,
//! computes and sets tensors again without waiting. It reads a reply only when it needs it (`client/requests.rs`).
//!
//! # What a server trusts
//!
//! Nothing that a client sends. The server looks up the number of a buffer among those of the session, takes an address
//! as an offset into that buffer, and builds a graph of its own from tensors that it has checked one by one
//! (`server/tensors.rs`, `server/graph.rs`). An error closes the connection, and frees what it had.

pub mod client;
pub mod protocol;
pub mod server;
#[cfg(test)]
mod tests;
pub mod transport;
