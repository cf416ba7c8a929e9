//! How work is cut for a device: sizes of workgroups, and which variant of a shader it takes. All such choices are made here,
//! but for the ladder of matrix products (`ladder.rs`).

#![forbid(unsafe_code)]

use super::Info;
use super::plan::Kernel;
use super::shaders::Shader;
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use ash::vk;

/// Invocations in a group of element-wise work, and columns for each of them.
pub fn elementwise(info: &Info) -> (u32, u32) {
    if info.software { (64, 64) } else { (256.min(info.limits.group_invocations), 4) }
}

/// Whether shaders may use subgroup arithmetic.
pub fn subgroup_arithmetic(info: &Info) -> bool {
    info.features.subgroup.contains(vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC)
}

/// Whether groups of shaders that include `reduce.glsl` are one subgroup.
fn one_subgroup(info: &Info) -> bool {
    subgroup_arithmetic(info) && info.software
}

/// Whether groups are one subgroup of eight that tell each other what they loaded: where lanes are a processor's, loads cost
/// more than all else.
fn lanes(info: &Info) -> bool {
    one_subgroup(info)
        && info.limits.subgroup_size == 8
        && info.features.subgroup.contains(vk::SubgroupFeatureFlags::BALLOT)
}

/// A kernel of a shader that includes `reduce.glsl`, and invocations in its groups, for rows of `columns`. `constants` start at 4.
pub fn reduction(shader: &str, columns: u32, constants: &[u32], info: &Info) -> Result<(Kernel, u32)> {
    // Mesa's software driver before version 23 ends a shader's loops after 65,535 turns in all: long rows get large groups.
    let threads = if one_subgroup(info) && columns <= 1 << 16 {
        info.limits.subgroup_size
    } else {
        columns.div_ceil(4).next_power_of_two().clamp(32, 512).min(info.limits.group_invocations)
    };
    Ok((reduction_of("", shader, threads, constants, info)?, threads))
}

/// As [`reduction`], with a given number of invocations, for a variant `variant` of the shader. Where groups are to be one subgroup,
/// `threads` must be a subgroup's.
pub fn reduction_of(variant: &str, shader: &str, threads: u32, constants: &[u32], info: &Info) -> Result<Kernel> {
    let set = if subgroup_arithmetic(info) { "subgroup" } else { "plain" };
    reduction_set(set, variant, shader, threads, constants, info)
}

fn reduction_set(
    set: &str,
    variant: &str,
    shader: &str,
    threads: u32,
    constants: &[u32],
    info: &Info,
) -> Result<Kernel> {
    let one = one_subgroup(info) && threads == info.limits.subgroup_size;
    let mut all = vec![u32::from(one)];
    all.extend_from_slice(constants);
    Ok(Kernel::new(Shader::named(&format!("{shader}.{set}{variant}"))?, [threads, 1, 1], &all))
}

/// A kernel of `flash_attn`.
pub fn attention(variant: &str, constants: &[u32], info: &Info) -> Result<Kernel> {
    let threads = attention_threads(info);
    if lanes(info) {
        return reduction_set("lanes", variant, "flash_attn", threads, constants, info);
    }
    reduction_of(variant, "flash_attn", threads, constants, info)
}

/// Invocations of a group of `flash_attn`.
pub fn attention_threads(info: &Info) -> u32 {
    if info.software { info.limits.subgroup_size } else { 32 }
}

/// Invocations of a group of `mul_mat_vec`.
pub fn vector_threads(info: &Info) -> u32 {
    if info.software { info.limits.subgroup_size } else { 64.min(info.limits.group_invocations) }
}

/// Formats whose decoding is much code: LONG in `vulkan_shaders/quant_NAME.glsl`.
const LONG: &[ggml_type] = &[
    GGML_TYPE_IQ1_S,
    GGML_TYPE_IQ1_M,
    GGML_TYPE_IQ2_XXS,
    GGML_TYPE_IQ2_XS,
    GGML_TYPE_IQ2_S,
    GGML_TYPE_IQ3_XXS,
    GGML_TYPE_IQ3_S,
    GGML_TYPE_TQ1_0,
];

/// The variant of `mul_mat_rows`, invocations of its groups, and rows for each of them.
pub fn row_product(format: ggml_type, info: &Info) -> (&'static str, u32, u32) {
    match info.software {
        true if lanes(info) => ("lanes", 8, if LONG.contains(&format) { 1 } else { 4 }),
        true => ("plain", info.limits.subgroup_size, 1),
        false => ("plain", 64, 1),
    }
}

/// Columns an invocation of `mul_mat_rows` takes, at most 8.
pub fn row_columns(n: u32) -> u32 {
    match n {
        1 => 1,
        2..=4 => 4,
        _ => 8,
    }
}
