//! Which architecture a device has, and what the other files decide by it: a row of a table for each.
//!
//! Vulkan does not name architectures, so they are recognised by their capabilities, and by the product's number only
//! if no capability identifies them. A device that no row describes is treated as a card of which nothing is known.

#![forbid(unsafe_code)]

use crate::vulkan::device::Info;
use ash::vk;

const AMD: u32 = 0x1002;
const APPLE: u32 = 0x106b;
const ARM: u32 = 0x13b5;
const INTEL: u32 = 0x8086;
const NVIDIA: u32 = 0x10de;
const QUALCOMM: u32 = 0x5143;

/// `VK_DRIVER_ID_MESA_HONEYKRISP`, which `ash` does not have yet.
const HONEYKRISP: vk::DriverId = vk::DriverId::from_raw(26);

/// An architecture, with those that are alike here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// A driver that computes on the processor.
    Software,
    /// AMD, all before RDNA: subgroups of 64 only.
    Gcn,
    /// AMD's cards for data centres: as GCN, with matrix cores.
    Cdna,
    /// AMD RDNA 1, without dot products of integers.
    Rdna1,
    /// AMD RDNA 2, and the cards of RDNA 1 with such dot products.
    Rdna2,
    /// AMD RDNA 3 and 3.5: matrices in the ordinary units.
    Rdna3,
    /// AMD RDNA 4.
    Rdna4,
    /// NVIDIA before tensor cores: compute capability 6 and less, and what the driver shows no matrices for.
    Pascal,
    /// NVIDIA, compute capability 7.0.
    Volta,
    /// NVIDIA, compute capability 7.5.
    Turing,
    /// NVIDIA, compute capability 8 and later.
    Ampere,
    /// The same for data centres (A100, H100, H200, B200, B300), whose matrix units add F32 as fast as F16.
    AmpereCompute,
    /// Intel before Xe: no dot products of integers.
    IntelGen9,
    /// Intel Xe-LP.
    XeLp,
    /// Intel Xe-HPG and Xe-LPG: with matrices, which not all Xe-LPG have in hardware.
    XeHpg,
    /// Intel Xe2 and later: no subgroups of eight.
    Xe2,
    /// Qualcomm.
    Adreno,
    /// Arm.
    Mali,
    /// Apple.
    Apple,
    /// Anything else.
    Other,
}

/// A tile of a product: rows of src0 and columns of src1 that a workgroup of 256 computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// 64 or 128.
    pub rows: u32,
    /// 64 or 128, and at most `rows`.
    pub columns: u32,
}

const fn tile(rows: u32, columns: u32) -> Tile {
    Tile { rows, columns }
}

/// The tile that every device can have.
pub const SMALL: Tile = tile(64, 64);

/// What is done on an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Tiles of products of floats, largest first; the last is [`SMALL`]. The larger, the fewer bytes of shared memory
    /// for each multiplication (docs/PERFORMANCE.md), and the more registers.
    pub tiles: &'static [Tile],
    /// The same for products of integers, which also need registers for the integers.
    pub integer_tiles: &'static [Tile],
    /// The same for products with cooperative matrices (KHR).
    pub matrix_tiles: &'static [Tile],
    /// Pipelines may require the size of subgroups.
    pub subgroup_sizes: bool,
    /// Cooperative matrices pay, so they need not be requested.
    pub matrices: bool,
    /// Matrices with sums in F32 take twice as long as with sums in F16.
    pub half_sums: bool,
}

const ALL: &[Tile] = &[tile(128, 128), tile(128, 64), SMALL];
const WIDE: &[Tile] = &[tile(128, 64), SMALL];
const ONLY_SMALL: &[Tile] = &[SMALL];

impl Architecture {
    /// The architecture of a device.
    pub fn of(info: &Info) -> Self {
        if info.software {
            return Self::Software;
        }
        let f = &info.features;
        let [least, most] = info.limits.subgroup_range;
        match info.identity.vendor {
            AMD if least == 64 && most == 64 => match info.device_id {
                // MI100; MI200 and later.
                0x7380..=0x739f | 0x7400..=0x75ff => Self::Cdna,
                _ => Self::Gcn,
            },
            AMD => match info.device_id {
                0x7550..=0x75ff => Self::Rdna4,
                _ if f.mixed_sign_dot => Self::Rdna3,
                _ if f.fast_integer_dot => Self::Rdna2,
                _ => Self::Rdna1,
            },
            NVIDIA => match info.device_id {
                0x1d80..=0x1dff => Self::Volta,
                0x2080..=0x20ff | 0x2300..=0x23ff | 0x2900..=0x29ff | 0x3180..=0x31ff => Self::AmpereCompute,
                0x1e00..=0x1fff | 0x2180..=0x21ff => Self::Turing,
                0x2100..=0x217f | 0x2200.. => Self::Ampere,
                // Numbers that are not NVIDIA's.
                _ if !f.coopmat.is_empty() => Self::Turing,
                _ => Self::Pascal,
            },
            // Its vendor is Mesa.
            _ if info.identity.driver == HONEYKRISP => Self::Apple,
            INTEL if least >= 16 => Self::Xe2,
            INTEL if !f.fast_integer_dot => Self::IntelGen9,
            INTEL if f.coopmat.is_empty() => Self::XeLp,
            INTEL => Self::XeHpg,
            QUALCOMM => Self::Adreno,
            ARM => Self::Mali,
            APPLE => Self::Apple,
            _ => Self::Other,
        }
    }

    /// The row of the table.
    pub const fn traits(self) -> Traits {
        use Architecture::*;
        // Tiles of floats, tiles of integers, tiles of matrices, sizes of subgroups, matrices pay, sums in F16 are
        // faster.
        let (tiles, integer_tiles, matrix_tiles, subgroup_sizes, matrices, half_sums) = match self {
            Software => (ONLY_SMALL, ONLY_SMALL, ONLY_SMALL, true, false, false),
            Gcn | Cdna | Rdna1 | Rdna2 => (ALL, WIDE, ONLY_SMALL, true, false, false),
            Rdna3 | Rdna4 => (ALL, WIDE, ALL, true, true, false),
            Pascal | Volta => (ALL, WIDE, ONLY_SMALL, true, false, false),
            // Workstation cards of these architectures add F32 as fast as F16, so sums in F16 cost them nothing.
            Turing | Ampere => (ALL, WIDE, ALL, true, true, true),
            AmpereCompute => (ALL, WIDE, ALL, true, true, false),
            // Intel's drivers select the size of subgroups by the registers that a shader needs, and spill registers if
            // it is too large. 32 sums of floats are too many for these registers.
            IntelGen9 => (ONLY_SMALL, ONLY_SMALL, ONLY_SMALL, false, false, false),
            XeLp => (ONLY_SMALL, WIDE, ONLY_SMALL, false, false, false),
            // Mesa's compiler spills registers in products with matrices, and the original found its own slower than
            // none on an Arc A770.
            XeHpg | Xe2 => (ONLY_SMALL, WIDE, ONLY_SMALL, false, false, false),
            Adreno | Mali | Apple | Other => (ONLY_SMALL, ONLY_SMALL, ONLY_SMALL, true, false, false),
        };
        Traits { tiles, integer_tiles, matrix_tiles, subgroup_sizes, matrices, half_sums }
    }
}

/// Units of a device that run workgroups. Where the driver does not say how many (AMD's, NVIDIA's and Arm's do), those
/// of a typical one.
pub fn units(info: &Info) -> u64 {
    let discrete = info.identity.kind == vk::PhysicalDeviceType::DISCRETE_GPU;
    match (info.limits.units, info.identity.vendor) {
        (0, INTEL) if discrete => 32,
        (0, _) if discrete => 96,
        (0, _) => 16,
        (n, _) => n.into(),
    }
}

/// Amounts of work from which something pays. Most are of typical numbers of units, so they depend on the kind of the
/// device.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// Workgroups of a vector product that keep all units busy.
    pub vector_groups: u64,
    /// Workgroups of a product in tiles that do.
    pub tile_groups: u64,
    /// The same, with the number of units that the device has: with fewer, k is split (`tiles::parts_of_k`).
    pub split_groups: u64,
    /// Workgroups of attention that do.
    pub attention_groups: u64,
    /// The same with cooperative matrices.
    pub matrix_groups: u64,
    /// Bytes of a matrix from which a product of one column converts it to integers in a step of its own.
    pub converted_bytes: u64,
    /// Operations that take as long as a byte of memory.
    pub flops_per_byte: u64,
}

/// The amounts of a device.
pub fn amounts(info: &Info) -> Amounts {
    let kind = info.identity.kind;
    let discrete = kind == vk::PhysicalDeviceType::DISCRETE_GPU;
    let shared = kind == vk::PhysicalDeviceType::INTEGRATED_GPU;
    Amounts {
        vector_groups: if discrete { 2048 } else { 512 },
        // Two for each of 96 units, or of 16.
        tile_groups: if discrete { 192 } else { 32 },
        split_groups: 2 * units(info),
        attention_groups: if discrete { 512 } else { 64 },
        // One for nearly each of 132 units: these tiles rather wait for memory, of which a large tile reads less.
        matrix_groups: if discrete { 128 } else { 16 },
        // Measured on an H100; others are a guess.
        converted_bytes: match (shared, info.identity.vendor) {
            (true, _) => 4 << 20,
            (false, NVIDIA) => 8 << 20,
            _ => 64 << 20,
        },
        flops_per_byte: if discrete { 40 } else { 10 },
    }
}

#[cfg(test)]
mod tests {
    use super::Architecture::*;
    use super::*;
    use crate::vulkan::device::info::{Coopmat, Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;

    /// What is known of a card: vendor, number, sizes of subgroups, dot products (fast, mixed signs), matrices.
    type Known = (u32, u32, [u32; 2], [bool; 2], bool);

    fn card((vendor, device_id, subgroup_range, [fast, mixed], matrices): Known) -> Info {
        let identity = Identity {
            name: String::new(),
            kind: vk::PhysicalDeviceType::DISCRETE_GPU,
            vendor,
            driver: vk::DriverId::MESA_RADV,
            uuid: [0; 16],
            luid: None,
        };
        let (f16, f32) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
        let one = Coopmat { m: 16, n: 16, k: 16, ab: f16, c: f32 };
        let features = Features {
            fast_integer_dot: fast,
            mixed_sign_dot: mixed,
            coopmat: if matrices { vec![one] } else { Vec::new() },
            ..Features::default()
        };
        let mut info = made_up(identity, features, Limits { subgroup_range, ..Limits::default() });
        info.device_id = device_id;
        info
    }

    const NONE: [bool; 2] = [false; 2];

    /// Cards of every architecture but [`Software`]. The first ones are what Mesa's drivers report
    /// (c_tests/vulkan/drivers.json).
    const CARDS: &[(Known, Architecture)] = &[
        ((AMD, 0x744c, [32, 64], [true; 2], true), Rdna3),
        ((AMD, 0x73bf, [32, 64], [true, false], false), Rdna2),
        ((AMD, 0x7550, [32, 64], [true; 2], true), Rdna4),
        ((AMD, 0x687f, [64, 64], NONE, false), Gcn),
        ((AMD, 0x67df, [64, 64], NONE, false), Gcn),
        ((NVIDIA, 0x1004, [32, 32], [true; 2], true), Turing),
        ((INTEL, 0x5690, [8, 32], [true; 2], true), XeHpg),
        ((INTEL, 0xe202, [16, 32], [true; 2], true), Xe2),
        ((APPLE, 0, [32, 32], NONE, false), Apple),
        ((QUALCOMM, 0, [64, 128], NONE, false), Adreno),
        ((AMD, 0x738c, [64, 64], [true, false], false), Cdna),
        ((AMD, 0x74a1, [64, 64], [true, false], false), Cdna),
        ((AMD, 0x731f, [32, 64], NONE, false), Rdna1),
        ((NVIDIA, 0x1b80, [32, 32], [true; 2], false), Pascal),
        ((NVIDIA, 0x1db1, [32, 32], [true; 2], true), Volta),
        ((NVIDIA, 0x1e07, [32, 32], [true; 2], true), Turing),
        ((NVIDIA, 0x2184, [32, 32], [true; 2], false), Turing),
        ((NVIDIA, 0x20b0, [32, 32], [true; 2], true), AmpereCompute),
        ((NVIDIA, 0x2335, [32, 32], [true; 2], true), AmpereCompute),
        ((NVIDIA, 0x2204, [32, 32], [true; 2], true), Ampere),
        ((NVIDIA, 0x2684, [32, 32], [true; 2], true), Ampere),
        ((INTEL, 0x3e92, [8, 32], NONE, false), IntelGen9),
        ((INTEL, 0x9a49, [8, 32], [true; 2], false), XeLp),
        ((ARM, 0xac74_0000, [16, 16], NONE, false), Mali),
        ((0x10005, 0, [8, 8], [true; 2], true), Other),
    ];

    #[test]
    fn cards_are_recognised() {
        for &(known, want) in CARDS {
            let mut info = card(known);
            assert_eq!(Architecture::of(&info), want, "{known:x?}");
            info.software = true;
            assert_eq!(Architecture::of(&info), Software);
        }
        let mut info = card((0x10005, 0, [32, 32], NONE, false));
        assert_eq!(Architecture::of(&info), Other);
        info.identity.driver = HONEYKRISP;
        assert_eq!(Architecture::of(&info), Apple);
    }

    #[test]
    fn tiles_are_those_of_the_shaders_largest_first() {
        for a in CARDS.iter().map(|(_, a)| *a).chain([Software]) {
            let Traits { tiles, integer_tiles, matrix_tiles, .. } = a.traits();
            for list in [tiles, integer_tiles, matrix_tiles] {
                assert_eq!(list.last(), Some(&SMALL), "{a:?}");
                assert!(list.windows(2).all(|w| w[0].rows * w[0].columns > w[1].rows * w[1].columns), "{a:?}");
                assert!(list.iter().all(|t| [64, 128].contains(&t.rows) && [64, 128].contains(&t.columns)), "{a:?}");
                assert!(list.iter().all(|t| t.columns <= t.rows), "{a:?}");
            }
        }
    }
}
