//! Recurrent layers. Each result holds the outputs and, after them, the new states.
#![allow(non_snake_case)] // The parameters are named as in C.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::environment::host;
use crate::ggml_assert;
use crate::guard::guarded;
use crate::tensor::ops::recurrent::{self, DeltaNet, SsmScan};

/// Causal convolution of a state-space model: each channel of `sx` [width - 1 + tokens, channels, sequences] with its
/// row of `c` [width, channels] gives F32 [channels, tokens, sequences].
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_ssm_conv(
    ctx: *mut ggml_context,
    sx: *mut ggml_tensor,
    c: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, sx, c);
    out(recurrent::ssm_conv(ctx, sx, c))
}

/// Selective scan of Mamba: states `s` [state, width, heads, any], where sequence i starts from state `ids`(i) (I32),
/// inputs `x` [width, heads, tokens, sequences], time steps `dt` [heads, tokens, sequences], decay `A` [1 or state,
/// heads], `B` and `C` [state, groups, tokens, sequences]. The result is one row of F32: outputs in the shape of `x`,
/// then the states [state, width, heads, sequences], `K` times.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_ssm_scan(
    ctx: *mut ggml_context,
    s: *mut ggml_tensor,
    x: *mut ggml_tensor,
    dt: *mut ggml_tensor,
    A: *mut ggml_tensor,
    B: *mut ggml_tensor,
    C: *mut ggml_tensor,
    ids: *mut ggml_tensor,
    K: i64,
) -> *mut ggml_tensor {
    need!(ctx, s, x, dt, A, B, C, ids);
    // Hosts for older versions do not pass the last parameter.
    let snapshots = if host::is_before((0, 19, 0)) { 1 } else { K };
    out(recurrent::ssm_scan(ctx, &SsmScan { s, x, dt, a: A, b: B, c: C, ids }, snapshots))
}

/// Recurrence of RWKV 6: keys, values, receptance and decay `td` are [size, heads, tokens], `tf` is the bonus of the
/// current token, `state` is [size * size * heads, sequences]. All are contiguous. The result is F32 [size * heads,
/// tokens + size * sequences]: outputs, then states.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rwkv_wkv6(
    ctx: *mut ggml_context,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    r: *mut ggml_tensor,
    tf: *mut ggml_tensor,
    td: *mut ggml_tensor,
    state: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, k, v, r, tf, td, state);
    out(recurrent::rwkv_wkv6(ctx, [k, v, r], tf, td, state))
}

/// Gated linear attention: keys, values, queries and gates `g` are [size, heads, tokens], `state` is [size * size *
/// heads, sequences]. All are contiguous. The result is F32 [size * heads, tokens + size * sequences]: outputs times
/// `scale`, then states.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gated_linear_attn(
    ctx: *mut ggml_context,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    q: *mut ggml_tensor,
    g: *mut ggml_tensor,
    state: *mut ggml_tensor,
    scale: f32,
) -> *mut ggml_tensor {
    need!(ctx, k, v, q, g, state);
    out(recurrent::gated_linear_attn(ctx, [k, v, q], g, state, scale))
}

/// Recurrence of RWKV 7: receptance, decay `w`, keys, values and the factors `a` and `b` of the update are [size,
/// heads, tokens], `state` is [size * size * heads, sequences]. All are contiguous. The result is F32 [size * heads,
/// tokens + size * sequences]: outputs, then states.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rwkv_wkv7(
    ctx: *mut ggml_context,
    r: *mut ggml_tensor,
    w: *mut ggml_tensor,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    state: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, r, w, k, v, a, b, state);
    out(recurrent::rwkv_wkv7(ctx, [r, w, k, v], a, b, state))
}

/// Gated delta rule: `q` and `k` [size, heads', tokens, sequences], `v` [size, heads, tokens, sequences], gates `g`
/// [1 or size, heads, tokens, sequences], `beta` [1, heads, tokens, sequences], `state` [size, size, heads,
/// sequences], all F32. The result is F32 [size * heads, tokens * sequences + `K` * size * sequences]: outputs, then
/// the states after the last `K` tokens, the latest first. States before the first token are not written. With more
/// than `K` tokens, a backend may write only the last state.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gated_delta_net(
    ctx: *mut ggml_context,
    q: *mut ggml_tensor,
    k: *mut ggml_tensor,
    v: *mut ggml_tensor,
    g: *mut ggml_tensor,
    beta: *mut ggml_tensor,
    state: *mut ggml_tensor,
    K: i64,
) -> *mut ggml_tensor {
    need!(ctx, q, k, v, g, beta, state);
    ggml_assert!(!host::is_before((0, 9, 8)), "gated_delta_net: states were stored transposed before ggml 0.9.8");
    // Hosts for older versions do not pass the last parameter. Those for 0.13.1 give `state` another shape, which is an
    // error.
    let snapshots = if host::is_before((0, 13, 1)) { 1 } else { K };
    out(recurrent::gated_delta_net(ctx, &DeltaNet { q, k, v, g, beta, state }, snapshots))
}
