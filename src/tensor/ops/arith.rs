//! Two sources, element by element: sums, products, and adding into a part of a tensor.
#![forbid(unsafe_code)]

use super::build::{Node, Place, param_word, require, require_contiguous, require_same_shape, require_type};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// The four basic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a * b.
    Mul,
    /// a / b.
    Div,
}

impl Binary {
    fn op(self) -> ggml_op {
        match self {
            Self::Add => GGML_OP_ADD,
            Self::Sub => GGML_OP_SUB,
            Self::Mul => GGML_OP_MUL,
            Self::Div => GGML_OP_DIV,
        }
    }
}

/// `a` combined with `b`, which is repeated to fill the shape of `a`.
pub fn binary(ctx: &mut Context, kind: Binary, a: TensorRef, b: TensorRef, place: Place) -> Result<TensorRef> {
    require(b.can_repeat(a), || {
        format!("{kind:?}: b {:?} cannot be repeated to fill a {:?}", b.ne(), a.ne()).to_lowercase()
    });
    Node::new(kind.op(), place.result(ctx, a)?).of([a, b])
}

/// a + b in memory of its own.
#[cfg(any(test, fuzzing))]
pub fn add(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    binary(ctx, Binary::Add, a, b, Place::New)
}

/// a * b in memory of its own.
pub fn mul(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    binary(ctx, Binary::Mul, a, b, Place::New)
}

/// a / b in memory of its own.
pub fn div(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    binary(ctx, Binary::Div, a, b, Place::New)
}

/// a + b as another format; `b` has rows as long as those of `a`, which is quantized or of half precision.
pub fn add_cast(ctx: &mut Context, a: TensorRef, b: TensorRef, dtype: ggml_type) -> Result<TensorRef> {
    require(b.can_repeat_rows(a), || {
        format!("add_cast: rows of b {:?} cannot be repeated to fill a {:?}", b.ne(), a.ne())
    });
    let from = a.dtype();
    require(from.blck_size() > 1 || matches!(from, GGML_TYPE_F16 | GGML_TYPE_BF16), || {
        format!("add_cast: a must be quantized, F16 or BF16, not {from:?}")
    });
    Node::new(GGML_OP_ADD, ctx.new_tensor(dtype, &a.ne())?).of([a, b])
}

/// `a` [n, m, t] plus the rows of `b` [n, k] that `ids` [m, t] names.
pub fn add_id(ctx: &mut Context, a: TensorRef, b: TensorRef, ids: TensorRef) -> Result<TensorRef> {
    let (na, nb, ni) = (a.ne(), b.ne(), ids.ne());
    require(na[0] == nb[0], || format!("add_id: rows of a {na:?} and b {nb:?} differ in length"));
    require(na[1] == ni[0] && na[2] == ni[1], || format!("add_id: a {na:?} does not match ids {ni:?}"));
    require_type("add_id", "ids", ids, &[GGML_TYPE_I32]);
    Node::new(GGML_OP_ADD_ID, ctx.new_like(a)?).of([a, b, ids])
}

/// Whether a tensor is dense but for gaps between its rows.
pub(super) fn is_padded_rows(t: TensorRef) -> bool {
    let (ne, nb) = (t.ne(), t.nb());
    nb[0] == t.dtype().type_size()
        && nb[2] == nb[1].wrapping_mul(ne[1] as usize)
        && nb[3] == nb[2].wrapping_mul(ne[2] as usize)
}

#[track_caller]
fn require_padded_rows(op: &str, a: TensorRef) {
    require(is_padded_rows(a), || {
        format!("{op}: a may have gaps between rows only (elements {:?}, strides {:?})", a.ne(), a.nb())
    });
}

/// `a` plus the one element of `b`.
pub fn add1(ctx: &mut Context, a: TensorRef, b: TensorRef, place: Place) -> Result<TensorRef> {
    require(b.is_scalar(), || format!("add1: b must be one element, not {:?}", b.ne()));
    require_padded_rows("add1", a);
    Node::new(GGML_OP_ADD1, place.result(ctx, a)?).of([a, b])
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
    /// The strides of `a`, behind `offset` bytes.
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

/// The gradient of SiLU: `grad` of the result, `x` the source of the forward pass.
pub fn silu_back(ctx: &mut Context, grad: TensorRef, x: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_SILU_BACK, ctx.new_like(grad)?).of([grad, x])
}

/// How many elements are equal, as one I64.
pub fn count_equal(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require_same_shape("count_equal", ("a", a), ("b", b));
    Node::new(GGML_OP_COUNT_EQUAL, ctx.new_tensor(GGML_TYPE_I64, &[1])?).of([a, b])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, i32s, srcs};
    use super::*;

    #[test]
    fn the_second_source_is_repeated_and_in_place_is_a_view() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[4, 6]), f32s(c, &[4, 3]));
        let t = add(c, a, b).unwrap();
        assert_eq!((t.op(), t.ne(), t.view_src()), (GGML_OP_ADD, a.ne(), None));
        assert_eq!(srcs(t), [(0, a), (1, b)]);
        let t = binary(c, Binary::Div, a, b, Place::Inplace).unwrap();
        assert_eq!((t.op(), t.view_src()), (GGML_OP_DIV, Some(a)));
        assert_eq!(t.op_params(), [0; 16]);
    }

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
    fn rows_are_chosen_by_ids() {
        let c = &mut ctx();
        let (a, b, ids) = (f32s(c, &[4, 2, 5]), f32s(c, &[4, 9]), i32s(c, &[2, 5]));
        let t = add_id(c, a, b, ids).unwrap();
        assert_eq!((t.op(), t.ne()), (GGML_OP_ADD_ID, a.ne()));
        assert_eq!(count_equal(c, a, a).unwrap().dtype(), GGML_TYPE_I64);
    }
}
