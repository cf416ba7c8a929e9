//! Kernels for x86-64 with AVX2, FMA and F16C. Files: `lanes` (eight lanes for the float and block kernels), `gemv`
//! (matrix times column; `codes` and `points`: of which formats), `vnni` (tiles and interleaved weights with AVX-VNNI),
//! `wide` (tiles of signed bytes).

mod codes;
mod gemv;
pub mod lanes;
mod points;
mod vnni;
mod wide;

pub use vnni::fill as fill_vnni;

use crate::cpu::features;

use super::{Kernels, blocks, convert, float, interleave, order, products, recurrent, tile};

float::instantiate!(lanes::Avx2, "avx2,fma,f16c");
blocks::instantiate!(lanes::Avx2Dots, "avx2,fma,f16c");
order::instantiate!(lanes::Avx2Ranks, "avx2,fma,f16c");
convert::instantiate!(lanes::Avx2, "avx2,fma,f16c");
tile::instantiate_bytes!(lanes::Avx2Dots, [4 3 2 1], narrow, "avx2,fma,f16c");
products::instantiate!(lanes::Avx2, [3 2 1], "avx2,fma,f16c");
recurrent::instantiate!(lanes::Avx2, "avx2,fma,f16c");
interleave::instantiate!(lanes::Avx2Dots, few 8, [4 3 2 1], "avx2,fma,f16c");

/// Sets the kernels of this level in the table.
///
/// # Safety
/// The processor has AVX2, FMA and F16C.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
    k.products = row_products::PRODUCTS;
    k.products.convert_from = match features::converts_beside_products() {
        true => products::ConvertFrom::BESIDE,
        false => products::ConvertFrom::FAST,
    };
    k.recurrent = recurrent_kernels::RECURRENT;
    fill_blocks(k);
    fill_conversions(k);
    fill_order(k);
    k.byte_tiles = byte_tiles::table();
    k.interleaved = interleaved::table();
    wide::fill(k);
    // SAFETY: forwarded to the caller.
    unsafe { gemv::fill(k) };
}
