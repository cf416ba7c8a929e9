//! The operations, one file per family (`tensor::family`). Each has a check, which says why the device cannot compute a
//! node, and a plan, which turns the node into dispatches. A plan may rely on its check.

pub mod attention;
pub mod binary;
pub mod conv;
pub mod copy;
pub mod generate;
pub mod glu;
pub mod hyper;
pub mod image;
pub mod loss;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod optimizer;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod softmax;
pub mod sort;
pub mod unary;
pub mod window;

use crate::abi::ggml::ggml_op::{self, *};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::DispatchList;
use crate::vulkan::policy::loops;

/// Fails, with the reason, if a device cannot compute a node.
pub type Check = fn(TensorRef, &Info) -> Result<()>;
/// Fails, with the reason, if the tensors of a node are not those of its operation. It comes from above: the CPU
/// backend's check. The checks here say what a device can compute, and take for granted that a result has the shape
/// that its constructor gives it.
pub type Shapes = fn(TensorRef) -> Result<()>;
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
        GGML_OP_OUT_PROD => (matmul::check_out_prod, matmul::out_prod),
        GGML_OP_SILU_BACK => (unary::check_silu_back, unary::silu_back),
        GGML_OP_CUMSUM => (reduce::check_cumsum, reduce::cumsum),
        GGML_OP_COUNT_EQUAL => (reduce::check_count_equal, reduce::count_equal),
        GGML_OP_SET | GGML_OP_ACC => (copy::check_put, copy::put),
        GGML_OP_REPEAT_BACK => (copy::check_repeat_back, copy::repeat_back),
        GGML_OP_GET_ROWS_BACK => (rows::check_get_back, rows::get_back),
        GGML_OP_RMS_NORM_BACK => (norm::check_back, norm::rms_norm_back),
        GGML_OP_SOFT_MAX_BACK => (softmax::check_back, softmax::back),
        GGML_OP_DIAG => (matrix::check_diag, matrix::diag),
        GGML_OP_DIAG_MASK_INF | GGML_OP_DIAG_MASK_ZERO => (matrix::check_diag_mask, matrix::diag_mask),
        GGML_OP_TRI => (matrix::check_tri, matrix::tri),
        GGML_OP_SOLVE_TRI => (matrix::check_solve_tri, matrix::solve_tri),
        GGML_OP_FLASH_ATTN_BACK => (attention::check_back, attention::back),
        GGML_OP_LIGHTNING_INDEXER => (attention::check_indexer, attention::indexer),
        GGML_OP_TOP_K_MASK => (attention::check_top_k_mask, attention::top_k_mask),
        GGML_OP_CONV_2D => (conv::check_conv_2d, conv::convolution),
        GGML_OP_CONV_3D => (conv::check_conv_3d, conv::convolution),
        GGML_OP_CONV_2D_DW => (conv::check_conv_2d_dw, conv::conv_2d_dw),
        GGML_OP_CONV_TRANSPOSE_1D => (conv::check_conv_transpose_1d, conv::conv_transpose),
        GGML_OP_CONV_TRANSPOSE_2D => (conv::check_conv_transpose_2d, conv::conv_transpose),
        GGML_OP_IM2COL_3D => (conv::check_im2col_3d, conv::im2col_3d),
        GGML_OP_IM2COL_BACK => (conv::check_im2col_back, conv::im2col_back),
        GGML_OP_COL2IM_1D => (conv::check_col2im, conv::col2im),
        GGML_OP_POOL_2D_BACK => (pool::check_pool_back, pool::pool_back),
        GGML_OP_UPSCALE => (image::check_upscale, image::upscale),
        GGML_OP_PAD_REFLECT_1D => (image::check_pad_reflect, image::pad),
        GGML_OP_ROLL => (image::check_roll, image::pad),
        GGML_OP_WIN_PART => (window::check_win_part, window::win_part),
        GGML_OP_WIN_UNPART => (window::check_win_unpart, window::win_unpart),
        GGML_OP_GET_REL_POS => (window::check_get_rel_pos, window::get_rel_pos),
        GGML_OP_ADD_REL_POS => (window::check_add_rel_pos, window::add_rel_pos),
        GGML_OP_ARANGE => (generate::check_arange, generate::arange),
        GGML_OP_TIMESTEP_EMBEDDING => (generate::check_timestep_embedding, generate::timestep_embedding),
        GGML_OP_SSM_CONV => (recurrent::check_ssm_conv, recurrent::ssm_conv),
        GGML_OP_SSM_SCAN => (recurrent::check_ssm_scan, recurrent::ssm_scan),
        GGML_OP_RWKV_WKV6 | GGML_OP_RWKV_WKV7 | GGML_OP_GATED_LINEAR_ATTN => {
            (recurrent::check_linear, recurrent::linear)
        }
        GGML_OP_GATED_DELTA_NET => (recurrent::check_delta_net, recurrent::delta_net),
        GGML_OP_DSV4_HC_COMB => (hyper::check_comb, hyper::comb),
        GGML_OP_DSV4_HC_PRE => (hyper::check_pre, hyper::pre),
        GGML_OP_DSV4_HC_POST => (hyper::check_post, hyper::post),
        GGML_OP_CROSS_ENTROPY_LOSS => (loss::check_cross_entropy, loss::cross_entropy),
        GGML_OP_CROSS_ENTROPY_LOSS_BACK => (loss::check_cross_entropy_back, loss::cross_entropy_back),
        GGML_OP_OPT_STEP_ADAMW | GGML_OP_OPT_STEP_SGD => (optimizer::check_step, optimizer::step),
        // Functions of the host.
        GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM => return None,
        GGML_OP_COUNT => return None,
    };
    Some(Op { check, plan })
}

/// Whether a device computes a node; the error says why not.
pub fn supports(node: TensorRef, info: &Info, shapes: Shapes) -> Result<()> {
    shapes(node)?;
    let op = node.op();
    let Some(found) = find(op) else {
        return Err(Error::Unsupported(format!("{op:?} is not implemented")));
    };
    if !info.features.int64 {
        return Err(Error::Unsupported("the device lacks 64-bit integers in shaders".into()));
    }
    // It is not computed, whatever the shapes of its sources.
    if node.is_empty() {
        return Ok(());
    }
    for t in node.srcs().map(|(_, t)| t).chain([node]) {
        if t.nbytes() as u64 > info.limits.buffer {
            return Err(Error::Unsupported(format!("'{}' is larger than a buffer can be", t.name())));
        }
    }
    (found.check)(node, info)?;
    loops::check(node, info)
}
