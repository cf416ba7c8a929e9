//! MUL_MAT by matrices of a workgroup that are loaded from tensors (`mul_mat_tensor`). The columns are first converted
//! to F16, and so is a matrix in a format that the shader does not decode.
//!
//! Products with experts: the pairs of token and slot are sorted by expert (`product_lists`), their columns are put in
//! this order (`product_gather`), and a workgroup has some of those with the same expert.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K};
use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::device::coopmat2::TENSOR_THREADS;
use crate::vulkan::ops::copy;
use crate::vulkan::ops::matmul::columns;
use crate::vulkan::ops::matmul::operands::Operands;
use crate::vulkan::ops::matmul::pairs::{MAX_EXPERTS, list_bytes, most_tiles, sort};
use crate::vulkan::plan::Target;
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::tiles;
use crate::vulkan::policy::tiles::TensorTile;
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, format_name, formats, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Maximum bytes of converted operands.
const MOST_SCRATCH: u64 = 1 << 30;
/// Converted columns have room for this number of others after them, so that no tile reads beyond that room.
const SPARE: u32 = 255;
/// Fewest rows and columns of a tile.
const LEAST: u32 = 32;
/// Columns from which a matrix is converted: a step reads it once, writes four times as many bytes, and the product
/// reads them.
const CONVERTS_FROM: u32 = 128;
/// The driver computes offsets inside of a tile, of at most 256 rows, with 32 bits.
const MOST_ROW: u64 = 1 << 24;

/// Bytes of an element or block.
fn size(v: &View) -> u64 {
    v.dtype.type_size() as u64
}

/// Whether matrices begin at multiples of 16 bytes, and rows are neither too long nor overlap: what every load and
/// store needs.
fn matrices_aligned(v: &View) -> bool {
    let blocks = v.ne[0] / v.dtype.blck_size() as u32;
    let row = u64::from(v.nb[1].max(blocks)) * size(v);
    v.at.is_multiple_of(16)
        && v.nb[2..].iter().all(|&n| (u64::from(n) * size(v)).is_multiple_of(16))
        && (v.ne[1] == 1 || v.nb[1] >= blocks)
        && row < MOST_ROW
}

/// Whether the shader reads src0 as it is.
fn reads(a: &View) -> bool {
    formats::TENSORS.contains(&a.dtype) && matrices_aligned(a) && (a.dtype.blck_size() > 1 || a.has_aligned_rows())
}

/// Whether the shader reads src1 as it is.
fn is_ready(b: &View) -> bool {
    b.dtype == GGML_TYPE_F16 && matrices_aligned(b) && b.has_aligned_rows()
}

/// Bytes of columns as F16.
fn column_bytes(b: &View) -> u64 {
    bytes_of(b.n_rows(), b.ne[0])
}

/// Bytes of `n` columns of `k` values as F16.
fn bytes_of(n: u32, k: u32) -> u64 {
    ((u64::from(n) + u64::from(SPARE)) * u64::from(k) * 2).next_multiple_of(256)
}

/// Whether rows can be converted to F16, with rows of a multiple of 16 bytes.
fn converts(v: &View, bytes: u64) -> bool {
    v.ne[0].is_multiple_of(8) && u64::from(v.ne[0]) * 2 < MOST_ROW && bytes <= MOST_SCRATCH
}

/// Whether the shader can load src0 as it is or converted, for a number of columns of each matrix.
fn matrix_fits(a: &View, columns: u32) -> bool {
    reads(a)
        || a.dtype.blck_size() > 1
            && columns >= CONVERTS_FROM
            && copy::check_views(*a, GGML_TYPE_F16).is_ok()
            && converts(a, copy::packed_bytes(a, GGML_TYPE_F16))
}

/// Whether the operands are such that the shader can load them, as they are or converted.
pub(in crate::vulkan) fn fit(o: &Operands) -> bool {
    let Operands { a, b, d } = o;
    let columns = is_ready(b) || converts(b, column_bytes(b));
    d.n() > 0 && a.ne[0] > 0 && matrix_fits(a, b.ne[1]) && columns && matrices_aligned(d)
}

/// Whether `mul_mat_tensor` can load the operands.
pub fn loadable(o: &Operands, info: &Info) -> bool {
    info.features.tensors && fit(o)
}

/// The same for products with experts. Their columns are always converted, and values of results are stored one by one,
/// so that neither need be aligned.
pub(in crate::vulkan) fn fit_experts(o: &Operands, ids: &View, info: &Info) -> bool {
    let Operands { a, b, d } = o;
    let (pairs, experts, m) = (ids.ne[0] * ids.ne[1], a.ne[2], a.ne[1]);
    let limit = info.limits.groups;
    let lists = (1..=MAX_EXPERTS).contains(&experts)
        && most_tiles(pairs, experts, LEAST) <= limit[0]
        && m.div_ceil(LEAST) <= limit[1];
    let all = || expert_bytes(o, pairs, LEAST).iter().sum();
    d.n() > 0 && a.ne[0] > 0 && lists && matrix_fits(a, pairs / experts) && converts(b, all())
}

/// Bytes of scratch memory of a product with experts: the matrices and the columns as F16, tiles of a width, and pairs.
fn expert_bytes(o: &Operands, pairs: u32, width: u32) -> [u64; 4] {
    let a = if reads(&o.a) { 0 } else { copy::packed_bytes(&o.a, GGML_TYPE_F16) };
    let [tiles, list] = list_bytes(pairs, most_tiles(pairs, o.a.ne[2], width));
    [a, bytes_of(pairs, o.b.ne[0]), tiles, list]
}

/// Module with constants.
fn kernel(set: &str, a: &View, tile: TensorTile) -> Result<KernelFor<push::Tensors>> {
    let shared = matches!(a.dtype, GGML_TYPE_Q4_K | GGML_TYPE_Q5_K);
    let constants = constants::MulMatTensor { rows: tile.rows, width: tile.columns, depth: tile.depth, shared };
    KernelFor::new(&format!("{set}.{}", format_name(a.dtype)), [TENSOR_THREADS, 1, 1], &constants)
}

/// Strides of dimensions 1 to 3. Rows of a view with one row have none.
fn strides(v: &View) -> [u32; 3] {
    let [row, second, third] = v.nb123();
    [row.max(v.ne[0] / v.dtype.blck_size() as u32), second, third]
}

/// The product of operands that [`fit_experts`].
pub(in crate::vulkan) fn plan_experts(mut o: Operands, ids: &View, plan: &mut DispatchList<'_>) -> Result<()> {
    let (k, m, experts) = (o.a.ne[0], o.d.ne[0], o.a.ne[2]);
    let (slots, pairs) = (ids.ne[0], ids.ne[0] * ids.ne[1]);
    let tile = tiles::expert_tile(o.a.dtype, [m, pairs, experts], plan.info);
    let [a_room, b_room, tile_room, pair_room] = plan.scratch_parts(expert_bytes(&o, pairs, tile.columns))?;
    if !reads(&o.a) {
        o.a = copy::packed(o.a, GGML_TYPE_F16, a_room, plan)?;
    }
    sort(ids, &o, tile.columns, [tile_room, pair_room], plan)?;
    gather(&o.b, slots, pairs, [b_room, pair_room], plan)?;
    let push = push::Tensors {
        a: o.a.at,
        b: b_room.address,
        d: o.d.at,
        pairs: pair_room.address,
        tiles: tile_room.address,
        k,
        m,
        n: slots,
        readable: pairs + SPARE,
        repeat: [1; 2],
        b_ne2: 1,
        a_nb: strides(&o.a),
        b_nb: [k, 0, 0],
        d_nb: o.d.nb123(),
    };
    let groups = [most_tiles(pairs, experts, tile.columns), m.div_ceil(tile.rows), 1];
    let kernel = kernel("list", &o.a, tile)?;
    plan.dispatch(kernel, push, groups, &[o.a.range, b_room, tile_room, pair_room], &[o.d.range]);
    Ok(())
}

/// Adds a dispatch that puts the columns of pairs one after another, as F16.
fn gather(b: &View, slots: u32, n_pairs: u32, [to, pairs]: [Range; 2], plan: &mut DispatchList<'_>) -> Result<()> {
    let (threads, per) = workgroups::elementwise(plan.info);
    let pieces = b.ne[0] / 8;
    let grid = Grid::rows(pieces, n_pairs, threads, per.div_ceil(8), plan.info)?;
    let constants = constants::ProductGather { b: b.ty(), aligned: b.has_aligned_rows() };
    let kernel = KernelFor::new("", grid.size, &constants)?;
    let b_nb = [b.nb[1], b.nb[2]];
    let push = push::ProductGather {
        b: b.at,
        d: to.address,
        pairs: pairs.address,
        pieces,
        n_pairs,
        slots,
        b_ne1: b.ne[1],
        b_nb,
    };
    plan.dispatch(kernel, push, grid.groups, &[b.range, pairs], &[to]);
    Ok(())
}

/// The product of operands that [`fit`].
pub(in crate::vulkan) fn plan(mut o: Operands, plan: &mut DispatchList<'_>) -> Result<()> {
    let columns::Layout { n, matrices, repeat } = columns::Layout::of(&o.a, &o.b);
    let mut readable = n;
    let (whole, columns) = (reads(&o.a), is_ready(&o.b));
    // Scratch memory for the matrix could be that of earlier columns.
    let earlier = plan.converted(&o.b, Target::Halves).filter(|_| whole && !columns);
    let a_bytes = if whole { 0 } else { copy::packed_bytes(&o.a, GGML_TYPE_F16) };
    let b_bytes = if columns || earlier.is_some() { 0 } else { column_bytes(&o.b) };
    let [a_room, b_room] = plan.scratch_parts([a_bytes, b_bytes])?;
    if !whole {
        o.a = copy::packed(o.a, GGML_TYPE_F16, a_room, plan)?;
    }
    let tile = tiles::tensor_tile(o.a.dtype, [o.d.ne[0], n, matrices], plan.info);
    if !columns {
        o.b = match earlier {
            Some(at) => halves(&o.b, at),
            None => {
                let to = copy::packed(o.b, GGML_TYPE_F16, b_room, plan)?;
                plan.converts(&o.b, Target::Halves, b_room);
                to
            }
        };
        readable = n.next_multiple_of(tile.columns);
    }
    let kernel = kernel("plain", &o.a, tile)?;
    let [a_ne2, a_ne3, b_ne2] = repeat;
    let m = o.d.ne[0];
    let most = plan.info.limits.groups[1].saturating_mul(tile.rows).max(1);
    let a_row = u64::from(o.a.nb[1]) * size(&o.a);
    let mut first = 0;
    while first < m {
        let rows = most.min(m - first);
        let push = push::Tensors {
            a: o.a.at + u64::from(first) * a_row,
            b: o.b.at,
            d: o.d.at + u64::from(first) * 4,
            pairs: 0,
            tiles: 0,
            k: o.a.ne[0],
            m: rows,
            n,
            readable,
            repeat: [a_ne2, a_ne3],
            b_ne2,
            a_nb: strides(&o.a),
            b_nb: strides(&o.b),
            d_nb: strides(&o.d),
        };
        let groups = [n.div_ceil(tile.columns), rows.div_ceil(tile.rows), matrices];
        plan.dispatch(kernel, push, groups, &[o.a.range, o.b.range], &columns::written(&o.d, first, rows));
        first += rows;
    }
    Ok(())
}

/// Columns that an earlier step has converted, at `at`.
fn halves(b: &View, at: Range) -> View {
    let nb = [1, b.ne[0], b.ne[0] * b.ne[1], b.ne[0] * b.ne[1] * b.ne[2]];
    View { at: at.address, nb, dtype: GGML_TYPE_F16, range: at, ..*b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::{self, *};
    use crate::quant::convert::{f16_to_f32, f32_to_f16};
    use crate::tensor::TensorRef;
    use crate::vulkan::backend::device::author;
    use crate::vulkan::device::info::{Features, Identity, Limits};
    use crate::vulkan::plan::Converted;
    use crate::vulkan::submit::recorder::Recorder;
    use crate::vulkan::tests::devices::{Quiet, devices, made_up};
    use crate::vulkan::tests::lab::{Lab, bytes, floats, scattered};
    use ash::vk;

    fn dense(dtype: ggml_type, at: u64, ne: [u32; 4]) -> View {
        let row = ne[0] / dtype.blck_size() as u32;
        let nb = [1, row, row * ne[1], row * ne[1] * ne[2]];
        View { at, ne, nb, dtype, range: Range::default() }
    }

    fn product(format: ggml_type, k: u32, n: u32) -> Operands {
        let a = dense(format, 256, [k, 100, 2, 1]);
        let b = dense(GGML_TYPE_F32, 256, [k, n, 2, 1]);
        Operands { a, b, d: dense(GGML_TYPE_F32, 256, [100, n, 2, 1]) }
    }

    #[test]
    fn operands_are_loaded_only_from_where_the_shader_can() {
        assert!(fit(&product(GGML_TYPE_F16, 64, 9)) && fit(&product(GGML_TYPE_Q4_K, 256, 9)));
        // Rows of F16 that are not aligned; blocks of the same size are.
        assert!(!fit(&product(GGML_TYPE_F16, 68, 9)));
        // Columns of the other type of two bytes are converted.
        let mut o = product(GGML_TYPE_F16, 64, 9);
        o.b.dtype = GGML_TYPE_BF16;
        assert!(fit(&o) && !is_ready(&o.b));
        o.b.dtype = GGML_TYPE_F16;
        assert!(fit(&o) && is_ready(&o.b));
        // A matrix that is converted pays for many columns only.
        assert!(!fit(&product(GGML_TYPE_IQ2_XS, 256, 127)));
        assert!(fit(&product(GGML_TYPE_IQ2_XS, 256, 128)));
        // Addresses of the operands and of the result; src1 is converted wherever it is.
        let at = |a, b, d| {
            let mut o = product(GGML_TYPE_Q8_0, 64, 9);
            (o.a.at, o.b.at, o.d.at) = (a, b, d);
            fit(&o)
        };
        assert_eq!([at(16, 4, 32), at(18, 16, 32), at(16, 16, 36)], [true, false, false]);
        // Rows that overlap, and no columns.
        let mut o = product(GGML_TYPE_F16, 64, 9);
        o.a.nb[1] = 8;
        assert!(!fit(&o));
        assert!(!fit(&product(GGML_TYPE_F16, 64, 0)));
        assert!(!fit(&product(GGML_TYPE_F16, 1 << 23, 9)), "rows of 16 MiB");
    }

    #[test]
    fn matrices_of_blocks_must_be_aligned() {
        let mut o = product(GGML_TYPE_Q4_0, 32, 200);
        assert!(reads(&dense(GGML_TYPE_Q4_0, 0, [32, 8, 2, 1])));
        // 100 rows of 18 bytes are no multiple of 16: converted, if there are columns enough.
        assert!(!reads(&o.a));
        assert!(fit(&o));
        (o.b.ne[1], o.d.ne[1]) = (20, 20);
        assert!(!fit(&o));
        o.a.ne[2] = 1;
        o.a.nb[2] = 0;
        assert!(fit(&o));
    }

    fn information(groups: [u32; 3]) -> Info {
        let (kind, driver) = (vk::PhysicalDeviceType::DISCRETE_GPU, vk::DriverId::NVIDIA_PROPRIETARY);
        let identity = Identity { name: String::new(), kind, vendor: 0x10de, driver, uuid: [0; 16], luid: None };
        made_up(identity, Features::default(), Limits { groups, ..Limits::default() })
    }

    /// A product with `slots` of 8 experts for each token.
    fn product_of_experts(format: ggml_type, k: u32, slots: u32, tokens: u32) -> (Operands, View) {
        let a = dense(format, 256, [k, 100, 8, 1]);
        let (b, d) = (dense(GGML_TYPE_F32, 4, [k, 1, tokens, 1]), dense(GGML_TYPE_F32, 4, [100, slots, tokens, 1]));
        (Operands { a, b, d }, dense(GGML_TYPE_I32, 4, [slots, tokens, 1, 1]))
    }

    #[test]
    fn experts_fit_where_the_shader_can_load_them_and_lists_are_short() {
        let info = information([1 << 20, 65535, 65535]);
        let fits = |(o, ids): &(Operands, View)| fit_experts(o, ids, &info);
        // Neither columns nor results need be aligned.
        assert!(fits(&product_of_experts(GGML_TYPE_Q4_K, 256, 2, 512)));
        assert!(fits(&product_of_experts(GGML_TYPE_F16, 64, 2, 9)));
        assert!(!fits(&product_of_experts(GGML_TYPE_F16, 68, 2, 512)));
        assert!(!fits(&product_of_experts(GGML_TYPE_F32, 64, 2, 512)));
        assert!(!fits(&product_of_experts(GGML_TYPE_F16, 64, 2, 0)));
        // Matrices are converted for 128 columns of each.
        assert!(fits(&product_of_experts(GGML_TYPE_IQ2_XS, 256, 2, 512)));
        assert!(!fits(&product_of_experts(GGML_TYPE_IQ2_XS, 256, 2, 511)));
        // Addresses of experts.
        let mut o = product_of_experts(GGML_TYPE_Q8_0, 64, 2, 511);
        assert!(fits(&o));
        (o.0.a.ne[1], o.0.a.nb[2]) = (99, 99 * 2);
        assert!(!fits(&o), "99 rows of 68 bytes");
        let mut o = product_of_experts(GGML_TYPE_Q8_0, 64, 2, 511);
        o.0.a.at = 8;
        assert!(!fits(&o));
        // Scratch memory, experts, and groups.
        assert!(fits(&product_of_experts(GGML_TYPE_F16, 4096, 8, 15 << 10)));
        assert!(!fits(&product_of_experts(GGML_TYPE_F16, 4096, 8, 16 << 10)));
        let mut many = product_of_experts(GGML_TYPE_F16, 64, 2, 512);
        many.0.a.ne[2] = MAX_EXPERTS + 1;
        assert!(!fits(&many));
        let (o, ids) = product_of_experts(GGML_TYPE_F16, 64, 2, 512);
        assert!(fit_experts(&o, &ids, &information([40, 4, 1])));
        assert!(!fit_experts(&o, &ids, &information([39, 4, 1])), "32 full tiles and 8 others");
        assert!(!fit_experts(&o, &ids, &information([40, 3, 1])), "100 rows");
    }

    /// All steps but the product itself, which no driver in software can compute: tiles have the pairs of their expert,
    /// and the columns are in the order of these pairs.
    #[test]
    fn columns_stand_in_the_order_of_the_experts() {
        let Some([device, _]) = devices() else { return };
        let _quiet = Quiet::new();
        let gpu = author(device).unwrap().gpu().unwrap();
        let (k, m, experts, slots, tokens, gap) = (72, 40, 5, 3, 50, 4usize);
        let pairs = slots * tokens;
        // Seven of eight ids are there.
        let chosen: Vec<i32> = (0..pairs).map(|i| ((i * i + i / 7) % 8) as i32 - 1).collect();
        let there = |pair: usize| (0..experts as i32).contains(&chosen[pair]);
        for (format, columns, skip) in [(GGML_TYPE_F32, 1, 0), (GGML_TYPE_F32, 3, 1), (GGML_TYPE_F16, 3, 0)] {
            let mut lab = Lab::new();
            let ids = lab.i32s(&[slots as i64, tokens as i64], &chosen);
            let of = |i: usize| scattered(i, 3);
            let ne = [k + gap, columns, tokens].map(|n| n as i64);
            let b = if format == GGML_TYPE_F32 { lab.f32s(&ne, of) } else { lab.f16s(&ne, of) };
            let ne = [k, m, experts].map(|n| n as i64);
            let a = lab.f16s(&ne, of);
            let d = lab.f32s(&[m, slots, tokens].map(|n| n as i64), |_| 7.0);
            let room = lab.f16s(&[64 << 10], |_| f32::NAN);
            let _buffer = lab.place(device);
            let view = |t: TensorRef| View::of(t).unwrap();
            let mut b = view(b);
            b.ne[0] = k as u32;
            b.at += skip as u64 * size(&b);
            let (o, ids) = (Operands { a: view(a), b, d: view(d) }, view(ids));
            let mut scratch = |bytes| {
                assert!(bytes <= 128 << 10, "{bytes} bytes");
                Ok(view(room).range)
            };
            let converted = Converted::default();
            let mut plan = DispatchList::new(gpu.info(), &mut scratch, &converted);
            let sizes = expert_bytes(
                &o,
                ids.n() as u32,
                tiles::expert_tile(GGML_TYPE_F16, [m as u32, pairs as u32, experts as u32], gpu.info()).columns,
            );
            plan_experts(o, &ids, &mut plan).unwrap();
            let steps = plan.finish().dispatches;
            assert_eq!(steps.len(), 3);
            let mut r = Recorder::new(&gpu.core).unwrap();
            r.start_graph();
            for s in &steps[..2] {
                let program = gpu.pipelines.get(&s.kernel).unwrap();
                r.dispatch(program, s.push.as_bytes(), s.groups, &s.reads, &s.writes).unwrap();
                r.end_node(1).unwrap();
            }
            r.finish().unwrap();
            let all = bytes(room);
            let [tiles, list] = [(sizes[1], sizes[2]), (sizes[1] + sizes[2], sizes[3])].map(|(at, n)| {
                let words = all[at as usize..(at + n) as usize].chunks_exact(4);
                words.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]) as usize).collect::<Vec<_>>()
            });
            let word = |i: usize| u16::from_le_bytes([all[2 * i], all[2 * i + 1]]);
            let mut seen = vec![false; pairs];
            for tile in tiles.chunks_exact(3).filter(|t| t[1] < t[2]) {
                for place in tile[1]..tile[2] {
                    let pair = list[place];
                    assert_eq!(chosen[pair], tile[0] as i32);
                    assert!(!std::mem::replace(&mut seen[pair], true));
                    let (slot, token) = (pair % slots, pair / slots);
                    let column = token * columns + slot % columns;
                    for i in 0..k {
                        let mut want = of(column * (k + gap) + skip + i);
                        if format == GGML_TYPE_F16 {
                            want = f16_to_f32(f32_to_f16(want));
                        }
                        let want = f32_to_f16(want);
                        assert_eq!(word(place * k + i), want, "{format:?}: pair {pair}, value {i}");
                    }
                }
            }
            let results = floats(d);
            for pair in 0..pairs {
                assert_eq!(seen[pair], there(pair));
                let want = if there(pair) { 7.0 } else { 0.0 };
                assert!(results[pair * m..][..m].iter().all(|&x| x == want));
            }
        }
    }
}
