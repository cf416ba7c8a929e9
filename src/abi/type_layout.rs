//! The number formats: name, elements a block holds, bytes of a block. The only table of these facts.

use super::ggml::ggml_type;
use std::ffi::CStr;

/// Hands `TYPE name elements bytes;` for each number format to the macro `then`.
macro_rules! each_type {
    ($then:ident) => {
        $then! {
            GGML_TYPE_F32 c"f32" 1 4;
            GGML_TYPE_F16 c"f16" 1 2;
            GGML_TYPE_Q4_0 c"q4_0" 32 18;
            GGML_TYPE_Q4_1 c"q4_1" 32 20;
            GGML_TYPE_Q5_0 c"q5_0" 32 22;
            GGML_TYPE_Q5_1 c"q5_1" 32 24;
            GGML_TYPE_Q8_0 c"q8_0" 32 34;
            GGML_TYPE_Q8_1 c"q8_1" 32 36;
            GGML_TYPE_Q2_K c"q2_K" 256 84;
            GGML_TYPE_Q3_K c"q3_K" 256 110;
            GGML_TYPE_Q4_K c"q4_K" 256 144;
            GGML_TYPE_Q5_K c"q5_K" 256 176;
            GGML_TYPE_Q6_K c"q6_K" 256 210;
            GGML_TYPE_Q8_K c"q8_K" 256 292;
            GGML_TYPE_IQ2_XXS c"iq2_xxs" 256 66;
            GGML_TYPE_IQ2_XS c"iq2_xs" 256 74;
            GGML_TYPE_IQ3_XXS c"iq3_xxs" 256 98;
            GGML_TYPE_IQ1_S c"iq1_s" 256 50;
            GGML_TYPE_IQ4_NL c"iq4_nl" 32 18;
            GGML_TYPE_IQ3_S c"iq3_s" 256 110;
            GGML_TYPE_IQ2_S c"iq2_s" 256 82;
            GGML_TYPE_IQ4_XS c"iq4_xs" 256 136;
            GGML_TYPE_I8 c"i8" 1 1;
            GGML_TYPE_I16 c"i16" 1 2;
            GGML_TYPE_I32 c"i32" 1 4;
            GGML_TYPE_I64 c"i64" 1 8;
            GGML_TYPE_F64 c"f64" 1 8;
            GGML_TYPE_IQ1_M c"iq1_m" 256 56;
            GGML_TYPE_BF16 c"bf16" 1 2;
            GGML_TYPE_TQ1_0 c"tq1_0" 256 54;
            GGML_TYPE_TQ2_0 c"tq2_0" 256 66;
            GGML_TYPE_MXFP4 c"mxfp4" 32 17;
            GGML_TYPE_NVFP4 c"nvfp4" 64 36;
            GGML_TYPE_Q1_0 c"q1_0" 128 18;
            GGML_TYPE_Q2_0 c"q2_0" 64 18;
            GGML_TYPE_F8_E4M3 c"f8_e4m3" 1 1;
        }
    };
}
pub(crate) use each_type;

/// What the table says of a format.
#[derive(Clone, Copy)]
struct Facts {
    name: &'static CStr,
    elements: i64,
    bytes: usize,
}

macro_rules! facts {
    ($($ty:ident $name:literal $elements:literal $bytes:literal;)*) => {
        /// The table by the number of the format. Numbers of removed formats, and the mark after the last one, have no
        /// elements.
        static FACTS: [Facts; ggml_type::GGML_TYPE_COUNT as usize + 1] = {
            let mut all = [Facts { name: c"", elements: 0, bytes: 0 }; ggml_type::GGML_TYPE_COUNT as usize + 1];
            $(all[ggml_type::$ty as usize] = Facts { name: $name, elements: $elements, bytes: $bytes };)*
            all
        };
    };
}
each_type!(facts);

impl ggml_type {
    /// The entry of the table for the format. Kernels call this for each row.
    #[inline]
    const fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// Name, as in files and logs; empty for the mark after the last format.
    #[inline]
    pub const fn c_name(self) -> &'static CStr {
        self.facts().name
    }

    /// Elements in a block; 1 for plain numbers.
    #[inline]
    pub const fn blck_size(self) -> i64 {
        self.facts().elements
    }

    /// Bytes of a block (of an element, for plain numbers).
    #[inline]
    pub const fn type_size(self) -> usize {
        self.facts().bytes
    }

    /// Bytes of a row of `ne` elements, or `None` when `ne` is negative, no multiple of the block, or the size does not
    /// fit.
    #[inline]
    pub fn row_size(self, ne: i64) -> Option<usize> {
        let &Facts { elements, bytes, .. } = self.facts();
        if ne < 0 || elements == 0 || ne % elements != 0 {
            return None;
        }
        usize::try_from(ne / elements).ok()?.checked_mul(bytes)
    }
}
