//! Pairs of token and slot, sorted by expert (`product_lists`), in tiles of those with the same expert.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::ops::matmul::operands::Operands;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Maximum number of experts for `product_lists`.
pub const MAX_EXPERTS: u32 = 1024;

/// Most tiles of pairs: full ones, and at most one partial tile for each expert.
pub fn most_tiles(pairs: u32, experts: u32, width: u32) -> u32 {
    pairs.div_ceil(width) + experts.min(pairs)
}

/// Bytes of the lists of [`sort`].
pub fn list_bytes(pairs: u32, n_tiles: u32) -> [u64; 2] {
    [u64::from(n_tiles) * 12, u64::from(pairs) * 4]
}

/// Adds a dispatch that sorts the pairs by expert, and makes tiles of at most `width`.
pub fn sort(
    ids: &View,
    o: &Operands,
    width: u32,
    [tiles, pairs]: [Range; 2],
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    let limits = &plan.info.limits;
    let threads = if plan.info.software { limits.subgroup_size } else { 256.min(limits.group_invocations) };
    let kernel = KernelFor::new("", [threads, 1, 1], &constants::ProductLists {})?;
    let (n_pairs, experts) = (ids.ne[0] * ids.ne[1], o.a.ne[2]);
    let push = push::ProductLists {
        ids: ids.at,
        pairs: pairs.address,
        tiles: tiles.address,
        d: o.d.at,
        slots: ids.ne[0],
        n_pairs,
        experts,
        width,
        n_tiles: most_tiles(n_pairs, experts, width),
        ids_nb: [ids.nb[0], ids.nb[1]],
        m: o.d.ne[0],
        d_nb: [o.d.nb[1], o.d.nb[2]],
    };
    plan.dispatch(kernel, push, [1, 1, 1], &[ids.range], &[pairs, tiles, o.d.range]);
    Ok(())
}
