//! Attention in one pass (FLASH_ATTN_EXT). Files: `parts` (on GPUs), `tensors` (for many queries, where matrices are
//! loaded from tensors), `sparse` (scores of keys, the mask for selected keys), `back` (gradients).

#![forbid(unsafe_code)]

mod back;
mod operands;
mod parts;
mod sparse;
mod tensors;

pub use back::{back, check_back};
pub use sparse::{check_indexer, check_top_k_mask, indexer, top_k_mask};

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::copy;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::attention;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, listed};
use operands::{Operands, keys_and_values, push, read_as, reads_directly};

/// Maximum number of chunks of eight columns of values in the registers of an invocation.
const MAX_CHUNKS: u32 = 10;

/// Queries in F32. Keys and values with the same heads, in formats that can be read or converted. Mask in F16. The
/// number of columns must be a multiple of eight, or of a block for quantized formats.
pub fn check(node: TensorRef, info: &Info) -> Result<()> {
    let (q, k, v) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    ensure!(q.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "queries of {:?}", q.dtype());
    let format = read_as(k, v);
    listed(formats::ATTENTION, "flash_attn", format)?;
    let (nq, nk, nv) = (q.ne(), k.ne(), v.ne());
    ensure!(nk[0] == nq[0] && nq[0] % 8 == 0 && nv[0] % 8 == 0, "rows of {} and {}", nq[0], nv[0]);
    ensure!(nk[1] == nv[1] && nk[1] > 0 && nk[2] == nv[2] && nk[2] > 0 && nq[2] % nk[2] == 0, "{nk:?} and {nv:?}");
    ensure!(nq[3] == nk[3] && nq[3] == nv[3], "batches {nq:?}, {nk:?}, {nv:?}");
    ensure!(nk[2] <= 65535 && nq[3] <= 65535 && nq[1] * (nq[2] / nk[2]) <= 65535, "{nq:?} queries");
    if info.software {
        let threads = i64::from(attention::threads(info));
        ensure!((nv[0] / 8 + threads - 1) / threads <= i64::from(MAX_CHUNKS), "values of {} columns", nv[0]);
    } else {
        parts::check([nk[0], nv[0]], info)?;
    }
    for t in [q, k, v, node] {
        View::shape(t)?;
        ensure!(t.is_contiguous_rows(), "rows with gaps");
    }
    for t in [k, v] {
        if !reads_directly(t, format) {
            let s = View::shape(t)?;
            ensure!(s.n() < 1 << 31, "{:?} to convert", t.ne());
            copy::check_views(s, format)?;
        }
    }
    ensure!(node.is_contiguous(), "a result with gaps");
    if let Some(mask) = node.src(3) {
        let m = mask.ne();
        ensure!(mask.dtype() == GGML_TYPE_F16 && mask.is_contiguous_rows(), "mask of {:?}", mask.dtype());
        ensure!(m[0] >= nk[1] && m[1] >= nq[1] && nq[2] % m[2] == 0 && nq[3] % m[3] == 0, "mask of {m:?}");
        ensure!(m[2] <= 0xffff && m[3] <= 0xffff, "mask of {m:?}");
        View::shape(mask)?;
    }
    if let Some(sinks) = node.src(4) {
        ensure!(sinks.dtype() == GGML_TYPE_F32 && sinks.is_contiguous() && sinks.ne()[0] >= nq[2], "sinks");
    }
    Ok(())
}

/// FLASH_ATTN_EXT.
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    if tensors::wanted(node, plan.info)? {
        return tensors::plan(node, plan);
    }
    if !plan.info.software || parts::requested(node, plan.info)? {
        return parts::plan(node, plan);
    }
    let views = keys_and_values(src(node, 1)?, src(node, 2)?, plan)?;
    let o = Operands::new(node, views)?;
    let (q, k, v) = (o.q, o.k, o.v);
    let n = o.queries();
    let r = if n >= 4 { 4 } else { 1 };
    let chunks = (v.ne[0] / 8).div_ceil(attention::threads(plan.info));
    let (dk, dv, heads, group, flags) = (q.ne[0], v.ne[0], q.ne[2], o.group(), o.flags());
    let constants = |one_subgroup| constants::FlashAttn { one_subgroup, d: dk, dv, group, heads, flags, chunks };
    let kernel = attention::kernel(&format!(".{}.{r}", format_name(k.dtype)), constants, plan.info)?;
    let push = push!(FlashAttn, o, o.d.at, part: k.ne[1]);
    plan.dispatch(kernel, push, [n.div_ceil(r), k.ne[2], q.ne[3]], &o.reads(), &[o.d.range]);
    Ok(())
}
