//! Windows of images and relative positions, as in SAM (arXiv:2304.02643).
#![forbid(unsafe_code)]

use super::super::access::{Apart, Dest, Reader, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, product, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

/// Divides an image into windows, padded with zeros at the edges. Parameters: windows per row, windows per column,
/// size.
pub fn win_part(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let across = node.op_param_i32(0) as usize;
    let size = node.op_param_i32(2) as usize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    for row @ [i1, i2, i3] in rows(w, &out) {
        let (x1, x2) = (i3 % across * size + i1, i3 / across * size + i2);
        if x1 >= x.ne[1] || x2 >= x.ne[2] {
            out.row(row, |y| y.fill(0.0));
        } else {
            let x = x.row([x1, x2, 0]);
            out.row(row, |y| y.copy_from_slice(x));
        }
    }
}

/// Requires fitting types and shapes.
pub fn check_win_part(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let p = |i| i64::from(node.op_param_i32(i));
    ensure!(p(0) > 0 && p(1) > 0 && p(2) > 0, "windows {} x {} of {}", p(0), p(1), p(2));
    ensure!(s.ne()[0] == node.ne()[0] && s.ne()[3] == 1 && node.ne()[3] == p(0) * p(1), "{:?}", node.ne());
    Ok(())
}

/// Joins windows to an image. Parameter 0: size of the windows.
pub fn win_unpart(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let size = node.op_param_i32(0) as usize;
    let mut x = Reader::new(node.source(0), &d);
    let mut out = Writer::new(d);
    let across = out.ne[1].div_ceil(size);
    for row @ [i1, i2, _] in rows(w, &out) {
        let x = x.row([i1 % size, i2 % size, i2 / size * across + i1 / size]);
        out.row(row, |y| y.copy_from_slice(x));
    }
}

/// Requires fitting types and shapes.
pub fn check_win_unpart(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    check_type(s, GGML_TYPE_F32)?;
    check_type(node, GGML_TYPE_F32)?;
    let size = i64::from(node.op_param_i32(0));
    ensure!(size > 0 && s.ne()[1] >= size && s.ne()[2] >= size, "windows of {size} in {:?}", s.ne());
    let (n, s) = (node.ne(), s.ne());
    let windows = (n[1] + size - 1) / size * ((n[2] + size - 1) / size);
    ensure!(s[0] == n[0] && s[3] >= windows && n[3] == 1, "{s:?} into {n:?}");
    Ok(())
}

/// Rows of a table, selected by the distance of two positions.
pub fn get_rel_pos(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let s = node.source(0);
    let table = s.try_apart(&d).and_then(Apart::rows::<u16>).filter(|_| d.is_sliceable::<u16>());
    for row @ [i1, i2, _] in rows(w, &d) {
        let from = [d.ne[1] - i1 - 1 + i2, 0, 0];
        match table {
            Some(table) => d.row_mut(row).copy_from_slice(table.row(from)),
            None => (0..d.ne[0]).for_each(|i| d.set::<u16>(i, row, s.get(i, from))),
        }
    }
}

/// Requires 16-bit floats, and a row for each distance. The kernel copies bits, so for a bfloat16 table the node has
/// bfloat16 bits, although the constructor makes its type half precision, as in the original.
pub fn check_get_rel_pos(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    for t in [s, node] {
        ensure!(matches!(t.dtype(), GGML_TYPE_F16 | GGML_TYPE_BF16), "a table of {:?}", t.dtype());
    }
    let (n, s) = (node.ne(), s.ne());
    ensure!(n[0] == s[0] && s[1] >= n[1] + n[2] - 1 && n[3] == 1, "{s:?} into {n:?}");
    Ok(())
}

/// Adds to the scores of positions in a window a bias for their distance in rows, and one for their distance in
/// columns.
pub fn add_rel_pos(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let s = node.source(0);
    let (mut across, mut down) = (Reader::new(node.source(1), &d), Reader::new(node.source(2), &d));
    let width = across.ne[0];
    let per_window = across.ne[1] * across.ne[2];
    let mut out = Writer::new(d);
    for r in w.share(out.nrows()) {
        let (window, query) = (r / per_window, r % per_window);
        let at = [query % across.ne[1], query / across.ne[1], window];
        let (x, y) = (across.row(at), down.row(at));
        let row = out.row_index(r);
        out.row(row, |out| {
            s.load(row, 0, out);
            for (out, y) in out.chunks_exact_mut(width).zip(y) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += x + y);
            }
        });
    }
}

/// Requires scores `[width * width, positions, windows]` and biases `[width, w, h, windows]`.
pub fn check_add_rel_pos(node: TensorRef) -> Result<()> {
    check_map_f32(node)?;
    let (a, b) = (src(node, 1)?, src(node, 2)?);
    check_type(a, GGML_TYPE_F32)?;
    check_type(b, GGML_TYPE_F32)?;
    let (x, n) = (a.ne(), node.ne());
    ensure!(a.same_shape(b) && n[0] == product(&[x[0], x[0]]) && node.nrows() == product(&x[1..]), "{n:?} with {x:?}");
    ensure!(node.is_contiguous(), "not dense");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::access::whole;
    use crate::cpu::tests::*;
    use crate::tensor::ops::{Place as Where, window};

    #[test]
    fn windows_of_an_image_and_back() {
        for (ne, w) in [([3, 10, 7, 1], 4), ([5, 8, 4, 1], 4), ([1, 3, 2, 1], 7)] {
            let mut c = ctx();
            let a = floats(&mut c, &ne, 1);
            let t = window::win_part(&mut c, a, w).unwrap();
            let (x, side, across) = (read(a), i64::from(w), (ne[1] + i64::from(w) - 1) / i64::from(w));
            let want = indices(t.ne())
                .map(|[i0, i1, i2, i3]| at(&x, ne, [i0, i3 % across * side + i1, i3 / across * side + i2, 0]));
            near(&compute(t), want, 0.0);
            let t = window::win_unpart(&mut c, t, ne[1] as i32, ne[2] as i32, w).unwrap();
            assert_eq!(compute(t), x);
        }
    }

    #[test]
    fn relative_positions() {
        let mut c = ctx();
        let table = tensor(&mut c, GGML_TYPE_F16, &[3, 9], 1);
        let t = window::get_rel_pos(&mut c, table, 5, 5).unwrap();
        let x = read(table);
        near(&compute(t), indices(t.ne()).map(|[i0, i1, i2, _]| at(&x, table.ne(), [i0, 4 - i1 + i2, 0, 0])), 0.0);

        let table = tensor(&mut c, GGML_TYPE_BF16, &[3, 9], 1);
        let t = window::get_rel_pos(&mut c, table, 5, 5).unwrap();
        compute(t);
        assert_eq!(
            (t.dtype(), whole::source(t).get::<u16>(1, [3, 2, 0])),
            (GGML_TYPE_F16, whole::source(table).get(1, [3, 0, 0]))
        );

        let (nw, ns) = ([5, 3, 4, 2], [25, 12, 2, 1]);
        let (a, w, h) = (floats(&mut c, &ns, 2), floats(&mut c, &nw, 3), floats(&mut c, &nw, 4));
        let t = window::add_rel_pos(&mut c, a, w, h, Where::New).unwrap();
        let (av, wv, hv, got) = (read(a), read(w), read(h), compute(t));
        let want = indices(ns).map(|[i, q, b, _]| {
            let place = |k| [k, q % nw[1], q / nw[1], b];
            at(&av, ns, [i, q, b, 0]) + at(&wv, nw, place(i % nw[0])) + at(&hv, nw, place(i / nw[0]))
        });
        near(&got, want, 1e-6);
        let t = window::add_rel_pos(&mut c, a, w, h, Where::Inplace).unwrap();
        compute_with(&nodes_of(t), 3, crate::cpu::exec::Abort::NEVER).unwrap();
        assert_eq!(read(a), got);
    }
}
