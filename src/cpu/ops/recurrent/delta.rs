//! The gated delta rule.
#![forbid(unsafe_code)]

use super::{Aside, HeadRows, StateSets, check_dense, check_inputs, ensure, product, slices, src};
use crate::cpu::access::Dest;
use crate::cpu::checked::CheckedNode;
use crate::cpu::simd::kernels;
use crate::cpu::simd::recurrent::Token;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::sys::prefetch::prefetch;
use crate::tensor::TensorRef;

/// Gated delta rule (arXiv:2412.06464). Sources: q, k, v, gate, beta, states. Parameter 0: number of states to keep.
pub fn gated_delta_net(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (q, k, v, gate, beta, s0) = (p(0), p(1), p(2), p(3), p(4), p(5));
    let [n, heads, tokens, sequences] = v.ne;
    let (len, sets) = (n * n * heads * sequences, node.op_param_i32(0) as usize);
    let kept = StateSets { first: n * heads * tokens * sequences, len, sets, tokens };
    let scale = 1.0 / (n as f32).sqrt();
    let kernels = &kernels().recurrent;
    let (mut decay, mut aside) = (Vec::new(), Aside::default());
    let (all_q, all_k, all_v, all_gates) = (slices(&q), slices(&k), slices(&v), slices(&gate));
    for block in HeadRows::share(w, [heads, tokens, sequences], n, n) {
        let sequence = block.sequence;
        let part = block.range(sequence * heads, n, n);
        let start = s0.span(sequence * (s0.nb[3] / 4) + block.range(0, n, n).start, part.len());
        let [of_q, of_k] = [&q, &k].map(|t| sequence / (sequences / t.ne[3]));
        let rows = &block.rows;
        for token in 0..tokens {
            let outputs = block.range((sequence * tokens + token) * heads, n, 1);
            let (states, y) = kept.step(&mut d, &mut aside, token, &part, start, outputs);
            let states = states.split(rows.len() * n).zip(y.chunks_exact_mut(rows.len()));
            for (head, (state, y)) in block.heads.clone().zip(states) {
                decay.clear();
                decay.extend_from_slice(all_gates.row([head, token, sequence]));
                vec::map(vec::Function::Exp, &mut decay);
                // Tokens are so far apart in memory that the processor does not foresee the next ones.
                let later = (token + 2).min(tokens - 1);
                for x in [
                    &all_v.row([head, later, sequence])[rows.clone()],
                    all_k.row([head % k.ne[1], later, of_k]),
                    all_q.row([head % q.ne[1], later, of_q]),
                ] {
                    prefetch(x.as_ptr().cast(), size_of_val(x));
                }
                let inputs = Token {
                    decay: &decay,
                    v: &all_v.row([head, token, sequence])[rows.clone()],
                    beta: beta.get(0, [head, token, sequence]),
                    k: all_k.row([head % k.ne[1], token, of_k]),
                    q: all_q.row([head % q.ne[1], token, of_q]),
                };
                kernels.delta_rule(state, y, inputs, scale);
            }
        }
    }
}

/// Requires fitting types and shapes.
pub fn check_gated_delta_net(node: TensorRef) -> Result<()> {
    check_inputs(node, 6)?;
    check_dense(node, 3..6)?;
    let s = |i| src(node, i).map(TensorRef::ne);
    let (q, k, v, gate, beta, s0) = (s(0)?, s(1)?, s(2)?, s(3)?, s(4)?, s(5)?);
    let kept = i64::from(node.op_param_i32(0));
    ensure!(kept >= 1, "{kept} states kept");
    for t in [q, k] {
        ensure!(t[0] == v[0] && t[1] > 0 && t[2] >= v[2] && t[3] > 0 && v[3] % t[3] == 0, "{t:?} for {v:?}");
    }
    ensure!((gate[0] == 1 || gate[0] == v[0]) && gate[1..] == v[1..], "gate {gate:?} for {v:?}");
    ensure!(beta[0] == 1 && beta[1..] == v[1..], "beta {beta:?} for {v:?}");
    let state = product(&[v[0], v[0], v[1]]);
    ensure!(product(&s0) >= product(&[state, v[3]]) && s0[3] == v[3], "states {s0:?} for {v:?}");
    ensure!(product(&s0[..3]) >= state, "states {s0:?} for {v:?}");
    let all = product(&v).saturating_add(product(&[state, v[3], kept]));
    ensure!(node.nelements() >= all, "a result of {}", node.nelements());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cpu::tests::*;
    use crate::tensor::ops::recurrent::{self, DeltaNet};

    #[test]
    fn the_gated_delta_rule_with_snapshots() {
        for (n, heads, key_heads, tokens, kept, each) in [
            (5, 4, 2, 6, 1, false),
            (5, 4, 2, 6, 3, true),
            (1, 1, 1, 1, 1, true),
            (64, 2, 2, 3, 2, false),
            (33, 3, 1, 2, 5, true),
            (100, 2, 1, 5, 2, false),
            (128, 2, 2, 3, 1, true),
        ] {
            let mut c = ctx();
            let sequences = 2;
            let src = DeltaNet {
                q: floats(&mut c, &[n, key_heads, tokens, sequences], 1),
                k: floats(&mut c, &[n, key_heads, tokens, 1], 2),
                v: floats(&mut c, &[n, heads, tokens, sequences], 3),
                g: floats(&mut c, &[if each { n } else { 1 }, heads, tokens, sequences], 4),
                beta: floats(&mut c, &[1, heads, tokens, sequences], 5),
                state: floats(&mut c, &[n, n, heads, sequences], 6),
            };
            write(src.k, &read(src.k).iter().map(|x| x / (n as f32).sqrt()).collect::<Vec<_>>());
            write(src.g, &read(src.g).iter().map(|x| -x.abs()).collect::<Vec<_>>());
            let t = recurrent::gated_delta_net(&mut c, &src, kept).unwrap();
            let [q, k, v, g, beta, state] = [src.q, src.k, src.v, src.g, src.beta, src.state].map(read);
            let outputs = (n * heads * tokens * sequences) as usize;
            // Snapshots from before the first token are not written.
            write(t, &vec![0.0; t.nelements() as usize]);
            let mut want = vec![0f64; t.nelements() as usize];
            for [h, s, ..] in indices([heads, sequences, 1, 1]) {
                // m[j][i]: row of output j.
                let mut m: Vec<Vec<f64>> =
                    (0..n).map(|j| (0..n).map(|i| at(&state, src.state.ne(), [i, j, h, s])).collect()).collect();
                for token in 0..tokens {
                    let key = |i: i64| at(&k, src.k.ne(), [i, h % key_heads, token, 0]);
                    let query = |i: i64| at(&q, src.q.ne(), [i, h % key_heads, token, s]);
                    for j in 0..n {
                        let row = &mut m[j as usize];
                        for i in 0..n {
                            row[i as usize] *= at(&g, src.g.ne(), [if each { i } else { 0 }, h, token, s]).exp();
                        }
                        let known: f64 = (0..n).map(|i| row[i as usize] * key(i)).sum();
                        let delta =
                            (at(&v, src.v.ne(), [j, h, token, s]) - known) * at(&beta, src.beta.ne(), [0, h, token, s]);
                        (0..n).for_each(|i| row[i as usize] += delta * key(i));
                        let y: f64 = (0..n).map(|i| row[i as usize] * query(i)).sum();
                        want[(((s * tokens + token) * heads + h) * n + j) as usize] = y / (n as f64).sqrt();
                    }
                    let back = tokens - 1 - token;
                    if back < kept {
                        let first = outputs + (((back * sequences + s) * heads + h) * n * n) as usize;
                        let all: Vec<f64> = m.iter().flatten().copied().collect();
                        want[first..first + all.len()].copy_from_slice(&all);
                    }
                }
            }
            near(&compute(t), want.into_iter(), 1e-5);
        }
    }
}
