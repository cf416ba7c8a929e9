//! Columns as blocks of 8-bit integers, which products of integers read.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::ops::matmul::operands::Operands;
use crate::vulkan::plan::{DispatchList, Grid, Target, View};
use crate::vulkan::policy::method::{self, Product};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Type of src1 as blocks of 8-bit integers: `BLOCKS` of `product.glsl`.
pub const BLOCKS: u32 = 64;
/// Bytes of such a block of 32 integers.
pub const BLOCK_BYTES: u64 = 40;

/// The corresponding method without integers.
pub fn without_ints(method: Product) -> Product {
    match method {
        Product::VectorInts => Product::Vector,
        Product::TileInts => Product::Tile,
        other => other,
    }
}

/// Bytes of rows as blocks of integers. `None` if there are none, which products of integers would read ahead, or too
/// many for their indices or for scratch memory.
pub fn block_bytes(b: &View) -> Option<u64> {
    let blocks = u64::from(b.n_rows()) * u64::from(b.ne[0] / 32);
    (blocks > 0 && blocks < 1 << 31 && blocks * BLOCK_BYTES <= 1 << 30).then_some(blocks * BLOCK_BYTES)
}

/// Adds a dispatch that converts src1 to blocks of integers at `to`. Returns their view.
pub fn to_blocks(b: &View, to: Range, plan: &mut DispatchList<'_>) -> Result<View> {
    let (threads, per) = workgroups::elementwise(plan.info);
    let n = b.ne[0] / 32;
    let grid = Grid::rows(n, b.n_rows(), threads, per.div_ceil(32), plan.info)?;
    let kernel = KernelFor::new("", grid.size, &constants::ProductBlocks { a: b.ty() })?;
    let ne = [n, b.ne[1], b.ne[2]];
    let push = push::ProductBlocks { a: b.at, d: to.address, ne, n_rows: b.n_rows(), a_nb: b.nb123() };
    plan.dispatch(kernel, push, grid.groups, &[b.range], &[to]);
    plan.converts(b, Target::Blocks, to);
    Ok(block_view(b, to))
}

/// Rows as the blocks at `at`.
pub fn block_view(b: &View, at: Range) -> View {
    let n = b.ne[0] / 32;
    View { at: at.address, nb: [1, n, n * b.ne[1], n * b.ne[1] * b.ne[2]], range: at, ..*b }
}

/// src1 as blocks: those that an earlier step wrote, or new ones. `None` as for [`block_bytes`].
pub fn in_blocks(b: &View, plan: &mut DispatchList<'_>) -> Result<Option<View>> {
    if let Some(at) = plan.converted(b, Target::Blocks) {
        return Ok(Some(block_view(b, at)));
    }
    let Some(bytes) = block_bytes(b) else { return Ok(None) };
    let room = plan.scratch(bytes)?;
    to_blocks(b, room, plan).map(Some)
}

/// Whether a product with few columns should read them without conversion to blocks, because there are no blocks of
/// them yet and the weights are too small for a conversion to pay for this product alone. The answer is the same for
/// one column and for several, so that their results are the same, too.
pub fn is_too_small_for_ints(method: Product, o: &Operands, matrices: u32, plan: &DispatchList<'_>) -> bool {
    let bytes = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64 * u64::from(o.a.ne[1]) * u64::from(matrices);
    method == Product::VectorInts
        && !method::is_forced()
        && plan.converted(&o.b, Target::Blocks).is_none()
        && !workgroups::converts_alone(bytes, plan.info)
}
