//! Square matrices: diagonals, triangles, triangular systems.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tri_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_all_f32, check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Where elements of a matrix are kept: the least and the greatest column minus row. Others become `value`.
struct Band {
    low: i32,
    high: i32,
    value: f32,
}

fn band(a: View, d: View, Band { low, high, value }: Band, plan: &mut DispatchList<'_>) -> Result<()> {
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Band {})?;
    let push = push::Band { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, n_rows: d.n_rows(), low, high, value };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

fn check_same(node: TensorRef) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    Ok(())
}

/// F32 of one shape, and a known kind of triangle.
pub fn check_tri(node: TensorRef, _: &Info) -> Result<()> {
    check_same(node)?;
    ensure!(ggml_tri_type::from_raw(node.op_param_i32(0)).is_some(), "triangle {}", node.op_param_i32(0));
    Ok(())
}

/// TRI. Parameter 0: the triangle that is kept.
pub fn tri(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (low, high) = match ggml_tri_type::from_raw(node.op_param_i32(0)) {
        Some(GGML_TRI_TYPE_LOWER) => (i32::MIN, -1),
        Some(GGML_TRI_TYPE_LOWER_DIAG) => (i32::MIN, 0),
        Some(GGML_TRI_TYPE_UPPER) => (1, i32::MAX),
        _ => (0, i32::MAX),
    };
    band(View::of(src(node, 0)?)?, View::of(node)?, Band { low, high, value: 0.0 }, plan)
}

/// F32 of one shape, and a parameter 0 that is not negative.
pub fn check_diag_mask(node: TensorRef, _: &Info) -> Result<()> {
    check_same(node)?;
    ensure!(node.op_param_i32(0) >= 0, "{} columns in the past", node.op_param_i32(0));
    Ok(())
}

/// DIAG_MASK_INF, DIAG_MASK_ZERO. Parameter 0 shifts the diagonal to the right.
pub fn diag_mask(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let value = if node.op() == GGML_OP_DIAG_MASK_INF { f32::NEG_INFINITY } else { 0.0 };
    let kept = Band { low: i32::MIN, high: node.op_param_i32(0), value };
    band(View::of(src(node, 0)?)?, View::of(node)?, kept, plan)
}

/// F32 rows, and square matrices of their length.
pub fn check_diag(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?.ne();
    ensure!(node.ne() == [a[0], a[0], a[2], a[3]] && a[1] == 1, "{a:?} into {:?}", node.ne());
    Ok(())
}

/// DIAG. Every row of the matrix reads the one row of the source.
pub fn diag(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let mut a = View::of(src(node, 0)?)?;
    a.nb[1] = 0;
    band(a, View::of(node)?, Band { low: 0, high: 0, value: 0.0 }, plan)
}

/// F32: square matrices with contiguous rows, and right-hand sides with the shape of the node.
pub fn check_solve_tri(node: TensorRef, _: &Info) -> Result<()> {
    let [a, b] = check_all_f32(node)?;
    let (x, y) = (a.ne(), b.ne());
    ensure!(b.same_shape(node) && x[0] == x[1] && x[1] == y[1] && x[2..] == y[2..], "{x:?} and {y:?}");
    ensure!(a.is_contiguous_rows(), "rows with gaps");
    Ok(())
}

/// SOLVE_TRI.
pub fn solve_tri(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let threads = if plan.info.software { plan.info.limits.subgroup_size } else { 64 };
    let parts = d.ne[0].div_ceil(threads);
    let n_groups = parts.saturating_mul(d.ne[2] * d.ne[3]);
    ensure!(n_groups < 1 << 31, "{:?} systems", d.ne);
    let g = Grid::list(n_groups.into(), threads, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::SolveTri {})?;
    let push = push::SolveTri {
        a: a.at,
        b: b.at,
        d: d.at,
        n: d.ne[1],
        columns: d.ne[0],
        n_groups,
        ne2: d.ne[2],
        parts,
        a_nb: a.nb123(),
        b_nb: b.nb,
        d_nb: d.nb,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range], &[d.range]);
    Ok(())
}
