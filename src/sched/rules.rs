//! What each backend can compute and read. Answers of the backends are remembered for one split.

use super::MAX_BACKENDS;
use super::cause::Placement;
use super::flat::Flat;
use super::order::Mask;
use crate::alloc::{NONE, TensorIds};
use crate::backend::{BackendRef, BufferRef, BufferTypeRef};
use crate::tensor::TensorRef;

/// Answers to one question of up to 16 backends: a bit each for "asked" and "yes".
#[derive(Clone, Copy, Default)]
pub struct Answers {
    asked: u16,
    yes: u16,
}

impl Answers {
    #[inline]
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
    /// Types of buffers met, with the backends that can use their memory.
    types: Vec<(BufferTypeRef, Mask)>,
    /// The buffer met last, and the same.
    last: Option<(BufferRef, Mask)>,
    /// By backend: who can use the memory it computes in.
    guests: [Option<Mask>; MAX_BACKENDS],
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
        Self { backends, bufts, ids, ops, types: Vec::new(), last: None, guests: [None; MAX_BACKENDS] }
    }

    /// The tensor with a number.
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.ids.tensor(id)
    }

    /// Whether backend `b` can compute the tensor.
    #[inline]
    pub fn computes(&mut self, b: usize, id: u32) -> bool {
        let (backends, ids) = (self.backends, self.ids);
        self.ops[id as usize].get(b, || backends[b].supports_op(ids.tensor(id)))
    }

    /// The backends that can use memory of a type, a bit each.
    fn readers_of_type(&mut self, buft: BufferTypeRef) -> Mask {
        if let Some(&(_, mask)) = self.types.iter().find(|(t, _)| *t == buft) {
            return mask;
        }
        let ask = |mask, (b, backend): (usize, &BackendRef)| mask | Mask::from(backend.supports_buft(buft)) << b;
        let mask = self.backends.iter().enumerate().fold(0, ask);
        self.types.push((buft, mask));
        mask
    }

    /// The backends that can use a buffer's memory, a bit each.
    #[inline]
    pub fn readers(&mut self, buffer: BufferRef) -> Mask {
        match self.last {
            Some((last, mask)) if last == buffer => mask,
            _ => {
                let mask = self.readers_of_type(buffer.buft());
                self.last = Some((buffer, mask));
                mask
            }
        }
    }

    /// The backends that can use memory that backend `b` computes in.
    #[inline]
    fn guests(&mut self, b: usize) -> Mask {
        if let Some(mask) = self.guests[b] {
            return mask;
        }
        let mask = self.readers_of_type(self.bufts[b]);
        self.guests[b] = Some(mask);
        mask
    }

    /// Whether backend `b` can use the tensor where it is, or where it will be.
    pub fn reads_tensor(&mut self, b: usize, id: u32, flat: &Flat, placed: &[Placement]) -> bool {
        let readers = match flat.problem.data_buffer(id) {
            Some(buffer) => self.readers(buffer),
            None => {
                let mut of = placed[id as usize];
                if !of.is_set() && flat.base(id) != NONE {
                    of = placed[flat.base(id) as usize];
                }
                usize::try_from(of.backend).map_or(0, |of| self.guests(of))
            }
        };
        readers >> b & 1 != 0
    }
}
