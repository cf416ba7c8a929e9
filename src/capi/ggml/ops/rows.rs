//! Rows chosen by index.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::rows;

/// The rows of `a` [n, m, p, q] at the I32 indices `b` [k, p, q], converted to F32 (I32 stays I32): [n, k, p, q].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_rows(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(rows::get_rows(ctx, a, b))
}

/// Gradient of `ggml_get_rows` of a matrix: adds the rows of `a` to the rows at the indices `b`, as F32 in the shape
/// of `c`, whose data is not used.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_rows_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b, c);
    out(rows::get_rows_back(ctx, a, b, c))
}

/// Writes the rows of `b` [n, k, p, q] (F32 or F16) to `a` [n, m, p, q], converted to its type, at the I64 or I32
/// indices `c` [k, p', q']. p and q must be multiples of p' and q'. The result is a view of `a`. If an index occurs
/// more than once, the CPU keeps the last source row; other backends may keep any of them.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_rows(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b, c);
    out(rows::set_rows(ctx, a, b, c))
}
