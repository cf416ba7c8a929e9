//! Attention in one pass over keys and values, with the running maximum and sum of the soft maximum (arXiv:2112.05682,
//! arXiv:2205.14135).
//!
//! Work is cut into tiles of queries that share their keys (neighbouring positions, and the heads of a group); the tiles
//! depend on the shapes alone, so the result does not depend on the number of threads.

use super::super::check::{ensure, src};
use super::super::convert;
use super::super::rows::{Place, Writer};
use super::softmax::Slopes;
use super::{check_type, source};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Queries in a tile.
const QUERIES: usize = 32;
/// Keys that a tile looks at together.
const KEYS: usize = 64;

/// One query of a tile.
struct Query {
    head: usize,
    position: usize,
    slope: f32,
    max: f32,
    sum: f32,
    live: bool,
}

/// `softmax(q k^T * scale + mask) v`, written with heads before positions. Parameters: scale, largest bias, soft cap.
/// Sources: q, k, v, mask, sinks.
pub fn flash_attn_ext(w: &Worker<'_>, dst: TensorRef) {
    let (q, k, v) = (Place::of(source(dst, 0)), Place::of(source(dst, 1)), Place::of(source(dst, 2)));
    let (mask, sinks) = (dst.src(3).map(Place::of), dst.src(4).map(Place::of));
    let (mut scale, max_bias, cap) = (dst.op_param_f32(0), dst.op_param_f32(1), dst.op_param_f32(2));
    if cap != 0.0 {
        scale /= cap;
    }
    let slopes = Slopes::new(max_bias, q.ne[2]);
    let (dk, dv, n_keys) = (k.ne[0], v.ne[0], k.ne[1]);
    let (positions, heads) = (q.ne[1], q.ne[2]);
    // Heads that share both their keys and their values.
    let group = (heads / k.ne[2]).min(heads / v.ne[2]);
    let per_tile = (QUERIES / group).max(1);
    let tiles_per_group = positions.div_ceil(per_tile);
    let tiles = tiles_per_group * (heads / group) * q.ne[3];

    let mut out = Writer::new(dst);
    let mut queries: Vec<Query> = Vec::new();
    let mut q_rows = vec![0f32; group * per_tile * dk];
    let mut acc = vec![0f32; group * per_tile * dv];
    let mut scores = vec![0f32; group * per_tile * KEYS];
    let mut masks = [0f32; KEYS];
    let (mut k_rows, mut v_rows) = (vec![0f32; KEYS * dk], vec![0f32; KEYS * dv]);

    // Tiles at the end of a causal mask have more keys than those at its start, so they are handed out one by one.
    loop {
        let tile = w.next_chunk();
        if tile >= tiles {
            break;
        }
        let i3 = tile / (tiles_per_group * (heads / group));
        let first_head = tile / tiles_per_group % (heads / group) * group;
        let start = tile % tiles_per_group * per_tile;
        queries.clear();
        for position in start..(start + per_tile).min(positions) {
            for head in first_head..first_head + group {
                let at = queries.len() * dk;
                q.load([position, head, i3], 0, &mut q_rows[at..at + dk]);
                queries.push(Query {
                    head,
                    position,
                    slope: slopes.of(head),
                    max: f32::NEG_INFINITY,
                    sum: 0.0,
                    live: false,
                });
            }
        }
        acc.fill(0.0);
        let (k2, k3) = (first_head / (heads / k.ne[2]), i3 / (q.ne[3] / k.ne[3]));
        let (v2, v3) = (first_head / (heads / v.ne[2]), i3 / (q.ne[3] / v.ne[3]));

        for first_key in (0..n_keys).step_by(KEYS) {
            let n = KEYS.min(n_keys - first_key);
            // Masks first: where nobody looks, keys need not be read.
            let mut any = false;
            let mut last: Option<usize> = None;
            for (i, query) in queries.iter_mut().enumerate() {
                let Some(mask) = mask else {
                    query.live = true;
                    any = true;
                    scores[i * KEYS..][..n].fill(0.0);
                    continue;
                };
                let head = if mask.ne[2] == 1 { 0 } else { query.head };
                if last != Some(query.position) || head != 0 {
                    let row = [query.position, query.head % mask.ne[2], i3 % mask.ne[3]];
                    mask.load(row, first_key, &mut masks[..n]);
                    last = Some(query.position);
                }
                query.live = masks[..n].iter().any(|&m| m != f32::NEG_INFINITY);
                any |= query.live;
                let bias = &mut scores[i * KEYS..][..n];
                bias.copy_from_slice(&masks[..n]);
                if query.slope != 1.0 {
                    vec::scale(bias, query.slope);
                }
            }
            if !any {
                continue;
            }
            for j in 0..n {
                k.load([first_key + j, k2, k3], 0, &mut k_rows[j * dk..][..dk]);
                v.load([first_key + j, v2, v3], 0, &mut v_rows[j * dv..][..dv]);
            }
            for (i, query) in queries.iter_mut().enumerate().filter(|(_, q)| q.live) {
                let q_row = &q_rows[i * dk..][..dk];
                let s = &mut scores[i * KEYS..][..n];
                for (s, key) in s.iter_mut().zip(k_rows.chunks_exact(dk)) {
                    if *s == f32::NEG_INFINITY {
                        continue;
                    }
                    let mut x = vec::dot(q_row, key) * scale;
                    if cap != 0.0 {
                        x = cap * x.tanh();
                    }
                    *s += x;
                }
                let top = vec::max(s);
                if top == f32::NEG_INFINITY {
                    continue;
                }
                let acc = &mut acc[i * dv..][..dv];
                if top > query.max {
                    let shrink = (query.max - top).exp();
                    vec::scale(acc, shrink);
                    query.sum *= shrink;
                    query.max = top;
                }
                query.sum += vec::exp_shifted(s, query.max) as f32;
                for (&p, value) in s.iter().zip(v_rows.chunks_exact(dv)) {
                    if p != 0.0 {
                        vec::axpy(acc, p, value);
                    }
                }
            }
        }
        for (i, query) in queries.iter_mut().enumerate() {
            let acc = &mut acc[i * dv..][..dv];
            if let Some(sinks) = sinks {
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
}

/// Queries in single precision, keys and values of any readable format, heads in whole groups, a mask of half precision
/// that covers all positions and keys.
pub fn check_flash_attn_ext(node: TensorRef) -> Result<()> {
    let (q, k, v) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    check_type(q, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    for t in [k, v] {
        ensure!(convert::readable(t.dtype()) && t.dtype() != GGML_TYPE_I32, "keys or values of {:?}", t.dtype());
        ensure!(Place::of(t).has_dense_rows(), "rows of '{}' have gaps", t.name());
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
