//! Operations that generate data: ranges and timestep embeddings.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// A row of F32, whose numbers of elements F32 represents exactly.
pub fn check_arange(node: TensorRef, _: &Info) -> Result<()> {
    ensure!(node.dtype() == GGML_TYPE_F32 && node.is_vector(), "a range as {:?}", node.dtype());
    ensure!(node.ne()[0] <= 1 << 24, "a range of {}", node.ne()[0]);
    View::shape(node).map(drop)
}

/// ARANGE. Parameter 0: start. 2: step.
pub fn arange(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let d = View::of(node)?;
    // All invocations of a group are for columns: there is no other row. If a group had one column, they would have one
    // address, with which instrumented shaders end in Mesa's software driver (docs/SHADERS.md).
    let (threads, per) = workgroups::elementwise(plan.info);
    let g = Grid::lines(d.ne[0].div_ceil(per), 1, threads, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Arange {})?;
    let (start, step) = (node.op_param_f32(0), node.op_param_f32(2));
    plan.dispatch(kernel, push::Arange { d: d.at, n: d.ne[0], d_nb: d.nb[0], start, step }, g.groups, &[], &[d.range]);
    Ok(())
}

/// A row of F32 steps, and a matrix with a row for each, at least as wide as parameter 0.
pub fn check_timestep_embedding(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    let width = i64::from(node.op_param_i32(0));
    ensure!(width >= 0 && node.ne()[0] >= width && node.is_matrix(), "width {width} in {:?}", node.ne());
    ensure!(a.ne()[0] >= node.ne()[1], "{} steps for {} rows", a.ne()[0], node.ne()[1]);
    Ok(())
}

/// TIMESTEP_EMBEDDING. Parameter 0: width. 1: maximum period.
pub fn timestep_embedding(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.ne[1], plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::TimestepEmbedding {})?;
    let push = push::TimestepEmbedding {
        a: a.at,
        d: d.at,
        columns: d.ne[0],
        n_rows: d.ne[1],
        half_: node.op_param_i32(0) as u32 / 2,
        a_nb: a.nb[0],
        d_nb: [d.nb[0], d.nb[1]],
        log_period: (node.op_param_i32(1) as f32).ln(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
