//! The list of the block formats of weights, from which macros make what each of them needs, and the blocks as types
//! of [`Block`]s.

use super::block::{Block, Plain};
use super::*;
use crate::abi::ggml::ggml_type;

/// Calls the macro `then` with a line for each block format of weights:
///
/// `MODULE::BLOCK: TYPE, align BYTES, KIND, dot MODULE::BLOCK, [NAMES];`
///
/// KIND says how a row is encoded without importance: `coded` directly, `searched` with a lattice search, `decoded` not
/// at all. The block after `dot` is the format of activations for dot products. NAMES are the exported functions for
/// quantizing, for decoding a row and, if there is one, for encoding a row.
macro_rules! each_weight {
    ($then:path $(, $with:tt)?) => {
        $then! { $($with)?
            q1_0::BlockQ1_0: GGML_TYPE_Q1_0, align 2, coded, dot q8_0::BlockQ8_0, [quantize_q1_0 dequantize_row_q1_0 quantize_row_q1_0_ref];
            q2_0::BlockQ2_0: GGML_TYPE_Q2_0, align 2, coded, dot q8_0::BlockQ8_0, [quantize_q2_0 dequantize_row_q2_0 quantize_row_q2_0_ref];
            q4_0::BlockQ4_0: GGML_TYPE_Q4_0, align 2, coded, dot q8_0::BlockQ8_0, [quantize_q4_0 dequantize_row_q4_0 quantize_row_q4_0_ref];
            q4_1::BlockQ4_1: GGML_TYPE_Q4_1, align 2, coded, dot q8_1::BlockQ8_1, [quantize_q4_1 dequantize_row_q4_1 quantize_row_q4_1_ref];
            q5_0::BlockQ5_0: GGML_TYPE_Q5_0, align 2, coded, dot q8_0::BlockQ8_0, [quantize_q5_0 dequantize_row_q5_0 quantize_row_q5_0_ref];
            q5_1::BlockQ5_1: GGML_TYPE_Q5_1, align 2, coded, dot q8_1::BlockQ8_1, [quantize_q5_1 dequantize_row_q5_1 quantize_row_q5_1_ref];
            q8_0::BlockQ8_0: GGML_TYPE_Q8_0, align 2, coded, dot q8_0::BlockQ8_0, [quantize_q8_0 dequantize_row_q8_0 quantize_row_q8_0_ref];
            mxfp4::BlockMxfp4: GGML_TYPE_MXFP4, align 1, coded, dot q8_0::BlockQ8_0, [quantize_mxfp4 dequantize_row_mxfp4 quantize_row_mxfp4_ref];
            nvfp4::BlockNvfp4: GGML_TYPE_NVFP4, align 1, coded, dot q8_0::BlockQ8_0, [quantize_nvfp4 dequantize_row_nvfp4 quantize_row_nvfp4_ref];
            q2_k::BlockQ2K: GGML_TYPE_Q2_K, align 2, coded, dot q8_k::BlockQ8K, [quantize_q2_K dequantize_row_q2_K quantize_row_q2_K_ref];
            q3_k::BlockQ3K: GGML_TYPE_Q3_K, align 2, coded, dot q8_k::BlockQ8K, [quantize_q3_K dequantize_row_q3_K quantize_row_q3_K_ref];
            q4_k::BlockQ4K: GGML_TYPE_Q4_K, align 2, coded, dot q8_k::BlockQ8K, [quantize_q4_K dequantize_row_q4_K quantize_row_q4_K_ref];
            q5_k::BlockQ5K: GGML_TYPE_Q5_K, align 2, coded, dot q8_k::BlockQ8K, [quantize_q5_K dequantize_row_q5_K quantize_row_q5_K_ref];
            q6_k::BlockQ6K: GGML_TYPE_Q6_K, align 2, coded, dot q8_k::BlockQ8K, [quantize_q6_K dequantize_row_q6_K quantize_row_q6_K_ref];
            iq2_xxs::BlockIq2Xxs: GGML_TYPE_IQ2_XXS, align 2, decoded, dot q8_k::BlockQ8K, [quantize_iq2_xxs dequantize_row_iq2_xxs];
            iq2_xs::BlockIq2Xs: GGML_TYPE_IQ2_XS, align 2, decoded, dot q8_k::BlockQ8K, [quantize_iq2_xs dequantize_row_iq2_xs];
            iq2_s::BlockIq2S: GGML_TYPE_IQ2_S, align 2, searched, dot q8_k::BlockQ8K, [quantize_iq2_s dequantize_row_iq2_s quantize_row_iq2_s_ref];
            iq3_xxs::BlockIq3Xxs: GGML_TYPE_IQ3_XXS, align 2, searched, dot q8_k::BlockQ8K, [quantize_iq3_xxs dequantize_row_iq3_xxs quantize_row_iq3_xxs_ref];
            iq3_s::BlockIq3S: GGML_TYPE_IQ3_S, align 2, searched, dot q8_k::BlockQ8K, [quantize_iq3_s dequantize_row_iq3_s quantize_row_iq3_s_ref];
            iq1_s::BlockIq1S: GGML_TYPE_IQ1_S, align 2, decoded, dot q8_k::BlockQ8K, [quantize_iq1_s dequantize_row_iq1_s];
            iq1_m::BlockIq1M: GGML_TYPE_IQ1_M, align 1, decoded, dot q8_k::BlockQ8K, [quantize_iq1_m dequantize_row_iq1_m];
            iq4_nl::BlockIq4Nl: GGML_TYPE_IQ4_NL, align 2, coded, dot q8_0::BlockQ8_0, [quantize_iq4_nl dequantize_row_iq4_nl quantize_row_iq4_nl_ref];
            iq4_xs::BlockIq4Xs: GGML_TYPE_IQ4_XS, align 2, coded, dot q8_k::BlockQ8K, [quantize_iq4_xs dequantize_row_iq4_xs quantize_row_iq4_xs_ref];
            tq1_0::BlockTq1_0: GGML_TYPE_TQ1_0, align 2, coded, dot q8_k::BlockQ8K, [quantize_tq1_0 dequantize_row_tq1_0 quantize_row_tq1_0_ref];
            tq2_0::BlockTq2_0: GGML_TYPE_TQ2_0, align 2, coded, dot q8_k::BlockQ8K, [quantize_tq2_0 dequantize_row_tq2_0 quantize_row_tq2_0_ref];
        }
    };
}
pub(crate) use each_weight;

macro_rules! plain {
    ($($module:ident::$block:ident: $type:ident, align $align:literal $(, $kind:ident, dot $act:path, [$($name:ident)*])?;)*) => {$(
        // SAFETY: `repr(C)` with integers, floats and arrays of them, so every bit pattern is a value. There is no
        // padding, because the assertion below compares the size with that of the format, the sum of the fields.
        unsafe impl Plain for $module::$block {}
        impl Block for $module::$block {
            const TYPE: ggml_type = ggml_type::$type;
            const VALUES: usize = Self::TYPE.blck_size() as usize;
        }
        const _: () = assert!(
            size_of::<$module::$block>() == ggml_type::$type.type_size() && align_of::<$module::$block>() == $align
        );
    )*};
}

each_weight!(plain);
// Formats of intermediate results.
plain! {
    q8_1::BlockQ8_1: GGML_TYPE_Q8_1, align 2;
    q8_k::BlockQ8K: GGML_TYPE_Q8_K, align 4;
}
