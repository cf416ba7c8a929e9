//! Softmax of rows, with scale, mask, ALiBi slopes and sinks, and its gradient.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Slopes of the attention biases of the heads (ALiBi, arXiv:2108.12409).
#[derive(Clone, Copy)]
pub struct Slopes {
    max_bias: f32,
    whole: u32,
    m0: f32,
    m1: f32,
}

impl Slopes {
    /// Slopes for `heads` heads; all 1 when `max_bias` is 0.
    pub fn new(max_bias: f32, heads: usize) -> Self {
        let whole = (heads as u32).checked_ilog2().map_or(1, |l| 1 << l);
        let base = |bias: f32| 2f32.powf(-bias / whole as f32);
        Self { max_bias, whole, m0: base(max_bias), m1: base(max_bias / 2.0) }
    }

    /// Slope of head `h`.
    pub fn of(&self, h: usize) -> f32 {
        let h = h as u32;
        if self.max_bias <= 0.0 {
            1.0
        } else if h < self.whole {
            self.m0.powf((h + 1) as f32)
        } else {
            self.m1.powf((2 * (h - self.whole) + 1) as f32)
        }
    }
}

/// exp(x * scale + slope * mask), divided by the sum of the row. Parameters: scale, maximum bias. Source 1: mask.
/// Source 2: sinks, one per head.
pub fn soft_max(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let s = node.source(0);
    let (scale, max_bias) = (node.op_param_f32(0), node.op_param_f32(1));
    let slopes = Slopes::new(max_bias, s.ne[2]);
    let mut mask = node.try_source(1).map(|m| Reader::new(m, &d));
    let sinks = node.try_source(2);
    let mut out = Writer::new(d);
    for row @ [i1, i2, i3] in rows(w, &out) {
        let mask = mask.as_mut().map(|m| {
            let ne = m.ne;
            m.part([i1, i2 % ne[2], i3 % ne[3]], 0..s.ne[0])
        });
        let sink = sinks.map(|sinks| sinks.get::<f32>(i2, [0; 3]));
        out.row(row, |y| {
            s.load(row, 0, y);
            vec::scale(y, scale);
            if let Some(mask) = mask {
                vec::axpy(y, slopes.of(i2), mask);
            }
            let max = vec::max(y).max(sink.unwrap_or(f32::NEG_INFINITY));
            let mut sum = vec::exp_shifted(y, max);
            if let Some(sink) = sink {
                sum += f64::from((sink - max).exp());
            }
            vec::scale(y, (1.0 / sum) as f32);
        });
    }
}

/// Requires single precision, a mask with at least as many columns and rows that repeats over heads and batches, and a
/// sink per head.
pub fn check_soft_max(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let ne = node.ne();
    if let Some(mask) = node.src(1) {
        ensure!(matches!(mask.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "mask of {:?}", mask.dtype());
        let m = mask.ne();
        ensure!(
            m[0] == ne[0] && m[1] >= ne[1] && m[2] > 0 && m[3] > 0 && ne[2] % m[2] == 0 && ne[3] % m[3] == 0,
            "mask of shape {m:?} for {ne:?}"
        );
    }
    if let Some(sinks) = node.src(2) {
        check_type(sinks, GGML_TYPE_F32)?;
        ensure!(sinks.ne()[0] == ne[2], "{} sinks for {} heads", sinks.ne()[0], ne[2]);
    }
    Ok(())
}

/// Gradient of `soft_max`: source 0 is the gradient of the result, source 1 the result. Parameter 0: scale.
pub fn soft_max_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let scale = node.op_param_f32(0);
    let (mut grad, mut result) = (Reader::new(node.source(0), &d), Reader::new(node.source(1), &d));
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let (dy, y) = (grad.row(row), result.row(row));
        let dot = vec::dot_wide(y, dy) as f32;
        out.row(row, |dx| {
            for ((dx, dy), y) in dx.iter_mut().zip(dy).zip(y) {
                *dx = (dy - dot) * y * scale;
            }
        });
    }
}

/// Requires single precision, one shape, and no biases.
pub fn check_soft_max_back(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let y = src(node, 1)?;
    check_type(y, GGML_TYPE_F32)?;
    ensure!(y.same_shape(node), "gradient and result differ");
    ensure!(node.op_param_f32(1) == 0.0, "no gradient with position biases");
    Ok(())
}
