//! The units of one graph whose experts are held in a cache.
#![forbid(unsafe_code)]

use super::cache::{ExpertCache, Home};
use super::unit::{self, Unit};
use crate::alloc::problem::NO_WEIGHT;
use crate::graph::ids::TensorIds;
use crate::sched::cause::Placement;
use crate::sched::flat::{Flat, is_view_op};
use crate::sched::rules::Rules;
use crate::sched::settings::Settings;
use crate::sched::writers::Writers;

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
    /// Some unit has no home because no pool could be made for it yet.
    waits: bool,
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
        (self.allowed, self.waits) = (false, false);
    }

    /// Finds the units of a graph, and homes for them.
    pub fn find(&mut self, cache: &mut ExpertCache, rules: &mut Rules<'_>, search: &Search<'_>) {
        self.clear();
        self.allowed = true;
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
        let units: Vec<_> = found.iter().zip(&backends).map(|(unit, &b)| (unit, b)).collect();
        let homes = cache.house(&units, search.ids, search.settings, search.may_allocate);
        self.generation = cache.generation();
        self.waits = !search.may_allocate && std::iter::zip(&homes, &backends).any(|(h, b)| h.is_none() && b.is_some());
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
            && self.units.iter().all(|held| cache.is_home(held.home, &held.unit, ids))
    }

    /// Whether the pools are those that there were, and units are looked for as they were.
    pub fn is_current(&self, cache: Option<&ExpertCache>, allowed: bool) -> bool {
        let Some(cache) = cache else { return true };
        self.allowed == allowed && (self.units.is_empty() || self.generation == cache.generation())
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

impl Search<'_> {
    /// The device for a unit, `recent` if it can: it computes all nodes, no other rule puts one of them elsewhere, and
    /// it would not take them from the CPU anyway.
    fn device(&self, rules: &mut Rules<'_>, unit: &Unit, recent: Option<usize>) -> Option<usize> {
        let last = rules.backends.len() - 1;
        let nodes = self.flat.nodes();
        let offered = |rules: &mut Rules<'_>, b| unit.products.iter().any(|&p| rules.offers(b, nodes[p]));
        if (0..last).any(|b| offered(rules, b)) {
            return None;
        }
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
        recent.into_iter().chain(0..last).find(|&b| computes(rules, b))
    }
}
