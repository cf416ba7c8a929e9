//! Features that drivers report although they are wrong or slow, in a table.

#![forbid(unsafe_code)]

use super::info::Info;
use crate::environment;
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
        why: "GGML_VK_TUNE: work is divided as for a card",
        applies: |_| matches!(tune().as_deref(), Some("card" | "plain")),
        change: |i| i.software = false,
    },
    Workaround {
        why: "GGML_VK_TUNE: work is divided as for a card without subgroup arithmetic",
        applies: |_| tune().as_deref() == Some("plain"),
        change: |i| i.features.subgroup &= vk::SubgroupFeatureFlags::BASIC,
    },
];

/// GGML_VK_TUNE, with which tests run the shaders of cards on software drivers.
fn tune() -> Option<String> {
    environment::VK_TUNE.text()
}

/// Corrects the description of a device. Returns the reasons of the rows that applied.
pub(super) fn apply(info: &mut Info) -> Vec<&'static str> {
    let rows = TABLE.iter().filter(|row| (row.applies)(info)).collect::<Vec<_>>();
    rows.iter().for_each(|row| (row.change)(info));
    rows.iter().map(|row| row.why).collect()
}

#[cfg(test)]
mod tests {
    use super::super::info::{Coopmat, Features, Identity, Limits};
    use super::super::testing::made_up;
    use super::*;

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
}
