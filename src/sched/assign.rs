//! Passes 1 to 4: a backend for every tensor.

use super::cause::{Cause, Placement};
use super::experts::held::Held;
use super::flat::{Flat, is_view_op};
use super::rules::Rules;
use super::writers::Writers;
use crate::abi::ggml::ggml_op;
use crate::alloc::Traits;
use crate::alloc::problem::NO_WEIGHT;
use crate::backend::BufferRef;
use crate::error::{Error, Result};
use crate::graph::ids::{NONE, TensorIds};
use crate::tensor::names;

/// The passes at work. Backends are numbered by priority: 0 comes first, the last one is the CPU, which computes what
/// no other backend can.
pub struct Assigner<'a, 'b> {
    /// What backends can do.
    pub rules: &'a mut Rules<'b>,
    /// The graph.
    pub flat: &'a Flat,
    /// Its tensors.
    pub ids: &'a TensorIds,
    /// Its nodes that write into the memory of other tensors.
    pub writers: &'a Writers,
    /// By tensor. Placements that are there already stay.
    pub placed: &'a mut [Placement],
    /// Whether a backend may take a node although its weights are in host memory.
    pub op_offload: bool,
    /// Units whose experts are held on a device.
    pub held: &'a Held,
    /// Nodes that are computed and have no backend yet. Counted by pass 1.
    pub n_open: usize,
}

impl Assigner<'_, '_> {
    /// Runs all passes. An error when a tensor can be nowhere.
    pub fn run(&mut self) -> Result<()> {
        self.pass_1_memory()?;
        let computed = self.flat.computed().iter();
        if self.last() > 0 {
            self.pass_2_expand(computed.clone(), true);
            self.pass_2_expand(computed.clone().rev(), true);
        }
        self.pass_2_expand(computed.clone(), false);
        self.pass_2_expand(computed.rev(), false);
        self.pass_3_best();
        self.pass_4_writers()?;
        self.pass_4_rest()
    }

    pub(super) fn last(&self) -> usize {
        self.rules.backends.len() - 1
    }

    #[inline]
    pub(super) fn is_set(&self, id: u32) -> bool {
        self.placed[id as usize].is_set()
    }

    /// Whether the tensor, or what it is a view of, has a backend.
    fn is_known(&self, id: u32) -> bool {
        let base = self.flat.base(id);
        self.is_set(id) || base != NONE && self.is_set(base)
    }

    #[inline]
    pub(super) fn place(&mut self, id: u32, backend: usize, cause: Cause) {
        self.placed[id as usize] = Placement::new(backend as i8, cause);
    }

    /// Pass 1: where memory is, inputs on the last backend, nodes with weights where the weights are.
    fn pass_1_memory(&mut self) -> Result<()> {
        let flat = self.flat;
        for &id in flat.leafs() {
            if !self.is_set(id) {
                self.placed[id as usize] = self.by_memory(id)?;
            }
        }
        let mut n_open = flat.computed().len();
        for (n, &id) in flat.nodes().iter().enumerate() {
            if !self.is_set(id) {
                let fact = flat.problem.fact(id);
                // Most nodes have neither memory nor a weight.
                if fact.traits.has(Traits::INPUT | Traits::EXTERNAL | Traits::VIEW) {
                    self.placed[id as usize] = self.by_memory(id)?;
                }
                if fact.weight != NO_WEIGHT && !self.is_set(id) {
                    self.placed[id as usize] = self.by_weight(id, n, fact.weight as usize);
                }
            }
            n_open -= usize::from(self.is_set(id) && !is_view_op(flat.problem.fact(id).op.into()));
        }
        self.n_open = n_open;
        Ok(())
    }

    /// The first backend that can use a buffer and compute `op`.
    #[inline]
    fn by_buffer(&mut self, buffer: BufferRef, op: u32) -> Option<usize> {
        let mut readers = self.rules.readers(buffer);
        while readers != 0 {
            let b = readers.trailing_zeros() as usize;
            if self.rules.computes(b, op) {
                return Some(b);
            }
            readers &= readers - 1;
        }
        None
    }

    #[inline]
    fn by_memory(&mut self, id: u32) -> Result<Placement> {
        let problem = &self.flat.problem;
        let fact = problem.fact(id);
        if fact.base() == NONE {
            if let Some(buffer) = fact.buffer()
                && let Some(b) = self.by_buffer(buffer, id)
            {
                return Ok(Placement::new(b as i8, Cause::BUFFER));
            }
        } else {
            // Mostly a view of what the plan will place.
            let base = problem.fact(fact.base());
            let nowhere = fact.buffer.is_null() && base.buffer.is_null() && base.base() == NONE;
            if nowhere && !fact.traits.has(Traits::INPUT) {
                return Ok(Placement::default());
            }
        }
        self.by_any_memory(id)
    }

    #[inline(never)]
    fn by_any_memory(&mut self, id: u32) -> Result<Placement> {
        let problem = &self.flat.problem;
        let (fact, base) = (problem.fact(id), problem.base(id));
        // A base may itself be a view, of which a view is made by hand.
        let of_base = if base == NONE { None } else { problem.data_buffer(base) };
        let buffer = problem.data_buffer(id);
        if let Some(buffer) = buffer
            && let Some(b) = self.by_buffer(buffer, id)
        {
            return Ok(Placement::new(b as i8, Cause::BUFFER));
        }
        if of_base != buffer
            && let Some(of_base) = of_base
            && let Some(b) = self.by_buffer(of_base, id)
        {
            return Ok(Placement::new(b as i8, Cause::BASE_BUFFER));
        }
        if let Some(buffer) = buffer.or(fact.buffer()) {
            let t = self.ids.tensor(id);
            return Err(Error::Unsupported(format!(
                "the tensor '{}' lies in a buffer of type {}, but no backend of the scheduler that can use it computes {}",
                t.name(),
                buffer.name(),
                names::op(t.op())
            )));
        }
        if fact.traits.has(Traits::INPUT) {
            return Ok(Placement::new(self.last() as i8, Cause::INPUT));
        }
        Ok(Placement::default())
    }

    /// A node goes where its first weight is, its source `i`.
    fn by_weight(&mut self, id: u32, n: usize, i: usize) -> Placement {
        let problem = &self.flat.problem;
        // Their weights are too small to decide: rope frequencies, attention sinks.
        let op = problem.fact(id).op;
        if op == ggml_op::GGML_OP_ROPE as u16 || op == ggml_op::GGML_OP_FLASH_ATTN_EXT as u16 {
            return Placement::default();
        }
        let weight = problem.srcs(n)[i];
        let owner = problem.data_buffer(weight).and_then(|buffer| self.by_buffer(buffer, id));
        let Some(owner) = owner else { return Placement::default() };
        let t = self.ids.tensor(id);
        if self.op_offload && owner == self.last() && owner > 0 {
            let in_host_memory = problem.fact(weight).buffer().is_some_and(|b| b.is_host());
            let taker =
                (0..self.last()).find(|&b| in_host_memory && self.rules.computes(b, id) && self.rules.offers(b, id));
            if let Some(b) = taker {
                return Placement::new(b as i8, Cause::OFFLOAD);
            }
            if let Some((unit, _)) = self.held.product_at(n) {
                return Placement::new(self.held.units[unit].home.backend as i8, Cause::EXPERTS);
            }
        }
        // Sources that are not set are not counted, but mostly there are none before it.
        let slot = match t.src(i) == Some(self.ids.tensor(weight)) {
            true => i,
            false => t.srcs().nth(i).map_or(0, |(slot, _)| slot),
        };
        Placement::new(owner as i8, Cause::weight(slot as u8))
    }

    /// Pass 2: placed nodes take their neighbours along, as far as the backend can compute them. First accelerators
    /// only, so that the last backend gets no node between two that are on an accelerator.
    fn pass_2_expand<'p>(&mut self, order: impl Iterator<Item = &'p u32>, accelerators_only: bool) {
        let (flat, last) = (self.flat, self.last());
        let mut current = None;
        for &n in order {
            if self.n_open == 0 {
                return;
            }
            let id = flat.nodes()[n as usize];
            let placed = self.placed[id as usize];
            if placed.is_set() {
                let b = placed.backend as usize;
                current = (!accelerators_only || b != last).then_some(b);
            } else if let Some(b) = current
                && self.rules.computes(b, id)
            {
                self.place(id, b, Cause::SUPPORTED);
                self.n_open -= 1;
            }
        }
    }

    /// Pass 3: nodes still without a backend go where most of their sources can be used. Placed ones go to a backend of
    /// higher priority that computes in the same memory, if it can use all their sources.
    fn pass_3_best(&mut self) {
        let (flat, bufts) = (self.flat, self.rules.bufts);
        let shared = (1..bufts.len()).any(|b| bufts[..b].contains(&bufts[b]));
        if self.n_open == 0 && !shared {
            return;
        }
        for &n in flat.computed() {
            let n = n as usize;
            let id = flat.nodes()[n];
            let placed = self.placed[id as usize];
            if placed.is_set() {
                self.upgrade(n, id, placed.backend as usize);
            } else if let Some(b) = self.most_sources(n, id) {
                self.place(id, b, Cause::BEST_INPUTS);
            }
        }
    }

    pub(super) fn reads(&mut self, b: usize, id: u32) -> bool {
        self.rules.reads_tensor(b, id, self.flat, self.placed)
    }

    fn most_sources(&mut self, n: usize, id: u32) -> Option<usize> {
        let mut best = None;
        for b in 0..self.rules.backends.len() {
            if !self.rules.computes(b, id) {
                continue;
            }
            let flat = self.flat;
            let usable = flat.srcs(n).iter().filter(|&&src| self.is_known(src) && self.reads(b, src)).count();
            if best.is_none_or(|(most, _)| usable > most) {
                best = Some((usable, b));
            }
        }
        best.map(|(_, b)| b)
    }

    fn upgrade(&mut self, n: usize, id: u32, from: usize) {
        for b in 0..from {
            let flat = self.flat;
            if self.rules.bufts[b] == self.rules.bufts[from]
                && self.rules.computes(b, id)
                && flat.srcs(n).iter().all(|&src| self.reads(b, src))
            {
                self.place(id, b, Cause::UPGRADED);
                return;
            }
        }
    }

    /// Pass 4: views go with their base, other sources with their reader, and what is left to the first that can.
    fn pass_4_rest(&mut self) -> Result<()> {
        let flat = self.flat;
        for (n, &id) in flat.nodes().iter().enumerate() {
            let base = flat.base(id);
            if base != NONE && (!self.is_set(id) || self.is_misplaced_view(id)) {
                self.placed[id as usize] = Placement::new(self.placed[base as usize].backend, Cause::BASE);
            }
            for &src in flat.srcs(n) {
                if self.is_set(src) {
                    continue;
                }
                let (from, cause) = match flat.base(src) {
                    NONE => (id, Cause::READER),
                    base => (base, Cause::BASE),
                };
                self.placed[src as usize] = Placement::new(self.placed[from as usize].backend, cause);
            }
            if self.is_set(id) {
                continue;
            }
            if let Some(b) = (0..self.rules.backends.len()).find(|&b| self.rules.computes(b, id)) {
                self.place(id, b, Cause::SUPPORTED);
            } else {
                let t = self.ids.tensor(id);
                return Err(Error::Unsupported(format!(
                    "no backend of the scheduler computes '{}' ({})",
                    t.name(),
                    names::op(t.op())
                )));
            }
        }
        Ok(())
    }
}
