//! How often the loops of an operation's shaders run, for drivers that end loops early (`Limits::iterations`,
//! `workarounds.rs`). These are upper bounds, for every division of work: what is refused here is computed by another
//! backend, what is accepted wrongly has wrong results without an error.
//!
//! The driver counts one iteration more for each time that a loop is left. Loops that the compiler unrolls do not
//! count.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::policy::attention;
use crate::vulkan::policy::workgroups;

/// Fails if a loop may end early.
pub fn check(node: TensorRef, info: &Info) -> Result<()> {
    let Some(limit) = info.limits.iterations else { return Ok(()) };
    let n = iterations(node, info)?;
    ensure!(n <= u64::from(limit), "up to {n} iterations of loops, of which the driver computes {limit}");
    Ok(())
}

/// Sizes that become counts, without a sign.
fn ne(t: TensorRef) -> [u64; 4] {
    t.ne().map(|n| n.max(0) as u64)
}

/// A parameter that is a size.
fn size(node: TensorRef, i: usize) -> u64 {
    node.op_param_i32(i).max(0) as u64
}

/// A window of `y` by `x`: a loop in a loop.
fn window(y: u64, x: u64) -> u64 {
    y.saturating_mul(x + 2) + 1
}

/// Columns of an invocation in element-wise work on rows.
fn each(columns: u64, info: &Info) -> u64 {
    let (threads, per) = workgroups::elementwise(info);
    let across = u64::from(info.limits.groups[0].max(1)) * u64::from(threads);
    columns.min(u64::from(per)).max(columns.div_ceil(across)) + 1
}

/// Columns of an invocation where a workgroup reduces a row, and the loops of a sum over the workgroup.
fn shares(columns: u64, info: &Info) -> [u64; 2] {
    let threads = workgroups::reduction_threads(u32::try_from(columns).unwrap_or(u32::MAX), info);
    // Over its subgroups one by one, or over its invocations in halves.
    let over_group = threads.div_ceil(info.limits.subgroup_size.max(1)).max(threads.ilog2() + 1) + 1;
    [columns.div_ceil(threads.into()) + 1, over_group.into()]
}

/// `passes` loops over a row, each with a sum over the workgroup.
fn reduction(columns: u64, passes: u64, info: &Info) -> u64 {
    let [share, over_group] = shares(columns, info);
    // A sum has a loop for each 64 columns, too.
    passes.saturating_mul(share + share / 32 + over_group + 2)
}

/// Products of rows of `k` values, in the smallest steps of all methods.
fn product(k: u64) -> u64 {
    k / 4 + 64
}

fn iterations(node: TensorRef, info: &Info) -> Result<u64> {
    let of = |i| src(node, i).map(ne);
    let d = ne(node);
    Ok(match node.op() {
        // One loop over columns, or none.
        GGML_OP_NONE
        | GGML_OP_RESHAPE
        | GGML_OP_VIEW
        | GGML_OP_PERMUTE
        | GGML_OP_TRANSPOSE
        | GGML_OP_ADD
        | GGML_OP_SUB
        | GGML_OP_MUL
        | GGML_OP_DIV
        | GGML_OP_ADD1
        | GGML_OP_ADD_ID
        | GGML_OP_UNARY
        | GGML_OP_SQR
        | GGML_OP_SQRT
        | GGML_OP_LOG
        | GGML_OP_SIN
        | GGML_OP_COS
        | GGML_OP_CLAMP
        | GGML_OP_SCALE
        | GGML_OP_FILL
        | GGML_OP_LEAKY_RELU
        | GGML_OP_SILU_BACK
        | GGML_OP_GLU
        | GGML_OP_CONCAT
        | GGML_OP_REPEAT
        | GGML_OP_GET_ROWS
        | GGML_OP_ROPE
        | GGML_OP_ROPE_BACK
        | GGML_OP_PAD
        | GGML_OP_PAD_REFLECT_1D
        | GGML_OP_ROLL
        | GGML_OP_DIAG
        | GGML_OP_DIAG_MASK_INF
        | GGML_OP_DIAG_MASK_ZERO
        | GGML_OP_TRI
        | GGML_OP_IM2COL
        | GGML_OP_IM2COL_3D
        | GGML_OP_WIN_PART
        | GGML_OP_WIN_UNPART
        | GGML_OP_GET_REL_POS
        | GGML_OP_ADD_REL_POS
        | GGML_OP_ARANGE
        | GGML_OP_TIMESTEP_EMBEDDING
        | GGML_OP_OPT_STEP_ADAMW
        | GGML_OP_OPT_STEP_SGD
        | GGML_OP_MAP_CUSTOM1
        | GGML_OP_MAP_CUSTOM2
        | GGML_OP_MAP_CUSTOM3
        | GGML_OP_CUSTOM
        | GGML_OP_COUNT => each(d[0], info),
        // Quantizing has loops over the values of a block, fewer than 256 iterations in all.
        GGML_OP_CPY | GGML_OP_CONT | GGML_OP_DUP | GGML_OP_SET | GGML_OP_ACC | GGML_OP_SET_ROWS => {
            each(d[0], info) * if node.dtype().blck_size() > 1 { 256 } else { 1 }
        }
        GGML_OP_DSV4_HC_COMB => size(node, 1) + 1,
        GGML_OP_DSV4_HC_PRE | GGML_OP_DSV4_HC_POST => each(d[0], info) * 64,
        GGML_OP_REPEAT_BACK => {
            let a = of(0)?;
            let times = [0, 1, 2, 3].map(|i| a[i].div_ceil(d[i].max(1)));
            let rows = (times[3] + 1) * (times[2] + 1) * (times[1] + 1);
            each(d[0], info).saturating_mul(rows.saturating_mul(times[0] + 1))
        }
        GGML_OP_GET_ROWS_BACK => {
            let rows = of(1)?[0] + 1;
            (each(d[0], info) + 1).saturating_mul(rows + 1)
        }
        GGML_OP_SUM => reduction(of(0)?.iter().product(), 1, info),
        GGML_OP_SUM_ROWS | GGML_OP_MEAN => reduction(of(0)?[0], 1, info),
        GGML_OP_ARGMAX => reduction(of(0)?[0], 3, info),
        GGML_OP_COUNT_EQUAL => {
            let a = of(0)?;
            reduction(a.iter().product(), 1, info).max(reduction(a[1] * a[2] * a[3], 1, info))
        }
        GGML_OP_CUMSUM => {
            let [steps, over_group] = shares(d[0], info);
            steps.saturating_mul(1 + 2 * over_group)
        }
        GGML_OP_NORM | GGML_OP_RMS_NORM | GGML_OP_L2_NORM => reduction(d[0], 5, info),
        GGML_OP_RMS_NORM_BACK | GGML_OP_SOFT_MAX | GGML_OP_SOFT_MAX_BACK => reduction(d[0], 4, info),
        GGML_OP_CROSS_ENTROPY_LOSS | GGML_OP_CROSS_ENTROPY_LOSS_BACK => {
            let a = of(0)?;
            // The last step sums the rows.
            reduction(a[0], 4, info).max(reduction(a[1] * a[2] * a[3], 1, info))
        }
        GGML_OP_GROUP_NORM => reduction(d[0] * d[1] * d[2].div_ceil(size(node, 0).max(1)), 3, info),
        // Runs of at most 1024 elements that are counted, or a binary search.
        GGML_OP_ARGSORT | GGML_OP_TOP_K => {
            let a = of(0)?[0];
            let across = u64::from(info.limits.groups[0].max(1)) * u64::from(info.limits.subgroup_size);
            a.div_ceil(across.max(1)).saturating_mul(a.min(1024) + 40) + 1
        }
        GGML_OP_POOL_1D => each(d[0], info) * window(1, size(node, 1)),
        GGML_OP_POOL_2D => each(d[0], info).saturating_mul(window(size(node, 2), size(node, 1))),
        GGML_OP_POOL_2D_BACK => {
            let [kx, ky, sx, sy] = [1, 2, 3, 4].map(|i| size(node, i));
            // The windows of a value, and the values of each window.
            let windows = window(ky / sy.max(1) + 2, kx / sx.max(1) + 2);
            each(d[0], info).saturating_mul(windows.saturating_mul(window(ky, kx)))
        }
        GGML_OP_UPSCALE => {
            let a = of(0)?;
            // Rows and columns that a result is made of.
            let support = |i: usize| 2 * a[i].div_ceil(d[i].max(1)) + 4;
            each(d[0], info).saturating_mul(window(support(1), support(0)))
        }
        GGML_OP_IM2COL_BACK | GGML_OP_CONV_2D_DW => {
            let kernel = if node.op() == GGML_OP_IM2COL_BACK { of(1)? } else { of(0)? };
            let columns = d[0].max(d[2]).max(d[1]);
            each(columns, info).saturating_mul(window(kernel[1], kernel[0]))
        }
        GGML_OP_CONV_TRANSPOSE_1D | GGML_OP_CONV_TRANSPOSE_2D => {
            let (a, x) = (of(0)?, of(1)?);
            let flat = node.op() == GGML_OP_CONV_TRANSPOSE_1D;
            let stride = size(node, 0).max(1);
            let [kx, ky] = [a[0].div_ceil(stride), if flat { 1 } else { a[1].div_ceil(stride) }];
            let channels = if flat { x[1] } else { x[2] };
            each(d[0], info).saturating_mul(channels.saturating_mul(window(ky + 1, kx + 1) + 1) + 1)
        }
        GGML_OP_COL2IM_1D => {
            let (a, stride) = (of(0)?, size(node, 0).max(1));
            let taps = a[0].div_ceil(size(node, 1).max(1));
            each(d[0], info).saturating_mul(taps / stride + 3)
        }
        // Steps of 16 taps.
        GGML_OP_CONV_2D => of(0)?[..3].iter().product::<u64>() / 16 + 2,
        GGML_OP_CONV_3D => (of(0)?[..3].iter().product::<u64>()).saturating_mul(size(node, 9)) / 16 + 2,
        GGML_OP_MUL_MAT => product(of(0)?[0]),
        GGML_OP_MUL_MAT_ID => {
            let (a, ids) = (of(0)?, of(2)?);
            // One workgroup may compute all experts of a token, or count all pairs of tokens and experts.
            let pairs = ids[0] * ids[1];
            let lists = if info.software { 0 } else { 4 * pairs + pairs / 8 * a[1].div_ceil(256) + 4 * a[2] };
            (ids[0].max(1)).saturating_mul(a[0] / 16 + 4).max(product(a[0])).max(lists)
        }
        GGML_OP_OUT_PROD => of(0)?[1] / 16 + 2,
        GGML_OP_SOLVE_TRI => {
            let n = d[1];
            n.saturating_mul(8 + n / 2 + n / 2 / u64::from(info.limits.subgroup_size.max(1)) + 3 * (n / 256))
        }
        GGML_OP_FLASH_ATTN_EXT => {
            let (q, k, v) = (of(0)?, of(1)?, of(2)?);
            let tile = u64::from(attention::threads(info).max(1)).min(8);
            k[1].div_ceil(tile).saturating_mul(q[0] / 8 + v[0] / 64 + tile + 5)
        }
        GGML_OP_FLASH_ATTN_BACK => {
            let (q, k) = (of(0)?, of(1)?);
            let [share, over_group] = shares(k[1], info);
            let first = share.saturating_mul(2 * q[0] + 8) + 3 * over_group;
            let sums = (q[2].div_ceil(k[2].max(1)) + 1).saturating_mul(q[1] + 2).max(k[1] + 2);
            first.max(each(q[0].max(k[1]), info).saturating_mul(sums))
        }
        GGML_OP_LIGHTNING_INDEXER => {
            let q = of(0)?;
            q[1].div_ceil(16).saturating_mul(q[0].div_ceil(32) * 76 + 2)
        }
        GGML_OP_TOP_K_MASK => each(d[0], info) * 2,
        GGML_OP_SSM_CONV => each(d[0], info).saturating_mul(of(1)?[0] + 2),
        // A loop over tokens. What is inside is unrolled.
        GGML_OP_SSM_SCAN => of(1)?[2] + 1,
        GGML_OP_RWKV_WKV6 | GGML_OP_RWKV_WKV7 | GGML_OP_GATED_LINEAR_ATTN => of(1)?[2] + 1,
        GGML_OP_GATED_DELTA_NET => of(2)?[2] + 1,
    })
}
