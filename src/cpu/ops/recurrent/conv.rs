//! Convolutions of channels over the tokens of a sequence.
#![forbid(unsafe_code)]

use super::{check_inputs, ensure, src};
use crate::cpu::Worker;
use crate::cpu::access::{Apart, Dest};
use crate::cpu::checked::CheckedNode;
use crate::cpu::simd::kernels;
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Channels that are transposed together.
const CHANNELS: usize = 64;

/// Tokens from which on channels are transposed. For fewer, each result is a dot product.
const MANY: usize = 12;

/// Columns of `n` rows of a plane, as a slice, and the distance of the rows in it. Copies them to `copy` if there are
/// gaps between rows.
fn columns<'a>(
    t: &Apart<'a>,
    plane: usize,
    first: usize,
    n: usize,
    columns: Range<usize>,
    copy: &'a mut Vec<f32>,
) -> (&'a [f32], usize) {
    if t.is_dense() {
        let (start, stride) = (plane * t.ne[1] + first, t.ne[0]);
        assert!(n > 0 && columns.end <= stride);
        return (t.span(start * stride + columns.start, (n - 1) * stride + columns.len()), stride);
    }
    let len = columns.len();
    copy.clear();
    (first..first + n).for_each(|row| copy.extend_from_slice(&t.row::<f32>([row, plane, 0])[columns.clone()]));
    (copy, len)
}

/// Convolution of each channel over the last tokens. Sources: channels `[width - 1 + tokens, channels, sequences]`,
/// weights `[width, channels]`.
pub fn ssm_conv(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (x, c) = (node.source(0).apart(&d), node.source(1).apart(&d));
    let kernels = &kernels().recurrent;
    let ([channels, tokens, sequences, _], width) = (d.ne, c.ne[0]);
    let few = tokens < MANY;
    // Tokens that are transposed together; their windows are a multiple of the tiles of a transposition.
    let step = if few { 1 } else { (4 * width).next_multiple_of(CHANNELS) + 1 - width };
    let (mut copy, mut copied_weights) = (Vec::new(), Vec::new());
    let (mut by_token, mut weights_by_token) = (Vec::new(), Vec::new());
    let mine = w.share(channels);
    let block = if few { 16 * CHANNELS } else { CHANNELS };
    for first in mine.clone().step_by(block) {
        let n = block.min(mine.end - first);
        let (weights, weights_stride) = columns(&c, 0, first, n, 0..width, &mut copied_weights);
        if !few {
            weights_by_token.resize(n * width, 0.0);
            kernels.transpose(n, width, weights, weights_stride, &mut weights_by_token);
        }
        for sequence in 0..sequences {
            for token in (0..tokens).step_by(step) {
                let step = step.min(tokens - token);
                let len = step + width - 1;
                let (x, stride) = columns(&x, sequence, first, n, token..token + len, &mut copy);
                let at = (sequence * tokens + token) * channels + first;
                if few {
                    kernels.dot_rows(d.span_mut(at, n), x, stride, weights, width);
                    continue;
                }
                by_token.resize(n * len, 0.0);
                kernels.transpose(n, len, x, stride, &mut by_token);
                for i in 0..step {
                    let x = &by_token[i * n..(i + width) * n];
                    kernels.sum_products(d.span_mut(at + i * channels, n), x, &weights_by_token, width);
                }
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

#[cfg(test)]
mod tests {
    use crate::cpu::tests::*;
    use crate::tensor::ops::recurrent;

    #[test]
    fn short_convolutions_of_channels() {
        for (width, channels, tokens, sequences) in
            [(4, 7, 5, 2), (1, 1, 1, 1), (3, 70, 9, 3), (9, 33, 1, 1), (4, 130, 150, 2), (70, 17, 13, 1)]
        {
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
}
