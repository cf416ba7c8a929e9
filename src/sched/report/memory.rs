//! The use of compute memory: which tensors need it, and when. Derived from the addresses of the tensors, not from the
//! plan, so that it shows the actual state.

use super::view::Step;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE;
use crate::abi::ggml::ggml_tensor_flag::{GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT};
use crate::backend::{BufferRef, BufferTypeRef};
use crate::tensor::TensorRef;
use std::collections::HashMap;

/// A tensor's stay in a buffer.
pub(super) struct Stay {
    pub tensor: TensorRef,
    /// First and last step that need it.
    pub from: usize,
    pub to: usize,
    pub chunk: usize,
    pub offset: usize,
    pub bytes: usize,
    /// It took over the memory of a source.
    pub over: bool,
}

/// Compute memory of one type.
pub(super) struct BufferUse {
    pub buft: BufferTypeRef,
    /// Bytes of each buffer.
    pub chunks: Vec<usize>,
    /// Bytes of the buffers up to the last one that the graph uses.
    pub used: usize,
    /// Most bytes in use at one step: no plan can do with less.
    pub lower_bound: usize,
    pub blocks: Vec<Stay>,
}

fn root(t: TensorRef) -> TensorRef {
    std::iter::successors(Some(t), |t| t.view_src()).last().unwrap_or(t)
}

/// Bytes up to the next multiple of an alignment. Both come from a backend, which may answer with any number.
fn padded(bytes: usize, alignment: usize) -> usize {
    bytes.checked_next_multiple_of(alignment.max(1)).unwrap_or(usize::MAX)
}

/// The compute buffer that contains a tensor.
fn compute_buffer(t: TensorRef) -> Option<BufferRef> {
    t.buffer().filter(|b| !t.data().is_null() && b.usage_raw() == GGML_BACKEND_BUFFER_USAGE_COMPUTE as i32)
}

/// First and last step that need each tensor; views count for what they are views of. `lasting`: tensors, such as
/// inputs, that are in memory from the start.
fn lives(steps: &[Step], lasting: &[TensorRef]) -> (Vec<TensorRef>, HashMap<TensorRef, (usize, usize)>) {
    let end = steps.len().saturating_sub(1);
    let mut order = Vec::new();
    let mut lives: HashMap<TensorRef, (usize, usize)> = HashMap::new();
    let mut read: HashMap<TensorRef, usize> = HashMap::new();
    let mut born = |t: TensorRef, at: usize| {
        lives.entry(t).or_insert_with(|| {
            order.push(t);
            (at, end)
        });
    };
    lasting.iter().for_each(|&t| born(root(t), 0));
    for (at, step) in steps.iter().enumerate() {
        for &src in &step.reads {
            let src = root(src);
            born(src, if src.has_flag(GGML_TENSOR_FLAG_INPUT) { 0 } else { at });
            read.insert(src, at);
        }
        let t = root(step.tensor);
        born(t, if t.has_flag(GGML_TENSOR_FLAG_INPUT) { 0 } else { at });
    }
    for (t, last) in read {
        if let Some(life) = lives.get_mut(&t).filter(|_| !t.has_flag(GGML_TENSOR_FLAG_OUTPUT)) {
            life.1 = last;
        }
    }
    (order, lives)
}

/// The compute memory of a graph whose steps run in this order, by buffer type.
pub(super) fn survey(steps: &[Step], lasting: &[TensorRef]) -> Vec<BufferUse> {
    let (order, mut lives) = lives(steps, lasting);
    // If a result has the address of a source, the lifetime of the source ends one step earlier.
    let mut over = std::collections::HashSet::new();
    for (at, step) in steps.iter().enumerate() {
        let t = step.tensor;
        if t.view_src().is_some() {
            continue;
        }
        for src in step.reads.iter().map(|&s| root(s)) {
            if src != t && src.data() == t.data() && src.buffer() == t.buffer() && !t.data().is_null() {
                over.insert(t);
                if let Some(life) = lives.get_mut(&src).filter(|l| l.1 == at && l.0 < at) {
                    life.1 = at - 1;
                }
            }
        }
    }
    let mut all: Vec<BufferUse> = Vec::new();
    let mut buffers: Vec<Vec<BufferRef>> = Vec::new();
    for t in order {
        let Some(buffer) = compute_buffer(t) else { continue };
        let buft = buffer.buft();
        let m = all.iter().position(|m| m.buft == buft).unwrap_or_else(|| {
            all.push(BufferUse { buft, chunks: Vec::new(), used: 0, lower_bound: 0, blocks: Vec::new() });
            buffers.push(Vec::new());
            all.len() - 1
        });
        let chunk = buffers[m].iter().position(|&b| b == buffer).unwrap_or_else(|| {
            buffers[m].push(buffer);
            all[m].chunks.push(buffer.size());
            buffers[m].len() - 1
        });
        let offset = (t.data() as usize).wrapping_sub(buffer.base() as usize);
        let (from, to) = lives[&t];
        let bytes = padded(buft.alloc_size(t), buft.alignment());
        all[m].blocks.push(Stay { tensor: t, from, to, chunk, offset, bytes, over: over.contains(&t) });
    }
    all.iter_mut().for_each(|m| m.finish(steps.len()));
    all
}

impl BufferUse {
    fn finish(&mut self, steps: usize) {
        let mut live = vec![0i128; steps + 1];
        let mut tops = vec![0; self.chunks.len()];
        for b in &self.blocks {
            live[b.from] += b.bytes as i128;
            live[b.to + 1] -= b.bytes as i128;
            tops[b.chunk] = b.bytes.saturating_add(b.offset).max(tops[b.chunk]);
        }
        let mut now = 0;
        for change in live {
            now += change;
            self.lower_bound = self.lower_bound.max(usize::try_from(now).unwrap_or(usize::MAX));
        }
        // The padding of the last tensor may exceed its buffer.
        self.used = tops.iter().zip(&self.chunks).map(|(&top, &size)| top.min(size)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_backend_can_mean_do_not_overflow() {
        assert_eq!(padded(33, 32), 64);
        assert_eq!(padded(33, 0), 33);
        assert_eq!(padded(usize::MAX, 64), usize::MAX);
        assert_eq!(padded(1 << 62, usize::MAX), usize::MAX);
    }
}
