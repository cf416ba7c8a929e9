//! Bytes into, out of and between several tensors by one call. Tensors whose buffers are of one type go to the buffer's
//! own function for that where it has one; otherwise one tensor follows the other.

use super::handle::slot;
use super::observe::{self, Operation};
use super::tensor_io::{self, Pieces, buffer_of, check_range};
use super::{BufferRef, BufferTypeRef};
use crate::error::Result;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use std::ffi::c_void;

/// Bytes of one tensor, and where they are in host memory.
#[derive(Clone, Copy)]
pub struct HostPart {
    /// The tensor.
    pub tensor: TensorRef,
    /// Where in host memory.
    pub data: *mut u8,
    /// First byte in the tensor.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// What belongs to one type of buffers, with a buffer of that type.
struct PerType<T> {
    buffer: BufferRef,
    items: Vec<T>,
}

/// The items by the type of their buffers, in the order in which the types come first.
fn by_type<T: Copy>(items: &[T], tensor: impl Fn(&T) -> TensorRef) -> Vec<PerType<T>> {
    let mut groups: Vec<(BufferTypeRef, PerType<T>)> = Vec::new();
    for item in items {
        let buffer = buffer_of(tensor(item));
        let buft = buffer.buft();
        match groups.iter_mut().find(|(other, _)| *other == buft) {
            Some((_, group)) => group.items.push(*item),
            None => groups.push((buft, PerType { buffer, items: vec![*item] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns two or more parts as pieces of one tensor, if they have the same size, and constant strides both in the
/// tensor and in host memory.
fn as_pieces(parts: &[HostPart]) -> Option<Pieces> {
    let [first, second, ..] = parts else { return None };
    let stride_tensor = second.offset.checked_sub(first.offset)?;
    let stride_data = second.data.addr().checked_sub(first.data.addr())?;
    let regular = parts.iter().enumerate().all(|(i, p)| {
        p.tensor == first.tensor
            && p.size == first.size
            && i.checked_mul(stride_tensor).and_then(|n| n.checked_add(first.offset)) == Some(p.offset)
            && i.checked_mul(stride_data).and_then(|n| n.checked_add(first.data.addr())) == Some(p.data.addr())
    });
    let pieces = Pieces { offset: first.offset, size: first.size, count: parts.len(), stride_tensor, stride_data };
    (regular && first.size > 0).then_some(pieces)
}

/// The columns of a list of parts, as the functions of a buffer take them.
struct Columns {
    tensors: Vec<TensorRef>,
    data: Vec<*mut c_void>,
    offsets: Vec<usize>,
    sizes: Vec<usize>,
}

impl Columns {
    fn of(parts: &[HostPart]) -> Self {
        Self {
            tensors: parts.iter().map(|p| p.tensor).collect(),
            data: parts.iter().map(|p| p.data.cast()).collect(),
            offsets: parts.iter().map(|p| p.offset).collect(),
            sizes: parts.iter().map(|p| p.size).collect(),
        }
    }
}

/// Copies host memory into tensors: `size` bytes from `data` to `offset`, for each part. Nothing is written before all
/// parts are known to be inside their tensors.
///
/// # Safety
/// The `size` bytes at `data` of every part are readable.
pub unsafe fn set(parts: &[HostPart]) {
    parts.iter().for_each(|p| check_range(p.tensor, p.offset, p.size, "write"));
    for PerType { buffer, items } in by_type(parts, |p| p.tensor) {
        if let Some(f) = slot!(buffer.set_tensor_n) {
            items.iter().for_each(|p| observe::notify(|| Operation::Set(p.tensor, p.offset, p.size)));
            let c = Columns::of(&items);
            let (tensors, data) = (c.tensors.as_ptr().cast(), c.data.as_ptr().cast());
            // SAFETY: the vtable contract for tensors in buffers of this type, ranges were checked, and the caller's
            // promise for `data`. A `TensorRef` is a pointer (`repr(transparent)`).
            unsafe { f(buffer.as_ptr(), tensors, data, c.offsets.as_ptr(), c.sizes.as_ptr(), items.len()) }
        } else if let Some(pieces) = as_pieces(&items) {
            // SAFETY: every piece is the `data` of a part, which the caller promises to be readable.
            unsafe { tensor_io::set_2d(items[0].tensor, items[0].data, pieces) }
        } else {
            // SAFETY: the caller promises that the `size` bytes at the `data` of every part are readable.
            items.iter().for_each(|p| unsafe { tensor_io::set(p.tensor, p.data, p.offset, p.size) });
        }
    }
}

/// Copies tensors into host memory: `size` bytes from `offset` to `data`, for each part. Nothing is read before all
/// parts are known to be inside their tensors.
///
/// # Safety
/// The `size` bytes at `data` of every part are writable, and no other code uses them.
pub unsafe fn get(parts: &[HostPart]) {
    parts.iter().for_each(|p| check_range(p.tensor, p.offset, p.size, "read"));
    for PerType { buffer, items } in by_type(parts, |p| p.tensor) {
        if let Some(f) = slot!(buffer.get_tensor_n) {
            items.iter().for_each(|p| observe::notify(|| Operation::Get(p.tensor, p.offset, p.size)));
            let c = Columns::of(&items);
            let tensors = c.tensors.as_ptr().cast();
            // SAFETY: the vtable contract for tensors in buffers of this type, ranges were checked, and the caller's
            // promise for `data`. A `TensorRef` is a pointer (`repr(transparent)`).
            unsafe { f(buffer.as_ptr(), tensors, c.data.as_ptr(), c.offsets.as_ptr(), c.sizes.as_ptr(), items.len()) }
        } else if let Some(pieces) = as_pieces(&items) {
            // SAFETY: every piece is the `data` of a part, which the caller promises to be writable.
            unsafe { tensor_io::get_2d(items[0].tensor, items[0].data, pieces) }
        } else {
            // SAFETY: the caller promises that the `size` bytes at the `data` of every part are writable.
            items.iter().for_each(|p| unsafe { tensor_io::get(p.tensor, p.data, p.offset, p.size) });
        }
    }
}

/// Copies tensors to tensors of the same layouts, on any devices, and returns when that is done.
pub fn copy(pairs: &[(TensorRef, TensorRef)]) -> Result<()> {
    for (src, dst) in pairs {
        ggml_assert!(src.same_layout(*dst), "cannot copy tensors with different layouts: '{}'", src.name());
    }
    for PerType { buffer, items } in by_type(pairs, |(_, dst)| *dst) {
        if let Some(f) = slot!(buffer.cpy_tensor_n) {
            items.iter().for_each(|(src, dst)| observe::notify(|| Operation::Copy(*src, *dst)));
            let (srcs, dsts): (Vec<_>, Vec<_>) =
                items.iter().map(|(s, d)| (s.as_ptr().cast_const(), d.as_ptr())).unzip();
            // SAFETY: the vtable contract for tensors in buffers of this type.
            if unsafe { f(buffer.as_ptr(), srcs.as_ptr(), dsts.as_ptr(), items.len()) } {
                continue;
            }
        }
        items.iter().try_for_each(|(src, dst)| tensor_io::copy(*src, *dst))?;
    }
    Ok(())
}
