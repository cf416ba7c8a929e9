//! Features that drivers report although they are wrong or slow, in a table.

#![forbid(unsafe_code)]

use crate::environment::{self, debug};
use crate::vulkan::device::info::Info;
use ash::vk;

const AMD: u32 = 0x1002;
const INTEL: u32 = 0x8086;

/// A row of the table.
struct Workaround {
    why: &'static str,
    applies: fn(&Info) -> bool,
    change: fn(&mut Info),
}

const TABLE: &[Workaround] = &[
    Workaround {
        why: "AMD's own drivers offer cooperative matrices on cards that have none",
        applies: |i| {
            let theirs = matches!(i.identity.driver, vk::DriverId::AMD_PROPRIETARY | vk::DriverId::AMD_OPEN_SOURCE);
            // Cards with cooperative matrices (RDNA 3 and later) also have dot products of mixed signs.
            i.identity.vendor == AMD && theirs && !i.features.mixed_sign_dot
        },
        change: |i| i.features.coopmat.clear(),
    },
    Workaround {
        why: "on AMD cards under MoltenVK subgroup arithmetic and shuffles give wrong results",
        applies: |i| i.identity.vendor == AMD && i.identity.driver == vk::DriverId::MOLTENVK,
        change: |i| {
            i.features.subgroup &= !(vk::SubgroupFeatureFlags::ARITHMETIC | vk::SubgroupFeatureFlags::SHUFFLE);
        },
    },
    Workaround {
        why: "on Intel DG1 queued work is lost",
        applies: |i| {
            (i.identity.vendor == INTEL && i.identity.name.contains("(DG1)")) || environment::VK_DISABLE_ASYNC.is_set()
        },
        change: |i| i.features.queues = false,
    },
    Workaround {
        // Seen with 22.3.6 of Debian 12, not with 25.0.7 nor 26.2.6 (docs/SHADERS.md). Versions between them were not
        // tested; sources of 23.2 have the same limit.
        why: "Mesa's software driver before version 25 ends the loops of a shader after 65,535 iterations in all",
        applies: |i| {
            i.identity.driver == vk::DriverId::MESA_LLVMPIPE && mesa(&i.driver_text).is_none_or(|major| major < 25)
        },
        // The driver also counts the end of a loop, and one iteration may be lost.
        change: |i| i.limits.iterations = Some(65_534),
    },
    Workaround {
        why: "GGML_RS_DEBUG: work is divided as for a card",
        applies: |_| matches!(division().as_deref(), Some("card" | "plain")),
        change: |i| i.software = false,
    },
    Workaround {
        why: "GGML_RS_DEBUG: work is divided as for a card without subgroup arithmetic",
        applies: |_| division().as_deref() == Some("plain"),
        change: |i| i.features.subgroup &= vk::SubgroupFeatureFlags::BASIC,
    },
];

/// The major version in a driver's text, such as "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)".
fn mesa(text: &str) -> Option<u32> {
    let version = text.split_once("Mesa ")?.1;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The setting with which tests run the shaders of cards on software drivers.
fn division() -> Option<String> {
    debug::DIVISION.value()
}

/// Corrects the description of a device. Returns the reasons of the rows that applied.
pub(in crate::vulkan) fn apply(info: &mut Info) -> Vec<&'static str> {
    let rows = TABLE.iter().filter(|row| (row.applies)(info)).collect::<Vec<_>>();
    rows.iter().for_each(|row| (row.change)(info));
    rows.iter().map(|row| row.why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::device::info::{Coopmat, Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;

    fn card(vendor: u32, driver: vk::DriverId, name: &str, subgroup: u32, mixed: bool) -> Info {
        let f16 = vk::ComponentTypeKHR::FLOAT16;
        let identity = Identity {
            name: name.into(),
            kind: vk::PhysicalDeviceType::DISCRETE_GPU,
            vendor,
            driver,
            uuid: [0; 16],
            luid: None,
        };
        let features = Features {
            coopmat: vec![Coopmat { m: 16, n: 16, k: 16, ab: f16, c: f16 }],
            subgroup: vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::SHUFFLE,
            mixed_sign_dot: mixed,
            queues: true,
            ..Features::default()
        };
        made_up(identity, features, Limits { subgroup_range: [subgroup, 64], ..Limits::default() })
    }

    #[test]
    fn rows_apply_to_the_cards_they_name() {
        let after = |mut i: Info| {
            let reasons = apply(&mut i).len();
            (
                i.features.coopmat.len(),
                i.features.subgroup.contains(vk::SubgroupFeatureFlags::SHUFFLE),
                i.features.queues,
                reasons,
            )
        };
        assert_eq!(after(card(0x10de, vk::DriverId::NVIDIA_PROPRIETARY, "N", 32, false)), (1, true, true, 0));
        assert_eq!(after(card(AMD, vk::DriverId::MESA_RADV, "R", 32, false)), (1, true, true, 0));
        assert_eq!(after(card(AMD, vk::DriverId::AMD_PROPRIETARY, "R", 32, false)), (0, true, true, 1));
        assert_eq!(after(card(AMD, vk::DriverId::AMD_PROPRIETARY, "R", 32, true)), (1, true, true, 0));
        assert_eq!(after(card(AMD, vk::DriverId::MOLTENVK, "R", 32, true)), (1, false, true, 1));
        assert_eq!(after(card(INTEL, vk::DriverId::INTEL_OPEN_SOURCE_MESA, "B580", 16, true)), (1, true, true, 0));
        assert_eq!(after(card(INTEL, vk::DriverId::INTEL_OPEN_SOURCE_MESA, "Xe (DG1)", 8, true)), (1, true, false, 1));
    }

    #[test]
    fn old_software_drivers_end_long_loops() {
        let limit = |driver, text: &str| {
            let mut i = card(0x10005, driver, "llvmpipe (LLVM 15.0.6, 256 bits)", 8, false);
            i.driver_text = text.into();
            apply(&mut i);
            i.limits.iterations
        };
        let lavapipe = vk::DriverId::MESA_LLVMPIPE;
        assert_eq!(limit(lavapipe, "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"), Some(65_534));
        assert_eq!(limit(lavapipe, "llvmpipe Mesa 24.3.0-devel (LLVM 17.0.6)"), Some(65_534));
        assert_eq!(limit(lavapipe, "llvmpipe Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)"), None);
        assert_eq!(limit(lavapipe, "llvmpipe Mesa 26.2.6-1 (LLVM 21.1.2)"), None);
        assert_eq!(limit(lavapipe, "llvmpipe"), Some(65_534), "of an unknown version");
        assert_eq!(limit(vk::DriverId::MESA_RADV, "radv Mesa 22.3.6"), None);
    }
}
