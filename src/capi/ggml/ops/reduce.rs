//! Sums, means, greatest elements, counts.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::reduce;

/// Sum of all elements of `a`: one element of the same type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sum(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(reduce::sum(ctx, a))
}

/// Sum of each row: `a` [n, m, p, q] gives [1, m, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sum_rows(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(reduce::sum_rows(ctx, a))
}

/// Running sum of each row of F32 `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cumsum(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(reduce::cumsum(ctx, a))
}

/// Mean of each row: `a` [n, m, p, q] gives F32 [1, m, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mean(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(reduce::mean(ctx, a))
}

/// Index of the largest element of each row, the last one if several are equal: a matrix [n, m] gives m I32 numbers.
/// NaN is smaller than all numbers; a row of nothing else gives 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_argmax(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(reduce::argmax(ctx, a))
}

/// Number of equal elements in `a` and `b`, which have the same shape: one I64.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_count_equal(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(reduce::count_equal(ctx, a, b))
}
