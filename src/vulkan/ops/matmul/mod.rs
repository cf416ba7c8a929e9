//! Matrix products: `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, and products with an expert for each slot of a
//! token.
//!
//! `policy::method` has the methods, and says which device uses which. `operands`, `form` (the kernel of a method),
//! `blocks` (columns as integers), `pairs` (of tokens and experts), `split` (of long k) are shared; `joined` and
//! `experts` compute several products together.

#![forbid(unsafe_code)]

mod blocks;
mod columns;
pub mod experts;
mod form;
pub mod joined;
mod operands;
mod out_prod;
mod pairs;
mod split;
mod tensors;

use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, Target, View};
use crate::vulkan::policy::method::{self, Product, Request, TILE};
use crate::vulkan::policy::workgroups;
use crate::vulkan::policy::workgroups::VECTOR_COLUMNS;
use crate::vulkan::shaders::interface::{formats, listed};
use crate::vulkan::submit::Range;
pub use blocks::block_bytes;
use blocks::{BLOCKS, block_view, in_blocks, is_too_small_for_ints, to_blocks, without_ints};
use form::{Columns, form};
use operands::{Operands, is_exact};
pub use out_prod::{check_out_prod, out_prod};
use pairs::{MAX_EXPERTS, list_bytes, most_tiles, sort};
use split::Split;
use tensors::loadable;

fn check_operands(node: TensorRef, info: &Info) -> Result<(TensorRef, TensorRef)> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(node.dtype() == GGML_TYPE_F32 && node.is_contiguous_rows(), "product into {:?}", node.dtype());
    ensure!(matches!(b.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16), "product with {:?}", b.dtype());
    ensure!(a.is_contiguous_rows() && b.is_contiguous_rows(), "rows with gaps");
    listed(formats::ALL, "mul_mat_rows", a.dtype())?;
    for t in [a, b, node] {
        View::shape(t)?;
    }
    let limit = info.limits.groups.map(i64::from);
    ensure!(a.ne()[1] <= limit[0] * i64::from(workgroups::row_product(a.dtype(), info).1), "{} rows", a.ne()[1]);
    ensure!(b.ne()[1] <= limit[1] && b.ne()[2] * b.ne()[3] <= limit[2], "{:?} columns", b.ne());
    ensure!(a.ne()[0] == b.ne()[0], "rows of {} and {}", a.ne()[0], b.ne()[0]);
    Ok((a, b))
}

/// src0 of any format with a shader, src1 of floats, result F32. src0 repeats over the matrices of src1.
pub fn check(node: TensorRef, info: &Info) -> Result<()> {
    let (a, b) = check_operands(node, info)?;
    let (x, y) = (a.ne(), b.ne());
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} does not repeat to {y:?}");
    // Shaders have one number of rows, and one of columns, for sources and result.
    ensure!(node.ne() == [x[1], y[1], y[2], y[3]], "{x:?} times {y:?} into {:?}", node.ne());
    Ok(())
}

/// Like [`check`], with 32-bit expert ids.
pub fn check_id(node: TensorRef, info: &Info) -> Result<()> {
    let (a, b) = check_operands(node, info)?;
    let ids = src(node, 2)?;
    ensure!(ids.dtype() == GGML_TYPE_I32, "experts of {:?}", ids.dtype());
    View::shape(ids)?;
    let limit = info.limits.groups.map(i64::from);
    let (x, y, i) = (a.ne(), b.ne(), ids.ne());
    ensure!(i[0] <= limit[1] && i[1] <= limit[2], "{i:?} experts");
    ensure!(x[2] > 0 && x[3] == 1 && y[3] == 1 && i[2] == 1 && i[3] == 1, "experts {x:?} times {y:?} for {i:?}");
    ensure!(y[1] > 0 && i[0] % y[1] == 0 && i[1] == y[2], "columns {y:?} for the experts {i:?}");
    ensure!(node.ne() == [x[1], i[0], i[1], 1], "{x:?} times {y:?} for {i:?} into {:?}", node.ne());
    Ok(())
}

/// MUL_MAT.
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    product(Operands::of(node)?, is_exact(node), plan)
}

/// A product of matrices with columns.
pub fn product(mut o: Operands, exact: bool, plan: &mut DispatchList<'_>) -> Result<()> {
    let (m, n, matrices) = (o.d.ne[0], o.b.ne[1], o.a.ne[2] * o.a.ne[3]);
    let request = Request { loadable: loadable(&o, plan.info), ..o.request(exact, n) };
    let mut method = method::product(plan.info, &request);
    if method == Product::Tensors {
        return tensors::plan(o, plan);
    }
    let mut b_type = o.b.ty();
    if is_too_small_for_ints(method, &o, matrices, plan) {
        method = without_ints(method);
    }
    let split = Split::of(method, &o, plan.info);
    let room = split.map_or(0, |s| s.bytes(&o));
    let mut rooms = [Range::new(0, 0); 2];
    if matches!(method, Product::VectorInts | Product::TileInts) {
        let blocks = if room > 0 {
            // The blocks that an earlier step wrote may be in the same scratch memory.
            let blocks = block_bytes(&o.b);
            rooms = plan.scratch_parts([room, blocks.unwrap_or(0)])?;
            blocks.map(|_| to_blocks(&o.b, rooms[1], plan)).transpose()?
        } else {
            in_blocks(&o.b, plan)?
        };
        match blocks {
            Some(blocks) => {
                o.b = blocks;
                b_type = BLOCKS;
            }
            None => method = without_ints(method),
        }
    } else if room > 0 {
        rooms[0] = plan.scratch(room)?;
    }
    if let Some(split) = split {
        return split.plan(method, &o, b_type, rooms[0], plan);
    }
    let one_pass = n <= VECTOR_COLUMNS && matches!(method, Product::Rows | Product::Vector | Product::VectorInts);
    let columns::Layout { n, matrices, repeat } = match one_pass {
        true => columns::Layout::shared(&o.a, &mut o.b, &mut o.d, plan.info),
        false => columns::Layout::of(&o.a, &o.b),
    };
    let groups = u64::from(m) * u64::from(matrices);
    let form = form(method, &o.a, (&o.b, b_type), Columns::All, [m, n, matrices], groups, plan.info)?;
    // Some methods need a workgroup for each row, and the output of a model may have more rows than the device allows
    // groups.
    let most = plan.info.limits.groups[0].saturating_mul(form.rows).max(1);
    let a_row = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64;
    let mut first = 0;
    while first < m {
        let rows = most.min(m - first);
        let mut push = o.push([0; 2], n, repeat, [0; 2]);
        push.m = rows;
        push.a += u64::from(first) * a_row;
        push.d += u64::from(first) * 4;
        let groups = [rows.div_ceil(form.rows), n.div_ceil(form.width), matrices];
        plan.dispatch(form.kernel, push, groups, &[o.a.range, o.b.range], &columns::written(&o.d, first, rows));
        first += rows;
    }
    Ok(())
}

/// MUL_MAT_ID: for each token (dimension 1) and slot (dimension 0), src2 has the id of a matrix of src0, or of none,
/// for which the result is
/// 0. Few tokens are computed with a workgroup for each pair of token and slot. Many are first sorted by expert, so
/// that a matrix is read once for a tile of pairs.
pub fn plan_id(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let mut o = Operands::of(node)?;
    let ids = View::of(src(node, 2)?)?;
    let info = plan.info;
    let (slots, tokens, experts) = (ids.ne[0], ids.ne[1], o.a.ne[2]);
    let pairs = slots * tokens;
    let loadable = info.features.tensors && tensors::fit_experts(&o, &ids, info);
    let mut method = method::product(info, &Request { loadable, ..o.request(is_exact(node), tokens) });
    if method == Product::Tensors {
        return tensors::plan_experts(o, &ids, plan);
    }
    let share = (pairs / experts.max(1)).max(1); // average number of pairs of an expert
    let tiles_of = |width: u32| most_tiles(pairs, experts, width);
    // The narrowest tiles that the method may have.
    let most = tiles_of(if method == Product::Rows { workgroups::row_columns(share) } else { TILE });
    let lists = experts <= MAX_EXPERTS
        && most <= info.limits.groups[1]
        && match method {
            Product::Vector | Product::VectorInts => false,
            Product::Rows => share > 1,
            _ => true,
        };
    if !lists {
        method = match method {
            Product::Rows | Product::Vector | Product::VectorInts => method,
            Product::TileInts if info.subgroup_arithmetic() => Product::VectorInts,
            _ if info.subgroup_arithmetic() => Product::Vector,
            _ => Product::Rows,
        };
        if o.d.ne[0] > info.limits.groups[0] {
            method = Product::Rows;
        }
    }
    if tokens == 1 && is_too_small_for_ints(method, &o, slots.min(experts), plan) {
        method = without_ints(method);
    }
    let with_ints = matches!(method, Product::VectorInts | Product::TileInts);
    // Lists need scratch memory, which could be that of the blocks.
    let ready = plan.converted(&o.b, Target::Blocks).filter(|_| with_ints && !lists);
    let blocks = if with_ints && ready.is_none() { block_bytes(&o.b) } else { Some(0) };
    if blocks.is_none() {
        method = without_ints(method);
    }
    let blocks = blocks.unwrap_or(0);
    let as_blocks = blocks > 0 || ready.is_some();
    let (b_type, columns) =
        (if as_blocks { BLOCKS } else { o.b.ty() }, if lists { Columns::List } else { Columns::Pair });
    let shape = if lists { [o.d.ne[0], share, experts] } else { [o.d.ne[0], 1, 1] };
    let form = form(method, &o.a, (&o.b, b_type), columns, shape, 0, info)?;
    let n_tiles = tiles_of(form.width);

    let [tile_bytes, pair_bytes] = if lists { list_bytes(pairs, n_tiles) } else { [0; 2] };
    let [block_room, tile_room, pair_room] = plan.scratch_parts([blocks, tile_bytes, pair_bytes])?;
    if let Some(at) = ready {
        o.b = block_view(&o.b, at);
    } else if blocks > 0 {
        o.b = to_blocks(&o.b, block_room, plan)?;
    }
    let repeat = [experts, 1, o.b.ne[1]];
    if lists {
        sort(&ids, &o, form.width, [tile_room, pair_room], plan)?;
        let push = o.push([pair_room.address, tile_room.address], slots, repeat, [0; 2]);
        let groups = [o.d.ne[0].div_ceil(form.rows), n_tiles, 1];
        plan.dispatch(form.kernel, push, groups, &[o.a.range, o.b.range, pair_room, tile_room], &[o.d.range]);
    } else {
        let push = o.push([ids.at, 0], 1, repeat, [ids.nb[0], ids.nb[1]]);
        let groups = [o.d.ne[0].div_ceil(form.rows), slots, tokens];
        plan.dispatch(form.kernel, push, groups, &[o.a.range, o.b.range, ids.range], &[o.d.range]);
    }
    Ok(())
}
