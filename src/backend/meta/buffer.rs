//! The buffers of a meta device: one buffer on every device, and the slices in them.

use super::layout::Layout;
use super::slices::{Slices, Table, make, prepare, slices_of};
use super::split::Axis;
use crate::abi::ggml::{ggml_op, ggml_status, ggml_type};
use crate::backend::author::{Buffer, BufferType, NOT_READ, new_buffer};
use crate::backend::{BufferBox, BufferRef, BufferTypeRef, DeviceRef, damage, tensor_io, view};
use crate::error::{Error, Result};
use crate::log_error;
use crate::tensor::TensorRef;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The base address that a meta buffer reports. There is no memory at it; only offsets from it are meaningful.
pub const BASE: usize = 1 << 60;

/// The buffer type of a meta device.
pub struct MetaBufferType {
    name: CString,
    device: DeviceRef,
    parts: Vec<BufferTypeRef>,
}

impl MetaBufferType {
    /// The type over the given types, one for each device.
    pub fn new(device: DeviceRef, parts: Vec<BufferTypeRef>) -> Self {
        let names: Vec<String> = parts.iter().map(|p| p.name()).collect();
        Self { name: super::joined_name(&names), device, parts }
    }
}

/// A buffer that is spread over the devices.
pub struct MetaBuffer {
    /// The meta device.
    pub device: DeviceRef,
    /// Slices of the tensors in the buffer.
    pub table: Table,
    parts: Vec<Option<BufferBox>>,
}

impl MetaBuffer {
    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.parts.len()
    }

    /// The buffer on a device; `None` if nothing is stored there.
    pub fn part(&self, device: usize) -> Option<BufferRef> {
        self.parts[device].as_ref().map(BufferBox::handle)
    }

    /// The buffers on the devices.
    pub fn parts(&self) -> impl Iterator<Item = BufferRef> + '_ {
        self.parts.iter().flatten().map(BufferBox::handle)
    }
}

impl BufferType for MetaBufferType {
    type Buffer = MetaBuffer;
    const PLACES_TENSORS: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn alloc(&self, size: usize) -> Result<MetaBuffer> {
        let part = |buft: &BufferTypeRef| {
            let what = || format!("a buffer of type {} for a meta device", buft.name());
            buft.alloc_buffer(size).ok_or_else(|| Error::OutOfMemory { what: what(), bytes: size }).map(Some)
        };
        let parts = self.parts.iter().map(part).collect::<Result<_>>()?;
        Ok(MetaBuffer { device: self.device, table: Table::default(), parts })
    }

    /// Every device gets a buffer for just its slices.
    fn alloc_tensors(&self, this: BufferTypeRef, tensors: &[TensorRef]) -> Result<Option<BufferBox>> {
        let is_new = |t: &&TensorRef| t.data().is_null() && t.buffer().is_none();
        let (views, bases): (Vec<_>, Vec<_>) =
            tensors.iter().filter(is_new).copied().partition(|t| t.view_src().is_some());
        let placed = self.place(this, &bases).and_then(|buffer| {
            for &t in &views {
                if view::init(t) != ggml_status::GGML_STATUS_SUCCESS {
                    return Err(Error::Backend(format!(
                        "the view '{}' cannot be distributed over the devices",
                        t.name()
                    )));
                }
            }
            Ok(buffer)
        });
        if !matches!(placed, Ok(Some(_))) {
            for t in bases.into_iter().chain(views) {
                t.set_data(std::ptr::null_mut());
                t.set_buffer_raw(std::ptr::null_mut());
            }
        }
        placed
    }

    fn alignment(&self) -> usize {
        self.parts.iter().map(|p| p.alignment()).max().unwrap_or(1)
    }

    fn max_size(&self) -> usize {
        self.parts.iter().map(|p| p.max_size()).min().unwrap_or(usize::MAX)
    }

    fn alloc_size(&self, tensor: TensorRef) -> usize {
        self.parts.iter().map(|p| p.alloc_size(tensor)).max().unwrap_or(0)
    }

    fn is_host(&self) -> bool {
        self.parts.iter().all(|p| p.is_host())
    }
}

impl MetaBufferType {
    /// Places tensors that have no memory; addresses and buffers of a failure are the caller's to take back.
    fn place(&self, this: BufferTypeRef, tensors: &[TensorRef]) -> Result<Option<BufferBox>> {
        let table = Table::default();
        let mut meta = MetaBuffer { device: self.device, table, parts: self.parts.iter().map(|_| None).collect() };
        let (alignment, mut at) = (self.alignment(), BASE);
        let mut made = Vec::with_capacity(tensors.len());
        for &t in tensors {
            // Distinct addresses, for code that compares addresses. There is no memory at them.
            t.set_data(std::ptr::without_provenance_mut(at));
            at += t.nbytes().max(1).next_multiple_of(alignment);
            made.push(Arc::new(prepare(t, &meta)?));
        }
        for (device, buft) in self.parts.iter().enumerate() {
            let mut list: Vec<_> = made.iter().map(|s| s.get(device).as_ptr()).collect();
            meta.parts[device] = buft.alloc_buffer_n(&mut list)?;
            let lacks = |s: &Arc<Slices>| s.get(device).data().is_null() && !s.get(device).is_empty();
            if made.iter().any(lacks) {
                return Err(Error::OutOfMemory {
                    what: format!("slices in buffers of type {}", buft.name()),
                    bytes: at - BASE,
                });
            }
        }
        let Some(size) = meta.parts().map(BufferRef::size).max() else { return Ok(None) };
        for (&t, slices) in tensors.iter().zip(made) {
            meta.table.put(t, slices, true);
        }
        let buffer = new_buffer(this, size, meta);
        for t in tensors {
            t.set_buffer_raw(buffer.handle().as_ptr());
        }
        Ok(Some(buffer))
    }
}

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
                for t in Layout::new(tensor, &slices.seen, dim)?.transfers(offset, size) {
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
                for t in Layout::new(tensor, &slices.seen, dim)?.transfers(offset, data.len()) {
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
                for t in Layout::new(tensor, &slices.seen, dim)?.transfers(offset, data.len()) {
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
