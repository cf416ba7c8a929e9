//! How work is divided for a device: sizes of workgroups, and variants of shaders. The methods of matrix products are
//! in `ladder.rs`.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::policy::architecture::{Architecture, SMALL, Tile, amounts, units};
use crate::vulkan::policy::method::VECTOR_COLUMNS;
use crate::vulkan::shaders::interface::{Constants, PushBlock, constants, formats, push};
use crate::vulkan::shaders::kernel::KernelFor;
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

/// Whether workgroups are a subgroup of eight invocations that broadcast what they load. For drivers that run lanes on
/// the CPU, on which loads are the most expensive instructions.
fn lanes(info: &Info) -> bool {
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
    let set = if subgroup_arithmetic(info) { "subgroup" } else { "plain" };
    reduction_set(set, variant, threads, constants, info)
}

fn reduction_set<C: Constants>(
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
        && subgroup_arithmetic(info)
        && info.features.subgroup_size_control
        && Architecture::of(info).traits().subgroup_sizes
        && threads.is_power_of_two()
        && (least..=most).contains(&threads)
}

/// A kernel whose subgroups all have the device's usual size, which need not be required if the device has no other.
pub fn whole_subgroups<P: PushBlock>(kernel: KernelFor<P>, info: &Info) -> KernelFor<P> {
    if info.features.subgroup_size_control { kernel.with_subgroup(info.limits.subgroup_size) } else { kernel }
}

/// A kernel of `flash_attn`.
pub fn attention(
    variant: &str,
    constants: impl FnOnce(bool) -> constants::FlashAttn,
    info: &Info,
) -> Result<KernelFor<push::FlashAttn>> {
    let threads = attention_threads(info);
    if lanes(info) {
        return reduction_set("lanes", variant, threads, constants, info);
    }
    reduction_of(variant, threads, constants, info)
}

/// Invocations of a group of `flash_attn`.
pub fn attention_threads(info: &Info) -> u32 {
    if info.software { info.limits.subgroup_size } else { 32 }
}

/// Workgroups of attention that keep all units of a card busy.
pub fn attention_groups(info: &Info) -> u64 {
    amounts(info).attention_groups
}

/// Pieces of keys and values that an invocation of `flash_attn_parts` reads before it waits for any of them, for a
/// number of queries. NVIDIA's compiler keeps their registers apart from those of the sums; Mesa's load the queries for
/// all of them ahead, too: with two pieces, four queries take a quarter more registers on AMD's cards and spill on
/// Intel's, but half as many on Adreno (docs/DRIVERS.md).
pub fn attention_ahead(queries: u32, info: &Info) -> u32 {
    match info.identity.driver {
        vk::DriverId::NVIDIA_PROPRIETARY => 4,
        _ if queries == 1 || Architecture::of(info) == Architecture::Adreno => 2,
        _ => 1,
    }
}

/// Maximum number of queries of a workgroup of `flash_attn_parts`: eight are 64 sums, for which some have no registers
/// (docs/DRIVERS.md).
pub fn attention_queries(info: &Info) -> u32 {
    if intel(info) || matches!(Architecture::of(info), Architecture::Adreno | Architecture::Apple) { 4 } else { 8 }
}

/// The size of subgroups that pipelines of `flash_attn_parts` require, if any. Left to itself, Intel's driver takes
/// subgroups of 32, whose sums have no registers (docs/DRIVERS.md). One size for all, since it decides in which order
/// weights are summed.
pub fn attention_width(info: &Info) -> Option<u32> {
    (intel(info) && info.features.subgroup_size_control).then_some(info.limits.subgroup_range[0])
}

fn intel(info: &Info) -> bool {
    use Architecture::*;
    matches!(Architecture::of(info), IntelGen9 | XeLp | XeHpg | Xe2)
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
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::vulkan::device::coopmat2::TENSOR_THREADS;
    use crate::vulkan::device::info::{Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;

    fn card(kind: vk::PhysicalDeviceType, vendor: u32, subgroup_range: [u32; 2], control: bool) -> Info {
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
    fn attention_has_narrow_subgroups_on_intel() {
        let gpu = vk::PhysicalDeviceType::DISCRETE_GPU;
        assert_eq!(attention_width(&card(gpu, 0x8086, [8, 32], true)), Some(8));
        assert_eq!(attention_width(&card(gpu, 0x8086, [16, 32], true)), Some(16));
        assert_eq!(attention_width(&card(gpu, 0x8086, [8, 32], false)), None);
        assert_eq!(attention_width(&card(gpu, 0x1002, [32, 64], true)), None);
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

    #[test]
    fn several_queries_have_one_piece_ahead_but_on_adreno() {
        let ahead = |vendor| {
            let info = card(vk::PhysicalDeviceType::DISCRETE_GPU, vendor, [16, 64], true);
            [1, 4, 8].map(|queries| attention_ahead(queries, &info))
        };
        assert_eq!([0x8086, 0x1002, 0x5143].map(ahead), [[2, 1, 1], [2, 1, 1], [2, 2, 2]]);
    }

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
            assert!(t.rows.max(t.columns).max(t.depth) <= 256 && TENSOR_THREADS % t.rows == 0);
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
