//! A device of a server, as one of this process.
#![forbid(unsafe_code)]

use super::buffer_type::RpcBufferType;
use super::describe::fits;
use super::describe_graph::Check;
use super::servers::Server;
use super::stream::{RpcEvent, RpcStream};
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_type};
use crate::backend::author::{BufferType, Device, buffer_type_author, leak_buffer_type};
use crate::backend::{BufferTypeRef, DeviceRef, op_is_empty};
use crate::error::Result;
use crate::log_error;
use crate::rpc::protocol::is_of_the_host;
use crate::tensor::{TensorRef, known};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// A device.
pub struct RpcDevice {
    server: &'static Server,
    /// Its number at the server.
    index: u32,
    name: CString,
    description: CString,
    buffer_type: OnceLock<BufferTypeRef>,
    check: Check,
}

impl RpcDevice {
    /// Device `index` of a server, and device `number` of this kind in this process. It computes nodes that `check`
    /// accepts.
    pub fn new(server: &'static Server, index: u32, number: u32, check: Check) -> Self {
        let name = CString::new(format!("RPC{number}")).unwrap_or_default();
        let description = CString::new(server.endpoint()).unwrap_or_default();
        Self { server, index, name, description, buffer_type: OnceLock::new(), check }
    }
}

impl Device for RpcDevice {
    type Stream = RpcStream;
    type Event = RpcEvent;
    const EVENTS: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn description(&self) -> &CStr {
        &self.description
    }

    fn memory(&self) -> (usize, usize) {
        self.server.memory(self.index).unwrap_or_else(|e| {
            log_error!("RPC: {e}");
            (0, 0)
        })
    }

    fn kind(&self) -> ggml_backend_dev_type {
        ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU
    }

    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: true,
            host_buffer: false,
            buffer_from_host_ptr: false,
            events: true,
            mmap_support: true,
        }
    }

    fn open(&self, this: DeviceRef, _params: Option<&CStr>) -> Result<RpcStream> {
        let connection = self.server.connection()?;
        // Queries the alignment once, here, so that no later call waits for the answer in the middle of work.
        self.buffer_type(this).alignment();
        let name = RpcBufferType::new(self.server, self.index).name().to_owned();
        Ok(RpcStream::new(connection, self.index, name, self.check))
    }

    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        let make = || leak_buffer_type(Some(this), RpcBufferType::new(self.server, self.index));
        *crate::sys::sync::once(&self.buffer_type, make)
    }

    /// The protocol does not say what the server's device computes. So this is what a message can describe, and what
    /// every server checks.
    fn supports_op(&self, op: TensorRef) -> bool {
        let is_described = known::check(op).is_ok() && fits(op) && op.srcs().all(|(_, s)| fits(s));
        is_described && (op_is_empty(op.op()) || !is_of_the_host(op.op()) && (self.check)(op).is_ok())
    }

    fn supports_buft(&self, _this: DeviceRef, buft: BufferTypeRef) -> bool {
        buffer_type_author::<RpcBufferType>(buft).is_some_and(|t| t.is_of(self.server, self.index))
    }

    fn event_new(&self) -> Result<RpcEvent> {
        Ok(RpcEvent::default())
    }
}
