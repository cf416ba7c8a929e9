//! The buffer type of a meta device.
#![forbid(unsafe_code)]

use super::buffer::{BASE, MetaBuffer};
use super::slices::prepare;
use super::spread::Spread;
use super::table::{Slices, Table};
use crate::abi::ggml::ggml_status;
use crate::backend::author::{BufferType, new_buffer};
use crate::backend::{BufferBox, BufferRef, BufferTypeRef, view};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The buffer type of a meta device.
pub struct MetaBufferType {
    name: CString,
    spread: Spread,
    parts: Vec<BufferTypeRef>,
}

impl MetaBufferType {
    /// The type over the given types, one for each device.
    pub fn new(name: CString, spread: Spread, parts: Vec<BufferTypeRef>) -> Self {
        Self { name, spread, parts }
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
        Ok(MetaBuffer { spread: self.spread, table: Table::default(), parts })
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
        let mut meta = MetaBuffer { spread: self.spread, table, parts: self.parts.iter().map(|_| None).collect() };
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
