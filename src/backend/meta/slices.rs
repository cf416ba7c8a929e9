//! The slices of a tensor on the devices, and the table of a buffer that finds them.

use super::MetaDevice;
use super::buffer::MetaBuffer;
use super::infer::{Sources, infer};
use super::split::Split;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE;
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_SRC, ggml_op, ggml_status, ggml_tensor};
use crate::backend::author::{buffer_author, device_author};
use crate::backend::{BufferRef, view};
use crate::error::{Error, Result};
use crate::invalid;
use crate::sys::memory::AlignedBlock;
use crate::sys::sync::{Brief, brief};
use crate::tensor::TensorRef;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One tensor on every device.
pub struct Slices {
    /// As its readers see it: summands count as added up.
    pub seen: Arc<Split>,
    /// As the operation leaves it.
    pub left: Arc<Split>,
    /// Devices on which the operation has nothing to work on, because a source has no elements there.
    pub idle: Vec<bool>,
    memory: AlignedBlock,
    sources: [Option<Arc<Slices>>; GGML_MAX_SRC],
    base: Option<Arc<Slices>>,
    image: Image,
}

/// What of a tensor its slices depend on.
#[derive(PartialEq)]
struct Image {
    dtype: i32,
    op: i32,
    op_params: [i32; crate::tensor::handle::OP_PARAM_WORDS],
    ne: [i64; GGML_MAX_DIMS],
    nb: [usize; GGML_MAX_DIMS],
    src: [*mut ggml_tensor; GGML_MAX_SRC],
    view_src: Option<TensorRef>,
    view_offs: usize,
    data: *mut u8,
}
// SAFETY: the pointers are compared only.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    fn of(t: TensorRef) -> Self {
        Self {
            dtype: t.dtype_raw(),
            op: t.op_raw(),
            op_params: t.op_params(),
            ne: t.ne(),
            nb: t.nb(),
            src: t.srcs_raw(),
            view_src: t.view_src(),
            view_offs: t.view_offs(),
            data: t.data(),
        }
    }
}

impl Slices {
    /// The slice of a device.
    pub fn get(&self, device: usize) -> TensorRef {
        assert!(device < self.idle.len());
        // SAFETY: the block holds a tensor for each device, made in `blank`.
        match unsafe { TensorRef::from_ptr(self.memory.as_ptr().cast::<ggml_tensor>().add(device)) } {
            Some(t) => t,
            None => unreachable!("a block is never NULL"),
        }
    }

    /// All slices in order of their devices.
    pub fn iter(&self) -> impl Iterator<Item = TensorRef> + '_ {
        (0..self.idle.len()).map(|d| self.get(d))
    }
}

/// The slices of the tensors of a buffer.
#[derive(Default)]
pub struct Table {
    entries: Mutex<HashMap<usize, Entry>>,
}

struct Entry {
    slices: Arc<Slices>,
    /// Lives as long as the buffer; the others go when no recent graph has used them.
    stays: bool,
    epoch: u64,
}

/// Counts the entries made, so that a prepared graph notices that it is out of date.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Counts the graphs prepared.
static EPOCH: AtomicU64 = AtomicU64::new(1);

/// A number that changes when slices are made.
pub fn changes() -> u64 {
    CHANGES.load(Ordering::Relaxed)
}

/// A new graph is prepared.
pub fn next_epoch() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

impl Table {
    fn entries(&self) -> Brief<std::sync::MutexGuard<'_, HashMap<usize, Entry>>> {
        brief(&self.entries)
    }

    fn find(&self, t: TensorRef) -> Option<Arc<Slices>> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&(t.as_ptr() as usize))?;
        entry.epoch = EPOCH.load(Ordering::Relaxed);
        Some(entry.slices.clone())
    }

    /// Takes the slices of a tensor in.
    pub fn put(&self, t: TensorRef, slices: Arc<Slices>, stays: bool) {
        let entry = Entry { slices, stays, epoch: EPOCH.load(Ordering::Relaxed) };
        let old = self.entries().insert(t.as_ptr() as usize, entry);
        CHANGES.fetch_add(1, Ordering::Relaxed);
        drop(old); // outside the lock: it may hold slices of other buffers
    }

    /// Forgets what the last graphs did not use.
    pub fn sweep(&self) {
        let now = EPOCH.load(Ordering::Relaxed);
        let mut old = Vec::new();
        self.entries().retain(|_, e| {
            let keep = e.stays || e.epoch + 3 > now;
            if !keep {
                old.push(e.slices.clone());
            }
            keep
        });
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

/// The slices of a tensor in a meta buffer, made again if the tensor or its sources have changed.
pub fn slices_of(t: TensorRef) -> Result<Arc<Slices>> {
    let Some(buffer) = t.buffer() else { return Err(invalid!("'{}' has no memory", t.name())) };
    let Some(meta) = meta_buffer(&buffer) else { return Err(invalid!("'{}' is not on a meta device", t.name())) };
    if let Some(found) = meta.table.find(t)
        && found.image == Image::of(t)
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
    let slices = Slices { memory: blank(devices)?, seen, left, idle, sources, base, image: Image::of(t) };
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
    match device_author::<MetaDevice>(meta.device) {
        Some(device) if holds_data => device.split_of(t),
        _ => infer(t, sources, meta.devices(), reduced),
    }
}

fn blank(devices: usize) -> Result<AlignedBlock> {
    AlignedBlock::zeroed(devices * size_of::<ggml_tensor>(), 16, "the slices of a tensor")
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
            let offset = (t.data() as usize).wrapping_sub(super::buffer::BASE);
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
