//! Features of this processor, under the names of the C interface.

use std::ffi::CStr;

/// A feature and whether this processor has it.
pub struct Feature {
    /// Name in the feature list.
    pub name: &'static CStr,
    /// Whether this processor has it.
    pub present: fn() -> bool,
}

macro_rules! x86 {
    ($($doc:literal $name:ident: $($feature:tt)&&+;)*) => {$(
        #[doc = $doc]
        pub fn $name() -> bool {
            #[cfg(target_arch = "x86_64")]
            {
                $(std::arch::is_x86_feature_detected!($feature))&&+
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                false
            }
        }
    )*};
}

x86! {
    "SSE3." sse3: "sse3";
    "SSSE3." ssse3: "ssse3";
    "AVX." avx: "avx";
    "AVX2." avx2: "avx2";
    "Bit manipulation, second set." bmi2: "bmi2";
    "Half-precision conversion." f16c: "f16c";
    "Fused multiply-add." fma: "fma";
    "AVX-512 foundation." avx512: "avx512f";
    "AVX-512 byte permutes." avx512_vbmi: "avx512vbmi";
    "AVX-512 neural network instructions." avx512_vnni: "avx512vnni";
    "AVX-512 brain floats." avx512_bf16: "avx512bf16";
    "AVX neural network instructions." avx_vnni: "avxvnni";
}

/// AMX for 8-bit integers, if the process may use it.
pub fn amx_int8() -> bool {
    crate::sys::tiles::tiles().bytes
}

/// Whether halves become floats in other units than those that multiply, as with all processors of AMD that have AVX2.
/// Those of Intel use one of the two that multiply.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub fn converts_beside_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        #[allow(unused_unsafe)] // newer compilers know that it is safe
        // SAFETY: every x86-64 has the instruction, and leaf 0.
        let maker = unsafe { std::arch::x86_64::__cpuid(0) };
        let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).concat();
        name == b"AuthenticAMD" || name == b"HygonGenuine"
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

macro_rules! aarch64 {
    ($($doc:literal $name:ident: $feature:tt;)*) => {$(
        #[doc = $doc]
        pub fn $name() -> bool {
            #[cfg(target_arch = "aarch64")]
            {
                std::arch::is_aarch64_feature_detected!($feature)
            }
            #[cfg(not(target_arch = "aarch64"))]
            {
                false
            }
        }
    )*};
}

aarch64! {
    "ARM vectors." neon: "neon";
    "ARM dot products." dotprod: "dotprod";
    "ARM half-precision arithmetic." fp16: "fp16";
    "ARM byte matrix products." i8mm: "i8mm";
}

/// ARM fused multiply-add, which every 64-bit ARM has.
pub fn arm_fma() -> bool {
    neon()
}

/// All features, in the order in which hosts print them.
pub static ALL: [Feature; 18] = [
    Feature { name: c"SSE3", present: sse3 },
    Feature { name: c"SSSE3", present: ssse3 },
    Feature { name: c"AVX", present: avx },
    Feature { name: c"AVX_VNNI", present: avx_vnni },
    Feature { name: c"AVX2", present: avx2 },
    Feature { name: c"F16C", present: f16c },
    Feature { name: c"FMA", present: fma },
    Feature { name: c"BMI2", present: bmi2 },
    Feature { name: c"AVX512", present: avx512 },
    Feature { name: c"AVX512_VBMI", present: avx512_vbmi },
    Feature { name: c"AVX512_VNNI", present: avx512_vnni },
    Feature { name: c"AVX512_BF16", present: avx512_bf16 },
    Feature { name: c"AMX_INT8", present: amx_int8 },
    Feature { name: c"NEON", present: neon },
    Feature { name: c"ARM_FMA", present: arm_fma },
    Feature { name: c"FP16_VA", present: fp16 },
    Feature { name: c"MATMUL_INT8", present: i8mm },
    Feature { name: c"DOTPROD", present: dotprod },
];
