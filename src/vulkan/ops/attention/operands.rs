//! The operands of attention, and keys and values in a format that shaders read.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::ops::copy;
use crate::vulkan::plan::checks::src;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::shaders::interface::formats;
use crate::vulkan::submit::Range;

/// The format in which the shader reads keys and values. Those in other formats are converted first.
pub fn read_as(k: TensorRef, v: TensorRef) -> ggml_type {
    if k.dtype() == v.dtype() && formats::ATTENTION.contains(&k.dtype()) {
        return k.dtype();
    }
    // F16 does not have the range of F32 and BF16.
    let wide = [k, v].iter().any(|t| matches!(t.dtype(), GGML_TYPE_F32 | GGML_TYPE_BF16));
    if wide { GGML_TYPE_F32 } else { GGML_TYPE_F16 }
}

/// Whether the shader can read keys or values as they are. It reads plain formats in words of four bytes.
pub fn reads_directly(t: TensorRef, format: ggml_type) -> bool {
    let words = || t.nb()[1..].iter().all(|nb| nb % 4 == 0) && t.view_offs().is_multiple_of(4);
    t.dtype() == format && (format.blck_size() > 1 || words())
}

/// Keys and values in one format. Converts into scratch memory what the shader cannot read.
pub fn keys_and_values(k: TensorRef, v: TensorRef, plan: &mut DispatchList<'_>) -> Result<[View; 2]> {
    keys_values_and_room(k, v, 0, plan).map(|(views, _)| views)
}

/// The same, and `bytes` of scratch memory.
pub fn keys_values_and_room(
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
pub struct Operands {
    pub q: View,
    pub k: View,
    pub v: View,
    pub mask: Option<View>,
    pub sinks: Option<View>,
    pub d: View,
    pub scale: f32,
    pub max_bias: f32,
    pub cap: f32,
}

impl Operands {
    pub fn new(node: TensorRef, [k, v]: [View; 2]) -> Result<Self> {
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
    pub fn group(&self) -> u32 {
        self.q.ne[2] / self.k.ne[2]
    }

    /// Queries that share keys.
    pub fn queries(&self) -> u32 {
        self.q.ne[1] * self.group()
    }

    /// The first four bits of `FLAGS`.
    pub fn flags(&self) -> u32 {
        let flags = [self.mask.is_some(), self.sinks.is_some(), self.cap != 0.0, self.max_bias > 0.0];
        flags.iter().enumerate().map(|(i, &on)| u32::from(on) << i).sum()
    }

    /// Sizes of dimensions 2 and 3 of the mask.
    pub fn mask_ne(&self) -> u32 {
        self.mask.map_or(1 | 1 << 16, |m| m.ne[2] | m.ne[3] << 16)
    }

    pub fn reads(&self) -> Vec<Range> {
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
pub(super) use push;
