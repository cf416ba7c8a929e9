//! Copies with conversion, writing or adding to a part of a tensor, concatenation, and repetition.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Plain, Reader, RowIndex, Source, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::convert;
use super::super::ensure::{ensure, src};
use super::{check_type, is_float};
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::copy::Region;

/// Copies the elements of source 0 to the node in order, converted to its format.
pub fn dup(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let s = node.source(0);
    if s.dtype == d.dtype {
        return dup_same(w, &s, &mut d);
    }
    if s.ne == d.ne {
        // Without a buffer if either format is single precision.
        if d.dtype == GGML_TYPE_F32 {
            let mut out = Writer::new(d);
            for row in rows(w, &out) {
                out.row(row, |y| s.load(row, 0, y));
            }
        } else {
            let mut x = Reader::new(s, &d);
            for row in rows(w, &d) {
                d.store(row, 0, x.row(row));
            }
        }
        return;
    }
    // For different shapes, copies pieces that are whole blocks on both sides.
    let unit = s.block().max(d.block());
    let mut buf = vec![0f32; unit];
    for i in w.share(s.len() / unit) {
        let at = i * unit;
        s.load(s.row_index(at / s.ne[0]), at % s.ne[0], &mut buf);
        d.store(d.row_index(at / d.ne[0]), at % d.ne[0], &buf);
    }
}

fn dup_same(w: &Worker<'_>, s: &Source<'_>, d: &mut Dest<'_>) {
    let block = s.block();
    if s.is_dense() && d.is_dense() {
        // Copies bytes without conversion.
        let total = s.packed_bytes();
        let part = w.share(total.div_ceil(4096));
        return d.copy_bytes(s, (part.start * 4096).min(total)..(part.end * 4096).min(total));
    }
    if s.ne == d.ne && (s.has_dense_rows() || block > 1) && d.has_dense_rows() {
        let all = rows(w, d).map(|row| (row, row));
        if s.has_dense_rows() {
            return d.copy_rows(s, all);
        }
        all.for_each(|(row, from)| d.copy_row(row, s, from));
        return;
    }
    if s.ne == d.ne && d.has_dense_rows() {
        return match s.dtype.type_size() {
            1 => transpose::<u8>(w, s, d),
            2 => transpose::<u16>(w, s, d),
            4 => transpose::<i32>(w, s, d),
            _ => transpose::<i64>(w, s, d),
        };
    }
    // Copies block by block, because the rows of the two may have different lengths.
    let (per_s, per_d) = (s.ne[0] / block, d.ne[0] / block);
    for i in w.share(s.len() / block) {
        let (to, from) = (d.row_index(i / per_d), s.row_index(i / per_s));
        d.copy_blocks(to, i % per_d, s, from, i % per_s, 1);
    }
}

/// Copies strided rows of plain numbers to dense ones, as for a transposed source.
fn transpose<T: Plain + Default>(w: &Worker<'_>, s: &Source<'_>, d: &mut Dest<'_>) {
    // A tile of a transposed source has whole cache lines: its columns may compete for the same set of the cache.
    const TILE: usize = 16;
    let [n0, n1, n2, n3] = d.ne;
    let columns = s.try_apart(d).and_then(|s| s.transposed().rows::<T>()).filter(|_| d.is_sliceable::<T>());
    let groups = n1.div_ceil(TILE);
    for g in w.share(groups * n2 * n3) {
        let (i2, i3) = (g / groups % n2, g / groups / n2);
        let i1 = g % groups * TILE..(g % groups * TILE + TILE).min(n1);
        for start in (0..n0).step_by(TILE) {
            let i0 = start..(start + TILE).min(n0);
            let Some(columns) = &columns else {
                for i1 in i1.clone() {
                    i0.clone().for_each(|i0| d.set::<T>(i0, [i1, i2, i3], s.get(i0, [i1, i2, i3])));
                }
                continue;
            };
            let mut tile = [[T::default(); TILE]; TILE];
            for (line, i0) in tile.iter_mut().zip(i0.clone()) {
                line[..i1.len()].copy_from_slice(&columns.row([i0, i2, i3])[i1.clone()]);
            }
            for (i, i1) in i1.clone().enumerate() {
                let y = &mut d.row_mut::<T>([i1, i2, i3])[i0.clone()];
                y.iter_mut().zip(&tile).for_each(|(y, line)| *y = line[i]);
            }
        }
    }
}

/// Requires the same number of elements, and formats between which there is a conversion.
pub fn check_dup(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    ensure!(s.nelements() == node.nelements(), "{} elements into {}", s.nelements(), node.nelements());
    let (from, to) = (s.dtype(), node.dtype());
    if from == to {
        return Ok(());
    }
    let plain = |t: ggml_type| t.blck_size() == 1 && t != GGML_TYPE_F8_E4M3;
    let way = match from {
        GGML_TYPE_F32 => to == GGML_TYPE_I32 || is_float(to) || convert::writable(to),
        GGML_TYPE_F16 | GGML_TYPE_BF16 => is_float(to) || (!plain(to) && convert::writable(to)),
        GGML_TYPE_F8_E4M3 => is_float(to),
        GGML_TYPE_I32 => to == GGML_TYPE_F32,
        _ => !plain(from) && to == GGML_TYPE_F32 && convert::readable(from),
    };
    ensure!(way, "copy of {from:?} to {to:?}");
    if !s.same_shape(node) {
        let unit = from.blck_size().max(to.blck_size());
        ensure!(s.ne()[0] % unit == 0 && node.ne()[0] % unit == 0, "rows that blocks of {unit} do not fill");
    }
    Ok(())
}

/// Concatenates source 0 and source 1 along the dimension in parameter 0.
pub fn concat(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (a, b) = (node.source(0), node.source(1));
    let dim = node.op_param_i32(0) as usize;
    let block = d.block();
    for row in rows(w, &d) {
        if dim == 0 {
            d.copy_row(row, &a, row);
            d.copy_blocks(row, a.ne[0] / block, &b, row, 0, b.ne[0] / block);
        } else if row[dim - 1] < a.ne[dim] {
            d.copy_row(row, &a, row);
        } else {
            let mut from = row;
            from[dim - 1] -= a.ne[dim];
            d.copy_row(row, &b, from);
        }
    }
}

/// Requires one format, and shapes that differ only in the dimension.
pub fn check_concat(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    let dim = node.op_param_i32(0);
    ensure!((0..4).contains(&dim), "dimension {dim}");
    check_type(a, node.dtype())?;
    check_type(b, node.dtype())?;
    for i in 0..4 {
        let (x, y, z) = (a.ne()[i], b.ne()[i], node.ne()[i]);
        ensure!(if i == dim as usize { x + y == z } else { x == y && y == z }, "dimension {i}: {x}, {y}, {z}");
    }
    Ok(())
}

/// `i % n`, without a division for the usual `n`.
#[inline]
fn wrap(i: usize, n: usize) -> usize {
    if n.is_power_of_two() { i & (n - 1) } else { i % n }
}

/// Repeats source 0 to fill the node.
pub fn repeat(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let s = node.source(0);
    let (blocks, period) = (d.row_blocks(), s.row_blocks());
    let from = |row: RowIndex| std::array::from_fn(|i| wrap(row[i], s.ne[i + 1]));
    if blocks == period && s.has_dense_rows() && d.has_dense_rows() {
        let all = rows(w, &d).map(|row| (row, from(row)));
        return d.copy_rows(&s, all);
    }
    for row in rows(w, &d) {
        let from = from(row);
        for i in (0..blocks).step_by(period) {
            d.copy_blocks(row, i, &s, from, 0, period);
        }
    }
}

/// Requires one format, and a node whose dimensions are multiples of those of the source.
pub fn check_repeat(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, node.dtype())?;
    ensure!(s.can_repeat(node), "{:?} does not fill {:?}", s.ne(), node.ne());
    ensure!(
        matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I32 | GGML_TYPE_I16),
        "repetition of {:?}",
        node.dtype()
    );
    Ok(())
}

/// Gradient of `repeat`: the sum of all repetitions.
pub fn repeat_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let s = node.source(0);
    let mut out = Writer::new(d);
    let ne = out.ne;
    let mut part = vec![0f32; ne[0]];
    for row in rows(w, &out) {
        out.row(row, |y| {
            y.fill(0.0);
            for i3 in (row[2]..s.ne[3]).step_by(ne[3]) {
                for i2 in (row[1]..s.ne[2]).step_by(ne[2]) {
                    for i1 in (row[0]..s.ne[1]).step_by(ne[1]) {
                        for start in (0..s.ne[0]).step_by(ne[0]) {
                            s.load([i1, i2, i3], start, &mut part);
                            vec::add(y, &part);
                        }
                    }
                }
            }
        });
    }
}

/// Requires single precision, and a source whose dimensions are multiples of those of the node.
pub fn check_repeat_back(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    ensure!(node.can_repeat(s), "{:?} does not fill {:?}", node.ne(), s.ne());
    Ok(())
}

/// The part of the node that `set` and `acc` write: its layout, and its offset in bytes.
fn window(node: TensorRef, b: &Layout) -> (Layout, usize) {
    let region = Region::of_node(node);
    let nb = [node.dtype().type_size(), region.nb[0], region.nb[1], region.nb[2]];
    (Layout { ne: b.ne, nb, dtype: node.dtype() }, region.offset)
}

fn put(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, add: bool) {
    let (a, b) = (node.source(0), node.source(1));
    if node.op_param_i32(4) == 0 && !a.is_at(&d) {
        for row in rows(w, &d) {
            d.copy_row(row, &a, row);
        }
    }
    w.wait();
    let (part, offset) = window(*node, &b);
    let Some(mut at) = d.window(part, offset) else {
        unreachable!("the check lets no part outside the node through");
    };
    for row in rows(w, &b) {
        for i in 0..b.ne[0] {
            if add {
                let sum = at.get::<f32>(i, row) + b.get::<f32>(i, row);
                at.set(i, row, sum);
            } else {
                at.set::<i32>(i, row, b.get(i, row));
            }
        }
    }
}

/// Copies source 0, and overwrites a part of it with source 1.
pub fn set(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    put(w, node, d, false);
}

/// Copies source 0, and adds source 1 to a part of it.
pub fn acc(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    put(w, node, d, true);
}

/// Requires dense tensors of 4-byte numbers, and a part inside the node.
pub fn check_set(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_I32), "into {:?}", node.dtype());
    check_type(a, node.dtype())?;
    check_type(b, node.dtype())?;
    ensure!(a.same_shape(node) && a.is_contiguous() && node.is_contiguous(), "not dense, or shapes differ");
    let (part, offset) = window(node, &Layout::of(b));
    ensure!(
        Layout::of(node).holds(&part, offset),
        "the part to write does not lie inside the tensor, or its elements lie on each other"
    );
    Ok(())
}

/// Requires what [`check_set`] does, and single precision.
pub fn check_acc(node: TensorRef) -> Result<()> {
    check_type(node, GGML_TYPE_F32)?;
    check_set(node)
}
