//! Two sources, element by element.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{dtype, need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::binary::{self, Binary};

/// `a` + `b`, in the type and shape of `a`. `b` is repeated to fill the shape of `a`: each dimension of `a` must be a
/// multiple of that of `b`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Add, a, b, Place::New))
}

/// As `ggml_add`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Add, a, b, Place::Inplace))
}

/// `a` + `b` as `type`. `a` is quantized, F16 or BF16. The rows of `b` are as long as those of `a`, and are repeated
/// to fill its shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_cast(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ty: raw::ggml_type,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::add_cast(ctx, a, b, dtype(ty)))
}

/// Adds rows of `b` [n, k] to `a` [n, m, t]: row (i, j) of the result is row (i, j) of `a` plus row `ids`(i, j) of
/// `b`. `ids` is I32 [m, t]; an id of -1 adds nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_id(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ids: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b, ids);
    out(binary::add_id(ctx, a, b, ids))
}

/// `a` plus the single element of `b`. `a` may have gaps only between rows.
#[deprecated(note = "use ggml_add instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add1(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::add1(ctx, a, b, Place::New))
}

/// As `ggml_add1`, in place: the result is a view of `a`.
#[deprecated(note = "use ggml_add_inplace instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add1_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::add1(ctx, a, b, Place::Inplace))
}

/// `a` - `b`, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sub(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Sub, a, b, Place::New))
}

/// As `ggml_sub`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sub_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Sub, a, b, Place::Inplace))
}

/// `a` * `b`, element by element, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Mul, a, b, Place::New))
}

/// As `ggml_mul`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Mul, a, b, Place::Inplace))
}

/// `a` / `b`, element by element, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_div(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Div, a, b, Place::New))
}

/// As `ggml_div`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_div_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(binary::binary(ctx, Binary::Div, a, b, Place::Inplace))
}
