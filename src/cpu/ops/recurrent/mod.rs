//! Recurrences over the tokens of a sequence: state-space models, RWKV, gated linear attention, the gated delta rule. The result of a
//! node has the outputs, then the states after the last token. Heads, and in some operations the rows of their states, are independent, so
//! they are divided between threads. Files: `conv` (convolutions over tokens), `scan` (state-space models), `linear` (RWKV, linear attention),
//! `delta` (the delta rule).
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
use super::super::check::{ensure, product, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::simd::recurrent::State;
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
struct Block {
    sequence: usize,
    heads: Range<usize>,
    rows: Range<usize>,
}

impl Block {
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

    /// The range of the block in data with `each` numbers for each of `rows` rows of `heads` heads, `before` such heads after the start.
    fn range(&self, before: usize, rows: usize, each: usize) -> Range<usize> {
        let first = ((before + self.heads.start) * rows + self.rows.start) * each;
        first..first + self.heads.len() * self.rows.len() * each
    }
}

/// The sets of states at the end of a result: those after the last tokens, the newest first.
struct Kept {
    /// Number of the first float.
    first: usize,
    /// Floats in a set.
    len: usize,
    /// Number of sets.
    sets: usize,
    /// Number of tokens.
    tokens: usize,
}

impl Kept {
    /// Number of the first float of the set for the state after a token. The states that are not kept use the oldest set in turn.
    fn set(&self, token: usize) -> usize {
        self.first + (self.tokens - 1 - token).min(self.sets - 1) * self.len
    }

    /// States before and after a token, `part` of a set, and the token's outputs, numbers `outputs` of the result. `start` are the states before
    /// the first token.
    fn step<'d>(
        &self,
        d: &'d mut Dest<'_>,
        token: usize,
        part: &Range<usize>,
        start: &'d [f32],
        outputs: Range<usize>,
    ) -> (State<'d>, &'d mut [f32]) {
        let after = |token| {
            let set = self.set(token);
            set + part.start..set + part.end
        };
        let to = after(token);
        if token == 0 {
            let [to, y] = d.spans_mut([to, outputs]);
            return (State::moved(start, to), y);
        }
        let from = after(token - 1);
        if from == to {
            let [to, y] = d.spans_mut([to, outputs]);
            return (State::in_place(to), y);
        }
        let [from, to, y] = d.spans_mut([from, to, outputs]);
        (State::moved(from, to), y)
    }
}
