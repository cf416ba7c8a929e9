//! Buffer types and buffers of a server.
#![forbid(unsafe_code)]

use super::connection::Connection;
use super::describe;
use super::lookup::Server;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::backend::author::{Buffer, BufferType, NOT_READ, buffer_author};
use crate::backend::op_alloc_size_may_expand;
use crate::backend::tensor_io::Pieces;
use crate::backend::{BufferRef, damage};
use crate::error::{Error, Result};
use crate::log_error;
use crate::rpc::protocol::{self, Request, WireTensor};
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use crate::tensor::handle::OP_PARAM_WORDS;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, OnceLock};

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
        let describe = |t: TensorRef| describe::tensor(t, &connection);
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
        let mut made = protocol::Reader::new(&made);
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
        Ok(RpcBuffer { connection, number, base: base as usize })
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
        if !(may_be_padded(tensor) || op_alloc_size_may_expand(tensor.op())) || !describe::fits(tensor) {
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

/// Whether a device may require more bytes for a tensor than it has, and prepare them. CUDA devices do so for rows
/// whose length is no multiple of 512.
fn may_be_padded(t: TensorRef) -> bool {
    t.dtype().blck_size() > 1 && t.ne()[0] % 512 != 0 && t.view_src().is_none()
}

/// A buffer of a server.
pub struct RpcBuffer {
    connection: Arc<Connection>,
    number: u64,
    base: usize,
}

impl Drop for RpcBuffer {
    fn drop(&mut self) {
        self.connection.post_free(self.number);
    }
}

impl RpcBuffer {
    /// Whether something was done. The failure of a connection has its line in the log already, and is not repeated for
    /// everything that comes later.
    fn done(&self, result: Result<()>) -> bool {
        result.map_err(|e| self.connection.complain(&e)).is_ok()
    }

    /// Logs an error of a write, which graphs that read those bytes then fail with.
    fn wrote(&self, t: TensorRef, offset: usize, size: usize, result: Result<()>) {
        if !self.done(result) {
            damage::unwritten(t, offset, size);
        }
    }

    /// The server's number for the buffer, if it is one of this connection's.
    pub fn number_on(&self, connection: &Arc<Connection>) -> Option<u64> {
        Arc::ptr_eq(&self.connection, connection).then_some(self.number)
    }

    /// Its connection.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn described(&self, t: TensorRef) -> Result<WireTensor> {
        describe::in_buffer(t, self.number)
    }

    /// Sends data, unless the server has it on disk.
    pub fn send(&self, t: TensorRef, data: &[u8], offset: usize) -> Result<()> {
        let (tensor, offset) = (self.described(t)?, offset as u64);
        if t.data_buffer().is_some_and(|b| b.is_weights()) {
            return self.connection.send_weights(tensor, data, offset);
        }
        self.connection.post(&Request::SetTensor { tensor, keep: false, offset }, data, false)
    }

    /// A request for bytes of a tensor.
    pub fn wanted(&self, t: TensorRef, offset: usize, size: usize) -> Result<Request> {
        Ok(Request::GetTensor { tensor: self.described(t)?, offset: offset as u64, size: size as u64 })
    }

    fn pieces(&self, p: Pieces) -> protocol::Pieces {
        let [offset, size, count, stride] = [p.offset, p.size, p.count, p.stride_tensor].map(|n| n as u64);
        protocol::Pieces { offset, size, count, stride }
    }

    fn copy(&self, from: &RpcBuffer, src: TensorRef, dst: TensorRef) -> Result<bool> {
        let request = Request::CopyTensor { src: from.described(src)?, dst: self.described(dst)? };
        let [done] = self.connection.call(&request)?;
        Ok(done != 0)
    }
}

impl Buffer for RpcBuffer {
    // The connection is the parent's.
    const IN_CHILDREN: bool = false;
    const INITS_TENSORS: bool = true;
    const PIECES: bool = true;
    const COPIES: bool = true;

    fn base(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(self.base)
    }

    fn init_tensor(&self, tensor: TensorRef) -> Result<()> {
        if !may_be_padded(tensor) {
            return Ok(());
        }
        self.connection.post(&Request::InitTensor { tensor: self.described(tensor)? }, &[], false)
    }

    fn memset(&self, t: TensorRef, value: u8, offset: usize, size: usize) {
        let post = || {
            let (tensor, offset, size) = (self.described(t)?, offset as u64, size as u64);
            self.connection.post(&Request::MemsetTensor { tensor, offset, size, value }, &[], false)
        };
        self.wrote(t, offset, size, post());
    }

    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        self.wrote(tensor, offset, data.len(), self.send(tensor, data, offset));
    }

    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        let request = self.wanted(tensor, offset, data.len());
        if !self.done(request.and_then(|r| self.connection.call_into(&r, data))) {
            data.fill(NOT_READ);
        }
    }

    fn set_2d(&self, t: TensorRef, data: &[u8], p: Pieces) {
        let mut packed = Vec::with_capacity(p.size * p.count);
        (0..p.count).for_each(|i| packed.extend(&data[i * p.stride_data..][..p.size]));
        let post = || {
            let request = Request::SetTensor2d { tensor: self.described(t)?, pieces: self.pieces(p) };
            self.connection.post(&request, &packed, false)
        };
        self.wrote(t, p.offset, p.extent_in_tensor(), post());
    }

    fn get_2d(&self, t: TensorRef, data: &mut [u8], p: Pieces) {
        let mut packed = vec![0; p.size * p.count];
        let mut call = || {
            let request = Request::GetTensor2d { tensor: self.described(t)?, pieces: self.pieces(p) };
            self.connection.call_into(&request, &mut packed)
        };
        if !self.done(call()) {
            packed.fill(NOT_READ);
        }
        for (i, piece) in packed.chunks_exact(p.size).enumerate() {
            data[i * p.stride_data..][..p.size].copy_from_slice(piece);
        }
    }

    fn copy_from(&self, src: TensorRef, dst: TensorRef) -> bool {
        let Some(buffer) = src.data_buffer() else { return false };
        let Some(from) = buffer_author::<RpcBuffer>(&buffer) else { return false };
        // Two servers do not know each other.
        Arc::ptr_eq(&from.connection, &self.connection)
            && self.copy(from, src, dst).unwrap_or_else(|e| {
                self.connection.complain(&e);
                false
            })
    }

    fn clear(&self, this: BufferRef, value: u8) {
        if !self.done(self.connection.post(&Request::BufferClear { buffer: self.number, value }, &[], false)) {
            damage::unwritten_buffer(this);
        }
    }
}
