//! Which experts a cache in a device's memory holds.
//!
//! The cache has slots, all of one size, for the experts of several units. A unit is a layer, or a part of a layer,
//! whose experts are uploaded as a whole. Slots belong to no unit: an expert of any of them can take any slot, so units
//! with a skewed routing need fewer slots than others.
//!
//! The policy predicts how often an expert will be used from how often it was used, by two averages that decay with
//! each token: a fast one, which follows the last tokens, and a slow one, which follows the text as a whole.
//! The expert with the lowest score is the next to be evicted. An expert that missed replaces it only if its own score
//! is higher: a miss can also be computed where the weights are, and an upload takes time.
//!
//! All memory is allocated by `new` and `resize`. A use costs time in proportion to the experts that it names and to
//! the slots that the unit occupies.

#![forbid(unsafe_code)]

/// Number of a slot, from 0.
pub type Slot = usize;

/// Tokens after which a use counts half, in the fast and the slow average. These numbers and those below are from the
/// traces of docs/measurements/0.28.0-experts.md, on which neighbouring values do nearly as well.
const HALF_LIFE: [f32; 2] = [2.0, 64.0];
/// Weights of both averages in the score.
const WEIGHT: [f32; 2] = [0.2, 0.8];
/// A batch of a prompt changes the slow average as much as this many tokens of text, or as many as it has.
const PROMPT_TOKENS: f32 = 48.0;
/// A unit that is not used while the others compute this many tokens loses its slots to them.
const IDLE_TOKENS: u64 = 1024;
/// No expert, no slot.
const NONE: u32 = u32::MAX;

/// What the tokens of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Tokens that are generated: one for each sequence, or a few that are guessed ahead.
    Text,
    /// Tokens that are read, in large batches that use most experts.
    Prompt {
        /// How many they are.
        tokens: u32,
    },
}

/// An expert that a batch uses, and the number of its tokens that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Number of the expert within its unit.
    pub expert: u16,
    /// Tokens of the batch that are routed to it.
    pub tokens: u32,
}

/// An expert that may take a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The slot, to which the expert has to be uploaded.
    pub slot: Slot,
    /// Unit and expert that the slot held.
    pub evicted: Option<(usize, usize)>,
}

/// What `resize` changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Units and experts that have no slot any more.
    pub evicted: Vec<(usize, usize)>,
    /// Slots whose contents have another slot now: from, to. If they cannot be copied, call `forget` for the latter.
    pub moved: Vec<(Slot, Slot)>,
}

/// Numbers since the start. Uses count once for each batch, unit and expert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Uses of experts that had a slot, in text.
    pub hits: u64,
    /// Uses of experts that had none, in text.
    pub misses: u64,
    /// As `hits`, in prompts.
    pub prompt_hits: u64,
    /// As `misses`, in prompts.
    pub prompt_misses: u64,
    /// Experts that got a slot.
    pub admitted: u64,
    /// Experts that lost their slot to another one.
    pub evictions: u64,
    /// Experts that got none, because those with a slot are expected to be used more often.
    pub refused: u64,
    /// Experts that got none, because the unit has used up its uploads.
    pub deferred: u64,
}

/// Time and residents of a unit.
#[derive(Clone)]
struct Unit {
    /// What a use adds to each average now. It grows instead of the averages' decay.
    increment: [f32; 2],
    /// What each average counts in the score now.
    factor: [f32; 2],
    /// Number of the batch, to recognise the experts that it uses; its time by the clock of the policy.
    batch: u32,
    time: u64,
    /// Slots that the unit's experts have.
    residents: usize,
    /// Uploads that the current batch may still start.
    uploads: usize,
    /// The lowest score of a resident as of the last batch: of all, and of those that this batch does not use. Infinite
    /// if there is none.
    lowest: [f32; 2],
    phase: Phase,
}

/// The contents of a cache, and how useful they are.
pub struct Policy {
    n_experts: usize,
    uploads: usize,
    margin: f32,
    /// Batches of text, of all units.
    clock: u64,
    units: Vec<Unit>,
    /// By unit and expert: both averages, in terms of the unit's increments; the slot; the batch that used it last.
    average: Vec<[f32; 2]>,
    slot: Vec<u32>,
    used: Vec<u32>,
    /// By slot: unit * n_experts + expert, and the place in `members`.
    holds: Vec<u32>,
    place: Vec<u32>,
    free: Vec<u32>,
    /// For each unit `n_experts` places, the first `residents` of which are its slots.
    members: Vec<u32>,
    counters: Counters,
}

impl Policy {
    /// An empty cache of `n_slots` for `n_units` with `n_experts` each.
    pub fn new(n_units: usize, n_experts: usize, n_slots: usize) -> Self {
        let unit = Unit {
            increment: [1.0; 2],
            factor: [0.0; 2],
            batch: 0,
            time: 0,
            residents: 0,
            uploads: 0,
            lowest: [f32::INFINITY; 2],
            phase: Phase::Text,
        };
        let n = n_units * n_experts;
        Self {
            n_experts,
            uploads: usize::MAX,
            margin: 0.0,
            clock: 0,
            units: vec![unit; n_units],
            average: vec![[0.0; 2]; n],
            slot: vec![NONE; n],
            used: vec![0; n],
            holds: vec![NONE; n_slots],
            place: vec![NONE; n_slots],
            free: (0..n_slots as u32).rev().collect(),
            members: vec![NONE; n],
            counters: Counters::default(),
        }
    }

    /// Limits the uploads that a batch may start for each unit. Default: no limit.
    pub fn set_uploads(&mut self, per_unit: usize) {
        self.uploads = per_unit;
    }

    /// Sets by how much the score of an expert must exceed that of the one it replaces. Scores are expected uses per
    /// token. Default: 0.
    pub fn set_margin(&mut self, margin: f32) {
        self.margin = margin;
    }

    /// The slot that holds an expert, if any.
    pub fn lookup(&self, unit: usize, expert: usize) -> Option<Slot> {
        let slot = self.slot[unit * self.n_experts + expert];
        (slot != NONE).then_some(slot as usize)
    }

    /// Unit and expert in a slot.
    pub fn contents(&self, slot: Slot) -> Option<(usize, usize)> {
        let held = *self.holds.get(slot)?;
        (held != NONE).then(|| (held as usize / self.n_experts, held as usize % self.n_experts))
    }

    /// Slots there are.
    pub fn n_slots(&self) -> usize {
        self.holds.len()
    }

    /// The numbers since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The expected uses of an expert per token.
    pub fn score(&self, unit: usize, expert: usize) -> f32 {
        if self.is_idle(unit) {
            return 0.0;
        }
        let ([fast, slow], factor) = (self.average[unit * self.n_experts + expert], self.units[unit].factor);
        fast * factor[0] + slow * factor[1]
    }

    /// Records that a batch uses `uses`, each expert once, in `unit`. Call it once for each unit and batch, before
    /// `admit`. Panics if there is no such expert.
    pub fn use_experts(&mut self, unit: usize, uses: &[Use], phase: Phase) {
        self.advance(unit, phase);
        let first = unit * self.n_experts;
        let Unit { increment, batch, .. } = self.units[unit];
        let (mut hits, mut misses) = (0, 0);
        for u in uses {
            assert!((u.expert as usize) < self.n_experts, "expert {} of {}", u.expert, self.n_experts);
            let i = first + u.expert as usize;
            match phase {
                Phase::Text => {
                    self.average[i][0] += increment[0];
                    self.average[i][1] += increment[1];
                }
                Phase::Prompt { tokens } => {
                    let share = u.tokens as f32 / tokens.max(1) as f32;
                    self.average[i][1] += increment[1] * share * weight_of(tokens);
                }
            }
            self.used[i] = batch;
            *(if self.slot[i] == NONE { &mut misses } else { &mut hits }) += 1;
        }
        let c = &mut self.counters;
        let (all_hits, all_misses) = match phase {
            Phase::Text => (&mut c.hits, &mut c.misses),
            Phase::Prompt { .. } => (&mut c.prompt_hits, &mut c.prompt_misses),
        };
        *all_hits += hits;
        *all_misses += misses;
        self.find_lowest(unit);
    }

    /// Sorts experts by falling score. Call `admit` in this order: the best ones then get the uploads and free slots.
    pub fn rank(&self, unit: usize, experts: &mut [u16]) {
        experts.sort_unstable_by(|&a, &b| {
            self.score(unit, b as usize).total_cmp(&self.score(unit, a as usize)).then(a.cmp(&b))
        });
    }

    /// Decides whether an expert that has no slot gets one. Returns the slot if it does. `pinned` says which slots must
    /// keep their contents. Those that the unit's current batch uses keep theirs, too.
    pub fn admit(&mut self, unit: usize, expert: usize, pinned: impl Fn(Slot) -> bool) -> Option<Admitted> {
        let i = unit * self.n_experts + expert;
        if self.slot[i] != NONE {
            return None;
        }
        if self.units[unit].uploads == 0 {
            self.counters.deferred += 1;
            return None;
        }
        let score = self.score(unit, expert);
        let slot = self.take_free(unit, &pinned).or_else(|| self.take_worse(unit, score, &pinned));
        let Some((slot, evicted)) = slot else {
            self.counters.refused += 1;
            return None;
        };
        if evicted.is_some() {
            self.counters.evictions += 1;
        }
        self.counters.admitted += 1;
        let u = &mut self.units[unit];
        u.uploads -= 1;
        u.lowest[0] = u.lowest[0].min(score);
        self.insert(i, slot);
        Some(Admitted { slot, evicted })
    }

    /// As [`Self::admit`], for an expert that has to be there: whatever it is worth, and beyond the limit of uploads.
    pub fn force(&mut self, unit: usize, expert: usize) -> Option<Admitted> {
        let margin = std::mem::replace(&mut self.margin, f32::NEG_INFINITY);
        self.units[unit].uploads = self.units[unit].uploads.saturating_add(1);
        let admitted = self.admit(unit, expert, |_| false);
        self.margin = margin;
        admitted
    }

    /// Empties a slot, for example because the upload failed.
    pub fn forget(&mut self, slot: Slot) {
        if let Some((unit, _)) = self.remove(slot) {
            self.free.push(slot as u32);
            self.find_lowest(unit);
        }
    }

    /// Changes the number of slots. If there are fewer, the experts with the highest scores stay.
    pub fn resize(&mut self, n_slots: usize) -> Resized {
        let mut changes = Resized::default();
        let old = self.holds.len();
        if n_slots >= old {
            self.holds.resize(n_slots, NONE);
            self.place.resize(n_slots, NONE);
            self.free.splice(0..0, (old as u32..n_slots as u32).rev());
            self.free.reserve(n_slots - self.free.len());
            return changes;
        }
        let mut held: Vec<(f32, Slot)> = (0..old)
            .filter_map(|slot| self.contents(slot).map(|(unit, expert)| (self.score(unit, expert), slot)))
            .collect();
        held.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for &(_, slot) in held.get(n_slots..).unwrap_or_default() {
            changes.evicted.extend(self.remove(slot));
        }
        let mut gaps = (0..n_slots).filter(|&s| self.holds[s] == NONE).collect::<Vec<_>>().into_iter();
        for from in n_slots..old {
            let Some((unit, expert)) = self.remove(from) else { continue };
            let to = gaps.next().expect("no more experts than slots");
            self.insert(unit * self.n_experts + expert, to);
            changes.moved.push((from, to));
        }
        self.holds.truncate(n_slots);
        self.place.truncate(n_slots);
        self.free.clear();
        self.free.extend(gaps.rev().map(|s| s as u32));
        (0..self.units.len()).for_each(|unit| self.find_lowest(unit));
        changes
    }

    /// Starts a batch of a unit.
    fn advance(&mut self, unit: usize, phase: Phase) {
        let u = &mut self.units[unit];
        u.batch = u.batch.wrapping_add(1);
        u.uploads = self.uploads;
        u.phase = phase;
        self.clock += u64::from(phase == Phase::Text);
        u.time = self.clock;
        match phase {
            Phase::Text => (0..2).for_each(|i| u.increment[i] /= decay(i)),
            Phase::Prompt { tokens } => u.increment[1] /= decay(1).powf(weight_of(tokens)),
        }
        for i in 0..2 {
            if self.units[unit].increment[i] > 1e20 {
                let divisor = std::mem::replace(&mut self.units[unit].increment[i], 1.0);
                let first = unit * self.n_experts;
                self.average[first..first + self.n_experts].iter_mut().for_each(|a| a[i] /= divisor);
            }
            self.units[unit].factor[i] = WEIGHT[i] * (1.0 - decay(i)) / self.units[unit].increment[i];
        }
    }

    /// A free slot. A prompt may fill no more than the unit's share of the cache, or the first units would fill it.
    fn take_free(&mut self, unit: usize, pinned: &impl Fn(Slot) -> bool) -> Option<(Slot, Option<(usize, usize)>)> {
        let u = &self.units[unit];
        if u.phase != Phase::Text && u.residents >= self.holds.len().div_ceil(self.units.len()) {
            return None;
        }
        let at = self.free.iter().rposition(|&s| !pinned(s as usize))?;
        Some((self.free.remove(at) as usize, None))
    }

    /// The slot of an expert that is worth less than `score`, emptied. Prompts evict nothing.
    fn take_worse(
        &mut self,
        unit: usize,
        score: f32,
        pinned: &impl Fn(Slot) -> bool,
    ) -> Option<(Slot, Option<(usize, usize)>)> {
        if self.units[unit].phase != Phase::Text {
            return None;
        }
        let limit = score - self.margin;
        let (at, lowest) =
            (0..self.units.len()).map(|at| (at, self.lowest(at, at == unit))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        if lowest >= limit {
            return None;
        }
        // A pinned slot is seldom the worst. If it is, all units are searched.
        let worst = |at| self.worst(at, at == unit, pinned);
        let found = worst(at)
            .filter(|&(_, found)| found <= lowest)
            .or_else(|| (0..self.units.len()).filter_map(worst).min_by(|a, b| a.1.total_cmp(&b.1)));
        let slot = found.filter(|&(_, found)| found < limit)?.0;
        let evicted = self.remove(slot);
        if let Some((of, _)) = evicted {
            self.find_lowest(of);
        }
        Some((slot, evicted))
    }

    /// The slot of the unit with the lowest score, and the score. If `unused`, of those that its last batch does not
    /// use.
    fn worst(&self, unit: usize, unused: bool, pinned: &impl Fn(Slot) -> bool) -> Option<(Slot, f32)> {
        let first = unit * self.n_experts;
        let Unit { residents, batch, .. } = self.units[unit];
        let mut worst: Option<(Slot, f32)> = None;
        for &slot in &self.members[first..first + residents] {
            let held = self.holds[slot as usize] as usize;
            let score = self.score(unit, held - first);
            let candidate = !(unused && self.used[held] == batch) && worst.is_none_or(|w| score < w.1);
            if candidate && !pinned(slot as usize) {
                worst = Some((slot as usize, score));
            }
        }
        worst
    }

    /// The score of `worst` as of the unit's last batch, or infinity.
    fn lowest(&self, unit: usize, unused: bool) -> f32 {
        let u = &self.units[unit];
        if u.residents > 0 && self.is_idle(unit) { 0.0 } else { u.lowest[usize::from(unused)] }
    }

    fn is_idle(&self, unit: usize) -> bool {
        self.clock - self.units[unit].time > IDLE_TOKENS * self.units.len() as u64
    }

    fn find_lowest(&mut self, unit: usize) {
        let first = unit * self.n_experts;
        let Unit { residents, batch, .. } = self.units[unit];
        let mut lowest = [f32::INFINITY; 2];
        for &slot in &self.members[first..first + residents] {
            let held = self.holds[slot as usize] as usize;
            let score = self.score(unit, held - first);
            lowest[0] = lowest[0].min(score);
            if self.used[held] != batch {
                lowest[1] = lowest[1].min(score);
            }
        }
        self.units[unit].lowest = lowest;
    }

    /// Puts an expert into an empty slot that is not in the list of free ones.
    fn insert(&mut self, i: usize, slot: Slot) {
        let unit = i / self.n_experts;
        let place = unit * self.n_experts + self.units[unit].residents;
        self.units[unit].residents += 1;
        self.members[place] = slot as u32;
        self.place[slot] = place as u32;
        self.holds[slot] = i as u32;
        self.slot[i] = slot as u32;
    }

    /// Empties a slot. The caller decides whether it becomes free.
    fn remove(&mut self, slot: Slot) -> Option<(usize, usize)> {
        let (unit, expert) = self.contents(slot)?;
        self.units[unit].residents -= 1;
        let last = self.members[unit * self.n_experts + self.units[unit].residents];
        let place = self.place[slot];
        self.members[place as usize] = last;
        self.place[last as usize] = place;
        self.slot[unit * self.n_experts + expert] = NONE;
        self.holds[slot] = NONE;
        Some((unit, expert))
    }
}

/// The tokens of text that a batch of a prompt is worth.
fn weight_of(tokens: u32) -> f32 {
    PROMPT_TOKENS.min(tokens as f32)
}

/// What remains of an average after a token.
fn decay(i: usize) -> f32 {
    (-1.0 / HALF_LIFE[i]).exp2()
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
