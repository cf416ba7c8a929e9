//! Windows of images, relative positions (arXiv:2304.02643), and the mixing of residual streams.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::super::convert;
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// An image cut into windows, with zeros at the edges. Parameters: windows across, windows down, their size.
pub fn win_part(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let across = node.op_param_i32(0) as usize;
    let size = node.op_param_i32(2) as usize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row @ [i1, i2, i3] in rows(w, &out) {
        let (x1, x2) = (i3 % across * size + i1, i3 / across * size + i2);
        if x1 >= x.ne[1] || x2 >= x.ne[2] {
            out.row(row, |y| y.fill(0.0));
        } else {
            let x = x.row([x1, x2, 0]);
            out.row(row, |y| y.copy_from_slice(x));
        }
    }
}

/// Shapes fit.
pub fn check_win_part(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let p = |i| i64::from(node.op_param_i32(i));
    ensure!(p(0) > 0 && p(1) > 0 && p(2) > 0, "windows {} x {} of {}", p(0), p(1), p(2));
    ensure!(s.ne()[0] == node.ne()[0] && s.ne()[3] == 1 && node.ne()[3] == p(0) * p(1), "{:?}", node.ne());
    Ok(())
}

/// Windows put together to an image. Parameter 0: their size.
pub fn win_unpart(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let size = node.op_param_i32(0) as usize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    let across = out.ne[1].div_ceil(size);
    for row @ [i1, i2, _] in rows(w, &out) {
        let x = x.row([i1 % size, i2 % size, i2 / size * across + i1 / size]);
        out.row(row, |y| y.copy_from_slice(x));
    }
}

/// Shapes fit.
pub fn check_win_unpart(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let size = i64::from(node.op_param_i32(0));
    ensure!(size > 0 && s.ne()[1] >= size && s.ne()[2] >= size, "windows of {size} in {:?}", s.ne());
    let (n, s) = (node.ne(), s.ne());
    let windows = (n[1] + size - 1) / size * ((n[2] + size - 1) / size);
    ensure!(s[0] == n[0] && s[3] >= windows && n[3] == 1, "{s:?} into {n:?}");
    Ok(())
}

/// Rows of a table by the distance of two positions.
pub fn get_rel_pos(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let s = node.source(0);
    for row @ [i1, i2, _] in rows(w, &d) {
        let from = [d.ne[1] - i1 - 1 + i2, 0, 0];
        (0..d.ne[0]).for_each(|i| d.set::<u16>(i, row, s.get(i, from)));
    }
}

/// 16-bit floats, whose bits are copied: a brain-float table gives a node of its bits, though the constructor calls it half
/// precision, as in the original. A row for each distance.
pub fn check_get_rel_pos(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    for t in [s, node] {
        ensure!(matches!(t.dtype(), GGML_TYPE_F16 | GGML_TYPE_BF16), "a table of {:?}", t.dtype());
    }
    let (n, s) = (node.ne(), s.ne());
    ensure!(n[0] == s[0] && s[1] >= n[1] + n[2] - 1 && n[3] == 1, "{s:?} into {n:?}");
    Ok(())
}

/// Scores of positions in a window, plus one part for the row and one for the column that they differ by.
pub fn add_rel_pos(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let s = node.source(0);
    let (mut across, mut down) = (Reader::new(node.source(1), &d), Reader::new(node.source(2), &d));
    let width = across.ne[0];
    let per_window = across.ne[1] * across.ne[2];
    let mut out = Writer::new(d);
    for r in w.share(out.nrows()) {
        let (window, query) = (r / per_window, r % per_window);
        let at = [query % across.ne[1], query / across.ne[1], window];
        let (x, y) = (across.row(at), down.row(at));
        let row = out.row_index(r);
        out.row(row, |out| {
            s.load(row, 0, out);
            for (out, y) in out.chunks_exact_mut(width).zip(y) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += x + y);
            }
        });
    }
}

/// Scores `[width * width, positions, windows]`, parts `[width, w, h, windows]`.
pub fn check_add_rel_pos(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let (a, b) = (src(node, 1)?, src(node, 2)?);
    check_type(a, GGML_TYPE_F32)?;
    check_type(b, GGML_TYPE_F32)?;
    let (x, n) = (a.ne(), node.ne());
    ensure!(a.same_shape(b) && n[0] == x[0] * x[0] && node.nrows() == x[1] * x[2] * x[3], "{n:?} with {x:?}");
    ensure!(node.is_contiguous(), "not dense");
    Ok(())
}

/// Which keys a query should look at: for each key the sum over heads of weight * relu(q k), plus a mask. Sources: q `[d, heads,
/// tokens, streams]`, k `[d, 1, keys, streams]`, weights `[heads, tokens, 1, streams]`, mask.
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
                    .map(|h| {
                        vec::dot(q.row([h, token, stream]), k).max(0.0) * weights.get::<f32>(h, [token, 0, stream])
                    })
                    .sum();
                let mask = convert::f16(mask.get(key, [token, 0, stream % mask.ne[3]]));
                d.set(key, [token, 0, stream], score + mask);
            }
        }
    }
}

/// Shapes fit.
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

/// Residual streams.
const STREAMS: usize = 4;

/// Rows, or columns, of a matrix of streams to sum 1.
fn balance(m: &mut [f32; STREAMS * STREAMS], eps: f32, rows: bool) {
    for i in 0..STREAMS {
        let at = |j: usize| if rows { i * STREAMS + j } else { j * STREAMS + i };
        let factor = 1.0 / (eps + (0..STREAMS).map(|j| m[at(j)]).sum::<f32>());
        (0..STREAMS).for_each(|j| m[at(j)] *= factor);
    }
}

/// A doubly stochastic matrix for each token, by Sinkhorn's iteration. Sources: mixes, scales, bases; parameters: epsilon, iterations.
pub fn dsv4_hc_comb(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (mixes, scale, base) = (node.source(0), node.source(1), node.source(2));
    let (eps, iterations) = (node.op_param_f32(0), node.op_param_i32(1));
    let scale = scale.get::<f32>(2, [0; 3]);
    for token in w.share(d.ne[2]) {
        let mut m = [0f32; STREAMS * STREAMS];
        for (i, row) in m.chunks_exact_mut(STREAMS).enumerate() {
            for (j, v) in row.iter_mut().enumerate() {
                let at = 2 * STREAMS + i * STREAMS + j;
                *v = mixes.get::<f32>(at, [token, 0, 0]) * scale + base.get::<f32>(at, [0; 3]);
            }
            let max = vec::max(row);
            row.iter_mut().for_each(|v| *v = (*v - max).exp());
            let factor = 1.0 / row.iter().sum::<f32>();
            row.iter_mut().for_each(|v| *v = *v * factor + eps);
        }
        balance(&mut m, eps, false);
        for _ in 1..iterations {
            balance(&mut m, eps, true);
            balance(&mut m, eps, false);
        }
        m.iter().enumerate().for_each(|(i, &v)| d.set(i % STREAMS, [i / STREAMS, token, 0], v));
    }
}

/// Shapes fit.
pub fn check_dsv4_hc_comb(node: TensorRef) -> Result<()> {
    let (mixes, scale, base) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [node, mixes, scale, base] {
        check_type(t, GGML_TYPE_F32)?;
    }
    let (m, n) = (mixes.ne(), node.ne());
    ensure!(m[0] == 24 && n[0] == 4 && n[1] == 4 && n[2] == m[1], "{m:?} into {n:?}");
    ensure!(scale.ne()[0] >= 3 && base.ne()[0] == 24 && node.op_param_i32(1) > 0, "scales, bases or iterations");
    Ok(())
}

/// Streams weighted and added up. Sources: streams `[n, streams, tokens]`, weights; parameters: scale, whether weights are gates of
/// each element.
pub fn dsv4_hc_pre(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (mut x, weights) = (Reader::new(node.source(0), &d), node.source(1));
    let (scale, gated) = (node.op_param_f32(0), node.op_param_i32(1) != 0);
    let mut out = Writer::new(d);
    let streams = x.ne[1];
    let mut gates = vec![0f32; out.ne[0]];
    for row @ [token, ..] in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for stream in 0..streams {
                let x = x.row([stream, token, 0]);
                if gated {
                    weights.load([stream, token, 0], 0, &mut gates);
                    vec::sigmoid(&mut gates);
                    vec::mul(&mut gates, x);
                    vec::add(y, &gates);
                } else {
                    vec::axpy(y, weights.get::<f32>(stream, [token, 0, 0]), x);
                }
            }
            vec::scale(y, scale);
        });
    }
}

/// Shapes fit.
pub fn check_dsv4_hc_pre(node: TensorRef) -> Result<()> {
    let (x, weights) = (src(node, 0)?, src(node, 1)?);
    for t in [node, x, weights] {
        check_type(t, GGML_TYPE_F32)?;
    }
    let (x, w, n) = (x.ne(), weights.ne(), node.ne());
    let gated = node.op_param_i32(1) != 0;
    let fits = if gated { w[..3] == x[..3] } else { w[0] == x[1] && w[1] == x[2] };
    ensure!(fits && n[0] == x[0] && n[1] == x[2] && n[2] == 1 && n[3] == 1, "{x:?} by {w:?} into {n:?}");
    Ok(())
}

/// Streams mixed, and a layer's result added to each. Sources: result `[n, tokens]`, streams, weights of the result, matrices (or none:
/// streams stay themselves).
pub fn dsv4_hc_post(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (mut x, mut streams) = (Reader::new(node.source(0), &d), Reader::new(node.source(1), &d));
    let (weights, mix) = (node.source(2), node.try_source(3));
    let mut out = Writer::new(d);
    for row @ [stream, token, _] in rows(w, &out) {
        out.row(row, |y| {
            y.copy_from_slice(x.row([token, 0, 0]));
            vec::scale(y, weights.get::<f32>(stream, [token, 0, 0]));
            match mix {
                None => vec::add(y, streams.row([stream, token, 0])),
                Some(mix) => (0..streams.ne[1]).for_each(|from| {
                    vec::axpy(y, mix.get::<f32>(stream, [from, token, 0]), streams.row([from, token, 0]));
                }),
            }
        });
    }
}

/// Shapes fit.
pub fn check_dsv4_hc_post(node: TensorRef) -> Result<()> {
    let (x, streams, weights) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [node, x, streams, weights] {
        check_type(t, GGML_TYPE_F32)?;
    }
    let (x, s, w, n) = (x.ne(), streams.ne(), weights.ne(), node.ne());
    ensure!(s[0] == x[0] && s[2] == x[1] && n[..3] == s[..3] && n[3] == 1, "{x:?} and {s:?} into {n:?}");
    ensure!(w[0] == s[1] && w[1] == x[1], "weights {w:?}");
    if let Some(mix) = node.src(3) {
        check_type(mix, GGML_TYPE_F32)?;
        let m = mix.ne();
        ensure!(m[0] == s[1] && m[1] == s[1] && m[2] == x[1], "matrices {m:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::access::whole;
    use crate::cpu::tests::*;
    use crate::tensor::ops::{Place as Where, attention, hyper, windows};

    #[test]
    fn windows_of_an_image_and_back() {
        for (ne, w) in [([3, 10, 7, 1], 4), ([5, 8, 4, 1], 4), ([1, 3, 2, 1], 7)] {
            let mut c = ctx();
            let a = floats(&mut c, &ne, 1);
            let t = windows::win_part(&mut c, a, w).unwrap();
            let (x, side, across) = (read(a), i64::from(w), (ne[1] + i64::from(w) - 1) / i64::from(w));
            let want = indices(t.ne())
                .map(|[i0, i1, i2, i3]| at(&x, ne, [i0, i3 % across * side + i1, i3 / across * side + i2, 0]));
            near(&compute(t), want, 0.0);
            let t = windows::win_unpart(&mut c, t, ne[1] as i32, ne[2] as i32, w).unwrap();
            assert_eq!(compute(t), x);
        }
    }

    #[test]
    fn relative_positions() {
        let mut c = ctx();
        let table = tensor(&mut c, GGML_TYPE_F16, &[3, 9], 1);
        let t = windows::get_rel_pos(&mut c, table, 5, 5).unwrap();
        let x = read(table);
        near(&compute(t), indices(t.ne()).map(|[i0, i1, i2, _]| at(&x, table.ne(), [i0, 4 - i1 + i2, 0, 0])), 0.0);

        let table = tensor(&mut c, GGML_TYPE_BF16, &[3, 9], 1);
        let t = windows::get_rel_pos(&mut c, table, 5, 5).unwrap();
        compute(t);
        assert_eq!(
            (t.dtype(), whole::source(t).get::<u16>(1, [3, 2, 0])),
            (GGML_TYPE_F16, whole::source(table).get(1, [3, 0, 0]))
        );

        let (nw, ns) = ([5, 3, 4, 2], [25, 12, 2, 1]);
        let (a, w, h) = (floats(&mut c, &ns, 2), floats(&mut c, &nw, 3), floats(&mut c, &nw, 4));
        let t = windows::add_rel_pos(&mut c, a, w, h, Where::New).unwrap();
        let (av, wv, hv, got) = (read(a), read(w), read(h), compute(t));
        let want = indices(ns).map(|[i, q, b, _]| {
            let place = |k| [k, q % nw[1], q / nw[1], b];
            at(&av, ns, [i, q, b, 0]) + at(&wv, nw, place(i % nw[0])) + at(&hv, nw, place(i / nw[0]))
        });
        near(&got, want, 1e-6);
        let t = windows::add_rel_pos(&mut c, a, w, h, Where::Inplace).unwrap();
        compute_with(&nodes_of(t), 3, crate::cpu::exec::Abort::NEVER).unwrap();
        assert_eq!(read(a), got);
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

    #[test]
    fn mixing_matrices_are_nearly_doubly_stochastic() {
        let mut c = ctx();
        let tokens = 9;
        let (mixes, scale) = (floats(&mut c, &[24, tokens], 1), floats(&mut c, &[3], 2));
        let base = floats(&mut c, &[24], 3);
        let (mv, sv, bv) = (read(mixes), read(scale), read(base));
        for iterations in [1, 2, 20] {
            let t = hyper::comb(&mut c, mixes, scale, base, 1e-6, iterations).unwrap();
            let mut want = Vec::new();
            for token in 0..tokens {
                let mut m = [[0f64; 4]; 4];
                for (from, row) in m.iter_mut().enumerate() {
                    for (to, v) in row.iter_mut().enumerate() {
                        let i = 8 + from * 4 + to;
                        let x = at(&mv, mixes.ne(), [i as i64, token, 0, 0]);
                        *v = (x * f64::from(sv[2]) + f64::from(bv[i])).exp();
                    }
                    let sum: f64 = row.iter().sum();
                    row.iter_mut().for_each(|v| *v = *v / sum + 1e-6);
                }
                for i in 0..2 * iterations - 1 {
                    for a in 0..4 {
                        let sum: f64 = (0..4).map(|b| if i % 2 == 0 { m[b][a] } else { m[a][b] }).sum();
                        (0..4).for_each(|b| if i % 2 == 0 { m[b][a] /= sum + 1e-6 } else { m[a][b] /= sum + 1e-6 });
                    }
                }
                want.extend(m.into_iter().flatten());
            }
            near(&compute(t), want.into_iter(), 1e-5);
        }
    }

    #[test]
    fn streams_before_and_after_a_layer() {
        for (n, streams, tokens) in [(33, 4, 5), (1, 3, 1), (600, 2, 3)] {
            let mut c = ctx();
            let x = floats(&mut c, &[n, streams, tokens], 1);
            let (weights, gates) = (floats(&mut c, &[streams, tokens], 2), floats(&mut c, &[n, streams, tokens], 3));
            let (xv, wv, gv) = (read(x), read(weights), read(gates));
            let all = |f: &dyn Fn(i64) -> f64| (0..streams).map(f).sum::<f64>();
            let t = hyper::pre(&mut c, x, weights, hyper::Weights::Stream).unwrap();
            let want = indices(t.ne()).map(|[i, token, ..]| {
                all(&|s| at(&xv, x.ne(), [i, s, token, 0]) * at(&wv, weights.ne(), [s, token, 0, 0]))
            });
            near(&compute(t), want, 1e-6);
            let t = hyper::pre(&mut c, x, gates, hyper::Weights::Gated(0.7)).unwrap();
            let want = indices(t.ne()).map(|[i, token, ..]| {
                let gate = |s| 1.0 / (1.0 + (-at(&gv, x.ne(), [i, s, token, 0])).exp());
                f64::from(0.7f32) * all(&|s| at(&xv, x.ne(), [i, s, token, 0]) * gate(s))
            });
            near(&compute(t), want, 1e-6);

            let (y, mix) = (floats(&mut c, &[n, tokens], 4), floats(&mut c, &[streams, streams, tokens], 5));
            let (yv, mv) = (read(y), read(mix));
            for mixed in [Some(mix), None] {
                let t = hyper::post(&mut c, y, x, weights, mixed).unwrap();
                let want = indices(t.ne()).map(|[i, to, token, _]| {
                    let own = at(&yv, y.ne(), [i, token, 0, 0]) * at(&wv, weights.ne(), [to, token, 0, 0]);
                    own + match mixed {
                        None => at(&xv, x.ne(), [i, to, token, 0]),
                        Some(_) => {
                            all(&|from| at(&xv, x.ne(), [i, from, token, 0]) * at(&mv, mix.ne(), [to, from, token, 0]))
                        }
                    }
                });
                near(&compute(t), want, 1e-6);
            }
        }
    }
}
