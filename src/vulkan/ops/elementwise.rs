//! Element-wise operations: binary with broadcast, unary, gated.

#![forbid(unsafe_code)]

use super::{ensure, is_float, src};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::interface::{constants, push};
use crate::vulkan::plan::{Grid, KernelFor, Plan, View};
use crate::vulkan::{Info, tune};

/// The grid for element-wise work over rows.
pub fn grid(columns: u32, n_rows: u32, info: &Info) -> Result<Grid> {
    let (threads, per) = tune::elementwise(info);
    Grid::rows(columns, n_rows, threads, per, info)
}

/// Floats; the second source repeats to the shape of the first, which is the node's.
pub fn check_binary(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        ensure!(is_float(t.dtype()), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(a.same_shape(node) && b.can_repeat(a), "{:?} does not repeat to {:?}", b.ne(), a.ne());
    Ok(())
}

/// ADD, SUB, MUL, DIV, ADD1.
pub fn binary(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (mut a, mut b, mut d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    if a.ne == b.ne && a.is_dense() && b.is_dense() && d.is_dense() {
        (a, b, d) = (a.flat(), b.flat(), d.flat());
    }
    let op = match node.op() {
        GGML_OP_ADD | GGML_OP_ADD1 => 0,
        GGML_OP_SUB => 1,
        GGML_OP_MUL => 2,
        _ => 3,
    };
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let constants = constants::Binary { op, a: a.ty(), b: b.ty(), d: d.ty(), same: b.ne[0] == a.ne[0] };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::Binary {
        a: a.at,
        b: b.at,
        d: d.at,
        ne: d.ne,
        a_nb: a.nb,
        b_nb: b.nb,
        d_nb: d.nb,
        b_ne: b.ne,
        n_rows: d.n_rows(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range], &[d.range]);
    Ok(())
}

/// Floats of one shape.
pub fn check_unary(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(is_float(t.dtype()), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    ensure!(node.op() != GGML_OP_UNARY || node.unary_op().is_some(), "unary operation {}", node.op_param_i32(0));
    Ok(())
}

/// UNARY and the functions that are operations of their own.
pub fn unary(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (mut a, mut d) = (View::of(src(node, 0)?)?, View::of(node)?);
    if a.is_dense() && d.is_dense() {
        (a, d) = (a.flat(), d.flat());
    }
    let p = |i| node.op_param_f32(i);
    // The numbers of functions.glsl.
    let (op, param) = match node.op() {
        GGML_OP_UNARY => (node.op_param_i32(0) as u32, [p(1), p(2), p(3), p(4)]),
        GGML_OP_SQR => (64, [0.0; 4]),
        GGML_OP_SQRT => (65, [0.0; 4]),
        GGML_OP_LOG => (66, [0.0; 4]),
        GGML_OP_SIN => (67, [0.0; 4]),
        GGML_OP_COS => (68, [0.0; 4]),
        GGML_OP_CLAMP => (69, [p(0), p(1), 0.0, 0.0]),
        GGML_OP_SCALE => (70, [p(0), p(1), 0.0, 0.0]),
        GGML_OP_FILL => (73, [p(0), 0.0, 0.0, 0.0]),
        GGML_OP_LEAKY_RELU => (71, [p(0), 0.0, 0.0, 0.0]),
        op => return Err(Error::Unsupported(format!("{op:?} as a function"))),
    };
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Unary { op, a: a.ty(), d: d.ty() })?;
    let push = push::Unary { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, n_rows: d.n_rows(), param };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Floats of one format; two sources of the node's shape, or one of twice the columns.
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
pub fn gated(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
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

/// An activation of the first source times the second.
fn gate_into(op: u32, param: [f32; 2], (gate, up): (View, View), d: View, plan: &mut Plan<'_>) -> Result<()> {
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

/// An activation of `gate` times `up`, all of one shape in F32, into `result`.
pub fn fused_gate(
    op: crate::abi::ggml::ggml_glu_op,
    gate: TensorRef,
    up: TensorRef,
    result: TensorRef,
    plan: &mut Plan<'_>,
) -> Result<()> {
    gate_into(op as u32, [0.0; 2], (View::of(gate)?, View::of(up)?), View::of(result)?, plan)
}

/// Single precision, rows without gaps; an index for each row.
pub fn check_add_id(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b, ids) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [a, b, node] {
        ensure!(t.dtype() == GGML_TYPE_F32 && t.is_contiguous_rows(), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(ids.dtype() == GGML_TYPE_I32, "indices of {:?}", ids.dtype());
    View::shape(ids)?;
    ensure!(a.same_shape(node) && a.ne()[0] == b.ne()[0], "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

/// ADD_ID.
pub fn add_id(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let ids = View::of(src(node, 2)?)?;
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::AddId {})?;
    let push = push::AddId {
        a: a.at,
        b: b.at,
        ids: ids.at,
        d: d.at,
        ne: [d.ne[0], d.ne[1], d.ne[2]],
        n_rows: d.n_rows(),
        a_nb: a.nb123(),
        d_nb: d.nb123(),
        b_nb1: b.nb[1],
        b_ne1: b.ne[1],
        ids_nb: [ids.nb[0], ids.nb[1]],
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range, ids.range], &[d.range]);
    Ok(())
}
