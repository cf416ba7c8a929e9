//! Products of matrices, and the precision that a backend must keep in them.
#![forbid(unsafe_code)]

use super::build::{Node, divides, require, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_op_hint, ggml_prec};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Whether the batches of `a` (dimensions 2 and 3) repeat to those of `b`.
fn batches_divide(a: TensorRef, b: TensorRef) -> bool {
    divides(a.ne()[2], b.ne()[2]) && divides(a.ne()[3], b.ne()[3])
}

/// Requires rows of one length, and batches of `a` that repeat to those of `b`.
#[track_caller]
pub(super) fn require_rows_match(op: &str, a: TensorRef, b: TensorRef) {
    require(a.ne()[0] == b.ne()[0] && batches_divide(a, b), || {
        format!("{op}: a {:?} and b {:?} cannot be multiplied", a.ne(), b.ne())
    });
}

#[track_caller]
fn require_not_transposed(op: &str, a: TensorRef) {
    require(!a.is_transposed(), || format!("{op}: the first matrix must not be transposed (strides {:?})", a.nb()));
}

/// Each row of `a` [k, n, p', q'] times each row of `b` [k, m, p, q], as F32 [n, m, p, q].
///
/// # Parameters
/// 0: precision of the sums, 1: hint, 3: precision of the second source.
pub fn mul_mat(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    require_rows_match("mul_mat", a, b);
    require_not_transposed("mul_mat", a);
    let (na, nb) = (a.ne(), b.ne());
    Node::new(GGML_OP_MUL_MAT, ctx.new_tensor(GGML_TYPE_F32, &[na[1], nb[1], nb[2], nb[3]])?).of([a, b])
}

/// Products with matrices chosen for each token: `matrices` [k, n, experts], `b` [k, used', tokens] and I32 `ids`
/// [used, tokens] give F32 [n, used, tokens]; used' divides used.
///
/// # Parameters
/// As for [`mul_mat`].
pub fn mul_mat_id(ctx: &mut Context, matrices: TensorRef, b: TensorRef, ids: TensorRef) -> Result<TensorRef> {
    require_not_transposed("mul_mat_id", matrices);
    require_type("mul_mat_id", "ids", ids, &[GGML_TYPE_I32]);
    let (na, nb, ni) = (matrices.ne(), b.ne(), ids.ne());
    require(na[3] == 1 && nb[3] == 1 && ni[2] == 1 && ni[3] == 1, || {
        format!("mul_mat_id: as {na:?} and b {nb:?} have 3 dimensions at most, ids {ni:?} 2")
    });
    require(ni[1] == nb[2], || format!("mul_mat_id: ids {ni:?} are not one list for each token of b {nb:?}"));
    require(na[0] == nb[0], || format!("mul_mat_id: as {na:?} and b {nb:?} cannot be multiplied"));
    require(divides(nb[1], ni[0]), || format!("mul_mat_id: b {nb:?} cannot be repeated for ids {ni:?}"));
    Node::new(GGML_OP_MUL_MAT_ID, ctx.new_tensor(GGML_TYPE_F32, &[na[1], ni[0], nb[2], 1])?).of([matrices, b, ids])
}

/// Sums of outer products: `a` [n, k, p', q'] and `b` [m, k, p, q] give F32 [n, m, p, q].
pub fn out_prod(ctx: &mut Context, a: TensorRef, b: TensorRef) -> Result<TensorRef> {
    let (na, nb) = (a.ne(), b.ne());
    require(na[1] == nb[1] && batches_divide(a, b), || {
        format!("out_prod: a {na:?} and b {nb:?} have no outer product")
    });
    require_not_transposed("out_prod", a);
    Node::new(GGML_OP_OUT_PROD, ctx.new_tensor(GGML_TYPE_F32, &[na[0], nb[0], nb[2], nb[3]])?).of([a, b])
}

/// Sets the precision that the sums of a product or of attention must keep; `false` for other operations.
pub fn set_acc_precision(node: TensorRef, prec: ggml_prec) -> bool {
    let word = match node.op() {
        GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID => 0,
        GGML_OP_FLASH_ATTN_EXT => 3,
        _ => return false,
    };
    node.set_op_param_i32(word, prec as i32);
    true
}

/// The precision that the sums of a product or of attention must keep, as its number; that of no choice for other
/// operations.
pub fn acc_precision(node: TensorRef) -> i32 {
    match node.op() {
        GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID => node.op_param_i32(0),
        GGML_OP_FLASH_ATTN_EXT => node.op_param_i32(3),
        _ => ggml_prec::GGML_PREC_UNDEFINED as i32,
    }
}

/// Sets the smallest format that source `idx` of a product may be converted to; `false` where that cannot be chosen.
pub fn set_src_precision(node: TensorRef, prec: ggml_prec, idx: i32) -> bool {
    require((0..GGML_MAX_SRC as i32).contains(&idx), || format!("prec_set_src: there is no source {idx}"));
    let can = matches!(node.op(), GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID) && idx == 1;
    if can {
        node.set_op_param_i32(3, prec as i32);
    }
    can
}

/// The smallest format that source `idx` may be converted to, as its number; that of no choice where that cannot be
/// chosen.
pub fn src_precision(node: TensorRef, idx: i32) -> i32 {
    require((0..GGML_MAX_SRC as i32).contains(&idx), || format!("prec_get_src: there is no source {idx}"));
    match node.op() {
        GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID if idx == 1 => node.op_param_i32(3),
        _ => ggml_prec::GGML_PREC_UNDEFINED as i32,
    }
}

#[track_caller]
fn require_mul_mat(op: &str, node: TensorRef) {
    require(node.op() == GGML_OP_MUL_MAT, || format!("{op}: the node is {:?}", node.op()));
}

/// Sets the precision of the sums of a matrix product.
pub fn mul_mat_set_prec(node: TensorRef, prec: ggml_prec) {
    require_mul_mat("mul_mat_set_prec", node);
    node.set_op_param_i32(0, prec as i32);
}

/// Sets a hint about the sources of a matrix product.
pub fn mul_mat_set_hint(node: TensorRef, hint: ggml_op_hint) {
    require_mul_mat("mul_mat_set_hint", node);
    node.set_op_param_i32(1, hint as i32);
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, i32s};
    use super::*;

    #[test]
    fn shapes_of_products() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[8, 3, 2]), f32s(c, &[8, 5, 4, 7]));
        assert_eq!(mul_mat(c, a, b).unwrap().ne(), [3, 5, 4, 7]);
        let (a, b) = (f32s(c, &[3, 8]), f32s(c, &[5, 8, 2]));
        assert_eq!(out_prod(c, a, b).unwrap().ne(), [3, 5, 2, 1]);
        let (w, x, ids) = (f32s(c, &[8, 3, 4]), f32s(c, &[8, 1, 6]), i32s(c, &[2, 6]));
        assert_eq!(mul_mat_id(c, w, x, ids).unwrap().ne(), [3, 2, 6, 1]);
    }

    #[test]
    fn precision_goes_where_each_operation_looks() {
        let c = &mut ctx();
        let a = f32s(c, &[8, 8]);
        let t = mul_mat(c, a, a).unwrap();
        assert!(set_acc_precision(t, ggml_prec::GGML_PREC_F32));
        assert!(set_src_precision(t, ggml_prec::GGML_PREC_Q8, 1) && !set_src_precision(t, ggml_prec::GGML_PREC_Q8, 0));
        mul_mat_set_hint(t, ggml_op_hint::GGML_HINT_SRC0_IS_HADAMARD);
        assert_eq!(t.op_params()[..4], [10, 1, 0, 30]);
        assert_eq!((acc_precision(t), src_precision(t, 1), src_precision(t, 0)), (10, 30, 0));
        assert_eq!((acc_precision(a), src_precision(a, 1)), (0, 0));
        assert!(!set_acc_precision(a, ggml_prec::GGML_PREC_F32));
    }
}
