//! The current graph: its stage, the placements that the host requested, and the copy of the pipeline that it uses.
#![forbid(unsafe_code)]

use crate::graph::ids::TensorIds;
use crate::tensor::TensorRef;
use std::cell::Cell;

/// The stage of the current graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// There is none since the last reset. What the cache holds belongs to earlier graphs, which may come again.
    Reset,
    /// It is split, or could not be.
    Split,
    /// It has its memory.
    Allocated,
}

/// What the host places between a reset and the first split.
#[derive(Default)]
pub struct Requests {
    list: Vec<(TensorRef, i8)>,
    ids: TensorIds,
}

impl Requests {
    /// Requests a backend for a tensor; the last request for a tensor counts.
    pub fn set(&mut self, t: TensorRef, backend: i8) {
        let i = self.ids.insert(t) as usize;
        match self.list.get_mut(i) {
            Some(known) => known.1 = backend,
            None => self.list.push((t, backend)),
        }
    }

    /// The backend that was requested.
    pub fn get(&self, t: TensorRef) -> Option<i8> {
        self.ids.get(t).map(|i| self.list[i as usize].1)
    }

    /// All requests in the order in which they were made.
    pub fn list(&self) -> &[(TensorRef, i8)] {
        &self.list
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.list.clear();
        self.ids.clear();
    }
}

/// The current graph.
pub struct Progress {
    /// How far it is.
    pub stage: Stage,
    /// The placements that the host requested.
    pub requests: Requests,
    /// Which copy of the pipeline it uses.
    pub copy: usize,
    next_copy: Cell<usize>,
    n_copies: usize,
    /// Its tensors, as [`super::split_graph::SplitGraph::size`] counts them, and those of the graph before.
    size: usize,
    size_before: usize,
}

impl Progress {
    /// No graph yet.
    pub fn new(n_copies: usize) -> Self {
        Self {
            stage: Stage::Reset,
            requests: Requests::default(),
            copy: 0,
            next_copy: Cell::new(0),
            n_copies,
            size: 0,
            size_before: 0,
        }
    }

    /// Forgets the graph and the requests of the host.
    pub fn reset(&mut self) {
        self.stage = Stage::Reset;
        self.requests.clear();
    }

    /// Moves on to the next copy of the pipeline.
    pub fn advance(&mut self) {
        self.copy = self.next_copy.get();
        self.next_copy.set((self.copy + 1) % self.n_copies);
    }

    /// The next graph uses the first copy again.
    pub fn rewind(&self) {
        self.next_copy.set(0);
    }

    /// Notes the size of a graph that was split.
    pub fn set_size(&mut self, size: usize) {
        self.size_before = std::mem::replace(&mut self.size, size);
    }

    /// Tensors of the graph.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether it has another number of tensors than the graph before.
    pub fn is_resized(&self) -> bool {
        self.size != self.size_before
    }
}
