//! Sparse attention: scores of keys, and the mask for selected keys.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::{copy, unary};
use crate::vulkan::plan::checks::{ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Keys that a workgroup computes: `KEYS` of `lightning_indexer.comp`.
const KEYS: u32 = 64;

/// Queries `[d, heads, tokens, streams]` in F32, keys `[d, 1, keys, streams]` of floats or blocks with a shader,
/// weights `[heads, tokens, 1, streams]` in F32, a mask in F16. Rows of queries and keys are contiguous.
pub fn check_indexer(node: TensorRef, info: &Info) -> Result<()> {
    let (q, k, w, mask) = (src(node, 0)?, src(node, 1)?, src(node, 2)?, src(node, 3)?);
    for t in [q, w, node] {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
    }
    ensure!(mask.dtype() == GGML_TYPE_F16, "a mask of {:?}", mask.dtype());
    ensure!(q.is_contiguous_rows() && k.is_contiguous_rows(), "rows with gaps");
    let keys = View::shape(k)?;
    if !is_float(k.dtype()) {
        copy::check_views(keys, GGML_TYPE_F32)?;
        ensure!(keys.n() * 4 <= 1 << 30, "{:?} keys of {:?}", k.dtype(), k.ne());
    }
    [q, w, mask, node].into_iter().try_for_each(|t| View::shape(t).map(drop))?;
    let (q, k, w, m, n) = (q.ne(), k.ne(), w.ne(), mask.ne(), node.ne());
    ensure!(k[0] == q[0] && k[3] >= q[3] && k[1] == 1, "keys {k:?} for {q:?}");
    ensure!(w[0] >= q[1] && w[1] >= q[2] && w[3] >= q[3], "weights {w:?} for {q:?}");
    ensure!(m[0] >= k[2] && m[1] >= q[2] && m[3] > 0, "mask {m:?} for {k:?}");
    ensure!(n == [k[2], q[2], 1, q[3]], "{n:?}");
    Grid::stack(keys.ne[2].div_ceil(KEYS), 1, KEYS, info).map(drop)
}

/// LIGHTNING_INDEXER. Keys in blocks are first converted to F32.
pub fn indexer(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (q, mut k, w) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(src(node, 2)?)?);
    let (mask, d) = (View::of(src(node, 3)?)?, View::of(node)?);
    if !is_float(k.dtype) {
        k = copy::into_scratch(k, GGML_TYPE_F32, plan)?;
    }
    let n_groups = q.ne[2] * q.ne[3];
    let g = Grid::stack(k.ne[2].div_ceil(KEYS), n_groups.into(), KEYS, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::LightningIndexer { k: k.ty() })?;
    let push = push::LightningIndexer {
        q: q.at,
        k: k.at,
        w: w.at,
        mask: mask.at,
        d: d.at,
        columns: q.ne[0],
        heads: q.ne[1],
        keys: k.ne[2],
        tokens: q.ne[2],
        n_groups,
        q_nb: q.nb123(),
        k_nb: [k.nb[2], k.nb[3]],
        w_nb: [w.nb[0], w.nb[1], w.nb[3]],
        mask_nb: [mask.nb[0], mask.nb[1], mask.nb[3]],
        mask_ne3: mask.ne[3],
        d_nb: [d.nb[0], d.nb[1], d.nb[3]],
    };
    plan.dispatch(kernel, push, g.groups, &[q.range, k.range, w.range, mask.range], &[d.range]);
    Ok(())
}

/// A mask in F16 or F32 that repeats to the node, 32-bit picks, and optionally F32 scores, blocks of cells, and extra
/// cells. Rows are contiguous, and so are the blocks.
pub fn check_top_k_mask(node: TensorRef, _: &Info) -> Result<()> {
    let (mask, top_k) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(mask.dtype(), GGML_TYPE_F16 | GGML_TYPE_F32), "a mask of {:?}", mask.dtype());
    ensure!(node.dtype() == mask.dtype() && top_k.dtype() == GGML_TYPE_I32, "{:?} picks", top_k.dtype());
    let (m, t, n) = (mask.ne(), top_k.ne(), node.ne());
    ensure!(n[0] == m[0] && n[1..] == t[1..], "mask {m:?} and picks {t:?} into {n:?}");
    ensure!((1..4).all(|i| m[i] > 0 && n[i] % m[i] == 0), "mask {m:?} does not repeat to {n:?}");
    for t in [Some(mask), Some(top_k), Some(node), node.src(2), node.src(4)].into_iter().flatten() {
        ensure!(t.is_contiguous_rows(), "rows of '{}' have gaps", t.name());
        View::shape(t)?;
    }
    if let Some(score) = node.src(2) {
        ensure!(score.dtype() == GGML_TYPE_F32 && score.ne()[1..] == n[1..], "scores {:?} for {n:?}", score.ne());
    }
    if let Some(blocks) = node.src(3) {
        let b = blocks.ne();
        ensure!(blocks.dtype() == GGML_TYPE_I32 && blocks.is_contiguous() && blocks.is_matrix(), "blocks {b:?}");
        ensure!(node.src(2).is_none_or(|s| s.ne()[0] == b[1]), "blocks {b:?} for other scores");
        ensure!(t[0].saturating_mul(b[0]) < 1 << 31, "{} blocks of {}", t[0], b[0]);
        View::shape(blocks)?;
    }
    if let Some(extra) = node.src(4) {
        ensure!(extra.dtype() == GGML_TYPE_I32 && extra.ne()[1..] == n[1..], "cells {:?} for {n:?}", extra.ne());
    }
    Ok(())
}

/// TOP_K_MASK: minus infinity everywhere, then the cells that the picks keep, then the extra cells.
pub fn top_k_mask(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mask, top_k, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let [score, blocks, extra] = [2, 3, 4].map(|i| node.src(i).map(View::of).transpose());
    let (score, blocks, extra) = (score?, blocks?, extra?);
    unary::fill(d, f32::NEG_INFINITY, plan)?;
    let picks = match (blocks, score) {
        (Some(blocks), _) => blocks.ne[1],
        (None, Some(score)) => score.ne[0],
        (None, None) => d.ne[0],
    };
    let bytes = d.dtype.type_size() as u32;
    let mut keep = |ids: View, score: Option<View>, blocks: Option<View>, picks: u32| {
        let width = blocks.map_or(1, |b| b.ne[0]);
        let g = grid(ids.ne[0] * width, d.n_rows(), plan.info)?;
        let constants = constants::TopKMask { score: score.is_some(), blocks: blocks.is_some(), bytes };
        let kernel = KernelFor::new("", g.size, &constants)?;
        let push = push::TopKMask {
            mask: mask.at,
            ids: ids.at,
            score: score.map_or(0, |s| s.at),
            blocks: blocks.map_or(0, |b| b.at),
            d: d.at,
            cells: d.ne[0],
            picks,
            width,
            k: ids.ne[0],
            n_rows: d.n_rows(),
            ne1: d.ne[1],
            ne2: d.ne[2],
            mask_ne: [mask.ne[1], mask.ne[2], mask.ne[3]],
            mask_nb: mask.nb123(),
            ids_nb: ids.nb123(),
            score_nb: score.map_or([0; 3], |s| s.nb123()),
            d_nb: d.nb123(),
        };
        let reads: Vec<_> = [Some(mask), Some(ids), score, blocks].into_iter().flatten().map(|v| v.range).collect();
        if ids.ne[0] * width > 0 {
            plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
        }
        Ok(())
    };
    keep(top_k, score, blocks, picks)?;
    extra.map_or(Ok(()), |extra| keep(extra, None, None, d.ne[0]))
}
