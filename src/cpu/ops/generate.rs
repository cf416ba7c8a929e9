//! Operations that generate data: ranges and timestep embeddings.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

/// `start + i * step` (parameters 0 and 2).
pub fn arange(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (start, step) = (node.op_param_f32(0), node.op_param_f32(2));
    w.share(d.ne[0]).for_each(|i| d.set(i, [0; 3], start + step * i as f32));
}

/// Requires a row in single precision with as many elements as there are steps up to parameter 1.
pub fn check_arange(node: TensorRef) -> Result<()> {
    check_type(node, GGML_TYPE_F32)?;
    let p = |i| node.op_param_f32(i);
    let steps = ((p(1) - p(0)) / p(2)).ceil();
    ensure!(node.is_vector() && node.ne()[0] as f32 == steps, "{} elements for {steps} steps", node.ne()[0]);
    Ok(())
}

/// Cosines and sines of each timestep at descending frequencies. Parameters: width, maximum period.
pub fn timestep_embedding(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (dim, period) = (node.op_param_i32(0) as usize, node.op_param_i32(1) as f32);
    let half = dim / 2;
    let frequencies: Vec<f32> = (0..half).map(|j| (-period.ln() * j as f32 / half as f32).exp()).collect();
    let mut steps = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let step = steps.part([0; 3], row[0]..row[0] + 1)[0];
        out.row(row, |y| {
            y.fill(0.0);
            let (cosines, sines) = y.split_at_mut(half);
            for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&frequencies) {
                (*sine, *cosine) = (step * frequency).sin_cos();
            }
        });
    }
}

/// Requires a row of timesteps, and a node with a row of the width for each.
pub fn check_timestep_embedding(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let dim = i64::from(node.op_param_i32(0));
    ensure!(dim >= 0 && node.ne()[0] >= dim && node.is_matrix(), "width {dim} in {:?}", node.ne());
    ensure!(s.ne()[0] >= node.ne()[1], "{} steps for {} rows", s.ne()[0], node.ne()[1]);
    Ok(())
}
