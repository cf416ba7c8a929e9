//! Kernels of the operations, with one file or folder per family (`tensor::family`). Each operation has a kernel and a
//! check of the types and shapes that the kernel supports.
#![forbid(unsafe_code)]

pub mod attention;
pub mod binary;
pub mod conv;
pub mod copy;
pub mod custom;
pub mod generate;
pub mod glu;
pub mod hyper;
pub mod image;
pub mod loss;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod optimizer;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod softmax;
pub mod sort;
pub mod unary;
pub mod window;

use super::access::layout::PART;
use super::access::{Dest, Writer, parts};
use super::checked::{CheckedNode, FlatFloats};
use super::ensure::{ensure, src};
use super::vec;
use super::worker::Worker;
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Whether `t` is F32, F16 or BF16.
pub(crate) fn is_float(t: ggml_type) -> bool {
    matches!(t, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16)
}

/// Requires floats and the same shape for the node and source 0.
pub(crate) fn check_map(node: TensorRef) -> Result<()> {
    let s = src(node, 0)?;
    ensure!(is_float(s.dtype()) && is_float(node.dtype()), "{:?} of {:?}", node.op(), s.dtype());
    ensure!(s.same_shape(node), "shapes {:?} and {:?} differ", s.ne(), node.ne());
    Ok(())
}

/// Requires single precision and the same shape for the node and source 0.
pub(crate) fn check_map_f32(node: TensorRef) -> Result<()> {
    check_map(node)?;
    ensure!(
        node.dtype() == GGML_TYPE_F32 && src(node, 0)?.dtype() == GGML_TYPE_F32,
        "{:?} takes single precision only",
        node.op()
    );
    Ok(())
}

/// Requires a format.
pub(crate) fn check_type(t: TensorRef, dtype: ggml_type) -> Result<()> {
    ensure!(t.dtype() == dtype, "'{}' is {:?}, not {dtype:?}", t.name(), t.dtype());
    Ok(())
}

/// Copies source 0 to the node, and applies `f` to the elements in parts.
pub(crate) fn map(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, f: impl Fn(&mut [f32])) {
    map_parts(w, node, d, &f);
}

/// [`map`], compiled once: a part is much more work than the call.
fn map_parts(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, f: &dyn Fn(&mut [f32])) {
    if let Some(FlatFloats { y, first, .. }) = node.flat(w, &mut d) {
        for (i, y) in y.chunks_mut(PART).enumerate() {
            if let Some(x) = first {
                y.copy_from_slice(&x[i * PART..][..y.len()]);
            }
            f(y);
        }
        return;
    }
    let mut s = node.source(0);
    if s.is_dense() && d.is_dense() {
        (s, d) = (s.flat(), d.flat());
    }
    let mut out = Writer::new(d);
    for (row, part) in parts(w, &out) {
        out.part(row, part.clone(), |y| {
            s.load(row, part.start, y);
            f(y);
        });
    }
}

/// The node is `f` of source 0.
pub(crate) fn map_with(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>, f: vec::Function) {
    if let Some(FlatFloats { y, first, .. }) = node.flat(w, &mut d) {
        return match first {
            Some(x) => vec::map_into(f, y, x),
            None => vec::map(f, y),
        };
    }
    let mut s = node.source(0);
    if s.is_dense() && d.is_dense() {
        (s, d) = (s.flat(), d.flat());
    }
    let aside = s.float_rows(&d);
    let mut out = Writer::new(d);
    for (row, part) in parts(w, &out) {
        out.part(row, part.clone(), |y| {
            if let Some(x) = &aside {
                return vec::map_into(f, y, &x.row(row)[part]);
            }
            s.load(row, part.start, y);
            vec::map(f, y);
        });
    }
}
