//! Activations into the form that a product needs.

use super::plan::{ActForm, Plan, Shapes};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::Kernels;
use crate::cpu::worker::Worker;

/// Turns all rows of `src1`, shared among the threads, into the front of the scratch memory, row by row.
pub fn activations(w: &Worker<'_>, k: &Kernels, plan: &Plan, s: &Shapes) {
    if !plan.converts() {
        return;
    }
    let own = plan.own_scratch(w);
    for row in w.share(plan.act_rows) {
        let (i1, i2, i3) = (row % s.ne1[1], row / s.ne1[1] % s.ne1[2], row / (s.ne1[1] * s.ne1[2]));
        let x = s.src1.wrapping_add(i1 * s.nb1[1] + i2 * s.nb1[2] + i3 * s.nb1[3]);
        let y = w.scratch().as_ptr().wrapping_add(row * plan.act_bytes);
        // SAFETY: row indices are below src1's; the node was checked, so its rows are inside its memory. The scratch memory was checked
        // to be as long as the plan asks; each row of it, and `own`, belongs to this thread until the next wait.
        unsafe { convert_row(k, plan, s, x, y, own) };
    }
}

/// Turns one row.
///
/// # Safety
/// `x` is a row of `src1`; `y` is writable for `plan.act_bytes` bytes and `own` for `plan.own_bytes`, by this thread alone.
pub unsafe fn convert_row(kernels: &Kernels, plan: &Plan, s: &Shapes, x: *const u8, y: *mut u8, own: *mut u8) {
    let k = plan.k;
    // SAFETY: the caller's promise: rows hold `k` values; `own` has room for `k` floats where rows are not floats already.
    unsafe {
        let floats = if s.plain_rows() {
            x.cast::<f32>()
        } else {
            let to = if matches!(plan.act, ActForm::Floats) { y.cast::<f32>() } else { own.cast() };
            match s.type1 {
                GGML_TYPE_F16 => (kernels.f16_to_f32)(k, to, x.cast()),
                GGML_TYPE_BF16 => (kernels.bf16_to_f32)(k, to, x.cast()),
                // `Shapes::check` lets no other type come here but F32 with gaps.
                _ => (0..k).for_each(|i| to.add(i).write(x.add(i * s.nb1[0]).cast::<f32>().read_unaligned())),
            }
            to.cast_const()
        };
        match plan.act {
            ActForm::AsIs | ActForm::Floats => {}
            ActForm::Blocks(d) => {
                if let Some(from_float) = kernels.from_float[d as usize] {
                    from_float(floats, y, k);
                }
            }
            ActForm::Wide(gemv) => (gemv.act)(k, floats, y),
            ActForm::Bytes(form) => kernels.byte_tiles.act[form.index()](k, floats, y),
        }
    }
}
