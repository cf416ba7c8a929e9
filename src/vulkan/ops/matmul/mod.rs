//! Matrix products: `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, and products with an expert for each slot of a
//! token.
//!
//! `ladder.rs` has the methods, and says which device uses which.

#![forbid(unsafe_code)]

mod columns;
pub mod experts;
mod split;
mod tensors;

use self::split::Split;
use crate::abi::ggml::ggml_prec::GGML_PREC_F32;
use crate::abi::ggml::ggml_type::*;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::chains::products::{Joined, Part};
use crate::vulkan::device::Info;
use crate::vulkan::ops::checks::{check_tile, ensure, is_float, src};
use crate::vulkan::ops::copy;
use crate::vulkan::ops::rope::{self, Turn};
use crate::vulkan::plan::Target;
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::architecture::Tile;
use crate::vulkan::policy::method::{self, Product, Request, TILE, VECTOR_COLUMNS};
use crate::vulkan::policy::tune;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, listed, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

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
    ensure!(a.ne()[1] <= limit[0] * i64::from(tune::row_product(a.dtype(), info).1), "{} rows", a.ne()[1]);
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

/// Which columns a workgroup computes: `COLUMNS` of `product.glsl`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    All = 0,
    Pair = 1,
    List = 2,
}

/// Type of src1 as blocks of 8-bit integers: `BLOCKS` of `product.glsl`.
const BLOCKS: u32 = 64;
/// No gated function: `NO_GATE` of `joined.glsl`.
const NO_GATE: u32 = 255;
/// Bytes of such a block of 32 integers.
const BLOCK_BYTES: u64 = 40;
/// Maximum number of experts for `product_lists`.
const MAX_EXPERTS: u32 = 1024;

/// A kernel, and the rows and columns that each of its workgroups computes.
struct Form {
    kernel: KernelFor<push::Product>,
    rows: u32,
    width: u32,
}

/// Whether rows of src0 have a multiple of 64 values and are aligned to four bytes, as `dequant64` requires.
fn words(a: &View) -> bool {
    let whole = |bytes: u64| bytes.is_multiple_of(4);
    let block = a.dtype.type_size() as u64;
    a.ne[0].is_multiple_of(64) && whole(a.at) && a.nb[1..].iter().all(|&n| whole(u64::from(n) * block))
}

/// The kernel of a method. `b`: src1, with its type. `shape`: rows, columns and matrices of the result. `groups`:
/// workgroups, if each computes one row; 0 if each has to.
fn form(
    method: Product,
    a: &View,
    (b_view, b): (&View, u32),
    columns: Columns,
    shape: [u32; 3],
    groups: u64,
    info: &Info,
) -> Result<Form> {
    let (all, n) = (columns == Columns::All, shape[1]);
    let (format, columns) = (format_name(a.dtype), columns as u32);
    // Blocks are not read in such pieces.
    let aligned = (a.dtype.blck_size() > 1 || a.has_aligned_rows()) && b_view.has_aligned_rows();
    let whole = |kernel| tune::whole_subgroups(kernel, info);
    // Rows and columns of an invocation, of which a tile has 16 by 16.
    let of_tile = |t: Tile| (t.rows / 16, t.columns / 16);
    Ok(match method {
        Product::Rows => {
            let width = if all { tune::columns(n) } else { tune::row_columns(n) };
            let (variant, threads, rows) = tune::row_product(a.dtype, info);
            let constants = constants::MulMatRows { b, columns, width, words: words(a) };
            let kernel = KernelFor::new(&format!("{variant}.{format}"), [threads, 1, 1], &constants)?;
            Form { kernel, rows: threads * rows, width }
        }
        Product::Vector | Product::VectorInts => {
            let (width, threads) = (tune::columns(n), tune::vector_threads(a.ne[0], info));
            let variant = format!(".{format}");
            let rows = tune::vector_rows(a.dtype, width, groups, info);
            let kernel = if method == Product::Vector {
                let constants = |one_subgroup| constants::MulMatVec { one_subgroup, b, columns, width, rows, aligned };
                tune::reduction_of(&variant, threads, constants, info)?
            } else {
                let constants = |one_subgroup| constants::MulMatVecInts { one_subgroup, b, columns, width, rows };
                tune::reduction_of(&variant, threads, constants, info)?
            };
            Form { kernel, rows, width }
        }
        Product::Tile => {
            let t = tune::tile(false, shape, info);
            let (rows, width) = of_tile(t);
            let constants = constants::MulMatTile { b, columns, rows, width, aligned };
            Form { kernel: KernelFor::new(&format, [256, 1, 1], &constants)?, rows: t.rows, width: t.columns }
        }
        Product::TileInts => {
            let t = tune::tile(true, shape, info);
            let (rows, width) = of_tile(t);
            let constants = constants::MulMatTileInts { b, columns, rows, width };
            Form { kernel: KernelFor::new(&format, [256, 1, 1], &constants)?, rows: t.rows, width: t.columns }
        }
        Product::Matrices(size, sums) => {
            let subgroup = info.limits.subgroup_size;
            let [cm, cn, ck] = size;
            let t = tune::matrix_tile(size, shape, info);
            let (Tile { rows: tm, columns: tn }, [sm, sn]) = (t.tile, t.part);
            // Whole steps are read in pieces of 16 bytes.
            let aligned = aligned && a.ne[0].is_multiple_of(32);
            let constants = constants::MulMatCoop { b, columns, cm, cn, ck, aligned, tm, tn, sm, sn };
            let set = sums.select("plain", "half");
            let threads = t.subgroups() * subgroup;
            let kernel = whole(KernelFor::new(&format!("{set}.{format}"), [threads, 1, 1], &constants)?);
            Form { kernel, rows: tm, width: tn }
        }
        // `plan` has done it, and no other request says that its operands can be loaded.
        Product::Tensors => return Err(Error::Unsupported("tensors of other products".into())),
    })
}

/// The corresponding method without integers.
fn without_ints(method: Product) -> Product {
    match method {
        Product::VectorInts => Product::Vector,
        Product::TileInts => Product::Tile,
        other => other,
    }
}

/// Bytes of rows as blocks of integers. `None` if there are none, which products of integers would read ahead, or too
/// many for their indices or for scratch memory.
pub(in crate::vulkan) fn block_bytes(b: &View) -> Option<u64> {
    let blocks = u64::from(b.n_rows()) * u64::from(b.ne[0] / 32);
    (blocks > 0 && blocks < 1 << 31 && blocks * BLOCK_BYTES <= 1 << 30).then_some(blocks * BLOCK_BYTES)
}

/// Adds a dispatch that converts src1 to blocks of integers at `to`. Returns their view.
fn to_blocks(b: &View, to: Range, plan: &mut DispatchList<'_>) -> Result<View> {
    let (threads, per) = tune::elementwise(plan.info);
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
fn block_view(b: &View, at: Range) -> View {
    let n = b.ne[0] / 32;
    View { at: at.address, nb: [1, n, n * b.ne[1], n * b.ne[1] * b.ne[2]], range: at, ..*b }
}

/// src1 as blocks: those that an earlier step wrote, or new ones. `None` as for [`block_bytes`].
fn in_blocks(b: &View, plan: &mut DispatchList<'_>) -> Result<Option<View>> {
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
fn is_too_small_for_ints(method: Product, o: &Operands, matrices: u32, plan: &DispatchList<'_>) -> bool {
    let bytes = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64 * u64::from(o.a.ne[1]) * u64::from(matrices);
    method == Product::VectorInts
        && !method::is_forced()
        && plan.converted(&o.b, Target::Blocks).is_none()
        && !tune::converts_alone(bytes, plan.info)
}

/// Operands and result of a product.
#[derive(Clone, Copy)]
pub struct Operands {
    /// src0.
    pub a: View,
    /// src1.
    pub b: View,
    /// The result.
    pub d: View,
}

impl Operands {
    fn of(node: TensorRef) -> Result<Self> {
        Ok(Self { a: View::of(src(node, 0)?)?, b: View::of(src(node, 1)?)?, d: View::of(node)? })
    }

    /// The push block, which all methods share (`product.glsl`).
    fn push(&self, [ids, tiles]: [u64; 2], n: u32, repeat: [u32; 3], ids_nb: [u32; 2]) -> push::Product {
        let Self { a, b, d } = self;
        let [a_ne2, a_ne3, b_ne2] = repeat;
        push::Product {
            a: a.at,
            b: b.at,
            d: d.at,
            ids,
            tiles,
            k: a.ne[0],
            m: d.ne[0],
            n,
            a_ne2,
            a_ne3,
            b_ne2,
            a_nb: a.nb123(),
            b_nb: b.nb123(),
            d_nb: d.nb123(),
            ids_nb,
        }
    }

    /// The request for a product that must be exact, or need not.
    pub fn request(&self, exact: bool, columns: u32) -> Request {
        Request { columns, format: self.a.dtype, exact, loadable: false }
    }
}

/// Whether the precision of a product is that of F32.
fn is_exact(node: TensorRef) -> bool {
    node.op_param_i32(0) == GGML_PREC_F32 as i32
}

/// Whether `mul_mat_tensor` can load the operands.
pub fn loadable(o: &Operands, info: &Info) -> bool {
    info.features.tensors && tensors::fit(o)
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

/// Products of one column with several matrices, and what follows them (`fusion::products`).
pub fn joined(j: &Joined, plan: &mut DispatchList<'_>) -> Result<()> {
    let parts: Vec<&Part> = j.parts.iter().flatten().collect();
    let o = Operands::of(parts[0].product)?;
    let mut method = method::product(plan.info, &o.request(is_exact(parts[0].product), 1));
    if parts.len() == 1 && is_too_small_for_ints(method, &o, 1, plan) {
        method = Product::Vector;
    }
    let (mut b, mut b_type) = (o.b, o.b.ty());
    if method == Product::VectorInts
        && let Some(blocks) = in_blocks(&o.b, plan)?
    {
        (b, b_type) = (blocks, BLOCKS);
    }
    let (mut reads, mut writes) = (vec![b.range], Vec::new());
    let (mut a, mut d, mut s, mut ends) = ([0; 3], [0; 3], [0; 3], [0; 3]);
    let (mut adds, mut rows, mut rows_type, mut index, mut place) = (0, 0, 0, 0, [0; 2]);
    let (mut indices, mut position, mut rope, mut rotated) = (Vec::new(), 0, None, 0);
    for (i, part) in parts.iter().enumerate() {
        let matrix = View::of(src(part.product, 0)?)?;
        a[i] = matrix.at;
        reads.push(matrix.range);
        ends[i..].iter_mut().for_each(|end| *end += matrix.ne[1]);
        if j.gate.is_none() {
            let result = View::of(part.result)?;
            d[i] = result.at;
            writes.push(result.range);
            if part.rows {
                let ids = View::of(src(part.result, 1)?)?;
                reads.push(ids.range);
                indices.push(ids.at);
                (rows, rows_type, index) = (rows | 1 << i, result.ty(), ids.ty());
                place = [result.ne[1], result.nb[1]];
            }
            if let Some(node) = part.rope {
                let at = View::of(src(node, 1)?)?;
                reads.push(at.range);
                (position, rope, rotated) = (at.at, Some(node), rotated | 1 << i);
            }
        }
        for (k, summand) in part.summands.iter().flatten().enumerate() {
            let summand = View::of(*summand)?;
            s[i + k] = summand.at;
            reads.push(summand.range);
            adds = k as u32 + 1;
        }
    }
    let factors = rope.and_then(|r| r.src(2)).map(View::of).transpose()?;
    if let Some(factors) = factors {
        s[0] = factors.at;
        reads.push(factors.range);
    }
    if let Some(second) = indices.get(1) {
        s[1] = *second;
    }
    let (mut gate, mut n_groups) = (NO_GATE, ends[2].div_ceil(2));
    if let Some(node) = j.gate {
        let result = View::of(node)?;
        d[0] = result.at;
        writes.push(result.range);
        (gate, n_groups) = (node.op_param_i32(0) as u32, ends[0]);
        let bits = |i| u64::from(node.op_param_i32(i) as u32);
        s[0] = bits(2) | bits(3) << 32;
    }
    let turn = rope.map(Turn::of);
    let bits = |f: fn(&Turn) -> f32| turn.as_ref().map_or(0, |t| f(t).to_bits());
    // Both sources have the same constants.
    macro_rules! constants {
        ($set:ident $(, $more:ident)?) => {
            |one_subgroup| constants::$set {
                one_subgroup,
                b: b_type,
                adds,
                gate,
                rows,
                rows_type,
                index,
                rotated,
                halves: rope.is_some_and(rope::rotates_halves),
                factors: factors.is_some(),
                head: rope.map_or(2, |r| r.ne()[0] as u32),
                dims: turn.as_ref().map_or(2, |t| t.n_dims),
                theta_scale: bits(|t| t.theta_scale),
                freq_scale: bits(|t| t.freq_scale),
                ext_factor: bits(|t| t.ext_factor),
                attn_factor: bits(|t| t.attn_factor),
                corr_low: bits(|t| t.corr[0]),
                corr_high: bits(|t| t.corr[1]),
                $($more,)?
            }
        };
    }
    let variant = format!(".{}", format_name(o.a.dtype));
    let threads = tune::vector_threads(o.a.ne[0], plan.info);
    let kernel = if b_type == BLOCKS {
        tune::reduction_of(&variant, threads, constants!(MulMatJoinedInts), plan.info)?
    } else {
        let stride = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64;
        let plain = o.a.dtype.blck_size() == 1;
        let rows_aligned = !plain || a.iter().all(|at| at.is_multiple_of(16)) && stride.is_multiple_of(16);
        let aligned = rows_aligned && b.at.is_multiple_of(16);
        tune::reduction_of(&variant, threads, constants!(MulMatJoined, aligned), plan.info)?
    };
    let ([a0, a1, a2], [d0, d1, d2], [s0, s1, s2], [end0, end1, end2]) = (a, d, s, ends);
    let push = push::Joined {
        b: b.at,
        a0,
        a1,
        a2,
        d0,
        d1,
        d2,
        s0,
        s1,
        s2,
        k: o.a.ne[0],
        a_nb: o.a.nb[1],
        end0,
        end1,
        end2,
        rows: place[0],
        rows_nb: place[1],
        index: indices.first().copied().unwrap_or(0),
        position,
    };
    let g = Grid::list(n_groups.into(), threads, plan.info)?;
    plan.dispatch(kernel, push, g.groups, &reads, &writes);
    Ok(())
}

/// Most tiles of pairs: full ones, and at most one partial tile for each expert.
fn most_tiles(pairs: u32, experts: u32, width: u32) -> u32 {
    pairs.div_ceil(width) + experts.min(pairs)
}

/// Bytes of the lists of [`sort`].
fn list_bytes(pairs: u32, n_tiles: u32) -> [u64; 2] {
    [u64::from(n_tiles) * 12, u64::from(pairs) * 4]
}

/// Adds a dispatch that sorts the pairs by expert, and makes tiles of at most `width`.
fn sort(ids: &View, o: &Operands, width: u32, [tiles, pairs]: [Range; 2], plan: &mut DispatchList<'_>) -> Result<()> {
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
    let most = tiles_of(if method == Product::Rows { tune::row_columns(share) } else { TILE });
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
            Product::TileInts if tune::subgroup_arithmetic(info) => Product::VectorInts,
            _ if tune::subgroup_arithmetic(info) => Product::Vector,
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

/// Floats or blocks with a shader, times F32. src0 repeats over the matrices of src1.
pub fn check_out_prod(node: TensorRef, info: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.dtype() == GGML_TYPE_F32 && node.dtype() == GGML_TYPE_F32, "{:?} into {:?}", b.dtype(), node.dtype());
    let (x, y, n) = (a.ne(), b.ne(), node.ne());
    ensure!(n == [x[0], y[0], y[2], y[3]] && x[1] == y[1], "{x:?} by {y:?} into {n:?}");
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} does not repeat to {y:?}");
    [b, node].into_iter().try_for_each(|t| View::shape(t).map(drop))?;
    let view = View::shape(a)?;
    if !is_float(a.dtype()) {
        copy::check_views(view, GGML_TYPE_F32)?;
        ensure!(a.is_contiguous_rows() && view.n() * 4 <= 1 << 30, "{:?} of {:?}", a.dtype(), a.ne());
    }
    check_tile(8 << 10, info)?;
    let tiles = [n[0], n[1]].map(|n| n as u64).map(|n| n.div_ceil(TILE.into()));
    ensure!(tiles[0] * tiles[1] <= info.limits.groups[0].into(), "{} tiles", tiles[0] * tiles[1]);
    Ok(())
}

/// OUT_PROD. Blocks are first converted to F32.
pub fn out_prod(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let Operands { mut a, b, d } = Operands::of(node)?;
    if !is_float(a.dtype) {
        a = copy::into_scratch(a, GGML_TYPE_F32, plan)?;
    }
    let tiles = d.ne[0].div_ceil(TILE);
    let g = Grid::stack(tiles * d.ne[1].div_ceil(TILE), u64::from(d.ne[2] * d.ne[3]), 256, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::OutProd { a: a.ty() })?;
    let push = push::OutProd {
        a: a.at,
        b: b.at,
        d: d.at,
        m: d.ne[0],
        n: d.ne[1],
        k: b.ne[1],
        ne2: d.ne[2],
        n_matrices: d.ne[2] * d.ne[3],
        repeat: [d.ne[2] / a.ne[2], d.ne[3] / a.ne[3]],
        a_nb: a.nb,
        b_nb: b.nb,
        d_nb: d.nb,
        tiles,
    };
    plan.dispatch(kernel, push, g.groups, &[a.range, b.range], &[d.range]);
    Ok(())
}
