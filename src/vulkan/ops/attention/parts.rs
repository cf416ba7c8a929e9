//! Attention on GPUs: keys are divided into parts, so that a single token keeps all units of a card busy, and another
//! dispatch joins the parts. Many queries are computed with cooperative matrices, where the device has them.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::attention::operands::{Operands, keys_values_and_room, push, read_as};
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::attention;
use crate::vulkan::policy::workgroups;
use crate::vulkan::policy::workgroups::VECTOR_COLUMNS;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;
use ash::vk;

/// Invocations of a workgroup: two for each key of a tile of `flash_attn_parts`.
const THREADS: u32 = 128;
/// Keys of a tile, and the least of a part.
const TILE: u32 = 64;
/// Maximum number of parts, which `flash_attn_join` has an invocation for each of.
const MOST: u32 = 128;
/// Subgroups of a workgroup of `flash_attn_coop`.
const SUBGROUPS: u32 = 4;
/// Its queries: 16 for each subgroup.
const COOP_ROWS: u32 = 16 * SUBGROUPS;
/// With matrices, more parts do not pay if they have fewer keys.
const COOP_PART: u32 = 1024;
/// The parts of a result take at most so many bytes.
const ROOM: u64 = 256 << 20;

/// `PARTIAL` and `ALIGNED` of `FLAGS`.
const PARTIAL: u32 = 16;
const ALIGNED: u32 = 32;

/// Bytes of shared memory of `flash_attn_parts` for `rows` queries.
fn shared_bytes(rows: u32, d: u32, info: &Info) -> u64 {
    let (rows, d) = (u64::from(rows), u64::from(d));
    let reduce = if info.subgroup_arithmetic() { 256.max(16 * rows) } else { 1024 };
    4 * (rows * d + rows * u64::from(TILE) + rows.max(8) * u64::from(THREADS) + reduce)
}

/// Queries of a workgroup: as many as share keys, so that these are read once.
fn rows(n: u32, d: u32, info: &Info) -> u32 {
    let fits = |rows: u32| shared_bytes(rows, d, info) <= u64::from(info.limits.shared_memory);
    let wanted = match n {
        0 | 1 => 1,
        2..=4 => 4,
        _ => attention::queries(info),
    };
    [8, 4, 1].into_iter().find(|&rows| rows <= wanted && fits(rows)).unwrap_or(1)
}

/// An invocation for each eight columns of a value, and room for a query.
pub(in crate::vulkan) fn check([dk, dv]: [i64; 2], info: &Info) -> Result<()> {
    ensure!(dv / 8 <= i64::from(THREADS), "values of {dv} columns");
    let room =
        u32::try_from(dk).is_ok_and(|d| d < 1 << 16 && shared_bytes(1, d, info) <= info.limits.shared_memory.into());
    ensure!(room && info.limits.group_invocations >= THREADS, "keys of {dk} columns");
    Ok(())
}

/// Keys of a part. The number of parts depends on the number of queries only beyond those of a product of few columns:
/// a token gets the same result alone and beside others.
fn part(keys: u32, heads: u32, groups: u64, bytes_of_one: u64, few: bool, info: &Info) -> u32 {
    let busy = attention::groups(info);
    let wanted = if few { busy / u64::from(heads) } else { busy / groups };
    let most = u64::from(MOST).min(ROOM / bytes_of_one.max(1)).max(1);
    let parts = wanted.clamp(1, most) as u32;
    keys.div_ceil(parts).next_multiple_of(TILE)
}

/// Bytes of shared memory of `flash_attn_coop`.
fn coop_shared_bytes(dk: u32, dv: u32, subgroup: u32) -> u64 {
    const KEYS: u64 = 32;
    let (dk, dv, rows) = (u64::from(dk) + 8, u64::from(dv) + 8, u64::from(COOP_ROWS));
    let tile = (KEYS * (dk + dv)).max(rows * dk);
    2 * tile + 2 * rows * (KEYS + 8) + 4 * rows * (KEYS + 4) + 4 * u64::from(SUBGROUPS * subgroup) + 4 * rows + 32
}

/// The size of the matrices, if attention of this many queries is computed with them: operands are rounded to F16.
fn matrices(queries: u32, [dk, dv]: [u32; 2], format: ggml_type, info: &Info) -> Option<[u32; 3]> {
    let subgroup = info.limits.subgroup_size;
    let narrow = !matches!(format, GGML_TYPE_F32 | GGML_TYPE_BF16);
    // Registers for a row's query and sums, of the 255 that most devices have.
    let registers = (dk * 16 / 2 + dv * 16) / subgroup.max(1);
    let fits = dk.is_multiple_of(16)
        && dv.is_multiple_of(16)
        && (registers <= 128 || info.software)
        && (8..=128).contains(&subgroup)
        && subgroup.is_power_of_two()
        && subgroup * SUBGROUPS <= info.limits.group_invocations
        && coop_shared_bytes(dk, dv, subgroup) <= u64::from(info.limits.shared_memory)
        && info.features.subgroup.contains(vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::VOTE);
    (narrow && fits && queries > VECTOR_COLUMNS).then(|| attention::matrices(info)).flatten()
}

/// Whether a software driver computes the node with matrices, on request.
pub(in crate::vulkan) fn requested(node: TensorRef, info: &Info) -> Result<bool> {
    let (k, v) = (src(node, 1)?, src(node, 2)?);
    let [q, keys] = [View::shape(src(node, 0)?)?, View::shape(k)?];
    Ok(matrices(q.ne[1], [keys.ne[0], View::shape(v)?.ne[0]], read_as(k, v), info).is_some())
}

/// How the work is divided.
struct Division {
    /// The size of matrices, if they are used.
    matrices: Option<[u32; 3]>,
    /// Queries of a workgroup.
    rows: u32,
    /// Keys of a part.
    part: u32,
}

fn divide(q: &View, keys: &View, dv: u32, format: ggml_type, info: &Info) -> Division {
    let (dk, heads, batches) = (q.ne[0], keys.ne[2], q.ne[3]);
    let n = q.ne[1] * (q.ne[2] / heads);
    let matrices = matrices(q.ne[1], [dk, dv], format, info);
    let rows = if matrices.is_some() { COOP_ROWS } else { rows(n, dk, info) };
    let bytes = u64::from(q.n_rows()) * part_bytes(dv);
    let groups = u64::from(n.div_ceil(rows)) * u64::from(heads) * u64::from(batches);
    let part = part(keys.ne[1], heads, groups, bytes, q.ne[1] <= VECTOR_COLUMNS, info);
    Division { matrices, rows, part: if matrices.is_some() { part.max(COOP_PART) } else { part } }
}

/// Bytes of a part of a result: its columns, their maximum and their sum.
fn part_bytes(dv: u32) -> u64 {
    u64::from(dv + 8) * 4
}

/// FLASH_ATTN_EXT.
pub(in crate::vulkan) fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (k, v) = (src(node, 1)?, src(node, 2)?);
    let [q, keys] = [View::of(src(node, 0)?)?, View::shape(k)?];
    let (dk, dv, heads) = (q.ne[0], View::shape(v)?.ne[0], keys.ne[2]);
    let Division { matrices, rows, part } = divide(&q, &keys, dv, read_as(k, v), plan.info);
    let parts = keys.ne[1].div_ceil(part);
    let partial = parts > 1;
    let room = if partial { u64::from(q.n_rows()) * part_bytes(dv) * u64::from(parts) } else { 0 };
    let (views, room) = keys_values_and_room(k, v, room, plan)?;
    let o = Operands::new(node, views)?;
    let aligned = if views.iter().all(View::has_aligned_rows) { ALIGNED } else { 0 };
    let flags = o.flags() | aligned | if partial { PARTIAL } else { 0 };
    let (to, writes) = if partial { (room.address, room) } else { (o.d.at, o.d.range) };
    let groups = [o.queries().div_ceil(rows), heads * parts, q.ne[3]];
    let (group, heads, format) = (o.group(), q.ne[2], format_name(views[0].dtype));
    if let Some([cm, cn, ck]) = matrices {
        let subgroup_size = plan.info.limits.subgroup_size;
        let constants = constants::FlashAttnCoop {
            cm,
            d: dk,
            dv,
            group,
            heads,
            flags,
            cn,
            ck,
            subgroup_size,
            together: plan.info.software,
        };
        let kernel = KernelFor::new(&format, [SUBGROUPS * subgroup_size, 1, 1], &constants)?;
        let kernel = workgroups::whole_subgroups(kernel, plan.info);
        plan.dispatch(kernel, push!(FlashAttnCoop, o, to, part: part), groups, &o.reads(), &[writes]);
    } else {
        let ahead = attention::ahead(rows, plan.info);
        let constants =
            |one_subgroup| constants::FlashAttnParts { one_subgroup, d: dk, dv, group, heads, flags, ahead };
        let mut kernel = workgroups::reduction_of(&format!(".{format}.{rows}"), THREADS, constants, plan.info)?;
        if let Some(width) = attention::subgroup_width(plan.info) {
            kernel = kernel.with_subgroup(width);
        }
        plan.dispatch(kernel, push!(FlashAttnParts, o, to, part: part), groups, &o.reads(), &[writes]);
    }
    if partial {
        join(&o, room, parts, plan)?;
    }
    Ok(())
}

/// Adds the dispatch that joins the parts.
fn join(o: &Operands, room: Range, parts: u32, plan: &mut DispatchList<'_>) -> Result<()> {
    let n_rows = o.q.n_rows();
    let grid = Grid::stack(1, n_rows.into(), THREADS, plan.info)?;
    let constants = constants::FlashAttnJoin { dv: o.v.ne[0], heads: o.q.ne[2], sinks: o.sinks.is_some() };
    let kernel = KernelFor::new("", grid.size, &constants)?;
    let sinks = o.sinks.map_or(0, |s| s.at);
    let push = push::FlashAttnJoin { from: room.address, sinks, d: o.d.at, n_rows, parts };
    let reads: Vec<_> = [Some(room), o.sinks.map(|s| s.range)].into_iter().flatten().collect();
    plan.dispatch(kernel, push, grid.groups, &reads, &[o.d.range]);
    Ok(())
}
