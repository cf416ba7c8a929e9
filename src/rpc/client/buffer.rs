//! Buffers of a server, and tensors in them.
#![forbid(unsafe_code)]

use super::connection::Connection;
use super::describe;
use crate::backend::author::{Buffer, NOT_READ, buffer_author};
use crate::backend::tensor_io::Pieces;
use crate::backend::{BufferRef, damage};
use crate::error::Result;
use crate::rpc::protocol::{self, Request, WireTensor};
use crate::tensor::TensorRef;
use std::sync::Arc;

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
    /// The buffer of a connection to which the server has given this number and this address.
    pub fn new(connection: Arc<Connection>, number: u64, base: usize) -> Self {
        Self { connection, number, base }
    }

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
    fn number_on(&self, connection: &Arc<Connection>) -> Option<u64> {
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

/// A tensor without its sources, as the server of a connection knows it: what is elsewhere has no data there.
///
/// # Errors
/// As [`describe::in_buffer`].
pub fn describe(t: TensorRef, connection: &Arc<Connection>) -> Result<WireTensor> {
    describe::in_buffer(t, number(t, connection).unwrap_or(0))
}

/// The number of the server's buffer that a tensor is in.
pub fn number(t: TensorRef, connection: &Arc<Connection>) -> Option<u64> {
    t.buffer().and_then(|b| buffer_author::<RpcBuffer>(&b).and_then(|b| b.number_on(connection)))
}

/// Whether a device may require more bytes for a tensor than it has, and prepare them. CUDA devices do so for rows
/// whose length is no multiple of 512.
pub fn may_be_padded(t: TensorRef) -> bool {
    t.dtype().blck_size() > 1 && t.ne()[0] % 512 != 0 && t.view_src().is_none()
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
