//! x86-64 with AVX-512 F, BW, DQ and VL. Who lives here: `lanes` (sixteen lanes for the float kernels).

pub mod lanes;

use super::{Kernels, float};

float::instantiate!(lanes::Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");

/// Puts this level's kernels into the table.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and all that `avx2` needs.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
}
