//! Recurrences over the tokens of a sequence: state-space models, RWKV, gated linear attention, the gated delta rule.
//! The result of a node has the outputs, then the states after the last token. Heads, and in some operations the rows
//! of their states, are independent, so they are divided between threads. Files: `conv` (convolutions over tokens),
//! `scan` (state-space models), `linear` (RWKV, linear attention), `delta` (the delta rule).
#![forbid(unsafe_code)]

mod conv;
mod delta;
mod linear;
mod scan;

pub use conv::{check_ssm_conv, ssm_conv};
pub use delta::{check_gated_delta_net, gated_delta_net};
pub use linear::{check_gated_linear_attn, check_rwkv_wkv6, check_rwkv_wkv7, gated_linear_attn, rwkv_wkv6, rwkv_wkv7};
pub use scan::{check_ssm_scan, ssm_scan};

use super::super::access::{Apart, Dest, Rows};
use super::super::ensure::{ensure, product, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::simd::recurrent::HeadState;
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ops::Range;

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

/// The rows of a source, whose check has found them contiguous.
fn slices<'a>(t: &Apart<'a>) -> Rows<'a, f32> {
    let Some(rows) = t.rows() else { unreachable!("rows of {:?} are no slices", ***t) };
    rows
}

/// Floats of a state that are updated together. They stay in the L1 cache from one token to the next.
const PART: usize = 8 * 1024;

/// States that a thread takes over all tokens of a sequence: some rows of one head, or several heads.
struct HeadRows {
    sequence: usize,
    heads: Range<usize>,
    rows: Range<usize>,
}

impl HeadRows {
    /// This thread's blocks of states with `rows` rows of `n` floats.
    fn share(w: &Worker<'_>, [heads, tokens, sequences]: [usize; 3], rows: usize, n: usize) -> Vec<Self> {
        // A single token finds no state in the cache. With all heads at once, there is less to do for each.
        if tokens == 1 && heads >= w.nth() {
            return (0..sequences).map(|sequence| Self { sequence, heads: w.share(heads), rows: 0..rows }).collect();
        }
        let parts = (rows * n).div_ceil(PART).max(1);
        // Kernels update four rows at once.
        let step = rows.div_ceil(parts).next_multiple_of(4);
        let parts = rows.div_ceil(step);
        let block = |i: usize| {
            let (head, row) = (i / parts % heads, i % parts * step);
            Self { sequence: i / parts / heads, heads: head..head + 1, rows: row..rows.min(row + step) }
        };
        w.share(parts * heads * sequences).map(block).collect()
    }

    /// The range of the block in data with `each` numbers for each of `rows` rows of `heads` heads, `before` such heads
    /// after the start.
    fn range(&self, before: usize, rows: usize, each: usize) -> Range<usize> {
        let first = ((before + self.heads.start) * rows + self.rows.start) * each;
        first..first + self.heads.len() * self.rows.len() * each
    }
}

/// The sets of states at the end of a result: those after the last tokens, the newest first.
struct StateSets {
    /// Number of the first float.
    first: usize,
    /// Floats in a set.
    len: usize,
    /// Number of sets.
    sets: usize,
    /// Number of tokens.
    tokens: usize,
}

impl StateSets {
    /// Range of `part` in the set for the state after a token, if that is kept.
    fn set(&self, token: usize, part: &Range<usize>) -> Option<Range<usize>> {
        let set = self.tokens - 1 - token;
        let first = self.first + set * self.len;
        (set < self.sets).then(|| first + part.start..first + part.end)
    }

    /// States before and after a token, `part` of a set, and the token's outputs, numbers `outputs` of the result.
    /// `start` are the states before the first token. `aside` has the states before the token if they are not kept, and
    /// gets those after it.
    fn step<'d>(
        &self,
        d: &'d mut Dest<'_>,
        aside: &'d mut Aside,
        token: usize,
        part: &Range<usize>,
        start: &'d [f32],
        outputs: Range<usize>,
    ) -> (HeadState<'d>, &'d mut [f32]) {
        let before = token.checked_sub(1).map(|token| self.set(token, part));
        match (before, self.set(token, part)) {
            (None, Some(to)) => {
                let [to, y] = d.spans_mut([to, outputs]);
                (HeadState::moved(start, to), y)
            }
            (None, None) => {
                (HeadState::moved(start, aside.states(part.len())), d.span_mut(outputs.start, outputs.len()))
            }
            (Some(None), None) => {
                (HeadState::in_place(aside.states(part.len())), d.span_mut(outputs.start, outputs.len()))
            }
            (Some(None), Some(to)) => {
                let [to, y] = d.spans_mut([to, outputs]);
                (HeadState::moved(aside.states(part.len()), to), y)
            }
            (Some(Some(from)), Some(to)) => {
                let [from, to, y] = d.spans_mut([from, to, outputs]);
                (HeadState::moved(from, to), y)
            }
            (Some(Some(_)), None) => unreachable!("the states after the last tokens are kept"),
        }
    }
}

/// States of one block that are not kept. Unlike those of the result they are aligned to cache lines, of which vectors
/// of 64 bytes would otherwise use two each: stores take twice the time.
#[derive(Default)]
struct Aside(Vec<f32>);

impl Aside {
    const ALIGN: usize = 64;

    /// `n` floats: those of the last call, if that was for as many.
    fn states(&mut self, n: usize) -> &mut [f32] {
        let spare = Self::ALIGN / size_of::<f32>() - 1;
        if self.0.len() < n + spare {
            self.0.resize(n + spare, 0.0);
        }
        let first = self.0.as_ptr().align_offset(Self::ALIGN).min(spare);
        &mut self.0[first..first + n]
    }
}
