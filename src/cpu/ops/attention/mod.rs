//! Attention in one pass over keys and values, with a running maximum and sum of the softmax (arXiv:2112.05682,
//! arXiv:2205.14135).
//!
//! The work is divided into tiles of queries that share their keys: neighbouring positions, and the heads of a group. The tiles
//! depend only on the shapes, so that results do not depend on the number of threads. If there are few tiles, as for the text of a model with
//! few heads of keys, threads divide the keys as well ([`spans`]).
#![forbid(unsafe_code)]

mod back;
mod sparse;
mod spans;

#[cfg(test)]
mod tests;

pub use back::{check_flash_attn_back, flash_attn_back};
pub use spans::scratch_flash_attn_ext;
pub use sparse::{check_lightning_indexer, check_top_k_mask, lightning_indexer, top_k_mask};

use super::super::access::{Apart, Dest, Layout, Rows, Source, Writer, publish};
use super::super::check::{CheckedNode, ensure, src};
use super::super::convert;
use super::check_type;
use super::softmax::Slopes;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::batch::{self, Matrix, Results};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;
use spans::{SPAN, Softmax, Work};

/// Keys that a tile processes at a time; a multiple of four.
const KEYS: usize = batch::MAX_ROWS;
const _: () = assert!(SPAN.is_multiple_of(KEYS));
/// Minimum number of queries for converting keys and values to floats once for all of them.
const CONVERT_FROM: usize = 16;

/// One query of a tile.
struct Query {
    head: usize,
    position: usize,
    slope: f32,
    /// The keys of this span up to now.
    span: Softmax,
    /// The keys of the spans before.
    total: Softmax,
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
    work: Work,
}

impl<'g> Attention<'g> {
    fn of(node: CheckedNode<'g>, d: &Dest<'_>) -> Self {
        let (q, k, v) = (node.source(0), node.source(1), node.source(2));
        let (scale, max_bias, cap) = (node.op_param_f32(0), node.op_param_f32(1), node.op_param_f32(2));
        let halves = |s: Source<'g>| s.try_apart(d).filter(|s| s.dtype == GGML_TYPE_F16).and_then(Apart::rows);
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
            work: Work::new(&q, &k, &v),
        }
    }
}

/// Buffers of a thread, reused for all its tiles.
struct Buffers {
    /// Whether each product and sum is computed on its own.
    reference: bool,
    /// Whether values with the weight 0 are skipped; the other sums are the same.
    skip_masked: bool,
    queries: Vec<Query>,
    /// Queries that see at least one of the current keys.
    live: Vec<usize>,
    q: Vec<f32>,
    /// Sums of the weighted values of the current span, and of those before.
    acc: Vec<f32>,
    total: Vec<f32>,
    masks: Vec<f32>,
    scores: Vec<f32>,
    /// Keys and values in single precision, if they are converted.
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Buffers {
    fn new(a: &Attention<'_>, reference: bool) -> Self {
        let (n, dk, dv) = (a.work.group * a.work.per_tile.min(a.q.ne[1]), a.k.ne[0], a.v.ne[0]);
        let zeros = |n: usize| vec![0f32; n];
        Self {
            reference,
            skip_masked: false,
            queries: Vec::new(),
            live: Vec::new(),
            q: zeros(n * dk),
            acc: zeros(n * dv),
            total: zeros(n * dv),
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
        let each = self.reference || self.skip_masked;
        if let Some(values) = a.v_halves.filter(|_| self.live.len() < CONVERT_FROM && !each) {
            let values: [&[u16]; KEYS] = std::array::from_fn(|j| values.row([first + j.min(n - 1), v2, v3]));
            return batch::add_weighted(&values[..n], weights, &self.live, out);
        }
        self.v.resize(KEYS * dv, 0.0);
        for (j, value) in self.v.chunks_exact_mut(dv).enumerate().take(n) {
            a.v.load([first + j, v2, v3], 0, value);
        }
        if each {
            for &i in &self.live {
                let acc = &mut out.data[i * dv..][..dv];
                let weighted = self.scores[i * KEYS..][..n].iter().zip(self.v.chunks_exact(dv));
                for (&p, value) in weighted.filter(|(p, _)| **p != 0.0) {
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
                vec::scale(s, scale);
                vec::map(vec::Function::Tanh, s);
                vec::scale(s, a.cap);
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
            let softmax = &mut query.span;
            if top > softmax.max {
                let shrink = (softmax.max - top).exp();
                vec::scale(&mut sums[i * dv..][..dv], shrink);
                softmax.sum *= shrink;
                softmax.max = top;
            }
            // Keys that are missing count like masked ones, so that the order of the sum does not depend on their number.
            missing.fill(f32::NEG_INFINITY);
            softmax.sum += vec::exp_shifted(&mut scores[i * KEYS..][..KEYS], softmax.max) as f32;
            true
        });
    }

    /// Loads the queries of a tile. Returns the indices of their keys and of their values in dimensions 2 and 3, and their batch.
    fn start(&mut self, a: &Attention<'_>, tile: usize) -> Tile {
        let (positions, heads, batches) = (a.q.ne[1], a.q.ne[2], a.q.ne[3]);
        let (group, per_tile, dk) = (a.work.group, a.work.per_tile, a.k.ne[0]);
        let along = positions.div_ceil(per_tile);
        let start = tile % along * per_tile;
        let first_head = tile / along % (heads / group) * group;
        let batch = tile / along / (heads / group);
        self.queries.clear();
        for position in start..(start + per_tile).min(positions) {
            for head in first_head..first_head + group {
                a.q.load([position, head, batch], 0, &mut self.q[self.queries.len() * dk..][..dk]);
                let slope = a.slopes.of(head);
                self.queries.push(Query { head, position, slope, span: Softmax::EMPTY, total: Softmax::EMPTY });
            }
        }
        let plane = |t: &Layout| [first_head / (heads / t.ne[2]), batch / (batches / t.ne[3])];
        Tile { keys: plane(&a.k), values: plane(&a.v), batch }
    }

    /// Computes the sums of the queries over a span.
    fn span(&mut self, a: &Attention<'_>, tile: &Tile, span: usize) {
        self.visit_span(a, tile, span);
        // An infinity times the weight 0 of a masked key is NaN.
        if a.mask.is_some() && !vec::all_finite(&self.acc) {
            self.skip_masked = true;
            self.visit_span(a, tile, span);
            self.skip_masked = false;
        }
    }

    fn visit_span(&mut self, a: &Attention<'_>, tile: &Tile, span: usize) {
        self.queries.iter_mut().for_each(|query| query.span = Softmax::EMPTY);
        self.acc.fill(0.0);
        let end = a.k.ne[1].min((span + 1) * SPAN);
        for first in (span * SPAN..end).step_by(KEYS) {
            let n = KEYS.min(end - first);
            self.look_at_masks(a, tile.batch, first, n);
            if self.live.is_empty() {
                continue;
            }
            // The next keys and values arrive while these are in use. For few queries, the kernels take care of that.
            let ahead = if self.live.len() < CONVERT_FROM { 0 } else { KEYS };
            a.k.load_ahead(first + n, ahead, tile.keys);
            self.products(a, tile.keys, first, n);
            self.weigh(a, n);
            a.v.load_ahead(first + n, ahead, tile.values);
            self.gather(a, tile.values, first, n);
        }
    }
}

/// Where the data of the queries of a tile is.
struct Tile {
    /// Indices of the keys in dimensions 2 and 3.
    keys: [usize; 2],
    values: [usize; 2],
    batch: usize,
}

/// `softmax(q k^T * scale + mask) v`, with heads before positions in the result. Parameters: scale, maximum bias, logit soft cap.
/// Sources: q, k, v, mask, sinks.
pub fn flash_attn_ext(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let a = Attention::of(node, &d);
    let mut out = Writer::new(d);
    let mut b = Buffers::new(&a, w.use_ref());
    if a.work.is_shared(w.nth()) {
        return share_keys(w, &a, &mut b, &mut out);
    }
    let dv = a.v.ne[0];
    // With a causal mask, later tiles have more keys than earlier ones, so threads take tiles one by one.
    loop {
        let tile = w.next_chunk();
        if tile >= a.work.tiles() {
            break;
        }
        let at = b.start(&a, tile);
        b.total.fill(0.0);
        for span in 0..a.work.spans {
            b.span(&a, &at, span);
            for (i, query) in b.queries.iter_mut().enumerate() {
                query.total.add(&mut b.total[i * dv..][..dv], query.span, &b.acc[i * dv..][..dv]);
            }
        }
        for (query, values) in b.queries.iter().zip(b.total.chunks_exact_mut(dv)) {
            finish(&a, [query.head, query.position, at.batch], query.total, values, &mut out);
        }
    }
}

/// The same with threads that divide the keys of each tile.
fn share_keys(w: &Worker<'_>, a: &Attention<'_>, b: &mut Buffers, out: &mut Writer<'_>) {
    let (work, dv) = (&a.work, a.v.ne[0]);
    let mut parts = work.rows(w.workspace());
    loop {
        let chunk = w.next_chunk();
        if chunk >= work.tiles() * work.spans {
            break;
        }
        let span = chunk % work.spans;
        let at = b.start(a, chunk / work.spans);
        b.span(a, &at, span);
        for (query, acc) in b.queries.iter().zip(b.acc.chunks_exact(dv)) {
            let number = work.number(query.head, query.position, at.batch);
            let part: &mut [f32] = parts.row_mut([number * work.spans + span, 0, 0]);
            part[..dv].copy_from_slice(acc);
            part[dv..dv + 2].copy_from_slice(&[query.span.max, query.span.sum]);
        }
    }
    let [parts] = publish(w, [parts]);
    let values = &mut b.total[..dv];
    for number in w.share(work.queries()) {
        let mut total = Softmax::EMPTY;
        values.fill(0.0);
        for span in 0..work.spans {
            let part: &[f32] = parts.row([number * work.spans + span, 0, 0]);
            total.add(values, Softmax { max: part[dv], sum: part[dv + 1] }, &part[..dv]);
        }
        finish(a, work.query(number), total, values, out);
    }
}

/// Writes the result of a query, whose weighted values are `values`.
fn finish(
    a: &Attention<'_>,
    [head, position, batch]: [usize; 3],
    mut total: Softmax,
    values: &mut [f32],
    out: &mut Writer<'_>,
) {
    if let Some(sinks) = a.sinks {
        let sink = sinks.get::<f32>(head, [0; 3]);
        if sink > total.max {
            let shrink = (total.max - sink).exp();
            vec::scale(values, shrink);
            total.sum = total.sum * shrink + 1.0;
        } else {
            total.sum += (sink - total.max).exp();
        }
    }
    let factor = if total.sum == 0.0 { 0.0 } else { 1.0 / total.sum };
    out.row([head, position, batch], |y| {
        y.copy_from_slice(values);
        vec::scale(y, factor);
    });
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
