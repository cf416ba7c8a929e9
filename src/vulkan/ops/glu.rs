//! Gated linear units (GLU).

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Floats of one format. Two sources with the shape of the node, or one with twice the columns.
pub fn check_gated(node: TensorRef, _: &Info) -> Result<()> {
    ensure!(node.glu_op().is_some(), "gated operation {}", node.op_param_i32(0));
    let a = src(node, 0)?;
    ensure!(is_float(a.dtype()) && is_float(node.dtype()), "{:?} into {:?}", a.dtype(), node.dtype());
    ensure!(a.ne()[1..] == node.ne()[1..], "shapes {:?} and {:?}", a.ne(), node.ne());
    View::shape(a)?;
    View::shape(node)?;
    match node.src(1) {
        Some(b) => {
            View::shape(b)?;
            ensure!(a.same_shape(node) && a.same_shape(b) && a.dtype() == b.dtype(), "the halves differ");
        }
        None => ensure!(a.ne()[0] / 2 == node.ne()[0], "a row of {} has no halves of {}", a.ne()[0], node.ne()[0]),
    }
    Ok(())
}

/// GLU.
pub fn gated(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (gate, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let half = u64::from(d.ne[0]) * u64::from(gate.nb[0]) * gate.dtype.type_size() as u64;
    let (gate_at, up_at, up) = match (node.src(1), node.op_param_i32(1) != 0) {
        (Some(up), _) => {
            let up = View::of(up)?;
            (gate.at, up.at, up)
        }
        (None, false) => (gate.at, gate.at + half, gate),
        (None, true) => (gate.at + half, gate.at, gate),
    };
    let (gate, up) = (View { at: gate_at, ..gate }, View { at: up_at, ..up });
    let param = [node.op_param_f32(2), node.op_param_f32(3)];
    gate_into(node.op_param_i32(0) as u32, param, (gate, up), d, plan)
}

/// Activation of `gate`, times `up`, into `d`.
fn gate_into(op: u32, param: [f32; 2], (gate, up): (View, View), d: View, plan: &mut DispatchList<'_>) -> Result<()> {
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Gated { op, a: gate.ty(), d: d.ty() })?;
    let push = push::Gated {
        gate: gate.at,
        up: up.at,
        d: d.at,
        ne: d.ne,
        gate_nb: gate.nb,
        up_nb: up.nb,
        d_nb: d.nb,
        n_rows: d.n_rows(),
        param,
    };
    plan.dispatch(kernel, push, g.groups, &[gate.range, up.range], &[d.range]);
    Ok(())
}

/// Numbers of gated functions in `functions.glsl` that `ggml_glu_op` does not have.
pub const SIGMOID: u32 = 74;
/// The same, for softplus.
pub const SOFTPLUS: u32 = 75;

/// Activation of `gate`, times `up`, into `result`. All are F32 and have the same shape. `op`: a number of
/// `ggml_glu_op`, or one of those above.
pub fn fused_gate(
    op: u32,
    gate: TensorRef,
    up: TensorRef,
    result: TensorRef,
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    gate_into(op, [0.0; 2], (View::of(gate)?, View::of(up)?), View::of(result)?, plan)
}
