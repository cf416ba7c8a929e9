//! What each backend can compute and read. Answers of the backends are remembered for one split.

use super::cause::Placement;
use super::flat::Flat;
use crate::alloc::{NONE, TensorIds};
use crate::backend::{BackendRef, BufferTypeRef};
use crate::tensor::TensorRef;

/// Answers to one question of up to 16 backends: a bit each for "asked" and "yes".
#[derive(Clone, Copy, Default)]
pub struct Answers {
    asked: u16,
    yes: u16,
}

impl Answers {
    fn get(&mut self, backend: usize, ask: impl FnOnce() -> bool) -> bool {
        let bit = 1u16 << backend;
        if self.asked & bit == 0 {
            self.asked |= bit;
            self.yes |= if ask() { bit } else { 0 };
        }
        self.yes & bit != 0
    }
}

/// The backends, and what they answered.
pub struct Rules<'a> {
    /// In the order of their priority.
    pub backends: &'a [BackendRef],
    /// The buffer type that each computes in.
    pub bufts: &'a [BufferTypeRef],
    ids: &'a TensorIds,
    ops: &'a mut Vec<Answers>,
    types: Vec<(BufferTypeRef, Answers)>,
}

impl<'a> Rules<'a> {
    /// Nothing asked yet. `ops` is scratch.
    pub fn new(
        backends: &'a [BackendRef],
        bufts: &'a [BufferTypeRef],
        ids: &'a TensorIds,
        ops: &'a mut Vec<Answers>,
    ) -> Self {
        ops.clear();
        ops.resize(ids.len(), Answers::default());
        Self { backends, bufts, ids, ops, types: Vec::new() }
    }

    /// The tensor with a number.
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.ids.tensor(id)
    }

    /// Whether backend `b` can compute the tensor.
    #[inline]
    pub fn computes(&mut self, b: usize, id: u32) -> bool {
        let (backend, t) = (self.backends[b], self.ids.tensor(id));
        self.ops[id as usize].get(b, || backend.supports_op(t))
    }

    /// Whether backend `b` can use memory of a type.
    pub fn reads(&mut self, b: usize, buft: BufferTypeRef) -> bool {
        let backend = self.backends[b];
        let ask = || backend.supports_buft(buft);
        match self.types.iter_mut().find(|(t, _)| *t == buft) {
            Some((_, answers)) => answers.get(b, ask),
            None => {
                let mut answers = Answers::default();
                let yes = answers.get(b, ask);
                self.types.push((buft, answers));
                yes
            }
        }
    }

    /// Whether backend `b` can use the tensor where it is, or where it will be.
    pub fn reads_tensor(&mut self, b: usize, id: u32, flat: &Flat, placed: &[Placement]) -> bool {
        let buft = match flat.problem.data_buffer(id) {
            Some(buffer) => Some(buffer.buft()),
            None => {
                let mut of = placed[id as usize];
                if !of.is_set() && flat.base(id) != NONE {
                    of = placed[flat.base(id) as usize];
                }
                of.is_set().then(|| self.bufts[of.backend as usize])
            }
        };
        buft.is_some_and(|buft| self.reads(b, buft))
    }
}
