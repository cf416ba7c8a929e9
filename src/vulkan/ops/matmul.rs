//! Matrix products: `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, and those with an expert for each row.
//!
//! The rungs, and which device takes which, stand in `tune.rs`.

#![forbid(unsafe_code)]

use super::{ensure, format_name, src};
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::Info;
use crate::vulkan::plan::{Kernel, Plan, Push, View};
use crate::vulkan::shaders::Shader;
use crate::vulkan::tune;

fn check_operands(node: TensorRef) -> Result<(TensorRef, TensorRef)> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(node.dtype() == GGML_TYPE_F32 && node.is_contiguous_rows(), "product into {:?}", node.dtype());
    ensure!(matches!(b.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16), "product with {:?}", b.dtype());
    ensure!(a.is_contiguous_rows() && b.is_contiguous_rows(), "rows with gaps");
    Shader::named(&format!("mul_mat_rows.{}.1", format_name(a.dtype())))?;
    for t in [a, b, node] {
        View::shape(t)?;
    }
    ensure!(a.ne()[0] == b.ne()[0], "rows of {} and {}", a.ne()[0], b.ne()[0]);
    Ok((a, b))
}

/// Any format with a shader times floats, into F32; src0 repeats over the matrices of src1.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = check_operands(node)?;
    let (x, y) = (a.ne(), b.ne());
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} does not repeat to {y:?}");
    ensure!(y[2] * y[3] <= 65535, "{} matrices", y[2] * y[3]);
    Ok(())
}

/// As [`check`], and 32-bit expert numbers.
pub fn check_id(node: TensorRef, _: &Info) -> Result<()> {
    check_operands(node)?;
    let ids = src(node, 2)?;
    ensure!(ids.dtype() == GGML_TYPE_I32, "experts of {:?}", ids.dtype());
    View::shape(ids)?;
    ensure!(ids.ne()[0] <= 65535 && ids.ne()[1] <= 65535, "{:?} experts", ids.ne());
    Ok(())
}

/// MUL_MAT.
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let columns = tune::row_columns(b.ne[1]);
    let threads = tune::row_threads(plan.info);
    let shader = Shader::named(&format!("mul_mat_rows.{}.{columns}", format_name(a.dtype)))?;
    let kernel = Kernel::new(shader, [threads, 1, 1], &[b.ty(), 0, columns]);
    let groups = [d.ne[0].div_ceil(threads), b.ne[1].div_ceil(columns), b.ne[2] * b.ne[3]];
    let push = Push::new().at(a.at).at(b.at).at(d.at).at(0).words(&[a.ne[0], d.ne[0], b.ne[1]]);
    let push = push.words(&[b.ne[2] / a.ne[2], b.ne[3] / a.ne[3], b.ne[2]]).words(&a.nb[1..]).words(&b.nb[1..]);
    plan.dispatch(kernel, push.words(&d.nb[1..]).words(&[0, 0]), groups, &[a.range, b.range], &[d.range]);
    Ok(())
}

/// MUL_MAT_ID: src2 names for each token (dimension 1) and slot (dimension 0) the matrix of src0.
pub fn plan_id(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let ids = View::of(src(node, 2)?)?;
    let threads = tune::row_threads(plan.info);
    let shader = Shader::named(&format!("mul_mat_rows.{}.1", format_name(a.dtype)))?;
    let kernel = Kernel::new(shader, [threads, 1, 1], &[b.ty(), 1, 1]);
    let groups = [d.ne[0].div_ceil(threads), ids.ne[0], ids.ne[1]];
    let push = Push::new().at(a.at).at(b.at).at(d.at).at(ids.at).words(&[a.ne[0], d.ne[0], 1]);
    let push = push.words(&[a.ne[2], 1, b.ne[1]]).words(&a.nb[1..]).words(&b.nb[1..]).words(&d.nb[1..]);
    plan.dispatch(kernel, push.words(&ids.nb[..2]), groups, &[a.range, b.range, ids.range], &[d.range]);
    Ok(())
}
