//! Images and lines: padding, rolling, resizing.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_scale_flag::*;
use crate::abi::ggml::ggml_scale_mode::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// F32, and not empty.
pub fn check_pad(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.ne().iter().all(|&n| n > 0), "nothing to pad");
    Ok(())
}

/// F32, and less padding than the length of rows.
pub fn check_pad_reflect(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    let (before, after, n) = (i64::from(node.op_param_i32(0)), i64::from(node.op_param_i32(1)), a.ne()[0]);
    ensure!((0..n).contains(&before) && (0..n).contains(&after), "{before} and {after} elements of {n} reflected");
    ensure!(node.ne()[0] == n + before + after && node.ne()[1..] == a.ne()[1..], "{:?} into {:?}", a.ne(), node.ne());
    ensure!(node.ne()[0] < 1 << 30, "rows of {}", node.ne()[0]);
    Ok(())
}

/// F32, one shape, and shifts that are shorter than the dimensions.
pub fn check_roll(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(a.same_shape(node), "shapes {:?} and {:?}", a.ne(), node.ne());
    for (i, n) in a.ne().into_iter().enumerate() {
        let by = i64::from(node.op_param_i32(i));
        ensure!(by.abs() < n && n < 1 << 30, "{n} elements shifted by {by}");
    }
    Ok(())
}

/// How elements outside of the source are found: `MODE` of `pad.comp`.
enum Mode {
    Zeros = 0,
    Circular = 1,
    Reflections = 2,
}

/// PAD (parameters 0 to 7: elements before and after the source in each dimension. 8: circular), PAD_REFLECT_1D
/// (parameter 0: elements before rows) and ROLL (parameters 0 to 3: shifts).
pub fn pad(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let p = |i| node.op_param_i32(i);
    let (mode, before) = match node.op() {
        GGML_OP_PAD_REFLECT_1D => (Mode::Reflections, [p(0), 0, 0, 0]),
        GGML_OP_ROLL => (Mode::Circular, [0, 1, 2, 3].map(p)),
        _ => (if p(8) != 0 { Mode::Circular } else { Mode::Zeros }, [0, 2, 4, 6].map(p)),
    };
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Pad { mode: mode as u32 })?;
    let push = push::Pad { a: a.at, d: d.at, ne: d.ne, n_rows: d.n_rows(), a_ne: a.ne, a_nb: a.nb, d_nb: d.nb, before };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32, not empty, a known mode, and dimensions below 2^16, so that products of two have 32 bits.
pub fn check_upscale(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    let mode = ggml_scale_mode::from_raw(node.op_param_i32(0) & 0xff);
    ensure!(mode.is_some_and(|m| m != GGML_SCALE_MODE_COUNT), "mode {}", node.op_param_i32(0));
    for t in [a, node] {
        ensure!(t.ne().iter().all(|n| (1..1 << 16).contains(n)), "images of {:?}", t.ne());
    }
    Ok(())
}

/// UPSCALE. Parameter 0: mode and flags.
pub fn upscale(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let flags = node.op_param_i32(0);
    // The numbers of upscale.comp.
    let mode = match ggml_scale_mode::from_raw(flags & 0xff) {
        Some(GGML_SCALE_MODE_NEAREST) => 0,
        Some(GGML_SCALE_MODE_BICUBIC) => 2,
        _ if flags & GGML_SCALE_FLAG_ANTIALIAS as i32 != 0 => 3,
        _ => 1,
    };
    let (mut from, mut to, mut centre) = (a.ne, d.ne, 0.5);
    if flags & GGML_SCALE_FLAG_ALIGN_CORNERS as i32 != 0 {
        centre = 0.0;
        for i in (0..2).filter(|&i| a.ne[i] > 1 && d.ne[i] > 1) {
            (from[i], to[i]) = (from[i] - 1, to[i] - 1);
        }
    }
    if mode == 3 {
        for i in 0..2 {
            let ratio = to[i] as f32 / from[i] as f32;
            (from[i], to[i]) = (ratio.to_bits(), (1.0 / ratio).max(1.0).to_bits());
        }
    }
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Upscale { mode })?;
    let push = push::Upscale {
        a: a.at,
        d: d.at,
        ne: d.ne,
        n_rows: d.n_rows(),
        a_ne: a.ne,
        a_nb: a.nb,
        d_nb: d.nb,
        from,
        to,
        centre,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}
