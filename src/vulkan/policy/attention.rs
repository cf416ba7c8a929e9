//! The ways of attention, and how each divides its work.

#![forbid(unsafe_code)]

use crate::environment::debug;
use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::policy::architecture::{Architecture, amounts, units};
use crate::vulkan::policy::method::{Sums, largest_matrices};
use crate::vulkan::policy::workgroups::{lanes, reduction_of, reduction_set};
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use ash::vk;
use std::sync::OnceLock;

/// Queries of a head from which `flash_attn_tensor` computes them.
const TENSORS_FROM: u32 = 32;

/// How attention of many queries is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Without matrices (`flash_attn_parts`).
    Vector,
    /// With cooperative matrices of subgroups (`flash_attn_coop`).
    Matrices,
    /// With matrices of a workgroup, loaded from tensors (`flash_attn_tensor`).
    Tensors,
}

/// The way of attention that GGML_RS_DEBUG names, read once per process.
fn requested() -> Option<Way> {
    static REQUESTED: OnceLock<Option<Way>> = OnceLock::new();
    *crate::sys::sync::once(&REQUESTED, || match debug::ATTENTION.value().as_deref() {
        Some("vector") => Some(Way::Vector),
        Some("matrices") => Some(Way::Matrices),
        Some("tensors") => Some(Way::Tensors),
        _ => None,
    })
}

/// Whether matrices pay for attention of many queries.
fn matrices_pay(info: &Info) -> bool {
    Architecture::of(info).traits().matrices
}

/// Whether attention of `queries` of each head is computed by `flash_attn_tensor`, in `groups` workgroups, if it can
/// load the operands: for prompts, unless the environment names a way.
pub fn by_tensors(queries: u32, groups: u64, info: &Info) -> bool {
    let wanted = match requested() {
        None => queries >= TENSORS_FROM && fills_units(groups, info) && matrices_pay(info),
        way => way == Some(Way::Tensors),
    };
    wanted && info.features.tensor_attention
}

/// Whether a workgroup for every key of a head is fast enough. Other ways divide the keys among workgroups: on an H200
/// they take 7.3 us for each 64 queries and 16,384 keys, where a workgroup alone takes about 750 us, and as many as
/// there are units take no longer.
fn fills_units(groups: u64, info: &Info) -> bool {
    groups >= units(info) * 3 / 4
}

/// The size of cooperative matrices for attention, whose subgroups have 16 queries each. `None` if matrices do not pay.
pub fn matrices(info: &Info) -> Option<[u32; 3]> {
    let wanted = match requested() {
        None | Some(Way::Tensors) => matrices_pay(info),
        way => way == Some(Way::Matrices),
    };
    if !wanted {
        return None;
    }
    // Keys and values are loaded in pieces of eight.
    let fits = |n: u32, piece: u32| n >= piece && 16 % n == 0;
    largest_matrices(info, Sums::F32, |[m, n, k]| fits(m, 1) && fits(n, 8) && fits(k, 8))
}

/// A kernel of `flash_attn`.
pub fn kernel(
    variant: &str,
    constants: impl FnOnce(bool) -> constants::FlashAttn,
    info: &Info,
) -> Result<KernelFor<push::FlashAttn>> {
    let threads = threads(info);
    if lanes(info) {
        return reduction_set("lanes", variant, threads, constants, info);
    }
    reduction_of(variant, threads, constants, info)
}

/// Invocations of a group of `flash_attn`.
pub fn threads(info: &Info) -> u32 {
    if info.software { info.limits.subgroup_size } else { 32 }
}

/// Workgroups of attention that keep all units of a card busy.
pub fn groups(info: &Info) -> u64 {
    amounts(info).attention_groups
}

/// Pieces of keys and values that an invocation of `flash_attn_parts` reads before it waits for any of them, for a
/// number of queries. NVIDIA's compiler keeps their registers apart from those of the sums; Mesa's load the queries for
/// all of them ahead, too: with two pieces, four queries take a quarter more registers on AMD's cards and spill on
/// Intel's, but half as many on Adreno (docs/DRIVERS.md).
pub fn ahead(queries: u32, info: &Info) -> u32 {
    match info.identity.driver {
        vk::DriverId::NVIDIA_PROPRIETARY => 4,
        _ if queries == 1 || Architecture::of(info) == Architecture::Adreno => 2,
        _ => 1,
    }
}

/// Maximum number of queries of a workgroup of `flash_attn_parts`: eight are 64 sums, for which some have no registers
/// (docs/DRIVERS.md).
pub fn queries(info: &Info) -> u32 {
    if intel(info) || matches!(Architecture::of(info), Architecture::Adreno | Architecture::Apple) { 4 } else { 8 }
}

/// The size of subgroups that pipelines of `flash_attn_parts` require, if any. Left to itself, Intel's driver takes
/// subgroups of 32, whose sums have no registers (docs/DRIVERS.md). One size for all, since it decides in which order
/// weights are summed.
pub fn subgroup_width(info: &Info) -> Option<u32> {
    (intel(info) && info.features.subgroup_size_control).then_some(info.limits.subgroup_range[0])
}

fn intel(info: &Info) -> bool {
    use Architecture::*;
    matches!(Architecture::of(info), IntelGen9 | XeLp | XeHpg | Xe2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::device::info::{Coopmat, Features};
    use crate::vulkan::policy::method::tests::{device, everything};
    use crate::vulkan::policy::workgroups::tests::card;

    #[test]
    fn attention_loads_its_matrices_in_pieces_of_eight() {
        let of = |sizes: &[[u32; 3]]| {
            let (ab, c) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
            let coopmat = sizes.iter().map(|&[m, n, k]| Coopmat { m, n, k, ab, c }).collect();
            let mut info = device(vk::PhysicalDeviceType::DISCRETE_GPU, Features { coopmat, ..everything() });
            // An RTX 4090.
            (info.identity.vendor, info.device_id) = (0x10de, 0x2684);
            matrices(&info)
        };
        assert_eq!(of(&[[16, 8, 8], [16, 16, 16], [16, 8, 16]]), Some([16, 16, 16]));
        assert_eq!(of(&[[16, 16, 4], [16, 4, 16], [32, 8, 8]]), None);
        assert_eq!(of(&[[16, 16, 4], [8, 8, 8]]), Some([8, 8, 8]));
    }

    #[test]
    fn attention_from_tensors_needs_work_for_most_units() {
        let mut info = device(vk::PhysicalDeviceType::DISCRETE_GPU, everything());
        (info.identity.vendor, info.device_id, info.limits.units) = (0x10de, 0x2684, 132);
        // 512 queries of 32 heads, 64 of 32, 32 of 128, and 31 of many.
        let of = |info: &Info| [(512, 256), (64, 32), (32, 128), (31, 1000)].map(|(n, g)| by_tensors(n, g, info));
        assert_eq!(of(&info), [false; 4]);
        info.features.tensor_attention = true;
        assert_eq!(of(&info), [true, false, true, false]);
        assert_eq!([98, 99].map(|groups| by_tensors(32, groups, &info)), [false, true]);
    }

    #[test]
    fn attention_has_narrow_subgroups_on_intel() {
        let gpu = vk::PhysicalDeviceType::DISCRETE_GPU;
        assert_eq!(subgroup_width(&card(gpu, 0x8086, [8, 32], true)), Some(8));
        assert_eq!(subgroup_width(&card(gpu, 0x8086, [16, 32], true)), Some(16));
        assert_eq!(subgroup_width(&card(gpu, 0x8086, [8, 32], false)), None);
        assert_eq!(subgroup_width(&card(gpu, 0x1002, [32, 64], true)), None);
    }

    #[test]
    fn several_queries_have_one_piece_ahead_but_on_adreno() {
        let ahead = |vendor| {
            let info = card(vk::PhysicalDeviceType::DISCRETE_GPU, vendor, [16, 64], true);
            [1, 4, 8].map(|queries| ahead(queries, &info))
        };
        assert_eq!([0x8086, 0x1002, 0x5143].map(ahead), [[2, 1, 1], [2, 1, 1], [2, 2, 2]]);
    }
}
