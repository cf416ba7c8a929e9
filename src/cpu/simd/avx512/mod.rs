//! Kernels for x86-64 with AVX-512 F, BW, DQ and VL. Files: `lanes` (sixteen lanes), `gemv` (matrix times column, with
//! VNNI), `gemv_codes` (the same for formats with grid points, ternary digits or small blocks), `bf16` (products of
//! bfloat16s).

mod bf16;
pub mod gemv;
mod gemv_codes;
pub mod lanes;

use super::gemv::{Gemv, RowForm};
use super::table::Kernels;
use super::{argsort, convert, float, interleave, products, recurrent, tile};
use crate::abi::ggml::ggml_type::{GGML_TYPE_BF16, GGML_TYPE_Q4_0};

float::instantiate!(crate::cpu::simd::avx512::lanes::Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
argsort::instantiate!(crate::cpu::simd::avx512::lanes::Avx512Ranks, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
convert::instantiate!(crate::cpu::simd::avx512::lanes::Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
tile::instantiate_bytes!(crate::cpu::simd::avx512::lanes::VnniDots, [6 4 3 2 1], signed_only, "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
products::instantiate!(crate::cpu::simd::avx512::lanes::Avx512, [6 4 3 2 1], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
recurrent::instantiate!(crate::cpu::simd::avx512::lanes::Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
interleave::instantiate!(crate::cpu::simd::avx512::lanes::VnniDots, few 16, [8 6 4 3 2 1], "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");

/// Sets the kernels of this level in the table. Without VNNI, the byte kernels remain those of AVX2: the registers of
/// AVX-512 are twice as wide, but it lacks the instruction that moves signs between bytes.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and the features that `avx2` requires.
pub(super) unsafe fn fill(k: &mut Kernels) {
    fill_float(k);
    // LLVM vectorises this decoder better for AVX2: 207 against 399 microseconds for 2^20 values.
    let q4_0 = k.to_float[GGML_TYPE_Q4_0 as usize];
    fill_conversions(k);
    k.to_float[GGML_TYPE_Q4_0 as usize] = q4_0;
    fill_order(k);
    k.products = row_products::PRODUCTS;
    k.products.convert_from = products::ConvertFrom::FAST;
    // The columns come from further away than these rows, once for all of them: caches of the second level have 512 KiB
    // and more here.
    k.products.block_rows = 64;
    k.recurrent = recurrent_kernels::RECURRENT;
}

/// Sets the kernels that require VNNI in the table.
///
/// # Safety
/// As for [`fill`], and the processor has AVX-512 VNNI.
pub(super) unsafe fn fill_vnni(k: &mut Kernels) {
    k.byte_tiles = byte_tiles::table();
    k.interleaved = interleaved::table();
    // Those of AVX2 remain for formats with a scale before every 32 values, because collecting the scales of sixteen
    // rows took longer, and for rows in a file.
    for (t, rows) in gemv::KERNELS.into_iter().chain(gemv_codes::KERNELS) {
        k.gemv_in_file[t as usize] = k.gemv[t as usize];
        k.gemv[t as usize] = Some(Gemv { layout: RowForm::Wide, act: gemv::act, rows, few_rows: false });
    }
}

/// Sets the kernels that require BF16 in the table.
///
/// # Safety
/// As for [`fill`], and the processor has AVX-512 BF16.
pub(super) unsafe fn fill_bf16(k: &mut Kernels) {
    k.products.together.bf16 = bf16::PRODUCTS;
    k.products.bf16_columns = GGML_TYPE_BF16;
}
