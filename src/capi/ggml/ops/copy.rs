//! Data moved or laid out again: copies, conversions, parts replaced or added to, repetitions, tensors joined.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{dtype, need, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::copy::{self, Region};
use std::ffi::c_int;

/// Contiguous copy of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dup(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::dup(ctx, a, Place::New))
}

/// As `ggml_dup`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dup_inplace(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::dup(ctx, a, Place::Inplace))
}

/// `a` with `b` added to a part of it, which starts at byte `offset` and has strides of `nb1`, `nb2` and `nb3` bytes.
/// Both are F32, and `a` is contiguous. The result has the shape of `a`.
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

/// As `ggml_acc`, in place: the result is a view of `a`.
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

/// `a` with a part of it replaced by `b`. The part starts at byte `offset` (below 2^30) and has strides of `nb1`,
/// `nb2` and `nb3` bytes. The result has the shape of `a`.
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

/// As `ggml_set`, in place: the result is a view of `a`.
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

/// As `ggml_set_1d`, in place: the result is a view of `a`.
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

/// As `ggml_set_2d`, in place: the result is a view of `a`.
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

/// `a` repeated to fill the shape of `b`. Each dimension of `b` must be a multiple of that of `a`. The data of `b` is
/// not used.
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

/// `a` repeated to fill the shape [ne0, ne1, ne2, ne3]. Each dimension must be a multiple of that of `a`.
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

/// Gradient of `ggml_repeat`: the sum of all repetitions of the shape of `b` in `a`. The data of `b` is not used.
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

/// `a` followed by `b` along dimension `dim`. They have the same type, and the same size in all other dimensions.
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

/// Copies `a` to `b`, and converts it to the type of `b`. They must have the same number of elements. The result is a
/// view of `b`.
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

/// Contiguous copy of `a`, converted to `type`. F32 to I32 drops fractions; NaN and what I32 does not represent become
/// -2147483648.
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

/// Contiguous copy of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont(ctx, a))
}

/// Contiguous copy of `a` with one dimension of `ne0` elements, as many as `a` has.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cont_1d(ctx: *mut ggml_context, a: *mut ggml_tensor, ne0: i64) -> *mut ggml_tensor {
    need!(ctx, a);
    out(copy::cont_as(ctx, a, [ne0, 1, 1, 1]))
}

/// Contiguous copy of `a` with shape [ne0, ne1], which must have as many elements as `a`.
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

/// Contiguous copy of `a` with shape [ne0, ne1, ne2], which must have as many elements as `a`.
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

/// Contiguous copy of `a` with shape [ne0, ne1, ne2, ne3], which must have as many elements as `a`.
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
