//! Windows of images and relative positions.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_all_f32, check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Which rows are copied: `OP` of `window.comp`.
#[derive(Clone, Copy)]
enum Copied {
    /// Windows of an image.
    Windows = 0,
    /// An image from its windows.
    Image = 1,
    /// Rows of a table, by distance.
    Distances = 2,
}

fn copy(node: TensorRef, op: Copied, across: u32, size: u32, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let constants = constants::Window { op: op as u32, bytes: d.dtype.type_size() as u32 };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::Window {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        a_ne: a.ne,
        a_nb: a.nb,
        d_nb: d.nb,
        across,
        size,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// An image in F32. Parameters: windows in a row, windows in a column, size.
pub fn check_win_part(node: TensorRef, _: &Info) -> Result<()> {
    let (a, n) = (check_f32(node)?.ne(), node.ne());
    let p = |i| i64::from(node.op_param_i32(i));
    ensure!(p(0) > 0 && p(1) > 0 && p(2) > 0, "windows {} x {} of {}", p(0), p(1), p(2));
    ensure!(a[0] == n[0] && a[3] == 1 && n[3] == p(0) * p(1), "{a:?} into {n:?}");
    ensure!(n[1] <= p(2) && n[2] <= p(2) && p(0) * p(2) < 1 << 31 && p(1) * p(2) < 1 << 31, "{n:?}");
    Ok(())
}

/// WIN_PART.
pub fn win_part(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let [across, size] = [0, 2].map(|i| node.op_param_i32(i) as u32);
    copy(node, Copied::Windows, across, size, plan)
}

/// Windows in F32. Parameter 0: size.
pub fn check_win_unpart(node: TensorRef, _: &Info) -> Result<()> {
    let (a, n) = (check_f32(node)?.ne(), node.ne());
    let size = i64::from(node.op_param_i32(0));
    ensure!(size > 0 && a[1] >= size && a[2] >= size, "windows of {size} in {a:?}");
    let windows = n[1..3].iter().map(|n| (*n as u64).div_ceil(size as u64)).product::<u64>();
    ensure!(a[0] == n[0] && a[3] as u64 >= windows && n[3] == 1, "{a:?} into {n:?}");
    Ok(())
}

/// WIN_UNPART.
pub fn win_unpart(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let size = node.op_param_i32(0) as u32;
    let across = (node.ne()[1] as u32).div_ceil(size);
    copy(node, Copied::Image, across, size, plan)
}

/// 16-bit floats, whose bits are copied, and a row for each distance.
pub fn check_get_rel_pos(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(matches!(t.dtype(), GGML_TYPE_F16 | GGML_TYPE_BF16), "a table of {:?}", t.dtype());
        View::shape(t)?;
    }
    let (a, n) = (a.ne(), node.ne());
    ensure!(n[0] == a[0] && a[1] >= n[1] + n[2] - 1 && n[3] == 1, "{a:?} into {n:?}");
    Ok(())
}

/// GET_REL_POS.
pub fn get_rel_pos(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    copy(node, Copied::Distances, 1, 1, plan)
}

/// F32: scores `[width * width, positions, windows]`, contiguous in the node, and biases `[width, w, h, windows]`.
pub fn check_add_rel_pos(node: TensorRef, _: &Info) -> Result<()> {
    let [s, a, b] = check_all_f32(node)?;
    let (x, n) = (a.ne(), node.ne());
    ensure!(s.same_shape(node) && node.is_contiguous(), "scores {:?} into {n:?}", s.ne());
    ensure!(a.same_shape(b) && n[0] == x[0] * x[0] && node.nrows() == x[1] * x[2] * x[3], "{n:?} with {x:?}");
    Ok(())
}

/// ADD_REL_POS.
pub fn add_rel_pos(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, w, h) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(src(node, 2)?)?);
    let d = View::of(node)?;
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::AddRelPos {})?;
    let push = push::AddRelPos {
        a: a.at,
        w: w.at,
        h: h.at,
        d: d.at,
        columns: d.ne[0],
        n_rows: d.n_rows(),
        ne1: d.ne[1],
        ne2: d.ne[2],
        a_nb: a.nb,
        d_nb: d.ne[0],
        w_ne: [w.ne[0], w.ne[1], w.ne[2]],
        w_nb: w.nb,
        h_nb: h.nb,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, w.range, h.range], &[d.range]);
    Ok(())
}
