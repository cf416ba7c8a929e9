//! Spans of keys: each has a softmax of its own, and the spans of a query are added in their order. So the keys of a query can be divided between
//! threads, and its result has the same bits with any number of them.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, Workspace};
use crate::cpu::vec;
use crate::tensor::TensorRef;

/// Keys of a span: a multiple of the keys that a tile processes at a time.
pub const SPAN: usize = 512;
/// Queries in a tile.
const QUERIES: usize = 128;
/// Maximum number of floats for spans that threads share. Longer ones have tiles enough, or too many queries.
const MAX_SHARED: usize = 4 << 20;

/// The softmax over some keys: the greatest score, and the sum of the weights relative to it.
#[derive(Clone, Copy)]
pub struct Softmax {
    pub max: f32,
    pub sum: f32,
}

impl Softmax {
    /// That over no keys.
    pub const EMPTY: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };

    /// Adds the keys of `other`, whose weighted values are `more`, to these, whose weighted values are `values`.
    pub fn add(&mut self, values: &mut [f32], other: Self, more: &[f32]) {
        if other.max == f32::NEG_INFINITY {
            return;
        }
        if other.max > self.max {
            let shrink = (self.max - other.max).exp();
            vec::scale(values, shrink);
            self.sum *= shrink;
            self.max = other.max;
        }
        let share = (other.max - self.max).exp();
        vec::axpy(values, share, more);
        self.sum += share * other.sum;
    }
}

/// The work of a node.
#[derive(Clone, Copy)]
pub struct Work {
    positions: usize,
    heads: usize,
    batches: usize,
    values: usize,
    /// Number of spans.
    pub spans: usize,
    /// Heads that share both their keys and their values.
    pub group: usize,
    /// Positions in a tile.
    pub per_tile: usize,
}

impl Work {
    /// The work for queries, keys and values of these shapes.
    pub fn new(q: &Layout, k: &Layout, v: &Layout) -> Self {
        let group = (q.ne[2] / k.ne[2]).min(q.ne[2] / v.ne[2]);
        Self {
            positions: q.ne[1],
            heads: q.ne[2],
            batches: q.ne[3],
            values: v.ne[0],
            spans: k.ne[1].div_ceil(SPAN),
            group,
            per_tile: (QUERIES / group).max(1),
        }
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.positions.div_ceil(self.per_tile) * (self.heads / self.group) * self.batches
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.positions * self.heads * self.batches
    }

    /// Number of a query.
    pub fn number(&self, head: usize, position: usize, batch: usize) -> usize {
        (batch * self.positions + position) * self.heads + head
    }

    /// Head, position and batch of a query.
    pub fn query(&self, number: usize) -> [usize; 3] {
        [number % self.heads, number / self.heads % self.positions, number / self.heads / self.positions]
    }

    /// Floats of a row of shared memory: the values, the maximum and the sum, in whole cache lines.
    fn row(&self) -> usize {
        (self.values + 2).next_multiple_of(16)
    }

    /// Floats of shared memory for all spans.
    fn floats(&self) -> usize {
        self.queries().saturating_mul(self.spans).saturating_mul(self.row())
    }

    /// Whether threads share the keys of queries, because there are too few tiles for them.
    pub fn is_shared(&self, threads: usize) -> bool {
        threads > 1 && self.spans > 1 && self.tiles() < 4 * threads && self.floats() <= MAX_SHARED
    }

    /// Rows of shared memory for each span of each query.
    pub fn rows<'a>(&self, memory: Workspace<'a>) -> Dest<'a> {
        memory.rows(GGML_TYPE_F32, self.row(), self.queries() * self.spans)
    }
}

/// Bytes of memory for the spans that threads share.
pub fn scratch_flash_attn_ext(node: TensorRef, threads: usize) -> usize {
    let (Some(q), Some(k), Some(v)) = (node.src(0), node.src(1), node.src(2)) else { return 0 };
    let work = Work::new(&Layout::of(q), &Layout::of(k), &Layout::of(v));
    if work.is_shared(threads) { work.floats() * size_of::<f32>() } else { 0 }
}
