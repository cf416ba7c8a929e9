//! A buffer of a meta device: one buffer on every device, and the slices in them. Its functions are in `transfer`.

use super::spread::Spread;
use super::table::Table;
use crate::backend::author::buffer_author;
use crate::backend::{BufferBox, BufferRef};
use crate::tensor::TensorRef;

/// The base address that a meta buffer reports. There is no memory at it; only offsets from it are meaningful.
pub const BASE: usize = 1 << 60;

/// A buffer that is spread over the devices.
pub struct MetaBuffer {
    /// How the host distributes tensors with data.
    pub spread: Spread,
    /// Slices of the tensors in the buffer.
    pub table: Table,
    /// A buffer for each device; `None` if nothing is stored there.
    pub parts: Vec<Option<BufferBox>>,
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

/// The implementor of a meta buffer, or `None` for any other buffer.
pub fn meta_buffer(buffer: &BufferRef) -> Option<&MetaBuffer> {
    buffer_author::<MetaBuffer>(buffer)
}

/// Whether a tensor is in a meta buffer.
pub fn is_sliced(t: TensorRef) -> bool {
    t.buffer().is_some_and(|b| meta_buffer(&b).is_some())
}
