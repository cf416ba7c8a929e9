//! Tensors that belong to the scheduler: copies of the tensors that cross between backends. A copy keeps its address
//! while it lives. The pool records which sources of the host's graphs the copies replace, so that a graph that is
//! split again gets its own sources back.

use crate::abi::ggml::ggml_tensor;
use crate::error::Result;
use crate::invalid;
use crate::sys::memory::AlignedBlock;
use crate::tensor::TensorRef;
use std::collections::HashMap;

/// Tensors of the first block; each further block holds twice as many.
const FIRST_BLOCK: usize = 64;

/// Makes tensors that live until the next reset.
#[derive(Default)]
pub struct Arena {
    blocks: Vec<AlignedBlock>,
    used: usize,
    /// The smallest range of addresses that contains all blocks. It may contain other memory, too.
    span: std::ops::Range<usize>,
}

/// The block of a slot, and its place in there.
fn locate(slot: usize) -> (usize, usize) {
    let block = (slot / FIRST_BLOCK + 1).ilog2() as usize;
    (block, slot - FIRST_BLOCK * ((1 << block) - 1))
}

impl Arena {
    /// Forgets all tensors and keeps the memory.
    pub fn reset(&mut self) {
        self.used = 0;
    }

    /// A tensor of the same format, shape and strides as `t`, without memory, with a name.
    pub fn copy_of(&mut self, t: TensorRef, name: &[u8]) -> Result<TensorRef> {
        let (block, place) = locate(self.used);
        if block == self.blocks.len() {
            let n = FIRST_BLOCK << block;
            let new = AlignedBlock::zeroed(n * size_of::<ggml_tensor>(), 16, "copies of a scheduler")?;
            let (start, end) = (new.as_ptr() as usize, new.as_ptr() as usize + new.size());
            self.span = match self.blocks.is_empty() {
                true => start..end,
                false => self.span.start.min(start)..self.span.end.max(end),
            };
            self.blocks.push(new);
        }
        self.used += 1;
        // SAFETY: the block holds `FIRST_BLOCK << block` tensors and `place` is smaller; all-zero bytes are a valid
        // tensor.
        let copy = unsafe {
            let p = self.blocks[block].as_ptr().cast::<ggml_tensor>().add(place);
            p.write_bytes(0, 1);
            TensorRef::from_ptr(p)
        };
        let Some(copy) = copy else { return Err(invalid!("a block without memory")) };
        copy.set_dtype(t.dtype());
        copy.set_ne(t.ne());
        copy.set_nb(t.nb());
        copy.set_name(name);
        Ok(copy)
    }

    /// Whether a tensor is located in the arena's memory: it is one of the arena's tensors, or was one before a reset.
    #[inline]
    pub fn contains(&self, t: TensorRef) -> bool {
        let at = t.as_ptr() as usize;
        self.span.contains(&at)
            && self.blocks.iter().any(|b| (b.as_ptr() as usize..b.as_ptr() as usize + b.size()).contains(&at))
    }
}

/// Replaced sources that are remembered at most. Graphs that were split longer ago cannot be split again.
const MAX_REPLACED: usize = 1 << 20;

/// A source of a node in the host's graph that is replaced by a copy.
#[derive(Clone, Copy)]
pub struct Rewired {
    /// The node.
    pub node: TensorRef,
    /// Which source.
    pub slot: u8,
    /// The tensor that the node reads now.
    pub copy: TensorRef,
    /// The tensor that the host set as the source.
    pub original: TensorRef,
}

/// The copies of all graphs that are kept, each with an arena of its own, which it never loses.
#[derive(Default)]
pub struct CopyPool {
    arenas: Vec<Arena>,
    /// By node and source: the copy that replaces the source, and the original.
    replaced: HashMap<(TensorRef, u8), (TensorRef, TensorRef)>,
}

impl CopyPool {
    /// Forgets the copies of a graph, for another round.
    pub fn reset(&mut self, slot: usize) {
        if let Some(arena) = self.arenas.get_mut(slot) {
            arena.reset();
        }
        if self.replaced.len() > MAX_REPLACED {
            self.replaced.clear();
        }
    }

    /// As [`Arena::copy_of`], for the graph in a slot.
    pub fn copy_of(&mut self, slot: usize, t: TensorRef, name: &[u8]) -> Result<TensorRef> {
        if self.arenas.len() <= slot {
            self.arenas.resize_with(slot + 1, Arena::default);
        }
        self.arenas[slot].copy_of(t, name)
    }

    /// Puts a copy in the place of a source.
    pub fn rewire(&mut self, r: Rewired) {
        r.node.set_src(r.slot.into(), Some(r.copy));
        self.replaced.insert((r.node, r.slot), (r.copy, r.original));
    }

    /// Puts the original source back if `src` is a copy from this pool, and returns it. Otherwise returns `src`.
    #[inline]
    pub fn original(&self, node: TensorRef, slot: usize, src: TensorRef) -> Result<TensorRef> {
        if !self.arenas.iter().any(|arena| arena.contains(src)) {
            return Ok(src);
        }
        self.restored(node, slot, src)
    }

    #[inline(never)]
    fn restored(&self, node: TensorRef, slot: usize, src: TensorRef) -> Result<TensorRef> {
        match self.replaced.get(&(node, slot as u8)) {
            Some(&(copy, tensor)) if copy == src => {
                node.set_src(slot, Some(tensor));
                Ok(tensor)
            }
            _ => Err(invalid!("a source of '{}' is a copy from an earlier split: build the graph again", node.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_fill_blocks_of_doubling_size() {
        let mut expected = (0, 0);
        for slot in 0..1000 {
            assert_eq!(locate(slot), expected);
            expected.1 += 1;
            if expected.1 == FIRST_BLOCK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }
}
