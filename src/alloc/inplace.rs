//! Operations that may write their result over a source.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op;

/// Whether a backend computes `op` correctly if the result has the address and the layout of a source.
pub fn can_inplace(op: ggml_op) -> bool {
    use ggml_op::*;
    matches!(
        op,
        GGML_OP_FILL
            | GGML_OP_SCALE
            | GGML_OP_DIAG_MASK_ZERO
            | GGML_OP_DIAG_MASK_INF
            | GGML_OP_ADD
            | GGML_OP_ADD_ID
            | GGML_OP_ADD1
            | GGML_OP_SUB
            | GGML_OP_MUL
            | GGML_OP_DIV
            | GGML_OP_SQR
            | GGML_OP_SQRT
            | GGML_OP_LOG
            | GGML_OP_UNARY
            | GGML_OP_ROPE
            | GGML_OP_ROPE_BACK
            | GGML_OP_SILU_BACK
            | GGML_OP_RMS_NORM
            | GGML_OP_RMS_NORM_BACK
            | GGML_OP_CLAMP
            | GGML_OP_SOFT_MAX
            | GGML_OP_SOFT_MAX_BACK
    )
}
