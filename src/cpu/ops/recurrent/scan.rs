//! Selective scans of state-space models (Mamba and Mamba-2).
#![forbid(unsafe_code)]

use super::{Aside, HeadRows, PART, StateSets, check_inputs, check_type, ensure, product, slices, src};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Apart, Dest};
use crate::cpu::checked::CheckedNode;
use crate::cpu::simd::kernels;
use crate::cpu::simd::recurrent::Token;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

/// The sources of a node.
struct Scan<'a> {
    /// States `[n_state, dim, heads, states]`.
    s0: Apart<'a>,
    /// Inputs `[dim, heads, tokens, sequences]`.
    x: Apart<'a>,
    /// Step sizes, before softplus, `[heads, tokens, sequences]`.
    dt: Apart<'a>,
    /// Rates `[1 or n_state, heads]`.
    a: Apart<'a>,
    /// Keys `[n_state, groups, tokens, sequences]`.
    b: Apart<'a>,
    /// Queries, likewise.
    c: Apart<'a>,
    /// The initial state of each sequence.
    ids: Vec<usize>,
    kept: StateSets,
}

/// Selective scan (Mamba and Mamba-2). Sources: states, x, dt, A, B, C, indices of the states. Parameter 0: number of
/// states to keep.
pub fn ssm_scan(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let p = |i| node.source(i).apart(&d);
    let (s0, x, ids) = (p(0), p(1), p(6));
    let (tokens, sequences) = (x.ne[2], x.ne[3]);
    let len = s0.ne[0] * s0.ne[1] * s0.ne[2] * sequences;
    let sets = node.op_param_i32(0) as usize;
    let kept = StateSets { first: d.len() - len * sets, len, sets, tokens };
    let mut scan = Scan { s0, x, dt: p(2), a: p(3), b: p(4), c: p(5), ids: Vec::with_capacity(sequences), kept };
    for sequence in 0..sequences {
        let id = ids.get::<i32>(sequence, [0; 3]);
        let Some(id) = usize::try_from(id).ok().filter(|&id| id < s0.ne[3]) else {
            return w.fail(invalid!("'{}': state {id} of {}", node.name(), s0.ne[3]));
        };
        scan.ids.push(id);
    }
    if scan.s0.ne[1] == 1 && scan.a.ne[0] > 1 {
        scan.heads_of_one_row(w, &mut d);
    } else {
        scan.heads_of_rows(w, &mut d);
    }
}

impl Scan<'_> {
    /// The initial states of a block. Copies them to `copy` if there are gaps between rows.
    fn start<'s>(&'s self, block: &HeadRows, copy: &'s mut Vec<f32>) -> &'s [f32] {
        let (id, [n_state, dim, heads, _]) = (self.ids[block.sequence], self.s0.ne);
        if self.s0.is_dense() {
            let part = block.range(id * heads, dim, n_state);
            return self.s0.span(part.start, part.len());
        }
        copy.clear();
        for head in block.heads.clone() {
            block.rows.clone().for_each(|row| copy.extend_from_slice(self.s0.row::<f32>([row, head, id])));
        }
        copy
    }

    /// Mamba: heads with one row each, and a rate for each column. Several heads are updated together.
    fn heads_of_one_row(&self, w: &Worker<'_>, d: &mut Dest<'_>) {
        let ([heads, tokens, sequences, _], [n_state, groups, ..]) = (self.dt.ne, self.b.ne);
        let (per_group, per_block) = (heads / groups, (PART / 3 / n_state).max(1).next_multiple_of(4));
        let kernels = &kernels().recurrent;
        let mut aside = Aside::default();
        let (mut steps, mut copy, mut copied_rates, mut copied_x) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (all_dt, all_b, all_c) = (slices(&self.dt), slices(&self.b), slices(&self.c));
        let dense_x = self.x.is_dense();
        let mine = w.share(heads);
        let mut head = mine.start;
        while head < mine.end {
            let group = head / per_group;
            let n = per_block.min(mine.end - head).min((group + 1) * per_group - head);
            let rates = if self.a.is_dense() {
                self.a.span::<f32>(head * n_state, n * n_state)
            } else {
                copied_rates.clear();
                (head..head + n).for_each(|head| copied_rates.extend_from_slice(self.a.row::<f32>([head, 0, 0])));
                &copied_rates
            };
            for sequence in 0..sequences {
                let block = HeadRows { sequence, heads: head..head + n, rows: 0..1 };
                let start = self.start(&block, &mut copy);
                let part = block.range(sequence * heads, 1, n_state);
                for token in 0..tokens {
                    steps.clear();
                    steps.extend_from_slice(&all_dt.row([token, sequence, 0])[head..head + n]);
                    vec::map(vec::Function::Softplus, &mut steps);
                    let (b, c) = (all_b.row([group, token, sequence]), all_c.row([group, token, sequence]));
                    let at = (sequence * tokens + token) * heads + head;
                    let x = if dense_x {
                        self.x.span::<f32>(at, n)
                    } else {
                        copied_x.clear();
                        copied_x.extend((head..head + n).map(|head| self.x.get::<f32>(0, [head, token, sequence])));
                        &copied_x
                    };
                    let (state, y) = self.kept.step(d, &mut aside, token, &part, start, at..at + n);
                    kernels.scan_heads(state, y, [x, &steps], rates, [b, c]);
                }
            }
            head += n;
        }
    }

    /// Mamba-2: heads with several rows, and one rate for each head. Rates for each column work, too.
    fn heads_of_rows(&self, w: &Worker<'_>, d: &mut Dest<'_>) {
        let ([n_state, dim, heads, _], [_, _, tokens, sequences]) = (self.s0.ne, self.x.ne);
        let (per_group, one_rate) = (heads / self.b.ne[1], self.a.ne[0] == 1);
        let kernels = &kernels().recurrent;
        let mut aside = Aside::default();
        let (mut steps, mut decays, mut copy) = (Vec::new(), Vec::new(), Vec::new());
        let [all_x, all_b, all_c, all_dt, rates] = [&self.x, &self.b, &self.c, &self.dt, &self.a].map(slices);
        let mut of_steps = None;
        for block in &HeadRows::share(w, [heads, tokens, sequences], dim, n_state) {
            let HeadRows { sequence, heads: mine, rows } = block;
            let sequence = *sequence;
            if of_steps != Some((mine, sequence)) {
                of_steps = Some((mine, sequence));
                steps.clear();
                (0..tokens).for_each(|token| steps.extend_from_slice(&all_dt.row([token, sequence, 0])[mine.clone()]));
                vec::map(vec::Function::Softplus, &mut steps);
                if one_rate {
                    decays.clear();
                    for steps in steps.chunks_exact(mine.len().max(1)) {
                        decays.extend(
                            steps.iter().zip(mine.clone()).map(|(step, head)| step * rates.row([head, 0, 0])[0]),
                        );
                    }
                    vec::map(vec::Function::Exp, &mut decays);
                }
            }
            let start = self.start(block, &mut copy);
            let part = block.range(sequence * heads, dim, n_state);
            for token in 0..tokens {
                let outputs = block.range((sequence * tokens + token) * heads, dim, 1);
                let (states, y) = self.kept.step(d, &mut aside, token, &part, start, outputs);
                let states = states.split(rows.len() * n_state).zip(y.chunks_exact_mut(rows.len()));
                for (i, (head, (state, y))) in mine.clone().zip(states).enumerate() {
                    let i = token * mine.len() + i;
                    let beta = steps[i];
                    let decay = if one_rate {
                        &decays[i..=i]
                    } else {
                        decays.clear();
                        decays.extend(rates.row([head, 0, 0]).iter().map(|rate| beta * rate));
                        vec::map(vec::Function::Exp, &mut decays);
                        &decays
                    };
                    let v = &all_x.row([head, token, sequence])[rows.clone()];
                    let [k, q] = [&all_b, &all_c].map(|t| t.row([head / per_group, token, sequence]));
                    kernels.scan(state, y, Token { decay, v, beta, k, q });
                }
            }
        }
    }
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
    let all = product(&x).saturating_add(product(&[s0[0], s0[1], s0[2], x[3], kept]));
    ensure!(node.nelements() == all, "a result of {} elements", node.nelements());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cpu::access::whole;
    use crate::cpu::exec::Abort;
    use crate::cpu::tests::*;
    use crate::tensor::Context;
    use crate::tensor::ops::recurrent::{self, SsmScan};

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
            ([16, 1, 300, 2, 5], false, 1),
            ([5, 1, 21, 3, 4], false, 1),
            ([128, 70, 2, 1, 4], true, 2),
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
}
