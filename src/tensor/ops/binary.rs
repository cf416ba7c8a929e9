//! Two sources, element by element.
#![forbid(unsafe_code)]

use super::build::{Node, Place, require, require_type};
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
    fn rows_are_chosen_by_ids() {
        let c = &mut ctx();
        let (a, b, ids) = (f32s(c, &[4, 2, 5]), f32s(c, &[4, 9]), i32s(c, &[2, 5]));
        let t = add_id(c, a, b, ids).unwrap();
        assert_eq!((t.op(), t.ne()), (GGML_OP_ADD_ID, a.ne()));
    }
}
