//! How work is cut for a device: sizes of workgroups, and which variant of a shader it takes. All such choices are made here,
//! but for the ladder of matrix products (`ladder.rs`).

#![forbid(unsafe_code)]

use super::Info;
use super::plan::Kernel;
use super::shaders::Shader;
use crate::error::Result;
use ash::vk;

/// Whether the driver runs lanes on the processor: few groups with much work each, no shared memory, no barriers.
pub fn is_cpu(info: &Info) -> bool {
    info.identity.kind == vk::PhysicalDeviceType::CPU
}

/// Invocations in a group of element-wise work, and columns for each of them.
pub fn elementwise(info: &Info) -> (u32, u32) {
    if is_cpu(info) { (64, 64) } else { (256.min(info.limits.group_invocations), 4) }
}

/// Whether shaders may use subgroup arithmetic.
pub fn subgroup_arithmetic(info: &Info) -> bool {
    info.features.subgroup.contains(vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC)
}

/// Whether groups of shaders that include `reduce.glsl` are one subgroup.
fn one_subgroup(info: &Info) -> bool {
    subgroup_arithmetic(info) && is_cpu(info)
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
    let one = one_subgroup(info) && threads == info.limits.subgroup_size;
    let mut all = vec![u32::from(one)];
    all.extend_from_slice(constants);
    let set = if subgroup_arithmetic(info) { "subgroup" } else { "plain" };
    Ok(Kernel::new(Shader::named(&format!("{shader}.{set}{variant}"))?, [threads, 1, 1], &all))
}

/// Invocations of a group of `flash_attn`.
pub fn attention_threads(info: &Info) -> u32 {
    if is_cpu(info) { info.limits.subgroup_size } else { 32 }
}

/// Invocations of a group of `mul_mat_vec`.
pub fn vector_threads(info: &Info) -> u32 {
    if is_cpu(info) { info.limits.subgroup_size } else { 64.min(info.limits.group_invocations) }
}

/// Rows a group of `mul_mat_rows` takes.
pub fn row_threads(info: &Info) -> u32 {
    if is_cpu(info) { info.limits.subgroup_size } else { 64 }
}

/// Columns an invocation of `mul_mat_rows` takes, of the variants there are.
pub fn row_columns(n: u32) -> u32 {
    match n {
        1 => 1,
        2..=4 => 4,
        _ => 8,
    }
}
