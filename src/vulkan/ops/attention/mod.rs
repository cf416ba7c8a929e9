//! Attention in one pass (FLASH_ATTN_EXT). Files: `parts` (on GPUs), `tensors` (for many queries, where matrices are
//! loaded from tensors), `sparse` (scores of keys, the mask for selected keys), `back` (gradients).

#![forbid(unsafe_code)]

mod back;
mod parts;
mod sparse;
mod tensors;

pub use back::{back, check_back};
pub use sparse::{check_indexer, check_top_k_mask, indexer, top_k_mask};

use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::checks::{ensure, src};
use crate::vulkan::ops::copy;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::tune;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, listed};
use crate::vulkan::submit::Range;

/// Maximum number of chunks of eight columns of values in the registers of an invocation.
const MAX_CHUNKS: u32 = 10;

/// The format in which the shader reads keys and values. Those in other formats are converted first.
fn read_as(k: TensorRef, v: TensorRef) -> ggml_type {
    if k.dtype() == v.dtype() && formats::ATTENTION.contains(&k.dtype()) {
        return k.dtype();
    }
    // F16 does not have the range of F32 and BF16.
    let wide = [k, v].iter().any(|t| matches!(t.dtype(), GGML_TYPE_F32 | GGML_TYPE_BF16));
    if wide { GGML_TYPE_F32 } else { GGML_TYPE_F16 }
}

/// Whether the shader can read keys or values as they are. It reads plain formats in words of four bytes.
fn reads_directly(t: TensorRef, format: ggml_type) -> bool {
    let words = || t.nb()[1..].iter().all(|nb| nb % 4 == 0) && t.view_offs().is_multiple_of(4);
    t.dtype() == format && (format.blck_size() > 1 || words())
}

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
        let threads = i64::from(tune::attention_threads(info));
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

/// Keys and values in one format. Converts into scratch memory what the shader cannot read.
fn keys_and_values(k: TensorRef, v: TensorRef, plan: &mut DispatchList<'_>) -> Result<[View; 2]> {
    keys_values_and_room(k, v, 0, plan).map(|(views, _)| views)
}

/// The same, and `bytes` of scratch memory.
fn keys_values_and_room(
    k: TensorRef,
    v: TensorRef,
    bytes: u64,
    plan: &mut DispatchList<'_>,
) -> Result<([View; 2], Range)> {
    let format = read_as(k, v);
    let mut views = [View::of(k)?, View::of(v)?];
    let direct = [k, v].map(|t| reads_directly(t, format));
    let packed = |i: usize| if direct[i] { 0 } else { copy::packed_bytes(&views[i], format) };
    let rooms = plan.scratch_parts([packed(0), packed(1), bytes])?;
    for i in 0..2 {
        if !direct[i] {
            views[i] = copy::packed(views[i], format, rooms[i], plan)?;
        }
    }
    Ok((views, rooms[2]))
}

/// The operands of FLASH_ATTN_EXT, with keys and values that shaders can read.
struct Operands {
    q: View,
    k: View,
    v: View,
    mask: Option<View>,
    sinks: Option<View>,
    d: View,
    scale: f32,
    max_bias: f32,
    cap: f32,
}

impl Operands {
    fn new(node: TensorRef, [k, v]: [View; 2]) -> Result<Self> {
        let view = |i| node.src(i).map(View::of).transpose();
        let (scale, max_bias, cap) = (node.op_param_f32(0), node.op_param_f32(1), node.op_param_f32(2));
        Ok(Self {
            q: View::of(src(node, 0)?)?,
            k,
            v,
            mask: view(3)?,
            sinks: view(4)?,
            d: View::of(node)?,
            scale: if cap == 0.0 { scale } else { scale / cap },
            max_bias,
            cap,
        })
    }

    /// Heads that share keys.
    fn group(&self) -> u32 {
        self.q.ne[2] / self.k.ne[2]
    }

    /// Queries that share keys.
    fn queries(&self) -> u32 {
        self.q.ne[1] * self.group()
    }

    /// The first four bits of `FLAGS`.
    fn flags(&self) -> u32 {
        let flags = [self.mask.is_some(), self.sinks.is_some(), self.cap != 0.0, self.max_bias > 0.0];
        flags.iter().enumerate().map(|(i, &on)| u32::from(on) << i).sum()
    }

    /// Sizes of dimensions 2 and 3 of the mask.
    fn mask_ne(&self) -> u32 {
        self.mask.map_or(1 | 1 << 16, |m| m.ne[2] | m.ne[3] << 16)
    }

    fn reads(&self) -> Vec<Range> {
        let views = [Some(self.q), Some(self.k), Some(self.v), self.mask, self.sinks];
        views.into_iter().flatten().map(|v| v.range).collect()
    }
}

/// The push block of attention.glsl with results at `to`, and `part` keys in each part, or what else a shader has
/// instead. Each shader has a type of its own.
macro_rules! push {
    ($push:ident, $o:expr, $to:expr, $field:ident: $value:expr) => {
        crate::vulkan::shaders::interface::push::$push {
            q: $o.q.at,
            k: $o.k.at,
            v: $o.v.at,
            mask: $o.mask.map_or(0, |v| v.at),
            sinks: $o.sinks.map_or(0, |v| v.at),
            d: $to,
            n_queries: $o.q.ne[1],
            n_keys: $o.k.ne[1],
            $field: $value,
            q_nb: $o.q.nb123(),
            k_nb: $o.k.nb123(),
            v_nb: $o.v.nb123(),
            mask_nb: $o.mask.map_or([0; 3], |m| m.nb123()),
            mask_ne: $o.mask_ne(),
            scale: $o.scale,
            max_bias: $o.max_bias,
            cap: $o.cap,
        }
    };
}
use push;

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
    let chunks = (v.ne[0] / 8).div_ceil(tune::attention_threads(plan.info));
    let (dk, dv, heads, group, flags) = (q.ne[0], v.ne[0], q.ne[2], o.group(), o.flags());
    let constants = |one_subgroup| constants::FlashAttn { one_subgroup, d: dk, dv, group, heads, flags, chunks };
    let kernel = tune::attention(&format!(".{}.{r}", format_name(k.dtype)), constants, plan.info)?;
    let push = push!(FlashAttn, o, o.d.at, part: k.ne[1]);
    plan.dispatch(kernel, push, [n.div_ceil(r), k.ne[2], q.ne[3]], &o.reads(), &[o.d.range]);
    Ok(())
}
