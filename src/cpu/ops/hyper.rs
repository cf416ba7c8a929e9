//! Hyper-connections (arXiv:2512.24880): mixing of residual streams.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Number of residual streams.
const STREAMS: usize = 4;

/// Normalises the rows, or the columns, of a matrix of streams to sum 1.
fn balance(m: &mut [f32; STREAMS * STREAMS], eps: f32, rows: bool) {
    for i in 0..STREAMS {
        let at = |j: usize| if rows { i * STREAMS + j } else { j * STREAMS + i };
        let factor = 1.0 / (eps + (0..STREAMS).map(|j| m[at(j)]).sum::<f32>());
        (0..STREAMS).for_each(|j| m[at(j)] *= factor);
    }
}

/// A doubly stochastic matrix for each token, by Sinkhorn iteration. Sources: mixes, scales, bases. Parameters:
/// epsilon, iterations.
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

/// Requires fitting types and shapes.
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

/// Weighted sum of the streams. Sources: streams `[n, streams, tokens]`, weights. Parameters: scale, whether each
/// element has its own weight, a gate.
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
                    vec::map(vec::Function::Sigmoid, &mut gates);
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

/// Requires fitting types and shapes.
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

/// Mixes the streams, and adds the weighted result of a layer to each. Sources: result `[n, tokens]`, streams, weights
/// of the result, mixing matrices (optional: without them, streams are not mixed).
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

/// Requires fitting types and shapes.
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

    use crate::cpu::tests::*;
    use crate::tensor::ops::hyper;

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
