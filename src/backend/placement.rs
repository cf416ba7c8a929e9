//! Places a list of tensors in buffers of one type: as few buffers as the type's largest size allows, one tensor after
//! the other.

use super::handle::slot;
use super::{BufferBox, BufferRef, BufferTypeRef, multi, view};
use crate::abi::ggml::{ggml_status, ggml_tensor};
use crate::error::{Error, Result};
use crate::invalid;
use crate::tensor::TensorRef;
use std::ops::Range;

/// A buffer to be made, and the tensors of the list that go into it.
struct Planned {
    size: usize,
    tensors: Range<usize>,
}

impl BufferTypeRef {
    /// Buffers for all tensors of the list that have no memory yet, the tensors bound to them and views to their bases.
    /// `Ok(None)` when no tensor needs a byte. After an error every tensor is as it was.
    pub fn alloc_buffer_n(self, tensors: &mut [*mut ggml_tensor]) -> Result<Option<BufferBox>> {
        if let (Some(f), Ok(n)) = (slot!(self.alloc_buffer_n), tensors.len().try_into()) {
            // SAFETY: the vtable contract; the list has `n` entries.
            let buffer = unsafe { BufferRef::from_ptr(f(self.as_ptr(), tensors.as_mut_ptr(), n)) };
            // SAFETY: the vtable contract: a new buffer is the caller's.
            return Ok(buffer.map(|b| unsafe { BufferBox::own(b) }));
        }
        let list = handles(tensors);
        let mut bound = Vec::new();
        let made = self.place_all(&list, &mut bound);
        if made.is_err() {
            for t in bound {
                t.set_buffer_raw(std::ptr::null_mut());
                t.set_data(std::ptr::null_mut());
            }
        }
        let mut buffers = made?;
        Ok(match buffers.len() {
            0 => None,
            1 => buffers.pop(),
            _ => Some(multi::join(buffers)),
        })
    }

    /// Bytes that [`Self::alloc_buffer_n`] would take for the list.
    pub fn alloc_size_n(self, tensors: &mut [*mut ggml_tensor]) -> Result<usize> {
        if let (Some(f), Ok(n)) = (slot!(self.get_alloc_size_n), tensors.len().try_into()) {
            // SAFETY: the vtable contract; the list has `n` entries.
            return Ok(unsafe { f(self.as_ptr(), tensors.as_mut_ptr(), n) });
        }
        let parts = self.plan(&handles(tensors))?;
        parts.iter().try_fold(0usize, |sum, p| sum.checked_add(p.size)).ok_or_else(|| too_large(self))
    }

    fn plan(self, list: &[TensorRef]) -> Result<Vec<Planned>> {
        let (alignment, max_size) = (self.alignment(), self.max_size());
        let (mut parts, mut size, mut first) = (Vec::new(), 0usize, 0);
        for (i, t) in list.iter().enumerate() {
            let needs_memory = t.data().is_null() && t.view_src().is_none();
            let bytes = if needs_memory { self.alloc_size(*t) } else { 0 };
            let bytes = bytes.checked_next_multiple_of(alignment).ok_or_else(|| too_large(self))?;
            // A tensor that needs no bytes stays with its neighbours, even after a tensor that is larger than a buffer
            // should be.
            match size.checked_add(bytes).filter(|&sum| sum <= max_size || size == 0 || bytes == 0) {
                Some(sum) => size = sum,
                None => {
                    parts.push(Planned { size, tensors: first..i });
                    (size, first) = (bytes, i);
                }
            }
        }
        if size > 0 {
            parts.push(Planned { size, tensors: first..list.len() });
        }
        Ok(parts)
    }

    fn place_all(self, list: &[TensorRef], bound: &mut Vec<TensorRef>) -> Result<Vec<BufferBox>> {
        let mut buffers = Vec::new();
        for part in self.plan(list)? {
            let buffer = self.alloc_buffer(part.size).ok_or_else(|| Error::OutOfMemory {
                what: format!("a buffer of type {}", self.name()),
                bytes: part.size,
            })?;
            place(&buffer, &list[part.tensors], bound)?;
            buffers.push(buffer);
        }
        Ok(buffers)
    }
}

/// Binds the tensors that have no memory to `buffer`, front to back, and unbound views to their bases.
fn place(buffer: &BufferBox, list: &[TensorRef], bound: &mut Vec<TensorRef>) -> Result<()> {
    let (base, alignment) = (buffer.base(), buffer.alignment());
    let mut offset = (base as usize).wrapping_neg() & (alignment - 1);
    for &t in list {
        let status = if t.view_src().is_some() {
            if t.buffer().is_some() {
                continue;
            }
            bound.push(t);
            view::init(t)
        } else if t.data().is_null() {
            let end = buffer.alloc_size(t).checked_next_multiple_of(alignment).and_then(|n| n.checked_add(offset));
            let Some(end) = end.filter(|&end| end <= buffer.size()) else {
                return Err(invalid!("no room for '{}' in a buffer of {} bytes", t.name(), buffer.size()));
            };
            bound.push(t);
            let address = base.wrapping_add(std::mem::replace(&mut offset, end));
            view::bind_if_inside(buffer.handle(), t, address)
        } else {
            continue;
        };
        if status != ggml_status::GGML_STATUS_SUCCESS {
            return Err(Error::Backend(format!("buffer type {} refused the tensor '{}'", buffer.name(), t.name())));
        }
    }
    Ok(())
}

fn too_large(buft: BufferTypeRef) -> Error {
    invalid!("tensors that are too large for a buffer of type {}", buft.name())
}

fn handles(tensors: &[*mut ggml_tensor]) -> Vec<TensorRef> {
    // SAFETY: the caller's list holds valid tensors; NULL entries are left out.
    tensors.iter().filter_map(|&t| unsafe { TensorRef::from_ptr(t) }).collect()
}
