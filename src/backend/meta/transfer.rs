//! What a buffer of a meta device can do: bytes into and out of the slices of its tensors.

use super::buffer::{BASE, MetaBuffer};
use super::layout::Periods;
use super::slices::{make, slices_of};
use super::split::Axis;
use super::table::Slices;
use crate::abi::ggml::{ggml_op, ggml_type};
use crate::backend::author::{Buffer, NOT_READ};
use crate::backend::{BufferRef, damage, tensor_io};
use crate::error::Result;
use crate::log_error;
use crate::tensor::TensorRef;

impl Buffer for MetaBuffer {
    const INITS_TENSORS: bool = true;
    const RESETS: bool = true;

    fn base(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(BASE)
    }

    fn init_tensor(&self, tensor: TensorRef) -> Result<()> {
        make(tensor, self).map(|_| ())
    }

    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize) {
        let done = slices_of(tensor).and_then(|s| self.fill(tensor, &s, value, offset, size));
        written("memset", done, tensor, offset, size);
    }

    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        let done = slices_of(tensor).and_then(|s| self.write(tensor, &s, data, offset));
        written("set", done, tensor, offset, data.len());
    }

    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        let done = slices_of(tensor).and_then(|s| self.read(tensor, &s, data, offset));
        if report("get", done) {
            data.fill(NOT_READ);
        }
    }

    fn clear(&self, _: BufferRef, value: u8) {
        self.parts().for_each(|p| p.clear(value));
    }

    fn reset(&self) {
        self.parts().for_each(BufferRef::reset);
    }
}

/// Logs a failure. Returns whether there was one.
fn report(what: &str, result: Result<()>) -> bool {
    result.map_err(|e| log_error!("a tensor on a meta device ({what}): {e}")).is_err()
}

fn written(what: &str, result: Result<()>, tensor: TensorRef, offset: usize, size: usize) {
    if report(what, result) {
        damage::unwritten(tensor, offset, size);
    }
}

/// Devices that hold a summand: those the host named, or all.
fn contributors(slices: &Slices) -> Vec<bool> {
    let named: Vec<bool> = (0..slices.idle.len()).map(|d| slices.left.total(d) != 0).collect();
    if named.contains(&true) { named } else { vec![true; named.len()] }
}

/// Whether a tensor holds summands that no computation adds up.
fn holds_summands(tensor: TensorRef, slices: &Slices) -> bool {
    slices.seen.axis == Axis::Partial && tensor.op() == ggml_op::GGML_OP_NONE
}

fn floats(tensor: TensorRef, offset: usize, size: usize) -> Result<()> {
    if tensor.dtype() != ggml_type::GGML_TYPE_F32 || !offset.is_multiple_of(4) || !size.is_multiple_of(4) {
        return Err(crate::invalid!("only whole F32 elements of '{}' can be partial sums", tensor.name()));
    }
    Ok(())
}

impl MetaBuffer {
    fn fill(&self, tensor: TensorRef, slices: &Slices, value: u8, offset: usize, size: usize) -> Result<()> {
        match slices.seen.axis {
            Axis::Dim(dim) => {
                for t in Periods::new(tensor, &slices.seen, dim)?.transfers(offset, size) {
                    for k in 0..t.pieces.count {
                        let at = t.pieces.offset + k * t.pieces.stride_tensor;
                        tensor_io::memset(slices.get(t.device), value, at, t.pieces.size);
                    }
                }
            }
            Axis::Partial if value != 0 && holds_summands(tensor, slices) => {
                return Err(crate::invalid!("partial sums of '{}' can only be filled with 0", tensor.name()));
            }
            Axis::Partial | Axis::Mirrored => {
                slices.iter().for_each(|s| tensor_io::memset(s, value, offset, size));
            }
        }
        Ok(())
    }

    fn write(&self, tensor: TensorRef, slices: &Slices, data: &[u8], offset: usize) -> Result<()> {
        match slices.seen.axis {
            Axis::Dim(dim) => {
                for t in Periods::new(tensor, &slices.seen, dim)?.transfers(offset, data.len()) {
                    let from = &data[t.data_at..t.data_at + t.pieces.extent()];
                    // SAFETY: the bytes reach from the first piece to the end of the last.
                    unsafe { tensor_io::set_2d(slices.get(t.device), from.as_ptr(), t.pieces) }
                }
            }
            Axis::Mirrored => slices.iter().for_each(|s| tensor_io::set_bytes(s, data, offset)),
            Axis::Partial => {
                floats(tensor, offset, data.len())?;
                let holders = contributors(slices);
                let n = holders.iter().filter(|h| **h).count() as f32;
                let numbers = data.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]) / n);
                let summand: Vec<u8> = numbers.flat_map(f32::to_ne_bytes).collect();
                let nothing = vec![0; summand.len()];
                for (slice, holds) in slices.iter().zip(holders) {
                    tensor_io::set_bytes(slice, if holds { &summand } else { &nothing }, offset);
                }
            }
        }
        Ok(())
    }

    fn read(&self, tensor: TensorRef, slices: &Slices, data: &mut [u8], offset: usize) -> Result<()> {
        match slices.seen.axis {
            Axis::Dim(dim) => {
                for t in Periods::new(tensor, &slices.seen, dim)?.transfers(offset, data.len()) {
                    let to = &mut data[t.data_at..t.data_at + t.pieces.extent()];
                    // SAFETY: the bytes reach from the first piece to the end of the last.
                    unsafe { tensor_io::get_2d(slices.get(t.device), to.as_mut_ptr(), t.pieces) }
                }
            }
            Axis::Partial if holds_summands(tensor, slices) => {
                floats(tensor, offset, data.len())?;
                let mut sum = vec![0f32; data.len() / 4];
                for slice in slices.iter() {
                    tensor_io::get_bytes(slice, data, offset);
                    for (s, b) in sum.iter_mut().zip(data.chunks_exact(4)) {
                        *s += f32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
                    }
                }
                for (b, s) in data.chunks_exact_mut(4).zip(sum) {
                    b.copy_from_slice(&s.to_ne_bytes());
                }
            }
            Axis::Partial | Axis::Mirrored => tensor_io::get_bytes(slices.get(0), data, offset),
        }
        Ok(())
    }
}
