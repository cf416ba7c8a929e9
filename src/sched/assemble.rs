//! The split graph as a problem for the allocator: the nodes in the order in which the backends will compute them, copies at
//! the start of the stretch that reads them, and what has to stay in memory longer than its readers.

use super::scheduler::Scheduler;
use crate::abi::backend_impl::ggml_backend_graph_optimize_params;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_tensor};
use crate::alloc::{NONE, Problem};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::invalid;
use crate::sched::split::Split;
use crate::tensor::TensorRef;
use std::collections::HashMap;
use std::ffi::c_void;

/// Wishes of backends: by node, the tensors that must live until it has been computed.
type Kept = HashMap<TensorRef, Vec<TensorRef>>;

/// `add_alloc_dep` for backends.
///
/// # Safety
/// `user_data` is the `Kept` of the call to `graph_optimize` under way; the tensors are valid.
unsafe extern "C" fn keep(user_data: *mut c_void, tensor: *mut ggml_tensor, until: *mut ggml_tensor) {
    // SAFETY: by the contract of the function; nobody else uses the map during the call.
    let (kept, tensor, until) = unsafe {
        let Some(kept) = user_data.cast::<Kept>().as_mut() else { return };
        (kept, TensorRef::from_ptr(tensor), TensorRef::from_ptr(until))
    };
    if let (Some(tensor), Some(until)) = (tensor, until) {
        let list = kept.entry(until).or_default();
        if !list.contains(&tensor) {
            list.push(tensor);
        }
    }
}

/// Asks each backend to reorder its stretch, and collects what must live longer.
fn optimize(graph: GraphRef, splits: &mut [Split], backends: &[crate::backend::BackendRef]) -> Kept {
    let mut kept = Kept::new();
    for split in splits {
        let stretch = split.graph.insert(graph.slice(split.nodes.clone()));
        // SAFETY: a slice of a valid graph, in its place for the call.
        let Some(stretch) = (unsafe { GraphRef::from_ptr(stretch) }) else { continue };
        let user_data = (&raw mut kept).cast();
        let mut params = ggml_backend_graph_optimize_params { add_alloc_dep: Some(keep), user_data };
        backends[split.backend].graph_optimize(stretch, &mut params);
    }
    kept
}

/// A node of the assembled graph.
#[derive(Clone, Copy)]
enum Node {
    /// Keeps the original of a copy alive until the copy has been made.
    InputKeeper(u32),
    /// A copy, to be in memory from here.
    InputCopy,
    /// The node at a place of the host's graph.
    Own(usize),
    /// Keeps what a backend wants to keep: a range of `Assembler::wishes`.
    Keeper(usize, usize),
}

/// The assembly at work.
struct Assembler<'a> {
    sched: &'a Scheduler,
    problem: &'a mut Problem,
    buffers: &'a mut Vec<i32>,
    /// By key: the number in the problem.
    known: Vec<u32>,
    nodes: Vec<Node>,
    /// Keys of tensors that backends want to keep.
    wishes: Vec<u32>,
    /// By number: the place in the host's order. Filled when a backend has moved a node.
    place_of: Vec<u32>,
}

impl Assembler<'_> {
    fn leaf(&mut self, key: u32, t: TensorRef, backend: i8) -> Result<()> {
        if backend < 0 {
            return Err(invalid!("the leaf '{}' has no memory, is no input and is read by no node", t.name()));
        }
        self.problem.leaf(t, &mut self.known[key as usize]);
        self.buffers.push(i32::from(backend));
        Ok(())
    }

    /// Copies of inputs first, so that they are in memory before everything else; then the host's leafs.
    fn leafs(&mut self) -> Result<()> {
        let s = self.sched;
        if s.n_copies > 1 {
            let of_graph = s.graph_inputs.iter().copied();
            let of_splits = s.splits.iter().flat_map(|split| split.inputs.iter().map(|i| (i.set, split.backend)));
            for (set, backend) in of_graph.chain(of_splits) {
                for c in 0..s.n_copies {
                    let copy = s.copies.get(set, c);
                    self.leaf(copy.key, copy.tensor, backend as i8)?;
                }
            }
        }
        for &id in &s.flat.leafs {
            self.leaf(id, s.ids.tensor(id), s.placed[id as usize].backend)?;
        }
        Ok(())
    }

    /// All nodes in order; then, in a second round, their sources.
    fn nodes(&mut self, graph: GraphRef, mut kept: Kept) -> Result<()> {
        let s = self.sched;
        for split in &s.splits {
            for input in &split.inputs {
                self.problem.dependency();
                self.buffers.push(input.from as i32);
                self.nodes.push(Node::InputKeeper(input.id));
                let copy = s.copies.get(input.set, s.cur_copy);
                self.problem.node(copy.tensor, &mut self.known[copy.key as usize]);
                self.buffers.push(split.backend as i32);
                self.nodes.push(Node::InputCopy);
            }
            for i in split.nodes.clone() {
                let t = graph.node(i);
                let id = s.flat.nodes[i];
                let (id, place) = if s.ids.tensor(id) == t { (id, i) } else { self.moved(t)? };
                self.problem.node(t, &mut self.known[id as usize]);
                self.buffers.push(i32::from(s.placed[id as usize].backend));
                self.nodes.push(Node::Own(place));
                if !kept.is_empty()
                    && let Some(list) = kept.remove(&t)
                {
                    self.keepers(&list, split.backend)?;
                }
            }
        }
        match kept.keys().next() {
            Some(until) => Err(invalid!("a backend wants to keep memory until '{}', which is no node", until.name())),
            None => Ok(()),
        }
    }

    fn keepers(&mut self, list: &[TensorRef], backend: usize) -> Result<()> {
        for chunk in list.chunks(GGML_MAX_SRC) {
            let start = self.wishes.len();
            for &t in chunk {
                let key = self.key_of(t)?;
                self.wishes.push(key);
            }
            self.problem.dependency();
            self.buffers.push(backend as i32);
            self.nodes.push(Node::Keeper(start, self.wishes.len()));
        }
        Ok(())
    }

    /// Number, and place in the host's order, of a node that a backend has moved.
    fn moved(&mut self, t: TensorRef) -> Result<(u32, usize)> {
        let s = self.sched;
        if self.place_of.is_empty() {
            self.place_of.resize(s.ids.len(), NONE);
            for (place, &id) in s.flat.nodes.iter().enumerate() {
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
        let copy = || self.sched.copies.made().find(|c| c.tensor == t).map(|c| c.key);
        self.sched
            .ids
            .get(t)
            .or_else(copy)
            .ok_or_else(|| invalid!("a backend wants to keep '{}', which is not of the graph", t.name()))
    }

    fn src(&mut self, key: u32) {
        // Copies that are read are nodes, so they have their number; all others can be found by theirs.
        if (key as usize) < self.sched.ids.len() {
            self.problem.other(self.sched.ids.tensor(key), &mut self.known[key as usize]);
        }
        self.problem.src(self.known[key as usize]);
    }

    fn edges(&mut self) {
        let s = self.sched;
        for n in std::mem::take(&mut self.nodes) {
            match n {
                Node::InputKeeper(id) => self.src(id),
                Node::InputCopy => {}
                Node::Own(place) => s.flat.edges(place).iter().for_each(|e| self.src(e.id)),
                Node::Keeper(start, end) => (start..end).for_each(|i| self.src(self.wishes[i])),
            }
            self.problem.end_node();
        }
    }

    fn bases(&mut self) {
        let s = self.sched;
        for id in 0..s.ids.len() as u32 {
            let base = s.flat.base(id);
            if base != NONE && self.known[id as usize] != NONE {
                self.problem.other(s.ids.tensor(base), &mut self.known[base as usize]);
                self.problem.set_base(self.known[id as usize], self.known[base as usize]);
            }
        }
        self.problem.finish();
    }
}

impl Scheduler {
    /// Lets backends reorder their stretches and describes the whole for the allocator: fills `problem` and `buffers`.
    pub(super) fn assemble(&mut self, graph: GraphRef) -> Result<()> {
        let kept = optimize(graph, &mut self.splits, &self.backends);
        let (mut problem, mut buffers) = (std::mem::take(&mut self.problem), std::mem::take(&mut self.buffers));
        problem.clear();
        buffers.clear();
        let mut assembler = Assembler {
            sched: self,
            problem: &mut problem,
            buffers: &mut buffers,
            known: vec![NONE; self.copies.n_keys()],
            nodes: Vec::new(),
            wishes: Vec::new(),
            place_of: Vec::new(),
        };
        let result = assembler.leafs().and_then(|()| assembler.nodes(graph, kept));
        if result.is_ok() {
            assembler.edges();
            assembler.bases();
        }
        let n_keepers = assembler.wishes.len();
        self.prev_graph_size = self.graph_size;
        self.graph_size = buffers.len() + n_keepers;
        self.problem = problem;
        self.buffers = buffers;
        result
    }
}
