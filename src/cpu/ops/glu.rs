//! Gated linear units: an activation of one half times the other half.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, parts};
use super::super::checked::{CheckedNode, FlatFloats};
use super::super::ensure::{ensure, src};
use super::is_float;
use crate::abi::ggml::ggml_glu_op::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_BF16;
use crate::cpu::vec::{Function, Pairwise};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// The lesser of the two; NaN for NaN, which [`f32::min`] hides.
fn at_most(x: f32, limit: f32) -> f32 {
    if x > limit { limit } else { x }
}

/// The greater of the two; NaN for NaN.
fn at_least(x: f32, limit: f32) -> f32 {
    if x < limit { limit } else { x }
}

/// `GGML_OP_GLU`. The halves are two sources, or the two halves of the rows of source 0 (swapped if parameter 1 is
/// set).
pub fn glu(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let Some(op) = node.glu_op() else { return };
    if op == GGML_GLU_OP_SWIGLU
        && let Some(FlatFloats { y, first, second: Some(up) }) = node.flat(w, &mut d)
    {
        return match first {
            Some(gate) => vec::zip_into(Pairwise::Swiglu, y, gate, up),
            None => vec::zip(Pairwise::Swiglu, y, up),
        };
    }
    let n = node.ne()[0] as usize;
    let (gate_at, up_at) = match (node.try_source(1), node.op_param_i32(1) != 0) {
        (Some(_), _) => (0, 0),
        (None, false) => (0, n),
        (None, true) => (n, 0),
    };
    let (alpha, limit) = (node.op_param_f32(2), node.op_param_f32(3));
    // The original uses its table of GELU for half and single precision only.
    let computed = d.dtype == GGML_TYPE_BF16;
    let gate = node.source(0);
    let mut up = Reader::new(node.try_source(1).unwrap_or(node.source(0)), &d);
    let aside = gate.float_rows(&d);
    let mut out = Writer::new(d);
    for (row, part) in parts(w, &out) {
        let g = up.part(row, up_at + part.start..up_at + part.end);
        out.part(row, part.clone(), |y| {
            if let (Some(gate), GGML_GLU_OP_SWIGLU) = (&aside, op) {
                return vec::zip_into(Pairwise::Swiglu, y, &gate.row(row)[gate_at + part.start..gate_at + part.end], g);
            }
            gate.load(row, gate_at + part.start, y);
            match op {
                GGML_GLU_OP_REGLU => y.iter_mut().zip(g).for_each(|(y, g)| {
                    // Zero for a gate that is not above zero, whatever number it gates.
                    let shut = *y <= 0.0 && !g.is_nan();
                    *y = if shut { 0.0 } else { *y * g };
                }),
                GGML_GLU_OP_GEGLU => {
                    if computed {
                        vec::map(Function::Gelu, y)
                    } else {
                        vec::gelu(y)
                    }
                    vec::mul(y, g);
                }
                GGML_GLU_OP_SWIGLU => vec::zip(Pairwise::Swiglu, y, g),
                GGML_GLU_OP_GEGLU_ERF => {
                    vec::map(Function::GeluErf, y);
                    vec::mul(y, g);
                }
                GGML_GLU_OP_GEGLU_QUICK => {
                    vec::map(Function::GeluQuick, y);
                    vec::mul(y, g);
                }
                GGML_GLU_OP_SWIGLU_OAI => y.iter_mut().zip(g).for_each(|(y, g)| {
                    let x = at_most(*y, limit);
                    *y = x / (1.0 + (alpha * -x).exp()) * (at_most(at_least(*g, -limit), limit) + 1.0);
                }),
                GGML_GLU_OP_SWIGLU_CLAMP => y.iter_mut().zip(g).for_each(|(y, g)| {
                    *y = vec::silu(at_most(*y, limit)) * at_most(at_least(*g, -limit), limit);
                }),
                GGML_GLU_OP_COUNT => {}
            }
        });
    }
}

/// Requires floats of one format, and halves with the shape of the node.
pub fn check_glu(node: TensorRef) -> Result<()> {
    ensure!(node.glu_op().is_some(), "gated operation {} does not exist", node.op_param_i32(0));
    let a = src(node, 0)?;
    ensure!(is_float(a.dtype()) && a.dtype() == node.dtype(), "gate of {:?}", a.dtype());
    ensure!(a.ne()[1..] == node.ne()[1..], "shapes {:?} and {:?}", a.ne(), node.ne());
    match node.src(1) {
        Some(b) => {
            ensure!(a.same_shape(node) && a.same_shape(b) && a.dtype() == b.dtype(), "the halves differ");
        }
        None => ensure!(a.ne()[0] / 2 == node.ne()[0], "a row of {} has no halves of {}", a.ne()[0], node.ne()[0]),
    }
    Ok(())
}
