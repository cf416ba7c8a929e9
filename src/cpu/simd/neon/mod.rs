//! Kernels for 64-bit ARM. Files: `lanes` (eight lanes for the float and block kernels).

mod lanes;

use super::table::Kernels;
use super::{argsort, convert, float, products, recurrent};

float::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");
argsort::instantiate!(crate::cpu::simd::neon::lanes::NeonRanks, "neon");
convert::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");
products::instantiate!(crate::cpu::simd::neon::lanes::Neon, [3 2 1], "neon");
recurrent::instantiate!(crate::cpu::simd::neon::lanes::Neon, "neon");

/// Kernels that multiply bytes, and a function `fill` that sets them in the table.
macro_rules! level {
    ($name:ident, $dots:ty, $features:literal) => {
        mod $name {
            use crate::cpu::simd::table::Kernels;
            use crate::cpu::simd::{blocks, interleave, tile};
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
                {
                    use crate::abi::ggml::ggml_type::*;
                    use crate::quant::*;
                    each_weight!(blocks::set_rows, (k));
                }
            }
        }
    };
}
level!(bytes, crate::cpu::simd::neon::lanes::NeonDots<false>, "neon");
level!(bytes_dot, crate::cpu::simd::neon::lanes::NeonDots<true>, "neon,dotprod");

/// Sets the kernels of this level in the table.
///
/// # Safety
/// The processor has the vectors of 64-bit ARM.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
    k.products = row_products::PRODUCTS;
    k.products.convert_from = products::ConvertFrom::FAST;
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
