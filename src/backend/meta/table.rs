//! The slices of a tensor on the devices, and the table of a buffer that finds them.

use super::split::Split;
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_SRC, ggml_tensor};
use crate::error::Result;
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
    /// Slices of the sources; `None` for those that are not in a meta buffer.
    pub sources: [Option<Arc<Slices>>; GGML_MAX_SRC],
    /// Slices of the base of a view, if it is in a meta buffer.
    pub base: Option<Arc<Slices>>,
    memory: Tensors,
    image: Image,
}

/// A tensor for each device, at first of zero bytes.
struct Tensors {
    block: AlignedBlock,
    devices: usize,
}

impl Tensors {
    fn new(devices: usize) -> Result<Self> {
        let block = AlignedBlock::zeroed(devices * size_of::<ggml_tensor>(), 16, "the slices of a tensor")?;
        Ok(Self { block, devices })
    }

    fn get(&self, device: usize) -> TensorRef {
        assert!(device < self.devices);
        // SAFETY: `new` has made the block for as many tensors, aligned as they are, and zero bytes are a **valid
        // tensor** without sources. It lives as long as `self`.
        match unsafe { TensorRef::from_ptr(self.block.as_ptr().cast::<ggml_tensor>().add(device)) } {
            Some(t) => t,
            None => unreachable!("a block is never NULL"),
        }
    }
}

/// What of a tensor its slices depend on; pointers as addresses.
#[derive(PartialEq)]
struct Image {
    dtype: i32,
    op: i32,
    op_params: [i32; crate::tensor::handle::OP_PARAM_WORDS],
    ne: [i64; GGML_MAX_DIMS],
    nb: [usize; GGML_MAX_DIMS],
    src: [usize; GGML_MAX_SRC],
    view_src: Option<TensorRef>,
    view_offs: usize,
    data: usize,
}

impl Image {
    fn of(t: TensorRef) -> Self {
        Self {
            dtype: t.dtype_raw(),
            op: t.op_raw(),
            op_params: t.op_params(),
            ne: t.ne(),
            nb: t.nb(),
            src: t.srcs_raw().map(|s| s.addr()),
            view_src: t.view_src(),
            view_offs: t.view_offs(),
            data: t.data().addr(),
        }
    }
}

impl Slices {
    /// Slices of `t`, one for each entry of `idle`, whose tensors have yet to be described.
    ///
    /// # Errors
    /// There is no memory.
    pub fn blank(
        t: TensorRef,
        (seen, left): (Arc<Split>, Arc<Split>),
        idle: Vec<bool>,
        sources: [Option<Arc<Slices>>; GGML_MAX_SRC],
        base: Option<Arc<Slices>>,
    ) -> Result<Self> {
        let memory = Tensors::new(idle.len())?;
        Ok(Self { seen, left, idle, sources, base, memory, image: Image::of(t) })
    }

    /// Whether `t` still is as it was when these were made.
    pub fn are_of(&self, t: TensorRef) -> bool {
        self.image == Image::of(t)
    }

    /// The slice of a device.
    pub fn get(&self, device: usize) -> TensorRef {
        self.memory.get(device)
    }

    /// All slices in order of their devices.
    pub fn iter(&self) -> impl Iterator<Item = TensorRef> + '_ {
        (0..self.memory.devices).map(|d| self.get(d))
    }
}

/// The slices of the tensors of a buffer.
#[derive(Default)]
pub struct Table {
    entries: Mutex<HashMap<usize, SlicesEntry>>,
}

struct SlicesEntry {
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
    fn entries(&self) -> Brief<std::sync::MutexGuard<'_, HashMap<usize, SlicesEntry>>> {
        brief(&self.entries)
    }

    /// The slices of a tensor, as far as they are known.
    pub fn find(&self, t: TensorRef) -> Option<Arc<Slices>> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&(t.as_ptr() as usize))?;
        entry.epoch = EPOCH.load(Ordering::Relaxed);
        Some(entry.slices.clone())
    }

    /// Takes the slices of a tensor in.
    pub fn put(&self, t: TensorRef, slices: Arc<Slices>, stays: bool) {
        let entry = SlicesEntry { slices, stays, epoch: EPOCH.load(Ordering::Relaxed) };
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
