//! The same memory with another shape or order: reshapes, views, permutations.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::view;
use std::ffi::c_int;

/// View of `a`, which must be contiguous, with the shape of `b`, which must have as many elements. The data of `b` is
/// not used.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(view::reshape(ctx, a, &b.ne()))
}

/// View of `a`, which must be contiguous, with one dimension of `ne0` elements, as many as `a` has.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape_1d(ctx: *mut ggml_context, a: *mut ggml_tensor, ne0: i64) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::reshape(ctx, a, &[ne0]))
}

/// View of `a`, which must be contiguous, with shape [ne0, ne1], which must have as many elements.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::reshape(ctx, a, &[ne0, ne1]))
}

/// View of `a`, which must be contiguous, with shape [ne0, ne1, ne2], which must have as many elements.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape_3d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::reshape(ctx, a, &[ne0, ne1, ne2]))
}

/// View of `a`, which must be contiguous, with shape [ne0, ne1, ne2, ne3], which must have as many elements.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape_4d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::reshape(ctx, a, &[ne0, ne1, ne2, ne3]))
}

/// View of `ne0` elements of `a`, starting at byte `offset`. The view must be inside `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_view_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::view(ctx, a, &[ne0], &[], offset))
}

/// View [ne0, ne1] of a part of `a`, starting at byte `offset`, with contiguous rows that are `nb1` bytes apart.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_view_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    nb1: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::view(ctx, a, &[ne0, ne1], &[nb1], offset))
}

/// View [ne0, ne1, ne2] of a part of `a`, starting at byte `offset`, with strides of `nb1` and `nb2` bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_view_3d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    nb1: usize,
    nb2: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::view(ctx, a, &[ne0, ne1, ne2], &[nb1, nb2], offset))
}

/// View [ne0, ne1, ne2, ne3] of a part of `a`, starting at byte `offset`, with strides of `nb1`, `nb2` and `nb3`
/// bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_view_4d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
    nb1: usize,
    nb2: usize,
    nb3: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::view(ctx, a, &[ne0, ne1, ne2, ne3], &[nb1, nb2, nb3], offset))
}

/// View of `a` with its dimensions in another order: dimension 0 of `a` becomes dimension `axis0`, and so on.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_permute(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    axis0: c_int,
    axis1: c_int,
    axis2: c_int,
    axis3: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::permute(ctx, a, [axis0, axis1, axis2, axis3]))
}

/// View of `a` with its first two dimensions swapped: ggml_permute(ctx, a, 1, 0, 2, 3).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_transpose(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::transpose(ctx, a))
}
