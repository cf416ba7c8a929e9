//! Element-wise operations with one source.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::binary::{self, Binary};
use crate::vulkan::plan::checks::{ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

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

/// UNARY, and the functions that have their own operations.
pub fn unary(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (mut a, mut d) = (View::of(src(node, 0)?)?, View::of(node)?);
    if a.is_dense() && d.is_dense() {
        (a, d) = (a.flat(), d.flat());
    }
    let p = |i| node.op_param_f32(i);
    // The numbers are those of functions.glsl.
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
    apply(op, param, a, d, plan)
}

/// d = f(a), element by element. `op` is a number of functions.glsl.
fn apply(op: u32, param: [f32; 4], a: View, d: View, plan: &mut DispatchList<'_>) -> Result<()> {
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Unary { op, a: a.ty(), d: d.ty() })?;
    let push = push::Unary { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, n_rows: d.n_rows(), param };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Sets all elements of a view of floats.
pub fn fill(d: View, value: f32, plan: &mut DispatchList<'_>) -> Result<()> {
    let d = d.flat();
    apply(73, [value, 0.0, 0.0, 0.0], d, d, plan)
}

/// Floats of one shape.
pub fn check_silu_back(node: TensorRef, _: &Info) -> Result<()> {
    for t in [src(node, 0)?, src(node, 1)?, node] {
        ensure!(is_float(t.dtype()) && t.same_shape(node), "{:?} of {:?}", t.dtype(), t.ne());
        View::shape(t)?;
    }
    Ok(())
}

/// SILU_BACK. Sources: gradient of the result, argument.
pub fn silu_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    binary::combine(Binary::SiluBack, View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?, plan)
}
