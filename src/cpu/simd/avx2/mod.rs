//! x86-64 with AVX2, FMA and F16C. Who lives here: `lanes` (eight lanes for the float kernels).

pub mod lanes;

use super::{Kernels, float};

float::instantiate!(lanes::Avx2, "avx2,fma,f16c");

/// Puts this level's kernels into the table.
///
/// # Safety
/// The processor has AVX2, FMA and F16C.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
}
