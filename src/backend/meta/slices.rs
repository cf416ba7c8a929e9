//! Makes the slices of a tensor on the devices.
#![forbid(unsafe_code)]

use super::buffer::{BASE, MetaBuffer, is_sliced, meta_buffer};
use super::infer::{Sources, infer};
use super::split::Split;
use super::table::Slices;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_op, ggml_status};
use crate::backend::view;
use crate::error::{Error, Result};
use crate::invalid;
use crate::tensor::TensorRef;
use std::sync::Arc;

/// The slices of a tensor in a meta buffer, made again if the tensor or its sources have changed.
pub fn slices_of(t: TensorRef) -> Result<Arc<Slices>> {
    let Some(buffer) = t.buffer() else { return Err(invalid!("'{}' has no memory", t.name())) };
    let Some(meta) = meta_buffer(&buffer) else { return Err(invalid!("'{}' is not on a meta device", t.name())) };
    if let Some(found) = meta.table.find(t)
        && found.are_of(t)
        && is_current(t, &found)
    {
        return Ok(found);
    }
    make(t, meta)
}

/// Whether the slices that these were made from are still those of the sources. One level suffices where sources come
/// first, as they do in a graph.
fn is_current(t: TensorRef, slices: &Slices) -> bool {
    let same = |tensor: TensorRef, old: &Option<Arc<Slices>>| {
        let buffer = tensor.buffer();
        match (old, buffer.as_ref().and_then(meta_buffer)) {
            (Some(old), Some(meta)) => meta.table.find(tensor).is_some_and(|now| Arc::ptr_eq(old, &now)),
            (old, meta) => old.is_none() && meta.is_none(),
        }
    };
    t.srcs().all(|(i, s)| s == t || same(s, &slices.sources[i])) && t.view_src().is_none_or(|v| same(v, &slices.base))
}

/// Makes the slices of a tensor that has its place in a meta buffer, and takes them into the buffer's table.
pub fn make(t: TensorRef, meta: &MetaBuffer) -> Result<Arc<Slices>> {
    let slices = Arc::new(prepare(t, meta)?);
    for (device, slice) in slices.iter().enumerate() {
        place(t, slice, device, &slices, meta)?;
    }
    meta.table.put(t, slices.clone(), false);
    Ok(slices)
}

/// As [`make`], for a tensor without memory: slices without memory.
pub fn prepare(t: TensorRef, meta: &MetaBuffer) -> Result<Slices> {
    let devices = meta.devices();
    let mut sources: [Option<Arc<Slices>>; GGML_MAX_SRC] = Default::default();
    let mut splits = Sources::default();
    for (i, s) in t.srcs() {
        if s == t {
            continue;
        }
        if is_sliced(s) {
            let slices = slices_of(s)?;
            splits[i] = Some(slices.seen.clone());
            sources[i] = Some(slices);
        } else {
            splits[i] = Some(Arc::new(Split::mirrored(devices)));
        }
    }
    let base = match t.view_src() {
        Some(v) if is_sliced(v) => Some(slices_of(v)?),
        _ => None,
    };
    let (seen, left) = match &base {
        // A view of a whole tensor is spread as that is.
        Some(base) if t.op() == ggml_op::GGML_OP_NONE => (base.seen.clone(), base.left.clone()),
        _ => {
            let seen = Arc::new(split_of(t, meta, &splits, true)?);
            let is_sum = matches!(t.op(), ggml_op::GGML_OP_MUL_MAT | ggml_op::GGML_OP_MUL_MAT_ID) && seen.is_mirrored();
            let left = if is_sum { Arc::new(split_of(t, meta, &splits, false)?) } else { seen.clone() };
            (seen, left)
        }
    };
    let idle = (0..devices).map(|d| splits.iter().flatten().any(|s| s.dim().is_some() && s.total(d) == 0)).collect();
    let slices = Slices::blank(t, (seen, left), idle, sources, base)?;
    for device in 0..devices {
        describe(t, &slices, device);
    }
    Ok(slices)
}

fn split_of(t: TensorRef, meta: &MetaBuffer, sources: &Sources, reduced: bool) -> Result<Split> {
    if t.is_empty() {
        return Ok(Split::mirrored(meta.devices()));
    }
    let holds_data =
        t.view_src().is_none() && t.buffer().is_none_or(|b| b.usage_raw() != GGML_BACKEND_BUFFER_USAGE_COMPUTE as i32);
    match holds_data {
        true => meta.spread.split_of(t, meta.devices()),
        false => infer(t, sources, meta.devices(), reduced),
    }
}

/// Writes format, shape, operation and sources of a slice.
fn describe(t: TensorRef, slices: &Slices, device: usize) {
    let slice = slices.get(device);
    let (mut ne, mut nb) = (t.ne(), t.nb());
    if let Some(dim) = slices.seen.dim() {
        let (share, whole, step) = (slices.seen.total(device), ne[dim], nb[dim]);
        ne[dim] = share;
        for stride in nb.iter_mut().filter(|stride| **stride > step) {
            *stride = (*stride as u128 * share as u128 / whole.max(1) as u128) as usize;
        }
    }
    slice.set_dtype(t.dtype());
    slice.set_op(t.op());
    slice.set_ne(ne);
    slice.set_nb(nb);
    slice.set_op_params(t.op_params());
    slice.set_flags(t.flags());
    slice.set_name(&t.name_bytes());
    slice.set_view_offs(t.view_offs());
    for (i, s) in t.srcs() {
        let own = if s == t { Some(slice) } else { slices.sources[i].as_ref().map(|s| s.get(device)) };
        slice.set_src(i, own.or(Some(s)));
    }
    slice.set_view_src(t.view_src().map(|v| slices.base.as_ref().map_or(v, |b| b.get(device))));
}

/// Gives a slice its memory: its base's, or the place in the device's buffer that the tensor has in the whole.
fn place(t: TensorRef, slice: TensorRef, device: usize, slices: &Slices, meta: &MetaBuffer) -> Result<()> {
    let status = match (slice.view_src(), meta.part(device)) {
        (Some(base), _) => {
            slice.set_view_offs(view_offset(t, slices, device)?);
            if base.data().is_null() {
                return Ok(()); // a base of which this device has nothing
            }
            view::init(slice)
        }
        (None, Some(part)) => {
            let offset = (t.data() as usize).wrapping_sub(BASE);
            if offset.checked_add(slice.nbytes()).is_none_or(|end| end > part.size()) {
                return Err(invalid!("'{}' is not inside its buffer", t.name()));
            }
            slice.set_buffer_raw(part.as_ptr());
            slice.set_data(part.base().wrapping_add(offset));
            part.init_tensor(slice)
        }
        (None, None) => return Err(invalid!("'{}' has no memory on device {device}", t.name())),
    };
    match status {
        ggml_status::GGML_STATUS_SUCCESS => Ok(()),
        _ => Err(Error::Backend(format!("device {device} cannot hold its slice of '{}'", t.name()))),
    }
}

/// Where a view begins in its base's slice. What is below one step along the divided dimension keeps its offset, whole
/// steps shrink with the slice.
fn view_offset(t: TensorRef, slices: &Slices, device: usize) -> Result<usize> {
    let offset = t.view_offs();
    let (Some(dim), true) = (slices.seen.dim(), offset > 0) else { return Ok(offset) };
    let (share, whole, step) = (slices.seen.total(device) as u128, t.ne()[dim] as u128, t.nb()[dim]);
    let inner = offset % step.max(1);
    let scaled = (offset - inner) as u128 * share;
    if whole > 0 && scaled.is_multiple_of(whole) && (scaled / whole).is_multiple_of(step.max(1) as u128) {
        return Ok((scaled / whole) as usize + inner);
    }
    match offset <= step {
        true => Ok(offset),
        false => Err(invalid!("the view '{}' begins inside a device's slice", t.name())),
    }
}
