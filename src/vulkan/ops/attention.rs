//! Attention in one pass.

#![forbid(unsafe_code)]

use super::{copy, ensure, format_name, src};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::plan::{Plan, Push, View};
use crate::vulkan::shaders::Shader;
use crate::vulkan::{Info, tune};

/// Columns of values that an invocation keeps at most, in eights.
const MOST_EIGHTS: u32 = 10;

/// What keys and values are read as: one format that the shader has. Others are converted first.
fn read_as(k: TensorRef, v: TensorRef) -> ggml_type {
    if k.dtype() == v.dtype() && shader(k.dtype()).is_ok() {
        return k.dtype();
    }
    // F16 has not the range of the others.
    let wide = [k, v].iter().any(|t| matches!(t.dtype(), GGML_TYPE_F32 | GGML_TYPE_BF16));
    if wide { GGML_TYPE_F32 } else { GGML_TYPE_F16 }
}

fn shader(format: ggml_type) -> Result<Shader> {
    Shader::named(&format!("flash_attn.plain.{}.1", format_name(format)))
}

/// Plain keys and values are read by words of four bytes.
fn reads_directly(t: TensorRef, format: ggml_type) -> bool {
    let words = || t.nb()[1..].iter().all(|nb| nb % 4 == 0) && t.view_offs().is_multiple_of(4);
    t.dtype() == format && (format.blck_size() > 1 || words())
}

/// Queries in F32; keys and values of formats that are read or converted, and the same heads; F16 mask; columns in eights (blocks, for quantized formats).
pub fn check(node: TensorRef, info: &Info) -> Result<()> {
    let (q, k, v) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    ensure!(q.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "queries of {:?}", q.dtype());
    let format = read_as(k, v);
    shader(format)?;
    let (nq, nk, nv) = (q.ne(), k.ne(), v.ne());
    ensure!(nk[0] == nq[0] && nq[0] % 8 == 0 && nv[0] % 8 == 0, "rows of {} and {}", nq[0], nv[0]);
    ensure!(nk[1] == nv[1] && nk[1] > 0 && nk[2] == nv[2] && nk[2] > 0 && nq[2] % nk[2] == 0, "{nk:?} and {nv:?}");
    ensure!(nq[3] == nk[3] && nq[3] == nv[3], "batches {nq:?}, {nk:?}, {nv:?}");
    ensure!(nk[2] <= 65535 && nq[3] <= 65535 && nq[1] * (nq[2] / nk[2]) <= 65535, "{nq:?} queries");
    let threads = i64::from(tune::attention_threads(info));
    ensure!((nv[0] / 8 + threads - 1) / threads <= i64::from(MOST_EIGHTS), "values of {} columns", nv[0]);
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

/// Keys and values in one format; what must be converted for that is, into scratch memory.
fn keys_and_values(k: TensorRef, v: TensorRef, plan: &mut Plan<'_>) -> Result<[View; 2]> {
    let format = read_as(k, v);
    let mut views = [View::of(k)?, View::of(v)?];
    let direct = [k, v].map(|t| reads_directly(t, format));
    let bytes = [0, 1].map(|i| if direct[i] { 0 } else { copy::packed_bytes(&views[i], format) });
    for (i, room) in plan.scratch_parts(bytes)?.into_iter().enumerate() {
        if !direct[i] {
            views[i] = copy::packed(views[i], format, room, plan)?;
        }
    }
    Ok(views)
}

/// FLASH_ATTN_EXT.
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (q, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let [k, v] = keys_and_values(src(node, 1)?, src(node, 2)?, plan)?;
    let (mask, sinks) = (node.src(3).map(View::of).transpose()?, node.src(4).map(View::of).transpose()?);
    let (mut scale, max_bias, cap) = (node.op_param_f32(0), node.op_param_f32(1), node.op_param_f32(2));
    if cap != 0.0 {
        scale /= cap;
    }
    let group = q.ne[2] / k.ne[2];
    let n = q.ne[1] * group;
    let r = if n >= 4 { 4 } else { 1 };
    let flags = [mask.is_some(), sinks.is_some(), cap != 0.0, max_bias > 0.0];
    let flags = flags.iter().enumerate().map(|(i, &on)| u32::from(on) << i).sum();
    let threads = tune::attention_threads(plan.info);
    let eights = (v.ne[0] / 8).div_ceil(threads);
    let constants = [q.ne[0], v.ne[0], eights, group, q.ne[2], flags];
    let kernel = tune::attention(&format!(".{}.{r}", format_name(k.dtype)), &constants, plan.info)?;
    let at = |v: Option<View>| v.map_or(0, |v| v.at);
    let (mask_nb, mask_ne) = mask.map_or(([0; 4], [1; 4]), |m| (m.nb, m.ne));
    let push = Push::new().at(q.at).at(k.at).at(v.at).at(at(mask)).at(at(sinks)).at(d.at);
    let push = push.words(&[q.ne[1], k.ne[1]]).words(&q.nb[1..]).words(&k.nb[1..]).words(&v.nb[1..]);
    let push = push.words(&mask_nb[1..]).u32(mask_ne[2] | mask_ne[3] << 16).f32(scale).f32(max_bias).f32(cap);
    let reads: Vec<_> = [Some(q), Some(k), Some(v), mask, sinks].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, [n.div_ceil(r), k.ne[2], q.ne[3]], &reads, &[d.range]);
    Ok(())
}
