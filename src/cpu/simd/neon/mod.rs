//! Kernels for 64-bit ARM. Files: `lanes` (eight lanes of floats), `dots` (of integers), `gemv` (matrix times column;
//! `codes`: of which formats), `pairs` (tiles of bytes by products of small matrices).

mod codes;
mod dots;
mod gemv;
mod lanes;
mod pairs;

use super::table::Kernels;
use super::{argsort, convert, float, products, recurrent};

float::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");
argsort::instantiate!(crate::cpu::simd::neon::lanes::NeonRanks, "neon");
convert::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");
// Three columns of four rows and what is multiplied would take all 32 registers, and some more.
products::instantiate!(crate::cpu::simd::neon::lanes::Neon, [2 1], "neon");
recurrent::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");

/// Kernels that multiply bytes, and a function `fill` that sets them in the table.
macro_rules! level {
    ($name:ident, $dots:ty, $small:ident, $large:ident, $features:literal) => {
        mod $name {
            use crate::abi::ggml::ggml_type::*;
            use crate::cpu::simd::gemv::{Rows, rows_by_format};
            use crate::cpu::simd::neon::codes;
            use crate::cpu::simd::neon::gemv::{$large, $small};
            use crate::cpu::simd::table::Kernels;
            use crate::cpu::simd::{blocks, interleave, tile};
            use crate::quant::*;
            blocks::instantiate!($dots, $features);
            tile::instantiate_bytes!($dots, [3 2 1], signed_only, $features);
            interleave::instantiate!($dots, few 8, [3 2 1], $features);

            /// Sets the kernels in the table.
            ///
            /// # Safety
            /// The processor has the features.
            pub unsafe fn fill(k: &mut Kernels) {
                fill_blocks(k);
                k.byte_tiles = byte_tiles::table();
                k.interleaved = interleaved::table();
                each_weight!(blocks::set_rows, (k));
                for (t, rows) in rows_by_format!($small, $large) {
                    k.set_gemv(t, rows);
                }
            }
        }
    };
}

level!(bytes, crate::cpu::simd::neon::dots::NeonDots<false>, small, large, "neon");
level!(bytes_dot, crate::cpu::simd::neon::dots::NeonDots<true>, small_dot, large_dot, "neon,dotprod");

/// Sets the kernels of this level in the table.
///
/// # Safety
/// The processor has the vectors of 64-bit ARM.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
    k.products = row_products::PRODUCTS;
    k.products.convert_from = products::ConvertFrom::ARM;
    k.recurrent = recurrent_kernels::RECURRENT;
    fill_conversions(k);
    fill_order(k);
    // SAFETY: forwarded to the caller.
    unsafe { bytes::fill(k) }
}

/// Sets the kernels of the level above in the table.
///
/// # Safety
/// The processor has the vectors of 64-bit ARM and dot products of bytes.
pub(super) unsafe fn fill_dot(k: &mut Kernels) {
    // SAFETY: forwarded to the caller.
    unsafe { bytes_dot::fill(k) }
}

/// Sets the kernels of the level above that in the table.
///
/// # Safety
/// The processor has the vectors of 64-bit ARM, dot products of bytes and products of matrices of bytes.
pub(super) unsafe fn fill_i8mm(k: &mut Kernels) {
    pairs::fill(k);
}
