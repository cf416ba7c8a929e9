//! Moving data: copies with conversion, concatenation, repetition.

use super::super::check::{ensure, src};
use super::super::convert;
use super::super::rows::{Place, RowIndex, Writer, rows};
use super::{check_type, is_float, source};
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Copies `n` bytes; source and target may overlap.
fn copy_bytes(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: callers pass parts of rows of a checked node's tensors; `copy` allows overlap.
    unsafe { std::ptr::copy(from, to, n) }
}

/// Elements (or blocks) of source 0 in order, into the elements of the node in order, converted to its format.
pub fn dup(w: &Worker<'_>, dst: TensorRef) {
    let (s, d) = (Place::of(source(dst, 0)), Place::of(dst));
    if s.dtype == d.dtype {
        return dup_same(w, &s, &d);
    }
    if s.ne == d.ne {
        let mut out = Writer::over(d);
        for row in rows(w, &d) {
            out.row(row, |y| s.load(row, 0, y));
        }
        return;
    }
    // Different shapes: element by element, in pieces that are whole blocks on both sides.
    let unit = s.dtype.blck_size().max(d.dtype.blck_size()) as usize;
    let mut buf = vec![0f32; unit];
    for i in w.share(s.len() / unit) {
        let (from, to) = (i * unit, i * unit);
        s.load(s.row_index(from / s.ne[0]), from % s.ne[0], &mut buf);
        d.store(d.row_index(to / d.ne[0]), to % d.ne[0], &buf);
    }
}

fn dup_same(w: &Worker<'_>, s: &Place, d: &Place) {
    let size = s.dtype.type_size();
    if s.is_dense() && d.is_dense() {
        // Bytes, whatever they mean.
        let total = s.len() / s.dtype.blck_size() as usize * size;
        let part = w.share(total.div_ceil(4096));
        let (start, end) = (part.start * 4096, (part.end * 4096).min(total));
        if start < end {
            let (from, to) = (s.row_ptr([0; 3]), d.row_ptr([0; 3]));
            copy_bytes(from.wrapping_add(start), to.wrapping_add(start), end - start);
        }
        return;
    }
    if s.ne == d.ne && s.has_dense_rows() && d.has_dense_rows() {
        for row in rows(w, d) {
            copy_bytes(s.row_ptr(row), d.row_ptr(row), d.row_bytes());
        }
        return;
    }
    if s.ne == d.ne && d.has_dense_rows() {
        return gather(w, s, d);
    }
    // Block by block; the two run through their rows at their own pace.
    let block = s.dtype.blck_size() as usize;
    let (per_s, per_d) = (s.ne[0] / block, d.ne[0] / block);
    for i in w.share(s.len() / block) {
        let from = s.row_ptr(s.row_index(i / per_s)).wrapping_add(i % per_s * s.nb[0]);
        let to = d.row_ptr(d.row_index(i / per_d)).wrapping_add(i % per_d * d.nb[0]);
        copy_bytes(from, to, size);
    }
}

/// Strided rows into dense ones: the common transposition.
fn gather(w: &Worker<'_>, s: &Place, d: &Place) {
    fn typed<T: super::super::rows::Plain>(w: &Worker<'_>, s: &Place, d: &Place) {
        // Several rows at a time, so that a cache line of a transposed source is used while it is there.
        const ROWS: usize = 16;
        let groups = d.ne[1].div_ceil(ROWS);
        for g in w.share(groups * d.ne[2] * d.ne[3]) {
            let (i2, i3) = (g / groups % d.ne[2], g / groups / d.ne[2]);
            let i1 = g % groups * ROWS..(g % groups * ROWS + ROWS).min(d.ne[1]);
            for start in (0..d.ne[0]).step_by(64) {
                for i1 in i1.clone() {
                    for i0 in start..(start + 64).min(d.ne[0]) {
                        d.set::<T>(i0, [i1, i2, i3], s.get(i0, [i1, i2, i3]));
                    }
                }
            }
        }
    }
    match (s.dtype.blck_size(), s.dtype.type_size()) {
        (1, 1) => typed::<u8>(w, s, d),
        (1, 2) => typed::<u16>(w, s, d),
        (1, 4) => typed::<i32>(w, s, d),
        (1, 8) => typed::<i64>(w, s, d),
        (_, size) => {
            let blocks = d.ne[0] / d.dtype.blck_size() as usize;
            for row in rows(w, d) {
                for i in 0..blocks {
                    copy_bytes(s.row_ptr(row).wrapping_add(i * s.nb[0]), d.row_ptr(row).wrapping_add(i * size), size);
                }
            }
        }
    }
}

/// Same number of elements, and formats between which there is a way.
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

/// Source 0, then source 1, along the dimension that parameter 0 names.
pub fn concat(w: &Worker<'_>, dst: TensorRef) {
    let (a, b, d) = (Place::of(source(dst, 0)), Place::of(source(dst, 1)), Place::of(dst));
    let dim = dst.op_param_i32(0) as usize;
    let size = d.dtype.type_size();
    let block = d.dtype.blck_size() as usize;
    let piece = |s: &Place, from: RowIndex, to: RowIndex, start: usize| {
        let target = d.row_ptr(to).wrapping_add(start / block * d.nb[0]);
        if s.has_dense_rows() && d.has_dense_rows() {
            return copy_bytes(s.row_ptr(from), target, s.row_bytes());
        }
        for i in 0..s.ne[0] / block {
            copy_bytes(s.row_ptr(from).wrapping_add(i * s.nb[0]), target.wrapping_add(i * d.nb[0]), size);
        }
    };
    for row in rows(w, &d) {
        if dim == 0 {
            piece(&a, row, row, 0);
            piece(&b, row, row, a.ne[0]);
        } else if row[dim - 1] < a.ne[dim] {
            piece(&a, row, row, 0);
        } else {
            let mut from = row;
            from[dim - 1] -= a.ne[dim];
            piece(&b, from, row, 0);
        }
    }
}

/// One format, and shapes that differ only along the dimension.
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

/// Source 0 again and again, to fill the node.
pub fn repeat(w: &Worker<'_>, dst: TensorRef) {
    let (s, d) = (Place::of(source(dst, 0)), Place::of(dst));
    let size = d.dtype.type_size();
    let (blocks, period) = (d.ne[0] / d.dtype.blck_size() as usize, s.ne[0] / d.dtype.blck_size() as usize);
    for row in rows(w, &d) {
        let (from, to) = (s.row_ptr([row[0] % s.ne[1], row[1] % s.ne[2], row[2] % s.ne[3]]), d.row_ptr(row));
        if s.has_dense_rows() && d.has_dense_rows() {
            (0..blocks / period).for_each(|r| copy_bytes(from, to.wrapping_add(r * period * size), period * size));
            continue;
        }
        for i in 0..blocks {
            copy_bytes(from.wrapping_add(i % period * s.nb[0]), to.wrapping_add(i * d.nb[0]), size);
        }
    }
}

/// One format; the source fills the node a whole number of times.
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

/// Sum of all the repetitions: the gradient of `repeat`.
pub fn repeat_back(w: &Worker<'_>, dst: TensorRef) {
    let s = Place::of(source(dst, 0));
    let mut out = Writer::new(dst);
    let ne = out.at.ne;
    let mut part = vec![0f32; ne[0]];
    for row in rows(w, &out.at) {
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

/// Single precision; the node fills the source a whole number of times.
pub fn check_repeat_back(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    ensure!(node.can_repeat(s), "{:?} does not fill {:?}", node.ne(), s.ne());
    Ok(())
}
