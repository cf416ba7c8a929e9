//! The first part of pass 4: writers, and the roots that have no memory yet, are placed where both can be.
#![forbid(unsafe_code)]

use super::assign::Assigner;
use super::cause::Cause;
use super::flat::is_view_op;
use super::in_flight::{self, Mask};
use super::writers::Writer;
use crate::alloc::Traits;
use crate::error::{Error, Result};
use crate::tensor::names;

/// Where the memory of a root is.
#[derive(Clone, Copy)]
enum Home {
    /// In a buffer that these backends can use.
    Buffer(Mask),
    /// Where this backend computes. `fixed`: the host decided it.
    Backend { at: usize, fixed: bool },
}

impl Assigner<'_, '_> {
    /// Places each root together with its writers.
    pub(super) fn pass_4_writers(&mut self) -> Result<()> {
        let writers = self.writers;
        writers.by_root().try_for_each(|group| self.unite(group))
    }

    fn writer(&self, w: Writer) -> u32 {
        self.flat.nodes()[w.place as usize]
    }

    fn backend(&self, id: u32) -> Option<usize> {
        usize::try_from(self.placed[id as usize].backend).ok()
    }

    /// Where the memory of a root with these writers is or, if that is open, where its first writer is.
    fn home(&mut self, root: u32, first: u32) -> Option<Home> {
        let fact = self.flat.problem.fact(root);
        if let Some(buffer) = fact.buffer() {
            return Some(Home::Buffer(self.rules.readers(buffer)));
        }
        if fact.traits.has(Traits::EXTERNAL) {
            // Memory of the host without a buffer.
            return Some(Home::Backend { at: self.last(), fixed: true });
        }
        let fixed = self.placed[root as usize].cause == Cause::USER;
        let is_leaf = fact.traits.has(Traits::NO_OP) || is_view_op(fact.op.into());
        let at = match self.backend(root) {
            None if is_leaf => self.backend(first),
            at => at,
        };
        at.map(|at| Home::Backend { at, fixed })
    }

    fn users(&mut self, home: Home) -> Mask {
        match home {
            Home::Buffer(users) => users,
            Home::Backend { at, .. } => self.rules.readers_of(at),
        }
    }

    /// Places a root and its writers so that all of them can use its memory, unless they can already.
    fn unite(&mut self, group: &[Writer]) -> Result<()> {
        let root = group[0].root;
        // A node that no backend computes is an error of its own.
        if group.iter().any(|&w| !self.is_set(self.writer(w))) {
            return Ok(());
        }
        let Some(home) = self.home(root, self.writer(group[0])) else { return Ok(()) };
        let users = self.users(home);
        let can_use = |this: &Self, w: Writer| this.backend(this.writer(w)).is_some_and(|b| users >> b & 1 != 0);
        let Some(stray) = group.iter().copied().find(|&w| !can_use(self, w)) else {
            if let Home::Backend { at, .. } = home
                && !self.is_set(root)
            {
                self.place(root, at, Cause::READER);
            }
            return Ok(());
        };
        let mut seats = Vec::with_capacity(group.len());
        match home {
            Home::Buffer(users) => {
                if self.seats(group, None, users, &mut seats) {
                    self.take(&seats);
                    return Ok(());
                }
            }
            Home::Backend { at, fixed } => {
                let others = (0..self.rules.backends.len()).filter(|&b| b != at && !fixed);
                for b in std::iter::once(at).chain(others) {
                    let users = self.rules.readers_of(b);
                    let holds_root = b == at || self.rules.computes(b, root);
                    if holds_root && self.seats(group, Some(b), users, &mut seats) {
                        self.take(&seats);
                        if self.backend(root) != Some(b) {
                            self.place(root, b, Cause::WRITTEN);
                        }
                        return Ok(());
                    }
                }
            }
        }
        Err(self.nowhere(root, home, self.writer(stray)))
    }

    /// Finds a backend for each writer, among those that can use the memory. A writer that is on one of them already
    /// stays there; `at` comes before others if it computes the node. Returns false if no backend is found for a
    /// writer, or if the host placed one where the memory cannot be used.
    fn seats(&mut self, group: &[Writer], at: Option<usize>, users: Mask, seats: &mut Vec<(u32, usize)>) -> bool {
        seats.clear();
        for &w in group {
            let id = self.writer(w);
            if self.backend(id).is_some_and(|b| users >> b & 1 != 0) {
                continue;
            }
            if self.placed[id as usize].cause == Cause::USER {
                return false;
            }
            let mut candidates = at.into_iter().filter(|&b| users >> b & 1 != 0).chain(in_flight::members(users));
            match candidates.find(|&b| self.rules.computes(b, id)) {
                Some(b) => seats.push((id, b)),
                None => return false,
            }
        }
        true
    }

    fn take(&mut self, seats: &[(u32, usize)]) {
        seats.iter().for_each(|&(id, b)| self.place(id, b, Cause::WRITES));
    }

    /// Whether the host has placed a view where its base cannot be read, and nodes write into its memory. A copy of it
    /// could be older than what they write.
    pub(super) fn is_misplaced_view(&mut self, id: u32) -> bool {
        let (placed, base) = (self.placed[id as usize], self.flat.base(id));
        matches!(placed.cause, Cause::USER | Cause::INPUT)
            && is_view_op(self.flat.problem.fact(id).op.into())
            && self.is_set(base)
            && self.writers.write(self.flat, id)
            && !self.reads(placed.backend as usize, base)
    }

    fn nowhere(&self, root: u32, home: Home, writer: u32) -> Error {
        let (t, base) = (self.ids.tensor(writer), self.ids.tensor(root));
        let name = |b: usize| self.rules.backends[b].name();
        let at = match home {
            Home::Buffer(_) => {
                base.buffer().map_or_else(String::new, |b| format!("a buffer of type {}", b.buft().name()))
            }
            Home::Backend { at, .. } => name(at),
        };
        Error::Unsupported(format!(
            "'{}' ({}) is on {} and writes into the memory of '{}' ({}), which is on {at}; no backend of the scheduler can have both",
            t.name(),
            names::op(t.op()),
            self.backend(writer).map_or_else(String::new, name),
            base.name(),
            names::op(base.op()),
        ))
    }
}
