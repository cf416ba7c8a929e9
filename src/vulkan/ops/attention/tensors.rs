//! Attention of many queries by matrices of a workgroup that are loaded from tensors (`flash_attn_tensor`), where the
//! device has them. A first dispatch (`flash_attn_kinds`) looks at the mask: most tiles of a causal one exclude
//! everything, or nothing.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::device::coopmat2::TENSOR_THREADS;
use crate::vulkan::ops::attention::operands::{Operands, keys_values_and_room, push, read_as, reads_directly};
use crate::vulkan::plan::checks::src;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::attention;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Multiples of which the columns of keys and of values are, and the most that sums have registers for.
const COLUMNS: [u32; 2] = [16, 32];
const MOST_COLUMNS: u32 = 256;
/// The driver computes offsets inside of a tensor with 32 bits.
const MOST_BYTES: u64 = 1 << 31;
/// Invocations of a workgroup of `flash_attn_kinds`.
const KINDS_THREADS: u32 = 256;

/// Queries and keys that a workgroup computes at a time. They depend neither on the number of queries nor on that of
/// keys: a query has the same bits beside any others.
const ROWS: u32 = 64;
/// See [`ROWS`].
const KEYS: u32 = 64;

/// Bytes from an element to that of the next index in each of dimensions 1 to 3.
fn steps(v: &View) -> [u64; 3] {
    v.nb123().map(|n| u64::from(n) * v.dtype.type_size() as u64)
}

/// Whether matrices begin at multiples of 16 bytes, and `rows` of them are not too long. `row`: what the steps of rows
/// must be multiples of.
fn aligned(v: &View, row: u64, rows: u32) -> bool {
    let [first, second, third] = steps(v);
    v.at.is_multiple_of(16)
        && first.is_multiple_of(row)
        && second.is_multiple_of(16)
        && third.is_multiple_of(16)
        && first * u64::from(rows) < MOST_BYTES
}

/// Whether the shader can load these operands. Keys and values that are converted first have no gaps: `None`.
fn fit(q: &View, keys: [Option<View>; 2], mask: Option<&View>, d: &View) -> bool {
    let loads = |v: &View| {
        let row = if v.dtype.blck_size() > 1 || v.dtype.type_size() == 1 { 1 } else { 16 };
        // Rows that overlap are no tensor.
        let dense = u64::from(v.ne[0]) / v.dtype.blck_size() as u64 <= u64::from(v.nb[1]) || v.ne[1] == 1;
        aligned(v, row, v.ne[1]) && dense
    };
    aligned(q, 16, ROWS)
        && d.at.is_multiple_of(16)
        && u64::from(d.ne[0]) * u64::from(d.ne[1]) * 4 * u64::from(ROWS) < MOST_BYTES
        && keys.iter().flatten().all(loads)
        && mask.is_none_or(|m| aligned(m, 1, ROWS))
}

/// Whether the shape is one that the shader can compute.
fn shape_fits([q, k, v]: [&View; 3], mask: Option<&View>, format: ggml_type, info: &Info) -> bool {
    let columns = [k.ne[0], v.ne[0]];
    let limit = info.limits.groups;
    let masks = mask.map_or(0, |m| m.ne[2].saturating_mul(m.ne[3]));
    formats::HALVES.contains(&format)
        && columns.iter().zip(COLUMNS).all(|(&n, of)| n > 0 && n.is_multiple_of(of) && n <= MOST_COLUMNS)
        && TENSOR_THREADS <= info.limits.group_invocations
        && q.ne[2] <= limit[0]
        && q.ne[1].div_ceil(ROWS) <= limit[1]
        && q.ne[3] <= limit[2]
        && k.ne[1].div_ceil(KEYS) <= limit[0]
        && masks <= limit[2]
}

/// Whether the node is computed this way.
pub(in crate::vulkan) fn wanted(node: TensorRef, info: &Info) -> Result<bool> {
    let q = View::shape(src(node, 0)?)?;
    let (k, v) = (src(node, 1)?, src(node, 2)?);
    let format = read_as(k, v);
    let groups = u64::from(q.ne[1].div_ceil(ROWS)) * u64::from(q.ne[2]) * u64::from(q.ne[3]);
    if !attention::by_tensors(q.ne[1], groups, info) {
        return Ok(false);
    }
    let mask = node.src(3).map(View::of).transpose()?;
    let shapes = [q, View::shape(k)?, View::shape(v)?];
    if !shape_fits([&shapes[0], &shapes[1], &shapes[2]], mask.as_ref(), format, info) {
        return Ok(false);
    }
    let direct = |t: TensorRef| reads_directly(t, format).then(|| View::of(t)).transpose();
    Ok(fit(&View::of(src(node, 0)?)?, [direct(k)?, direct(v)?], mask.as_ref(), &View::of(node)?))
}

/// Bytes of the kinds of the mask's tiles.
fn kinds_bytes(mask: &View, [queries, keys]: [u32; 2]) -> u64 {
    let tiles = u64::from(queries.div_ceil(ROWS)) * u64::from(keys.div_ceil(KEYS));
    tiles * u64::from(mask.ne[2]) * u64::from(mask.ne[3]) * 4
}

/// FLASH_ATTN_EXT.
pub(in crate::vulkan) fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (k, v) = (src(node, 1)?, src(node, 2)?);
    let sizes = [View::shape(src(node, 0)?)?.ne[1], View::shape(k)?.ne[1]];
    let mask = node.src(3).map(View::of).transpose()?;
    let bytes = mask.map_or(0, |m| kinds_bytes(&m, sizes));
    let (views, kinds) = keys_values_and_room(k, v, bytes, plan)?;
    let o = Operands::new(node, views)?;
    if let Some(mask) = &o.mask {
        look(mask, sizes, kinds, plan)?;
    }
    let constants = constants::FlashAttnTensor {
        rows: ROWS,
        d: o.q.ne[0],
        dv: o.v.ne[0],
        group: o.group(),
        heads: o.q.ne[2],
        flags: o.flags(),
        keys: KEYS,
    };
    let kernel = KernelFor::new(&format_name(o.k.dtype), [TENSOR_THREADS, 1, 1], &constants)?;
    let groups = [o.q.ne[2], sizes[0].div_ceil(ROWS), o.q.ne[3]];
    let mut reads = o.reads();
    if o.mask.is_some() {
        reads.push(kinds);
    }
    plan.dispatch(kernel, push!(FlashAttnTensor, o, o.d.at, kinds: kinds.address), groups, &reads, &[o.d.range]);
    Ok(())
}

/// Adds the dispatch that writes the kinds of the mask's tiles.
fn look(mask: &View, [n_queries, n_keys]: [u32; 2], to: Range, plan: &mut DispatchList<'_>) -> Result<()> {
    let aligned = mask.has_aligned_rows() && n_keys.is_multiple_of(8);
    let constants = constants::FlashAttnKinds { rows: ROWS, keys: KEYS, aligned };
    let kernel = KernelFor::new("", [KINDS_THREADS, 1, 1], &constants)?;
    let push = push::FlashAttnKinds {
        mask: mask.at,
        kinds: to.address,
        n_queries,
        n_keys,
        mask_ne2: mask.ne[2],
        mask_nb: mask.nb123(),
    };
    let groups = [n_keys.div_ceil(KEYS), n_queries.div_ceil(ROWS), mask.ne[2] * mask.ne[3]];
    plan.dispatch(kernel, push, groups, &[mask.range], &[to]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::vulkan::device::info::{Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;
    use ash::vk;

    fn dense(dtype: ggml_type, ne: [u32; 4]) -> View {
        let row = ne[0] / dtype.blck_size() as u32;
        let nb = [1, row, row * ne[1], row * ne[1] * ne[2]];
        View { at: 256, ne, nb, dtype, range: Range::default() }
    }

    /// Queries, keys, values, mask and result: 100 queries of 8 heads, 300 keys of 2.
    fn operands(format: ggml_type, columns: [u32; 2]) -> [View; 5] {
        let [dk, dv] = columns;
        [
            dense(GGML_TYPE_F32, [dk, 100, 8, 1]),
            dense(format, [dk, 300, 2, 1]),
            dense(format, [dv, 300, 2, 1]),
            dense(GGML_TYPE_F16, [300, 100, 1, 1]),
            dense(GGML_TYPE_F32, [dv, 8, 100, 1]),
        ]
    }

    #[test]
    fn operands_are_loaded_only_from_where_the_shader_can() {
        let fits = |change: fn(&mut [View; 5])| {
            let mut all = operands(GGML_TYPE_F16, [128, 128]);
            change(&mut all);
            let [q, k, v, mask, d] = all;
            fit(&q, [Some(k), Some(v)], Some(&mask), &d)
        };
        assert!(fits(|_| ()));
        // First bytes, and rows of queries, keys and values.
        assert!(!fits(|a| a[0].at += 8) && !fits(|a| a[1].at += 8) && !fits(|a| a[2].at += 2));
        assert!(!fits(|a| a[3].at += 8) && !fits(|a| a[4].at += 4));
        assert!(!fits(|a| a[0].nb[1] = 130) && !fits(|a| a[1].nb[1] = 132) && !fits(|a| a[2].nb[1] = 132));
        assert!(fits(|a| a[1].nb[1] = 136) && !fits(|a| a[1].nb[1] = 64), "rows that overlap");
        // Rows of a mask may be anywhere, but not its matrices.
        assert!(fits(|a| a[3].nb[1] = 301) && !fits(|a| a[3].nb[2] = 300 * 100 + 4));
        assert!(!fits(|a| a[1].nb[1] = 1 << 22), "keys beyond 2 GiB");
        // Blocks need no aligned rows, and what is converted has none yet.
        let [q, k, v, _, d] = operands(GGML_TYPE_Q8_0, [128, 128]);
        assert!(fit(&q, [Some(k), Some(v)], None, &d) && fit(&q, [None, None], None, &d));
    }

    #[test]
    fn shapes_are_those_of_matrices() {
        let identity = Identity {
            name: String::new(),
            kind: vk::PhysicalDeviceType::DISCRETE_GPU,
            vendor: 0x10de,
            driver: vk::DriverId::NVIDIA_PROPRIETARY,
            uuid: [0; 16],
            luid: None,
        };
        let limits = Limits { groups: [65535; 3], group_invocations: 1024, ..Limits::default() };
        let info = made_up(identity, Features::default(), limits);
        let fits = |format, columns| {
            let [q, k, v, mask, _] = operands(format, columns);
            shape_fits([&q, &k, &v], Some(&mask), format, &info)
        };
        for format in [GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_F8_E4M3] {
            assert!(fits(format, [128, 128]) && fits(format, [256, 256]), "{format:?}");
        }
        assert!(!fits(GGML_TYPE_F32, [128, 128]) && !fits(GGML_TYPE_BF16, [128, 128]));
        assert!(fits(GGML_TYPE_F16, [80, 64]) && !fits(GGML_TYPE_F16, [80, 80]));
        assert!(!fits(GGML_TYPE_F16, [72, 64]) && !fits(GGML_TYPE_F16, [576, 512]));
    }

    #[test]
    fn a_tile_of_each_mask_has_a_kind() {
        let mask = dense(GGML_TYPE_F16, [300, 100, 8, 3]);
        assert_eq!(kinds_bytes(&mask, [100, 300]), 2 * 5 * 8 * 3 * 4);
    }
}
