//! What each backend can compute and read. Answers of the backends are remembered for one split.

use super::cause::Placement;
use super::flat::Flat;
use super::in_flight::{self, Mask};
use super::offload::Offload;
use super::settings::MAX_BACKENDS;
use crate::backend::{BackendRef, BufferRef, BufferTypeRef};
use crate::graph::ids::{NONE, TensorIds};
use crate::tensor::TensorRef;

/// Answers of up to 16 backends to one question, as bit masks: which backends were queried, and which said yes.
#[derive(Clone, Copy, Default)]
pub struct Answers {
    asked: u16,
    yes: u16,
}

/// The backends that can use memory of a type, a bit each.
fn users(backends: &[BackendRef], buft: BufferTypeRef) -> Mask {
    let ask = |mask, (b, backend): (usize, &BackendRef)| mask | Mask::from(backend.supports_buft(buft)) << b;
    backends.iter().enumerate().fold(0, ask)
}

/// Queries to the backends, and their answers. The same answers to the same queries lead to the same placement.
#[derive(Default)]
pub struct Known {
    /// By tensor: the backends that can compute it.
    ops: Vec<Answers>,
    /// Types of buffers met, with the backends that can use their memory.
    types: Vec<(BufferTypeRef, Mask)>,
    /// Buffers met, with their types.
    buffers: Vec<(BufferRef, BufferTypeRef)>,
    /// Queries whether a node is worth offloading: node, backend and answer; `None` where they begin to follow the
    /// order of the nodes.
    offers: Vec<Option<(u32, u8, bool)>>,
}

impl Known {
    /// Forgets everything, for a graph of `n_ids` tensors.
    pub fn clear(&mut self, n_ids: usize) {
        self.ops.clear();
        self.ops.resize(n_ids, Answers::default());
        self.types.clear();
        self.buffers.clear();
        self.offers.clear();
    }

    /// Repeats all queries, for a graph whose tensors have the same numbers and the same buffers. Returns true only if
    /// all answers are as they were.
    pub fn holds(&self, backends: &[BackendRef], ids: &TensorIds, offload: Option<&Offload>) -> bool {
        if self.buffers.len() > MOST_BUFFERS || self.ops.len() != ids.len() {
            return false;
        }
        let begin = || {
            offload.inspect(|o| o.begin());
            true
        };
        begin();
        let same = |answers: &Answers, t: TensorRef| {
            in_flight::members(answers.asked).all(|b| backends[b].supports_op(t) == (answers.yes >> b & 1 != 0))
        };
        self.buffers.iter().all(|(buffer, buft)| buffer.buft() == *buft)
            && self.types.iter().all(|&(buft, mask)| users(backends, buft) == mask)
            && self.offers.iter().all(|asked| match *asked {
                Some((id, b, answer)) => takes(backends, offload, b.into(), ids.tensor(id)) == answer,
                None => begin(),
            })
            && std::iter::zip(&self.ops, ids.tensors()).all(|(answers, &t)| same(answers, t))
    }
}

/// Whether a backend takes a node although its weights are in host memory.
fn takes(backends: &[BackendRef], offload: Option<&Offload>, b: usize, node: TensorRef) -> bool {
    let offers = || backends[b].offload_op(node);
    offload.map_or_else(offers, |offload| offload.takes(b, node, offers))
}

/// Buffers met that are remembered. With more, a graph of the same structure is placed from the start.
const MOST_BUFFERS: usize = 64;

/// The backends, and what they answered.
pub struct Rules<'a> {
    /// In the order of their priority.
    pub backends: &'a [BackendRef],
    /// The buffer type that each computes in.
    pub bufts: &'a [BufferTypeRef],
    ids: &'a TensorIds,
    known: &'a mut Known,
    /// Choices by cost, if they are made so.
    offload: Option<&'a Offload>,
    /// The buffer met last, with the backends that can use its memory.
    last: Option<(BufferRef, Mask)>,
    /// By backend: the backends that can use the memory it computes in.
    readers_of: [Option<Mask>; MAX_BACKENDS],
}

impl<'a> Rules<'a> {
    /// `known`: queries already made for this graph, with their answers.
    pub fn new(
        backends: &'a [BackendRef],
        bufts: &'a [BufferTypeRef],
        ids: &'a TensorIds,
        known: &'a mut Known,
        offload: Option<&'a Offload>,
    ) -> Self {
        offload.inspect(|o| o.begin());
        Self { backends, bufts, ids, known, offload, last: None, readers_of: [None; MAX_BACKENDS] }
    }

    /// Whether a backend takes a node from the CPU, although the node's weights are in host memory.
    pub fn offers(&mut self, b: usize, id: u32) -> bool {
        let answer = takes(self.backends, self.offload, b, self.ids.tensor(id));
        self.known.offers.push(Some((id, b as u8, answer)));
        answer
    }

    /// Queries follow the order of the nodes from now on, and no answer follows from an earlier one.
    pub fn begin_again(&mut self) {
        if let Some(offload) = self.offload {
            offload.begin();
            self.known.offers.push(None);
        }
    }

    /// The tensor with a number.
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.ids.tensor(id)
    }

    /// Whether backend `b` can compute the tensor.
    #[inline]
    pub fn computes(&mut self, b: usize, id: u32) -> bool {
        let (answers, bit) = (self.known.ops[id as usize], 1 << b);
        if answers.asked & bit != 0 { answers.yes & bit != 0 } else { self.ask(b, id) }
    }

    #[inline]
    fn ask(&mut self, b: usize, id: u32) -> bool {
        let yes = self.backends[b].supports_op(self.ids.tensor(id));
        let answers = &mut self.known.ops[id as usize];
        answers.asked |= 1 << b;
        answers.yes |= u16::from(yes) << b;
        yes
    }

    /// The backends that can use memory of a type, a bit each.
    fn readers_of_type(&mut self, buft: BufferTypeRef) -> Mask {
        if let Some(&(_, mask)) = self.known.types.iter().find(|(t, _)| *t == buft) {
            return mask;
        }
        let mask = users(self.backends, buft);
        self.known.types.push((buft, mask));
        mask
    }

    /// The backends that can use a buffer's memory, a bit each.
    #[inline]
    pub fn readers(&mut self, buffer: BufferRef) -> Mask {
        match self.last {
            Some((last, mask)) if last == buffer => mask,
            _ => {
                let buft = buffer.buft();
                let met = &mut self.known.buffers;
                if met.len() <= MOST_BUFFERS && !met.contains(&(buffer, buft)) {
                    met.push((buffer, buft));
                }
                let mask = self.readers_of_type(buft);
                self.last = Some((buffer, mask));
                mask
            }
        }
    }

    /// The backends that can use memory that backend `b` computes in.
    #[inline]
    pub fn readers_of(&mut self, b: usize) -> Mask {
        if let Some(mask) = self.readers_of[b] {
            return mask;
        }
        let mask = self.readers_of_type(self.bufts[b]);
        self.readers_of[b] = Some(mask);
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
                usize::try_from(of.backend).map_or(0, |of| self.readers_of(of))
            }
        };
        readers >> b & 1 != 0
    }
}
