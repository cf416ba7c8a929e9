//! The op table: one row for each operation, in the order of their numbers. It determines which operations the backend
//! supports, the threads and scratch memory that they need, and the kernels that run.
#![forbid(unsafe_code)]

use super::access::Dest;
use super::checked::{CheckedNode, Kernel, Row, Shared, Tasks};
use super::ops::*;
use super::worker::Worker;
use crate::abi::ggml::ggml_op::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;

impl Row {
    const fn tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    const fn in_place(mut self, sources: u16) -> Self {
        self.in_place = sources;
        self
    }

    const fn writes(mut self, sources: u16) -> Self {
        self.writes = sources;
        self
    }

    const fn scratch(mut self, scratch: fn(TensorRef, usize) -> usize) -> Self {
        self.scratch = Some(scratch);
        self
    }

    const fn shared(mut self, shared: Shared) -> Self {
        self.shared = Some(shared);
        self
    }
}

fn anything(_: TensorRef) -> Result<()> {
    Ok(())
}

fn nothing(_: &Worker<'_>, _: CheckedNode<'_>, _: Dest<'_>) {}

/// Bit masks of sources.
const FIRST: u16 = 1;
const THIRD: u16 = 4;
const BOTH: u16 = 3;
const ALL: u16 = u16::MAX;

/// An operation with a kernel.
const fn op(op: ggml_op, kernel: Kernel, check: fn(TensorRef) -> Result<()>) -> Row {
    Row {
        op,
        kernel: Some(kernel),
        check,
        tasks: Tasks::From(1 << 14),
        scratch: None,
        shared: None,
        in_place: 0,
        writes: 0,
    }
}

/// A row of an operation without computation, such as a view.
const fn empty(op: ggml_op) -> Row {
    Row {
        op,
        kernel: Some(nothing),
        check: anything,
        tasks: Tasks::One,
        scratch: None,
        shared: None,
        in_place: ALL,
        writes: 0,
    }
}

/// All operations, by their numbers.
pub static TABLE: [Row; GGML_OP_COUNT as usize] = [
    empty(GGML_OP_NONE),
    op(GGML_OP_DUP, copy::dup, copy::check_dup).in_place(FIRST),
    op(GGML_OP_ADD, binary::add, binary::check_add).in_place(BOTH),
    op(GGML_OP_ADD_ID, binary::add_id, binary::check_add_id).in_place(FIRST),
    op(GGML_OP_ADD1, binary::add1, binary::check_add1).in_place(FIRST),
    op(GGML_OP_ACC, copy::acc, copy::check_acc).in_place(FIRST),
    op(GGML_OP_SUB, binary::sub, binary::check_binary).in_place(BOTH),
    op(GGML_OP_MUL, binary::mul, binary::check_binary).in_place(BOTH),
    op(GGML_OP_DIV, binary::div, binary::check_binary).in_place(BOTH),
    op(GGML_OP_SQR, unary::sqr, check_map).in_place(FIRST),
    op(GGML_OP_SQRT, unary::sqrt, check_map).in_place(FIRST),
    op(GGML_OP_LOG, unary::log, check_map).in_place(FIRST),
    op(GGML_OP_SIN, unary::sin, check_map).in_place(FIRST),
    op(GGML_OP_COS, unary::cos, check_map).in_place(FIRST),
    op(GGML_OP_SUM, reduce::sum, reduce::check_sum).tasks(Tasks::One),
    op(GGML_OP_SUM_ROWS, reduce::sum_rows, reduce::check_row_sums).tasks(Tasks::Rows(1 << 13)),
    op(GGML_OP_CUMSUM, reduce::cumsum, reduce::check_cumsum).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_MEAN, reduce::mean, reduce::check_row_sums).tasks(Tasks::Rows(1 << 13)),
    op(GGML_OP_ARGMAX, reduce::argmax, reduce::check_argmax).tasks(Tasks::Rows(1 << 13)),
    op(GGML_OP_COUNT_EQUAL, reduce::count_equal, reduce::check_count_equal).tasks(Tasks::One),
    op(GGML_OP_REPEAT, copy::repeat, copy::check_repeat),
    op(GGML_OP_REPEAT_BACK, copy::repeat_back, copy::check_repeat_back),
    op(GGML_OP_CONCAT, copy::concat, copy::check_concat),
    op(GGML_OP_SILU_BACK, unary::silu_back, unary::check_silu_back).in_place(BOTH),
    op(GGML_OP_NORM, norm::norm, norm::check_norm).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_RMS_NORM, norm::rms_norm, norm::check_norm).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_RMS_NORM_BACK, norm::rms_norm_back, norm::check_rms_norm_back)
        .tasks(Tasks::Rows(1 << 13))
        .in_place(BOTH),
    op(GGML_OP_GROUP_NORM, norm::group_norm, norm::check_group_norm).in_place(FIRST),
    op(GGML_OP_L2_NORM, norm::l2_norm, norm::check_norm).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_MUL_MAT, matmul::mul_mat, matmul::check_mul_mat)
        .tasks(Tasks::If(matmul::is_large))
        .scratch(matmul::scratch_mul_mat)
        .shared(matmul::SHARED),
    op(GGML_OP_MUL_MAT_ID, matmul::mul_mat_id, matmul::check_mul_mat_id)
        .tasks(Tasks::If(matmul::is_large))
        .scratch(matmul::scratch_mul_mat_id)
        .shared(matmul::SHARED_BY_EXPERTS),
    op(GGML_OP_OUT_PROD, matmul::out_prod, matmul::check_out_prod).tasks(Tasks::All),
    op(GGML_OP_SCALE, unary::scale, unary::check_scale).in_place(FIRST),
    op(GGML_OP_SET, copy::set, copy::check_set).in_place(FIRST),
    op(GGML_OP_CPY, copy::dup, copy::check_dup).in_place(BOTH),
    op(GGML_OP_CONT, copy::dup, copy::check_dup).in_place(FIRST),
    empty(GGML_OP_RESHAPE),
    empty(GGML_OP_VIEW),
    empty(GGML_OP_PERMUTE),
    empty(GGML_OP_TRANSPOSE),
    op(GGML_OP_GET_ROWS, rows::get_rows, rows::check_get_rows).tasks(Tasks::Moved(1 << 13)),
    op(GGML_OP_GET_ROWS_BACK, rows::get_rows_back, rows::check_get_rows_back),
    op(GGML_OP_SET_ROWS, rows::set_rows, rows::check_set_rows).tasks(Tasks::Moved(1 << 13)).in_place(THIRD),
    op(GGML_OP_DIAG, matrix::diag, matrix::check_diag),
    op(GGML_OP_DIAG_MASK_INF, matrix::diag_mask_inf, matrix::check_diag_mask).in_place(FIRST),
    op(GGML_OP_DIAG_MASK_ZERO, matrix::diag_mask_zero, matrix::check_diag_mask).in_place(FIRST),
    op(GGML_OP_SOFT_MAX, softmax::soft_max, softmax::check_soft_max).tasks(Tasks::Rows(1 << 13)).in_place(BOTH),
    op(GGML_OP_SOFT_MAX_BACK, softmax::soft_max_back, softmax::check_soft_max_back)
        .tasks(Tasks::Rows(1 << 13))
        .in_place(BOTH),
    op(GGML_OP_ROPE, rope::rope, rope::check_rope).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_ROPE_BACK, rope::rope_back, rope::check_rope).tasks(Tasks::Rows(1 << 13)).in_place(FIRST),
    op(GGML_OP_CLAMP, unary::clamp, check_map).in_place(FIRST),
    op(GGML_OP_CONV_TRANSPOSE_1D, conv::conv_transpose_1d, conv::check_conv_transpose_1d).tasks(Tasks::All),
    op(GGML_OP_IM2COL, conv::im2col, conv::check_im2col),
    op(GGML_OP_IM2COL_BACK, conv::im2col_back, conv::check_im2col_back).tasks(Tasks::All),
    op(GGML_OP_IM2COL_3D, conv::im2col_3d, conv::check_im2col_3d).tasks(Tasks::All),
    op(GGML_OP_COL2IM_1D, conv::col2im_1d, conv::check_col2im_1d).tasks(Tasks::All),
    op(GGML_OP_CONV_2D, conv::conv_2d, conv::check_conv_2d).tasks(Tasks::All),
    op(GGML_OP_CONV_3D, conv::conv_3d, conv::check_conv_3d).tasks(Tasks::All),
    op(GGML_OP_CONV_2D_DW, conv::conv_2d_dw, conv::check_conv_2d_dw).tasks(Tasks::All),
    op(GGML_OP_CONV_TRANSPOSE_2D, conv::conv_transpose_2d, conv::check_conv_transpose_2d).tasks(Tasks::All),
    op(GGML_OP_POOL_1D, pool::pool_1d, pool::check_pool),
    op(GGML_OP_POOL_2D, pool::pool_2d, pool::check_pool),
    op(GGML_OP_POOL_2D_BACK, pool::pool_2d_back, pool::check_pool_2d_back),
    op(GGML_OP_UPSCALE, image::upscale, image::check_upscale),
    op(GGML_OP_PAD, image::pad, image::check_pad),
    op(GGML_OP_PAD_REFLECT_1D, image::pad_reflect_1d, image::check_pad_reflect_1d),
    op(GGML_OP_ROLL, image::roll, image::check_roll),
    op(GGML_OP_ARANGE, generate::arange, generate::check_arange),
    op(GGML_OP_TIMESTEP_EMBEDDING, generate::timestep_embedding, generate::check_timestep_embedding),
    op(GGML_OP_ARGSORT, sort::argsort, sort::check_argsort).tasks(Tasks::Rows(1 << 13)),
    op(GGML_OP_TOP_K, sort::top_k, sort::check_top_k).tasks(Tasks::Rows(1 << 13)),
    op(GGML_OP_LEAKY_RELU, unary::leaky_relu, unary::check_leaky_relu).in_place(FIRST),
    op(GGML_OP_TRI, matrix::tri, matrix::check_tri).in_place(FIRST),
    op(GGML_OP_FILL, unary::fill, unary::check_fill).in_place(FIRST),
    op(GGML_OP_FLASH_ATTN_EXT, attention::flash_attn_ext, attention::check_flash_attn_ext)
        .tasks(Tasks::All)
        .scratch(attention::scratch_flash_attn_ext),
    op(GGML_OP_FLASH_ATTN_BACK, attention::flash_attn_back, attention::check_flash_attn_back).tasks(Tasks::All),
    op(GGML_OP_SSM_CONV, recurrent::ssm_conv, recurrent::check_ssm_conv),
    op(GGML_OP_SSM_SCAN, recurrent::ssm_scan, recurrent::check_ssm_scan),
    op(GGML_OP_WIN_PART, window::win_part, window::check_win_part),
    op(GGML_OP_WIN_UNPART, window::win_unpart, window::check_win_unpart),
    op(GGML_OP_GET_REL_POS, window::get_rel_pos, window::check_get_rel_pos),
    op(GGML_OP_ADD_REL_POS, window::add_rel_pos, window::check_add_rel_pos).in_place(FIRST),
    op(GGML_OP_RWKV_WKV6, recurrent::rwkv_wkv6, recurrent::check_rwkv_wkv6),
    op(GGML_OP_GATED_LINEAR_ATTN, recurrent::gated_linear_attn, recurrent::check_gated_linear_attn),
    op(GGML_OP_RWKV_WKV7, recurrent::rwkv_wkv7, recurrent::check_rwkv_wkv7),
    op(GGML_OP_SOLVE_TRI, matrix::solve_tri, matrix::check_solve_tri),
    op(GGML_OP_GATED_DELTA_NET, recurrent::gated_delta_net, recurrent::check_gated_delta_net),
    op(GGML_OP_LIGHTNING_INDEXER, attention::lightning_indexer, attention::check_lightning_indexer),
    op(GGML_OP_DSV4_HC_COMB, hyper::dsv4_hc_comb, hyper::check_dsv4_hc_comb),
    op(GGML_OP_DSV4_HC_PRE, hyper::dsv4_hc_pre, hyper::check_dsv4_hc_pre),
    op(GGML_OP_DSV4_HC_POST, hyper::dsv4_hc_post, hyper::check_dsv4_hc_post),
    op(GGML_OP_TOP_K_MASK, attention::top_k_mask, attention::check_top_k_mask),
    op(GGML_OP_UNARY, unary::unary, unary::check_unary).in_place(FIRST),
    op(GGML_OP_MAP_CUSTOM1, custom::custom, custom::check_custom).tasks(Tasks::If(custom::is_wide)).in_place(ALL),
    op(GGML_OP_MAP_CUSTOM2, custom::custom, custom::check_custom).tasks(Tasks::If(custom::is_wide)).in_place(ALL),
    op(GGML_OP_MAP_CUSTOM3, custom::custom, custom::check_custom).tasks(Tasks::If(custom::is_wide)).in_place(ALL),
    op(GGML_OP_CUSTOM, custom::custom, custom::check_custom).tasks(Tasks::If(custom::is_wide)).in_place(ALL),
    op(GGML_OP_CROSS_ENTROPY_LOSS, loss::cross_entropy_loss, loss::check_cross_entropy_loss)
        .tasks(Tasks::Rows(1 << 13))
        .scratch(loss::scratch_cross_entropy_loss),
    op(GGML_OP_CROSS_ENTROPY_LOSS_BACK, loss::cross_entropy_loss_back, loss::check_cross_entropy_loss_back),
    op(GGML_OP_OPT_STEP_ADAMW, optimizer::opt_step_adamw, optimizer::check_opt_step_adamw)
        .writes(FIRST | 1 << 2 | 1 << 3)
        .in_place(ALL),
    op(GGML_OP_OPT_STEP_SGD, optimizer::opt_step_sgd, optimizer::check_opt_step_sgd).writes(FIRST).in_place(ALL),
    op(GGML_OP_GLU, glu::glu, glu::check_glu).in_place(BOTH),
];

/// The row of a node's operation, or `None` if the operation does not exist.
pub fn row(node: TensorRef) -> Option<&'static Row> {
    usize::try_from(node.op_raw()).ok().and_then(|i| TABLE.get(i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::cpu::tests::ctx;
    use crate::tensor::ops::rows;

    #[test]
    fn rows_stand_in_the_order_of_their_numbers() {
        assert!(TABLE.iter().enumerate().all(|(i, row)| row.op as usize == i));
    }

    #[test]
    fn one_row_of_a_large_table_needs_one_thread() {
        let mut c = ctx();
        let table = c.new_tensor(GGML_TYPE_F32, &[64, 1000]).unwrap();
        let wide = |node: TensorRef| row(node).unwrap().is_wide(node);
        for (n, many) in [(1, false), (300, true)] {
            let ids = c.new_tensor(GGML_TYPE_I32, &[n]).unwrap();
            assert_eq!(wide(rows::get_rows(&mut c, table, ids).unwrap()), many);
            let values = c.new_tensor(GGML_TYPE_F32, &[64, n]).unwrap();
            assert_eq!(wide(rows::set_rows(&mut c, table, values, ids).unwrap()), many);
        }
    }
}
