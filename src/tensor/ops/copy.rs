//! Data moved or laid out again: copies, conversions, parts replaced, repetitions, tensors joined.
#![forbid(unsafe_code)]

use super::build::{Node, Place, dim, divides, param_word, require, require_as_many, require_contiguous, require_type};
use crate::abi::ggml::GGML_MAX_DIMS;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// The same elements.
pub fn dup(ctx: &mut Context, a: TensorRef, place: Place) -> Result<TensorRef> {
    Node::new(GGML_OP_DUP, place.result(ctx, a)?).of([a])
}

/// A part of a tensor: strides of dimensions 1 to 3 and the offset of its start, all in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Strides of dimensions 1, 2 and 3.
    pub nb: [usize; 3],
    /// Bytes to the first element.
    pub offset: usize,
}

impl Region {
    /// The strides of `a`, at an offset of `offset` bytes.
    pub fn like(a: TensorRef, offset: usize) -> Self {
        let nb = a.nb();
        Self { nb: [nb[1], nb[2], nb[3]], offset }
    }

    /// As [`Self::like`], with another stride of rows.
    pub fn with_row_stride(a: TensorRef, nb1: usize, offset: usize) -> Self {
        let mut r = Self::like(a, offset);
        r.nb[0] = nb1;
        r
    }

    /// The region of an `ACC` or `SET` node, as its parameters hold it.
    pub fn of_node(node: TensorRef) -> Self {
        let [a, b, c, offset] = [0, 1, 2, 3].map(|i| node.op_param_i32(i) as usize);
        Self { nb: [a, b, c], offset }
    }

    /// The parameter words. A stride that no element of `b` needs is cut to 32 bits, as it has always been.
    fn words(self, op: &str, b: TensorRef) -> Result<[i32; 4]> {
        let ne = b.ne();
        let mut words = [0; 4];
        for (i, w) in words[..3].iter_mut().enumerate() {
            *w = if ne[i + 1] > 1 { param_word(op, "stride", self.nb[i])? } else { self.nb[i] as u32 as i32 };
        }
        words[3] = param_word(op, "offset", self.offset)?;
        Ok(words)
    }
}

/// `a` with `b` added to a part of it.
///
/// # Parameters
/// 0 to 2: strides, 3: offset, 4: in place.
pub fn acc(ctx: &mut Context, a: TensorRef, b: TensorRef, region: Region, place: Place) -> Result<TensorRef> {
    require(b.nelements() <= a.nelements(), || format!("acc: b {:?} is larger than a {:?}", b.ne(), a.ne()));
    require_contiguous("acc", &[("a", a)]);
    require_type("acc", "a", a, &[GGML_TYPE_F32]);
    require_type("acc", "b", b, &[GGML_TYPE_F32]);
    require(region.offset < 1 << 30, || format!("acc: offset {} is not below 2^30", region.offset));
    let words = region.words("acc", b)?;
    Node::new(GGML_OP_ACC, place.result(ctx, a)?).params(0, words).param(4, place.is_inplace()).of([a, b])
}

/// `a` with a part of it replaced by `b`. Parameters as for [`acc`].
pub fn set(ctx: &mut Context, a: TensorRef, b: TensorRef, region: Region, place: Place) -> Result<TensorRef> {
    require(b.nelements() <= a.nelements(), || format!("set: b {:?} is larger than a {:?}", b.ne(), a.ne()));
    require(region.offset < 1 << 30, || format!("set: offset {} is not below 2^30", region.offset));
    let words = region.words("set", b)?;
    Node::new(GGML_OP_SET, place.result(ctx, a)?).params(0, words).param(4, place.is_inplace()).of([a, b])
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

/// `a` repeated to fill `dims`, each a multiple of its own.
pub fn repeat(ctx: &mut Context, a: TensorRef, dims: [i64; GGML_MAX_DIMS]) -> Result<TensorRef> {
    require(a.is_empty() || std::iter::zip(a.ne(), dims).all(|(n, d)| divides(n, d)), || {
        format!("repeat: a {:?} cannot be repeated to fill {dims:?}", a.ne())
    });
    Node::new(GGML_OP_REPEAT, ctx.new_tensor(a.dtype(), &dims)?).of([a])
}

/// `a` repeated to the shape of `b`.
pub fn repeat_like(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require(a.can_repeat(b), || format!("repeat: a {:?} cannot be repeated to fill {:?}", a.ne(), b.ne()));
    repeat(ctx, a, b.ne())
}

/// The sum of all repetitions of the shape of `b` in `a`.
pub fn repeat_back(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require(b.can_repeat(a), || format!("repeat_back: b {:?} cannot be repeated to fill a {:?}", b.ne(), a.ne()));
    Node::new(GGML_OP_REPEAT_BACK, ctx.new_tensor(a.dtype(), &b.ne())?).of([a])
}

/// `b` after `a` along dimension `axis`. The other dimensions must be the same.
///
/// # Parameters
/// 0: the axis.
pub fn concat(ctx: &mut Context, a: TensorRef, b: TensorRef, axis: i32) -> Result<TensorRef> {
    require((0..GGML_MAX_DIMS as i32).contains(&axis), || format!("concat: there is no dimension {axis}"));
    require(a.dtype() == b.dtype(), || format!("concat: types {:?} and {:?} differ", a.dtype(), b.dtype()));
    let along = axis as usize;
    let (mut ne, nb) = (a.ne(), b.ne());
    require((0..GGML_MAX_DIMS).all(|i| i == along || ne[i] == nb[i]), || {
        format!("concat: a {:?} and b {nb:?} differ in more than dimension {axis}", a.ne())
    });
    ne[along] = dim(i128::from(ne[along]) + i128::from(nb[along]))?;
    Node::new(GGML_OP_CONCAT, ctx.new_tensor(a.dtype(), &ne)?).param(0, axis).of([a, b])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn a_region_is_five_words() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[8, 8]), f32s(c, &[4, 4]));
        let t = acc(c, a, b, Region::like(a, 16), Place::Inplace).unwrap();
        assert_eq!(t.op_params()[..6], [32, 256, 256, 16, 1, 0]);
        let t = set(c, a, b, Region::with_row_stride(a, 64, 0), Place::New).unwrap();
        assert_eq!(t.op_params()[..6], [64, 256, 256, 0, 0, 0]);
        assert_eq!(Region::of_node(t).nb, [64, 256, 256]);
    }

    #[test]
    fn a_stride_that_matters_must_fit_a_word() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[8, 8]), f32s(c, &[4, 4]));
        let far = Region { nb: [1 << 40, 0, 0], offset: 0 };
        assert!(acc(c, a, b, far, Place::New).is_err());
        let row = f32s(c, &[4]);
        assert!(acc(c, a, row, far, Place::New).is_ok());
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

    #[test]
    fn nothing_repeats_to_nothing_only() {
        let c = &mut ctx();
        let empty = f32s(c, &[0, 2]);
        assert!(repeat_like(c, empty, empty).is_ok());
    }

    #[test]
    fn shapes_of_copies() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[4, 2]), f32s(c, &[4, 3]));
        assert_eq!(concat(c, a, b, 1).unwrap().ne(), [4, 5, 1, 1]);
        assert_eq!(repeat(c, a, [8, 4, 3, 1]).unwrap().ne(), [8, 4, 3, 1]);
        let big = f32s(c, &[8, 4]);
        assert_eq!(repeat_back(c, big, a).unwrap().ne(), a.ne());
    }
}
