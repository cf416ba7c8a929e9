//! What the checks of several families of operations need.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{self, *};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::view::View;

/// Fails, with a reason, unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $($why:tt)+) => {
        if !$cond {
            return Err($crate::error::Error::Unsupported(format!($($why)+)));
        }
    };
}
pub(in crate::vulkan) use ensure;

/// Source `i`, or an error.
pub fn src(node: TensorRef, i: usize) -> Result<TensorRef> {
    node.src(i).ok_or_else(|| Error::Unsupported(format!("{:?} without source {i}", node.op())))
}

/// Whether a type is one of the three floats.
pub fn is_float(t: ggml_type) -> bool {
    matches!(t, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16)
}

/// Whether shaders load and store a type as a float.
pub fn is_any_float(t: ggml_type) -> bool {
    is_float(t) || t == GGML_TYPE_F8_E4M3
}

/// Sources 0 to N - 1. Fails unless they and the node are F32.
pub fn check_all_f32<const N: usize>(node: TensorRef) -> Result<[TensorRef; N]> {
    let mut all = [node; N];
    for (i, t) in all.iter_mut().enumerate() {
        *t = src(node, i)?;
    }
    for t in all.into_iter().chain([node]) {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    Ok(all)
}

/// Whether a workgroup may have 256 invocations and `shared` bytes of shared memory, as tiles of matrices need.
pub fn check_tile(shared: u32, info: &Info) -> Result<()> {
    ensure!(info.limits.group_invocations >= 256, "workgroups of {}", info.limits.group_invocations);
    ensure!(info.limits.shared_memory >= shared, "{} bytes of shared memory", info.limits.shared_memory);
    Ok(())
}

/// Source 0. Fails unless it and the node are F32.
pub fn check_f32(node: TensorRef) -> Result<TensorRef> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    Ok(a)
}
