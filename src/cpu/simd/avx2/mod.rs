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

use super::gemv::Rows;
use super::table::Kernels;
use super::{argsort, blocks, convert, float, interleave, products, recurrent, tile};
use crate::abi::ggml::ggml_type::*;
use crate::quant::{self, types};

float::instantiate!(crate::cpu::simd::avx2::lanes::Avx2, "avx2,fma,f16c");
blocks::instantiate!(crate::cpu::simd::avx2::lanes::Avx2Dots, "avx2,fma,f16c");
argsort::instantiate!(crate::cpu::simd::avx2::lanes::Avx2Ranks, "avx2,fma,f16c");
convert::instantiate!(crate::cpu::simd::avx2::lanes::Avx2, "avx2,fma,f16c");
tile::instantiate_bytes!(crate::cpu::simd::avx2::lanes::Avx2Dots, [4 3 2 1], narrow, "avx2,fma,f16c");
products::instantiate!(crate::cpu::simd::avx2::lanes::Avx2, [3 2 1], "avx2,fma,f16c");
recurrent::instantiate!(crate::cpu::simd::avx2::lanes::Avx2, "avx2,fma,f16c");
interleave::instantiate!(crate::cpu::simd::avx2::lanes::Avx2Dots, few 8, [4 3 2 1], "avx2,fma,f16c");

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
    fill_gemv(k);
}

/// Sets the matrix times column kernels in the table, which has the tiles of this level.
fn fill_gemv(k: &mut Kernels) {
    use block_kernels::rows as unpacked;
    use gemv::{small, wide};
    k.gemv = [None; types::COUNT];
    for (t, rows) in super::gemv::rows_by_format!(small, wide).into_iter().chain(points::ALL) {
        k.set_gemv(t, rows);
    }
    // These are interleaved faster than they are unpacked, except for a few rows.
    for (t, rows) in [
        (GGML_TYPE_NVFP4, unpacked::<quant::nvfp4::BlockNvfp4> as Rows),
        (GGML_TYPE_TQ1_0, unpacked::<quant::tq1_0::BlockTq1_0>),
        (GGML_TYPE_Q1_0, unpacked::<quant::q1_0::BlockQ1_0>),
        (GGML_TYPE_Q2_0, unpacked::<quant::q2_0::BlockQ2_0>),
    ] {
        k.set_gemv(t, rows);
        if let Some(gemv) = &mut k.gemv[t as usize] {
            gemv.few_rows = true;
        }
    }
}
