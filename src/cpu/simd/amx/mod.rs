//! Kernels for x86-64 with AMX, eight registers of up to 16 rows of 64 bytes, and AVX-512. Files: `numbers` (products
//! of bfloat16s and halves), `registers`.
//!
//! The instructions are written as assembly, because the compiler's functions for them are not stable. Nothing else
//! uses these registers: the contract of a C function lets it change them, and a kernel leaves them in their initial
//! state, in which the system need not save them.

mod numbers;
mod registers;

use super::interleave::MAX_FEW;
use super::table::Kernels;
use crate::abi::ggml::ggml_type::{self, *};

/// Sets the kernels of this level in a table that has those for AVX-512 with BF16.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and AMX for bfloat16s, which the process may use.
pub(super) unsafe fn fill(k: &mut Kernels) {
    k.products.matrix = Some([numbers::F16, numbers::BF16]);
    // These processors multiply two vectors of bytes at a time, so that tiles are the faster way for fewer columns than
    // elsewhere (docs/PERFORMANCE.md).
    for format in ggml_type::ALL {
        if let Some(kernels) = &mut k.interleaved[format as usize] {
            kernels.few = kernels.few.min(few_columns(format));
        }
    }
}

/// The greatest number of columns for which interleaved rows are multiplied without unpacking them first.
fn few_columns(format: ggml_type) -> usize {
    match format {
        GGML_TYPE_Q2_K | GGML_TYPE_Q4_K => MAX_FEW,
        GGML_TYPE_Q5_K | GGML_TYPE_Q6_K | GGML_TYPE_Q8_0 | GGML_TYPE_IQ4_XS | GGML_TYPE_TQ2_0 => 12,
        _ => 9,
    }
}
