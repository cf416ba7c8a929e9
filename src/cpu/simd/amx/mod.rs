//! Kernels for x86-64 with AMX, eight registers of up to 16 rows of 64 bytes, and AVX-512. Files: `numbers` (products
//! of bfloat16s and halves).
//!
//! The instructions are written as assembly, because the compiler's functions for them are not stable. Nothing else
//! uses these registers: the contract of a C function lets it change them, and a kernel leaves them in their initial
//! state, in which the system need not save them.

mod numbers;

use super::Kernels;
use super::interleave::MAX_FEW;
use crate::abi::ggml::ggml_type::{self, *};
use std::arch::asm;

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

/// Shapes of the tile registers.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Registers with the numbers of rows and bytes of a row that are given for each.
    const fn new(all: [(usize, usize); 8]) -> Self {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut i = 0;
        while i < all.len() {
            assert!(all[i].0 <= 16 && all[i].1 <= 64 && all[i].1.is_multiple_of(4));
            (rows[i], row_bytes[i]) = (all[i].0 as u8, all[i].1 as u16);
            i += 1;
        }
        Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Tile registers in use.
struct InUse;

impl InUse {
    /// Gives the registers their shapes.
    ///
    /// # Safety
    /// The processor has AMX, and the process may use it.
    #[inline(always)]
    unsafe fn with(shapes: &Shapes) -> Self {
        // SAFETY: the instruction reads the 64 bytes of `shapes`; the caller promises the rest.
        unsafe { asm!("ldtilecfg [{}]", in(reg) shapes, options(nostack, preserves_flags, readonly)) };
        Self
    }
}

impl Drop for InUse {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the registers are in use, so the processor has the instruction.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
