//! How the CPU computes with number formats, and conversions of rows.

use crate::abi::cpu::ggml_type_traits_cpu;
use crate::abi::ggml::{ggml_bf16_t, ggml_fp16_t};
use crate::abi::raw;
use crate::cpu::{simd, traits};
use crate::guard::guarded;
use crate::quant::convert::{bf16_to_f32, f32_to_bf16};
use crate::sys::slices::source;

/// Returns the conversion and the dot product of a type. The result is static. A removed type has an entry without
/// functions, so that a host can iterate over all numbers; NULL for a number that is out of range.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_type_traits_cpu(ty: raw::ggml_type) -> *const ggml_type_traits_cpu {
    usize::try_from(ty).ok().and_then(traits::entry).map_or(std::ptr::null(), |t| t)
}

/// Prepares tables and selects the kernels for this processor. Optional: they are prepared on first use.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_init() {
    simd::kernels();
}

/// Elements of a row; a negative number counts as none.
fn len(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Copies `n` floats from `x` to `y`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_fp32_to_fp32(x: *const f32, y: *mut f32, n: i64) {
    if len(n) > 0 {
        // SAFETY: the header requires `n` floats at both addresses.
        unsafe { std::ptr::copy(x, y, len(n)) }
    }
}

/// Converts `n` floats at `x` to integers at `y`, rounding towards zero.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_fp32_to_i32(x: *const f32, y: *mut i32, n: i64) {
    for i in 0..len(n) {
        // SAFETY: the header requires `n` numbers at both addresses, and `i` is less than `n`.
        unsafe { y.add(i).write(x.add(i).read() as i32) }
    }
}

/// Converts `n` floats at `x` to half precision at `y`, rounding to nearest even. The two may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_fp32_to_fp16(x: *const f32, y: *mut ggml_fp16_t, n: i64) {
    if len(n) > 0 {
        // SAFETY: the header requires `n` numbers at both addresses; `source` copies those that `y` overlaps.
        unsafe { (simd::kernels().f32_to_f16)(len(n), y, source(x, n, y, n).as_ptr()) }
    }
}

/// Converts `n` half-precision numbers at `x` to floats at `y`. The two may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_fp16_to_fp32(x: *const ggml_fp16_t, y: *mut f32, n: i64) {
    if len(n) > 0 {
        // SAFETY: the header requires `n` numbers at both addresses; `source` copies those that `y` overlaps.
        unsafe { (simd::kernels().f16_to_f32)(len(n), y, source(x, n, y, n).as_ptr()) }
    }
}

/// Converts `n` floats at `x` to brain floats at `y`, rounding to nearest even.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_fp32_to_bf16(x: *const f32, y: *mut ggml_bf16_t, n: i64) {
    for i in 0..len(n) {
        // SAFETY: the header requires `n` numbers at both addresses, and `i` is less than `n`.
        unsafe { y.add(i).write(ggml_bf16_t { bits: f32_to_bf16(x.add(i).read()) }) }
    }
}

/// Converts `n` brain floats at `x` to floats at `y`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_bf16_to_fp32(x: *const ggml_bf16_t, y: *mut f32, n: i64) {
    for i in 0..len(n) {
        // SAFETY: the header requires `n` numbers at both addresses, and `i` is less than `n`.
        unsafe { y.add(i).write(bf16_to_f32(x.add(i).read().bits)) }
    }
}
