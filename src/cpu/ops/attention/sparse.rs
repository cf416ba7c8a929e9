//! Sparse attention: scores of keys, and the mask for selected keys.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, Plain, Reader, RowIndex, Source, rows};
use crate::cpu::checked::CheckedNode;
use crate::cpu::convert;
use crate::cpu::ensure::{ensure, src};
use crate::cpu::ops::check_type;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::quant::convert::f16_to_f32;
use crate::tensor::TensorRef;

/// Zero for negative numbers; NaN for NaN, which `f32::max` hides.
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The sources of a node other than the mask.
struct Picks<'g> {
    top_k: Source<'g>,
    score: Option<Source<'g>>,
    blocks: Option<Source<'g>>,
    extra: Option<Source<'g>>,
    /// Number of cells or blocks to select from.
    n: usize,
}

impl<'g> Picks<'g> {
    fn of(node: CheckedNode<'g>) -> Self {
        let [score, blocks, extra] = [2, 3, 4].map(|i| node.try_source(i));
        let n = match (&blocks, &score) {
            (Some(blocks), _) => blocks.ne[1],
            (None, Some(score)) => score.ne[0],
            (None, None) => Layout::of(*node).ne[0],
        };
        Self { top_k: node.source(1), score, blocks, extra, n }
    }

    /// Calls `keep` for each cell that a row keeps. Cells may repeat or be out of range.
    fn cells(&self, row: RowIndex, mut keep: impl FnMut(i32)) {
        for i in 0..self.top_k.ne[0] {
            let cell = self.top_k.get::<i32>(i, row);
            let Some(pick) = usize::try_from(cell).ok().filter(|&pick| pick < self.n) else { continue };
            // A NaN score is not greater, so its cell is not kept.
            let counts = self.score.as_ref().is_none_or(|s| s.get::<f32>(pick, row) > f32::NEG_INFINITY);
            match &self.blocks {
                _ if !counts => {}
                None => keep(cell),
                Some(blocks) => (0..blocks.ne[0]).for_each(|k| keep(blocks.get(k, [pick, 0, 0]))),
            }
        }
        if let Some(extra) = &self.extra {
            (0..extra.ne[0]).for_each(|i| keep(extra.get(i, row)));
        }
    }
}

fn typed<T: Plain>(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, closed: T) {
    let (mask, picks) = (node.source(0).apart(&d), Picks::of(node));
    for row in rows(w, &d) {
        let open = mask.row::<T>([row[0] % mask.ne[1], row[1] % mask.ne[2], row[2] % mask.ne[3]]);
        let y = d.row_mut::<T>(row);
        y.fill(closed);
        picks.cells(row, |cell| {
            if let Some(cell) = usize::try_from(cell).ok().filter(|&cell| cell < y.len()) {
                y[cell] = open[cell];
            }
        });
    }
}

/// Source 0, repeated for the rows of source 1, with minus infinity in all cells that a row does not keep.
pub fn top_k_mask(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    match d.dtype {
        GGML_TYPE_F16 => typed(w, node, d, half::f16::NEG_INFINITY.to_bits()),
        _ => typed(w, node, d, f32::NEG_INFINITY),
    }
}

/// Requires fitting types and shapes, and dense rows of mask and node.
pub fn check_top_k_mask(node: TensorRef) -> Result<()> {
    let (mask, top_k) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(mask.dtype(), GGML_TYPE_F16 | GGML_TYPE_F32), "a mask of {:?}", mask.dtype());
    check_type(node, mask.dtype())?;
    check_type(top_k, GGML_TYPE_I32)?;
    let (m, t, n) = (mask.ne(), top_k.ne(), node.ne());
    ensure!(n[0] == m[0] && n[1..] == t[1..], "mask {m:?} and picks {t:?} into {n:?}");
    ensure!((1..4).all(|i| n[i] % m[i] == 0), "mask {m:?} does not repeat to {n:?}");
    ensure!([mask, node].iter().all(|t| Layout::of(*t).has_dense_rows()), "rows of the mask have gaps");
    if let Some(score) = node.src(2) {
        check_type(score, GGML_TYPE_F32)?;
        ensure!(score.ne()[1..] == n[1..], "scores {:?} for {n:?}", score.ne());
    }
    if let Some(blocks) = node.src(3) {
        check_type(blocks, GGML_TYPE_I32)?;
        let b = blocks.ne();
        ensure!(b[2] == 1 && b[3] == 1, "blocks {b:?}");
        ensure!(node.src(2).is_none_or(|s| s.ne()[0] == b[1]), "blocks {b:?} for other scores");
    }
    if let Some(extra) = node.src(4) {
        check_type(extra, GGML_TYPE_I32)?;
        ensure!(extra.ne()[1..] == n[1..], "cells {:?} for {n:?}", extra.ne());
    }
    Ok(())
}

/// Scores for selecting keys: for each key the sum over heads of weight * relu(q k), plus a mask. Sources: q
/// `[d, heads, tokens, streams]`, k `[d, 1, keys, streams]`, weights `[heads, tokens, 1, streams]`, mask.
pub fn lightning_indexer(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let mut q = Reader::new(node.source(0), &d);
    let mut k = Reader::new(node.source(1), &d);
    let (weights, mask) = (node.source(2), node.source(3));
    let [_, heads, tokens, streams] = q.ne;
    for key in w.share(k.ne[2]) {
        for stream in 0..streams {
            let k = k.row([0, key, stream]);
            for token in 0..tokens {
                let score: f32 = (0..heads)
                    .map(|h| relu(vec::dot(q.row([h, token, stream]), k)) * weights.get::<f32>(h, [token, 0, stream]))
                    .sum();
                let mask = f16_to_f32(mask.get(key, [token, 0, stream % mask.ne[3]]));
                // A masked key is not chosen, whatever its score is.
                let masked = mask == f32::NEG_INFINITY;
                d.set(key, [token, 0, stream], if masked { mask } else { score + mask });
            }
        }
    }
}

/// Requires fitting types and shapes.
pub fn check_lightning_indexer(node: TensorRef) -> Result<()> {
    let (q, k, weights, mask) = (src(node, 0)?, src(node, 1)?, src(node, 2)?, src(node, 3)?);
    for t in [node, q, weights] {
        check_type(t, GGML_TYPE_F32)?;
    }
    check_type(mask, GGML_TYPE_F16)?;
    ensure!(convert::readable(k.dtype()) && Layout::of(k).has_dense_rows(), "keys of {:?}", k.dtype());
    let (q, k, w, m, n) = (q.ne(), k.ne(), weights.ne(), mask.ne(), node.ne());
    ensure!(k[0] == q[0] && k[3] >= q[3] && k[1] >= 1, "keys {k:?} for {q:?}");
    ensure!(w[0] >= q[1] && w[1] >= q[2] && w[3] >= q[3], "weights {w:?} for {q:?}");
    ensure!(m[0] >= k[2] && m[1] >= q[2] && m[3] > 0, "mask {m:?} for {k:?}");
    ensure!(n[0] == k[2] && n[1] == q[2] && n[3] == q[3], "{n:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::*;
    use crate::tensor::ops::attention::{self, Picks};

    #[test]
    fn what_is_picked_or_kept_stays_open() {
        let mut c = ctx();
        for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
            let mask = tensor(&mut c, dtype, &[6, 1, 2], 1);
            let m = read(mask);
            let top_k = integers(&mut c, &[3, 2, 2], &[0, 2, -1, 1, 1, 9, 5, 0, 3, 2, 4, 6]);
            let score = c.new_tensor(GGML_TYPE_F32, &[3, 2, 2]).unwrap();
            let closed = f32::NEG_INFINITY;
            write(score, &[1.0, 2.0, closed, 1.0, f32::NAN, 3.0, 0.0, 0.0, 0.0, -1e30, closed, 5.0]);
            let blocks = integers(&mut c, &[2, 3], &[0, 1, 2, 3, 4, 77]);
            let extra = integers(&mut c, &[1, 2, 2], &[5, -3, 5, 6]);

            type Case<'a> = (Option<TensorRef>, Option<TensorRef>, Option<TensorRef>, [&'a [usize]; 4]);
            let cases: [Case; 4] = [
                (None, None, None, [&[0, 2], &[1], &[0, 3, 5], &[2, 4]]),
                // Of three cells, those with a score.
                (Some(score), None, None, [&[0], &[], &[0], &[2]]),
                (None, Some(blocks), None, [&[0, 1, 4], &[2, 3], &[0, 1], &[4]]),
                (Some(score), Some(blocks), Some(extra), [&[0, 1, 5], &[], &[0, 1, 5], &[4]]),
            ];
            for (score, blocks, extra, want) in cases {
                let t = attention::top_k_mask(&mut c, mask, Picks { top_k, score, blocks, extra }).unwrap();
                assert_eq!((t.ne(), t.dtype()), ([6, 2, 2, 1], dtype));
                let got = compute(t);
                for (row, want) in want.iter().enumerate() {
                    for cell in 0..6 {
                        let open = if want.contains(&cell) { m[row / 2 * 6 + cell] } else { closed };
                        assert_eq!(got[row * 6 + cell], open, "{dtype:?} row {row} cell {cell}");
                    }
                }
            }
        }
    }

    #[test]
    fn scores_of_the_indexer() {
        for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0] {
            let mut c = ctx();
            let (q, k) = (floats(&mut c, &[32, 3, 5, 2], 1), tensor(&mut c, dtype, &[32, 1, 37, 2], 2));
            let (weights, mask) = (floats(&mut c, &[3, 5, 1, 2], 3), tensor(&mut c, GGML_TYPE_F16, &[37, 5], 4));
            let t = attention::lightning_indexer(&mut c, q, k, weights, mask).unwrap();
            let (qv, kv, wv, mv) = (read(q), read(k), read(weights), read(mask));
            let want = indices(t.ne()).map(|[key, token, _, s]| {
                let score: f64 = (0..3)
                    .map(|h| {
                        let dot: f64 =
                            (0..32).map(|d| at(&qv, q.ne(), [d, h, token, s]) * at(&kv, k.ne(), [d, 0, key, s])).sum();
                        dot.max(0.0) * at(&wv, weights.ne(), [h, token, 0, s])
                    })
                    .sum();
                score + at(&mv, mask.ne(), [key, token, 0, 0])
            });
            near(&compute(t), want, 1e-5);
        }
    }
}
