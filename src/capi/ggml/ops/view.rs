//! The same memory with another shape or order: reshapes, views, permutations.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::view;
use std::ffi::c_int;

/// A view of contiguous `a` in the shape of `b`, which has as many elements and is not read.
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

/// A view of contiguous `a` with `ne0` elements in one dimension, as many as `a` has.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reshape_1d(ctx: *mut ggml_context, a: *mut ggml_tensor, ne0: i64) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::reshape(ctx, a, &[ne0]))
}

/// A view of contiguous `a` in the shape [ne0, ne1], with as many elements.
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

/// A view of contiguous `a` in the shape [ne0, ne1, ne2], with as many elements.
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

/// A view of contiguous `a` in the shape [ne0, ne1, ne2, ne3], with as many elements.
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

/// A view of `ne0` elements of `a`, `offset` bytes behind its start. It must lie inside `a`.
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

/// A view [ne0, ne1] of a part of `a`, `offset` bytes behind its start, with rows `nb1` bytes apart. Its rows are
/// dense.
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

/// A view [ne0, ne1, ne2] of a part of `a`, `offset` bytes behind its start, with rows `nb1` bytes apart and planes
/// `nb2` bytes.
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

/// A view [ne0, ne1, ne2, ne3] of a part of `a`, `offset` bytes behind its start, with the strides `nb1`, `nb2`, `nb3`
/// in bytes.
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

/// A view of `a` with its dimensions in another order: dimension 0 of `a` becomes dimension `axis0`, and so on.
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

/// A view of `a` with its first two dimensions swapped: ggml_permute(ctx, a, 1, 0, 2, 3).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_transpose(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(view::transpose(ctx, a))
}
