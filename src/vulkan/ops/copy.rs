//! Copies with conversion.

#![forbid(unsafe_code)]

use super::elementwise::grid;
use super::{ensure, is_float, src};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::Info;
use crate::vulkan::plan::{Kernel, Plan, Push, View};
use crate::vulkan::shaders::Shader;

/// The node's target: CPY has it as source 1, whose memory the node is.
fn ends(node: TensorRef) -> Result<(TensorRef, TensorRef)> {
    Ok((src(node, 0)?, node))
}

fn plain(t: ggml_type) -> bool {
    t.blck_size() == 1
}

/// Plain formats of one type, or floats and 32-bit integers of two; same shape, or less than 2^32 elements.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let (a, d) = ends(node)?;
    let (from, to) = (a.dtype(), d.dtype());
    let number = |t| is_float(t) || t == GGML_TYPE_I32;
    ensure!(plain(from) && plain(to), "copies of {from:?} into {to:?}");
    ensure!(from == to || (number(from) && number(to)), "copies of {from:?} into {to:?}");
    ensure!(a.nelements() == d.nelements(), "{} elements into {}", a.nelements(), d.nelements());
    ensure!(a.same_shape(d) || a.nelements() < 1 << 32, "{} elements into another shape", a.nelements());
    View::shape(a)?;
    View::shape(d)?;
    Ok(())
}

/// CPY, CONT, DUP.
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, d) = ends(node)?;
    let (mut a, mut d) = (View::of(a)?, View::of(d)?);
    if a.is_dense() && d.is_dense() {
        (a, d) = (a.flat(), d.flat());
    }
    let bytes = if a.dtype == d.dtype { a.dtype.type_size() as u32 } else { 0 };
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let reshape = u32::from(a.ne != d.ne);
    let kernel = Kernel::new(Shader::named("copy")?, g.size, &[a.ty(), d.ty(), bytes, reshape]);
    let push = Push::new().at(a.at).at(d.at).words(&d.ne).words(&a.nb).words(&d.nb).words(&a.ne).u32(d.n_rows());
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
