//! Sizes of workgroups, variants of shaders, and what a workgroup of a product without tiles computes.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::plan::Grid;
use crate::vulkan::policy::architecture::{Architecture, amounts};
use crate::vulkan::shaders::interface::{Constants, PushBlock, formats};
use crate::vulkan::shaders::kernel::KernelFor;
use ash::vk;

/// Maximum number of columns of a vector product.
pub const VECTOR_COLUMNS: u32 = 8;

/// Invocations in a group of element-wise work, and columns for each of them.
pub fn elementwise(info: &Info) -> (u32, u32) {
    if info.software { (64, 64) } else { (256.min(info.limits.group_invocations), 4) }
}

/// The grid for element-wise work over rows.
pub fn grid(columns: u32, n_rows: u32, info: &Info) -> Result<Grid> {
    let (threads, per) = elementwise(info);
    Grid::rows(columns, n_rows, threads, per, info)
}

/// Whether groups of shaders that include `reduce.glsl` are one subgroup.
fn one_subgroup(info: &Info) -> bool {
    info.subgroup_arithmetic() && info.software
}

/// Whether workgroups are a subgroup of eight invocations that broadcast what they load. For drivers that run lanes on
/// the CPU, on which loads are the most expensive instructions.
pub fn lanes(info: &Info) -> bool {
    one_subgroup(info)
        && info.limits.subgroup_size == 8
        && info.features.subgroup.contains(vk::SubgroupFeatureFlags::BALLOT)
}

/// A kernel of a shader that includes `reduce.glsl`, for rows of `columns`, and the number of invocations of its
/// groups. `constants` is called with whether the workgroup is one subgroup.
pub fn reduction<C: Constants>(
    columns: u32,
    constants: impl FnOnce(bool) -> C,
    info: &Info,
) -> Result<(KernelFor<C::Push>, u32)> {
    let threads = reduction_threads(columns, info);
    Ok((reduction_of("", threads, constants, info)?, threads))
}

/// Invocations of the groups of [`reduction`].
pub fn reduction_threads(columns: u32, info: &Info) -> u32 {
    // Long rows get large groups: old software drivers end long loops early (`Limits::iterations`).
    let few = if info.limits.iterations.is_some() { 1 << 14 } else { 1 << 16 };
    if one_subgroup(info) && columns <= few {
        info.limits.subgroup_size
    } else {
        columns.div_ceil(4).next_power_of_two().clamp(32, 512).min(info.limits.group_invocations)
    }
}

/// Whether a product of one column with `bytes` of weights should convert its column to integers in a step of its own.
/// The step and the barrier after it take some microseconds, in which a card reads some MiB. A product with integers
/// must save that time.
pub fn converts_alone(bytes: u64, info: &Info) -> bool {
    bytes >= amounts(info).converted_bytes
}

/// Like [`reduction`], with `threads` invocations, for a variant of the shader. The workgroup is one subgroup only if
/// subgroups can have this size.
pub fn reduction_of<C: Constants>(
    variant: &str,
    threads: u32,
    constants: impl FnOnce(bool) -> C,
    info: &Info,
) -> Result<KernelFor<C::Push>> {
    let set = if info.subgroup_arithmetic() { "subgroup" } else { "plain" };
    reduction_set(set, variant, threads, constants, info)
}

/// As [`reduction_of`], of a set of variants.
pub fn reduction_set<C: Constants>(
    set: &str,
    variant: &str,
    threads: u32,
    constants: impl FnOnce(bool) -> C,
    info: &Info,
) -> Result<KernelFor<C::Push>> {
    let whole = whole_subgroup(info, threads);
    let one = whole || one_subgroup(info) && threads == info.limits.subgroup_size;
    let kernel = KernelFor::new(&format!("{set}{variant}"), [threads, 1, 1], &constants(one))?;
    Ok(if whole { kernel.with_subgroup(threads) } else { kernel })
}

/// Whether a workgroup of a GPU is one subgroup because the pipeline requires subgroups of its size. Sums then need
/// neither shared memory nor barriers.
fn whole_subgroup(info: &Info, threads: u32) -> bool {
    let [least, most] = info.limits.subgroup_range;
    !info.software
        && info.subgroup_arithmetic()
        && info.features.subgroup_size_control
        && Architecture::of(info).traits().subgroup_sizes
        && threads.is_power_of_two()
        && (least..=most).contains(&threads)
}

/// A kernel whose subgroups all have the device's usual size, which need not be required if the device has no other.
pub fn whole_subgroups<P: PushBlock>(kernel: KernelFor<P>, info: &Info) -> KernelFor<P> {
    if info.features.subgroup_size_control { kernel.with_subgroup(info.limits.subgroup_size) } else { kernel }
}

/// Invocations of a group of `mul_mat_vec`, for rows of `k` values. They decide in which order a row is summed, so they
/// depend on nothing else: a column has the same bits beside any others.
pub fn vector_threads(k: u32, info: &Info) -> u32 {
    if info.software {
        return info.limits.subgroup_size;
    }
    // Matrices have a few thousand rows. With 64 invocations for each two, an H100 has half of the threads that its
    // units hold, which wait for memory; but a group that is one subgroup needs no barriers.
    let discrete = info.identity.kind == vk::PhysicalDeviceType::DISCRETE_GPU;
    let wanted = if discrete && k >= 4096 && !whole_subgroup(info, 64) { 128 } else { 64 };
    wanted.min(info.limits.group_invocations)
}

/// Slots that a workgroup computes at once where it sums the products of `slots` experts with rows of `k` values, and
/// its invocations. One slot after the other, a card waits for memory as often as there are slots. On NVIDIA's cards,
/// where it was measured: with larger workgroups Intel's compiler spills, and Mesa's for others lose up to half of
/// their occupancy (docs/PERFORMANCE.md).
pub fn expert_slots(k: u32, slots: u32, info: &Info) -> (u32, u32) {
    let most = vector_threads(k, info);
    if info.software || info.identity.driver != vk::DriverId::NVIDIA_PROPRIETARY {
        return (1, most);
    }
    // Four pieces of eight values for each invocation, and no more than 256 invocations.
    let share = k.div_ceil(32).next_power_of_two().clamp(32, most.max(32));
    let at_once = slots.max(1).next_power_of_two().min((256 / share).max(1));
    let fitting = at_once.min((info.limits.group_invocations / share).max(1));
    (1 << fitting.ilog2(), share << fitting.ilog2())
}

/// Operations that take a device as long as a byte of memory. A low guess, so that a piece of work is rather too short
/// than too long.
pub fn flops_per_byte(info: &Info) -> u64 {
    amounts(info).flops_per_byte
}

/// The variant of `mul_mat_rows`, invocations of its groups, and rows for each of them.
pub fn row_product(format: ggml_type, info: &Info) -> (&'static str, u32, u32) {
    match info.software {
        true if lanes(info) => ("lanes", 8, if formats::LONG.contains(&format) { 1 } else { 4 }),
        true => ("plain", info.limits.subgroup_size, 1),
        false => ("plain", 64, 1),
    }
}

/// Columns of a workgroup of `mul_mat_vec` and `mul_mat_rows`, at most 8, so that none computes many that do not exist.
pub fn columns(n: u32) -> u32 {
    n.div_ceil(n.div_ceil(VECTOR_COLUMNS).max(1)).max(1)
}

/// Rows of a workgroup of `mul_mat_vec` with `columns`: several share the columns that they read, as long as there are
/// workgroups enough for all units of a card. `groups`: workgroups of one row.
pub fn vector_rows(format: ggml_type, columns: u32, groups: u64, info: &Info) -> u32 {
    if info.software || formats::LONG.contains(&format) {
        return 1;
    }
    let enough = amounts(info).vector_groups;
    // Sixteen sums at most: with more, Intel's compiler spills the integers of the rows, and others lose half of their
    // occupancy (docs/DRIVERS.md).
    let most = if (2..=4).contains(&columns) { 4 } else { 2 };
    [4, 2].into_iter().find(|&rows| rows <= most && groups / u64::from(rows) >= enough).unwrap_or(1)
}

/// Columns for each invocation of `mul_mat_rows` with experts, at most 8. Few different numbers, because they are a
/// matter of chance.
pub fn row_columns(n: u32) -> u32 {
    match n {
        1 => 1,
        2..=4 => 4,
        _ => 8,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::vulkan::device::info::{Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;

    /// A card that does not exist.
    pub fn card(kind: vk::PhysicalDeviceType, vendor: u32, subgroup_range: [u32; 2], control: bool) -> Info {
        let driver = vk::DriverId::MESA_RADV;
        let identity = Identity { name: String::new(), kind, vendor, driver, uuid: [0; 16], luid: None };
        let features = Features {
            subgroup: vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC,
            subgroup_size_control: control,
            ..Features::default()
        };
        made_up(identity, features, Limits { subgroup_range, group_invocations: 1024, ..Limits::default() })
    }

    #[test]
    fn a_group_is_a_subgroup_where_its_size_can_be_required() {
        let gpu = vk::PhysicalDeviceType::DISCRETE_GPU;
        let sizes = |info: &Info| [16, 32, 48, 64, 128].map(|threads| whole_subgroup(info, threads));
        assert_eq!(sizes(&card(gpu, 0x1002, [32, 64], true)), [false, true, false, true, false]);
        assert_eq!(sizes(&card(gpu, 0x10de, [32, 32], true)), [false, true, false, false, false]);
        assert_eq!(sizes(&card(gpu, 0x10de, [32, 32], false)), [false; 5]);
        assert_eq!(sizes(&card(gpu, 0x8086, [8, 32], true)), [false; 5]);
        assert_eq!(sizes(&card(vk::PhysicalDeviceType::CPU, 0x10005, [32, 32], true)), [false; 5]);
    }

    #[test]
    fn slots_of_experts_share_a_workgroup_of_a_card() {
        let mut nvidia = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x10de, [32, 32], true);
        assert_eq!(expert_slots(768, 8, &nvidia), (1, 64));
        nvidia.identity.driver = vk::DriverId::NVIDIA_PROPRIETARY;
        let of = |k, slots| expert_slots(k, slots, &nvidia);
        // 8 of 128 experts, 6 of 64, 2 of 8, and one.
        assert_eq!([of(768, 8), of(1408, 6), of(14336, 2)], [(8, 256), (4, 256), (2, 256)]);
        assert_eq!([of(32, 1), of(768, 2), of(2048, 1)], [(1, 32), (2, 64), (1, 64)]);
        let mut software = nvidia;
        (software.software, software.limits.subgroup_size) = (true, 8);
        assert_eq!(expert_slots(768, 8, &software), (1, 8));
    }
}
