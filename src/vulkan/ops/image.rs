//! Padding (PAD).

#![forbid(unsafe_code)]

use super::{check_f32, ensure, grid, src};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::Info;
use crate::vulkan::interface::{constants, push};
use crate::vulkan::plan::{DispatchList, KernelFor, View};

/// F32, and not empty.
pub fn check_pad(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.ne().iter().all(|&n| n > 0), "nothing to pad");
    Ok(())
}

/// PAD. Parameters 0 to 7: elements before and after the source in each dimension. 8: circular.
pub fn pad(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Pad { circular: node.op_param_i32(8) != 0 })?;
    let push = push::Pad {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        a_ne: a.ne,
        a_nb: a.nb,
        d_nb: d.nb,
        before: [0, 2, 4, 6].map(|i| node.op_param_i32(i)),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
