//! Experts in the memory of devices.
//!
//! A *pool* is a buffer on one device for the units whose weights have the same formats and shapes. It has slots; a
//! slot has a place for each weight of a unit, so that an expert is there as a whole or not at all. The matrices of all
//! slots for one weight follow one after the other, as those of a tensor with as many experts as there are slots.

use super::budget::{Budget, Limit};
use super::policy::{Policy, Slot};
use super::streams;
use super::unit::Unit;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_ANY;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BufferBox, BufferTypeRef, observe, observe::Operation, view};
use crate::error::{Error, Result};
use crate::graph::ids::TensorIds;
use crate::sched::settings::Settings;
use crate::tensor::{Context, TensorRef};
use crate::{log_debug, log_info, log_warn};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of a device's memory, this part stays free beside the cache, at least [`MARGIN`].
const MARGIN_PART: usize = 20;
const MARGIN: usize = 256 << 20;
/// Experts of a unit that a batch may upload: more keep the bus busy, and are hardly worth it
/// (docs/measurements/0.28.0-experts.md).
const UPLOADS: usize = 1;
/// Alignment of the parts of a pool, at least that of the buffer type.
const ALIGNMENT: usize = 256;

/// Writes to weights, and frees of their buffers, in the whole process: what was copied before may be out of date.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Counts writes to weights from now on.
fn watch_weights() {
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
struct Kind {
    backend: usize,
    n_experts: usize,
    shapes: Vec<Shape>,
}

impl Kind {
    fn of(unit: &Unit, ids: &TensorIds, backend: usize) -> Self {
        let shape = |&id: &u32| {
            let w = ids.tensor(id);
            Shape { dtype: w.dtype(), columns: w.ne()[0], rows: w.ne()[1] }
        };
        let n_experts = ids.tensor(unit.weights[0]).ne()[2] as usize;
        Self { backend, n_experts, shapes: unit.weights.iter().map(shape).collect() }
    }
}

/// The weights of a unit: addresses in host memory.
type Layer = Vec<usize>;

fn layer_of(unit: &Unit, ids: &TensorIds) -> Layer {
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
    kind: Kind,
    layers: Vec<Layer>,
    /// All slots as one tensor, for each weight; they are in `ctx`.
    tensors: Vec<TensorRef>,
    _ctx: Context,
    buffer: BufferBox,
    /// Which experts are there, or on their way.
    pub policy: Policy,
    /// By slot.
    pub ready: Vec<Ready>,
    /// The writes to weights that had been counted when the contents were last known to be right.
    writes: u64,
}

impl Pool {
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

    /// Units.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Experts of a unit.
    pub fn n_experts(&self) -> usize {
        self.kind.n_experts
    }

    /// Forgets the experts that wait for an upload, which will not come.
    fn forget_waiting(&mut self) {
        for slot in 0..self.ready.len() {
            if self.ready[slot] == Ready::Waits {
                self.ready[slot] = Ready::Yes;
                self.policy.forget(slot);
            }
        }
    }

    /// Forgets all contents if weights were written since they were copied. `stop` ends uploads first.
    pub fn renew(&mut self, stop: impl FnOnce()) {
        let now = WRITES.load(Relaxed);
        if std::mem::replace(&mut self.writes, now) != now {
            stop();
            self.ready.fill(Ready::Yes);
            let held = |&slot: &Slot| self.policy.contents(slot).is_some();
            let slots: Vec<Slot> = (0..self.policy.n_slots()).filter(held).collect();
            slots.into_iter().for_each(|slot| self.policy.forget(slot));
        }
    }
}

/// A unit's place in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The pool.
    pub pool: usize,
    /// The unit's number in the pool.
    pub layer: usize,
}

/// Where the experts of a unit are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The backend.
    pub backend: usize,
    /// Its place in a pool. A unit of a large batch may be in none.
    pub place: Option<Place>,
    /// For a large batch: the number of slots that the plan gives it, for this graph only.
    pub stage: Option<usize>,
}

/// Slots that units of large batches get, by their device, the bytes of their weights, and tokens of an expert.
struct Stage {
    of: (usize, usize, usize),
    n_slots: usize,
}

/// The pools of a scheduler.
pub struct ExpertCache {
    budget: Budget,
    pools: Vec<Pool>,
    retired: Vec<Pool>,
    /// What units of large batches were granted.
    stages: Vec<Stage>,
    /// Kinds that got no memory, and are not tried again.
    refused: Vec<Kind>,
    /// Rises when pools change: their addresses are in graphs.
    generation: u64,
}

impl ExpertCache {
    /// No pools yet. `None` without a budget.
    pub fn new(budget: Budget) -> Option<Self> {
        budget.is_on().then(|| {
            watch_weights();
            Self {
                budget,
                pools: Vec::new(),
                retired: Vec::new(),
                stages: Vec::new(),
                refused: Vec::new(),
                generation: 0,
            }
        })
    }

    /// Which pools there are: graphs that were split with others cannot be repeated.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the device computes all rows.
    pub fn is_strict(&self) -> bool {
        self.budget.strict
    }

    /// A pool.
    pub fn pool(&self, index: usize) -> &Pool {
        &self.pools[index]
    }

    /// A pool, to use it.
    pub fn pool_mut(&mut self, index: usize) -> &mut Pool {
        &mut self.pools[index]
    }

    /// All pools, to fill them.
    pub fn pools_mut(&mut self) -> &mut [Pool] {
        &mut self.pools
    }

    /// All pools, with their backends.
    pub fn pools(&self) -> impl Iterator<Item = (usize, &Pool)> {
        self.pools.iter().map(|p| (p.kind.backend, p))
    }

    /// Finds the homes of units, whose backends are given; `None` for those that are not held. Makes pools for kinds
    /// that are met for the first time, if `may_allocate`.
    pub fn house(
        &mut self,
        units: &[(&Unit, Option<usize>)],
        ids: &TensorIds,
        settings: &Settings,
        may_allocate: bool,
    ) -> Vec<Option<Home>> {
        let kinds: Vec<_> = units.iter().map(|&(u, b)| b.map(|b| (Kind::of(u, ids, b), layer_of(u, ids)))).collect();
        if may_allocate {
            self.make_pools(&kinds, settings);
        }
        let find = |kind: &Option<(Kind, Layer)>| {
            let (kind, layer) = kind.as_ref()?;
            Some(Home { backend: kind.backend, place: Some(self.place_of(kind, layer)?), stage: None })
        };
        let mut homes: Vec<_> = kinds.iter().map(find).collect();
        // What the CPU cannot compute must fit, all at once.
        for (home, &(unit, _)) in std::iter::zip(&mut homes, units) {
            let routing = ids.tensor(unit.ids).ne();
            let rows = usize::try_from(routing[0].saturating_mul(routing[1])).unwrap_or(usize::MAX);
            let all_on_device = self.budget.strict || unit.chain.is_none();
            let fits = |pool: &Pool| !all_on_device || rows.min(pool.n_experts()) <= pool.n_slots();
            *home = home.filter(|h| h.place.is_some_and(|p| fits(&self.pools[p.pool])));
        }
        homes
    }

    /// Whether a home is that of a unit.
    pub fn is_home(&self, home: Home, unit: &Unit, ids: &TensorIds) -> bool {
        let Some(place) = home.place else { return true };
        self.pools.get(place.pool).is_some_and(|p| {
            p.kind == Kind::of(unit, ids, home.backend) && p.layers.get(place.layer) == Some(&layer_of(unit, ids))
        })
    }

    /// The place of a unit in a pool that there is.
    pub fn find(&self, unit: &Unit, ids: &TensorIds, backend: usize) -> Option<Place> {
        self.place_of(&Kind::of(unit, ids, backend), &layer_of(unit, ids))
    }

    fn place_of(&self, kind: &Kind, layer: &Layer) -> Option<Place> {
        let pool = self.pools.iter().position(|p| p.kind == *kind)?;
        Some(Place { pool, layer: self.pools[pool].layers.iter().position(|l| l == layer)? })
    }

    /// How many slots a unit of a large batch gets, if `n_slots` would be best now: mostly as many as before, so that
    /// its graph's plan of memory stays. `bytes`: of its weights. `None` if the device has no room for them.
    pub fn stage(&mut self, settings: &Settings, of: (usize, usize, usize), n_slots: usize) -> Option<usize> {
        match self.stages.iter_mut().find(|stage| stage.of == of) {
            Some(stage) => {
                if n_slots.abs_diff(stage.n_slots) > stage.n_slots / 4 {
                    stage.n_slots = n_slots;
                }
                Some(stage.n_slots)
            }
            None if free_memory(settings, of.0) / 2 > of.1 => {
                self.stages.push(Stage { of, n_slots });
                Some(n_slots)
            }
            None => None,
        }
    }

    /// Gives up all pools, for good: their memory is needed. Returns whether there were any.
    pub fn release(&mut self) -> bool {
        let has_some = !self.pools.is_empty();
        self.refused.extend(self.pools.iter().map(|p| p.kind.clone()));
        self.retired.append(&mut self.pools);
        self.generation += u64::from(has_some);
        has_some
    }

    /// Pools that no graph uses from now on. Devices may still be reading them. If there are some, no upload that waits
    /// will come: the others have new numbers.
    pub fn take_retired(&mut self) -> Vec<Pool> {
        if !self.retired.is_empty() {
            self.pools.iter_mut().for_each(Pool::forget_waiting);
        }
        std::mem::take(&mut self.retired)
    }

    /// Makes a pool for each kind that has none, or lacks layers.
    fn make_pools(&mut self, kinds: &[Option<(Kind, Layer)>], settings: &Settings) {
        let mut wanted: Vec<(Kind, Vec<Layer>)> = Vec::new();
        for (kind, layer) in kinds.iter().flatten() {
            let known = |p: &Pool| p.kind == *kind && p.layers.contains(layer);
            if self.refused.contains(kind) || self.pools.iter().any(known) {
                continue;
            }
            match wanted.iter_mut().find(|(k, _)| k == kind) {
                Some((_, layers)) if layers.contains(layer) => {}
                Some((_, layers)) => layers.push(layer.clone()),
                None => wanted.push((kind.clone(), vec![layer.clone()])),
            }
        }
        if wanted.is_empty() {
            return;
        }
        // A pool that lacks layers is made again with all.
        for (kind, layers) in &mut wanted {
            if let Some(old) = self.pools.iter().position(|p| p.kind == *kind) {
                let old = self.pools.remove(old);
                layers.splice(0..0, old.layers.iter().cloned());
                self.retired.push(old);
            }
        }
        self.generation += 1;
        let bytes_of = |kind: &Kind, layers: usize| {
            let unit: usize = kind.shapes.iter().map(|s| matrix_bytes(s).unwrap_or(0)).sum();
            unit.saturating_mul(kind.n_experts).saturating_mul(layers)
        };
        let total: usize = wanted.iter().map(|(k, l)| bytes_of(k, l.len())).sum();
        for (kind, layers) in wanted {
            let all = bytes_of(&kind, layers.len());
            let part = all as f64 / total.max(1) as f64;
            let limit = match self.budget.limit {
                Limit::Off => 0,
                Limit::Free => (free_memory(settings, kind.backend) as f64 * part) as usize,
                Limit::Share(share) => (all as f64 * share) as usize,
                Limit::Bytes(bytes) => (bytes as f64 * part) as usize,
            };
            match Pool::new(&kind, layers, settings.bufts[kind.backend], limit) {
                Ok(pool) => {
                    log_info!(
                        "expert cache on {}: {} slots of {} KiB for {} layers of {} experts",
                        settings.backends[kind.backend].name(),
                        pool.n_slots(),
                        pool.slot_bytes() >> 10,
                        pool.layers.len(),
                        kind.n_experts
                    );
                    self.pools.push(pool);
                }
                Err(error) => {
                    log_warn!("no expert cache on {}: {error}", settings.backends[kind.backend].name());
                    self.refused.push(kind);
                }
            }
        }
    }

    /// Gives a tensor, which has the format of the weight `weight` of a unit, the slots of the unit's pool as experts.
    pub fn fill(&self, place: Place, weight: usize, t: TensorRef) -> Result<()> {
        let pool = &self.pools[place.pool];
        let slots = pool.slots(weight);
        t.set_ne(slots.ne());
        t.set_nb(slots.nb());
        match view::bind(pool.buffer.handle(), t, slots.data()) {
            ggml_status::GGML_STATUS_SUCCESS => Ok(()),
            status => Err(Error::Unsupported(format!("a device does not take '{}': {status:?}", t.name()))),
        }
    }
}

/// What a device has free, without a margin for what others need there.
fn free_memory(settings: &Settings, backend: usize) -> usize {
    let (free, total) = settings.backends[backend].device().memory();
    free.saturating_sub(MARGIN.max(total / MARGIN_PART))
}

fn matrix_bytes(shape: &Shape) -> Option<usize> {
    let row = crate::quant::types::row_size_checked(shape.dtype, shape.columns)?;
    row.checked_mul(usize::try_from(shape.rows).ok()?)
}

impl Pool {
    /// As many slots as a limit allows, at most one for each expert.
    fn new(kind: &Kind, layers: Vec<Layer>, buft: BufferTypeRef, limit: usize) -> Result<Self> {
        let too_small = |bytes| Error::OutOfMemory { what: "a slot for an expert".into(), bytes };
        let strides: Vec<usize> = kind.shapes.iter().filter_map(matrix_bytes).collect();
        let slot: usize = strides.iter().sum();
        if strides.len() != kind.shapes.len() || slot == 0 {
            return Err(too_small(slot));
        }
        let most = layers.len() * kind.n_experts;
        let mut n_slots = most.min(limit.min(buft.max_size()) / slot);
        while n_slots > 0 {
            if let Some(pool) = Self::try_new(kind, &layers, buft, n_slots, limit.min(buft.max_size()))? {
                return Ok(pool);
            }
            // The device has less, or needs gaps.
            n_slots -= n_slots.div_ceil(16);
        }
        Err(too_small(slot))
    }

    fn try_new(
        kind: &Kind,
        layers: &[Layer],
        buft: BufferTypeRef,
        n_slots: usize,
        limit: usize,
    ) -> Result<Option<Self>> {
        let align = buft.alignment().max(ALIGNMENT);
        // SAFETY: the tensors are used by the pool, which holds the context, and its uploads, which end before.
        let mut ctx = unsafe { Context::owned((kind.shapes.len() + 1) * 1024, true)? };
        let (mut offsets, mut tensors, mut end) = (Vec::new(), Vec::new(), 0usize);
        for shape in &kind.shapes {
            let t = ctx.new_tensor(shape.dtype, &[shape.columns, shape.rows, n_slots as i64])?;
            offsets.push(end);
            end = buft.alloc_size(t).checked_add(end).map_or(usize::MAX, |end| end.next_multiple_of(align));
            tensors.push(t);
        }
        if end > limit {
            return Ok(None);
        }
        let Some(buffer) = buft.alloc_buffer(end) else {
            log_debug!("{} has no {end} bytes for an expert cache", buft.name());
            return Ok(None);
        };
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_ANY);
        // A kernel that reads beyond its rows, or a slot that nothing uses, finds numbers.
        buffer.clear(0);
        let base = buffer.base();
        for (&t, at) in std::iter::zip(&tensors, offsets) {
            view::bind(buffer.handle(), t, base.wrapping_add(at));
        }
        let mut policy = Policy::new(layers.len(), kind.n_experts, n_slots);
        policy.set_uploads(UPLOADS);
        let (kind, layers, writes) = (kind.clone(), layers.to_vec(), WRITES.load(Relaxed));
        let ready = vec![Ready::Yes; n_slots];
        Ok(Some(Self { kind, layers, tensors, _ctx: ctx, buffer, policy, ready, writes }))
    }
}
