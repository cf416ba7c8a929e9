//! How work is cut for a device: sizes of workgroups, and which variant of a shader it takes. All such choices are made here.

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

/// A kernel of a shader that includes `reduce.glsl`, and invocations in its groups, for rows of `columns`. `constants` start at 4.
pub fn reduction(shader: &str, columns: u32, constants: &[u32], info: &Info) -> Result<(Kernel, u32)> {
    let subgroup = subgroup_arithmetic(info);
    let one = subgroup && is_cpu(info);
    let threads = if one {
        info.limits.subgroup_size
    } else {
        columns.div_ceil(4).next_power_of_two().clamp(32, 512).min(info.limits.group_invocations)
    };
    let mut all = vec![u32::from(one)];
    all.extend_from_slice(constants);
    let shader = Shader::named(&format!("{shader}.{}", if subgroup { "subgroup" } else { "plain" }))?;
    Ok((Kernel::new(shader, [threads, 1, 1], &all), threads))
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
