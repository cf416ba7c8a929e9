//! Rotary position embedding.

use crate::abi::ggml::*;
use crate::capi::convert::{need, numbers, out};
use crate::guard::guarded;
use crate::tensor::ops::Place;
use crate::tensor::ops::rope::{self, Rope};
use std::ffi::c_int;

/// The parameters of an embedding with one position for each token; the floats are in their order in `Rope`.
fn angles(n_dims: c_int, mode: c_int, n_ctx_orig: c_int, floats: [f32; 6]) -> Rope {
    let [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow] = floats;
    Rope {
        n_ctx_orig,
        freq_base,
        freq_scale,
        ext_factor,
        attn_factor,
        beta_fast,
        beta_slow,
        ..Rope::plain(n_dims, mode)
    }
}

/// `rope` with sections, if any.
fn multi(rope: Rope, sections: Option<[c_int; 4]>) -> Rope {
    match sections {
        Some(sections) => Rope { sections, ..rope },
        None => rope,
    }
}

/// Rotary position embedding: rotates the first `n_dims` elements of each row of `a` [n, heads, tokens, ...] by
/// angles that are proportional to the position of the token. `b` is I32, with one position per token (four in the
/// `GGML_ROPE_TYPE_MROPE` modes). The frequency base is 10000. `mode` is one of `GGML_ROPE_TYPE_*`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(rope::rope(ctx, a, b, None, &Rope::plain(n_dims, mode), Place::New))
}

/// As `ggml_rope`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    out(rope::rope(ctx, a, b, None, &Rope::plain(n_dims, mode), Place::Inplace))
}

/// As `ggml_rope`, with all parameters. `c` is NULL, or F32 with `n_dims` / 2 elements that divide the frequencies.
/// `freq_base` and `freq_scale` set the frequencies. `ext_factor` > 0 mixes in the extrapolation of YaRN, with
/// `n_ctx_orig`, `beta_fast` and `beta_slow`. `attn_factor` scales the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_ext(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    let params =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    out(rope::rope(ctx, a, b, c, &params, Place::New))
}

/// As `ggml_rope_ext`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_ext_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    let params =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    out(rope::rope(ctx, a, b, c, &params, Place::Inplace))
}

/// As `ggml_rope_ext`, with four positions per token: the first position of all tokens, then the second, and so on.
/// `sections` is the number of pairs that use each of them, in the `GGML_ROPE_TYPE_MROPE` modes. NULL means zeros.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_multi(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    sections: *mut c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    numbers!(4; sections);
    let angles =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    let params = multi(angles, sections);
    out(rope::rope(ctx, a, b, c, &params, Place::New))
}

/// As `ggml_rope_multi`, in place: the result is a view of `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_multi_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    sections: *mut c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    numbers!(4; sections);
    let angles =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    let params = multi(angles, sections);
    out(rope::rope(ctx, a, b, c, &params, Place::Inplace))
}

/// As `ggml_rope_ext`, without `c`.
#[deprecated(note = "use ggml_rope_ext instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_custom(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    let params =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    out(rope::rope(ctx, a, b, None, &params, Place::New))
}

/// As `ggml_rope_custom`, in place: the result is a view of `a`.
#[deprecated(note = "use ggml_rope_ext_inplace instead")]
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_custom_inplace(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b);
    let params =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    out(rope::rope(ctx, a, b, None, &params, Place::Inplace))
}

/// Writes the range of dimensions over which YaRN changes from extrapolation to interpolation: the first to
/// `dims[0]`, the last to `dims[1]`. Does nothing if `dims` is NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_yarn_corr_dims(
    n_dims: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    beta_fast: f32,
    beta_slow: f32,
    dims: *mut f32,
) {
    if !dims.is_null() {
        let range = rope::yarn_corr_dims(n_dims, n_ctx_orig, freq_base, beta_fast, beta_slow);
        // SAFETY: not NULL, so the room for two numbers that the header requires.
        unsafe { dims.cast::<[f32; 2]>().write_unaligned(range) };
    }
}

/// Gradient of `ggml_rope_ext`: the rotation in the opposite direction. `a` is the gradient of its result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_ext_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    let params =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    out(rope::rope_back(ctx, a, b, c, &params))
}

/// Gradient of `ggml_rope_multi`: the rotation in the opposite direction. `a` is the gradient of its result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_multi_back(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    c: *mut ggml_tensor,
    n_dims: c_int,
    sections: *mut c_int,
    mode: c_int,
    n_ctx_orig: c_int,
    freq_base: f32,
    freq_scale: f32,
    ext_factor: f32,
    attn_factor: f32,
    beta_fast: f32,
    beta_slow: f32,
) -> *mut ggml_tensor {
    need!(ctx, a, b; c);
    numbers!(4; sections);
    let angles =
        angles(n_dims, mode, n_ctx_orig, [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow]);
    let params = multi(angles, sections);
    out(rope::rope_back(ctx, a, b, c, &params))
}

/// Makes a rope node rotate the elements from `n_offs` on in each row. Not for `GGML_ROPE_TYPE_VISION`. Returns `a`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rope_set_offset(a: *mut ggml_tensor, n_offs: c_int) -> *mut ggml_tensor {
    need!(a);
    rope::set_offset(a, n_offs).as_ptr()
}
