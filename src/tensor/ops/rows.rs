//! Rows chosen by index: gathering, scattering, and the gradient of gathering.
#![forbid(unsafe_code)]

use super::build::{Node, divides, require, require_contiguous_rows, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// The rows of `a` [n, m, p, q] that I32 `b` [k, p, q] names, as [n, k, p, q]: F32, or I32 when `a` is.
pub fn get_rows(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    let (na, nb) = (a.ne(), b.ne());
    require(na[2] == nb[1] && na[3] == nb[2] && nb[3] == 1, || {
        format!("get_rows: indices {nb:?} do not match the batches of {na:?}")
    });
    require_type("get_rows", "b", b, &[GGML_TYPE_I32]);
    let dtype = if a.dtype() == GGML_TYPE_I32 { GGML_TYPE_I32 } else { GGML_TYPE_F32 };
    Node::new(GGML_OP_GET_ROWS, ctx.new_tensor(dtype, &[na[0], nb[0], nb[1], nb[2]])?).of([a, b])
}

/// The gradient of [`get_rows`] of a matrix shaped like `c`: the rows of `a` added up where `b` says, as F32.
pub fn get_rows_back(ctx: &mut Context, a: TensorRef, b: TensorRef, c: TensorRef) -> Result<TensorRef> {
    require(a.is_matrix() && c.is_matrix() && a.ne()[0] == c.ne()[0], || {
        format!("get_rows_back: {:?} and {:?} must be matrices with rows of one length", a.ne(), c.ne())
    });
    require(b.is_vector(), || format!("get_rows_back: indices must be one row, not {:?}", b.ne()));
    require_type("get_rows_back", "b", b, &[GGML_TYPE_I32]);
    Node::new(GGML_OP_GET_ROWS_BACK, ctx.new_tensor(GGML_TYPE_F32, &c.ne()[..2])?).of([a, b])
}

/// `a` [n, m, p, q] with the rows of F32 or F16 `b` [n, k, p, q] written, in the format of `a`, to the places that I64
/// or I32 `c` [k, p', q'] names; p' and q' divide p and q. A view of `a`, which is the third source.
pub fn set_rows(ctx: &mut Context, a: TensorRef, b: TensorRef, c: TensorRef) -> Result<TensorRef> {
    let (na, nb, nc) = (a.ne(), b.ne(), c.ne());
    require(na[0] == nb[0] && na[2] == nb[2] && na[3] == nb[3], || {
        format!("set_rows: rows of {nb:?} do not fit into {na:?}")
    });
    require(nb[1] == nc[0] && divides(nc[1], nb[2]) && divides(nc[2], nb[3]) && nc[3] == 1, || {
        format!("set_rows: indices {nc:?} do not match rows {nb:?}")
    });
    require_type("set_rows", "b", b, &[GGML_TYPE_F32, GGML_TYPE_F16]);
    require_type("set_rows", "c", c, &[GGML_TYPE_I64, GGML_TYPE_I32]);
    require_contiguous_rows("set_rows", &[("a", a), ("b", b)]);
    Node::new(GGML_OP_SET_ROWS, ctx.new_alias(a)?).of([b, c, a])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, i32s, srcs};
    use super::*;

    #[test]
    fn rows_in_and_out() {
        let c = &mut ctx();
        let a = c.new_tensor(GGML_TYPE_Q4_0, &[64, 10, 2]).unwrap();
        let ids = i32s(c, &[5, 2]);
        let t = get_rows(c, a, ids).unwrap();
        assert_eq!((t.ne(), t.dtype()), ([64, 5, 2, 1], GGML_TYPE_F32));
        let one = i32s(c, &[5]);
        let back = set_rows(c, a, t, one).unwrap();
        assert_eq!((back.view_src(), back.dtype()), (Some(a), GGML_TYPE_Q4_0));
        assert_eq!(srcs(back), [(0, t), (1, one), (2, a)]);
        let (g, w) = (f32s(c, &[64, 5]), f32s(c, &[64, 10]));
        assert_eq!(get_rows_back(c, g, one, w).unwrap().ne(), w.ne());
    }
}
