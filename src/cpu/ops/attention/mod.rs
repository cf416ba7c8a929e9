//! Attention in one pass over keys and values, with a running maximum and sum of the softmax (arXiv:2112.05682,
//! arXiv:2205.14135).
//!
//! The work is divided into tiles of queries that share their keys: neighbouring positions, and the heads of a group. The tiles
//! depend only on the shapes, so that results do not depend on the number of threads.
#![forbid(unsafe_code)]

mod back;
mod sparse;

#[cfg(test)]
mod tests;

pub use back::{check_flash_attn_back, flash_attn_back};
pub use sparse::{check_lightning_indexer, check_top_k_mask, lightning_indexer, top_k_mask};

use super::super::access::{Apart, Dest, Layout, Rows, Source, Writer};
use super::super::check::{CheckedNode, ensure, src};
use super::super::convert;
use super::check_type;
use super::softmax::Slopes;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::batch::{self, Matrix, Results};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Queries in a tile.
const QUERIES: usize = 64;
/// Keys that a tile processes at a time; a multiple of four.
const KEYS: usize = 64;
/// Minimum number of queries for converting keys and values to floats once for all of them.
const CONVERT_FROM: usize = 16;

/// One query of a tile.
struct Query {
    head: usize,
    position: usize,
    slope: f32,
    max: f32,
    sum: f32,
}

/// Sources and parameters of a node.
struct Attention<'g> {
    q: Source<'g>,
    k: Source<'g>,
    v: Source<'g>,
    /// Rows of keys and values in half precision.
    k_halves: Option<Rows<'g, u16>>,
    v_halves: Option<Rows<'g, u16>>,
    mask: Option<Source<'g>>,
    sinks: Option<Source<'g>>,
    scale: f32,
    cap: f32,
    slopes: Slopes,
    /// Heads that share both their keys and their values.
    group: usize,
    /// Positions in a tile.
    per_tile: usize,
}

impl<'g> Attention<'g> {
    fn of(node: CheckedNode<'g>, d: &Dest<'_>) -> Self {
        let (q, k, v) = (node.source(0), node.source(1), node.source(2));
        let (scale, max_bias, cap) = (node.op_param_f32(0), node.op_param_f32(1), node.op_param_f32(2));
        let halves = |s: Source<'g>| s.try_apart(d).filter(|s| s.dtype == GGML_TYPE_F16).and_then(Apart::rows);
        let group = (q.ne[2] / k.ne[2]).min(q.ne[2] / v.ne[2]);
        Self {
            q,
            k,
            v,
            k_halves: halves(k),
            v_halves: halves(v),
            mask: node.try_source(3),
            sinks: node.try_source(4),
            scale: if cap != 0.0 { scale / cap } else { scale },
            cap,
            slopes: Slopes::new(max_bias, q.ne[2]),
            group,
            per_tile: (QUERIES / group).max(1),
        }
    }

    fn tiles(&self) -> usize {
        self.q.ne[1].div_ceil(self.per_tile) * (self.q.ne[2] / self.group) * self.q.ne[3]
    }
}

/// Buffers of a thread, reused for all its tiles.
struct Buffers {
    /// Whether each product and sum is computed on its own.
    reference: bool,
    queries: Vec<Query>,
    /// Queries that see at least one of the current keys.
    live: Vec<usize>,
    q: Vec<f32>,
    acc: Vec<f32>,
    masks: Vec<f32>,
    scores: Vec<f32>,
    /// Keys and values in single precision, if they are converted.
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Buffers {
    fn new(a: &Attention<'_>, reference: bool) -> Self {
        let (n, dk, dv) = (a.group * a.per_tile.min(a.q.ne[1]), a.k.ne[0], a.v.ne[0]);
        let zeros = |n: usize| vec![0f32; n];
        Self {
            reference,
            queries: Vec::new(),
            live: Vec::new(),
            q: zeros(n * dk),
            acc: zeros(n * dv),
            masks: zeros(n * KEYS),
            scores: zeros(n * KEYS),
            k: Vec::new(),
            v: Vec::new(),
        }
    }

    /// Fills `masks` and `live` for the `n` keys from `first`.
    fn look_at_masks(&mut self, a: &Attention<'_>, i3: usize, first: usize, n: usize) {
        self.live.clear();
        let Some(mask) = a.mask else {
            self.live.extend(0..self.queries.len());
            return;
        };
        for (i, query) in self.queries.iter().enumerate() {
            let (done, rest) = self.masks.split_at_mut(i * KEYS);
            let row = &mut rest[..n];
            // The heads of a position are adjacent, and often share their mask.
            if i > 0 && mask.ne[2] == 1 && self.queries[i - 1].position == query.position {
                row.copy_from_slice(&done[(i - 1) * KEYS..][..n]);
            } else {
                mask.load([query.position, query.head % mask.ne[2], i3 % mask.ne[3]], first, row);
            }
            if row.iter().any(|&m| m != f32::NEG_INFINITY) {
                self.live.push(i);
            }
        }
    }

    /// Computes the products of the live queries and the keys that they see.
    fn products(&mut self, a: &Attention<'_>, [k2, k3]: [usize; 2], first: usize, n: usize) {
        let dk = a.k.ne[0];
        let (queries, out) = (Matrix { data: &self.q, stride: dk }, Results { data: &mut self.scores, stride: KEYS });
        if let Some(keys) = a.k_halves.filter(|_| self.live.len() < CONVERT_FROM && !self.reference) {
            let keys: [&[u16]; KEYS] = std::array::from_fn(|j| keys.row([first + j.min(n - 1), k2, k3]));
            return batch::products(&keys[..n], queries, &self.live, out);
        }
        self.k.resize(KEYS * dk, 0.0);
        for (j, key) in self.k.chunks_exact_mut(dk).enumerate().take(n) {
            a.k.load([first + j, k2, k3], 0, key);
        }
        if self.reference {
            for &i in &self.live {
                for (s, key) in out.data[i * KEYS..][..n].iter_mut().zip(self.k.chunks_exact(dk)) {
                    *s = vec::dot(&self.q[i * dk..][..dk], key);
                }
            }
            return;
        }
        let keys: [&[f32]; KEYS] = std::array::from_fn(|j| &self.k[j * dk..][..dk]);
        batch::products(&keys[..n], queries, &self.live, out);
    }

    /// Adds the values, weighted by the scores, to the sums of the live queries.
    fn gather(&mut self, a: &Attention<'_>, [v2, v3]: [usize; 2], first: usize, n: usize) {
        let dv = a.v.ne[0];
        let (weights, out) = (Matrix { data: &self.scores, stride: KEYS }, Results { data: &mut self.acc, stride: dv });
        if let Some(values) = a.v_halves.filter(|_| self.live.len() < CONVERT_FROM && !self.reference) {
            let values: [&[u16]; KEYS] = std::array::from_fn(|j| values.row([first + j.min(n - 1), v2, v3]));
            return batch::add_weighted(&values[..n], weights, &self.live, out);
        }
        self.v.resize(KEYS * dv, 0.0);
        for (j, value) in self.v.chunks_exact_mut(dv).enumerate().take(n) {
            a.v.load([first + j, v2, v3], 0, value);
        }
        if self.reference {
            for &i in &self.live {
                let acc = &mut out.data[i * dv..][..dv];
                for (&p, value) in self.scores[i * KEYS..][..n].iter().zip(self.v.chunks_exact(dv)) {
                    vec::axpy(acc, p, value);
                }
            }
            return;
        }
        let values: [&[f32]; KEYS] = std::array::from_fn(|j| &self.v[j * dv..][..dv]);
        batch::add_weighted(&values[..n], weights, &self.live, out);
    }

    /// Converts the products of the live queries to weights, and rescales the sums for a new maximum. Removes queries whose scores are all
    /// negative infinity from `live`.
    fn weigh(&mut self, a: &Attention<'_>, n: usize) {
        let dv = a.v.ne[0];
        let (queries, scores, masks, sums) = (&mut self.queries, &mut self.scores, &self.masks, &mut self.acc);
        self.live.retain(|&i| {
            let query = &mut queries[i];
            let (s, missing) = scores[i * KEYS..][..KEYS].split_at_mut(n);
            let mut scale = a.scale;
            if a.cap != 0.0 {
                s.iter_mut().for_each(|s| *s = a.cap * (*s * scale).tanh());
                scale = 1.0;
            }
            let top = if a.mask.is_some() {
                // Ignores masked scores, even NaN.
                vec::mask_scores(s, &masks[i * KEYS..][..n], scale, query.slope)
            } else {
                vec::scale(s, scale);
                vec::max(s)
            };
            if top == f32::NEG_INFINITY {
                return false;
            }
            if top > query.max {
                let shrink = (query.max - top).exp();
                vec::scale(&mut sums[i * dv..][..dv], shrink);
                query.sum *= shrink;
                query.max = top;
            }
            // Keys that are missing count like masked ones, so that the order of the sum does not depend on their number.
            missing.fill(f32::NEG_INFINITY);
            query.sum += vec::exp_shifted(&mut scores[i * KEYS..][..KEYS], query.max) as f32;
            true
        });
    }
}

/// `softmax(q k^T * scale + mask) v`, with heads before positions in the result. Parameters: scale, maximum bias, logit soft cap.
/// Sources: q, k, v, mask, sinks.
pub fn flash_attn_ext(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let a = Attention::of(node, &d);
    let mut out = Writer::new(d);
    let mut b = Buffers::new(&a, w.use_ref());
    // With a causal mask, later tiles have more keys than earlier ones, so threads take tiles one by one.
    loop {
        let tile = w.next_chunk();
        if tile >= a.tiles() {
            break;
        }
        compute_tile(&a, &mut b, tile, &mut out);
    }
}

fn compute_tile(a: &Attention<'_>, b: &mut Buffers, tile: usize, out: &mut Writer<'_>) {
    let (positions, heads, batches) = (a.q.ne[1], a.q.ne[2], a.q.ne[3]);
    let (n_keys, dk, dv) = (a.k.ne[1], a.k.ne[0], a.v.ne[0]);
    let along = positions.div_ceil(a.per_tile);
    let start = tile % along * a.per_tile;
    let first_head = tile / along % (heads / a.group) * a.group;
    let i3 = tile / along / (heads / a.group);
    b.queries.clear();
    for position in start..(start + a.per_tile).min(positions) {
        for head in first_head..first_head + a.group {
            a.q.load([position, head, i3], 0, &mut b.q[b.queries.len() * dk..][..dk]);
            let slope = a.slopes.of(head);
            b.queries.push(Query { head, position, slope, max: f32::NEG_INFINITY, sum: 0.0 });
        }
    }
    b.acc.fill(0.0);
    let plane = |t: &Layout| [first_head / (heads / t.ne[2]), i3 / (batches / t.ne[3])];
    for first in (0..n_keys).step_by(KEYS) {
        let n = KEYS.min(n_keys - first);
        b.look_at_masks(a, i3, first, n);
        if b.live.is_empty() {
            continue;
        }
        b.products(a, plane(&a.k), first, n);
        b.weigh(a, n);
        b.gather(a, plane(&a.v), first, n);
    }
    for (query, acc) in b.queries.iter_mut().zip(b.acc.chunks_exact_mut(dv)) {
        if let Some(sinks) = a.sinks {
            let sink = sinks.get::<f32>(query.head, [0; 3]);
            if sink > query.max {
                let shrink = (query.max - sink).exp();
                vec::scale(acc, shrink);
                query.sum = query.sum * shrink + 1.0;
            } else {
                query.sum += (sink - query.max).exp();
            }
        }
        let factor = if query.sum == 0.0 { 0.0 } else { 1.0 / query.sum };
        out.row([query.head, query.position, i3], |y| {
            y.copy_from_slice(acc);
            vec::scale(y, factor);
        });
    }
}

/// Requires queries in single precision, keys and values in any readable format, heads in whole groups, and a mask in half precision
/// that covers all positions and keys.
pub fn check_flash_attn_ext(node: TensorRef) -> Result<()> {
    let (q, k, v) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    check_type(q, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    for t in [k, v] {
        ensure!(convert::readable(t.dtype()) && t.dtype() != GGML_TYPE_I32, "keys or values of {:?}", t.dtype());
        ensure!(Layout::of(t).has_dense_rows(), "rows of '{}' have gaps", t.name());
    }
    let (qn, kn, vn, n) = (q.ne(), k.ne(), v.ne(), node.ne());
    ensure!(kn[0] == qn[0] && kn[1] == vn[1] && kn[0] > 0 && vn[0] > 0, "keys {kn:?}, values {vn:?}, queries {qn:?}");
    ensure!(n == [vn[0], qn[2], qn[1], qn[3]], "queries {qn:?} and values {vn:?} into {n:?}");
    for t in [kn, vn] {
        ensure!(t[2] > 0 && t[3] > 0 && qn[2] % t[2] == 0 && qn[3] % t[3] == 0, "{t:?} for queries {qn:?}");
    }
    ensure!(kn[2] % vn[2] == 0 || vn[2] % kn[2] == 0, "{} heads of keys, {} of values", kn[2], vn[2]);
    if let Some(mask) = node.src(3) {
        check_type(mask, GGML_TYPE_F16)?;
        let m = mask.ne();
        ensure!(m[0] >= kn[1] && m[1] >= qn[1], "mask {m:?} for {} positions and {} keys", qn[1], kn[1]);
        ensure!(m[2] > 0 && m[3] > 0 && qn[2] % m[2] == 0 && qn[3] % m[3] == 0, "mask {m:?} for queries {qn:?}");
    }
    if let Some(sinks) = node.src(4) {
        check_type(sinks, GGML_TYPE_F32)?;
        ensure!(sinks.ne()[0] >= qn[2], "{} sinks for {} heads", sinks.ne()[0], qn[2]);
    }
    Ok(())
}
