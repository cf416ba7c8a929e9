//! Recurrences over the tokens of a sequence: state-space models, RWKV, gated linear attention, the gated delta rule. The result of a
//! node has the outputs, then the states after the last token. Heads are independent, so they are divided between threads.
#![forbid(unsafe_code)]

use super::super::access::{Apart, Dest, Layout, RowIndex};
use super::super::check::{CheckedNode, ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

/// Requires single precision, a dense node, and contiguous rows of the first `n` sources.
fn check_inputs(node: TensorRef, n: usize) -> Result<()> {
    check_type(node, GGML_TYPE_F32)?;
    ensure!(node.is_contiguous(), "a result with gaps");
    for i in 0..n {
        let s = src(node, i)?;
        check_type(s, GGML_TYPE_F32)?;
        ensure!(s.nb()[0] == 4 || s.ne()[0] == 1, "source {i} has rows with gaps");
    }
    Ok(())
}

fn check_dense(node: TensorRef, which: impl IntoIterator<Item = usize>) -> Result<()> {
    for i in which {
        ensure!(src(node, i)?.is_contiguous(), "source {i} is not dense");
    }
    Ok(())
}

/// Convolution of each channel over the last tokens. Sources: channels `[width - 1 + tokens, channels, sequences]`, weights `[width,
/// channels]`.
pub fn ssm_conv(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (x, c) = (node.source(0).apart(&d), node.source(1).apart(&d));
    let width = c.ne[0];
    for channel in w.share(d.ne[0]) {
        let weights = c.row::<f32>([channel, 0, 0]);
        for sequence in 0..d.ne[2] {
            let x = x.row::<f32>([channel, sequence, 0]);
            for token in 0..d.ne[1] {
                let sum: f32 = x[token..token + width].iter().zip(weights).map(|(x, w)| x * w).sum();
                d.set(channel, [token, sequence, 0], sum);
            }
        }
    }
}

/// Requires fitting types and shapes.
pub fn check_ssm_conv(node: TensorRef) -> Result<()> {
    check_inputs(node, 2)?;
    let (x, c, n) = (src(node, 0)?.ne(), src(node, 1)?.ne(), node.ne());
    ensure!(c[0] > 0 && x[0] >= c[0] - 1 + n[1] && x[1] == n[0] && c[1] == n[0] && x[2] == n[2], "{x:?} by {c:?}");
    ensure!(n[3] == 1, "{n:?}");
    Ok(())
}

fn softplus(x: f32) -> f32 {
    if x <= 20.0 { x.exp().ln_1p() } else { x }
}

/// Selective scan (Mamba and Mamba-2). Sources: states, x, dt, A, B, C, indices of the states. Parameter 0: number of states to keep.
pub fn ssm_scan(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (s0, x, dt, a, b, c, ids) = (p(0), p(1), p(2), p(3), p(4), p(5), p(6));
    let (n_state, dim, heads, groups) = (s0.ne[0], s0.ne[1], x.ne[1], b.ne[1]);
    let (tokens, sequences) = (x.ne[2], x.ne[3]);
    let kept = node.op_param_i32(0) as usize;
    let per_state = n_state * dim * heads;
    let mut state = vec![0f32; n_state * dim];
    let mut decays = vec![0f32; a.ne[0]];
    for sequence in 0..sequences {
        let id = ids.get::<i32>(sequence, [0; 3]);
        let Some(id) = usize::try_from(id).ok().filter(|&id| id < s0.ne[3]) else {
            return w.fail(invalid!("'{}': state {id} of {}", node.name(), s0.ne[3]));
        };
        for head in w.share(heads) {
            for (i1, row) in state.chunks_exact_mut(n_state).enumerate() {
                row.copy_from_slice(s0.row::<f32>([i1, head, id]));
            }
            let group = head / (heads / groups);
            for token in 0..tokens {
                let step = softplus(dt.get::<f32>(head, [token, sequence, 0]));
                let (b, c) = (b.row::<f32>([group, token, sequence]), c.row::<f32>([group, token, sequence]));
                let x = x.row::<f32>([head, token, sequence]);
                let y = d.span_mut::<f32>(((sequence * tokens + token) * heads + head) * dim, dim);
                let a = a.row::<f32>([head, 0, 0]);
                decays.iter_mut().zip(a).for_each(|(decay, a)| *decay = (step * a).exp());
                if let [decay] = decays[..] {
                    vec::scale(&mut state, decay);
                } else {
                    state.chunks_exact_mut(n_state).for_each(|state| vec::mul(state, &decays));
                }
                for ((y, x), state) in y.iter_mut().zip(x).zip(state.chunks_exact_mut(n_state)) {
                    vec::axpy(state, x * step, b);
                    *y = vec::dot(state, c);
                }
                // Keeps the last states, the newest first.
                let back = tokens - 1 - token;
                if back < kept {
                    let at = x_len(&d, per_state, kept, sequences) + (back * sequences + sequence) * per_state;
                    d.span_mut::<f32>(at + head * n_state * dim, n_state * dim).copy_from_slice(&state);
                }
            }
        }
    }
}

/// Offset of the states in a result.
fn x_len(d: &Layout, per_state: usize, kept: usize, sequences: usize) -> usize {
    d.len() - per_state * kept * sequences
}

/// Requires fitting types and shapes.
pub fn check_ssm_scan(node: TensorRef) -> Result<()> {
    check_inputs(node, 6)?;
    let s = |i| src(node, i).map(TensorRef::ne);
    let (s0, x, dt, a, b, c) = (s(0)?, s(1)?, s(2)?, s(3)?, s(4)?, s(5)?);
    let ids = src(node, 6)?;
    check_type(ids, GGML_TYPE_I32)?;
    let kept = i64::from(node.op_param_i32(0));
    ensure!(kept >= 1 && (kept == 1 || a[0] == 1), "{kept} states kept");
    ensure!(s0[1] == x[0] && s0[2] == x[1] && ids.ne()[0] >= x[3], "states {s0:?} for {x:?}");
    ensure!(dt[0] == x[1] && dt[1] == x[2] && dt[2] == x[3], "steps {dt:?} for {x:?}");
    ensure!((a[0] == 1 || a[0] == s0[0]) && a[1] == x[1], "decays {a:?} for {x:?}");
    ensure!(b == c && b[0] == s0[0] && b[1] > 0 && x[1] % b[1] == 0 && b[2..] == x[2..], "{b:?} and {c:?} for {x:?}");
    let states = s0[0] * s0[1] * s0[2] * x[3] * kept;
    ensure!(node.nelements() == x.iter().product::<i64>() + states, "a result of {} elements", node.nelements());
    Ok(())
}

/// A recurrence with a matrix as the state of each head: sizes and states.
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

    /// For each token of this thread's heads, calls `f` with the state, the offset of the token's inputs, and its output.
    fn run(&mut self, w: &Worker<'_>, f: impl Fn(&mut [f32], usize, usize, &mut [f32])) {
        let (n, width) = (self.size, self.heads * self.size);
        let per_sequence = self.tokens / self.sequences;
        for head in w.share(self.heads) {
            for sequence in 0..self.sequences {
                let from = (sequence * self.heads + head) * n * n;
                let state_at = width * self.tokens + from;
                self.out.span_mut::<f32>(state_at, n * n).copy_from_slice(self.states.span(from, n * n));
                for token in sequence * per_sequence..(sequence + 1) * per_sequence {
                    let at = token * width + head * n;
                    let [state, y] = self.out.spans_mut([state_at..state_at + n * n, at..at + n]);
                    f(state, head, at, y);
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
    ensure!(states.nelements() == size * size * heads * sequences, "{} numbers of state", states.nelements());
    ensure!(node.nelements() == n[0] * tokens + states.nelements(), "a result of {}", node.nelements());
    for &i in inputs {
        ensure!(src(node, i)?.nelements() == n[0] * tokens, "source {i} has {:?}", src(node, i)?.ne());
    }
    Ok(())
}

/// RWKV-6 (arXiv:2404.05892). Sources: k, v, r, bonus, decay, states.
pub fn rwkv_wkv6(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (k, v, r, bonus, decay) = (p(0), p(1), p(2), p(3), p(4));
    let mut m = Matrices::of(node, d, 5);
    let n = m.size;
    m.run(w, |state, head, at, y| {
        let [k, v, r, decay] = [&k, &v, &r, &decay].map(|t| t.span::<f32>(at, n));
        let bonus = bonus.span::<f32>(head * n, n);
        y.fill(0.0);
        for (i, row) in state.chunks_exact_mut(n).enumerate() {
            for ((s, y), v) in row.iter_mut().zip(y.iter_mut()).zip(v) {
                let kv = v * k[i];
                *y += (kv * bonus[i] + *s) * r[i];
                *s = *s * decay[i] + kv;
            }
        }
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
    let p = |i| node.source(i).apart(&d);
    let (k, v, q, gate) = (p(0), p(1), p(2), p(3));
    let scale = node.op_param_f32(0);
    let mut m = Matrices::of(node, d, 4);
    let n = m.size;
    m.run(w, |state, _, at, y| {
        let [k, v, q, gate] = [&k, &v, &q, &gate].map(|t| t.span::<f32>(at, n));
        y.fill(0.0);
        for (i, row) in state.chunks_exact_mut(n).enumerate() {
            let q = q[i] * scale;
            for ((s, y), v) in row.iter_mut().zip(y.iter_mut()).zip(v) {
                *s = *s * gate[i] + v * k[i];
                *y += *s * q;
            }
        }
    });
}

/// Requires fitting types and shapes.
pub fn check_gated_linear_attn(node: TensorRef) -> Result<()> {
    check_matrices(node, &[0, 1, 2, 3], 4)
}

/// RWKV-7 (arXiv:2503.14456). Sources: r, decay, k, v, a, b, states.
pub fn rwkv_wkv7(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (r, decay, k, v, a, b) = (p(0), p(1), p(2), p(3), p(4), p(5));
    let mut m = Matrices::of(node, d, 6);
    let n = m.size;
    m.run(w, |state, _, at, y| {
        let [r, decay, k, v, a, b] = [&r, &decay, &k, &v, &a, &b].map(|t| t.span::<f32>(at, n));
        for ((row, y), v) in state.chunks_exact_mut(n).zip(y).zip(v) {
            let along = vec::dot(a, row);
            vec::mul(row, decay);
            vec::axpy(row, *v, k);
            vec::axpy(row, along, b);
            *y = vec::dot(row, r);
        }
    });
}

/// Requires fitting types and shapes.
pub fn check_rwkv_wkv7(node: TensorRef) -> Result<()> {
    check_matrices(node, &[0, 1, 2, 3, 4, 5], 6)
}

/// Gated delta rule (arXiv:2412.06464). Sources: q, k, v, gate, beta, states. Parameter 0: number of states to keep.
pub fn gated_delta_net(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (q, k, v, gate, beta, s0) = (p(0), p(1), p(2), p(3), p(4), p(5));
    let [n, heads, tokens, sequences] = v.ne;
    let kept = node.op_param_i32(0) as usize;
    let scale = 1.0 / (n as f32).sqrt();
    let outputs = n * heads * tokens * sequences;
    let mut state = vec![0f32; n * n];
    let mut delta = vec![0f32; n];
    for i in w.share(heads * sequences) {
        let (head, sequence) = (i % heads, i / heads);
        let first = sequence * (s0.nb[3] / 4) + head * n * n;
        state.copy_from_slice(s0.span(first, n * n));
        for token in 0..tokens {
            let near = |t: &Apart<'_>| -> RowIndex { [head % t.ne[1], token, sequence / (sequences / t.ne[3])] };
            let (q, k) = (q.row::<f32>(near(&q)), k.row::<f32>(near(&k)));
            let v = v.row::<f32>([head, token, sequence]);
            let gate = gate.row::<f32>([head, token, sequence]);
            let beta = beta.get::<f32>(0, [head, token, sequence]);
            if gate.len() == 1 {
                vec::scale(&mut state, gate[0].exp());
            } else {
                delta.iter_mut().zip(gate).for_each(|(d, g)| *d = g.exp());
                state.chunks_exact_mut(n).for_each(|row| vec::mul(row, &delta));
            }
            for ((row, delta), v) in state.chunks_exact_mut(n).zip(&mut delta).zip(v) {
                *delta = (v - vec::dot(row, k)) * beta;
                vec::axpy(row, *delta, k);
            }
            let y = d.span_mut::<f32>(((sequence * tokens + token) * heads + head) * n, n);
            for (y, row) in y.iter_mut().zip(state.chunks_exact(n)) {
                *y = vec::dot(row, q) * scale;
            }
            let back = tokens - 1 - token;
            if back < kept {
                let at = outputs + ((back * sequences + sequence) * heads + head) * n * n;
                d.span_mut::<f32>(at, n * n).copy_from_slice(&state);
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
    let states = v[0] * v[0] * v[1] * v[3];
    ensure!(s0.iter().product::<i64>() >= states && s0[3] == v[3], "states {s0:?} for {v:?}");
    ensure!(s0[0] * s0[1] * s0[2] >= v[0] * v[0] * v[1], "states {s0:?} for {v:?}");
    ensure!(node.nelements() >= v.iter().product::<i64>() + states * kept, "a result of {}", node.nelements());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::access::whole;
    use crate::cpu::exec::Abort;
    use crate::cpu::tests::*;
    use crate::tensor::Context;
    use crate::tensor::ops::recurrent::{self, DeltaNet, SsmScan};

    #[test]
    fn short_convolutions_of_channels() {
        for (width, channels, tokens, sequences) in [(4, 7, 5, 2), (1, 1, 1, 1), (3, 70, 9, 3), (9, 33, 1, 1)] {
            let mut c = ctx();
            let (x, k) =
                (floats(&mut c, &[width - 1 + tokens, channels, sequences], 1), floats(&mut c, &[width, channels], 2));
            let t = recurrent::ssm_conv(&mut c, x, k).unwrap();
            let (xv, kv) = (read(x), read(k));
            let want = indices(t.ne()).map(|[channel, token, s, _]| {
                (0..width)
                    .map(|i| at(&xv, x.ne(), [token + i, channel, s, 0]) * at(&kv, k.ne(), [i, channel, 0, 0]))
                    .sum()
            });
            near(&compute(t), want, 1e-6);
        }
    }

    struct Scan {
        src: SsmScan,
        /// Outputs, then snapshots of states.
        want: Vec<f64>,
    }

    /// A scan of `[state, dim, heads, groups, tokens]` for two sequences that start from states 3 and 1.
    fn scan(c: &mut Context, [n, dim, heads, groups, tokens]: [i64; 5], one_decay: bool, kept: usize) -> Scan {
        let sequences = 2;
        let src = SsmScan {
            s: floats(c, &[n, dim, heads, 4], 1),
            x: floats(c, &[dim, heads, tokens, sequences], 2),
            dt: floats(c, &[heads, tokens, sequences], 3),
            a: floats(c, &[if one_decay { 1 } else { n }, heads], 4),
            b: floats(c, &[n, groups, tokens, sequences], 5),
            c: floats(c, &[n, groups, tokens, sequences], 6),
            ids: integers(c, &[sequences], &[3, 1]),
        };
        // Some timesteps are so large that softplus(x) is x.
        write(src.dt, &read(src.dt).iter().map(|x| if *x > 0.8 { 25.0 } else { *x }).collect::<Vec<_>>());
        write(src.a, &read(src.a).iter().map(|x| -x.abs()).collect::<Vec<_>>());
        let [s, x, dt, a, b, cc] = [src.s, src.x, src.dt, src.a, src.b, src.c].map(read);
        let mut want = vec![0f64; src.x.nelements() as usize];
        let per_state = (n * dim * heads) as usize;
        let mut states = vec![0f64; per_state * sequences as usize * kept];
        for [i1, h, sequence, _] in indices([dim, heads, sequences, 1]) {
            let id = [3, 1][sequence as usize];
            let mut state: Vec<f64> = (0..n).map(|i| at(&s, src.s.ne(), [i, i1, h, id])).collect();
            for token in 0..tokens {
                let step = at(&dt, src.dt.ne(), [h, token, sequence, 0]).exp().ln_1p();
                let mut sum = 0.0;
                for (i, state) in state.iter_mut().enumerate() {
                    let i = i as i64;
                    let decay = at(&a, src.a.ne(), [if one_decay { 0 } else { i }, h, 0, 0]);
                    let at_group = [i, h / (heads / groups), token, sequence];
                    *state = *state * (step * decay).exp()
                        + at(&b, src.b.ne(), at_group) * at(&x, src.x.ne(), [i1, h, token, sequence]) * step;
                    sum += *state * at(&cc, src.c.ne(), at_group);
                }
                want[(((sequence * tokens + token) * heads + h) * dim + i1) as usize] = sum;
                let back = (tokens - 1 - token) as usize;
                if back < kept {
                    let first = (back * 2 + sequence as usize) * per_state + ((h * dim + i1) * n) as usize;
                    states[first..first + n as usize].copy_from_slice(&state);
                }
            }
        }
        want.extend(states);
        Scan { src, want }
    }

    #[test]
    fn scans_of_both_kinds_with_snapshots() {
        for (sizes, one_decay, kept) in [
            ([16, 5, 1, 1, 7], false, 1),
            ([1, 1, 1, 1, 1], true, 1),
            ([33, 4, 6, 2, 5], true, 3),
            ([128, 3, 4, 4, 2], true, 2),
            ([7, 3, 4, 2, 3], false, 1),
        ] {
            let mut c = ctx();
            let scan = scan(&mut c, sizes, one_decay, kept);
            let t = recurrent::ssm_scan(&mut c, &scan.src, kept as i64).unwrap();
            near(&compute(t), scan.want.into_iter(), 1e-4);
        }
    }

    #[test]
    fn a_scan_from_a_state_that_is_not_there_fails() {
        for id in [-1, 4, i32::MIN] {
            let mut c = ctx();
            let scan = scan(&mut c, [4, 2, 2, 1, 3], true, 1);
            whole::dest(scan.src.ids).set(1, [0; 3], id);
            let t = recurrent::ssm_scan(&mut c, &scan.src, 1).unwrap();
            for threads in [1, 3] {
                assert!(compute_with(&nodes_of(t), threads, Abort::NEVER).is_err());
            }
        }
    }

    /// Inputs [size, heads, tokens] and states, in double precision.
    struct Linear {
        size: i64,
        heads: i64,
        tokens: i64,
        sequences: i64,
    }

    impl Linear {
        /// Computes outputs and states with a function for each token: (state[i][j], offset of the token's inputs, head) -> output.
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
    fn the_gated_delta_rule_with_snapshots() {
        for (n, heads, key_heads, tokens, kept, each) in [
            (5, 4, 2, 6, 1, false),
            (5, 4, 2, 6, 3, true),
            (1, 1, 1, 1, 1, true),
            (64, 2, 2, 3, 2, false),
            (33, 3, 1, 2, 5, true),
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

    #[test]
    fn sequences_that_do_not_share_the_tokens_are_refused() {
        let mut c = ctx();
        let k = floats(&mut c, &[4, 2, 5], 1);
        let (bonus, state) = (floats(&mut c, &[4, 2], 2), floats(&mut c, &[32, 2], 3));
        let t = recurrent::rwkv_wkv6(&mut c, [k; 3], bonus, k, state).unwrap();
        assert!(check_rwkv_wkv6(t).is_err());
    }
}
