//! Rows by index. Indices are data, so kernels check them.
#![forbid(unsafe_code)]

use super::super::access::{Apart, Dest, Layout, Reader, Source, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::convert;
use super::super::ensure::{ensure, src};
use super::{check_type, is_float};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Reads an index from an index tensor. Returns it as an error unless it is below `limit`.
fn index(at: &Source<'_>, i0: usize, row: [usize; 3], limit: usize) -> std::result::Result<usize, i64> {
    let i = if at.dtype == GGML_TYPE_I64 { at.get::<i64>(i0, row) } else { i64::from(at.get::<i32>(i0, row)) };
    usize::try_from(i).ok().filter(|&i| i < limit).ok_or(i)
}

fn out_of_range(w: &Worker<'_>, node: TensorRef, i: i64, limit: usize) {
    w.fail(invalid!("{:?} '{}': index {i} is not below {limit}", node.op(), node.name()));
}

/// Copies the rows of source 0 whose indices are in source 1.
pub fn get_rows(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (s, ids) = (node.source(0), node.source(1));
    let mut out = Writer::new(d);
    for row in rows(w, &out) {
        let i = match index(&ids, row[0], [row[1], row[2], 0], s.ne[1]) {
            Ok(i) => i,
            Err(i) => return out_of_range(w, *node, i, s.ne[1]),
        };
        let from = [i, row[1], row[2]];
        if s.has_dense_rows() {
            w.will_read(s.row_ptr(from), s.nb[1]);
        }
        if s.dtype == GGML_TYPE_I32 {
            for i0 in 0..s.ne[0] {
                out.dest().set::<i32>(i0, row, s.get(i0, from));
            }
        } else {
            out.row(row, |y| s.load(from, 0, y));
        }
    }
}

/// Requires rows of any readable format, a node in single precision (integers for integers), and a matrix of indices.
pub fn check_get_rows(node: TensorRef) -> Result<()> {
    let (s, ids) = (src(node, 0)?, src(node, 1)?);
    check_type(ids, GGML_TYPE_I32)?;
    let to = if s.dtype() == GGML_TYPE_I32 { GGML_TYPE_I32 } else { GGML_TYPE_F32 };
    ensure!(convert::readable(s.dtype()), "rows of {:?}", s.dtype());
    check_type(node, to)?;
    let (a, i, n) = (s.ne(), ids.ne(), node.ne());
    ensure!(n == [a[0], i[0], i[1], i[2]] && a[2] == i[1] && a[3] == i[2] && i[3] == 1, "{a:?} by {i:?} into {n:?}");
    Ok(())
}

/// Writes the rows of source 0, converted, to the rows of the node whose indices are in source 1. The other rows do not
/// change.
pub fn set_rows(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let (s, ids) = (node.source(0), node.source(1));
    if let Some(numbers) = s.try_apart(&d).filter(|s| d.ne[0] == 1 && s.dtype == GGML_TYPE_F32 && s.is_dense())
        && d.dtype.type_size() == size_of::<u16>()
    {
        return set_numbers(w, node, d, numbers);
    }
    let mut read = Reader::new(s, &d);
    let [_, n1, n2, n3] = s.ne;
    for (i3, i2) in planes(n3, n2) {
        let written = each_target(w, &ids, 0..n1, [i2, i3], d.ne[1], |i1, i| {
            d.store([i, i2, i3], 0, read.row([i1, i2, i3]));
        });
        if let Err(i) = written {
            return out_of_range(w, *node, i, d.ne[1]);
        }
    }
}

/// [`set_rows`] for rows of one number, which are converted to numbers of 16 bits: the values of a transposed cache.
fn set_numbers(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, numbers: Apart<'_>) {
    /// Numbers that are converted at once.
    const PART: usize = 256;
    let ids = node.source(1);
    let [_, n1, n2, n3] = numbers.ne;
    let mut converted = [0; 2 * PART];
    for (i3, i2) in planes(n3, n2) {
        for first in (0..n1).step_by(PART) {
            let n = PART.min(n1 - first);
            let some = numbers.span((i3 * n2 + i2) * n1 + first, n);
            convert::from_f32(d.dtype, some, &mut converted[..2 * n]);
            let converted: &[[u8; 2]] = converted.as_chunks().0;
            let written = each_target(w, &ids, first..first + n, [i2, i3], d.ne[1], |i1, i| {
                d.set(0, [i, i2, i3], u16::from_ne_bytes(converted[i1 - first]));
            });
            if let Err(i) = written {
                return out_of_range(w, *node, i, d.ne[1]);
            }
        }
    }
}

/// The indices of planes.
fn planes(n3: usize, n2: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n3).flat_map(move |i3| (0..n2).map(move |i2| (i3, i2)))
}

/// Calls `write` with each of the rows of a plane whose target this thread writes, and the target. Each thread reads
/// all indices, and writes only its rows of the node. So if an index occurs more than once, the last row of the source
/// wins. Ends at an index that is not below `limit`.
fn each_target(
    w: &Worker<'_>,
    ids: &Source<'_>,
    mut rows: Range<usize>,
    [i2, i3]: [usize; 2],
    limit: usize,
    mut write: impl FnMut(usize, usize),
) -> std::result::Result<(), i64> {
    let at = [i2 % ids.ne[1], i3 % ids.ne[2], 0];
    rows.try_for_each(|i1| {
        let i = index(ids, i1, at, limit)?;
        if w.nth() == 1 || i % w.nth() == w.ith() {
            write(i1, i);
        }
        Ok(())
    })
}

/// Requires floats, a writable format, and an index for each row, repeated over planes.
pub fn check_set_rows(node: TensorRef) -> Result<()> {
    let (s, ids) = (src(node, 0)?, src(node, 1)?);
    ensure!(matches!(s.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "rows of {:?}", s.dtype());
    ensure!(matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64), "indices of {:?}", ids.dtype());
    ensure!(convert::writable(node.dtype()) && node.dtype() != GGML_TYPE_I32, "rows into {:?}", node.dtype());
    let (a, i, n) = (s.ne(), ids.ne(), node.ne());
    ensure!(a[0] == n[0] && a[2] == n[2] && a[3] == n[3] && a[1] == i[0] && i[3] == 1, "{a:?} by {i:?} into {n:?}");
    ensure!(i[1] > 0 && i[2] > 0 && a[2] % i[1] == 0 && a[3] % i[2] == 0, "{a:?} by {i:?}");
    ensure!(Layout::of(node).has_dense_rows(), "rows with gaps");
    Ok(())
}

/// Gradient of `get_rows`: adds each row of source 0 to the row of the node whose index is in source 1.
pub fn get_rows_back(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let ids = node.source(1);
    let mut grad = Reader::new(node.source(0), &d);
    // Each thread reads all indices, and writes only its rows of the node, so that the order of the sums does not
    // depend on the number of threads.
    let mine = w.share(d.nrows());
    for r in mine.clone() {
        d.row_mut::<f32>(d.row_index(r)).fill(0.0);
    }
    for i in 0..ids.len() {
        match index(&ids, i, [0; 3], d.ne[1]) {
            Ok(r) if mine.contains(&r) => vec::add(d.row_mut::<f32>([r, 0, 0]), grad.row([i, 0, 0])),
            Ok(_) => {}
            Err(r) => return out_of_range(w, *node, r, d.ne[1]),
        }
    }
}

/// Requires a matrix of floats, an index for each of its rows, and a dense node.
pub fn check_get_rows_back(node: TensorRef) -> Result<()> {
    let (s, ids) = (src(node, 0)?, src(node, 1)?);
    check_type(node, GGML_TYPE_F32)?;
    check_type(ids, GGML_TYPE_I32)?;
    ensure!(is_float(s.dtype()), "rows of {:?}", s.dtype());
    ensure!(node.is_matrix() && s.is_matrix() && ids.is_vector(), "no matrices");
    ensure!(s.ne()[0] == node.ne()[0] && s.ne()[1] >= ids.ne()[0], "{:?} by {:?}", s.ne(), ids.ne());
    ensure!(node.is_contiguous(), "not dense");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::exec::Abort;
    use crate::cpu::tests::{compute_with, ctx, floats, integers, nodes_of, read, tensor};
    use crate::quant::convert::{f16_to_f32, f32_to_f16};
    use crate::tensor::ops::{rows, view};

    /// Rows of one number are those that rows of several numbers are.
    #[test]
    fn rows_of_one_number() {
        for (n_threads, gaps) in [(1, false), (3, false), (3, true)] {
            let mut c = ctx();
            let (n, planes) = (600, 2);
            let mut source = floats(&mut c, &[1, n, planes], 1);
            if gaps {
                let wider = floats(&mut c, &[2, n, planes], 1);
                let nb = wider.nb();
                source = view::view(&mut c, wider, &[1, n, planes], &[nb[1], nb[2]], 0).unwrap();
            }
            let table = tensor(&mut c, GGML_TYPE_F16, &[1, n + 5, planes], 2);
            let before = read(table);
            // Some rows are written twice.
            let targets: Vec<_> = (0..n).map(|i| ((i * 7 % 500) + 3) as i32).collect();
            let ids = integers(&mut c, &[n], &targets);
            let result = rows::set_rows(&mut c, table, source, ids).unwrap();
            compute_with(&nodes_of(result), n_threads, Abort::NEVER).unwrap();
            let (mut expected, new) = (before, read(source));
            for i2 in 0..planes as usize {
                for (i1, &to) in targets.iter().enumerate() {
                    let x = f16_to_f32(f32_to_f16(new[i2 * n as usize + i1]));
                    expected[i2 * (n as usize + 5) + to as usize] = x;
                }
            }
            assert!(read(table) == expected, "{n_threads} threads, gaps: {gaps}");
            let wrong = integers(&mut c, &[2], &[4, n as i32 + 5]);
            let few = floats(&mut c, &[1, 2, planes], 3);
            let result = rows::set_rows(&mut c, table, few, wrong).unwrap();
            let error = compute_with(&nodes_of(result), n_threads, Abort::NEVER).unwrap_err().to_string();
            assert!(error.contains("index 605 is not below 605"), "{error}");
        }
    }
}
