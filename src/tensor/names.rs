//! Names of operations and number formats, as tools print and parse them.

#![forbid(unsafe_code)]

use crate::abi::ggml::{ggml_glu_op, ggml_op, ggml_type, ggml_unary_op};
use std::ffi::CStr;

/// In the order of `ggml_op`.
const OP_NAMES: [&CStr; ggml_op::ALL.len()] = [
    c"NONE",
    c"DUP",
    c"ADD",
    c"ADD_ID",
    c"ADD1",
    c"ACC",
    c"SUB",
    c"MUL",
    c"DIV",
    c"SQR",
    c"SQRT",
    c"LOG",
    c"SIN",
    c"COS",
    c"SUM",
    c"SUM_ROWS",
    c"CUMSUM",
    c"MEAN",
    c"ARGMAX",
    c"COUNT_EQUAL",
    c"REPEAT",
    c"REPEAT_BACK",
    c"CONCAT",
    c"SILU_BACK",
    c"NORM",
    c"RMS_NORM",
    c"RMS_NORM_BACK",
    c"GROUP_NORM",
    c"L2_NORM",
    c"MUL_MAT",
    c"MUL_MAT_ID",
    c"OUT_PROD",
    c"SCALE",
    c"SET",
    c"CPY",
    c"CONT",
    c"RESHAPE",
    c"VIEW",
    c"PERMUTE",
    c"TRANSPOSE",
    c"GET_ROWS",
    c"GET_ROWS_BACK",
    c"SET_ROWS",
    c"DIAG",
    c"DIAG_MASK_INF",
    c"DIAG_MASK_ZERO",
    c"SOFT_MAX",
    c"SOFT_MAX_BACK",
    c"ROPE",
    c"ROPE_BACK",
    c"CLAMP",
    c"CONV_TRANSPOSE_1D",
    c"IM2COL",
    c"IM2COL_BACK",
    c"IM2COL_3D",
    c"COL2IM_1D",
    c"CONV_2D",
    c"CONV_3D",
    c"CONV_2D_DW",
    c"CONV_TRANSPOSE_2D",
    c"POOL_1D",
    c"POOL_2D",
    c"POOL_2D_BACK",
    c"UPSCALE",
    c"PAD",
    c"PAD_REFLECT_1D",
    c"ROLL",
    c"ARANGE",
    c"TIMESTEP_EMBEDDING",
    c"ARGSORT",
    c"TOP_K",
    c"LEAKY_RELU",
    c"TRI",
    c"FILL",
    c"FLASH_ATTN_EXT",
    c"FLASH_ATTN_BACK",
    c"SSM_CONV",
    c"SSM_SCAN",
    c"WIN_PART",
    c"WIN_UNPART",
    c"GET_REL_POS",
    c"ADD_REL_POS",
    c"RWKV_WKV6",
    c"GATED_LINEAR_ATTN",
    c"RWKV_WKV7",
    c"SOLVE_TRI",
    c"GATED_DELTA_NET",
    c"LIGHTNING_INDEXER",
    c"DSV4_HC_COMB",
    c"DSV4_HC_PRE",
    c"DSV4_HC_POST",
    c"TOP_K_MASK",
    c"UNARY",
    c"MAP_CUSTOM1",
    c"MAP_CUSTOM2",
    c"MAP_CUSTOM3",
    c"CUSTOM",
    c"CROSS_ENTROPY_LOSS",
    c"CROSS_ENTROPY_LOSS_BACK",
    c"OPT_STEP_ADAMW",
    c"OPT_STEP_SGD",
    c"GLU",
];

/// In the order of `ggml_op`.
const OP_SYMBOLS: [&CStr; ggml_op::ALL.len()] = [
    c"none",
    c"x",
    c"x+y",
    c"x[i]+y",
    c"x+y",
    c"view(x,nb,offset)+=y->x",
    c"x-y",
    c"x*y",
    c"x/y",
    c"x^2",
    c"√x",
    c"log(x)",
    c"sin(x)",
    c"cos(x)",
    c"Σx",
    c"Σx_k",
    c"cumsum(x)",
    c"Σx/n",
    c"argmax(x)",
    c"count_equal(x)",
    c"repeat(x)",
    c"repeat_back(x)",
    c"concat(x, y)",
    c"silu_back(x)",
    c"norm(x)",
    c"rms_norm(x)",
    c"rms_norm_back(x)",
    c"group_norm(x)",
    c"l2_norm(x)",
    c"X*Y",
    c"X[i]*Y",
    c"X*Y",
    c"x*v",
    c"y-\\>view(x)",
    c"x-\\>y",
    c"cont(x)",
    c"reshape(x)",
    c"view(x)",
    c"permute(x)",
    c"transpose(x)",
    c"get_rows(x)",
    c"get_rows_back(x)",
    c"set_rows(x)",
    c"diag(x)",
    c"diag_mask_inf(x)",
    c"diag_mask_zero(x)",
    c"soft_max(x)",
    c"soft_max_back(x)",
    c"rope(x)",
    c"rope_back(x)",
    c"clamp(x)",
    c"conv_transpose_1d(x)",
    c"im2col(x)",
    c"im2col_back(x)",
    c"im2col_3d(x)",
    c"col2im_1d(x)",
    c"conv_2d(x)",
    c"conv_3d(x)",
    c"conv_2d_dw(x)",
    c"conv_transpose_2d(x)",
    c"pool_1d(x)",
    c"pool_2d(x)",
    c"pool_2d_back(x)",
    c"upscale(x)",
    c"pad(x)",
    c"pad_reflect_1d(x)",
    c"roll(x)",
    c"arange(start, stop, step)",
    c"timestep_embedding(timesteps, dim, max_period)",
    c"argsort(x)",
    c"top_k(x)",
    c"leaky_relu(x)",
    c"tri(x)",
    c"fill(x, c)",
    c"flash_attn_ext(x)",
    c"flash_attn_back(x)",
    c"ssm_conv(x)",
    c"ssm_scan(x)",
    c"win_part(x)",
    c"win_unpart(x)",
    c"get_rel_pos(x)",
    c"add_rel_pos(x)",
    c"rwkv_wkv6(k, v, r, tf, td, s)",
    c"gated_linear_attn(k, v, q, gate, s)",
    c"rwkv_wkv7(r, w, k, v, a, b, s)",
    c"A X = B, A triangular, solve X",
    c"gated_delta_net(q, k, v, g, beta, s)",
    c"lightning_indexer(q, k, weights, mask)",
    c"dsv4_hc_comb(mixes, scale, base)",
    c"dsv4_hc_pre(x, weights)",
    c"dsv4_hc_post(x, residual, post, comb)",
    c"top_k_mask(mask, top_k, score, blocks, extra)",
    c"unary(x)",
    c"map_custom(x)",
    c"map_custom(x,y)",
    c"map_custom(x,y,z)",
    c"custom(x)",
    c"cross_entropy_loss(x,y)",
    c"cross_entropy_loss_back(x,y)",
    c"adamw(x)",
    c"sgd(x)",
    c"glu(x)",
];

/// In the order of `ggml_unary_op`.
const UNARY_NAMES: [&CStr; ggml_unary_op::ALL.len()] = [
    c"ABS",
    c"SGN",
    c"NEG",
    c"STEP",
    c"TANH",
    c"ELU",
    c"RELU",
    c"SIGMOID",
    c"GELU",
    c"GELU_QUICK",
    c"SILU",
    c"HARDSWISH",
    c"HARDSIGMOID",
    c"EXP",
    c"EXPM1",
    c"SOFTPLUS",
    c"GELU_ERF",
    c"XIELU",
    c"FLOOR",
    c"CEIL",
    c"ROUND",
    c"TRUNC",
];

/// In the order of `ggml_glu_op`.
const GLU_NAMES: [&CStr; ggml_glu_op::ALL.len()] =
    [c"REGLU", c"GEGLU", c"SWIGLU", c"SWIGLU_OAI", c"GEGLU_ERF", c"GEGLU_QUICK", c"SWIGLU_CLAMP"];

fn text(c: &'static CStr) -> &'static str {
    c.to_str().unwrap_or_default()
}

/// Name of an operation, as a C string.
pub fn op_c(op: ggml_op) -> &'static CStr {
    OP_NAMES.get(op as usize).copied().unwrap_or_default()
}

/// Name of an operation.
pub fn op(o: ggml_op) -> &'static str {
    text(op_c(o))
}

/// Formula of an operation, as a C string.
pub fn op_symbol_c(op: ggml_op) -> &'static CStr {
    OP_SYMBOLS.get(op as usize).copied().unwrap_or_default()
}

/// Formula of an operation.
pub fn op_symbol(op: ggml_op) -> &'static str {
    text(op_symbol_c(op))
}

/// Name of a unary operation, as a C string.
pub fn unary_c(op: ggml_unary_op) -> &'static CStr {
    UNARY_NAMES.get(op as usize).copied().unwrap_or_default()
}

/// Name of a gated operation, as a C string.
pub fn glu_c(op: ggml_glu_op) -> &'static CStr {
    GLU_NAMES.get(op as usize).copied().unwrap_or_default()
}

/// Name of a number format.
pub fn dtype(t: ggml_type) -> &'static str {
    text(t.c_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once() {
        for table in [&OP_NAMES[..], &UNARY_NAMES, &GLU_NAMES] {
            let mut names: Vec<_> = table.iter().collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), table.len());
        }
        assert_eq!((op(ggml_op::GGML_OP_MUL_MAT), op_symbol(ggml_op::GGML_OP_MUL_MAT)), ("MUL_MAT", "X*Y"));
        assert_eq!(dtype(ggml_type::GGML_TYPE_Q4_K), "q4_K");
    }
}
