//! The split graph as a problem for the allocator: the nodes in the order in which the backends will compute them,
//! copies at the start of the split that reads them, and what has to stay in memory longer than its readers.

use super::ahead;
use super::settings::Settings;
use super::split_graph::{Retained, SplitGraph};
use crate::abi::backend_impl::ggml_backend_graph_optimize_params;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_tensor};
use crate::alloc::Problem;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::graph::ids::NONE;
use crate::invalid;
use crate::sched::split::Split;
use crate::tensor::TensorRef;
use std::ffi::c_void;

/// `add_alloc_dep` for backends.
///
/// # Safety
/// `user_data` is the `Retained` of the call to `graph_optimize` under way; the tensors are valid.
unsafe extern "C" fn keep(user_data: *mut c_void, tensor: *mut ggml_tensor, until: *mut ggml_tensor) {
    // SAFETY: by the contract of the function; no other code uses the map during the call.
    let (kept, tensor, until) = unsafe {
        let Some(kept) = user_data.cast::<Retained>().as_mut() else { return };
        (kept, TensorRef::from_ptr(tensor), TensorRef::from_ptr(until))
    };
    if let (Some(tensor), Some(until)) = (tensor, until) {
        let list = kept.entry(until).or_default();
        if !list.contains(&tensor) {
            list.push(tensor);
        }
    }
}

/// Lets each backend reorder its split, and collects the tensors that must live longer.
fn optimize(graph: GraphRef, splits: &mut [Split], backends: &[crate::backend::BackendRef]) -> Retained {
    let mut kept = Retained::new();
    for split in splits {
        let part = split.graph.insert(graph.slice(split.nodes.clone()));
        // SAFETY: a slice of a valid graph, in its place for the call.
        let Some(part) = (unsafe { GraphRef::from_ptr(part) }) else { continue };
        let user_data = (&raw mut kept).cast();
        let mut params = ggml_backend_graph_optimize_params { add_alloc_dep: Some(keep), user_data };
        backends[split.backend].graph_optimize(part, &mut params);
        if let Some(lookup) = &mut split.lookup {
            split.graph = Some(lookup.lead(part));
        }
    }
    kept
}

/// The assembly at work.
struct Assembler<'a> {
    settings: &'a Settings,
    graph: &'a SplitGraph,
    problem: &'a mut Problem,
    buffers: &'a mut Vec<i32>,
    /// By number: the place in the host's order. Filled when a backend has moved a node.
    place_of: Vec<u32>,
}

impl Assembler<'_> {
    fn leaf(&mut self, key: u32, backend: i8) -> Result<()> {
        if backend < 0 {
            let t = self.problem.tensor(key);
            return Err(invalid!("the leaf '{}' has no memory, is no input and is read by no node", t.name()));
        }
        self.problem.leaf(key);
        self.buffers.push(i32::from(backend));
        Ok(())
    }

    /// Copies of inputs first, so that they are in memory before everything else; then the host's leafs.
    fn leafs(&mut self) -> Result<()> {
        let (s, n_copies) = (self.graph, self.settings.n_copies);
        if n_copies > 1 {
            let of_graph = s.graph_inputs.iter().copied();
            let of_splits = s.splits.iter().flat_map(|split| split.inputs.iter().map(|i| (i.set, split.backend)));
            for (set, backend) in of_graph.chain(of_splits) {
                for c in 0..n_copies {
                    self.leaf(s.copies.get(set, c).key, backend as i8)?;
                }
            }
        }
        for &id in s.flat.leafs() {
            self.leaf(id, s.placed[id as usize].backend)?;
        }
        Ok(())
    }

    /// All nodes in the order of their evaluation.
    fn nodes(&mut self, graph: GraphRef, mut kept: Retained) -> Result<()> {
        let (s, reorders) = (self.graph, self.settings.reorders);
        for (number, split) in s.splits.iter().enumerate() {
            for input in &split.inputs {
                // The original stays until the copy has been made; the copy is in memory from there on.
                self.problem.dependency();
                self.problem.src(input.id);
                self.problem.end_node();
                self.buffers.push(input.from as i32);
                if !input.is_ahead {
                    self.copy(input.set, split.backend);
                }
            }
            for a in ahead::during(&s.ahead, number) {
                self.copy(a.set, split.backend);
            }
            if !reorders && kept.is_empty() {
                self.problem.append(&s.flat.problem, split.nodes.clone());
                let ids = &s.flat.nodes()[split.nodes.clone()];
                self.buffers.extend(ids.iter().map(|&id| i32::from(s.placed[id as usize].backend)));
                self.read_until_now(split);
                continue;
            }
            for i in split.nodes.clone() {
                let (mut id, mut place) = (s.flat.nodes()[i], i);
                if reorders {
                    let t = graph.node(i);
                    if s.ids.tensor(id) != t {
                        (id, place) = self.moved(t)?;
                    }
                }
                self.problem.node(id);
                s.flat.srcs(place).iter().for_each(|&src| self.problem.src(src));
                self.problem.end_node();
                self.buffers.push(i32::from(s.placed[id as usize].backend));
                if !kept.is_empty()
                    && let Some(list) = kept.remove(&s.ids.tensor(id))
                {
                    self.keepers(&list, split.backend)?;
                }
            }
            self.read_until_now(split);
        }
        match kept.keys().next() {
            Some(until) => Err(invalid!("a backend wants to keep memory until '{}', which is no node", until.name())),
            None => Ok(()),
        }
    }

    /// The host reads routing and input of a unit while the device computes it, if the device looks the slots up.
    fn read_until_now(&mut self, split: &Split) {
        let (Some(_), Some(unit)) = (&split.lookup, split.unit) else { return };
        let unit = &self.graph.held.units[unit].unit;
        self.problem.dependency();
        self.problem.src(unit.ids);
        unit.chain.iter().for_each(|chain| self.problem.src(chain.input));
        self.problem.end_node();
        self.buffers.push(split.backend as i32);
    }

    /// A copy gets its memory.
    fn copy(&mut self, set: u32, backend: usize) {
        self.problem.node(self.graph.copies.get(set, self.graph.cur_copy).key);
        self.problem.end_node();
        self.buffers.push(backend as i32);
    }

    fn keepers(&mut self, list: &[TensorRef], backend: usize) -> Result<()> {
        for chunk in list.chunks(GGML_MAX_SRC) {
            self.problem.dependency();
            for &t in chunk {
                let key = self.key_of(t)?;
                self.problem.src(key);
            }
            self.problem.end_node();
            self.buffers.push(backend as i32);
        }
        Ok(())
    }

    /// Number, and place in the host's order, of a node that a backend has moved.
    fn moved(&mut self, t: TensorRef) -> Result<(u32, usize)> {
        let s = self.graph;
        if self.place_of.is_empty() {
            self.place_of.resize(s.ids.len(), NONE);
            for (place, &id) in s.flat.nodes().iter().enumerate() {
                self.place_of[id as usize] = place as u32;
            }
        }
        let id = s.ids.get(t);
        let place = id.map(|id| self.place_of[id as usize]).filter(|&place| place != NONE);
        id.zip(place)
            .map(|(id, place)| (id, place as usize))
            .ok_or_else(|| invalid!("a backend put '{}', which is not of the graph, among its nodes", t.name()))
    }

    fn key_of(&self, t: TensorRef) -> Result<u32> {
        let copy = || self.graph.copies.made().find(|c| c.tensor == t).map(|c| c.key);
        let known = self.graph.ids.get(t).filter(|&id| (id as usize) < self.problem.len());
        known.or_else(copy).ok_or_else(|| invalid!("a backend wants to keep '{}', which is not of the graph", t.name()))
    }

    /// In a pipeline the copy in use may be the host's own tensor. Its number is that of its place among the copies, so
    /// that each copy keeps its address from graph to graph, whichever of them is the host's.
    fn rotate(&mut self) {
        let (s, n_copies) = (self.graph, self.settings.n_copies);
        let mut map: Vec<u32> = (0..self.problem.len() as u32).collect();
        for &(set, _) in &s.graph_inputs {
            let keys: Vec<u32> = (0..n_copies).map(|c| s.copies.get(set, c).key).collect();
            let mut numbers = keys.clone();
            numbers.sort_unstable();
            for (key, number) in std::iter::zip(keys, numbers) {
                map[key as usize] = number;
            }
        }
        self.problem.renumber(&map);
    }
}

impl SplitGraph {
    /// Lets backends reorder their splits and describes the whole for the allocator: fills `problem` and `buffers`. A
    /// graph without copies, in the host's order, is described already (`is_plain`).
    pub fn assemble(&mut self, graph: GraphRef, settings: &Settings) -> Result<()> {
        let n_copies = settings.n_copies;
        let kept = optimize(graph, &mut self.splits, &settings.backends);
        if settings.reorders {
            self.reordered.clear();
            self.reordered.extend(graph.nodes());
            self.kept.clone_from(&kept);
        }
        if n_copies > 1 {
            // Their flags have changed since they were looked at.
            for c in self.copies.originals() {
                self.flat.problem.refresh(c.key);
                if self.flat.base(c.key) != NONE {
                    self.flat.problem.refresh(self.flat.base(c.key));
                }
            }
        }
        let (mut problem, mut buffers) = (std::mem::take(&mut self.problem), std::mem::take(&mut self.buffers));
        buffers.clear();
        self.is_plain = n_copies == 1 && !settings.reorders && self.splits.iter().all(|s| s.inputs.is_empty());
        let n_keepers: usize = kept.values().map(|list| list.len().div_ceil(GGML_MAX_SRC)).sum();
        let result = if self.is_plain {
            self.plain_buffers(&mut buffers)
        } else {
            problem.start_from(&self.flat.problem);
            self.copies.made().for_each(|c| problem.add_tensor(c.tensor));
            let (problem, buffers) = (&mut problem, &mut buffers);
            let mut assembler = Assembler { settings, graph: self, problem, buffers, place_of: Vec::new() };
            let result = assembler.leafs().and_then(|()| assembler.nodes(graph, kept));
            if n_copies > 1 && result.is_ok() {
                assembler.rotate();
            }
            result
        };
        let n_inputs = self.graph_inputs.len() + self.splits.iter().map(|s| s.inputs.len()).sum::<usize>();
        self.size = graph.n_nodes().max(graph.n_leafs()) + n_inputs * 2 * n_copies + n_keepers;
        self.problem = problem;
        self.buffers = buffers;
        result
    }

    /// Lets backends reorder the splits of a graph that was recognised. Returns `false` if the order of the nodes or
    /// the tensors to keep differ from before; the nodes are then in the host's order again.
    pub fn reorder_again(&mut self, graph: GraphRef, settings: &Settings) -> bool {
        let uids: Vec<_> = self.splits.iter().map(|s| s.graph.as_ref().map_or(0, |g| g.uid)).collect();
        let kept = optimize(graph, &mut self.splits, &settings.backends);
        for (split, uid) in std::iter::zip(&mut self.splits, uids) {
            // The same nodes at the same addresses: what a backend knows of them still holds.
            split.graph.iter_mut().for_each(|g| g.uid = uid);
        }
        let as_before = !settings.reorders || kept == self.kept && graph.nodes().eq(self.reordered.iter().copied());
        if !as_before {
            for (i, &t) in self.ids.tensors()[graph.n_leafs()..][..graph.n_nodes()].iter().enumerate() {
                graph.set_node(i, t);
            }
        }
        as_before
    }

    /// The backends of leafs and nodes, for a graph without copies.
    fn plain_buffers(&self, buffers: &mut Vec<i32>) -> Result<()> {
        for &id in self.flat.leafs() {
            let backend = self.placed[id as usize].backend;
            if backend < 0 {
                let t = self.ids.tensor(id);
                return Err(invalid!("the leaf '{}' has no memory, is no input and is read by no node", t.name()));
            }
            buffers.push(i32::from(backend));
        }
        buffers.extend(self.flat.nodes().iter().map(|&id| i32::from(self.placed[id as usize].backend)));
        Ok(())
    }
}
