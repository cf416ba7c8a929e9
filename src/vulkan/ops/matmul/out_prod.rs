//! Outer products.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::copy;
use crate::vulkan::ops::matmul::operands::Operands;
use crate::vulkan::plan::checks::{check_tile, ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::method::TILE;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Floats or blocks with a shader, times F32. src0 repeats over the matrices of src1.
pub fn check_out_prod(node: TensorRef, info: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "{:?} into {:?}", b.dtype(), node.dtype());
    let (x, y, n) = (a.ne(), b.ne(), node.ne());
    ensure!(n == [x[0], y[0], y[2], y[3]] && x[1] == y[1], "{x:?} by {y:?} into {n:?}");
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} does not repeat to {y:?}");
    [b, node].into_iter().try_for_each(|t| View::shape(t).map(drop))?;
    let view = View::shape(a)?;
    if !is_float(a.dtype()) {
        copy::check_views(view, GGML_TYPE_F32)?;
        ensure!(a.is_contiguous_rows() && view.n() * 4 <= 1 << 30, "{:?} of {:?}", a.dtype(), a.ne());
    }
    check_tile(8 << 10, info)?;
    let tiles = [n[0], n[1]].map(|n| n as u64).map(|n| n.div_ceil(TILE.into()));
    ensure!(tiles[0] * tiles[1] <= info.limits.groups[0].into(), "{} tiles", tiles[0] * tiles[1]);
    Ok(())
}

/// OUT_PROD. Blocks are first converted to F32.
pub fn out_prod(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let Operands { mut a, b, d } = Operands::of(node)?;
    if !is_float(a.dtype) {
        a = copy::into_scratch(a, GGML_TYPE_F32, plan)?;
    }
    let tiles = d.ne[0].div_ceil(TILE);
    let g = Grid::stack(tiles * d.ne[1].div_ceil(TILE), u64::from(d.ne[2] * d.ne[3]), 256, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::OutProd { a: a.ty() })?;
    let push = push::OutProd {
        a: a.at,
        b: b.at,
        d: d.at,
        m: d.ne[0],
        n: d.ne[1],
        k: b.ne[1],
        ne2: d.ne[2],
        n_matrices: d.ne[2] * d.ne[3],
        repeat: [d.ne[2] / a.ne[2], d.ne[3] / a.ne[3]],
        a_nb: a.nb,
        b_nb: b.nb,
        d_nb: d.nb,
        tiles,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range], &[d.range]);
    Ok(())
}
