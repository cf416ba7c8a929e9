//! Steps of optimizers.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Number of tensors with the shape of the node, and of parameters, which are the source after them.
fn sizes(node: TensorRef) -> (usize, i64) {
    if node.op() == GGML_OP_OPT_STEP_ADAMW { (4, 7) } else { (2, 2) }
}

/// F32 with the shape of the node and contiguous rows, and contiguous parameters.
pub fn check_step(node: TensorRef, _: &Info) -> Result<()> {
    check_f32(node)?;
    let (tensors, parameters) = sizes(node);
    for i in 0..tensors {
        let t = src(node, i)?;
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        ensure!(t.same_shape(node) && t.is_contiguous_rows(), "source {i} has {:?}", t.ne());
        View::shape(t)?;
    }
    let p = src(node, tensors)?;
    ensure!(p.dtype() == GGML_TYPE_F32 && p.is_contiguous() && p.nelements() == parameters, "{:?}", p.ne());
    Ok(())
}

/// OPT_STEP_ADAMW, OPT_STEP_SGD. Source 0 and the moments are updated in place.
pub fn step(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (tensors, _) = sizes(node);
    let adamw = node.op() == GGML_OP_OPT_STEP_ADAMW;
    let (mut w, mut g) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?);
    // Without moments, the shader does not use these.
    let (mut m, mut v) = if adamw { (View::of(src(node, 2)?)?, View::of(src(node, 3)?)?) } else { (w, w) };
    let param = View::of(src(node, tensors)?)?;
    if [w, g, m, v].iter().all(View::is_dense) {
        [w, g, m, v] = [w, g, m, v].map(View::flat);
    }
    let grid = grid(w.ne[0], w.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", grid.size, &constants::Step { adamw })?;
    let push = push::Step {
        w: w.at,
        g: g.at,
        m: m.at,
        v: v.at,
        param: param.at,
        ne: w.ne,
        n_rows: w.n_rows(),
        w_nb: w.nb123(),
        g_nb: g.nb123(),
        m_nb: m.nb123(),
        v_nb: v.nb123(),
    };
    let reads = [w.range, g.range, m.range, v.range, param.range];
    plan.dispatch(kernel, push, grid.groups, &reads, &[w.range, m.range, v.range]);
    Ok(())
}
