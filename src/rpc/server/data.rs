//! The bytes of tensors, on their way in and out. A range is checked before the first byte comes; then they go into the
//! tensor in pieces of at most [`STEP`] bytes, so that a message of any size takes no more memory than that.
#![forbid(unsafe_code)]

use super::cache::Cache;
use crate::backend::tensor_io;
use crate::error::{Result, invalid};
use crate::rpc::protocol::{HASH_OF_NOTHING, Pieces, hash_on};
use crate::rpc::transport::Channel;
use crate::tensor::TensorRef;

/// Bytes that are moved at once.
const STEP: usize = 1 << 20;

/// Offset and size as this machine's numbers, if the range is inside the tensor.
pub fn range(t: TensorRef, offset: u64, size: u64) -> Result<(usize, usize)> {
    let end = offset.checked_add(size);
    if t.buffer().is_none() || end.is_none_or(|end| end > t.nbytes() as u64) {
        return Err(invalid!("{size} bytes at {offset} of tensor '{}', which has {} here", t.name(), t.nbytes()));
    }
    Ok((offset as usize, size as usize))
}

/// The bytes of pieces, if they are inside the tensor.
fn pieces(t: TensorRef, p: Pieces) -> Result<tensor_io::Pieces> {
    let Some(span) = p.span() else { return Err(invalid!("{p:?} of tensor '{}'", t.name())) };
    range(t, p.offset, span)?;
    Ok(tensor_io::Pieces {
        offset: p.offset as usize,
        size: p.size as usize,
        count: p.count as usize,
        stride_tensor: p.stride as usize,
        stride_data: p.size as usize,
    })
}

/// Reads `size` bytes from the client into a tensor; `keep`: and from there into the cache.
///
/// # Errors
/// The range is not inside the tensor, or the client is gone.
pub fn set(channel: &mut Channel, t: TensorRef, offset: u64, size: u64, keep: Option<&Cache>) -> Result<()> {
    let (offset, bytes) = range(t, offset, size)?;
    let mut piece = vec![0; STEP.min(bytes)];
    let (mut done, mut number) = (0, HASH_OF_NOTHING);
    while done < bytes {
        let n = piece.len().min(bytes - done);
        channel.read(&mut piece[..n], n as u64)?;
        tensor_io::set_bytes(t, &piece[..n], offset + done);
        if keep.is_some() {
            number = hash_on(number, &piece[..n]);
        }
        done += n;
    }
    if let Some(cache) = keep {
        cache.put(number, bytes, |piece, at| tensor_io::get_bytes(t, piece, offset + at));
    }
    Ok(())
}

/// Sets bytes of a tensor to a value, in steps. `go_on` is called before each.
///
/// # Errors
/// The range is not inside the tensor, and those of `go_on`.
pub fn fill(t: TensorRef, offset: u64, size: u64, value: u8, mut go_on: impl FnMut() -> Result<()>) -> Result<()> {
    const AT_ONCE: usize = 64 << 20;
    let (offset, bytes) = range(t, offset, size)?;
    let mut done = 0;
    while done < bytes {
        go_on()?;
        let n = AT_ONCE.min(bytes - done);
        tensor_io::memset(t, value, offset + done, n);
        done += n;
    }
    Ok(())
}

/// Sends `size` bytes of a tensor as a reply.
///
/// # Errors
/// As [`set`].
pub fn get(channel: &mut Channel, t: TensorRef, offset: u64, size: u64) -> Result<()> {
    let (offset, bytes) = range(t, offset, size)?;
    let first = STEP.min(bytes);
    let mut piece = vec![0; 8 + first];
    piece[..8].copy_from_slice(&size.to_le_bytes());
    tensor_io::get_bytes(t, &mut piece[8..], offset);
    channel.write(&piece)?;
    let mut done = first;
    while done < bytes {
        let n = first.min(bytes - done);
        tensor_io::get_bytes(t, &mut piece[..n], offset + done);
        channel.write(&piece[..n])?;
        done += n;
    }
    Ok(())
}

/// As [`set`] for pieces.
///
/// # Errors
/// As [`set`], and if the pieces together have another size.
pub fn set_2d(channel: &mut Channel, t: TensorRef, p: Pieces, size: u64) -> Result<()> {
    let q = pieces(t, p)?;
    if p.total() != Some(size) {
        return Err(invalid!("{size} bytes for {} pieces of {}", p.count, p.size));
    }
    let mut all = vec![0; STEP.min(q.size * q.count)];
    // Several pieces at once, or a part of one.
    let at_once = (all.len() / q.size).max(1);
    for first in (0..q.count).step_by(at_once) {
        let n = at_once.min(q.count - first);
        let mut done = 0;
        while done < n * q.size {
            let part = all.len().min(n * q.size - done);
            channel.read(&mut all[..part], part as u64)?;
            for (i, piece) in all[..part].chunks(q.size).enumerate() {
                tensor_io::set_bytes(t, piece, q.offset + (first + i) * q.stride_tensor + done);
            }
            done += part;
        }
    }
    Ok(())
}

/// As [`get`] for pieces.
///
/// # Errors
/// As [`get`].
pub fn get_2d(channel: &mut Channel, t: TensorRef, p: Pieces) -> Result<()> {
    let q = pieces(t, p)?;
    let mut out = ((q.size * q.count) as u64).to_le_bytes().to_vec();
    for i in 0..q.count {
        let mut done = 0;
        while done < q.size {
            let n = STEP.min(q.size - done);
            let at = out.len();
            out.resize(at + n, 0);
            tensor_io::get_bytes(t, &mut out[at..], q.offset + i * q.stride_tensor + done);
            done += n;
            if out.len() >= STEP {
                channel.write(&out)?;
                out.clear();
            }
        }
    }
    channel.write(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_status;
    use crate::abi::ggml::ggml_type::GGML_TYPE_I8;
    use crate::backend::{host, tensor_io, view};
    use crate::rpc::transport::Limits;
    use crate::tensor::Context;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_message_with_more_bytes_than_its_pieces_writes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let second = Duration::from_secs(1);
        let mut near = Channel::new(listener.accept().unwrap().0, Limits { message: second, idle: second }).unwrap();
        far.write_all(&[0x41; 64]).unwrap();
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let t = ctx.new_tensor(GGML_TYPE_I8, &[16]).unwrap();
        let buffer = host::buffer_type().alloc_buffer(64).unwrap();
        assert_eq!(view::bind(buffer.handle(), t, buffer.base()), ggml_status::GGML_STATUS_SUCCESS);
        tensor_io::memset(t, 0, 0, 16);
        let pieces = Pieces { offset: 0, size: 4, count: 2, stride: 8 };
        assert!(set_2d(&mut near, t, pieces, 64).is_err());
        let mut bytes = [1; 16];
        tensor_io::get_bytes(t, &mut bytes, 0);
        assert_eq!(bytes, [0; 16]);
        set_2d(&mut near, t, pieces, 8).unwrap();
        tensor_io::get_bytes(t, &mut bytes, 0);
        assert_eq!(bytes.map(|b| u8::from(b == 0x41)), [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]);
    }
}
