//! A pool: a buffer on one device for the units whose weights have the same formats and shapes. It has slots; a slot
//! has a place for each weight of a unit, so that an expert is there as a whole or not at all. The matrices of all
//! slots for one weight follow one after the other, as those of a tensor with as many experts as there are slots.

use super::policy::{Policy, Slot};
use super::streams;
use super::table::{self, Table};
use super::unit::Unit;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_ANY;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BufferBox, BufferTypeRef, observe, observe::Operation, view};
use crate::error::{Error, Result};
use crate::graph::ids::TensorIds;
use crate::log_debug;
use crate::tensor::{Context, TensorRef};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Experts of a unit that a batch may upload: more keep the bus busy, and are hardly worth it
/// (docs/measurements/0.28.0-experts.md).
const UPLOADS: usize = 1;
/// Alignment of the parts of a pool, at least that of the buffer type.
const ALIGNMENT: usize = 256;

/// Writes to weights, and frees of their buffers, in the whole process: what was copied before may be out of date.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Counts writes to weights from now on.
pub fn watch_weights() {
    observe::watch_weights(|operation| {
        let buffer = match operation {
            Operation::Set(t, ..) | Operation::SetAsync(_, t, ..) | Operation::Copy(_, t) => t.data_buffer(),
            Operation::CopyAsync(_, _, _, t) => t.data_buffer(),
            Operation::Clear(buffer) | Operation::FreeBuffer(buffer) => Some(buffer),
            _ => None,
        };
        if buffer.is_some_and(|b| b.is_weights() && b.is_host()) {
            if matches!(operation, Operation::FreeBuffer(_)) {
                streams::drain_all();
            }
            WRITES.fetch_add(1, Relaxed);
        }
    });
}

/// Format, columns and rows of a weight's matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    dtype: ggml_type,
    columns: i64,
    rows: i64,
}

/// What a pool holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The backend on whose device it is.
    pub backend: usize,
    /// Experts of a unit.
    pub n_experts: usize,
    /// Those of the unit's weights.
    shapes: Vec<Shape>,
}

impl Kind {
    /// What a pool for a unit holds.
    pub fn of(unit: &Unit, ids: &TensorIds, backend: usize) -> Self {
        let shape = |&id: &u32| {
            let w = ids.tensor(id);
            Shape { dtype: w.dtype(), columns: w.ne()[0], rows: w.ne()[1] }
        };
        let n_experts = ids.tensor(unit.weights[0]).ne()[2] as usize;
        Self { backend, n_experts, shapes: unit.weights.iter().map(shape).collect() }
    }

    /// Bytes of an expert. `None` if there is none of this kind.
    fn slot_bytes(&self) -> Option<usize> {
        let bytes = self.shapes.iter().try_fold(0usize, |sum, shape| sum.checked_add(matrix_bytes(shape)?));
        bytes.filter(|&bytes| bytes > 0)
    }

    /// Bytes of all experts of so many units.
    pub fn bytes(&self, layers: usize) -> usize {
        self.slot_bytes().unwrap_or(0).saturating_mul(self.n_experts).saturating_mul(layers)
    }

    /// Bytes that a pool for so many units takes beside its slots: those of the spare one, of the table, and of gaps.
    pub fn beside(&self, layers: usize) -> usize {
        let gaps = ALIGNMENT * (self.shapes.len() + 1);
        self.slot_bytes().unwrap_or(0) + table::len(layers, self.n_experts) * size_of::<i32>() + gaps
    }
}

/// The weights of a unit: addresses in host memory.
pub type Layer = Vec<usize>;

/// Those of one.
pub fn layer_of(unit: &Unit, ids: &TensorIds) -> Layer {
    unit.weights.iter().map(|&id| ids.tensor(id).data() as usize).collect()
}

/// Whether what a slot is to hold is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// It is, for all that the device is given from now on.
    Yes,
    /// It waits for its upload.
    Waits,
    /// After the upload with this number.
    After(u64),
}

/// Slots for the experts of units with the same formats and shapes.
pub struct Pool {
    /// What it holds.
    pub kind: Kind,
    /// Its units.
    pub layers: Vec<Layer>,
    /// All slots as one tensor, for each weight; they are in `ctx`. If the CPU may compute rows, there is a slot more,
    /// which the device reads in the place of their experts.
    tensors: Vec<TensorRef>,
    _ctx: Context,
    buffer: BufferBox,
    /// Which experts are there, or on their way.
    pub policy: Policy,
    /// By slot.
    pub ready: Vec<Ready>,
    /// What of it the device can look up, if the CPU may compute rows.
    pub table: Option<Table>,
    /// The writes to weights that had been counted when the contents were last known to be right.
    writes: u64,
}

impl Pool {
    /// Bytes of its buffer.
    pub fn bytes(&self) -> usize {
        self.buffer.size()
    }

    /// Gives a tensor, which has the format of the weight `weight` of a unit, the slots as experts.
    pub fn fill(&self, weight: usize, t: TensorRef) -> Result<()> {
        let slots = self.slots(weight);
        t.set_ne(slots.ne());
        t.set_nb(slots.nb());
        match view::bind(self.buffer.handle(), t, slots.data()) {
            ggml_status::GGML_STATUS_SUCCESS => Ok(()),
            status => Err(Error::Unsupported(format!("a device does not take '{}': {status:?}", t.name()))),
        }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.tensors.iter().map(|t| t.nb()[2]).sum()
    }

    /// Slots.
    pub fn n_slots(&self) -> usize {
        self.policy.n_slots()
    }

    /// Bytes from one slot to the next, for a weight of the unit.
    pub fn stride(&self, weight: usize) -> usize {
        self.tensors[weight].nb()[2]
    }

    /// All slots for a weight of the unit, as one tensor.
    pub fn slots(&self, weight: usize) -> TensorRef {
        self.tensors[weight]
    }

    /// The slot that no expert has: for rows that the CPU computes.
    pub fn spare(&self) -> Slot {
        self.n_slots()
    }

    /// Whether the device may still look up what a slot had: nothing may be copied to it.
    pub fn is_shown(&self, slot: Slot) -> bool {
        self.table.as_ref().is_some_and(|table| table.shows(slot))
    }

    /// The contents have changed by other means than uploads: what the device has looked up holds no longer.
    pub fn spoil_table(&mut self) {
        self.table.iter_mut().for_each(Table::spoil);
    }

    /// Whether the table has to be written before the next unit.
    pub fn is_table_stale(&self) -> bool {
        self.table.as_ref().is_some_and(Table::is_stale)
    }

    /// As [`Table::bind`], with the row of a layer.
    pub fn bind_row(&self, layer: usize, t: TensorRef) -> bool {
        self.table.as_ref().is_some_and(|table| table.bind(self.buffer.handle(), layer, t))
    }

    /// Units.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Experts of a unit.
    pub fn n_experts(&self) -> usize {
        self.kind.n_experts
    }

    /// Forgets the experts that wait for an upload, which will not come.
    pub fn forget_waiting(&mut self) {
        for slot in 0..self.ready.len() {
            if self.ready[slot] == Ready::Waits {
                self.ready[slot] = Ready::Yes;
                self.policy.forget(slot);
            }
        }
    }

    /// A graph begins: the device may look up what is there now.
    pub fn start(&mut self) {
        self.table.iter_mut().for_each(Table::start);
    }

    /// Whether no weights were written or freed since the contents were copied.
    pub fn is_current(&self) -> bool {
        self.writes == WRITES.load(Relaxed)
    }

    /// Forgets all contents, because weights were written or freed. Uploads have ended.
    pub fn renew(&mut self) {
        self.writes = WRITES.load(Relaxed);
        self.forget();
    }

    /// Forgets all contents, and writes all bytes. Uploads have ended, and the device has done its work.
    pub fn empty(&mut self) {
        self.forget();
        self.buffer.clear(0);
    }

    fn forget(&mut self) {
        self.spoil_table();
        self.ready.fill(Ready::Yes);
        let held = |&slot: &Slot| self.policy.contents(slot).is_some();
        let slots: Vec<Slot> = (0..self.policy.n_slots()).filter(held).collect();
        slots.into_iter().for_each(|slot| self.policy.forget(slot));
    }
}

fn matrix_bytes(shape: &Shape) -> Option<usize> {
    let row = crate::quant::types::row_size_checked(shape.dtype, shape.columns)?;
    row.checked_mul(usize::try_from(shape.rows).ok()?)
}

impl Pool {
    /// As many slots as a limit allows, at most one for each expert. `is_shared`: the CPU may compute rows. `insists`:
    /// if the device has less memory, fewer slots will do.
    pub fn new(
        kind: &Kind,
        layers: Vec<Layer>,
        buft: BufferTypeRef,
        limit: usize,
        is_shared: bool,
        insists: bool,
    ) -> Result<Self> {
        let too_small = |bytes| Error::OutOfMemory { what: "a slot for an expert".into(), bytes };
        let slot = kind.slot_bytes().ok_or_else(|| too_small(0))?;
        let limit = limit.min(buft.max_size());
        let beside = if is_shared { kind.beside(layers.len()) } else { 0 };
        let most = layers.len() * kind.n_experts;
        let mut n_slots = most.min(limit.saturating_sub(beside) / slot);
        while n_slots > 0 {
            match Self::try_new(kind, &layers, buft, n_slots, limit, is_shared) {
                Ok(Some(pool)) => return Ok(pool),
                // The device has less, or needs gaps.
                Ok(None) => {}
                Err(Error::OutOfMemory { .. }) if insists => {}
                Err(error) => return Err(error),
            }
            n_slots -= n_slots.div_ceil(16);
        }
        Err(too_small(slot + beside))
    }

    /// `None` if the limit is too small for so many slots.
    fn try_new(
        kind: &Kind,
        layers: &[Layer],
        buft: BufferTypeRef,
        n_slots: usize,
        limit: usize,
        is_shared: bool,
    ) -> Result<Option<Self>> {
        let align = buft.alignment().max(ALIGNMENT);
        // SAFETY: the tensors are used by the pool, which holds the context, and its uploads, which end before.
        let mut ctx = unsafe { Context::owned((kind.shapes.len() + 2) * 1024, true)? };
        let n_all = n_slots + usize::from(is_shared);
        let mut tensors = Vec::new();
        for shape in &kind.shapes {
            tensors.push(ctx.new_tensor(shape.dtype, &[shape.columns, shape.rows, n_all as i64])?);
        }
        let table = match is_shared {
            true => Some(ctx.new_tensor(ggml_type::GGML_TYPE_I32, &[table::len(layers.len(), kind.n_experts) as i64])?),
            false => None,
        };
        let (mut places, mut end) = (Vec::new(), 0usize);
        for t in tensors.iter().copied().chain(table) {
            places.push((t, end));
            end = buft.alloc_size(t).checked_add(end).map_or(usize::MAX, |end| end.next_multiple_of(align));
        }
        if end > limit {
            return Ok(None);
        }
        let Some(buffer) = buft.alloc_buffer(end) else {
            log_debug!("{} has no {end} bytes for an expert cache", buft.name());
            return Err(Error::OutOfMemory { what: "experts".into(), bytes: end });
        };
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_ANY);
        // A kernel that reads beyond its rows, or a slot that nothing uses, finds numbers.
        buffer.clear(0);
        let base = buffer.base();
        for (t, at) in places {
            view::bind(buffer.handle(), t, base.wrapping_add(at));
        }
        let table = table.map(|t| Table::new(t, layers.len(), kind.n_experts, n_slots));
        let mut policy = Policy::new(layers.len(), kind.n_experts, n_slots);
        policy.set_uploads(UPLOADS);
        let (kind, layers, writes) = (kind.clone(), layers.to_vec(), WRITES.load(Relaxed));
        let ready = vec![Ready::Yes; n_slots];
        Ok(Some(Self { kind, layers, tensors, _ctx: ctx, buffer, policy, ready, table, writes }))
    }
}
