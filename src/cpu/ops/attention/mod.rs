//! Attention in one pass over keys and values, with a running maximum and sum of the softmax (arXiv:2112.05682,
//! arXiv:2205.14135).
//!
//! The work is divided into tiles of queries that share their keys: neighbouring positions, and the heads of a group.
//! If there are few tiles, as for the text of a model with few heads of keys, threads divide the keys for the scores,
//! and the values for their sums ([`spans`]). A thread that computes several small tiles goes over the keys once: in a
//! cache the heads of a key are next to each other, and memory is read in longer pieces.
//!
//! The bits of a result depend only on the keys that a query sees and on their order, not on the positions of these
//! keys among others or on the thread that computes the result. Weights are relative to a power of two, so that a new
//! maximum changes no digits of the sums. Each sum is one chain of additions in the order of the keys, to which masked
//! keys add zero.
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
use super::super::checked::CheckedNode;
use super::super::convert;
use super::super::ensure::{ensure, src};
use super::check_type;
use super::softmax::Slopes;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::batch::{self, Matrix, Results};
use crate::cpu::simd::kernels;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;
use spans::{CONVERT_FROM, Part, SPAN, Softmax, Work};
use std::ops::Range;

/// Keys that a tile processes at a time; a multiple of four.
const KEYS: usize = batch::MAX_ROWS;
const _: () = assert!(SPAN.is_multiple_of(KEYS));
/// One query of a tile.
struct Query {
    head: usize,
    position: usize,
    slope: f32,
    softmax: Softmax,
    /// The greatest of the current scores.
    top: f32,
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
    /// Sums of the weighted values.
    acc: Vec<f32>,
    masks: Vec<f32>,
    /// Scores, then weights.
    scores: Vec<f32>,
    /// Weights with those of a key next to each other.
    by_key: Vec<f32>,
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
            by_key: Vec::new(),
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

    /// Adds the values of the part, with their weights, to the sums of the live queries.
    fn gather(&mut self, a: &Attention<'_>, [v2, v3]: [usize; 2], part: &Part, first: usize, n: usize) {
        let (width, weights) = (part.len(), Matrix { data: &self.scores, stride: KEYS });
        let out = Results { data: &mut self.acc, stride: width };
        let each = self.reference || self.skip_masked;
        if let Some(values) = a.v_halves.filter(|_| self.live.len() < CONVERT_FROM && !each) {
            let values: [&[u16]; KEYS] =
                std::array::from_fn(|j| &values.row([first + j.min(n - 1), v2, v3])[part.clone()]);
            return batch::add_weighted(&values[..n], weights, &self.live, out);
        }
        self.v.resize(KEYS * width, 0.0);
        for (j, value) in self.v.chunks_exact_mut(width).enumerate().take(n) {
            a.v.load([first + j, v2, v3], part.start, value);
        }
        if each {
            for &i in &self.live {
                let acc = &mut out.data[i * width..][..width];
                let weighted = self.scores[i * KEYS..][..n].iter().zip(self.v.chunks_exact(width));
                for (&p, value) in weighted.filter(|(p, _)| **p != 0.0) {
                    vec::axpy(acc, p, value);
                }
            }
            return;
        }
        let values: [&[f32]; KEYS] = std::array::from_fn(|j| &self.v[j * width..][..width]);
        batch::add_weighted(&values[..n], weights, &self.live, out);
    }

    /// Converts the products of the live queries to scores. Removes queries whose scores are all negative infinity from
    /// `live`, but not those with NaN.
    fn finish_scores(&mut self, a: &Attention<'_>, n: usize) {
        let (queries, scores, masks) = (&mut self.queries, &mut self.scores, &self.masks);
        self.live.retain(|&i| {
            let (query, s) = (&mut queries[i], &mut scores[i * KEYS..][..n]);
            let mut scale = a.scale;
            if a.cap != 0.0 {
                vec::scale(s, scale);
                vec::map(vec::Function::Tanh, s);
                vec::scale(s, a.cap);
                scale = 1.0;
            }
            query.top = if a.mask.is_some() {
                // Ignores masked scores, even NaN.
                vec::mask_scores(s, &masks[i * KEYS..][..n], scale, query.slope)
            } else {
                vec::scale(s, scale);
                vec::max(s)
            };
            query.top != f32::NEG_INFINITY || has_nan(s)
        });
    }

    /// Converts the scores of the live queries to weights, whose sums it adds up, and rescales the sums for a new
    /// maximum.
    fn weigh(&mut self, width: usize, n: usize) {
        for &i in &self.live {
            let query = &mut self.queries[i];
            let shrink = query.softmax.raise(query.top);
            if shrink != 1.0 {
                vec::scale(&mut self.acc[i * width..][..width], shrink);
            }
            vec::exp_scaled(&mut self.scores[i * KEYS..][..n], query.softmax.exponent);
        }
        match self.live.len() {
            0..=4 => return self.add_weights::<4>(n),
            5..CONVERT_FROM => return self.add_weights::<8>(n),
            _ => {}
        }
        let count = self.queries.len();
        self.by_key.resize(n * count, 0.0);
        kernels().recurrent.transpose(count, n, &self.scores, KEYS, &mut self.by_key);
        let mut sums: Vec<f64> = self.queries.iter().map(|query| query.softmax.sum).collect();
        self.by_key.chunks_exact(count).for_each(|weights| vec::add_to_doubles(&mut sums, weights));
        self.live.iter().for_each(|&i| self.queries[i].softmax.sum = sums[i]);
    }

    /// Adds the weights of `n` keys to the sums of the live queries, `N` of them at a time: their sums do not wait for
    /// each other.
    fn add_weights<const N: usize>(&mut self, n: usize) {
        for some in self.live.chunks(N) {
            let which: [usize; N] = std::array::from_fn(|r| some[r.min(some.len() - 1)]);
            let rows = which.map(|i| &self.scores[i * KEYS..][..n]);
            let mut sums = which.map(|i| self.queries[i].softmax.sum);
            for j in 0..n {
                sums.iter_mut().zip(&rows).for_each(|(sum, row)| *sum += f64::from(row[j]));
            }
            some.iter().zip(sums).for_each(|(&i, sum)| self.queries[i].softmax.sum = sum);
        }
    }

    /// Loads the queries of a tile. Returns the indices of their keys and of their values in dimensions 2 and 3, and
    /// their batch.
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
                self.queries.push(Query { head, position, slope, softmax: Softmax::EMPTY, top: 0.0 });
            }
        }
        let plane = |t: &Layout| [first_head / (heads / t.ne[2]), batch / (batches / t.ne[3])];
        Tile { keys: plane(&a.k), values: plane(&a.v), batch }
    }

    /// Computes the scores of the `n` keys from `first`.
    fn score(&mut self, a: &Attention<'_>, tile: &Tile, first: usize, n: usize) {
        self.look_at_masks(a, tile.batch, first, n);
        if !self.live.is_empty() {
            // The next keys arrive while these are in use. For few queries, the kernels take care of that.
            let ahead = if self.live.len() < CONVERT_FROM { 0 } else { KEYS };
            a.k.load_ahead(first + n, ahead, tile.keys);
            self.products(a, tile.keys, first, n);
            self.finish_scores(a, n);
        }
    }

    /// Takes the weights of the `n` keys from `first`.
    fn take_weights(&mut self, a: &Attention<'_>, tile: &Tile, weights: &Apart<'_>, first: usize, n: usize) {
        self.live.clear();
        for (i, query) in self.queries.iter().enumerate() {
            let number = a.work.number(query.head, query.position, tile.batch);
            let row: &[f32] = weights.row(a.work.row(number, first / SPAN));
            let row = &row[first % SPAN..][..n];
            if row.iter().any(|&weight| weight != 0.0) {
                self.scores[i * KEYS..][..n].copy_from_slice(row);
                self.live.push(i);
            }
        }
    }

    /// Computes a part of the sums of the queries of some tiles, each in its buffers. `weights` are those of all keys,
    /// if they are known.
    fn attend(some: &mut [Self], a: &Attention<'_>, tiles: &[Tile], part: &Part, weights: Option<&Apart<'_>>) {
        Self::visit_keys(some, a, tiles, part, weights);
        for (one, tile) in some.iter_mut().zip(tiles) {
            // An infinity times the weight 0 of a masked key is NaN.
            let sums = &one.acc[..one.queries.len() * part.len()];
            if a.mask.is_some() && !vec::all_finite(sums) {
                one.skip_masked = true;
                Self::visit_keys(std::slice::from_mut(one), a, std::slice::from_ref(tile), part, weights);
                one.skip_masked = false;
            }
        }
    }

    fn visit_keys(some: &mut [Self], a: &Attention<'_>, tiles: &[Tile], part: &Part, weights: Option<&Apart<'_>>) {
        for one in &mut *some {
            one.queries.iter_mut().for_each(|query| query.softmax = Softmax::EMPTY);
            one.acc[..one.queries.len() * part.len()].fill(0.0);
        }
        for first in (0..a.k.ne[1]).step_by(KEYS) {
            let n = KEYS.min(a.k.ne[1] - first);
            some.iter_mut().zip(tiles).for_each(|(one, tile)| one.visit(a, tile, part, weights, first, n));
        }
    }

    /// Adds the `n` keys from `first`.
    fn visit(
        &mut self,
        a: &Attention<'_>,
        tile: &Tile,
        part: &Part,
        weights: Option<&Apart<'_>>,
        first: usize,
        n: usize,
    ) {
        match weights {
            Some(weights) => self.take_weights(a, tile, weights, first, n),
            None => {
                self.score(a, tile, first, n);
                self.weigh(part.len(), n);
            }
        }
        if self.live.is_empty() {
            return;
        }
        let ahead = if self.live.len() < CONVERT_FROM { 0 } else { KEYS };
        a.v.load_ahead(first + n, ahead, tile.values);
        self.gather(a, tile.values, part, first, n);
    }

    /// Writes a part of the results of the queries.
    fn finish(&mut self, a: &Attention<'_>, batch: usize, part: &Part, out: &mut Writer<'_>) {
        for (query, values) in self.queries.iter_mut().zip(self.acc.chunks_exact_mut(part.len())) {
            if let Some(sinks) = a.sinks {
                let mut sink = [sinks.get::<f32>(query.head, [0; 3])];
                vec::scale(values, query.softmax.raise(sink[0]));
                if query.softmax.exponent != f32::NEG_INFINITY {
                    vec::exp_scaled(&mut sink, query.softmax.exponent);
                    query.softmax.sum += f64::from(sink[0]);
                }
            }
            let sum = query.softmax.sum;
            let factor = if sum == 0.0 { 0.0 } else { (1.0 / sum) as f32 };
            out.part([query.head, query.position, batch], part.clone(), |y| {
                y.copy_from_slice(values);
                vec::scale(y, factor);
            });
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

/// `softmax(q k^T * scale + mask) v`, with heads before positions in the result. Parameters: scale, maximum bias, logit
/// soft cap. Sources: q, k, v, mask, sinks.
pub fn flash_attn_ext(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let a = Attention::of(node, &d);
    let mut out = Writer::new(d);
    let reference = w.use_ref();
    if a.work.is_shared(w.nth()) {
        return share_keys(w, &a, &mut Buffers::new(&a, reference), &mut out);
    }
    // With a causal mask, later tiles have more keys than earlier ones, so threads take large tiles one by one.
    let together = a.work.together(w.nth());
    let mut buffers: Vec<Buffers> = (0..together).map(|_| Buffers::new(&a, reference)).collect();
    let (whole, tiles) = (0..a.v.ne[0], a.work.tiles());
    loop {
        let first = w.next_chunk().saturating_mul(together);
        if first >= tiles {
            break;
        }
        let some = &mut buffers[..together.min(tiles - first)];
        let at: Vec<Tile> = some.iter_mut().enumerate().map(|(i, b)| b.start(&a, first + i)).collect();
        Buffers::attend(some, &a, &at, &whole, None);
        some.iter_mut().zip(&at).for_each(|(b, at)| b.finish(&a, at.batch, &whole, &mut out));
    }
}

/// The same with threads that divide the keys of each tile for the scores, then the queries for the weights, and the
/// values of a row for the sums.
fn share_keys(w: &Worker<'_>, a: &Attention<'_>, b: &mut Buffers, out: &mut Writer<'_>) {
    let work = &a.work;
    let [mut scores, mut weights, mut totals] = work.shared(w.workspace());
    loop {
        let chunk = w.next_chunk();
        if chunk >= work.tiles() * work.spans {
            break;
        }
        let span = chunk % work.spans;
        let at = b.start(a, chunk / work.spans);
        for first in work.keys(span).step_by(KEYS) {
            let n = KEYS.min(work.keys(span).end - first);
            b.score(a, &at, first, n);
            let mut live = b.live.iter().peekable();
            for (i, query) in b.queries.iter().enumerate() {
                let number = work.number(query.head, query.position, at.batch);
                let row: &mut [f32] = scores.row_mut(work.row(number, span));
                let row = &mut row[first % SPAN..][..n];
                match live.next_if_eq(&&i) {
                    Some(_) => row.copy_from_slice(&b.scores[i * KEYS..][..n]),
                    None => row.fill(f32::NEG_INFINITY),
                }
            }
        }
    }
    let [scores] = publish(w, [scores]);
    for group in w.share(work.queries().div_ceil(TOGETHER)) {
        let some = group * TOGETHER..((group + 1) * TOGETHER).min(work.queries());
        weigh_all(work, some, &scores, &mut weights, &mut totals);
    }
    let [weights, totals] = publish(w, [weights, totals]);
    let parts = work.parts(w.nth());
    for chunk in w.share(work.tiles() * parts) {
        let (at, part) = (b.start(a, chunk / parts), work.part(chunk % parts, parts));
        Buffers::attend(std::slice::from_mut(b), a, std::slice::from_ref(&at), &part, Some(&weights));
        for query in &mut b.queries {
            let total: &[f64] = totals.row([work.number(query.head, query.position, at.batch), 0, 0]);
            query.softmax = Softmax { exponent: total[0] as f32, sum: total[1] };
        }
        b.finish(a, at.batch, &part, out);
    }
}

/// Whether a score is NaN. Maxima ignore NaN, so they do not say it.
fn has_nan(scores: &[f32]) -> bool {
    scores.iter().any(|x| x.is_nan())
}

/// Queries whose weights are added up at a time: their sums do not wait for each other.
const TOGETHER: usize = 8;

/// Converts the scores of the queries with the numbers `some` to weights and their totals.
fn weigh_all(work: &Work, some: Range<usize>, scores: &Apart<'_>, weights: &mut Dest<'_>, totals: &mut Dest<'_>) {
    let mut softmax = [Softmax::EMPTY; TOGETHER];
    for (softmax, number) in softmax.iter_mut().zip(some.clone()) {
        for span in 0..work.spans {
            let row: &[f32] = scores.row(work.row(number, span));
            softmax.raise(vec::max(&row[..work.keys(span).len()]));
        }
    }
    let mut rows = [[0.0; SPAN]; TOGETHER];
    for span in 0..work.spans {
        let n = work.keys(span).len();
        for ((row, softmax), number) in rows.iter_mut().zip(&softmax).zip(some.clone()) {
            let scores = &scores.row::<f32>(work.row(number, span))[..n];
            if softmax.exponent == f32::NEG_INFINITY && !has_nan(scores) {
                row.fill(0.0);
            } else {
                row[..n].copy_from_slice(scores);
                vec::exp_scaled(&mut row[..n], softmax.exponent);
            }
            weights.row_mut::<f32>(work.row(number, span))[..n].copy_from_slice(&row[..n]);
        }
        let mut sums = softmax.map(|softmax| softmax.sum);
        for j in 0..n {
            sums.iter_mut().zip(&rows).for_each(|(sum, row)| *sum += f64::from(row[j]));
        }
        softmax.iter_mut().zip(sums).for_each(|(softmax, sum)| softmax.sum = sum);
    }
    for (softmax, number) in softmax.iter().zip(some) {
        totals.row_mut::<f64>([number, 0, 0])[..2].copy_from_slice(&[f64::from(softmax.exponent), softmax.sum]);
    }
}

/// Requires queries in single precision, keys and values in any readable format, heads in whole groups, and a mask in
/// half precision that covers all positions and keys.
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
