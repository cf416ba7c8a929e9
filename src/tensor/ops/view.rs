//! The same memory with another shape or order: reshapes, views, permutations.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_as_many, require_contiguous};
use crate::abi::ggml::GGML_MAX_DIMS;
use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};

/// Contiguous `a` under another shape with as many elements.
pub fn reshape(ctx: &mut Context, a: TensorRef, dims: &[i64]) -> Result<TensorRef> {
    require_contiguous("reshape", &[("a", a)]);
    require_as_many("reshape", a, dims);
    Node::new(GGML_OP_RESHAPE, ctx.new_view(a, dims, 0)?).named(a, " (reshaped)").of([a])
}

/// A part of `a`, `offset` bytes after its start, with `dims` elements and strides `nb` from dimension 1 on. Strides
/// that are not given go on densely.
///
/// # Parameters
/// 0 and 1: the offset in `a` (64 bits).
pub fn view(ctx: &mut Context, a: TensorRef, dims: &[i64], nb: &[usize], offset: usize) -> Result<TensorRef> {
    let t = ctx.new_view(a, dims, offset)?;
    if !nb.is_empty() {
        let (ne, mut all) = (t.ne(), t.nb());
        all[1..=nb.len()].copy_from_slice(nb);
        for i in nb.len() + 1..GGML_MAX_DIMS {
            let next = usize::try_from(ne[i - 1]).ok().and_then(|n| all[i - 1].checked_mul(n));
            all[i] = next.ok_or_else(|| invalid!("view: strides {nb:?} of {dims:?} elements overflow"))?;
        }
        t.set_nb(all);
    }
    t.set_op_param_u64(0, offset as u64);
    Node::new(GGML_OP_VIEW, t).named(a, " (view)").of([a])
}

/// `a` with its dimensions in another order: dimension `i` of `a` becomes dimension `axes[i]`.
///
/// # Parameters
/// 0 to 3: the axes.
pub fn permute(ctx: &mut Context, a: TensorRef, axes: [i32; GGML_MAX_DIMS]) -> Result<TensorRef> {
    let mut seen = [false; GGML_MAX_DIMS];
    for axis in axes {
        let slot = usize::try_from(axis).ok().and_then(|i| seen.get_mut(i));
        require(slot.is_some_and(|s| !std::mem::replace(s, true)), || {
            format!("permute: axes {axes:?} are no order of 0, 1, 2, 3")
        });
    }
    let t = ctx.new_unnamed_alias(a)?;
    let (mut ne, mut nb) = (a.ne(), a.nb());
    for (i, axis) in axes.into_iter().enumerate() {
        ne[axis as usize] = a.ne()[i];
        nb[axis as usize] = a.nb()[i];
    }
    t.set_ne(ne);
    t.set_nb(nb);
    Node::new(GGML_OP_PERMUTE, t).named(a, " (permuted)").params(0, axes).of([a])
}

/// `a` with its first two dimensions swapped.
pub fn transpose(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    let t = ctx.new_unnamed_alias(a)?;
    let (mut ne, mut nb) = (a.ne(), a.nb());
    ne.swap(0, 1);
    nb.swap(0, 1);
    t.set_ne(ne);
    t.set_nb(nb);
    Node::new(GGML_OP_TRANSPOSE, t).named(a, " (transposed)").of([a])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::super::copy::cont;
    use super::*;

    #[test]
    fn views_of_views_count_from_the_base() {
        let c = &mut ctx();
        let a = f32s(c, &[10, 10]);
        a.set_name(b"a");
        let v = view(c, a, &[4, 3], &[40], 80).unwrap();
        assert_eq!((v.nb(), v.view_offs(), v.op_param_u64(0)), ([4, 40, 120, 120], 80, 80));
        let w = view(c, v, &[2], &[], 8).unwrap();
        assert_eq!((w.view_src(), w.view_offs(), w.op_param_u64(0)), (Some(a), 88, 8));
        assert_eq!((w.name().as_str(), srcs(w)), ("a (view) (view)", vec![(0, v)]));
        let x = view(c, a, &[2, 2, 2], &[40, 80], 0).unwrap();
        assert_eq!(x.nb(), [4, 40, 80, 160]);
    }

    #[test]
    fn permuting_moves_counts_and_strides() {
        let c = &mut ctx();
        let a = f32s(c, &[2, 3, 4, 5]);
        let p = permute(c, a, [2, 0, 1, 3]).unwrap();
        assert_eq!((p.ne(), p.nb()), ([3, 4, 2, 5], [8, 24, 4, 96]));
        assert_eq!(p.op_params()[..5], [2, 0, 1, 3, 0]);
        let t = transpose(c, a).unwrap();
        assert_eq!((t.ne(), t.nb()), ([3, 2, 4, 5], [8, 4, 24, 96]));
        assert_eq!(cont(c, t).unwrap().nb(), [4, 12, 24, 96]);
    }
}
