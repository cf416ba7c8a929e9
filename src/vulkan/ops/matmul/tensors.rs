//! MUL_MAT by matrices of a workgroup that are loaded from tensors (`mul_mat_tensor`). The columns are first converted to F16, and so is a matrix in a
//! format that the shader does not decode.

#![forbid(unsafe_code)]

use super::super::copy;
use super::{Operands, aligned, columns, experiment};
use crate::abi::ggml::ggml_type::{GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K};
use crate::error::Result;
use crate::vulkan::converted::Target;
use crate::vulkan::coopmat2::TENSOR_THREADS;
use crate::vulkan::interface::{constants, formats, push};
use crate::vulkan::plan::{DispatchList, KernelFor, View};
use crate::vulkan::{Range, tune};

/// Maximum bytes of converted operands.
const MOST_SCRATCH: u64 = 1 << 30;
/// Converted columns have room for this number of others behind them, so that no tile reads beyond it.
const SPARE: u64 = 255;
/// Columns from which a matrix is converted: a step reads it once, writes four times as many bytes, and the product reads them.
const CONVERTS_FROM: u32 = 128;
/// The driver computes offsets inside of a tile, of at most 256 rows, with 32 bits.
const MOST_ROW: u64 = 1 << 24;

/// Bytes of an element or block.
fn size(v: &View) -> u64 {
    v.dtype.type_size() as u64
}

/// Whether matrices begin at multiples of 16 bytes, and rows are neither too long nor overlap: what every load and store needs.
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
    formats::TENSORS.contains(&a.dtype) && matrices_aligned(a) && (a.dtype != GGML_TYPE_F16 || aligned(a))
}

/// Whether the shader reads src1 as it is.
fn is_ready(b: &View) -> bool {
    b.dtype == GGML_TYPE_F16 && matrices_aligned(b) && aligned(b)
}

/// Bytes of columns as F16.
fn column_bytes(b: &View) -> u64 {
    ((u64::from(b.n_rows()) + SPARE) * u64::from(b.ne[0]) * 2).next_multiple_of(256)
}

/// Whether rows can be converted to F16, with rows of a multiple of 16 bytes.
fn converts(v: &View, bytes: u64) -> bool {
    v.ne[0].is_multiple_of(8) && u64::from(v.ne[0]) * 2 < MOST_ROW && bytes <= MOST_SCRATCH
}

/// Whether the operands are such that the shader can load them, as they are or converted.
pub(super) fn fit(o: &Operands) -> bool {
    let Operands { a, b, d } = o;
    let matrix = reads(a)
        || a.dtype.blck_size() > 1
            && b.ne[1] >= CONVERTS_FROM
            && copy::check_views(*a, GGML_TYPE_F16).is_ok()
            && converts(a, copy::packed_bytes(a, GGML_TYPE_F16));
    let n = d.n();
    n > 0 && a.ne[0] > 0 && matrix && (is_ready(b) || converts(b, column_bytes(b))) && matrices_aligned(d)
}

/// The product of operands that [`fit`].
pub(super) fn plan(mut o: Operands, plan: &mut DispatchList<'_>) -> Result<()> {
    let columns::Layout { n, matrices, repeat } = columns::Layout::of(&o.a, &o.b);
    let mut readable = n;
    let experiment = experiment::numbers(o.d.ne[0]);
    let (mut whole, columns) = (reads(&o.a), is_ready(&o.b));
    // TEMPORARY.
    if experiment.get(5) == Some(&1)
        && o.a.dtype.blck_size() > 1
        && converts(&o.a, copy::packed_bytes(&o.a, GGML_TYPE_F16))
    {
        whole = false;
    }
    // Scratch memory for the matrix could be that of earlier columns.
    let earlier = plan.converted(&o.b, Target::Halves).filter(|_| whole && !columns);
    let a_bytes = if whole { 0 } else { copy::packed_bytes(&o.a, GGML_TYPE_F16) };
    let b_bytes = if columns || earlier.is_some() { 0 } else { column_bytes(&o.b) };
    let [a_room, b_room] = plan.scratch_parts([a_bytes, b_bytes])?;
    if !whole {
        o.a = copy::packed(o.a, GGML_TYPE_F16, a_room, plan)?;
    }
    let mut tile = tune::tensor_tile([o.d.ne[0], n, matrices], plan.info);
    // TEMPORARY.
    for (i, of) in [&mut tile.rows, &mut tile.columns, &mut tile.depth].into_iter().enumerate() {
        *of = experiment.get(i).copied().filter(|&n| n > 0).unwrap_or(*of);
    }
    let threads = experiment.get(3).copied().filter(|&n| n > 0).unwrap_or(TENSOR_THREADS);
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
    let shared = matches!(o.a.dtype, GGML_TYPE_Q4_K | GGML_TYPE_Q5_K) && experiment.get(4).copied() != Some(0);
    let constants = constants::MulMatTensor { rows: tile.rows, width: tile.columns, depth: tile.depth, shared };
    let format = super::format_name(o.a.dtype);
    let kernel = KernelFor::new(&format, [threads, 1, 1], &constants)?;
    let [a_ne2, a_ne3, b_ne2] = repeat;
    // Rows of a view with one row have no stride.
    let strides = |v: &View| {
        let [row, second, third] = v.nb123();
        [row.max(v.ne[0] / v.dtype.blck_size() as u32), second, third]
    };
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
}
