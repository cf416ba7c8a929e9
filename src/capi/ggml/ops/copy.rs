//! Data moved or laid out again: copies, conversions, parts replaced or added to, repetitions, tensors joined.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{dtype, need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::copy::{self, Region};
use std::ffi::c_int;

/// A copy of `a`, densely laid out.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dup(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::dup(ctx, a, Place::New))
}

/// As `ggml_dup`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dup_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::dup(ctx, a, Place::Inplace))
}

/// `a` with `b` added to a part of it, which starts `offset` bytes into it and has strides of `nb1`, `nb2` and `nb3`
/// bytes. Both are F32, `a` contiguous. The result has the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_acc(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    nb2: usize,
    nb3: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::acc(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::New))
}

/// As `ggml_acc`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_acc_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    nb2: usize,
    nb3: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::acc(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::Inplace))
}

/// `a` with a part of it replaced by `b`: the part starts `offset` bytes (below 2^30) into it and has strides of
/// `nb1`, `nb2` and `nb3` bytes. The result has the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    nb2: usize,
    nb3: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::New))
}

/// As `ggml_set`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    nb2: usize,
    nb3: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::Inplace))
}

/// As `ggml_set`, with the strides of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_1d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region::like(a, offset), Place::New))
}

/// As `ggml_set_1d`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_1d_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region::like(a, offset), Place::Inplace))
}

/// As `ggml_set`, with rows `nb1` bytes apart and the other strides of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region::with_row_stride(a, nb1, offset), Place::New))
}

/// As `ggml_set_2d`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_set_2d_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    nb1: usize,
    offset: usize,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::set(ctx, a, b, Region::with_row_stride(a, nb1, offset), Place::Inplace))
}

/// `a` repeated to fill the shape of `b`, each dimension of which is a multiple of that of `a`. `b` is not read.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::repeat_like(ctx, a, b))
}

/// `a` repeated to fill the shape [ne0, ne1, ne2, ne3], each dimension of which is a multiple of that of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat_4d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::repeat(ctx, a, [ne0, ne1, ne2, ne3]))
}

/// Sum of all repetitions of the shape of `b` in `a`: the gradient of `ggml_repeat`. `b` is not read.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_repeat_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::repeat_back(ctx, a, b))
}

/// `b` behind `a` along dimension `dim`. Types and all other dimensions are the same.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_concat(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    dim: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::concat(ctx, a, b, dim))
}

/// Copies `a` into `b`, converting where types differ. They have as many elements. The result is a view of `b`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpy(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(copy::cpy(ctx, a, b))
}

/// A copy of `a` as type `ty`, densely laid out.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cast(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ty: raw::ggml_type,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cast(ctx, a, dtype(ty)))
}

/// A copy of `a`, densely laid out.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont(ctx, a))
}

/// A densely laid out copy of `a` with `ne0` elements in one dimension, as many as `a` has.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont_1d(ctx: *mut ggml_context, a: *mut ggml_tensor, ne0: i64) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont_as(ctx, a, [ne0, 1, 1, 1]))
}

/// A densely laid out copy of `a` in the shape [ne0, ne1], with as many elements as `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont_2d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont_as(ctx, a, [ne0, ne1, 1, 1]))
}

/// A densely laid out copy of `a` in the shape [ne0, ne1, ne2], with as many elements as `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont_3d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont_as(ctx, a, [ne0, ne1, ne2, 1]))
}

/// A densely laid out copy of `a` in the shape [ne0, ne1, ne2, ne3], with as many elements as `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont_4d(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    ne0: i64,
    ne1: i64,
    ne2: i64,
    ne3: i64,
) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont_as(ctx, a, [ne0, ne1, ne2, ne3]))
}
