//! How work is cut for a device: sizes of workgroups, and which variant of a shader it takes. All such choices are made here.

#![forbid(unsafe_code)]

use super::plan::Kernel;
use super::shaders::Shader;
use super::{Info, env};
use crate::error::Result;
use ash::vk;
use std::sync::OnceLock;

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

/// The ways a matrix product can go. All devices have all but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// A lane takes a row of src0 and some columns of src1; nothing is shared (`mul_mat_rows`).
    Rows,
    /// A group takes a row and some columns (`mul_mat_vec`).
    Vector,
    /// A group takes a tile, through shared memory (`mul_mat_tile`).
    Tile,
    /// A tile by cooperative matrices of m, n and k (`mul_mat_coop`).
    Matrices([u32; 3]),
}

/// Columns up to which a product is a vector product.
pub const VECTOR_COLUMNS: u32 = 8;

/// Rows and columns of a tile.
pub const TILE: u32 = 64;

/// What the environment asks for.
struct Wish {
    way: Way,
    matrices: bool,
}

/// `GGML_VK_PRODUCT`.
#[derive(Clone, Copy)]
enum Way {
    Own,
    Rows,
    Vector,
    Tile,
    Matrices,
}

/// Read once in a process.
fn wish() -> &'static Wish {
    static WISH: OnceLock<Wish> = OnceLock::new();
    WISH.get_or_init(|| {
        let way = match std::env::var("GGML_VK_PRODUCT").as_deref() {
            Ok("rows") => Way::Rows,
            Ok("vector") => Way::Vector,
            Ok("tile") => Way::Tile,
            Ok("matrices") => Way::Matrices,
            _ => Way::Own,
        };
        Wish { way, matrices: env::set("GGML_VK_TRY_COOPMAT") }
    })
}

/// How products of `n` columns go on a device. `halves`: src0's values fit into F16. `GGML_VK_PRODUCT` (rows, vector, tile, matrices)
/// takes another way than the device's own, for tests.
pub fn product(info: &Info, n: u32, halves: bool) -> Product {
    let tile_fits = info.limits.shared_memory >= 2 * 32 * 65 * 4 && info.limits.group_invocations >= 256;
    let matrices = coop_size(info).filter(|_| halves).map(Product::Matrices);
    let wish = wish();
    match wish.way {
        Way::Rows => return Product::Rows,
        Way::Vector if subgroup_arithmetic(info) => return Product::Vector,
        Way::Tile if tile_fits => return Product::Tile,
        Way::Matrices => return matrices.unwrap_or(Product::Tile),
        _ => {}
    }
    if is_cpu(info) {
        return Product::Rows;
    }
    if n <= VECTOR_COLUMNS && subgroup_arithmetic(info) {
        return Product::Vector;
    }
    match matrices {
        // Not yet run on a card: only by wish.
        Some(way) if wish.matrices => way,
        _ if tile_fits => Product::Tile,
        _ => Product::Rows,
    }
}

/// A size of cooperative matrices that `mul_mat_coop` can use: F16 into F32, each a divisor of 32.
fn coop_size(info: &Info) -> Option<[u32; 3]> {
    let half = vk::ComponentTypeKHR::FLOAT16;
    let enough =
        info.limits.shared_memory >= 28 << 10 && info.limits.group_invocations >= 4 * info.limits.subgroup_size;
    let fits = |n: u32| n > 0 && 32 % n == 0;
    let usable = |c: &&super::info::Coopmat| {
        c.ab == half && c.c == vk::ComponentTypeKHR::FLOAT32 && fits(c.m) && fits(c.n) && fits(c.k)
    };
    info.features.coopmat.iter().filter(|_| enough).find(usable).map(|c| [c.m, c.n, c.k])
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
