//! Tensors made of parameters.

use crate::abi::ggml::*;
use crate::capi::convert::{need, out};
use crate::guard::guarded;
use crate::tensor::ops::generate;
use std::ffi::c_int;

/// The numbers `start`, `start` + `step`, ... below `stop`, which must be greater than `start`, as F32.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_arange(ctx: *mut ggml_context, start: f32, stop: f32, step: f32) -> *mut ggml_tensor {
    need!(ctx);
    out(generate::arange(ctx, start, stop, step))
}

/// Sinusoidal embedding of n timesteps: F32 [dim, n], with cosines in the first half and sines in the second, and
/// periods up to `max_period`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_timestep_embedding(
    ctx: *mut ggml_context,
    timesteps: *mut ggml_tensor,
    dim: c_int,
    max_period: c_int,
) -> *mut ggml_tensor {
    need!(ctx, timesteps);
    out(generate::timestep_embedding(ctx, timesteps, dim, max_period))
}
