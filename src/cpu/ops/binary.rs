//! Arithmetic of two tensors: the second is repeated to fill the first.

use super::super::check::{ensure, src};
use super::super::convert;
use super::super::rows::{Place, Reader, Writer, parts, rows};
use super::{check_map_f32, check_type, is_float, source};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::{Kernels, Map2};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;
use crate::tensor::ops::arith::Region;

type Pick = fn(&Kernels) -> Map2;

fn binary(w: &Worker<'_>, dst: TensorRef, f: Pick) {
    let (a, b) = (source(dst, 0), source(dst, 1));
    let (mut a, mut b, mut d) = (Place::of(a), Place::of(b), Place::of(dst));
    if a.ne == b.ne && a.is_dense() && b.is_dense() && d.is_dense() {
        (a, b, d) = (a.flat(), b.flat(), d.flat());
    }
    let period = b.ne[0];
    let aside = a.dtype == GGML_TYPE_F32 && a.sliceable::<f32>() && !a.overlaps(&d);
    let mut b = Reader::over(b, &d);
    let mut out = Writer::over(d);
    let mut one = Vec::new();
    for (row, part) in parts(w, &d) {
        let row_b = [row[0] % b.at.ne[1], row[1] % b.at.ne[2], row[2] % b.at.ne[3]];
        // Read before the row is written: it may lie in the same place.
        let x = if period == d.ne[0] {
            b.part(row_b, part.clone())
        } else {
            let x = b.row(row_b);
            one.clear();
            match period {
                1 => one.resize(part.len(), x[0]),
                _ => one.extend(part.clone().map(|i| x[i % period])),
            }
            &one
        };
        out.part(row, part.clone(), |y| {
            if aside {
                return vec::zip_into(f, y, &a.row::<f32>(row)[part], x);
            }
            a.load(row, part.start, y);
            vec::zip(f, y, x);
        });
    }
}

/// Sum.
pub fn add(w: &Worker<'_>, dst: TensorRef) {
    binary(w, dst, |k| k.add);
}

/// Difference.
pub fn sub(w: &Worker<'_>, dst: TensorRef) {
    binary(w, dst, |k| k.sub);
}

/// Product.
pub fn mul(w: &Worker<'_>, dst: TensorRef) {
    binary(w, dst, |k| k.mul);
}

/// Quotient.
pub fn div(w: &Worker<'_>, dst: TensorRef) {
    binary(w, dst, |k| k.div);
}

/// Floats; the second repeats to the first; the node has the first one's shape.
pub fn check_binary(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.can_repeat(a) && a.same_shape(node), "shapes {:?} and {:?} do not fit", a.ne(), b.ne());
    let types = (a.dtype(), b.dtype(), node.dtype());
    let same = types.0 == types.1 && types.1 == types.2;
    let mixed = types.1 == GGML_TYPE_F32 && (types.2 == types.0 || types.2 == GGML_TYPE_F32);
    ensure!(is_float(types.0) && (same || mixed), "{:?} of {types:?}", node.op());
    Ok(())
}

/// As [`check_binary`], or a tensor in blocks or floats of 8 bits plus single precision of the same shape.
pub fn check_add(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    if a.dtype().blck_size() == 1 && a.dtype() != GGML_TYPE_F8_E4M3 {
        return check_binary(node);
    }
    ensure!(a.same_shape(b) && a.same_shape(node), "a quantized sum does not broadcast");
    ensure!(convert::readable(a.dtype()) && b.dtype() == GGML_TYPE_F32, "sum of {:?}, {:?}", a.dtype(), b.dtype());
    ensure!(convert::writable(node.dtype()), "a sum cannot become {:?}", node.dtype());
    Ok(())
}

/// Plus the one element of source 1.
pub fn add1(w: &Worker<'_>, dst: TensorRef) {
    let mut one = [0.0];
    Place::of(source(dst, 1)).load([0; 3], 0, &mut one);
    super::map(w, dst, |y| y.iter_mut().for_each(|y| *y += one[0]));
}

/// A float, or a quantized tensor, plus one float.
pub fn check_add1(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.is_scalar() && is_float(b.dtype()), "the second summand is not one float");
    ensure!(a.same_shape(node) && convert::readable(a.dtype()) && a.dtype() != GGML_TYPE_I32, "sum of {:?}", a.dtype());
    ensure!(convert::writable(node.dtype()) && node.dtype() == a.dtype(), "a sum cannot become {:?}", node.dtype());
    Ok(())
}

/// Row plus the row of source 1 that source 2 names, none for -1: a bias per expert.
pub fn add_id(w: &Worker<'_>, dst: TensorRef) {
    let (a, ids) = (Place::of(source(dst, 0)), Place::of(source(dst, 2)));
    let mut bias = Reader::new(source(dst, 1), dst);
    let mut out = Writer::new(dst);
    for row in rows(w, &a) {
        let id = ids.get::<i32>(row[0], [row[1], 0, 0]);
        if id == -1 {
            out.row(row, |y| a.load(row, 0, y));
            continue;
        }
        let Some(id) = usize::try_from(id).ok().filter(|&id| id < bias.at.ne[1]) else {
            return w.fail(invalid!("'{}': row {id} of {}", dst.name(), bias.at.ne[1]));
        };
        let x = bias.row([id, 0, 0]);
        out.row(row, |y| {
            a.load(row, 0, y);
            vec::add(y, x);
        });
    }
}

/// Single precision rows, a table of rows as long, and an index for each.
pub fn check_add_id(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let (a, b, ids) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    check_type(b, GGML_TYPE_F32)?;
    check_type(ids, GGML_TYPE_I32)?;
    ensure!(a.ne()[0] == b.ne()[0] && b.is_matrix(), "rows of {} and {}", a.ne()[0], b.ne()[0]);
    ensure!(a.ne()[1] == ids.ne()[0] && a.ne()[2] == ids.ne()[1], "ids of shape {:?}", ids.ne());
    Ok(())
}

/// Where `set` and `acc` put source 1 in the node.
fn window(node: TensorRef) -> Result<Place> {
    let region = Region::of_node(node);
    let b = src(node, 1)?;
    let mut at = Place::of(node);
    let size = node.dtype().type_size();
    at.ne = Place::of(b).ne;
    at.nb = [size, region.nb[0], region.nb[1], region.nb[2]];
    let end = at
        .ne
        .iter()
        .zip(&at.nb)
        .fold(region.offset.checked_add(size), |end, (n, nb)| end?.checked_add((n.max(&1) - 1).checked_mul(*nb)?));
    ensure!(end.is_some_and(|end| end <= node.nbytes()), "the part to write does not lie inside the tensor");
    Ok(at.moved(region.offset))
}

fn put(w: &Worker<'_>, dst: TensorRef, add: bool) {
    let (a, d) = (Place::of(source(dst, 0)), Place::of(dst));
    if dst.op_param_i32(4) == 0 && a.row_ptr([0; 3]) != d.row_ptr([0; 3]) {
        for row in rows(w, &d) {
            d.bytes_mut(row).copy_from_slice(a.bytes(row));
        }
        w.wait();
    } else {
        w.wait();
    }
    let b = Place::of(source(dst, 1));
    let Ok(at) = window(dst) else { return };
    if !add {
        for row in rows(w, &b) {
            for i in 0..b.ne[0] {
                at.set::<i32>(i, row, b.get(i, row));
            }
        }
        return;
    }
    for row in rows(w, &b) {
        for i in 0..b.ne[0] {
            at.set(i, row, at.get::<f32>(i, row) + b.get::<f32>(i, row));
        }
    }
}

/// Source 0 with source 1 written over a part of it.
pub fn set(w: &Worker<'_>, dst: TensorRef) {
    put(w, dst, false);
}

/// Source 0 with source 1 added to a part of it.
pub fn acc(w: &Worker<'_>, dst: TensorRef) {
    put(w, dst, true);
}

/// Dense tensors of 4-byte numbers, and a part that lies inside.
pub fn check_set(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_I32), "into {:?}", node.dtype());
    check_type(a, node.dtype())?;
    check_type(b, node.dtype())?;
    ensure!(a.same_shape(node) && a.is_contiguous() && node.is_contiguous(), "not dense, or shapes differ");
    window(node).map(|_| ())
}

/// As [`check_set`], single precision.
pub fn check_acc(node: TensorRef) -> Result<()> {
    check_type(node, GGML_TYPE_F32)?;
    check_set(node)
}
