//! What operations do with NaN and with equal elements. The tests of `cpu::special` and docs/STATUS.md read it.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::{self, *};

/// The rule of an operation that has one of its own, on every backend. All others are `None`: what depends on a NaN is
/// NaN.
pub fn rule(op: ggml_op) -> Option<&'static str> {
    Some(match op {
        GGML_OP_NONE | GGML_OP_RESHAPE | GGML_OP_VIEW | GGML_OP_PERMUTE | GGML_OP_TRANSPOSE => "computes nothing",
        GGML_OP_ARGMAX => "the last of equal elements; NaN is below all numbers",
        GGML_OP_ARGSORT => "stable, -0 equals 0; NaN after all numbers in both orders",
        GGML_OP_TOP_K => "NaN only if a row has too few numbers",
        GGML_OP_POOL_2D_BACK => "the gradient of a maximum goes to the first of equal elements, or to the first NaN",
        GGML_OP_COUNT_EQUAL => "integers only",
        GGML_OP_DUP | GGML_OP_CPY | GGML_OP_CONT | GGML_OP_SET_ROWS => {
            "bits are kept; to I32 -2147483648; to quantized types other than Q8_0 ignored"
        }
        GGML_OP_TOP_K_MASK => "a pick with a score of NaN is not kept; bits of the mask are",
        GGML_OP_FILL | GGML_OP_ARANGE => "reads no element",
        GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM => {
            "the host's function decides"
        }
        _ => return None,
    })
}
