//! Tiles of products: how large they are, and in how many parts k is split.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::vulkan::device::Info;
use crate::vulkan::policy::architecture::{Architecture, SMALL, Tile, amounts, units};

/// The tile of `mul_mat_tile`, or of `mul_mat_tile_ints`, for products of `rows` by `columns` with a number of
/// matrices: the largest with which there are workgroups enough for all units of a card, and which computes few more
/// rows and columns that do not exist than small tiles do.
pub fn tile(with_ints: bool, shape: [u32; 3], info: &Info) -> Tile {
    largest(usual_tiles(with_ints, info).iter().copied(), shape, amounts(info).tile_groups)
}

fn usual_tiles(with_ints: bool, info: &Info) -> &'static [Tile] {
    let traits = Architecture::of(info).traits();
    if with_ints { traits.integer_tiles } else { traits.tiles }
}

fn largest(mut tiles: impl Iterator<Item = Tile>, [rows, columns, matrices]: [u32; 3], enough: u64) -> Tile {
    let groups =
        |t: &Tile| u64::from(rows.div_ceil(t.rows)) * u64::from(columns.div_ceil(t.columns)) * u64::from(matrices);
    let results = |t: &Tile| groups(t) * u64::from(t.rows * t.columns);
    let pays = |t: &Tile| groups(t) >= enough && results(t) <= results(&SMALL) / 8 * 9;
    tiles.find(pays).unwrap_or(SMALL)
}

/// In how many parts k is split for a product in tiles: a matrix of few rows has too few tiles for all units of a card.
/// `step`: parts have a multiple of so many values. How many columns there are does not count, though many columns have
/// tiles enough: a column has the same bits beside any others.
pub fn parts_of_k(rows: u32, k: u32, step: u32, info: &Info) -> u32 {
    const MOST: u32 = 8;
    // What a part costs, 8 bytes of each result to write and read, should be little beside its 4096 multiplications and
    // additions.
    const LEAST: u32 = 2048;
    // Prompts are computed in pieces of so many columns. A matrix that fills the card then is not split.
    const PROMPT: u32 = 512;
    let (tiles, enough) = (u64::from(rows.div_ceil(SMALL.rows)), amounts(info).split_groups);
    // Shorter rows gain too little for another dispatch that waits for them.
    if info.software || k < 3 * LEAST || tiles * u64::from(PROMPT / SMALL.columns) >= enough {
        return 1;
    }
    let most = MOST.min(k / LEAST).min(enough.div_ceil(tiles.max(1)) as u32);
    (2..=most).rev().find(|&parts| k.is_multiple_of(parts * step)).unwrap_or(1)
}

/// A tile of `mul_mat_coop`, and how its subgroups share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixTile {
    /// Rows and columns of the workgroup.
    pub tile: Tile,
    /// Rows and columns of each subgroup. The more, the fewer bytes of shared memory for each multiplication.
    pub part: [u32; 2],
}

impl MatrixTile {
    /// How subgroups share a tile.
    pub fn of(tile: Tile) -> Self {
        // Sixty-four sums for each of 32 invocations: more take so many registers that too few subgroups fit on a unit
        // (docs/PERFORMANCE.md).
        Self { tile, part: if tile.rows == 128 { [64, 32] } else { [32, 32] } }
    }

    /// Number of subgroups.
    pub fn subgroups(&self) -> u32 {
        self.tile.rows / self.part[0] * (self.tile.columns / self.part[1])
    }

    /// Bytes of one step in shared memory, in which a row has 32 values of F16 and a gap of 16 bytes. There are two.
    pub fn step_bytes(&self) -> u32 {
        (self.tile.rows + self.tile.columns) * (32 * 2 + 16)
    }

    /// Whether a device can compute it with matrices of m by n by k: each invocation loads whole groups of eight values
    /// of a step, of which a row has four, and each subgroup has room for a matrix of results in the place of a step.
    pub fn fits(&self, [m, n, _]: [u32; 3], info: &Info) -> bool {
        let threads = self.subgroups() * info.limits.subgroup_size;
        threads <= info.limits.group_invocations
            && (4 * self.tile.columns).is_multiple_of(threads)
            && 2 * self.step_bytes() <= info.limits.shared_memory
            && self.subgroups() * m * n * 4 <= self.step_bytes()
    }
}

/// Like [`tile`], for products with cooperative matrices of a size.
pub fn matrix_tile(size: [u32; 3], shape: [u32; 3], info: &Info) -> MatrixTile {
    MatrixTile::of(largest(fitting_tiles(size, info), shape, amounts(info).matrix_groups))
}

fn fitting_tiles(size: [u32; 3], info: &Info) -> impl Iterator<Item = Tile> {
    let tiles = Architecture::of(info).traits().matrix_tiles.iter().copied();
    tiles.filter(move |t| MatrixTile::of(*t).fits(size, info))
}

/// A tile of `mul_mat_tensor`: rows of src0, columns of src1, and values of k of a step. Multiples of 32, 32 and 16,
/// and at most 256. Rows divide the number of invocations, and are at most 128 (shared memory); the depth divides 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorTile {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Values of k.
    pub depth: u32,
}

impl TensorTile {
    const fn new(rows: u32, columns: u32, depth: u32) -> Self {
        Self { rows, columns, depth }
    }
}

/// A tile, how many of them a unit computes at once, and how fast they are in percent of the fastest: with F16, and
/// with blocks, which are decoded again for each tile.
type TileSpeed = (TensorTile, u32, [u64; 2]);

/// The tiles. Their speeds are those of an H100 and an H200 with F16 and Q4_K (docs/PERFORMANCE.md): large tiles read
/// less for each multiplication, and while one of two tiles on a unit waits, the other multiplies.
const TENSOR_TILES: [TileSpeed; 4] = [
    (TensorTile::new(128, 256, 64), 1, [100, 100]),
    (TensorTile::new(128, 128, 64), 1, [90, 84]),
    (TensorTile::new(64, 64, 64), 2, [70, 64]),
    (TensorTile::new(32, 64, 128), 2, [34, 52]),
];

/// The tile of `mul_mat_tensor` that should be the fastest: units compute a tile at a time, and the last round may
/// leave most of them idle.
pub fn tensor_tile(format: ggml_type, [rows, columns, matrices]: [u32; 3], info: &Info) -> TensorTile {
    fastest_tile(format, rows, |width| u64::from(columns.div_ceil(width)) * u64::from(matrices), info)
}

/// As [`tensor_tile`], for columns that chance gives to experts: each has half a tile to spare on average, but at least
/// one tile.
pub fn expert_tile(format: ggml_type, [rows, columns, experts]: [u32; 3], info: &Info) -> TensorTile {
    let experts = experts.min(columns);
    fastest_tile(format, rows, |width| u64::from((columns / width + experts / 2).max(experts)), info)
}

/// `across`: tiles of some columns each.
fn fastest_tile(format: ggml_type, rows: u32, across: impl Fn(u32) -> u64, info: &Info) -> TensorTile {
    let units = units(info);
    let time = |(t, at_once, speeds): &TileSpeed| {
        let groups = u64::from(rows.div_ceil(t.rows)) * across(t.columns);
        let speed = speeds[usize::from(format.blck_size() > 1)];
        groups.div_ceil(units * u64::from(*at_once)) * u64::from(at_once * t.rows * t.columns) * 100 / speed
    };
    TENSOR_TILES.iter().min_by_key(|t| time(t)).map_or(TENSOR_TILES[0].0, |t| t.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::vulkan::device::coopmat2::TENSOR_THREADS;
    use crate::vulkan::policy::workgroups::tests::card;
    use ash::vk;

    #[test]
    fn tensor_tiles_keep_all_units_busy() {
        let mut h100 = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x10de, [32, 32], true);
        h100.limits.units = 132;
        let of = |format, shape| {
            let t = tensor_tile(format, shape, &h100);
            [t.rows, t.columns]
        };
        for format in [GGML_TYPE_F16, GGML_TYPE_Q4_K] {
            // An 8B llama's matrices with prompts of 512, its output, and attention.
            assert_eq!(of(format, [14336, 512, 1]), [128, 256]);
            assert_eq!(of(format, [4096, 512, 1]), [128, 128]);
            assert_eq!(of(format, [128_256, 512, 1]), [128, 256]);
            assert_eq!(of(format, [512, 512, 32]), [128, 256]);
            // Few columns.
            assert_eq!(of(format, [14336, 32, 1]), [64, 64]);
        }
        // Decoding blocks for the first time costs more than reading columns again.
        assert_eq!(of(GGML_TYPE_F16, [1024, 512, 1]), [64, 64]);
        assert_eq!(of(GGML_TYPE_Q4_K, [1024, 512, 1]), [32, 64]);
        // Prompts of 512 with 2 of 8 experts and with 8 of 128.
        let of = |shape| {
            let t = expert_tile(GGML_TYPE_Q4_K, shape, &h100);
            [t.rows, t.columns]
        };
        assert_eq!(of([14336, 1024, 8]), [128, 128]);
        assert_eq!(of([4096, 1024, 8]), [128, 128]);
        assert_eq!(of([768, 4096, 128]), [64, 64]);
        assert_eq!(of([14336, 8192, 8]), [128, 256]);
        for (t, ..) in TENSOR_TILES {
            assert!(t.rows % 32 == 0 && t.columns % 32 == 0 && t.depth % 16 == 0 && 256 % t.depth == 0);
            assert!(t.rows.max(t.columns).max(t.depth) <= 256 && TENSOR_THREADS.is_multiple_of(t.rows));
        }
    }

    #[test]
    fn tiles_are_as_large_as_a_card_has_work_for() {
        let discrete = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x1002, [32, 64], true);
        let integrated = card(vk::PhysicalDeviceType::INTEGRATED_GPU, 0x1002, [32, 64], true);
        let unknown = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x10005, [8, 8], true);
        let of = |info: &Info, with_ints, shape| {
            let t = tile(with_ints, shape, info);
            [t.rows, t.columns]
        };
        // An 8B llama's matrices with prompts of 512: 448 tiles of 128 x 128; 128 of them, or 256 of 128 x 64.
        assert_eq!(of(&discrete, false, [14336, 512, 1]), [128, 128]);
        assert_eq!(of(&discrete, false, [4096, 512, 1]), [128, 64]);
        assert_eq!(of(&discrete, true, [14336, 512, 1]), [128, 64]);
        assert_eq!(of(&discrete, false, [1024, 512, 1]), [64, 64]);
        assert_eq!(of(&integrated, false, [1024, 512, 1]), [128, 128]);
        // Matrices count.
        assert_eq!(of(&discrete, false, [512, 512, 32]), [128, 128]);
        // Not for columns that do not exist: 65 of 128, and 130 of 256, but 500 of 512.
        assert_eq!(of(&discrete, false, [65536, 64, 1]), [128, 64]);
        assert_eq!(of(&discrete, false, [65536, 130, 1]), [128, 64]);
        assert_eq!(of(&discrete, false, [65536, 500, 1]), [128, 128]);
        assert_eq!(of(&discrete, false, [64, 64, 100_000]), [64, 64]);
        assert_eq!(of(&unknown, false, [65536, 512, 1]), [64, 64]);
    }

    #[test]
    fn k_is_split_where_rows_are_few() {
        let mut navi31 = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x1002, [32, 64], true);
        navi31.limits.units = 96;
        let of = |rows, k, step| parts_of_k(rows, k, step, &navi31);
        assert_eq!([of(1024, 14336, 256), of(1024, 8192, 256), of(576, 7168, 256)], [7, 4, 2]);
        // 4864 values are fewer than three parts may have; 6912 are 108 steps of 64 values, or 27 of 256.
        assert_eq!([of(896, 4864, 64), of(1152, 6912, 64), of(1152, 6912, 256)], [1, 3, 3]);
        assert_eq!([of(1024, 4096, 256), of(4096, 14336, 256), of(1537, 14336, 256)], [1; 3]);
        assert_eq!(of(64, 1 << 20, 64), 8);
        assert_eq!(of(0, 1 << 20, 64), 8);
        navi31.limits.units = 12;
        assert_eq!(parts_of_k(1024, 14336, 256, &navi31), 1);
        assert_eq!(parts_of_k(128, 14336, 256, &navi31), 7);
        navi31.limits.units = 0;
        assert_eq!(parts_of_k(1024, 14336, 256, &navi31), 7);
        navi31.identity.kind = vk::PhysicalDeviceType::INTEGRATED_GPU;
        assert_eq!(parts_of_k(1024, 14336, 256, &navi31), 1);
        navi31.software = true;
        assert_eq!(parts_of_k(64, 1 << 20, 64, &navi31), 1);
    }

    const SIXTEEN: [u32; 3] = [16, 16, 16];

    #[test]
    fn matrix_tiles_are_as_large_as_a_card_has_work_and_room_for() {
        let mut nvidia = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x10de, [32, 32], true);
        nvidia.device_id = 0x2330;
        (nvidia.limits.subgroup_size, nvidia.limits.shared_memory) = (32, 48 << 10);
        let of = |info: &Info, shape| {
            let t = matrix_tile(SIXTEEN, shape, info);
            ([t.tile.rows, t.tile.columns], t.part, t.subgroups())
        };
        let (large, middle, small) = (([128, 128], [64, 32], 8), ([128, 64], [64, 32], 4), ([64, 64], [32, 32], 4));
        // An 8B llama's matrices with prompts of 512: 448 tiles of 128 x 128, 128 of them, 64 of 128 x 64, or 128 of 64
        // x 64.
        assert_eq!(of(&nvidia, [14336, 512, 1]), large);
        assert_eq!(of(&nvidia, [4096, 512, 1]), large);
        assert_eq!(of(&nvidia, [1024, 512, 1]), small);
        assert_eq!(of(&nvidia, [2048, 512, 1]), middle);
        assert_eq!(of(&nvidia, [65536, 64, 1]), middle);
        // Two steps of 256, 192 or 128 rows of 80 bytes.
        for (bytes, want) in [(40960, large), (40959, middle), (30720, middle), (30719, small)] {
            nvidia.limits.shared_memory = bytes;
            assert_eq!(of(&nvidia, [14336, 512, 1]), want, "{bytes} bytes");
        }
        nvidia.limits.shared_memory = 48 << 10;
        for (most, want) in [(256, large), (255, middle), (128, middle)] {
            nvidia.limits.group_invocations = most;
            assert_eq!(of(&nvidia, [14336, 512, 1]), want, "{most} invocations");
        }
        // Subgroups of 64.
        let mut amd = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x1002, [32, 64], true);
        (amd.limits.subgroup_size, amd.limits.shared_memory) = (64, 64 << 10);
        assert_eq!(of(&amd, [14336, 512, 1]), small); // RDNA 1
        amd.device_id = 0x7550; // RDNA 4
        assert_eq!(of(&amd, [14336, 512, 1]), large);
        assert_eq!(of(&amd, [2048, 512, 1]), middle);
    }

    #[test]
    fn tiles_have_room_for_the_matrices_of_their_subgroups() {
        let mut info = card(vk::PhysicalDeviceType::DISCRETE_GPU, 0x10de, [32, 32], true);
        (info.limits.subgroup_size, info.limits.shared_memory) = (32, 48 << 10);
        let fits = |rows, columns, size| MatrixTile::of(Tile { rows, columns }).fits(size, &info);
        // 8 x 2048 bytes in 20,480, and 4 x 4096 in 15,360.
        assert!(fits(128, 128, [32, 16, 16]) && fits(128, 64, [32, 16, 16]));
        assert!(!fits(128, 128, [32, 32, 16]) && !fits(128, 64, [32, 32, 16]));
        // A step of 64 columns has a piece for each of 256 invocations, but not of 512, and one of 128 columns not for
        // each of 1024.
        for (subgroup_size, want) in [(64, [true; 3]), (128, [false; 3])] {
            info.limits.subgroup_size = subgroup_size;
            let fits = |(rows, columns)| MatrixTile::of(Tile { rows, columns }).fits(SIXTEEN, &info);
            assert_eq!([(128, 128), (128, 64), (64, 64)].map(fits), want, "subgroups of {subgroup_size}");
        }
    }
}
