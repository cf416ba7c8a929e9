//! The fast Walsh-Hadamard transform, which takes the place of a product with a Hadamard matrix: `n log n` additions for a row.

use super::plan::Shapes;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::kernels;
use crate::cpu::worker::Worker;

/// Whether the transform can stand for the product: a square matrix, a power of two, one row for one row.
pub fn applies(s: &Shapes) -> bool {
    let n = s.ne1[0];
    n.is_power_of_two() && s.ne[0] == n && matches!((s.type1, s.nb1[0]), (GGML_TYPE_F32, 4) | (GGML_TYPE_F16, 2))
}

/// Transforms every row of `src1`, scaled by `1 / sqrt(n)`.
pub fn transform(w: &Worker<'_>, s: &Shapes) {
    let (k, n) = (kernels(), s.ne1[0]);
    let scale = 1.0 / (n as f32).sqrt();
    for row in w.share(s.ne1[1] * s.ne1[2] * s.ne1[3]) {
        let (i1, i2, i3) = (row % s.ne1[1], row / s.ne1[1] % s.ne1[2], row / (s.ne1[1] * s.ne1[2]));
        let x = s.src1.wrapping_add(i1 * s.nb1[1] + i2 * s.nb1[2] + i3 * s.nb1[3]);
        let y = s.dst.wrapping_add(i1 * s.nb[1] + i2 * s.nb[2] + i3 * s.nb[3]).cast::<f32>();
        // SAFETY: the node was checked: rows of src1 and dst have `n` values inside their memory, and this thread alone has this row.
        let y = unsafe {
            match s.type1 {
                GGML_TYPE_F16 => (k.f16_to_f32)(n, y, x.cast()),
                _ => y.copy_from(x.cast(), n),
            }
            (k.scale)(n, y, y, scale, 0.0);
            std::slice::from_raw_parts_mut(y, n)
        };
        butterflies(y);
    }
}

/// The transform without its scale.
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
