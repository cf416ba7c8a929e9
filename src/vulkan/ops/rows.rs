//! Rows by index (GET_ROWS, SET_ROWS). Shaders check the indices, because they are data.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::unary;
use crate::vulkan::plan::checks::{ensure, is_any_float, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, listed, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Contiguous rows of a format with a shader into floats, or of integers into integers. Indices of 32 bits.
pub fn check_get(node: TensorRef, _: &Info) -> Result<()> {
    let (a, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(ids.dtype() == GGML_TYPE_I32, "indices of {:?}", ids.dtype());
    let floats = matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16) && a.dtype() != GGML_TYPE_I32;
    let integers = (node.dtype(), a.dtype()) == (GGML_TYPE_I32, GGML_TYPE_I32);
    ensure!(floats || integers, "rows of {:?} into {:?}", a.dtype(), node.dtype());
    listed(formats::ALL, "get_rows", read_as(a.dtype()))?;
    ensure!(a.is_contiguous_rows() && node.is_contiguous_rows(), "rows with gaps");
    [a, ids, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// The format whose variant of `get_rows` reads rows of `dtype`. Rows of 32-bit integers use that of F32, which copies
/// their bits.
fn read_as(dtype: ggml_type) -> ggml_type {
    if dtype == GGML_TYPE_I32 { GGML_TYPE_F32 } else { dtype }
}

/// GET_ROWS.
pub fn get(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let columns = if a.dtype.blck_size() == 1 { d.ne[0] } else { d.ne[0] / 8 };
    let g = grid(columns, d.n_rows(), plan.info)?;
    let kernel = KernelFor::new(&format_name(read_as(a.dtype)), g.size, &constants::GetRows { d: d.ty() })?;
    let push = push::GetRows {
        a: a.at,
        ids: ids.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        a_ne1: a.ne[1],
        a_nb: a.nb123(),
        ids_nb: ids.nb012(),
        d_nb: d.nb123(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, ids.range], &[d.range]);
    Ok(())
}

/// Floats into a float format or blocks.
pub fn check_set(node: TensorRef, _: &Info) -> Result<()> {
    let (a, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(a.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "rows of {:?}", a.dtype());
    ensure!(matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64), "indices of {:?}", ids.dtype());
    if !is_any_float(node.dtype()) {
        listed(formats::QUANTIZE, "quantize", node.dtype())?;
    }
    ensure!(node.is_contiguous_rows(), "rows with gaps");
    [a, ids, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// SET_ROWS.
pub fn set(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let block = d.dtype.blck_size() as u32;
    let g = grid(a.ne[0] / block, a.n_rows(), plan.info)?;
    let kernel = if block == 1 {
        KernelFor::new("", g.size, &constants::SetRows { a: a.ty(), d: d.ty(), index: ids.ty() })?
    } else {
        let constants = constants::Quantize { a: a.ty(), ids: true, index: ids.ty() };
        KernelFor::new(&format_name(d.dtype), g.size, &constants)?
    };
    let push = push::SetRows {
        a: a.at,
        ids: ids.at,
        d: d.at,
        ne: a.ne,
        n_rows: a.n_rows(),
        d_ne1: d.ne[1],
        ids_ne: [ids.ne[1], ids.ne[2]],
        a_nb: a.nb,
        ids_nb: ids.nb012(),
        d_nb: d.nb123(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, ids.range], &[d.range]);
    Ok(())
}

/// A matrix of floats, an index for each of its first rows, and a contiguous matrix in F32.
pub fn check_get_back(node: TensorRef, _: &Info) -> Result<()> {
    let (a, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(is_float(a.dtype()) && node.dtype() == GGML_TYPE_F32, "{:?} into {:?}", a.dtype(), node.dtype());
    ensure!(ids.dtype() == GGML_TYPE_I32, "indices of {:?}", ids.dtype());
    ensure!(a.is_matrix() && ids.is_vector() && node.is_matrix() && node.is_contiguous(), "no matrices");
    ensure!(a.ne()[0] == node.ne()[0] && a.ne()[1] >= ids.ne()[0], "{:?} by {:?}", a.ne(), ids.ne());
    [a, ids, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// GET_ROWS_BACK: zeros, then the rows that indices select.
pub fn get_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    unary::fill(d, 0.0, plan)?;
    let n = ids.ne[0];
    let g = grid(d.ne[0], n, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::GetRowsBack { a: a.ty() })?;
    let push = push::GetRowsBack {
        a: a.at,
        ids: ids.at,
        d: d.at,
        columns: d.ne[0],
        n_rows: n,
        d_ne1: d.ne[1],
        a_nb: [a.nb[0], a.nb[1]],
        ids_nb: ids.nb[0],
        d_nb: d.nb[1],
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, ids.range], &[d.range]);
    Ok(())
}
