//! Recurrences with a square matrix as the state of each head: RWKV and gated linear attention.
#![forbid(unsafe_code)]

use super::{Aside, HeadRows, StateSets, check_dense, check_inputs, ensure, product, src};
use crate::cpu::Worker;
use crate::cpu::access::{Apart, Dest};
use crate::cpu::checked::CheckedNode;
use crate::cpu::simd::kernels;
use crate::cpu::simd::recurrent::HeadState;
use crate::error::Result;
use crate::sys::prefetch::prefetch;
use crate::tensor::TensorRef;

/// Sizes and states of a node.
struct Matrices<'a> {
    tokens: usize,
    heads: usize,
    size: usize,
    sequences: usize,
    states: Apart<'a>,
    out: Dest<'a>,
}

impl<'a> Matrices<'a> {
    /// Sizes of a node: source 1 has the heads and tokens, and source `states` has the sequences.
    fn of(node: CheckedNode<'a>, out: Dest<'a>, states: usize) -> Self {
        let (shape, states) = (node.source(1), node.source(states).apart(&out));
        let heads = shape.ne[1];
        Self { tokens: shape.ne[2], heads, size: out.ne[0] / heads, sequences: states.ne[1], states, out }
    }

    /// Numbers between the inputs of a token and those of the token after the next.
    fn ahead(&self) -> usize {
        2 * self.heads * self.size
    }

    /// For each token of this thread's heads, calls `f` with the state, the head, the offset of the token's inputs, and
    /// its output.
    fn run(&mut self, w: &Worker<'_>, f: impl Fn(HeadState<'_>, usize, usize, &mut [f32])) {
        let (n, width) = (self.size, self.heads * self.size);
        let tokens = self.tokens / self.sequences;
        let kept = StateSets { first: width * self.tokens, len: self.states.len(), sets: 1, tokens };
        let starts = self.states.span(0, self.states.len());
        let mut aside = Aside::default();
        // The kernels of some operations need whole states.
        for block in HeadRows::share(w, [self.heads, tokens, self.sequences], 1, n * n) {
            let part = block.range(block.sequence * self.heads, 1, n * n);
            let start = &starts[part.clone()];
            if tokens == 0 {
                self.out.span_mut(kept.first + part.start, part.len()).copy_from_slice(start);
            }
            for token in 0..tokens {
                let outputs = block.range((block.sequence * tokens + token) * self.heads, 1, n);
                let first = outputs.start;
                let (states, y) = kept.step(&mut self.out, &mut aside, token, &part, start, outputs);
                for (i, (state, y)) in states.split(n * n).zip(y.chunks_exact_mut(n)).enumerate() {
                    f(state, block.heads.start + i, first + i * n, y);
                }
            }
        }
    }
}

fn check_matrices(node: TensorRef, inputs: &[usize], states: usize) -> Result<()> {
    check_inputs(node, states + 1)?;
    check_dense(node, 0..=states)?;
    let (shape, states, n) = (src(node, 1)?.ne(), src(node, states)?, node.ne());
    let (heads, tokens, sequences) = (shape[1], shape[2], states.ne()[1]);
    ensure!(heads > 0 && n[0] % heads == 0 && sequences > 0 && tokens % sequences == 0, "{shape:?} into {n:?}");
    let size = n[0] / heads;
    let outputs = product(&[n[0], tokens]);
    ensure!(states.nelements() == product(&[size, size, heads, sequences]), "{} numbers of state", states.nelements());
    ensure!(node.nelements() == outputs.saturating_add(states.nelements()), "a result of {}", node.nelements());
    for &i in inputs {
        ensure!(src(node, i)?.nelements() == outputs, "source {i} has {:?}", src(node, i)?.ne());
    }
    Ok(())
}

/// The numbers of dense sources.
fn numbers<'a, const N: usize>(node: CheckedNode<'a>, d: &Dest<'_>, sources: [usize; N]) -> [&'a [f32]; N] {
    sources.map(|i| {
        let source = node.source(i).apart(d);
        source.span(0, source.len())
    })
}

/// The `n` inputs at `at`. Those `ahead`, of a later token, are loaded into the cache: tokens are so far apart in
/// memory that the processor does not foresee it.
fn token_of(x: &[f32], at: usize, n: usize, ahead: usize) -> &[f32] {
    prefetch(x.as_ptr().wrapping_add(at + ahead).cast(), n * size_of::<f32>());
    &x[at..at + n]
}

/// RWKV-6 (arXiv:2404.05892). Sources: k, v, r, bonus, decay, states.
pub fn rwkv_wkv6(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let kernels = &kernels().recurrent;
    let [inputs @ .., bonus] = numbers(node, &d, [0, 1, 2, 4, 3]);
    let mut m = Matrices::of(node, d, 5);
    let n = m.size;
    let ahead = m.ahead();
    m.run(w, |state, head, at, y| {
        let [k, v, r, decay] = inputs.map(|x| token_of(x, at, n, ahead));
        kernels.wkv6(state, y, [k, v, r, &bonus[head * n..(head + 1) * n], decay]);
    });
}

/// Requires fitting types and shapes.
pub fn check_rwkv_wkv6(node: TensorRef) -> Result<()> {
    check_matrices(node, &[0, 1, 2, 4], 5)?;
    ensure!(src(node, 3)?.nelements() == node.ne()[0], "a bonus of {:?}", src(node, 3)?.ne());
    Ok(())
}

/// Gated linear attention (arXiv:2312.06635). Sources: k, v, q, gate, states. Parameter 0: scale.
pub fn gated_linear_attn(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let kernels = &kernels().recurrent;
    let inputs = numbers(node, &d, [0, 1, 2, 3]);
    let scale = node.op_param_f32(0);
    let mut m = Matrices::of(node, d, 4);
    let n = m.size;
    let ahead = m.ahead();
    m.run(w, |state, _, at, y| kernels.linear(state, y, inputs.map(|x| token_of(x, at, n, ahead)), scale));
}

/// Requires fitting types and shapes.
pub fn check_gated_linear_attn(node: TensorRef) -> Result<()> {
    check_matrices(node, &[0, 1, 2, 3], 4)
}

/// RWKV-7 (arXiv:2503.14456). Sources: r, decay, k, v, a, b, states.
pub fn rwkv_wkv7(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let kernels = &kernels().recurrent;
    let inputs = numbers(node, &d, [0, 1, 2, 3, 4, 5]);
    let mut m = Matrices::of(node, d, 6);
    let n = m.size;
    let ahead = m.ahead();
    m.run(w, |state, _, at, y| kernels.wkv7(state, y, inputs.map(|x| token_of(x, at, n, ahead))));
}

/// Requires fitting types and shapes.
pub fn check_rwkv_wkv7(node: TensorRef) -> Result<()> {
    check_matrices(node, &[0, 1, 2, 3, 4, 5], 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::*;
    use crate::tensor::ops::recurrent;

    /// Inputs [size, heads, tokens] and states, in double precision.
    struct Linear {
        size: i64,
        heads: i64,
        tokens: i64,
        sequences: i64,
    }

    impl Linear {
        /// Computes outputs and states with a function for each token: (state[i][j], offset of the token's inputs,
        /// head) -> output.
        fn run(&self, state: &[f32], step: impl Fn(&mut [Vec<f64>], usize, usize) -> Vec<f64>) -> Vec<f64> {
            let n = self.size as usize;
            let width = n * self.heads as usize;
            let mut want = vec![0f64; width * self.tokens as usize];
            let mut states = Vec::new();
            let per = (self.tokens / self.sequences) as usize;
            for (s, head) in (0..self.sequences as usize).flat_map(|s| (0..self.heads as usize).map(move |h| (s, h))) {
                let first = (s * self.heads as usize + head) * n * n;
                let mut m: Vec<Vec<f64>> = state[first..first + n * n]
                    .chunks_exact(n)
                    .map(|r| r.iter().map(|&x| x.into()).collect())
                    .collect();
                for token in s * per..(s + 1) * per {
                    let place = token * width + head * n;
                    want[place..place + n].copy_from_slice(&step(&mut m, place, head));
                }
                states.extend(m.into_iter().flatten());
            }
            want.extend(states);
            want
        }
    }

    #[test]
    fn linear_recurrences() {
        for l in [
            Linear { size: 5, heads: 3, tokens: 8, sequences: 2 },
            Linear { size: 1, heads: 1, tokens: 1, sequences: 1 },
            Linear { size: 64, heads: 2, tokens: 3, sequences: 3 },
            Linear { size: 33, heads: 9, tokens: 4, sequences: 1 },
            Linear { size: 70, heads: 2, tokens: 3, sequences: 1 },
        ] {
            let mut c = ctx();
            let n = l.size as usize;
            let t: [TensorRef; 6] = [1, 2, 3, 4, 5, 6].map(|seed| floats(&mut c, &[l.size, l.heads, l.tokens], seed));
            let (bonus, state) =
                (floats(&mut c, &[l.size, l.heads], 7), floats(&mut c, &[l.size * l.size * l.heads, l.sequences], 8));
            let x = t.map(|t| read(t).into_iter().map(f64::from).collect::<Vec<_>>());
            let (bv, sv) = (read(bonus), read(state));

            let node = recurrent::rwkv_wkv6(&mut c, [t[0], t[1], t[2]], bonus, t[3], state).unwrap();
            let want = l.run(&sv, |m, place, head| {
                let mut y = vec![0.0; n];
                for i in 0..n {
                    for j in 0..n {
                        let kv = x[0][place + i] * x[1][place + j];
                        y[j] += x[2][place + i] * (f64::from(bv[head * n + i]) * kv + m[i][j]);
                        m[i][j] = m[i][j] * x[3][place + i] + kv;
                    }
                }
                y
            });
            near(&compute(node), want.into_iter(), 1e-4);

            let node = recurrent::gated_linear_attn(&mut c, [t[0], t[1], t[2]], t[3], state, 0.25).unwrap();
            let want = l.run(&sv, |m, place, _| {
                let mut y = vec![0.0; n];
                for i in 0..n {
                    for j in 0..n {
                        m[i][j] = m[i][j] * x[3][place + i] + x[0][place + i] * x[1][place + j];
                        y[j] += m[i][j] * x[2][place + i] * 0.25;
                    }
                }
                y
            });
            near(&compute(node), want.into_iter(), 1e-4);

            // Factors that keep the state small.
            for t in [t[4], t[5]] {
                write(t, &read(t).iter().map(|x| x / n as f32).collect::<Vec<_>>());
            }
            let x = t.map(|t| read(t).into_iter().map(f64::from).collect::<Vec<_>>());
            let node = recurrent::rwkv_wkv7(&mut c, [t[0], t[1], t[2], t[3]], t[4], t[5], state).unwrap();
            let want = l.run(&sv, |m, place, _| {
                m.iter_mut()
                    .enumerate()
                    .map(|(i, row)| {
                        let along: f64 = (0..n).map(|j| x[4][place + j] * row[j]).sum();
                        for j in 0..n {
                            row[j] =
                                row[j] * x[1][place + j] + x[3][place + i] * x[2][place + j] + along * x[5][place + j];
                        }
                        (0..n).map(|j| row[j] * x[0][place + j]).sum()
                    })
                    .collect()
            });
            near(&compute(node), want.into_iter(), 1e-4);
        }
    }

    #[test]
    fn sequences_that_do_not_share_the_tokens_are_refused() {
        let mut c = ctx();
        let k = floats(&mut c, &[4, 2, 5], 1);
        let (bonus, state) = (floats(&mut c, &[4, 2], 2), floats(&mut c, &[32, 2], 3));
        let t = recurrent::rwkv_wkv6(&mut c, [k; 3], bonus, k, state).unwrap();
        assert!(check_rwkv_wkv6(t).is_err());
    }
}
