//! The same elements with another shape, order or format: reshapes, views, permutations, and the copies that make them
//! dense again.
#![forbid(unsafe_code)]

use super::build::{Node, product, require, require_contiguous};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::{GGML_MAX_DIMS, ggml_type};
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};

#[track_caller]
fn require_as_many(op: &str, a: TensorRef, dims: &[i64]) {
    require(product(dims).is_ok_and(|n| n == a.nelements()), || {
        format!("{op}: {:?} and {dims:?} are not the same number of elements", a.ne())
    });
}

/// Contiguous `a` under another shape with as many elements.
pub fn reshape(ctx: &mut Context, a: TensorRef, dims: &[i64]) -> Result<TensorRef> {
    require_contiguous("reshape", &[("a", a)]);
    require_as_many("reshape", a, dims);
    Node::new(GGML_OP_RESHAPE, ctx.new_view(a, dims, 0)?).named(a, " (reshaped)").of([a])
}

/// A part of `a`, `offset` bytes behind its start, with `dims` elements and strides `nb` from dimension 1 on. Strides that
/// are not given go on densely.
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

/// A dense copy of `a`.
pub fn cont(ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_CONT, ctx.new_like(a)?).named(a, " (cont)").of([a])
}

/// A dense copy of `a` under another shape with as many elements.
pub fn cont_as(ctx: &mut Context, a: TensorRef, dims: [i64; GGML_MAX_DIMS]) -> Result<TensorRef> {
    require_as_many("cont", a, &dims);
    Node::new(GGML_OP_CONT, ctx.new_tensor(a.dtype(), &dims)?).named(a, " (cont)").of([a])
}

/// `a` copied into `b`, which has as many elements; the result is a view of `b`.
pub fn cpy(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require(a.nelements() == b.nelements(), || {
        format!("cpy: {:?} and {:?} are not the same number of elements", a.ne(), b.ne())
    });
    let t = ctx.new_unnamed_alias(b)?;
    let name = if b.has_name() {
        [&b.name_bytes()[..], b" (copy of ", &a.name_bytes(), b")"].concat()
    } else {
        [&a.name_bytes()[..], b" (copy)"].concat()
    };
    t.set_name(&name);
    Node::new(GGML_OP_CPY, t).of([a, b])
}

/// `a` converted to another format. The node is its own second source: backends look there for the target of a copy.
pub fn cast(ctx: &mut Context, a: TensorRef, dtype: ggml_type) -> Result<TensorRef> {
    let t = ctx.new_tensor(dtype, &a.ne())?;
    Node::new(GGML_OP_CPY, t).named(a, " (copy)").of([a, t])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;
    use crate::abi::ggml::ggml_type::*;

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

    #[test]
    fn copies_are_named_after_both() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[4]), f32s(c, &[2, 2]));
        a.set_name(b"from");
        let t = cpy(c, a, b).unwrap();
        assert_eq!((t.name().as_str(), t.view_src(), t.ne()), ("from (copy)", Some(b), b.ne()));
        b.set_name(b"to");
        assert_eq!(cpy(c, a, b).unwrap().name(), "to (copy of from)");
        let t = cast(c, a, GGML_TYPE_F16).unwrap();
        assert_eq!(srcs(t), [(0, a), (1, t)]);
    }
}
