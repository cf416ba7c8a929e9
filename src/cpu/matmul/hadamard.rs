//! The fast Walsh-Hadamard transform, which replaces a product with a Hadamard matrix: `n log n` additions per row.
#![forbid(unsafe_code)]

use super::plan::Shapes;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Writer, rows};
use crate::cpu::checked::CheckedNode;
use crate::cpu::{Worker, vec};

/// Whether the transform can replace the product: the matrix is square, its size is a power of two, and rows correspond
/// one to one.
pub fn applies(s: &Shapes) -> bool {
    let n = s.src1.ne[0];
    let plain = matches!((s.src1.dtype, s.src1.nb[0]), (GGML_TYPE_F32, 4) | (GGML_TYPE_F16, 2));
    n.is_power_of_two() && s.dst.ne[0] == n && plain
}

/// Transforms every row of `src1`, scaled by `1 / sqrt(n)`.
pub fn transform(w: &Worker<'_>, node: CheckedNode<'_>, dest: Dest<'_>) {
    let x = node.source(1);
    let scale = 1.0 / (x.ne[0] as f32).sqrt();
    let mut out = Writer::new(dest);
    for row in rows(w, &out) {
        out.row(row, |y| {
            x.load(row, 0, y);
            vec::map(vec::Function::Affine(scale, 0.0), y);
            butterflies(y);
        });
    }
}

/// The transform without the scale.
fn butterflies(y: &mut [f32]) {
    let mut half = 1;
    while half < y.len() {
        for pair in y.chunks_exact_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
