//! The pools of a scheduler: which units have a place in one, and how much memory they may take.

use super::budget::{Budget, Limit};
use super::pool::{Kind, Layer, Pool, layer_of, watch_weights};
use super::unit::Unit;
use crate::abi::backend::ggml_backend_dev_type;
use crate::error::Result;
use crate::graph::ids::TensorIds;
use crate::sched::in_flight::Mask;
use crate::sched::settings::Settings;
use crate::tensor::TensorRef;
use crate::{log_debug, log_info, log_warn};

/// Of a device's memory, this part stays free beside the cache, at least [`MARGIN`].
const MARGIN_PART: usize = 20;
const MARGIN: usize = 256 << 20;
/// Of a card's memory, at least this much, or this part, stays free beside a cache with the limit [`Limit::Spare`].
const RESERVE: usize = 1 << 30;
const RESERVE_PART: usize = 10;
/// How often a cache becomes smaller because others need memory, before there is none: the last time it has a sixteenth
/// of what it had.
const SHRINKS: u32 = 4;

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
    /// Bytes of all pools at most, after others needed memory, and how often that was.
    most: Option<usize>,
    n_shrinks: u32,
    /// Rises when pools change: their addresses are in graphs.
    generation: u64,
    /// Rises when the budget changes.
    era: u64,
    /// The backends to whose devices experts are uploaded, and whose devices look slots up.
    upload: Mask,
    look_up: Mask,
    /// Units of large batches get no slots any more: others needed their memory.
    is_short: bool,
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
                most: None,
                n_shrinks: 0,
                generation: 0,
                era: 0,
                upload: 0,
                look_up: 0,
                is_short: false,
            }
        })
    }

    /// Whether there may be pools.
    pub fn is_on(&self) -> bool {
        self.budget.is_on()
    }

    /// Changes the budget. All pools are given up, for others. No graph may be allocated.
    pub fn set_budget(&mut self, budget: Budget) {
        if budget != self.budget {
            self.retired.append(&mut self.pools);
            (self.budget, self.most, self.n_shrinks, self.is_short) = (budget, None, 0, false);
            self.stages.clear();
            self.refused.clear();
            self.generation += 1;
            self.era += 1;
        }
    }

    /// How often the budget has changed.
    pub fn era(&self) -> u64 {
        self.era
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
        for (home, &(unit, _)) in std::iter::zip(&mut homes, units) {
            *home = home.filter(|h| h.place.is_some_and(|p| self.fits(p, unit, ids)));
        }
        homes
    }

    /// Whether all experts that a unit may use fit into its pool at once, if the CPU cannot compute some of them.
    fn fits(&self, place: Place, unit: &Unit, ids: &TensorIds) -> bool {
        let pool = &self.pools[place.pool];
        !self.budget.strict && unit.chain.is_some() || unit.rows(ids).min(pool.n_experts()) <= pool.n_slots()
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
        if self.is_short {
            return None;
        }
        if let Some(stage) = self.stages.iter_mut().find(|stage| stage.of == of) {
            if n_slots.abs_diff(stage.n_slots) > stage.n_slots / 4 {
                stage.n_slots = n_slots;
            }
            return Some(stage.n_slots);
        }
        let has_room = self.room(settings, of.0) > of.1;
        has_room.then(|| self.stages.push(Stage { of, n_slots })).map(|()| n_slots)
    }

    /// Whether it has taken spare memory of a card of which others need some now: less than half of what was to stay
    /// free is free.
    pub fn is_needed_elsewhere(&self, settings: &Settings) -> bool {
        let is_needed = |pool: &Pool| {
            let (free, total) = settings.backends[pool.kind.backend].device().memory();
            total > 0 && free < reserve(total) / 2
        };
        self.budget.limit == Limit::Spare && self.pools.iter().any(is_needed)
    }

    fn bytes(&self) -> usize {
        self.pools.iter().map(Pool::bytes).sum()
    }

    /// What slots of large batches may have of a device.
    fn room(&self, settings: &Settings, backend: usize) -> usize {
        match self.budget.limit {
            Limit::Spare => self.spare_memory(settings, backend),
            _ => free_memory(settings, backend) / 2,
        }
    }

    /// What a pool may have with the limit [`Limit::Spare`]: nothing on devices that are no cards, that cannot copy
    /// while they compute, or that do not say how much is in use.
    fn spare_memory(&self, settings: &Settings, backend: usize) -> usize {
        let device = settings.backends[backend].device();
        let (free, total) = device.memory();
        let is_card = device.kind() == Some(ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU);
        let is_known = free < total && self.upload & 1 << backend != 0;
        if is_card && is_known { spare_of(free, total) } else { 0 }
    }

    /// Gives up all pools: their memory is needed. Those that are made from now on have half of it, after some times
    /// none. Then gives up the slots of large batches. Returns what pools may have, if there was something.
    pub fn shrink(&mut self) -> Option<usize> {
        let had = self.bytes();
        if self.pools.is_empty() {
            let had_slots = !self.stages.is_empty();
            self.stages.clear();
            self.is_short = true;
            self.generation += u64::from(had_slots);
            return had_slots.then_some(0);
        }
        if self.n_shrinks == SHRINKS {
            self.refused.extend(self.pools.iter().map(|p| p.kind.clone()));
        }
        self.n_shrinks += 1;
        let most = if self.n_shrinks > SHRINKS { 0 } else { had / 2 };
        self.most = Some(most);
        self.retired.append(&mut self.pools);
        self.generation += 1;
        Some(most)
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
        let total: usize = wanted.iter().map(|(k, l)| k.bytes(l.len())).sum();
        let devices = 0..settings.backends.len();
        let on = |b: usize| wanted.iter().filter(|(k, _)| k.backend == b).map(|(k, l)| k.bytes(l.len())).sum::<usize>();
        let totals: Vec<usize> = devices.clone().map(on).collect();
        let is_spare = self.budget.limit == Limit::Spare;
        let of_device = |b| if is_spare && totals[b] > 0 { self.spare_memory(settings, b) } else { 0 };
        let spare: Vec<usize> = devices.map(of_device).collect();
        let mut rests = totals.clone();
        let most = self.most.map_or(usize::MAX, |most| most.saturating_sub(self.bytes()));
        for (kind, layers) in wanted {
            let (all, rest, b) = (kind.bytes(layers.len()), rests[kind.backend], kind.backend);
            let part_of = |whole: usize| all as f64 / whole.max(1) as f64;
            let limit = match self.budget.limit {
                Limit::Off => 0,
                Limit::Spare => (spare[b] as f64 * part_of(totals[b])) as usize,
                Limit::Free => (free_memory(settings, b) as f64 * part_of(rest)) as usize,
                Limit::Share(share) => (all as f64 * share) as usize + kind.beside(layers.len()),
                Limit::Bytes(bytes) => (bytes as f64 * part_of(total)) as usize,
            };
            // What is not there must not be given to the first of several pools.
            let there = match settings.backends[b].device().memory() {
                (_, 0) => usize::MAX,
                (free, _) => free,
            };
            let limit = limit.min((there as f64 * part_of(rest)) as usize).min((most as f64 * part_of(total)) as usize);
            rests[b] -= all;
            match Pool::new(&kind, layers, settings.bufts[b], limit, !self.budget.strict, !is_spare) {
                Ok(pool) => {
                    log_info!(
                        "expert cache on {}: {} slots of {} KiB for {} layers of {} experts",
                        settings.backends[b].name(),
                        pool.n_slots(),
                        pool.slot_bytes() >> 10,
                        pool.layers.len(),
                        kind.n_experts
                    );
                    self.pools.push(pool);
                }
                Err(error) => {
                    let text = format!("no expert cache on {}: {error}", settings.backends[b].name());
                    if is_spare {
                        log_debug!("{text}")
                    } else {
                        log_warn!("{text}")
                    }
                    self.refused.push(kind);
                }
            }
        }
    }

    /// Notes whether experts can be uploaded to a backend's device while it computes, and whether it can look up the
    /// slots of small batches.
    pub fn set_device(&mut self, backend: usize, uploads: bool, looks_up: bool) {
        let set = |mask: Mask, is: bool| mask & !(1 << backend) | Mask::from(is) << backend;
        (self.upload, self.look_up) = (set(self.upload, uploads), set(self.look_up, looks_up));
    }

    /// Whether the device of a backend can look slots up.
    pub fn looks_up(&self, backend: usize) -> bool {
        self.look_up & 1 << backend != 0
    }

    /// As [`Pool::bind_row`], with the pool and layer of a place.
    pub fn bind_row(&self, place: Place, t: TensorRef) -> bool {
        self.pools[place.pool].bind_row(place.layer, t)
    }

    /// As [`Pool::fill`], with the pool of a place.
    pub fn fill(&self, place: Place, weight: usize, t: TensorRef) -> Result<()> {
        self.pools[place.pool].fill(weight, t)
    }
}

/// What stays free beside a cache of spare memory.
fn reserve(total: usize) -> usize {
    RESERVE.max(total / RESERVE_PART)
}

/// Half of what a card has free, but for the reserve: what comes later may need the other half.
fn spare_of(free: usize, total: usize) -> usize {
    free.saturating_sub(reserve(total)) / 2
}

/// What a device has free, without a margin for what others need there.
fn free_memory(settings: &Settings, backend: usize) -> usize {
    let (free, total) = settings.backends[backend].device().memory();
    free.saturating_sub(MARGIN.max(total / MARGIN_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_memory_leaves_a_reserve_and_half_of_the_rest() {
        const GIB: usize = 1 << 30;
        assert_eq!(spare_of(5 * GIB, 8 * GIB), 2 * GIB);
        assert_eq!(spare_of(GIB, 8 * GIB), 0);
        assert_eq!(spare_of(20 * GIB, 80 * GIB), 6 * GIB);
        assert_eq!(spare_of(0, 0), 0);
    }
}
