//! The features of the processor at run time, not those that the compiler targets: one binary selects its kernels
//! for the processor. Extensions that no kernel uses are reported as absent.

use crate::cpu::features;
use crate::guard::guarded;
use std::ffi::c_int;

/// 1 when the processor has SSE3, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_sse3() -> c_int {
    features::sse3().into()
}

/// 1 when the processor has SSSE3, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_ssse3() -> c_int {
    features::ssse3().into()
}

/// 1 when the processor has AVX, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx() -> c_int {
    features::avx().into()
}

/// 1 when the processor has AVX-VNNI, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx_vnni() -> c_int {
    features::avx_vnni().into()
}

/// 1 when the processor has AVX2, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx2() -> c_int {
    features::avx2().into()
}

/// 1 when the processor has BMI2, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_bmi2() -> c_int {
    features::bmi2().into()
}

/// 1 when the processor has F16C, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_f16c() -> c_int {
    features::f16c().into()
}

/// 1 when the processor has FMA, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_fma() -> c_int {
    features::fma().into()
}

/// 1 when the processor has AVX-512 F, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx512() -> c_int {
    features::avx512().into()
}

/// 1 when the processor has AVX-512 VBMI, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx512_vbmi() -> c_int {
    features::avx512_vbmi().into()
}

/// 1 when the processor has AVX-512 VNNI, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx512_vnni() -> c_int {
    features::avx512_vnni().into()
}

/// 1 when the processor has AVX-512 BF16, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_avx512_bf16() -> c_int {
    features::avx512_bf16().into()
}

/// 1 when the processor has AMX byte products, and the process may use them.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_amx_int8() -> c_int {
    features::amx_int8().into()
}

/// 1 when the processor has ARM NEON, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_neon() -> c_int {
    features::neon().into()
}

/// 1 when the processor has ARM fused multiply-add, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_arm_fma() -> c_int {
    features::arm_fma().into()
}

/// 1 when the processor has ARM half-precision arithmetic, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_fp16_va() -> c_int {
    features::fp16().into()
}

/// 1 when the processor has ARM dot products, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_dotprod() -> c_int {
    features::dotprod().into()
}

/// 1 when the processor has ARM byte matrix products, else 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_matmul_int8() -> c_int {
    features::i8mm().into()
}

/// 1 when ARM SVE is used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_sve() -> c_int {
    0
}

/// Bytes of an ARM SVE register; 0: no kernel here uses it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_get_sve_cnt() -> c_int {
    0
}

/// 1 when ARM SME is used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_sme() -> c_int {
    0
}

/// 1 when ARM SME2 is used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_sme2() -> c_int {
    0
}

/// 1 when RISC-V vectors are used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_riscv_v() -> c_int {
    0
}

/// Bytes of a RISC-V vector register; 0: no kernel here uses it.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_get_rvv_vlen() -> c_int {
    0
}

/// 1 when POWER VSX is used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_vsx() -> c_int {
    0
}

/// 1 when z/Architecture vectors are used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_vxe() -> c_int {
    0
}

/// 1 when WebAssembly SIMD is used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_wasm_simd() -> c_int {
    0
}

/// 1 when llamafile's matrix kernels are used, else 0; no kernel here does.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_cpu_has_llamafile() -> c_int {
    0
}
