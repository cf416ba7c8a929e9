//! Arithmetic of two tensors, of which the second is repeated to the shape of the first.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, parts, rows};
use super::super::checked::{CheckedNode, FlatFloats};
use super::super::convert;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type, is_float};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::vec::Pairwise;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

fn binary(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, f: Pairwise) {
    if let Some(FlatFloats { y, first, second: Some(b) }) = node.flat(w, &mut d) {
        return match first {
            Some(a) => vec::zip_into(f, y, a, b),
            None => vec::zip(f, y, b),
        };
    }
    let (mut a, mut b) = (node.source(0), node.source(1));
    if a.ne == b.ne && a.is_dense() && b.is_dense() && d.is_dense() {
        (a, b, d) = (a.flat(), b.flat(), d.flat());
    }
    let (n, period) = (d.ne[0], b.ne[0]);
    let aside = a.float_rows(&d);
    let mut b = Reader::new(b, &d);
    let mut out = Writer::new(d);
    let mut one = Vec::new();
    for (row, part) in parts(w, &out) {
        let row_b = [row[0] % b.ne[1], row[1] % b.ne[2], row[2] % b.ne[3]];
        // Read before the row is written, because the two may overlap.
        let x = if period == n {
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
            if let Some(a) = &aside {
                return vec::zip_into(f, y, &a.row(row)[part], x);
            }
            a.load(row, part.start, y);
            vec::zip(f, y, x);
        });
    }
}

/// Sum.
pub fn add(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    binary(w, node, d, Pairwise::Add);
}

/// Difference.
pub fn sub(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    binary(w, node, d, Pairwise::Sub);
}

/// Product.
pub fn mul(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    binary(w, node, d, Pairwise::Mul);
}

/// Quotient.
pub fn div(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    binary(w, node, d, Pairwise::Div);
}

/// Requires floats, a second tensor that can be repeated to the first, and a node with the shape of the first.
pub fn check_binary(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.can_repeat(a) && a.same_shape(node), "shapes {:?} and {:?} do not fit", a.ne(), b.ne());
    let types = (a.dtype(), b.dtype(), node.dtype());
    let same = types.0 == types.1 && types.1 == types.2;
    let mixed = types.1 == GGML_TYPE_F32 && (types.2 == types.0 || types.2 == GGML_TYPE_F32);
    ensure!(is_float(types.0) && (same || mixed), "{:?} of {types:?}", node.op());
    Ok(())
}

/// Requires what [`check_binary`] does, or a tensor in blocks or floats of 8 bits plus one in single precision with the
/// same shape.
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

/// Adds the only element of source 1 to source 0.
pub fn add1(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let mut one = [0.0];
    node.source(1).load([0; 3], 0, &mut one);
    super::map(w, node, d, |y| y.iter_mut().for_each(|y| *y += one[0]));
}

/// Requires a tensor of floats or a quantized one, plus one float.
pub fn check_add1(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(b.is_scalar() && is_float(b.dtype()), "the second summand is not one float");
    ensure!(a.same_shape(node) && convert::readable(a.dtype()) && a.dtype() != GGML_TYPE_I32, "sum of {:?}", a.dtype());
    ensure!(convert::writable(node.dtype()) && node.dtype() == a.dtype(), "a sum cannot become {:?}", node.dtype());
    Ok(())
}

/// Adds to each row the row of source 1 whose index is in source 2, or nothing for -1: a bias per expert.
pub fn add_id(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (a, ids) = (node.source(0), node.source(2));
    let mut bias = Reader::new(node.source(1), &d);
    let mut out = Writer::new(d);
    for row in rows(w, &a) {
        let id = ids.get::<i32>(row[0], [row[1], 0, 0]);
        if id == -1 {
            out.row(row, |y| a.load(row, 0, y));
            continue;
        }
        let Some(id) = usize::try_from(id).ok().filter(|&id| id < bias.ne[1]) else {
            return w.fail(invalid!("'{}': row {id} of {}", node.name(), bias.ne[1]));
        };
        let x = bias.row([id, 0, 0]);
        out.row(row, |y| {
            a.load(row, 0, y);
            vec::add(y, x);
        });
    }
}

/// Requires rows in single precision, a table of rows of the same length, and an index for each row.
pub fn check_add_id(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let (a, b, ids) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    check_type(b, GGML_TYPE_F32)?;
    check_type(ids, GGML_TYPE_I32)?;
    ensure!(a.ne()[0] == b.ne()[0] && b.is_matrix(), "rows of {} and {}", a.ne()[0], b.ne()[0]);
    ensure!(a.ne()[1] == ids.ne()[0] && a.ne()[2] == ids.ne()[1], "ids of shape {:?}", ids.ne());
    Ok(())
}
