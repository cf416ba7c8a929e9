//! Everything that a scheduler works out for one graph, step by step: numbers, placement, splits with their copies, the
//! problem for the allocator, and what it needs to repeat the graph without these steps.

use super::ahead::{Ahead, Readers};
use super::arena::{CopyPool, Rewired};
use super::assign::Assigner;
use super::cause::{Cause, Placement};
use super::cpu_only;
use super::experts::cache::ExpertCache;
use super::experts::held::{Held, Search};
use super::experts::serve::ExpertServer;
use super::experts::used;
use super::flat::Flat;
use super::offload::{self, LEAST_COLUMNS, Offload};
use super::plans::BackendPlans;
use super::rules::{Known, Rules};
use super::settings::Settings;
use super::split::{Copies, Split, Splitter};
use super::writers::Writers;
use crate::alloc::{Binding, Likeness, Problem, Recall, Ticket};
use crate::error::Result;
use crate::graph::ids::TensorIds;
use crate::graph::{GraphRef, next_uid};
use crate::tensor::TensorRef;
use std::collections::HashMap;

/// What the next graph can reuse. It rises with the steps of an allocation and returns to `Blank` after an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Life {
    /// Nothing: it describes no graph, or more than one, or the host has placed tensors after the split.
    #[default]
    Blank,
    /// The placement: a graph of the same structure can follow.
    Split,
    /// All: images of the tensors were taken and their addresses written down, so the same graph can be repeated.
    Repeatable(Ticket),
}

/// What backends request to keep: for each node, the tensors that must live until it has been computed.
pub type Retained = HashMap<TensorRef, Vec<TensorRef>>;

/// A graph that was split.
pub struct SplitGraph {
    /// Its place in the cache.
    pub slot: usize,
    /// What can be taken over.
    pub life: Life,
    /// Its tensors.
    pub ids: TensorIds,
    /// The graph in their numbers.
    pub flat: Flat,

    /// By tensor, from one reset to the next.
    pub placed: Vec<Placement>,
    /// What the host had placed, by number.
    pub requests: Vec<(u32, i8)>,
    /// What the backends answered.
    pub known: Known,
    /// Nodes that write into the memory of other tensors.
    writers: Writers,
    /// Nodes that the splitter has to look at.
    visits: Vec<u32>,
    /// The number of nodes when it was last looked through for operations that only the CPU computes.
    n_checked: usize,

    /// Which copy of the pipeline it uses.
    pub cur_copy: usize,
    /// Units whose experts are held on a device.
    pub held: Held,
    /// The splits.
    pub splits: Vec<Split>,
    /// Weights that are copied ahead of the splits that need them.
    pub ahead: Vec<Ahead>,
    /// Their copies.
    pub copies: Copies,
    /// The sources in the host's graph that were replaced by copies.
    rewired: Vec<Rewired>,
    /// Sets of copies of the graph's inputs, with their backends, for a pipelining scheduler.
    pub graph_inputs: Vec<(u32, usize)>,
    /// The nodes after backends have reordered them.
    pub reordered: Vec<TensorRef>,
    /// The tensors that backends have requested to keep in memory.
    pub kept: Retained,
    /// The graph plans of the backends for the splits.
    pub plans: BackendPlans,

    /// The graph is its own problem: there are no copies, and nothing is reordered.
    pub is_plain: bool,
    /// Otherwise the problem for the allocator.
    pub problem: Problem,
    /// Backend by place of the problem.
    pub buffers: Vec<i32>,
    /// Number of tensors, counted as the original ggml counts them. The host's callback receives whether it changed.
    pub size: usize,

    /// How often choices by cost had changed when it was placed.
    pub offload_era: u64,
    /// Images of the tensors.
    pub recall: Recall,
    /// Where they were bound.
    pub bindings: Vec<Binding>,
}

impl SplitGraph {
    /// No graph yet.
    pub fn new(slot: usize, settings: &Settings) -> Self {
        Self {
            slot,
            life: Life::Blank,
            ids: TensorIds::default(),
            flat: Flat::default(),
            placed: Vec::new(),
            requests: Vec::new(),
            known: Known::default(),
            writers: Writers::default(),
            visits: Vec::new(),
            n_checked: 0,
            cur_copy: 0,
            held: Held::default(),
            splits: Vec::new(),
            ahead: Vec::new(),
            copies: Copies::new(0, settings.backends.len(), settings.n_copies),
            rewired: Vec::new(),
            graph_inputs: Vec::new(),
            reordered: Vec::new(),
            kept: Retained::default(),
            plans: BackendPlans::default(),
            is_plain: false,
            problem: Problem::default(),
            buffers: Vec::new(),
            size: 0,
            offload_era: 0,
            recall: Recall::default(),
            bindings: Vec::new(),
        }
    }

    /// Where a tensor is, and why.
    pub fn placement(&self, t: TensorRef) -> Placement {
        self.ids.get(t).and_then(|id| self.placed.get(id as usize)).copied().unwrap_or_default()
    }

    /// The problem for the allocator.
    pub fn problem(&self) -> &Problem {
        if self.is_plain { &self.flat.problem } else { &self.problem }
    }

    /// The problem as one that the allocator can keep, and the backends by its places.
    pub fn owned_problem(&mut self) -> (&mut Problem, &[i32]) {
        if self.is_plain {
            self.problem.copy_from(&self.flat.problem);
        }
        (&mut self.problem, &self.buffers)
    }

    /// Forgets what was split, after an error or before another split.
    pub fn clear_splits(&mut self) {
        self.splits.clear();
        self.ahead.clear();
        self.graph_inputs.clear();
    }

    /// Places a tensor as the host says; returns its number.
    pub fn place_for_user(&mut self, t: TensorRef, backend: i8) -> u32 {
        let id = self.ids.insert(t);
        if self.placed.len() <= id as usize {
            self.placed.resize(id as usize + 1, Placement::default());
        }
        self.placed[id as usize] = Placement::new(backend, Cause::USER);
        id
    }

    /// Forgets where tensors were placed, but for what the host has placed: other rules apply.
    pub fn place_again(&mut self) {
        self.placed.iter_mut().filter(|p| p.cause != Cause::USER).for_each(|p| *p = Placement::default());
    }

    /// Numbers the graph's tensors, after those that have a number already.
    pub fn describe(&mut self, graph: GraphRef, pool: &CopyPool) -> Result<()> {
        self.flat.fill(graph, &mut self.ids, |node, slot, src| pool.original(node, slot, src))
    }

    /// As [`Self::describe`], for a graph of the same structure. Changes nothing if the structure differs.
    pub fn follow(&mut self, graph: GraphRef, pool: &CopyPool) -> Result<Likeness> {
        self.flat.follow(graph, &mut self.ids, |node, slot, src| pool.original(node, slot, src))
    }

    /// Whether the placement is still valid after [`Self::follow`]: the host requests the same placements, and the
    /// devices give the same answers.
    pub fn keeps_placement(
        &self,
        settings: &Settings,
        user: &[(TensorRef, i8)],
        cache: Option<(&ExpertCache, bool)>,
        offload: Option<&Offload>,
    ) -> bool {
        let asked = user.iter().map(|&(t, backend)| (Some(t), backend));
        let known = self.requests.iter().map(|&(id, backend)| (self.ids.tensors().get(id as usize).copied(), backend));
        asked.eq(known)
            && self.held.holds(cache, settings.may_hold(), &self.ids)
            && self.known.holds(&settings.backends, &self.ids, offload)
    }

    /// Begins the placement with what the host has placed. `is_other`: what is placed already was placed for another
    /// graph.
    fn place_requests(&mut self, user: &[(TensorRef, i8)], is_other: bool) {
        if is_other {
            self.placed.clear();
        }
        self.requests.clear();
        for &(t, backend) in user {
            let id = self.place_for_user(t, backend);
            self.requests.push((id, backend));
            if self.flat.problem.len() < self.ids.len() {
                // The tensor is not in this graph, but needs a number here: copies are numbered after all tensors.
                self.flat.problem.add_stranger(t);
            }
        }
        self.known.clear(self.ids.len());
        self.placed.resize(self.ids.len(), Placement::default());
    }

    /// Places all tensors that are described, unless the placement is kept, and splits the graph. `user`: what the host
    /// has placed. `experts`: those on devices, and whether they may get memory. `follows`: the graph has the structure
    /// of the one before. `warned_fallbacks`: a bit for each operation that the log has already reported as computed by
    /// the CPU only. `readers`: what copies weights ahead; `offload`: choices by cost. Returns whether the placement
    /// was kept.
    pub fn split(
        &mut self,
        graph: GraphRef,
        settings: &Settings,
        pool: &mut CopyPool,
        user: &[(TensorRef, i8)],
        follows: bool,
        warned_fallbacks: &mut u128,
        mut experts: Option<(&mut ExpertServer, bool)>,
        (readers, offload): (&Readers, Option<&Offload>),
    ) -> Result<bool> {
        let is_placed = follows
            && self.keeps_placement(
                settings,
                user,
                experts.as_ref().map(|(server, may)| (&server.cache, *may)),
                offload,
            );
        if !is_placed {
            self.place_requests(user, follows);
        }
        pool.reset(self.slot);
        self.rewired.clear();
        self.copies.reset(self.ids.len());
        let mut rules = Rules::new(&settings.backends, &settings.bufts, &self.ids, &mut self.known, offload);
        if !is_placed {
            self.writers.find(&self.flat);
            self.held.clear();
            if let Some((server, may_allocate)) = &mut experts
                && settings.may_hold()
            {
                let search = Search {
                    flat: &self.flat,
                    ids: &self.ids,
                    writers: &self.writers,
                    placed: &self.placed,
                    settings,
                    may_allocate: *may_allocate,
                };
                self.held.find(&mut server.cache, &server.costs, &mut rules, &search);
                rules.begin_again();
            }
            Assigner {
                rules: &mut rules,
                flat: &self.flat,
                ids: &self.ids,
                writers: &self.writers,
                placed: &mut self.placed,
                op_offload: settings.op_offload,
                held: &self.held,
                n_open: 0,
            }
            .run()?;
        }
        // Graphs of as many nodes are mostly the same graph.
        if self.n_checked != graph.n_nodes() {
            self.n_checked = graph.n_nodes();
            cpu_only::warn(&mut rules, &self.flat, &self.placed, warned_fallbacks);
        }
        let mut splitter = Splitter {
            rules: &mut rules,
            flat: &mut self.flat,
            ids: &self.ids,
            writers: &self.writers,
            placed: &self.placed,
            pool,
            slot: self.slot,
            copies: &mut self.copies,
            cur_copy: self.cur_copy,
            rewired: &mut self.rewired,
            held: &self.held,
            cache: experts.map(|(server, _)| &server.cache),
            routings: Vec::new(),
        };
        if !is_placed {
            splitter.find_visits(&mut self.visits);
        }
        self.splits = splitter.run(&self.visits)?;
        if settings.n_copies > 1 {
            self.graph_inputs = splitter.graph_inputs()?;
        }
        self.ahead = readers.plan(settings, &self.splits, &self.copies, |split, copy| {
            let first = self.flat.nodes().get(split.nodes.start);
            used::applies(first.map(|&id| self.ids.tensor(id)), copy)
        });
        for a in &self.ahead {
            self.splits[a.split].inputs.iter_mut().filter(|i| i.set == a.set).for_each(|i| i.is_ahead = true);
        }
        self.offload_era = offload.map_or(0, Offload::era);
        if offload.is_some() {
            self.find_products(settings.backends.len() - 1);
        }
        Ok(is_placed)
    }

    /// Notes the products of each split whose times choices depend on: those of weights in host memory.
    fn find_products(&mut self, cpu: usize) {
        let (copies, cur_copy) = (&self.copies, self.cur_copy);
        for split in self.splits.iter_mut().filter(|split| split.unit.is_none()) {
            let nodes = self.flat.nodes()[split.nodes.clone()].iter().map(|&id| self.ids.tensor(id));
            let copied = |w: TensorRef| {
                let mut weights = split.inputs.iter().filter(|input| used::is_host_weight(input.tensor));
                weights.any(|input| copies.get(input.set, cur_copy).tensor == w)
            };
            let is_counted = |w: TensorRef| if split.backend == cpu { used::is_host_weight(w) } else { copied(w) };
            let counts = |node: &TensorRef| node.src(0).is_some_and(is_counted);
            let products = nodes.filter(counts).filter_map(offload::product_of);
            split.products = products.filter(|p| p.columns >= LEAST_COLUMNS).collect();
        }
    }

    /// Gives the splits new identifiers, so that backends do not reuse what they remember of earlier splits, and marks
    /// their graph plans as outdated.
    pub fn begin_plans(&mut self, settings: &Settings) {
        self.splits.iter_mut().filter_map(|s| s.graph.as_mut()).for_each(|graph| graph.uid = next_uid());
        self.plans.begin(self.splits.iter().map(|s| settings.backends[s.backend]));
    }

    /// Puts the copies in their places again, for another round of the same graph.
    pub fn rewire(&self, pool: &mut CopyPool) {
        self.rewired.iter().for_each(|&r| pool.rewire(r));
        self.copies.renew();
    }
}
