//! A graph as it was: the structs of all its tensors, and what matters of the buffers that they are in.

use super::image::{Change, Images};
use crate::error::Result;
use crate::graph::ids::TensorIds;
use crate::tensor::TensorRef;
use std::ptr;

/// What matters of a buffer. It is compared in addition to the buffer's address, because a new buffer may have the
/// address of a freed one.
pub trait BufferState: PartialEq {
    /// Of the buffer of `t`, which is in one.
    fn of(t: TensorRef) -> Self;
}

/// A graph as it was when the snapshot was taken.
///
/// Each of `tensors` is one of `heads`, or a source or view source of an earlier one. So those of a later graph with
/// the same heads are valid as far as all before them refer to the same tensors as they did. That is the order in which
/// they are compared, and no other stored handle is used.
pub struct Snapshot<B> {
    /// Tensors that the graph names: its nodes, or its leafs and nodes.
    heads: Vec<TensorRef>,
    /// The heads and what they read: each tensor once.
    tensors: Vec<TensorRef>,
    images: Images,
    /// A tensor of each buffer, and the state of the buffer.
    buffers: Vec<(TensorRef, B)>,
}

impl<B> Default for Snapshot<B> {
    fn default() -> Self {
        Self { heads: Vec::new(), tensors: Vec::new(), images: Images::default(), buffers: Vec::new() }
    }
}

/// A node, its sources, and what these are views of. Each comes after a tensor that refers to it.
pub fn read_by(node: TensorRef) -> impl Iterator<Item = TensorRef> {
    let all = std::iter::once(node).chain(node.srcs().map(|(_, s)| s));
    all.flat_map(|t| std::iter::once(t).chain(t.view_src()))
}

impl<B: BufferState> Snapshot<B> {
    /// A snapshot of the nodes of a graph and of all that they read, and the numbers of these tensors in it.
    pub fn of_nodes(nodes: impl Iterator<Item = TensorRef>) -> (Self, TensorIds) {
        let mut this = Self { heads: nodes.collect(), ..Self::default() };
        let mut ids = TensorIds::default();
        for t in this.heads.iter().flat_map(|&node| read_by(node)) {
            ids.insert(t);
        }
        this.tensors.extend_from_slice(ids.tensors());
        this.take_structs();
        (this, ids)
    }

    /// Takes a snapshot of `tensors` in the place of the one there is. `heads` are those that the graph names.
    ///
    /// # Safety
    /// Each of `tensors` is one of `heads`, or a source or view source of an earlier one.
    pub unsafe fn take(&mut self, heads: impl Iterator<Item = TensorRef>, tensors: &[TensorRef]) {
        self.heads.clear();
        self.heads.extend(heads);
        self.tensors.clear();
        self.tensors.extend_from_slice(tensors);
        self.take_structs();
    }

    /// Takes images of the tensors, which the caller has just named, and the states of their buffers.
    fn take_structs(&mut self) {
        // SAFETY: the handles were just read from a **valid graph**, so its tensors are valid.
        unsafe { self.images.take(&self.tensors) };
        self.buffers.clear();
        let mut last = ptr::null_mut();
        for &t in &self.tensors {
            let buffer = t.buffer_raw();
            if buffer.is_null() || buffer == last {
                continue;
            }
            last = buffer;
            if self.buffers.iter().all(|(other, _)| other.buffer_raw() != buffer) {
                self.buffers.push((t, B::of(t)));
            }
        }
    }

    /// Whether a graph with these heads is, byte by byte, as it was: with all names, and with what hosts have stored in
    /// tensors for themselves.
    pub fn is_exactly(&self, heads: impl Iterator<Item = TensorRef>) -> bool {
        heads.eq(self.heads.iter().copied())
            // SAFETY: the heads are valid, and the others as this type says.
            && unsafe { self.images.are_of(&self.tensors) }
            && self.has_same_buffers()
    }

    /// Whether a graph with these heads is as it was. Names and `extra` do not count.
    pub fn is_of(&self, heads: impl Iterator<Item = TensorRef>) -> bool {
        self.changes(heads).0 == Change::None
    }

    /// How a graph with these heads differs from what it was, and the numbers of the tensors that have changed. Names
    /// and `extra` do not count. Other heads, and other states of buffers, are a change of links.
    pub(super) fn changes(&self, heads: impl Iterator<Item = TensorRef>) -> (Change, Vec<u32>) {
        let mut changed = Vec::new();
        if !heads.eq(self.heads.iter().copied()) {
            return (Change::Links, changed);
        }
        // SAFETY: the heads are valid, and the others as this type says.
        let change = unsafe { self.images.changes(&self.tensors, &mut changed) };
        if change == Change::Links || !self.has_same_buffers() {
            return (Change::Links, changed);
        }
        (change, changed)
    }

    /// Whether the buffers are as they were. Only for a graph whose tensors were all found to be in the same buffers as
    /// before: others may have been freed.
    fn has_same_buffers(&self) -> bool {
        self.buffers.iter().all(|(t, state)| B::of(*t) == *state)
    }

    /// Makes this the snapshot of a graph with these heads, if only values of a few tensors have changed. Unless none
    /// has, `accepts` gets all tensors and the numbers of those that have changed. Returns false if `accepts` does, if
    /// the graph is another one, or if a new snapshot is better. The snapshot is of no use then, nor after an error.
    ///
    /// # Errors
    /// That of `accepts`.
    pub fn follow(
        &mut self,
        heads: impl Iterator<Item = TensorRef>,
        accepts: impl FnOnce(&[TensorRef], &[u32]) -> Result<bool>,
    ) -> Result<bool> {
        let (change, changed) = self.changes(heads);
        match change {
            Change::None => return Ok(true),
            Change::Links => return Ok(false),
            Change::Values => {}
        }
        if !accepts(&self.tensors, &changed)? {
            return Ok(false);
        }
        Ok(changed.into_iter().map(|i| i as usize).all(|i| {
            // SAFETY: `changes` has compared all tensors, so they are valid.
            unsafe { self.images.renew(i, self.tensors[i]) }
        }))
    }
}
