//! Streams of a server's device: everything is sent in order, and the server does it in order.
#![forbid(unsafe_code)]

use super::buffer::RpcBuffer;
use super::connection::{Connection, Mark};
use super::describe_graph::{self, Check};
use crate::abi::ggml::ggml_guid;
use crate::backend::author::{Event, HostSource, HostTarget, NoPlan, Stream, buffer_author};
use crate::backend::damage;
use crate::error::{Result, invalid};
use crate::graph::GraphRef;
use crate::rpc::protocol::Request;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

/// A stream.
pub struct RpcStream {
    connection: Arc<Connection>,
    device: u32,
    name: CString,
    check: Check,
}

/// A mark among the requests.
#[derive(Default)]
pub struct RpcEvent(Mutex<Option<Mark>>);

impl Event for RpcEvent {
    // The connection is the parent's.
    const IN_CHILDREN: bool = false;
    fn synchronize(&self) {
        let mark = lock(&self.0).clone();
        if let Some(mark) = mark {
            mark.wait();
        }
    }
}

impl RpcStream {
    /// On device `device` of the connection's server. It computes nodes that `check` accepts.
    pub fn new(connection: Arc<Connection>, device: u32, name: CString, check: Check) -> Self {
        Self { connection, device, name, check }
    }

    /// Does something with the buffer of a tensor. Logs an error and returns false if that fails.
    fn with(&self, t: TensorRef, act: impl FnOnce(&RpcBuffer) -> Result<()>) -> bool {
        let done = match t.data_buffer().as_ref().and_then(buffer_author::<RpcBuffer>) {
            Some(buffer) => act(buffer),
            None => Err(invalid!("'{}' is in no buffer of this backend", t.name())),
        };
        done.map_err(|e| self.connection.complain(&e)).is_ok()
    }
}

impl Stream for RpcStream {
    // The connection is the parent's.
    const IN_CHILDREN: bool = false;
    type Event = RpcEvent;
    type Plan = NoPlan;
    const GUID: &'static ggml_guid =
        &[0x99, 0x68, 0x5b, 0x6c, 0xd2, 0x83, 0x3d, 0x24, 0x25, 0x36, 0x72, 0xe1, 0x5b, 0x0e, 0x14, 0x03];
    const QUEUES: bool = true;
    const TRANSFERS: bool = true;
    const EVENTS: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn compute(&self, graph: GraphRef) -> Result<()> {
        self.connection.alive()?;
        if !graph.nodes().any(|node| describe_graph::is_sent(node, &self.connection)) {
            return Ok(());
        }
        let described = || {
            describe_graph::computable(graph, &self.connection, self.check)?;
            describe_graph::graph(graph, self.device, &self.connection).map(Request::GraphCompute)
        };
        self.connection.post_graph(self.device, graph.uid(), described)
    }

    fn synchronize(&self) -> Result<()> {
        self.connection.mark().wait();
        self.connection.alive()
    }

    fn set_async(&self, tensor: TensorRef, data: HostSource, offset: usize) {
        // Sent, or copied, before this returns.
        if !self.with(tensor, |buffer| buffer.send(tensor, data.bytes(), offset)) {
            damage::unwritten(tensor, offset, data.bytes().len());
        }
    }

    fn get_async(&self, tensor: TensorRef, mut data: HostTarget, offset: usize) {
        let size = data.bytes().len();
        self.with(tensor, |buffer| {
            let request = buffer.wanted(tensor, offset, size)?;
            buffer.connection().fetch(&request, data)
        });
    }

    fn event_record(&self, event: &RpcEvent) {
        *lock(&event.0) = Some(self.connection.mark());
    }

    fn event_wait(&self, event: &RpcEvent) {
        // On the same connection requests are in order. On another one, what has been fetched must be here.
        event.synchronize();
    }
}
