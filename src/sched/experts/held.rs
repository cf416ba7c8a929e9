//! The units of one graph whose experts are held in a cache.
#![forbid(unsafe_code)]

use super::cache::{ExpertCache, Home};
use super::unit::{self, Unit};
use crate::alloc::problem::NO_WEIGHT;
use crate::graph::ids::TensorIds;
use crate::sched::cause::Placement;
use crate::sched::cost::{self, Costs};
use crate::sched::flat::{Flat, is_view_op};
use crate::sched::rules::Rules;
use crate::sched::settings::Settings;
use crate::sched::writers::Writers;
use crate::tensor::TensorRef;

/// Slots of a large batch are a multiple of this: a little change of the costs changes no plan of memory.
const SLOTS_STEP: usize = 8;

/// A unit with its home.
pub struct HeldUnit {
    /// The unit.
    pub unit: Unit,
    /// Where its experts are held.
    pub home: Home,
}

/// Those of a graph.
#[derive(Default)]
pub struct Held {
    /// In the graph's order.
    pub units: Vec<HeldUnit>,
    /// Places at which a split begins: the first node of each unit, and the first computed node after each.
    bounds: Vec<u32>,
    /// The pools that there were, and whether units were looked for.
    generation: u64,
    allowed: bool,
    /// Which budget there was.
    era: u64,
    /// Some unit has no home because no pool could be made for it yet.
    waits: bool,
    /// The rows of units that the CPU cannot share, in the graph's order: they have to fit into a pool.
    unshared: Vec<(u32, usize)>,
}

/// What it takes to find the units of a graph.
pub struct Search<'a> {
    /// The graph.
    pub flat: &'a Flat,
    /// Its tensors.
    pub ids: &'a TensorIds,
    /// Its nodes that write into the memory of other tensors.
    pub writers: &'a Writers,
    /// What the host has placed.
    pub placed: &'a [Placement],
    /// The backends.
    pub settings: &'a Settings,
    /// Whether pools may be made.
    pub may_allocate: bool,
}

impl Held {
    /// None.
    pub fn clear(&mut self) {
        self.units.clear();
        self.bounds.clear();
        self.unshared.clear();
        (self.allowed, self.waits) = (false, false);
    }

    /// Finds the units of a graph, and homes for them.
    pub fn find(&mut self, cache: &mut ExpertCache, costs: &Costs, rules: &mut Rules<'_>, search: &Search<'_>) {
        self.clear();
        (self.allowed, self.era) = (true, cache.era());
        if !cache.is_on() {
            return;
        }
        let mut found = unit::find(search.flat, search.ids, search.writers);
        let mut backends = Vec::with_capacity(found.len());
        let (mut next, mut recent) = (0, None);
        for unit in &mut found {
            if cache.is_strict() {
                unit.chain = None;
            }
            // The device that has the weights before the unit.
            while next < unit.places.start {
                recent = owner(search, rules, next).or(recent);
                next += 1;
            }
            backends.push(search.device(rules, unit, recent));
        }
        // Of a large batch, the device would copy and compute everything.
        let small = |&device: &Option<Device>| device.filter(|d| !d.offers).map(|d| d.backend);
        let units: Vec<_> = found.iter().zip(&backends).map(|(unit, b)| (unit, small(b))).collect();
        let mut homes = cache.house(&units, search.ids, search.settings, search.may_allocate);
        self.generation = cache.generation();
        self.waits =
            !search.may_allocate && std::iter::zip(&homes, &units).any(|(h, (_, b))| h.is_none() && b.is_some());
        let unshared = found.iter().filter(|unit| unit.chain.is_none());
        self.unshared.extend(unshared.map(|unit| (unit.ids, unit.rows(search.ids))));
        for ((home, unit), device) in homes.iter_mut().zip(&found).zip(&backends) {
            if let Some(device) = device.filter(|d| d.offers && !cache.is_strict()) {
                let place = cache.find(unit, search.ids, device.backend);
                let stage = search.stage(unit, device.backend, costs, cache);
                *home = stage.map(|n| Home { backend: device.backend, place, stage: Some(n) });
            }
        }
        let housed = std::iter::zip(found, homes).filter_map(|(unit, home)| home.map(|home| HeldUnit { unit, home }));
        self.units.extend(housed);
        for HeldUnit { unit, .. } in &self.units {
            let computed = search.flat.computed();
            let after = computed.partition_point(|&p| (p as usize) < unit.places.end);
            self.bounds.push(unit.places.start as u32);
            self.bounds.extend(computed.get(after));
        }
        self.bounds.dedup();
    }

    /// Whether what was found still holds for a graph of the same structure. `cache`: and whether pools may be made;
    /// `allowed`: units are looked for.
    pub fn holds(&self, cache: Option<(&ExpertCache, bool)>, allowed: bool, ids: &TensorIds) -> bool {
        let Some((cache, may_allocate)) = cache else { return self.units.is_empty() };
        self.is_current(Some(cache), allowed)
            && !(self.waits && may_allocate)
            && self.unshared.iter().all(|&(routing, rows)| unit::rows(ids.tensor(routing)) == rows)
            && self.units.iter().all(|held| cache.is_home(held.home, &held.unit, ids))
    }

    /// Whether budget and pools are those that there were, and units are looked for as they were.
    pub fn is_current(&self, cache: Option<&ExpertCache>, allowed: bool) -> bool {
        let Some(cache) = cache else { return true };
        self.allowed == allowed
            && (!allowed || self.era == cache.era())
            && (self.units.is_empty() || self.generation == cache.generation())
    }

    /// Whether a split begins at a computed node.
    #[inline]
    pub fn is_bound(&self, place: usize) -> bool {
        !self.bounds.is_empty() && self.bounds.binary_search(&(place as u32)).is_ok()
    }

    /// The unit that contains a node.
    #[inline]
    pub fn unit_at(&self, place: usize) -> Option<usize> {
        let n = self.units.partition_point(|held| held.unit.places.end <= place);
        self.units.get(n).is_some_and(|held| held.unit.places.contains(&place)).then_some(n)
    }

    /// The unit and weight that a node uses, if it is a product of a unit.
    #[inline]
    pub fn product_at(&self, place: usize) -> Option<(usize, usize)> {
        if self.units.is_empty() {
            return None;
        }
        let n = self.unit_at(place)?;
        Some((n, self.units[n].unit.weight_of(place)?))
    }
}

/// The accelerator that has the first weight of a node.
fn owner(search: &Search<'_>, rules: &mut Rules<'_>, place: usize) -> Option<usize> {
    let problem = &search.flat.problem;
    let fact = problem.fact(search.flat.nodes()[place]);
    if fact.weight == NO_WEIGHT {
        return None;
    }
    let weight = search.flat.srcs(place)[fact.weight as usize];
    let readers = rules.readers(problem.data_buffer(weight)?);
    let first = readers.trailing_zeros() as usize;
    (first + 1 < rules.backends.len()).then_some(first)
}

/// The device for a unit.
#[derive(Clone, Copy)]
struct Device {
    backend: usize,
    /// It would take the products from the CPU anyway.
    offers: bool,
}

impl Search<'_> {
    /// For a large batch: how many slots a unit gets on a device, so that device and CPU, which computes the experts
    /// without a slot, need about the same time. `None` if the device had better compute all, or lacks memory.
    fn stage(&self, unit: &Unit, device: usize, costs: &Costs, cache: &mut ExpertCache) -> Option<usize> {
        unit.chain.as_ref()?;
        let weights: Vec<TensorRef> = unit.weights.iter().map(|&id| self.ids.tensor(id)).collect();
        let [n_used, n_tokens] = [0, 1].map(|i| self.ids.tensor(unit.ids).ne()[i] as usize);
        let n_experts = weights[0].ne()[2] as usize;
        let columns = (n_used * n_tokens / n_experts).max(1);
        let [cpu, copy, computed] = costs.of_expert(device, self.settings.backends.len() - 1, &weights, columns);
        let on_device = cost::balance(n_experts, 0, cpu, copy, computed);
        let n_slots = (on_device + on_device / 8).max(1).next_multiple_of(SLOTS_STEP);
        let bytes = weights.iter().map(|w| w.nbytes()).fold(0, usize::saturating_add);
        let n_slots = cache.stage(self.settings, (device, bytes, columns), n_slots)?;
        (n_slots < n_experts).then_some(n_slots)
    }

    /// The device for a unit: it computes all nodes, and no other rule puts one of them elsewhere. Of a small batch
    /// `recent`, if it can.
    fn device(&self, rules: &mut Rules<'_>, unit: &Unit, recent: Option<usize>) -> Option<Device> {
        let last = rules.backends.len() - 1;
        let nodes = self.flat.nodes();
        let offered = |rules: &mut Rules<'_>, b| unit.products.iter().any(|&p| rules.offers(b, nodes[p]));
        let takers: Vec<usize> = (0..last).filter(|&b| offered(rules, b)).collect();
        let computes = |rules: &mut Rules<'_>, b: usize| {
            unit.places.clone().all(|place| {
                let (id, fact) = (nodes[place], self.flat.problem.fact(nodes[place]));
                let is_open = self.placed.get(id as usize).is_none_or(|p| !p.is_set());
                is_open
                    && (is_view_op(fact.op.into())
                        || rules.computes(b, id)
                            && (unit.weight_of(place).is_some()
                                || fact.weight == NO_WEIGHT
                                || owner(self, rules, place) == Some(b)))
            })
        };
        if let Some(&taker) = takers.first() {
            return computes(rules, taker).then_some(Device { backend: taker, offers: true });
        }
        let backend = recent.into_iter().chain(0..last).find(|&b| computes(rules, b))?;
        Some(Device { backend, offers: false })
    }
}
