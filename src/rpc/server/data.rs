//! The bytes of tensors, on their way in and out. A range is checked before the first byte comes; then they go into the tensor in pieces, so that
//! a message needs no more memory than the tensor it is for.
#![forbid(unsafe_code)]

use super::cache::Cache;
use crate::backend::tensor_io;
use crate::error::{Result, invalid};
use crate::mutant;
use crate::rpc::protocol::Pieces;
use crate::rpc::transport::Channel;
use crate::tensor::TensorRef;

/// Bytes that are moved at once.
const STEP: usize = 1 << 20;

/// Offset and size as this machine's numbers, if the range is inside the tensor.
pub fn range(t: TensorRef, offset: u64, size: u64) -> Result<(usize, usize)> {
    let end = offset.checked_add(size);
    if t.buffer().is_none() || end.is_none_or(|end| end > t.nbytes() as u64 && !mutant::on("RPC range")) {
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

/// Reads `size` bytes from the client into a tensor; `keep`: and into the cache.
///
/// # Errors
/// The range is not inside the tensor, or the client is gone.
pub fn set(channel: &mut Channel, t: TensorRef, offset: u64, size: u64, keep: Option<&Cache>) -> Result<()> {
    let (offset, bytes) = range(t, offset, size)?;
    if let Some(cache) = keep {
        let data = channel.read_vec(bytes)?;
        tensor_io::set_bytes(t, &data, offset);
        cache.put(&data);
        return Ok(());
    }
    let mut piece = vec![0; STEP.min(bytes)];
    let mut done = 0;
    while done < bytes {
        let n = piece.len().min(bytes - done);
        channel.read(&mut piece[..n], n as u64)?;
        tensor_io::set_bytes(t, &piece[..n], offset + done);
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
    if p.total() != Some(size) && !mutant::on("RPC pieces") {
        return Err(invalid!("{size} bytes for {} pieces of {}", p.count, p.size));
    }
    let data = channel.read_vec(size as usize)?;
    for (i, piece) in data.chunks_exact(q.size).enumerate() {
        tensor_io::set_bytes(t, piece, q.offset + i * q.stride_tensor);
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
