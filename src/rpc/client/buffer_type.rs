//! Buffer types of a server.
#![forbid(unsafe_code)]

use super::buffer::{self, RpcBuffer, may_be_padded};
use super::describe::fits;
use super::servers::Server;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::backend::author::BufferType;
use crate::backend::op_alloc_size_may_expand;
use crate::error::{Error, Result};
use crate::log_error;
use crate::rpc::protocol::{Reader, Request, WireTensor};
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use crate::tensor::handle::OP_PARAM_WORDS;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, OnceLock};

/// The alignment that is used if the server cannot be queried. Most devices require at most this.
const ALIGNMENT: usize = 256;
/// The largest alignment that the client accepts from a server.
const MOST_ALIGNED: u64 = 1 << 16;

/// What the size of a tensor in a buffer depends on.
type Shape = (i32, i32, [i32; OP_PARAM_WORDS], [i64; 4], [usize; 4]);

/// Buffers of one device of a server.
pub struct RpcBufferType {
    server: &'static Server,
    device: u32,
    name: CString,
    alignment: OnceLock<usize>,
    max_size: OnceLock<usize>,
    sizes: Mutex<HashMap<Shape, usize>>,
}

impl RpcBufferType {
    /// For device `device` of a server.
    pub fn new(server: &'static Server, device: u32) -> Self {
        let name = CString::new(format!("RPC{device}[{}]", server.endpoint())).unwrap_or_default();
        let sizes = Mutex::default();
        Self { server, device, name, alignment: OnceLock::new(), max_size: OnceLock::new(), sizes }
    }

    /// Whether these are buffers of this device.
    pub fn is_of(&self, server: &Server, device: u32) -> bool {
        std::ptr::eq(self.server, server) && self.device == device
    }

    fn ask(&self, request: &Request) -> Result<u64> {
        Ok(u64::from_le_bytes(self.server.connection()?.call(request)?))
    }

    /// Returns a number that the server reports once. If the request fails, or the number is not valid, logs an error
    /// and returns `other`.
    fn once(&self, cell: &OnceLock<usize>, request: &Request, other: usize, is_fine: fn(u64) -> bool) -> usize {
        if let Some(&known) = cell.get() {
            return known;
        }
        match self.ask(request) {
            Ok(n) if is_fine(n) => *crate::sys::sync::once(cell, || usize::try_from(n).unwrap_or(usize::MAX)),
            Ok(n) => {
                log_error!("RPC: {} says {n} to {:?}", self.server.endpoint(), request.command());
                other
            }
            Err(e) => {
                log_error!("RPC: {e}");
                other
            }
        }
    }

    fn ask_size(&self, tensor: TensorRef) -> Result<usize> {
        let connection = self.server.connection()?;
        let describe = |t: TensorRef| buffer::describe(t, &connection);
        let mut srcs = vec![WireTensor::default(); GGML_MAX_SRC];
        for (i, s) in tensor.srcs() {
            srcs[i] = describe(s)?;
        }
        let request = Request::GetAllocSize { device: self.device, tensor: describe(tensor)?, srcs };
        let size = u64::from_le_bytes(connection.call(&request)?);
        usize::try_from(size).map_err(|_| connection.distrust(&format!("that a tensor takes {size} bytes")))
    }
}

impl BufferType for RpcBufferType {
    type Buffer = RpcBuffer;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn alloc(&self, size: usize) -> Result<RpcBuffer> {
        let connection = self.server.connection()?;
        let made: [u8; 16] = connection.call(&Request::AllocBuffer { device: self.device, size: size as u64 })?;
        let mut made = Reader::new(&made);
        let (number, got) = (made.u64()?, made.u64()?);
        if number == 0 {
            let what = format!("a buffer of {}", self.server.endpoint());
            return Err(Error::OutOfMemory { what, bytes: size });
        }
        let base = u64::from_le_bytes(connection.call(&Request::BufferGetBase { buffer: number })?);
        let end = base.checked_add(size as u64).filter(|&end| usize::try_from(end).is_ok());
        if got < size as u64 || base == 0 || end.is_none() || !base.is_multiple_of(self.alignment() as u64) {
            let what = format!("that a buffer of {size} bytes has {got} at {base:#x}");
            return Err(connection.distrust(&what));
        }
        Ok(RpcBuffer::new(connection, number, base as usize))
    }

    fn alignment(&self) -> usize {
        let is_fine = |n: u64| n.is_power_of_two() && n <= MOST_ALIGNED;
        self.once(&self.alignment, &Request::GetAlignment { device: self.device }, ALIGNMENT, is_fine)
    }

    fn max_size(&self) -> usize {
        self.once(&self.max_size, &Request::GetMaxSize { device: self.device }, usize::MAX, |n| n > 0)
    }

    fn alloc_size(&self, tensor: TensorRef) -> usize {
        let bytes = tensor.nbytes();
        if !(may_be_padded(tensor) || op_alloc_size_may_expand(tensor.op())) || !fits(tensor) {
            return bytes;
        }
        let shape = (tensor.dtype_raw(), tensor.op_raw(), tensor.op_params(), tensor.ne(), tensor.nb());
        if let Some(&known) = brief(&self.sizes).get(&shape) {
            return known;
        }
        match self.ask_size(tensor) {
            Ok(size) => {
                let size = size.max(bytes);
                brief(&self.sizes).insert(shape, size);
                size
            }
            Err(e) => {
                log_error!("RPC: {e}");
                bytes
            }
        }
    }
}
