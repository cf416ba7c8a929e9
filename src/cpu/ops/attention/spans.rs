//! The softmax of a query, and how threads share the keys and values of a query if there are few of them.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, RowIndex, Workspace};
use crate::tensor::TensorRef;
use std::ops::Range;

/// Minimum number of queries for converting keys and values to floats once for all of them, and for turning their
/// weights.
pub const CONVERT_FROM: usize = 20;
/// Keys whose scores a thread computes, if threads share keys: a multiple of the keys that a tile processes at a time.
pub const SPAN: usize = 512;
/// Maximum number of tiles that are computed together: 64 of their keys and values should stay in the L2 cache.
const MAX_TOGETHER: usize = 8;
/// Bytes that tiles must read next to each other to be computed together. With shorter pieces it takes longer than one
/// tile after the other (docs/PERFORMANCE.md).
const LONG: usize = 512;
/// Queries in a tile.
const QUERIES: usize = 128;
/// Doubles of a row for a [`Softmax`]: a cache line, so that threads do not write the same one.
const TOTAL: usize = 8;
/// Maximum number of scores that threads share. Where there are more, there are tiles enough, or too many queries.
const MAX_SHARED: usize = 4 << 20;

/// Values of a row whose sums are computed together.
pub type Part = Range<usize>;

/// The softmax over some keys: the sum of their weights `e^score 2^-exponent`.
#[derive(Clone, Copy)]
pub struct Softmax {
    /// An integer near the binary logarithm of the greatest weight, or minus infinity.
    pub exponent: f32,
    /// The sum.
    pub sum: f64,
}

impl Softmax {
    /// That over no keys.
    pub const EMPTY: Self = Self { exponent: f32::NEG_INFINITY, sum: 0.0 };

    /// Prepares for the score `top`. Returns the power of two by which the sums of weighted values must be multiplied.
    pub fn raise(&mut self, top: f32) -> f32 {
        let exponent = (top * std::f32::consts::LOG2_E).round();
        if exponent <= self.exponent {
            return 1.0;
        }
        let less = self.exponent - exponent;
        let shrink = if less >= -126.0 { f32::from_bits(((127.0 + less) as u32) << 23) } else { 0.0 };
        self.exponent = exponent;
        self.sum *= f64::from(shrink);
        shrink
    }
}

/// The work of a node.
#[derive(Clone, Copy)]
pub struct Work {
    positions: usize,
    keys: usize,
    heads: usize,
    batches: usize,
    values: usize,
    /// Bytes of a key.
    key_bytes: usize,
    /// Number of spans.
    pub spans: usize,
    /// Heads that share both their keys and their values.
    pub group: usize,
    /// Positions in a tile.
    pub per_tile: usize,
    /// Values of which the length of a part is a multiple.
    unit: usize,
}

impl Work {
    /// The work for queries, keys and values of these shapes.
    pub fn new(q: &Layout, k: &Layout, v: &Layout) -> Self {
        let group = (q.ne[2] / k.ne[2]).min(q.ne[2] / v.ne[2]);
        Self {
            positions: q.ne[1],
            keys: k.ne[1],
            heads: q.ne[2],
            batches: q.ne[3],
            values: v.ne[0],
            key_bytes: k.ne[0] / k.block() * k.dtype.type_size(),
            spans: k.ne[1].div_ceil(SPAN),
            group,
            per_tile: (QUERIES / group).max(1),
            unit: v.block().max(32),
        }
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.positions.div_ceil(self.per_tile) * (self.heads / self.group) * self.batches
    }

    /// Number of tiles, one after the other, that a thread computes together: their queries are few, so that reading
    /// keys and values takes the time.
    pub fn together(&self, threads: usize) -> usize {
        let tiles = (self.tiles() / threads.max(1)).clamp(1, MAX_TOGETHER);
        let small = self.positions * self.group < CONVERT_FROM;
        if small && tiles * self.key_bytes >= LONG { tiles } else { 1 }
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.positions * self.heads * self.batches
    }

    /// Number of a query.
    pub fn number(&self, head: usize, position: usize, batch: usize) -> usize {
        (batch * self.positions + position) * self.heads + head
    }

    /// The row with the scores or weights of a query for the keys of a span.
    pub fn row(&self, number: usize, span: usize) -> RowIndex {
        [number * self.spans + span, 0, 0]
    }

    /// The keys of a span.
    pub fn keys(&self, span: usize) -> Range<usize> {
        span * SPAN..((span + 1) * SPAN).min(self.keys)
    }

    /// Number of scores.
    fn floats(&self) -> usize {
        self.queries().saturating_mul(self.spans).saturating_mul(SPAN)
    }

    /// Number of parts into which the values of a row are divided, so that each of `threads` threads has some.
    pub fn parts(&self, threads: usize) -> usize {
        self.values.div_ceil(self.part_len((2 * threads).div_ceil(self.tiles().max(1))))
    }

    /// Part number `i` of `parts`.
    pub fn part(&self, i: usize, parts: usize) -> Part {
        let len = self.part_len(parts);
        (i * len).min(self.values)..((i + 1) * len).min(self.values)
    }

    /// Values of one of at most `parts` parts, in whole blocks.
    fn part_len(&self, parts: usize) -> usize {
        self.values.div_ceil(parts.max(1)).next_multiple_of(self.unit)
    }

    /// Whether threads share the keys of queries, because there are too few tiles for them.
    pub fn is_shared(&self, threads: usize) -> bool {
        let uneven = self.positions > 1 || !self.tiles().is_multiple_of(threads);
        uneven && self.may_be_shared(threads)
    }

    /// Whether this number of threads, or a smaller one, shares keys.
    fn may_be_shared(&self, threads: usize) -> bool {
        threads > 1 && self.spans > 1 && self.tiles() < 4 * threads && self.floats() <= MAX_SHARED
    }

    /// Shared memory: rows for scores and for weights, of each span of each query, and a row for each query's
    /// [`Softmax`].
    pub fn shared<'a>(&self, memory: Workspace<'a>) -> [Dest<'a>; 3] {
        let (scores, rest) = memory.split_at(self.floats() * size_of::<f32>());
        let (weights, totals) = rest.split_at(self.floats() * size_of::<f32>());
        let rows = self.queries() * self.spans;
        [
            scores.rows(GGML_TYPE_F32, SPAN, rows),
            weights.rows(GGML_TYPE_F32, SPAN, rows),
            totals.rows(GGML_TYPE_F64, TOTAL, self.queries()),
        ]
    }
}

/// Bytes of memory for the spans that at most `threads` threads share.
pub fn scratch_flash_attn_ext(node: TensorRef, threads: usize) -> usize {
    let (Some(q), Some(k), Some(v)) = (node.src(0), node.src(1), node.src(2)) else { return 0 };
    let work = Work::new(&Layout::of(q), &Layout::of(k), &Layout::of(v));
    if work.may_be_shared(threads) {
        2 * work.floats() * size_of::<f32>() + TOTAL * work.queries() * size_of::<f64>()
    } else {
        0
    }
}
