//! Two sources, element by element, and adding into a part of a tensor.

use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{ctx as need_ctx, dtype, out, tensor as need};
use crate::guard::guarded;
use crate::tensor::ops::arith::{Binary, Region};
use crate::tensor::ops::{Place, arith};

/// `a` + `b`. `b` is repeated to fill the shape of `a`: each of its dimensions divides that of `a`. The result has the
/// type and shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Add, a, b, Place::New))
}

/// As `ggml_add`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Add, a, b, Place::Inplace))
}

/// `a` + `b` as type `ty`. `a` is quantized, F16 or BF16; rows of `b` are as long as those of `a` and are repeated to
/// fill it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_cast(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ty: raw::ggml_type,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::add_cast(ctx, a, b, dtype(ty)))
}

/// `a` [n, m, t] plus rows of `b` [n, k]: row (i, j) of the result is that of `a` plus row `ids`(i, j) of `b`. `ids`
/// is I32 [m, t]; an id of -1 adds nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add_id(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    ids: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b, ids) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b"), need(ids, "ids")) };
    out(arith::add_id(ctx, a, b, ids))
}

/// `a` plus the one element of `b`. `a` may have gaps only between rows.
#[deprecated(note = "use ggml_add instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add1(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::add1(ctx, a, b, Place::New))
}

/// As `ggml_add1`, overwriting `a`: the result is a view of it.
#[deprecated(note = "use ggml_add_inplace instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_add1_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::add1(ctx, a, b, Place::Inplace))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::acc(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::New))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::acc(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::Inplace))
}

/// `a` - `b`, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sub(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Sub, a, b, Place::New))
}

/// As `ggml_sub`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_sub_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Sub, a, b, Place::Inplace))
}

/// `a` * `b`, element by element, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Mul, a, b, Place::New))
}

/// As `ggml_mul`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_mul_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Mul, a, b, Place::Inplace))
}

/// `a` / `b`, element by element, with `b` repeated to fill the shape of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_div(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Div, a, b, Place::New))
}

/// As `ggml_div`, overwriting `a`: the result is a view of it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_div_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::binary(ctx, Binary::Div, a, b, Place::Inplace))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::New))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region { nb: [nb1, nb2, nb3], offset }, Place::Inplace))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region::like(a, offset), Place::New))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region::like(a, offset), Place::Inplace))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region::with_row_stride(a, nb1, offset), Place::New))
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
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::set(ctx, a, b, Region::with_row_stride(a, nb1, offset), Place::Inplace))
}

/// How many elements of `a` and `b`, which have the same shape, are equal, as one I64.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_count_equal(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    // SAFETY: a valid context and valid tensors, by the contract.
    let (ctx, a, b) = unsafe { (need_ctx(ctx), need(a, "a"), need(b, "b")) };
    out(arith::count_equal(ctx, a, b))
}
