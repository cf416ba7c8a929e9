//! Gated linear units.

use crate::abi::ggml::ggml_glu_op::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::capi::convert::{known, need, out};
use crate::guard::guarded;
use crate::tensor::ops::glu;

/// Gated linear unit. Splits each row of `a` [2 n, ...] into two halves, applies the function `op` to the first half
/// (the second half with `swapped`) and multiplies it by the other. The result is [n, ...]. `a` may have gaps only
/// between rows.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_glu(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    op: raw::ggml_glu_op,
    swapped: bool,
) -> *mut ggml_tensor {
    need!(ctx, a);
    let op = known(ggml_glu_op::from_raw(op), "op", op);
    out(glu::glu(ctx, op, a, None, swapped))
}

/// As `ggml_glu`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_glu_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    op: raw::ggml_glu_op,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    let op = known(ggml_glu_op::from_raw(op), "op", op);
    out(glu::glu(ctx, op, a, b, false))
}

/// `ggml_glu` with max(x, 0). The gate is the first half of each row. Where it is not above 0, the result is 0, even if
/// the other factor is infinite.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reglu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_REGLU, a, None, false))
}

/// As `ggml_reglu`, with the gate in the second half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reglu_swapped(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_REGLU, a, None, true))
}

/// As `ggml_reglu`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_reglu_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::glu(ctx, GGML_GLU_OP_REGLU, a, b, false))
}

/// `ggml_glu` with GELU, tanh approximation. The gate is the first half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU, a, None, false))
}

/// As `ggml_geglu`, with the gate in the second half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_swapped(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU, a, None, true))
}

/// As `ggml_geglu`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU, a, b, false))
}

/// `ggml_glu` with x * sigmoid(x). The gate is the first half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_swiglu(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_SWIGLU, a, None, false))
}

/// As `ggml_swiglu`, with the gate in the second half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_swiglu_swapped(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_SWIGLU, a, None, true))
}

/// As `ggml_swiglu`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_swiglu_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::glu(ctx, GGML_GLU_OP_SWIGLU, a, b, false))
}

/// `ggml_glu` with GELU, by the error function. The gate is the first half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_erf(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_ERF, a, None, false))
}

/// As `ggml_geglu_erf`, with the gate in the second half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_erf_swapped(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_ERF, a, None, true))
}

/// As `ggml_geglu_erf`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_erf_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_ERF, a, b, false))
}

/// `ggml_glu` with GELU, sigmoid approximation. The gate is the first half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_quick(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_QUICK, a, None, false))
}

/// As `ggml_geglu_quick`, with the gate in the second half of each row.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_quick_swapped(ctx: *mut ggml_context, a: *mut ggml_tensor) -> *mut ggml_tensor {
    need!(ctx, a);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_QUICK, a, None, true))
}

/// As `ggml_geglu_quick`, with the gate in `a` and the other factor in `b`. Both have the type and shape of the
/// result.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_geglu_quick_split(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::glu(ctx, GGML_GLU_OP_GEGLU_QUICK, a, b, false))
}

/// x * sigmoid(`alpha` * x) * (1 + g), where x = min(`a`, `limit`) and g is `b` clamped to -`limit` and `limit`. `a`
/// and `b` have the same type and shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_swiglu_oai(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    alpha: f32,
    limit: f32,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::swiglu_oai(ctx, a, b, alpha, limit))
}

/// x * sigmoid(x) * g, where x = min(`a`, `limit`) and g is `b` clamped to -`limit` and `limit`. `a` and `b` have the
/// same type and shape.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_swiglu_clamp(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
    limit: f32,
) -> *mut ggml_tensor {
    need!(ctx, a; b);
    out(glu::swiglu_clamp(ctx, a, b, limit))
}
