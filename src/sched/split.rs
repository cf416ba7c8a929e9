//! Pass 5: splits, which are runs of nodes on one backend, and copies of what a split cannot read in place.

use super::arena::{CopyPool, Rewired};
use super::cause::{Cause, Placement};
use super::cost::Product;
use super::experts::cache::ExpertCache;
use super::experts::held::Held;
use super::flat::{Flat, is_view_op};
use super::in_flight::{self, Mask};
use super::rules::Rules;
use super::writers::Writers;
use crate::abi::ggml::ggml_tensor_flag::{GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_INPUT};
use crate::abi::ggml::{ggml_op, ggml_tensor};
use crate::abi::graph::ggml_cgraph;
use crate::alloc::Traits;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::graph::ids::{NONE, TensorIds};
use crate::tensor::TensorRef;
use std::ffi::c_int;
use std::ops::Range;

/// A tensor that a split reads through a copy.
#[derive(Clone, Copy)]
pub struct Input {
    /// The tensor.
    pub tensor: TensorRef,
    /// Its number.
    pub id: u32,
    /// Its backend.
    pub from: usize,
    /// Its copies on the split's backend: a set of `n_copies`.
    pub set: u32,
    /// Nodes of the graph write into its memory.
    pub is_written: bool,
    /// Its copy is filled when the unit that the split computes is served.
    pub is_served: bool,
    /// Its copy is in memory since an earlier split.
    pub is_ahead: bool,
}

/// A node that looks up the slots of a unit's experts, and the unit's nodes after it.
pub struct SlotLookup {
    /// The node.
    pub node: TensorRef,
    nodes: Vec<*mut ggml_tensor>,
}

impl SlotLookup {
    /// A graph of the node and those of a unit's graph. It is valid until the next call, as long as this lives.
    pub fn lead(&mut self, unit: GraphRef) -> ggml_cgraph {
        self.nodes.clear();
        self.nodes.extend(std::iter::once(self.node).chain(unit.nodes()).map(TensorRef::as_ptr));
        ggml_cgraph { nodes: self.nodes.as_mut_ptr(), n_nodes: self.nodes.len() as c_int, ..unit.raw() }
    }
}

/// Consecutive nodes that one backend computes.
pub struct Split {
    /// The backend.
    pub backend: usize,
    /// Places of its nodes in the host's graph, views included.
    pub nodes: Range<usize>,
    /// What is copied before it starts, in this order.
    pub inputs: Vec<Input>,
    /// The nodes as a graph for the backend. Filled in when the graph is assembled.
    pub graph: Option<ggml_cgraph>,
    /// Backends whose memory it reads in place. Weights count only if a node writes them.
    pub reads_in_place: Mask,
    /// It reads inputs of the graph, which the host writes, in place in another backend's memory.
    pub reads_inputs: bool,
    /// The unit of experts that it computes.
    pub unit: Option<usize>,
    /// The node before the unit's, if the device looks up the slots of its experts.
    pub lookup: Option<SlotLookup>,
    /// Its products of weights that are in host memory, if choices depend on their times.
    pub products: Vec<Product>,
}

impl Split {
    /// The nodes as a graph for the backend, once the whole graph is assembled.
    ///
    /// # Safety
    /// The handle is used only while the split stays in its place. (That its nodes are there is the promise of the
    /// host's graph.)
    pub unsafe fn graph(&self) -> Option<GraphRef> {
        // SAFETY: a slice of a valid graph, in its place by the caller's promise.
        self.graph.as_ref().and_then(|graph| unsafe { GraphRef::from_ptr(graph) })
    }
}

/// One copy.
#[derive(Clone, Copy)]
pub struct Copy {
    /// The tensor; the copy that is in use may be the original itself.
    pub tensor: TensorRef,
    /// Its number: that of the original, or one after the numbers of the graph's tensors.
    pub key: u32,
    /// Its memory does not come from the plan: it is slots of a cache.
    pub is_held: bool,
}

/// All copies of a split graph. A set is the `n_copies` copies of one tensor on one backend.
pub struct Copies {
    n_copies: usize,
    n_backends: usize,
    first_key: u32,
    next_key: u32,
    all: Vec<Copy>,
    /// By tensor and backend: the latest set, or `NONE`.
    sets: Vec<u32>,
    /// By set: the place of the node that it was made for.
    made_for: Vec<u32>,
}

impl Copies {
    /// None yet, for a graph of `n_ids` tensors.
    pub fn new(n_ids: usize, n_backends: usize, n_copies: usize) -> Self {
        let mut this = Self {
            n_copies,
            n_backends,
            first_key: 0,
            next_key: 0,
            all: Vec::new(),
            sets: Vec::new(),
            made_for: Vec::new(),
        };
        this.reset(n_ids);
        this
    }

    /// None again, for a graph of `n_ids` tensors.
    pub fn reset(&mut self, n_ids: usize) {
        (self.first_key, self.next_key) = (n_ids as u32, n_ids as u32);
        self.all.clear();
        self.made_for.clear();
        self.sets.clear();
        self.sets.resize(n_ids * self.n_backends, NONE);
    }

    /// The set of a tensor on a backend, or `NONE`.
    #[inline]
    pub fn set(&self, id: u32, backend: usize) -> u32 {
        self.sets[id as usize * self.n_backends + backend]
    }

    /// One copy of a set.
    #[inline]
    pub fn get(&self, set: u32, copy: usize) -> Copy {
        self.all[set as usize * self.n_copies + copy]
    }

    /// All copies, originals that are their own copy left out, in the order of their numbers.
    pub fn made(&self) -> impl Iterator<Item = Copy> + '_ {
        self.all.iter().copied().filter(|c| c.key >= self.first_key)
    }

    /// Prepares the copies for another round of the same graph: their memory, and what backends keep in them, is
    /// forgotten; originals that are their own copy are marked again.
    pub fn renew(&self) {
        for c in &self.all {
            if c.is_held {
                continue;
            }
            if c.key >= self.first_key {
                c.tensor.set_data(std::ptr::null_mut());
                c.tensor.set_buffer_raw(std::ptr::null_mut());
                c.tensor.set_extra(std::ptr::null_mut());
            } else if self.n_copies > 1 {
                mark(c.tensor);
            }
        }
    }

    /// Originals that are their own copy.
    pub fn originals(&self) -> impl Iterator<Item = Copy> + '_ {
        self.all.iter().copied().filter(|c| c.key < self.first_key)
    }

    /// Makes a set of a tensor on a backend, for the node at `place`. `own`: the copy that is the tensor itself.
    fn make(
        &mut self,
        pool: &mut CopyPool,
        slot: usize,
        id: u32,
        t: TensorRef,
        backend: usize,
        backend_name: &str,
        place: u32,
        own: Option<usize>,
    ) -> Result<u32> {
        let set = (self.all.len() / self.n_copies) as u32;
        self.made_for.push(place);
        for c in 0..self.n_copies {
            let copy = if own == Some(c) {
                Copy { tensor: t, key: id, is_held: false }
            } else {
                let mut name = format!("{backend_name}#").into_bytes();
                name.extend(t.name_bytes());
                name.extend(format!("#{c}").bytes());
                self.next_key += 1;
                Copy { tensor: pool.copy_of(slot, t, &name)?, key: self.next_key - 1, is_held: false }
            };
            if self.n_copies > 1 {
                mark(copy.tensor);
            }
            self.all.push(copy);
        }
        self.sets[id as usize * self.n_backends + backend] = set;
        Ok(set)
    }

    /// Makes a set of copies of a tensor that no other node is to read. `prepare` completes each; `is_held`: with
    /// memory.
    fn make_own(
        &mut self,
        pool: &mut CopyPool,
        slot: usize,
        t: TensorRef,
        name: &str,
        place: u32,
        is_held: bool,
        prepare: impl Fn(TensorRef) -> Result<()>,
    ) -> Result<u32> {
        let set = (self.all.len() / self.n_copies) as u32;
        self.made_for.push(place);
        for c in 0..self.n_copies {
            let mut of = format!("{name}#").into_bytes();
            of.extend(t.name_bytes());
            of.extend(format!("#{c}").bytes());
            let tensor = pool.copy_of(slot, t, &of)?;
            prepare(tensor)?;
            if self.n_copies > 1 && !is_held {
                mark(tensor);
            }
            self.all.push(Copy { tensor, key: self.next_key, is_held });
            self.next_key += 1;
        }
        Ok(set)
    }
}

/// The allocator must neither fill a copy late nor use its memory again: copies of earlier graphs may be in flight.
fn mark(copy: TensorRef) {
    copy.add_flag(GGML_TENSOR_FLAG_INPUT);
    copy.mark_output();
}

/// The pass at work.
pub struct Splitter<'a, 'b> {
    /// What backends can do.
    pub rules: &'a mut Rules<'b>,
    /// The graph; its edges are changed to copies.
    pub flat: &'a mut Flat,
    /// Its tensors.
    pub ids: &'a TensorIds,
    /// Its nodes that write into the memory of other tensors.
    pub writers: &'a Writers,
    /// Their backends.
    pub placed: &'a [Placement],
    /// Where copies are made, and written down for the next split.
    pub pool: &'a mut CopyPool,
    /// Whose copies they are there.
    pub slot: usize,
    /// Copies so far.
    pub copies: &'a mut Copies,
    /// Which copy the graph uses.
    pub cur_copy: usize,
    /// Sources replaced by this split.
    pub rewired: &'a mut Vec<Rewired>,
    /// Units whose experts are held on a device.
    pub held: &'a Held,
    /// The cache, if there is one.
    pub cache: Option<&'a ExpertCache>,
    /// By unit: the set of the numbers of slots, once it is made.
    pub routings: Vec<(usize, u32)>,
}

impl Splitter<'_, '_> {
    /// Writes down the places of the nodes that [`Self::run`] has to look at: those that begin a split or have a source
    /// elsewhere. They are the same for each graph of the same placement.
    pub fn find_visits(&self, visits: &mut Vec<u32>) {
        visits.clear();
        // With one backend there is nothing to find.
        if self.rules.backends.len() == 1 {
            return;
        }
        // A node that has the backend of the preceding node, and all of its sources there, continues the split and
        // needs no copy.
        let mut here = -1;
        for &place in self.flat.computed() {
            let node = place as usize;
            if here < 0 || !self.is_local(node, here) || self.held.is_bound(node) {
                visits.push(place);
            }
            here = self.placed[self.flat.nodes()[node] as usize].backend;
        }
    }

    /// Splits the graph and puts copies in the place of sources. `visits`: see [`Self::find_visits`].
    pub fn run(&mut self, visits: &[u32]) -> Result<Vec<Split>> {
        let n = self.flat.nodes().len();
        let mut splits = Vec::new();
        let mut current: Option<Split> = None;
        for &place in visits {
            let i = place as usize;
            let backend = self.backend_of(self.flat.nodes()[i])?;
            let goes_on = |s: &Split, this: &mut Self| {
                s.backend == backend
                    && !this.held.is_bound(i)
                    && (s.inputs.is_empty() || !this.has_foreign_weight(i, backend))
            };
            let split = match &mut current {
                Some(s) if goes_on(s, self) => s,
                None => current.insert(new_split(backend, 0)),
                Some(s) => {
                    s.nodes.end = i;
                    splits.push(std::mem::replace(s, new_split(backend, i)));
                    s
                }
            };
            if split.unit.is_none() && self.held.is_bound(i) {
                split.unit = self.held.unit_at(i);
            }
            let here = split.backend as i8;
            let is_here = |&src: &u32| self.placed[src as usize].backend == here && !self.is_placed_view(src);
            if !self.flat.srcs(i).iter().all(is_here) {
                self.copy_inputs(i, split)?;
            }
        }
        // A graph of views only, or of nothing, is one split of the first backend.
        let mut last = current.unwrap_or_else(|| new_split(0, 0));
        last.nodes.end = n;
        splits.push(last);
        spread_in_place_reads(&mut splits, self.rules.backends.len());
        Ok(splits)
    }

    /// Whether a node and all its sources are on a backend.
    #[inline]
    fn is_local(&self, node: usize, backend: i8) -> bool {
        let on = |id: u32| self.placed[id as usize].backend == backend;
        on(self.flat.nodes()[node]) && self.flat.srcs(node).iter().all(|&src| on(src) && !self.is_placed_view(src))
    }

    /// Whether the host has placed a tensor that has a base, a view or a node in place, and nodes write into its
    /// memory. That memory is with the base all the same.
    #[inline]
    fn is_placed_view(&self, id: u32) -> bool {
        matches!(self.placed[id as usize].cause, Cause::USER | Cause::INPUT)
            && self.flat.base(id) != NONE
            && self.writers.write(self.flat, id)
    }

    /// Whether a backend can use a tensor where it is, or where it will be.
    fn reads(&mut self, backend: usize, id: u32) -> bool {
        self.rules.reads_tensor(backend, id, self.flat, self.placed)
    }

    #[inline]
    fn backend_of(&self, id: u32) -> Result<usize> {
        let none = || Error::Unsupported(format!("no backend for '{}'", self.ids.tensor(id).name()));
        usize::try_from(self.placed[id as usize].backend).map_err(|_| none())
    }

    /// Whether the node needs a copy of a weight. It then begins a new split, so that the memory of weights copied
    /// for the nodes before can be used again.
    fn has_foreign_weight(&mut self, node: usize, backend: usize) -> bool {
        if self.held.product_at(node).is_some() {
            return false;
        }
        for i in 0..self.flat.srcs(node).len() {
            let id = self.flat.srcs(node)[i];
            if self.flat.problem.fact(id).traits.has(Traits::WEIGHTS)
                && self.placed[id as usize].backend != backend as i8
                && !self.rules.reads_tensor(backend, id, self.flat, self.placed)
            {
                return true;
            }
        }
        false
    }

    /// Whether a node before this one has written into the memory of a tensor since its copy was made.
    fn is_stale(&self, set: u32, id: u32, node: usize) -> bool {
        let made_for = self.copies.made_for[set as usize];
        self.writers.write_between(self.flat, id, made_for, node as u32)
    }

    /// An error if a node writes source `slot`, which it would get as a copy: what it writes there would be lost.
    fn keeps_moments(&self, node: TensorRef, slot: usize, source: TensorRef, backend: usize) -> Result<()> {
        if node.op() != ggml_op::GGML_OP_OPT_STEP_ADAMW || !(2..=3).contains(&slot) {
            return Ok(());
        }
        let place = source
            .data_buffer()
            .map_or_else(|| "other memory".into(), |b| format!("a buffer of type {}", b.buft().name()));
        Err(Error::Unsupported(format!(
            "'{}' is a step of AdamW that writes its moment '{}', which is in {place}: {}, where the parameter is, \
             cannot use it",
            node.name(),
            source.name(),
            self.rules.backends[backend].name()
        )))
    }

    fn copy_inputs(&mut self, node: usize, split: &mut Split) -> Result<()> {
        let product = self.held.product_at(node);
        for i in 0..self.flat.srcs(node).len() {
            if let Some(of) = product
                && self.hold(of, node, i, split)?
            {
                continue;
            }
            let id = self.flat.srcs(node)[i];
            let placed_view = self.is_placed_view(id);
            // What a node writes in place is where its base is, whatever memory its own backend has.
            let base = self.flat.base(id);
            let in_base = placed_view || base != NONE && !is_view_op(self.flat.problem.fact(id).op.into());
            let base_is_read = !in_base || self.reads(split.backend, base);
            if self.placed[id as usize].backend == split.backend as i8 && base_is_read {
                continue;
            }
            let mut from = self.backend_of(id)?;
            if placed_view && !self.reads(from, self.flat.base(id)) {
                from = self.backend_of(self.flat.base(id))?;
            }
            let tensor = self.ids.tensor(id);
            if base_is_read && self.reads(split.backend, id) {
                if !tensor.data_buffer().is_some_and(|b| b.is_weights()) || self.writers.write(self.flat, id) {
                    split.reads_in_place |= 1 << from;
                    split.reads_inputs |= is_input(tensor);
                }
                continue;
            }
            let reader = self.ids.tensor(self.flat.nodes()[node]);
            // Sources that are not set do not count; those before this one are as many as they were.
            let slot = reader.srcs().nth(i).map_or(0, |(slot, _)| slot);
            self.keeps_moments(reader, slot, tensor, split.backend)?;
            let mut set = self.copies.set(id, split.backend);
            if set == NONE || self.is_stale(set, id, node) {
                let name = self.rules.backends[split.backend].name();
                set = self.copies.make(self.pool, self.slot, id, tensor, split.backend, &name, node as u32, None)?;
                let is_written = self.writers.write(self.flat, id);
                split.inputs.push(Input { tensor, id, from, set, is_written, is_served: false, is_ahead: false });
            }
            self.replace(node, i, slot, set);
        }
        Ok(())
    }

    /// Puts the slots of a cache in the place of experts, and numbers of slots in that of the routing. Returns false
    /// for other sources.
    fn hold(&mut self, (unit, weight): (usize, usize), node: usize, i: usize, split: &mut Split) -> Result<bool> {
        let Some(cache) = self.cache else { return Ok(false) };
        let held = &self.held.units[unit];
        let id = self.flat.srcs(node)[i];
        let (tensor, name) = (self.ids.tensor(id), self.rules.backends[split.backend].name());
        let set = match (i, self.routings.last()) {
            (0, _) => match (held.home.stage, held.home.place) {
                (Some(n_slots), _) => {
                    let shorten = |t: TensorRef| {
                        let ([a, b, _, _], [x, y, z, _]) = (t.ne(), t.nb());
                        t.set_ne([a, b, n_slots as i64, 1]);
                        t.set_nb([x, y, z, z * n_slots]);
                        Ok(())
                    };
                    let set = self.copies.make_own(self.pool, self.slot, tensor, &name, node as u32, false, shorten)?;
                    let from = self.backend_of(id)?;
                    split.inputs.push(Input {
                        tensor,
                        id,
                        from,
                        set,
                        is_written: false,
                        is_served: true,
                        is_ahead: false,
                    });
                    set
                }
                (None, Some(place)) => {
                    let fill = |t: TensorRef| cache.fill(place, weight, t);
                    self.copies.make_own(self.pool, self.slot, tensor, &name, node as u32, true, fill)?
                }
                (None, None) => return Ok(false),
            },
            (2, Some(&(of, set))) if of == unit => set,
            (2, _) => {
                let pack = |t: TensorRef| {
                    let ne = t.ne();
                    let row = size_of::<i32>() * ne[0] as usize;
                    t.set_nb([size_of::<i32>(), row, row * ne[1] as usize, row * ne[1] as usize]);
                    Ok(())
                };
                let set = self.copies.make_own(self.pool, self.slot, tensor, &name, node as u32, false, pack)?;
                self.routings.push((unit, set));
                let numbers = self.copies.get(set, self.cur_copy).tensor;
                split.lookup = self.lookup(unit, tensor, numbers)?.map(|node| SlotLookup { node, nodes: Vec::new() });
                let from = self.backend_of(id)?;
                split.inputs.push(Input { tensor, id, from, set, is_written: false, is_served: true, is_ahead: false });
                set
            }
            _ => return Ok(false),
        };
        self.replace(node, i, i, set);
        Ok(true)
    }

    /// A node that looks up the numbers of a unit's slots, if its device can: for one token, whose routing it computes.
    fn lookup(&mut self, unit: usize, routing: TensorRef, numbers: TensorRef) -> Result<Option<TensorRef>> {
        let held = &self.held.units[unit];
        let (Some(cache), Some(chain), Some(place)) = (self.cache, &held.unit.chain, held.home.place) else {
            return Ok(None);
        };
        let backend = held.home.backend;
        let is_here = |id: u32| self.placed[id as usize].backend == backend as i8;
        let n_experts = cache.pool(place.pool).n_experts() as i64;
        let root = routing.root();
        // A sort names experts that there are.
        let is_sorted = matches!(root.op(), ggml_op::GGML_OP_ARGSORT | ggml_op::GGML_OP_TOP_K)
            && root.src(0).is_some_and(|scores| scores.ne()[0] == n_experts);
        let [n_used, n_tokens, ..] = routing.ne();
        if held.home.stage.is_some()
            || !cache.looks_up(backend)
            || n_tokens != 1
            || !is_sorted
            || !is_here(held.unit.ids)
            || !is_here(chain.input)
        {
            return Ok(None);
        }
        let name = numbers.name_bytes();
        let row = self.pool.copy_of(self.slot, numbers, &name)?;
        row.set_ne([1, n_experts, 1, 1]);
        row.set_nb([4, 4, 4 * n_experts as usize, 4 * n_experts as usize]);
        if !cache.bind_row(place, row) {
            return Ok(None);
        }
        let node = self.pool.copy_of(self.slot, numbers, &name)?;
        node.set_ne([1, n_used, 1, 1]);
        node.set_nb([4, 4, 4 * n_used as usize, 4 * n_used as usize]);
        node.set_op(ggml_op::GGML_OP_GET_ROWS);
        node.add_flag(GGML_TENSOR_FLAG_COMPUTE);
        node.set_src(0, Some(row));
        node.set_src(1, Some(routing));
        Ok(self.rules.backends[backend].supports_op(node).then_some(node))
    }

    /// Puts a copy in the place of a source.
    fn replace(&mut self, node: usize, i: usize, slot: usize, set: u32) {
        let (reader, original) = (self.ids.tensor(self.flat.nodes()[node]), self.ids.tensor(self.flat.srcs(node)[i]));
        let copy = self.copies.get(set, self.cur_copy);
        let rewired = Rewired { node: reader, slot: slot as u8, copy: copy.tensor, original };
        self.pool.rewire(rewired);
        self.rewired.push(rewired);
        self.flat.problem.set_src(node, i, copy.key);
    }

    /// Copies of all inputs of the graph, for a pipelining scheduler: also of those that no node reads, so that the
    /// graph has the same composition whichever inputs are in use. Returns the sets with the inputs' backends.
    pub fn graph_inputs(&mut self) -> Result<Vec<(u32, usize)>> {
        let mut sets = Vec::new();
        for i in 0..self.flat.leafs().len() {
            let id = self.flat.leafs()[i];
            let leaf = self.ids.tensor(id);
            if !leaf.has_flag(GGML_TENSOR_FLAG_INPUT) {
                continue;
            }
            let backend = self.backend_of(id)?;
            let mut set = self.copies.set(id, backend);
            if set == NONE {
                let name = self.rules.backends[backend].name();
                set = self.copies.make(self.pool, self.slot, id, leaf, backend, &name, 0, Some(self.cur_copy))?;
            }
            sets.push((set, backend));
        }
        Ok(sets)
    }
}

/// Extends the in-place reads of each split to all splits of the same backend, and to all backends that read the memory
/// of that backend in place. A result can take the place of its source: a backend that reads the memory of another one
/// in place may therefore write there, and its other splits read these results.
fn spread_in_place_reads(splits: &mut [Split], n_backends: usize) {
    if splits.iter().all(|s| s.reads_in_place == 0) {
        return;
    }
    let mut of = vec![0; n_backends];
    splits.iter().for_each(|s| of[s.backend] |= s.reads_in_place);
    for _ in 0..n_backends {
        for b in 0..n_backends {
            of[b] = in_flight::members(of[b]).fold(of[b], |m: Mask, owner| m | of[owner]);
        }
    }
    splits.iter_mut().for_each(|s| s.reads_in_place = of[s.backend]);
}

fn new_split(backend: usize, start: usize) -> Split {
    Split {
        backend,
        nodes: start..start,
        inputs: Vec::new(),
        graph: None,
        reads_in_place: 0,
        reads_inputs: false,
        unit: None,
        lookup: None,
        products: Vec::new(),
    }
}

/// Whether the host writes the tensor, or what it is a view of.
pub fn is_input(t: TensorRef) -> bool {
    t.root().has_flag(GGML_TENSOR_FLAG_INPUT)
}
