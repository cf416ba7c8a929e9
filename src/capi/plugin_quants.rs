//! Row functions that loadable backends take from libggml-base by name. In no public header; the names are part of what
//! makes this library a drop-in for such modules.

use crate::abi::ggml::ggml_type;
use crate::capi::ggml::quants::{ggml_quantize_chunk, values, values_mut};
use crate::guard::guarded;
use crate::quant::block::{Block, Decode, Encode, decode_row, encode_row};
use crate::quant::lattice::EncodeSearch;
use crate::quant::*;
use std::ffi::c_void;

/// Bytes of the blocks that `k` values fill, as a length for `values`.
fn bytes<B: Block>(k: i64) -> i64 {
    (k / B::VALUES as i64).saturating_mul(size_of::<B>() as i64)
}

/// Writes `k` values as blocks.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
unsafe fn encode<B: Encode>(x: *const f32, y: *mut B, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode_row::<B>(values(x, k), values_mut(y.cast(), bytes::<B>(k))) }
}

/// Writes `k` values as blocks, with the lattice search that the type's entry in the table names.
///
/// # Safety
/// As for [`encode`].
unsafe fn search<B: EncodeSearch>(x: *const f32, y: *mut B, k: i64) {
    if let Some(from_float) = traits(B::TYPE).from_float_ref {
        // SAFETY: forwarded to the caller.
        unsafe { from_float(values(x, k), values_mut(y.cast(), bytes::<B>(k))) }
    }
}

/// Reads `k` values from blocks.
///
/// # Safety
/// `x` points to the blocks of `k` values, `y` to room for `k` floats.
unsafe fn decode<B: Decode>(x: *const B, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { decode_row::<B>(values(x.cast(), bytes::<B>(k)), values_mut(y, k)) }
}

/// Writes `k` floats at `x` as q1_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q1_0_ref(x: *const f32, y: *mut q1_0::BlockQ1_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q2_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q2_0_ref(x: *const f32, y: *mut q2_0::BlockQ2_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q4_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q4_0_ref(x: *const f32, y: *mut q4_0::BlockQ4_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q4_1 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q4_1_ref(x: *const f32, y: *mut q4_1::BlockQ4_1, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q5_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q5_0_ref(x: *const f32, y: *mut q5_0::BlockQ5_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q5_1 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q5_1_ref(x: *const f32, y: *mut q5_1::BlockQ5_1, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q8_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q8_0_ref(x: *const f32, y: *mut q8_0::BlockQ8_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q8_1 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q8_1_ref(x: *const f32, y: *mut q8_1::BlockQ8_1, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as mxfp4 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_mxfp4_ref(x: *const f32, y: *mut mxfp4::BlockMxfp4, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as nvfp4 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_nvfp4_ref(x: *const f32, y: *mut nvfp4::BlockNvfp4, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q2_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q2_K_ref(x: *const f32, y: *mut q2_k::BlockQ2K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q3_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q3_K_ref(x: *const f32, y: *mut q3_k::BlockQ3K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q4_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q4_K_ref(x: *const f32, y: *mut q4_k::BlockQ4K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q5_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q5_K_ref(x: *const f32, y: *mut q5_k::BlockQ5K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q6_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q6_K_ref(x: *const f32, y: *mut q6_k::BlockQ6K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as q8_K blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_q8_K_ref(x: *const f32, y: *mut q8_k::BlockQ8K, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as tq1_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_tq1_0_ref(x: *const f32, y: *mut tq1_0::BlockTq1_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as tq2_0 blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_tq2_0_ref(x: *const f32, y: *mut tq2_0::BlockTq2_0, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as iq4_nl blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_iq4_nl_ref(x: *const f32, y: *mut iq4_nl::BlockIq4Nl, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as iq4_xs blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_iq4_xs_ref(x: *const f32, y: *mut iq4_xs::BlockIq4Xs, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { encode(x, y, k) }
}

/// Writes `k` floats at `x` as iq3_s blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_iq3_s_ref(x: *const f32, y: *mut iq3_s::BlockIq3S, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { search(x, y, k) }
}

/// Writes `k` floats at `x` as iq3_xxs blocks at `y`, deterministically and without importance.
///
/// # Safety
/// `x` points to `k` floats, `y` to room for their blocks.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_row_iq3_xxs_ref(x: *const f32, y: *mut iq3_xxs::BlockIq3Xxs, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { search(x, y, k) }
}

/// Reads the q2_K blocks of `k` values at `x` as floats at `y`.
///
/// # Safety
/// `x` points to the blocks of `k` values, `y` to room for `k` floats.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dequantize_row_q2_K(x: *const q2_k::BlockQ2K, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { decode(x, y, k) }
}

/// Reads the q3_K blocks of `k` values at `x` as floats at `y`.
///
/// # Safety
/// `x` points to the blocks of `k` values, `y` to room for `k` floats.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dequantize_row_q3_K(x: *const q3_k::BlockQ3K, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { decode(x, y, k) }
}

/// Reads the q5_K blocks of `k` values at `x` as floats at `y`.
///
/// # Safety
/// `x` points to the blocks of `k` values, `y` to room for `k` floats.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dequantize_row_q5_K(x: *const q5_k::BlockQ5K, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { decode(x, y, k) }
}

/// Reads the q6_K blocks of `k` values at `x` as floats at `y`.
///
/// # Safety
/// `x` points to the blocks of `k` values, `y` to room for `k` floats.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dequantize_row_q6_K(x: *const q6_k::BlockQ6K, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { decode(x, y, k) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq4_xs blocks, with a weight for each column or NULL. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq4_xs(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ4_XS as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq2_s blocks, with a weight for each column or NULL. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq2_s(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ2_S as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq2_xs blocks, with a weight for each column. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq2_xs(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ2_XS as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq2_xxs blocks, with a weight for each column. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq2_xxs(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ2_XXS as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq1_s blocks, with a weight for each column. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq1_s(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ1_S as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

/// Writes `nrows` rows of `n_per_row` floats as iq1_m blocks, with a weight for each column or NULL. Returns the bytes written.
///
/// # Safety
/// `src`, `dst` and `imatrix` hold what the shape says.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantize_iq1_m(
    src: *const f32,
    dst: *mut c_void,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    // SAFETY: forwarded to the caller.
    unsafe { ggml_quantize_chunk(ggml_type::GGML_TYPE_IQ1_M as i32, src, dst, 0, nrows, n_per_row, imatrix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_there_and_back_by_name() {
        let x: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        let (mut blocks, mut y) = (vec![0u8; 2 * 210], vec![0.0; 512]);
        // SAFETY: two blocks and their 512 values.
        unsafe {
            quantize_row_q6_K_ref(x.as_ptr(), blocks.as_mut_ptr().cast(), 512);
            dequantize_row_q6_K(blocks.as_ptr().cast(), y.as_mut_ptr(), 512);
        }
        assert!(x.iter().zip(&y).all(|(a, b)| (a - b).abs() < 0.03));
        let mut again = vec![0u8; 2 * 136];
        // SAFETY: two rows of one block each.
        let n = unsafe { quantize_iq4_xs(x.as_ptr(), again.as_mut_ptr().cast(), 2, 256, std::ptr::null()) };
        assert_eq!(n, again.len());
    }
}
