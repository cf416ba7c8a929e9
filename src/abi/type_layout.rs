//! How many elements a block of each number format holds, and in how many bytes.

use super::ggml::ggml_type;

impl ggml_type {
    /// Elements a block holds and bytes it takes.
    const fn block(self) -> (i64, usize) {
        use ggml_type::*;
        match self {
            GGML_TYPE_F32 => (1, 4),
            GGML_TYPE_F16 => (1, 2),
            GGML_TYPE_Q4_0 => (32, 18),
            GGML_TYPE_Q4_1 => (32, 20),
            GGML_TYPE_Q5_0 => (32, 22),
            GGML_TYPE_Q5_1 => (32, 24),
            GGML_TYPE_Q8_0 => (32, 34),
            GGML_TYPE_Q8_1 => (32, 36),
            GGML_TYPE_Q2_K => (256, 84),
            GGML_TYPE_Q3_K => (256, 110),
            GGML_TYPE_Q4_K => (256, 144),
            GGML_TYPE_Q5_K => (256, 176),
            GGML_TYPE_Q6_K => (256, 210),
            GGML_TYPE_Q8_K => (256, 292),
            GGML_TYPE_IQ2_XXS => (256, 66),
            GGML_TYPE_IQ2_XS => (256, 74),
            GGML_TYPE_IQ3_XXS => (256, 98),
            GGML_TYPE_IQ1_S => (256, 50),
            GGML_TYPE_IQ4_NL => (32, 18),
            GGML_TYPE_IQ3_S => (256, 110),
            GGML_TYPE_IQ2_S => (256, 82),
            GGML_TYPE_IQ4_XS => (256, 136),
            GGML_TYPE_I8 => (1, 1),
            GGML_TYPE_I16 => (1, 2),
            GGML_TYPE_I32 => (1, 4),
            GGML_TYPE_I64 => (1, 8),
            GGML_TYPE_F64 => (1, 8),
            GGML_TYPE_IQ1_M => (256, 56),
            GGML_TYPE_BF16 => (1, 2),
            GGML_TYPE_TQ1_0 => (256, 54),
            GGML_TYPE_TQ2_0 => (256, 66),
            GGML_TYPE_MXFP4 => (32, 17),
            GGML_TYPE_NVFP4 => (64, 36),
            GGML_TYPE_Q1_0 => (128, 18),
            GGML_TYPE_Q2_0 => (64, 18),
            GGML_TYPE_F8_E4M3 => (1, 1),
            GGML_TYPE_COUNT => (0, 0),
        }
    }

    /// Elements in a block; 1 for plain numbers.
    #[inline]
    pub const fn blck_size(self) -> i64 {
        self.block().0
    }

    /// Bytes of a block (of an element, for plain numbers).
    #[inline]
    pub const fn type_size(self) -> usize {
        self.block().1
    }

    /// Bytes of a row of `ne` elements, or `None` when `ne` is negative, no multiple of the block, or the size does not fit.
    #[inline]
    pub fn row_size(self, ne: i64) -> Option<usize> {
        let (elements, bytes) = self.block();
        if ne < 0 || elements == 0 || ne % elements != 0 {
            return None;
        }
        usize::try_from(ne / elements).ok()?.checked_mul(bytes)
    }
}
