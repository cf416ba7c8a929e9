//! Rows chosen by index.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::rows;

/// Rows of `a` [n, m, p, q] that the I32 indices `b` [k, p, q] name, converted to F32 (I32 stays I32): [n, k, p, q].
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

/// Gradient of `ggml_get_rows` of a matrix: rows of `a` added up at the places `b` names, as F32 in the shape of `c`,
/// which is not read.
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

/// Writes rows of `b` [n, k, p, q] (F32 or F16) into `a` [n, m, p, q], converted to its type, at the indices `c` (I64
/// or I32) [k, p', q'], where p' and q' divide p and q. The result is a view of `a`. Rows written twice hold either.
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
