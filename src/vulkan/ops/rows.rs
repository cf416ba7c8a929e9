//! Rows by index. Indices are data: shaders check them.

#![forbid(unsafe_code)]

use super::elementwise::grid;
use super::{ensure, format_name, is_any_float, src};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::Info;
use crate::vulkan::plan::{Kernel, Plan, Push, View};
use crate::vulkan::shaders::Shader;

/// Dense rows of a format with a shader into floats, or of integers into integers; indices of 32 bits.
pub fn check_get(node: TensorRef, _: &Info) -> Result<()> {
    let (a, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(ids.dtype() == GGML_TYPE_I32, "indices of {:?}", ids.dtype());
    let floats = matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16) && a.dtype() != GGML_TYPE_I32;
    let integers = (node.dtype(), a.dtype()) == (GGML_TYPE_I32, GGML_TYPE_I32);
    ensure!(floats || integers, "rows of {:?} into {:?}", a.dtype(), node.dtype());
    get_shader(a.dtype())?;
    ensure!(a.is_contiguous_rows() && node.is_contiguous_rows(), "rows with gaps");
    [a, ids, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

fn get_shader(dtype: ggml_type) -> Result<Shader> {
    let as_read = if dtype == GGML_TYPE_I32 { GGML_TYPE_F32 } else { dtype };
    Shader::named(&format!("get_rows.{}", format_name(as_read)))
}

/// GET_ROWS.
pub fn get(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let columns = if a.dtype.blck_size() == 1 { d.ne[0] } else { d.ne[0] / 8 };
    let g = grid(columns, d.n_rows(), plan.info)?;
    let kernel = Kernel::new(get_shader(a.dtype)?, g.size, &[d.ty()]);
    let push = Push::new().at(a.at).at(ids.at).at(d.at).words(&d.ne).u32(d.n_rows()).u32(a.ne[1]);
    let push = push.words(&a.nb[1..]).words(&ids.nb[..3]).words(&d.nb[1..]);
    plan.dispatch(kernel, push, g.groups, &[a.range, ids.range], &[d.range]);
    Ok(())
}

/// Floats into a float format or blocks.
pub fn check_set(node: TensorRef, _: &Info) -> Result<()> {
    let (a, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(a.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "rows of {:?}", a.dtype());
    ensure!(matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64), "indices of {:?}", ids.dtype());
    if !is_any_float(node.dtype()) {
        Shader::named(&format!("quantize.{}", format_name(node.dtype())))?;
    }
    ensure!(node.is_contiguous_rows(), "rows with gaps");
    [a, ids, node].into_iter().try_for_each(|t| View::shape(t).map(drop))
}

/// SET_ROWS.
pub fn set(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let block = d.dtype.blck_size() as u32;
    let g = grid(a.ne[0] / block, a.n_rows(), plan.info)?;
    let kernel = if block == 1 {
        Kernel::new(Shader::named("set_rows")?, g.size, &[a.ty(), d.ty(), ids.ty()])
    } else {
        let shader = Shader::named(&format!("quantize.{}", format_name(d.dtype)))?;
        Kernel::new(shader, g.size, &[a.ty(), 1, ids.ty()])
    };
    let push = Push::new().at(a.at).at(ids.at).at(d.at).words(&a.ne).u32(a.n_rows()).u32(d.ne[1]);
    let push = push.words(&ids.ne[1..3]).words(&a.nb).words(&ids.nb[..3]).words(&d.nb[1..]);
    plan.dispatch(kernel, push, g.groups, &[a.range, ids.range], &[d.range]);
    Ok(())
}
