//! Nodes that write into the memory of another tensor: operations in place, `set_rows`, `cpy`, `set`, `acc`, and all of
//! these through views. They run where that memory is.
//!
//! The *root* of a node is what its memory belongs to: the end of the chain of bases. Passes 1 to 3 place a writer like
//! any other node. If its backend cannot use the memory of the root, the root and all its writers are placed again,
//! together.
#![forbid(unsafe_code)]

use super::flat::Flat;
use crate::alloc::Traits;
use crate::graph::ids::NONE;

/// A node that writes into the memory of its root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// The number of the root.
    pub root: u32,
    /// Place of the node in the graph.
    pub place: u32,
}

/// The writers of a graph. They are the same for all graphs of one structure.
#[derive(Default)]
pub struct Writers {
    /// By root.
    list: Vec<Writer>,
}

/// What a tensor's memory belongs to: itself, unless it has a base.
fn root_of(flat: &Flat, id: u32) -> u32 {
    let bases = std::iter::successors(Some(id), |&id| Some(flat.base(id)).filter(|&base| base != NONE));
    bases.last().unwrap_or(id)
}

impl Writers {
    /// Finds those of a graph.
    pub fn find(&mut self, flat: &Flat) {
        self.list.clear();
        for &place in flat.computed() {
            let id = flat.nodes()[place as usize];
            let fact = flat.problem.fact(id);
            if fact.base() != NONE && !fact.traits.has(Traits::NO_OP) {
                self.list.push(Writer { root: root_of(flat, id), place });
            }
        }
        self.list.sort_unstable();
    }

    /// The writers of each root that has some.
    pub fn by_root(&self) -> impl Iterator<Item = &[Writer]> {
        self.list.chunk_by(|a, b| a.root == b.root)
    }

    /// The writers into the memory of a tensor.
    fn of(&self, flat: &Flat, id: u32) -> &[Writer] {
        if self.list.is_empty() {
            return &[];
        }
        let root = root_of(flat, id);
        let start = self.list.partition_point(|w| w.root < root);
        let end = self.list.partition_point(|w| w.root <= root);
        &self.list[start..end]
    }

    /// Whether a node of the graph writes into the memory of a tensor.
    pub fn write(&self, flat: &Flat, id: u32) -> bool {
        !self.of(flat, id).is_empty()
    }

    /// Whether a node between two places of the graph writes into the memory of a tensor.
    pub fn write_between(&self, flat: &Flat, id: u32, after: u32, before: u32) -> bool {
        let all = self.of(flat, id);
        let next = all.partition_point(|w| w.place <= after);
        all.get(next).is_some_and(|w| w.place < before)
    }
}
