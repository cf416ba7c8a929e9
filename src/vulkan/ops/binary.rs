//! Element-wise operations with two sources.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Floats. The first source has the shape of the node, and the second one repeats to it.
pub fn check_binary(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        ensure!(is_float(t.dtype()), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(a.same_shape(node) && b.can_repeat(a), "{:?} does not repeat to {:?}", b.ne(), a.ne());
    Ok(())
}

/// ADD, SUB, MUL, DIV, ADD1.
pub fn binary(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let op = match node.op() {
        GGML_OP_ADD | GGML_OP_ADD1 => Binary::Add,
        GGML_OP_SUB => Binary::Sub,
        GGML_OP_MUL => Binary::Mul,
        _ => Binary::Div,
    };
    combine(op, View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?, plan)
}

/// `OP` of `binary.comp`.
#[derive(Clone, Copy)]
pub enum Binary {
    /// Sum.
    Add = 0,
    /// Difference.
    Sub = 1,
    /// Product.
    Mul = 2,
    /// Quotient.
    Div = 3,
    /// The first operand times the derivative of SiLU at the second.
    SiluBack = 4,
}

/// d = a OP b, with b repeated to the shape of a.
pub fn combine(op: Binary, mut a: View, mut b: View, mut d: View, plan: &mut DispatchList<'_>) -> Result<()> {
    if a.ne == b.ne && a.is_dense() && b.is_dense() && d.is_dense() {
        (a, b, d) = (a.flat(), b.flat(), d.flat());
    }
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let constants = constants::Binary { op: op as u32, a: a.ty(), b: b.ty(), d: d.ty(), same: b.ne[0] == a.ne[0] };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::Binary {
        a: a.at,
        b: b.at,
        d: d.at,
        ne: d.ne,
        a_nb: a.nb,
        b_nb: b.nb,
        d_nb: d.nb,
        b_ne: b.ne,
        n_rows: d.n_rows(),
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range], &[d.range]);
    Ok(())
}

/// F32, contiguous rows, and an index for each row.
pub fn check_add_id(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b, ids) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [a, b, node] {
        ensure!(t.dtype() == GGML_TYPE_F32 && t.is_contiguous_rows(), "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    ensure!(ids.dtype() == GGML_TYPE_I32, "indices of {:?}", ids.dtype());
    View::shape(ids)?;
    ensure!(a.same_shape(node) && a.ne()[0] == b.ne()[0], "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

/// ADD_ID.
pub fn add_id(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let ids = View::of(src(node, 2)?)?;
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::AddId {})?;
    let push = push::AddId {
        a: a.at,
        b: b.at,
        ids: ids.at,
        d: d.at,
        ne: [d.ne[0], d.ne[1], d.ne[2]],
        n_rows: d.n_rows(),
        a_nb: a.nb123(),
        d_nb: d.nb123(),
        b_nb1: b.nb[1],
        b_ne1: b.ne[1],
        ids_nb: [ids.nb[0], ids.nb[1]],
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range, ids.range], &[d.range]);
    Ok(())
}

/// The sum of `n` tensors in F32 with contiguous rows: `first`, and those after it at a distance of `spacing` elements
/// each. `weights` has a value for each tensor (dimension 1) and each row (dimension 2).
pub fn spaced_sum(
    first: TensorRef,
    weights: Option<TensorRef>,
    (n, spacing): (u32, u32),
    result: TensorRef,
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    let (a, d) = (View::of(first)?, View::of(result)?);
    sum_of_spaced(&a, weights.map(View::of).transpose()?, (n, spacing), &d, plan)
}

/// The same for views.
pub fn sum_of_spaced(
    a: &View,
    w: Option<View>,
    (n, spacing): (u32, u32),
    d: &View,
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::SpacedSum { weighted: w.is_some() })?;
    // With weights, the first tensor is the whole product: dimension 1 has the tensors, dimension 2 their rows.
    let a_nb = if w.is_some() { [a.nb[2], 0, 0] } else { a.nb123() };
    let push = push::SpacedSum {
        a: a.at,
        d: d.at,
        w: w.map_or(0, |w| w.at),
        columns: d.ne[0],
        n_rows: d.n_rows(),
        ne1: d.ne[1],
        ne2: d.ne[2],
        n,
        spacing,
        a_nb,
        d_nb: d.nb123(),
        w_nb: w.map_or([0; 2], |w| [w.nb[1], w.nb[2]]),
    };
    let all = match w {
        Some(_) => a.range,
        None => Range::new(a.at, u64::from(spacing) * 4 * u64::from(n - 1) + a.range.len),
    };
    let reads: Vec<_> = [Some(all), w.map(|w| w.range)].into_iter().flatten().collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}
