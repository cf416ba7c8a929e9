//! The operations, one file per family (`tensor::family`). Each has a check, which says why the device cannot compute a node, and a plan,
//! which turns the node into dispatches. A plan may rely on its check.

pub mod attention;
pub mod binary;
pub mod conv;
pub mod copy;
pub mod glu;
pub mod image;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod softmax;
pub mod sort;
pub mod unary;

use super::plan::{DispatchList, Grid, View};
use super::{Info, tune};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;

/// Fails, with the reason, if a device cannot compute a node.
pub type Check = fn(TensorRef, &Info) -> Result<()>;
/// Adds the dispatches of a node.
pub type Make = fn(TensorRef, &mut DispatchList<'_>) -> Result<()>;

/// Check and plan of an operation.
#[derive(Clone, Copy)]
pub struct Op {
    /// Whether a device can compute a node. The error says why not.
    pub check: Check,
    /// Adds the dispatches of a node.
    pub plan: Make,
}

/// For nodes that only name memory.
fn nothing(_: TensorRef, _: &mut DispatchList<'_>) -> Result<()> {
    Ok(())
}

fn always(_: TensorRef, _: &Info) -> Result<()> {
    Ok(())
}

/// Check and plan of an operation. `None` if this backend does not have it.
pub fn find(op: ggml_op) -> Option<Op> {
    let (check, plan): (Check, Make) = match op {
        GGML_OP_NONE | GGML_OP_RESHAPE | GGML_OP_VIEW | GGML_OP_PERMUTE | GGML_OP_TRANSPOSE => (always, nothing),
        GGML_OP_ADD | GGML_OP_SUB | GGML_OP_MUL | GGML_OP_DIV | GGML_OP_ADD1 => (binary::check_binary, binary::binary),
        GGML_OP_UNARY | GGML_OP_SQR | GGML_OP_SQRT | GGML_OP_LOG | GGML_OP_SIN | GGML_OP_COS | GGML_OP_CLAMP
        | GGML_OP_SCALE | GGML_OP_FILL | GGML_OP_LEAKY_RELU => (unary::check_unary, unary::unary),
        GGML_OP_GLU => (glu::check_gated, glu::gated),
        GGML_OP_CPY | GGML_OP_CONT | GGML_OP_DUP => (copy::check, copy::plan),
        GGML_OP_CONCAT => (copy::check_concat, copy::concat),
        GGML_OP_REPEAT => (copy::check_repeat, copy::repeat),
        GGML_OP_SUM | GGML_OP_SUM_ROWS | GGML_OP_MEAN => (reduce::check_sum, reduce::sum),
        GGML_OP_ARGMAX => (reduce::check_argmax, reduce::argmax),
        GGML_OP_ARGSORT | GGML_OP_TOP_K => (sort::check_sort, sort::sort),
        GGML_OP_ADD_ID => (binary::check_add_id, binary::add_id),
        GGML_OP_GET_ROWS => (rows::check_get, rows::get),
        GGML_OP_SET_ROWS => (rows::check_set, rows::set),
        GGML_OP_NORM | GGML_OP_RMS_NORM | GGML_OP_L2_NORM => (norm::check, norm::plan),
        GGML_OP_SOFT_MAX => (softmax::check, softmax::plan),
        GGML_OP_ROPE | GGML_OP_ROPE_BACK => (rope::check, rope::plan),
        GGML_OP_GROUP_NORM => (norm::check_group_norm, norm::group_norm),
        GGML_OP_PAD => (image::check_pad, image::pad),
        GGML_OP_IM2COL => (conv::check_im2col, conv::im2col),
        GGML_OP_POOL_1D | GGML_OP_POOL_2D => (pool::check_pool, pool::pool),
        GGML_OP_FLASH_ATTN_EXT => (attention::check, attention::plan),
        GGML_OP_MUL_MAT => (matmul::check, matmul::plan),
        GGML_OP_MUL_MAT_ID => (matmul::check_id, matmul::plan_id),
        _ => return None,
    };
    Some(Op { check, plan })
}

/// Whether a device computes a node; the error says why not.
pub fn supports(node: TensorRef, info: &Info) -> Result<()> {
    let op = node.op();
    let Some(found) = find(op) else {
        return Err(Error::Unsupported(format!("{op:?} is not implemented")));
    };
    if !info.features.int64 {
        return Err(Error::Unsupported("the device lacks 64-bit integers in shaders".into()));
    }
    for t in node.srcs().map(|(_, t)| t).chain([node]) {
        if t.nbytes() as u64 > info.limits.buffer {
            return Err(Error::Unsupported(format!("'{}' is larger than a buffer can be", t.name())));
        }
    }
    (found.check)(node, info)
}

/// Fails, with a reason, unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $($why:tt)+) => {
        if !$cond {
            return Err($crate::error::Error::Unsupported(format!($($why)+)));
        }
    };
}
pub(super) use ensure;

/// Source `i`, or an error.
pub(super) fn src(node: TensorRef, i: usize) -> Result<TensorRef> {
    node.src(i).ok_or_else(|| Error::Unsupported(format!("{:?} without source {i}", node.op())))
}

/// Whether a type is one of the three floats.
pub(super) fn is_float(t: ggml_type) -> bool {
    matches!(t, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16)
}

/// Whether shaders load and store a type as a float.
pub(super) fn is_any_float(t: ggml_type) -> bool {
    is_float(t) || t == GGML_TYPE_F8_E4M3
}

/// Name of a format in the names of shader variants.
pub(super) fn format_name(t: ggml_type) -> String {
    crate::quant::types::TABLE[t as usize].name().to_lowercase()
}

/// The grid for element-wise work over rows.
fn grid(columns: u32, n_rows: u32, info: &Info) -> Result<Grid> {
    let (threads, per) = tune::elementwise(info);
    Grid::rows(columns, n_rows, threads, per, info)
}

/// Source 0. Fails unless it and the node are F32.
fn check_f32(node: TensorRef) -> Result<TensorRef> {
    let a = src(node, 0)?;
    for t in [a, node] {
        ensure!(t.dtype() == GGML_TYPE_F32, "{:?} of {:?}", node.op(), t.dtype());
        View::shape(t)?;
    }
    Ok(a)
}
