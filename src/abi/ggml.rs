//! ggml.h: number types, tensors, operations, contexts.

use super::backend_impl::ggml_backend_buffer;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// "ggml" as a little-endian number: the magic of the files from before GGUF.
pub const GGML_FILE_MAGIC: u32 = 0x67676d6c;
/// Version of the file layout from before GGUF.
pub const GGML_FILE_VERSION: u32 = 2;
/// Version of the quantized block layouts; it changes when old files can no longer be read.
pub const GGML_QNT_VERSION: u32 = 2;
/// Factor by which old file types carried the quantization version.
pub const GGML_QNT_VERSION_FACTOR: u32 = 1000;
/// Dimensions of every tensor.
pub const GGML_MAX_DIMS: usize = 4;
/// Parameters a model may train at most.
pub const GGML_MAX_PARAMS: usize = 2048;
/// Sources an operation may have at most.
pub const GGML_MAX_SRC: usize = 10;
/// Threads a pool may have at most.
pub const GGML_MAX_N_THREADS: usize = 512;
/// Bytes of parameters every operation carries.
pub const GGML_MAX_OP_PARAMS: usize = 64;
/// Bytes of a tensor's name, its end mark included.
/// cbindgen:ignore
pub const GGML_MAX_NAME: usize = 64;
/// Alignment in bytes of everything that lives in a context.
/// cbindgen:ignore
pub const GGML_MEM_ALIGN: usize = 16;
/// Threads a plan uses when the caller does not say.
pub const GGML_DEFAULT_N_THREADS: i32 = 4;
/// Nodes a graph holds when the caller does not say.
pub const GGML_DEFAULT_GRAPH_SIZE: usize = 2048;
/// Exit status of a program that ended well.
pub const GGML_EXIT_SUCCESS: i32 = 0;
/// Exit status of a program that was stopped.
pub const GGML_EXIT_ABORTED: i32 = 1;
/// Rotary embedding of neighbouring pairs.
pub const GGML_ROPE_TYPE_NORMAL: i32 = 0;
/// Rotary embedding of pairs half a head apart.
pub const GGML_ROPE_TYPE_NEOX: i32 = 2;
/// Rotary embedding with several positions a token (text and picture).
pub const GGML_ROPE_TYPE_MROPE: i32 = 8;
/// Rotary embedding of vision encoders.
pub const GGML_ROPE_TYPE_VISION: i32 = 24;
/// Rotary embedding with interleaved sections.
pub const GGML_ROPE_TYPE_IMROPE: i32 = 40;
/// Positions a token carries in the multi-section modes.
pub const GGML_MROPE_SECTIONS: usize = 4;
/// Passed as a number of tasks: as many as there are threads.
pub const GGML_N_TASKS_MAX: i32 = -1;

/// A brain float: the upper 16 bits of a 32-bit float.
/// cbindgen:ignore
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ggml_bf16_t {
    /// Sign, 8 exponent bits, 7 fraction bits.
    pub bits: u16,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_status {
    /// TODO-DOC
    GGML_STATUS_ALLOC_FAILED = -2,
    /// TODO-DOC
    GGML_STATUS_FAILED = -1,
    /// TODO-DOC
    GGML_STATUS_SUCCESS = 0,
    /// TODO-DOC
    GGML_STATUS_ABORTED = 1,
}
impl ggml_status {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 4] = [
        Self::GGML_STATUS_ALLOC_FAILED,
        Self::GGML_STATUS_FAILED,
        Self::GGML_STATUS_SUCCESS,
        Self::GGML_STATUS_ABORTED,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            -2 => Self::GGML_STATUS_ALLOC_FAILED,
            -1 => Self::GGML_STATUS_FAILED,
            0 => Self::GGML_STATUS_SUCCESS,
            1 => Self::GGML_STATUS_ABORTED,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_type {
    /// TODO-DOC
    GGML_TYPE_F32 = 0,
    /// TODO-DOC
    GGML_TYPE_F16 = 1,
    /// TODO-DOC
    GGML_TYPE_Q4_0 = 2,
    /// TODO-DOC
    GGML_TYPE_Q4_1 = 3,
    /// TODO-DOC
    GGML_TYPE_Q5_0 = 6,
    /// TODO-DOC
    GGML_TYPE_Q5_1 = 7,
    /// TODO-DOC
    GGML_TYPE_Q8_0 = 8,
    /// TODO-DOC
    GGML_TYPE_Q8_1 = 9,
    /// TODO-DOC
    GGML_TYPE_Q2_K = 10,
    /// TODO-DOC
    GGML_TYPE_Q3_K = 11,
    /// TODO-DOC
    GGML_TYPE_Q4_K = 12,
    /// TODO-DOC
    GGML_TYPE_Q5_K = 13,
    /// TODO-DOC
    GGML_TYPE_Q6_K = 14,
    /// TODO-DOC
    GGML_TYPE_Q8_K = 15,
    /// TODO-DOC
    GGML_TYPE_IQ2_XXS = 16,
    /// TODO-DOC
    GGML_TYPE_IQ2_XS = 17,
    /// TODO-DOC
    GGML_TYPE_IQ3_XXS = 18,
    /// TODO-DOC
    GGML_TYPE_IQ1_S = 19,
    /// TODO-DOC
    GGML_TYPE_IQ4_NL = 20,
    /// TODO-DOC
    GGML_TYPE_IQ3_S = 21,
    /// TODO-DOC
    GGML_TYPE_IQ2_S = 22,
    /// TODO-DOC
    GGML_TYPE_IQ4_XS = 23,
    /// TODO-DOC
    GGML_TYPE_I8 = 24,
    /// TODO-DOC
    GGML_TYPE_I16 = 25,
    /// TODO-DOC
    GGML_TYPE_I32 = 26,
    /// TODO-DOC
    GGML_TYPE_I64 = 27,
    /// TODO-DOC
    GGML_TYPE_F64 = 28,
    /// TODO-DOC
    GGML_TYPE_IQ1_M = 29,
    /// TODO-DOC
    GGML_TYPE_BF16 = 30,
    /// TODO-DOC
    GGML_TYPE_TQ1_0 = 34,
    /// TODO-DOC
    GGML_TYPE_TQ2_0 = 35,
    /// TODO-DOC
    GGML_TYPE_MXFP4 = 39,
    /// TODO-DOC
    GGML_TYPE_NVFP4 = 40,
    /// TODO-DOC
    GGML_TYPE_Q1_0 = 41,
    /// TODO-DOC
    GGML_TYPE_Q2_0 = 42,
    /// TODO-DOC
    GGML_TYPE_COUNT = 43,
}
impl ggml_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 35] = [
        Self::GGML_TYPE_F32,
        Self::GGML_TYPE_F16,
        Self::GGML_TYPE_Q4_0,
        Self::GGML_TYPE_Q4_1,
        Self::GGML_TYPE_Q5_0,
        Self::GGML_TYPE_Q5_1,
        Self::GGML_TYPE_Q8_0,
        Self::GGML_TYPE_Q8_1,
        Self::GGML_TYPE_Q2_K,
        Self::GGML_TYPE_Q3_K,
        Self::GGML_TYPE_Q4_K,
        Self::GGML_TYPE_Q5_K,
        Self::GGML_TYPE_Q6_K,
        Self::GGML_TYPE_Q8_K,
        Self::GGML_TYPE_IQ2_XXS,
        Self::GGML_TYPE_IQ2_XS,
        Self::GGML_TYPE_IQ3_XXS,
        Self::GGML_TYPE_IQ1_S,
        Self::GGML_TYPE_IQ4_NL,
        Self::GGML_TYPE_IQ3_S,
        Self::GGML_TYPE_IQ2_S,
        Self::GGML_TYPE_IQ4_XS,
        Self::GGML_TYPE_I8,
        Self::GGML_TYPE_I16,
        Self::GGML_TYPE_I32,
        Self::GGML_TYPE_I64,
        Self::GGML_TYPE_F64,
        Self::GGML_TYPE_IQ1_M,
        Self::GGML_TYPE_BF16,
        Self::GGML_TYPE_TQ1_0,
        Self::GGML_TYPE_TQ2_0,
        Self::GGML_TYPE_MXFP4,
        Self::GGML_TYPE_NVFP4,
        Self::GGML_TYPE_Q1_0,
        Self::GGML_TYPE_Q2_0,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            0 => Self::GGML_TYPE_F32,
            1 => Self::GGML_TYPE_F16,
            2 => Self::GGML_TYPE_Q4_0,
            3 => Self::GGML_TYPE_Q4_1,
            6 => Self::GGML_TYPE_Q5_0,
            7 => Self::GGML_TYPE_Q5_1,
            8 => Self::GGML_TYPE_Q8_0,
            9 => Self::GGML_TYPE_Q8_1,
            10 => Self::GGML_TYPE_Q2_K,
            11 => Self::GGML_TYPE_Q3_K,
            12 => Self::GGML_TYPE_Q4_K,
            13 => Self::GGML_TYPE_Q5_K,
            14 => Self::GGML_TYPE_Q6_K,
            15 => Self::GGML_TYPE_Q8_K,
            16 => Self::GGML_TYPE_IQ2_XXS,
            17 => Self::GGML_TYPE_IQ2_XS,
            18 => Self::GGML_TYPE_IQ3_XXS,
            19 => Self::GGML_TYPE_IQ1_S,
            20 => Self::GGML_TYPE_IQ4_NL,
            21 => Self::GGML_TYPE_IQ3_S,
            22 => Self::GGML_TYPE_IQ2_S,
            23 => Self::GGML_TYPE_IQ4_XS,
            24 => Self::GGML_TYPE_I8,
            25 => Self::GGML_TYPE_I16,
            26 => Self::GGML_TYPE_I32,
            27 => Self::GGML_TYPE_I64,
            28 => Self::GGML_TYPE_F64,
            29 => Self::GGML_TYPE_IQ1_M,
            30 => Self::GGML_TYPE_BF16,
            34 => Self::GGML_TYPE_TQ1_0,
            35 => Self::GGML_TYPE_TQ2_0,
            39 => Self::GGML_TYPE_MXFP4,
            40 => Self::GGML_TYPE_NVFP4,
            41 => Self::GGML_TYPE_Q1_0,
            42 => Self::GGML_TYPE_Q2_0,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_prec {
    /// TODO-DOC
    GGML_PREC_UNDEFINED = 0,
    /// TODO-DOC
    GGML_PREC_F32 = 10,
    /// TODO-DOC
    GGML_PREC_BF16 = 15,
    /// TODO-DOC
    GGML_PREC_F16 = 20,
    /// TODO-DOC
    GGML_PREC_Q8 = 30,
    /// TODO-DOC
    GGML_PREC_Q4 = 40,
}
impl ggml_prec {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 6] = [
        Self::GGML_PREC_UNDEFINED,
        Self::GGML_PREC_F32,
        Self::GGML_PREC_BF16,
        Self::GGML_PREC_F16,
        Self::GGML_PREC_Q8,
        Self::GGML_PREC_Q4,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            0 => Self::GGML_PREC_UNDEFINED,
            10 => Self::GGML_PREC_F32,
            15 => Self::GGML_PREC_BF16,
            20 => Self::GGML_PREC_F16,
            30 => Self::GGML_PREC_Q8,
            40 => Self::GGML_PREC_Q4,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op_hint {
    /// TODO-DOC
    GGML_HINT_NONE = 0,
    /// TODO-DOC
    GGML_HINT_SRC0_IS_HADAMARD = 1,
}
impl ggml_op_hint {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 2] = [Self::GGML_HINT_NONE, Self::GGML_HINT_SRC0_IS_HADAMARD];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_ftype {
    /// TODO-DOC
    GGML_FTYPE_UNKNOWN = -1,
    /// TODO-DOC
    GGML_FTYPE_ALL_F32 = 0,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_F16 = 1,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q4_0 = 2,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q4_1 = 3,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q4_1_SOME_F16 = 4,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q8_0 = 7,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q5_0 = 8,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q5_1 = 9,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q2_K = 10,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q3_K = 11,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q4_K = 12,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q5_K = 13,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q6_K = 14,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ2_XXS = 15,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ2_XS = 16,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ3_XXS = 17,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ1_S = 18,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ4_NL = 19,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ3_S = 20,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ2_S = 21,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ4_XS = 22,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_IQ1_M = 23,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_BF16 = 24,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_MXFP4 = 25,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_NVFP4 = 26,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q1_0 = 27,
    /// TODO-DOC
    GGML_FTYPE_MOSTLY_Q2_0 = 28,
}
impl ggml_ftype {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 28] = [
        Self::GGML_FTYPE_UNKNOWN,
        Self::GGML_FTYPE_ALL_F32,
        Self::GGML_FTYPE_MOSTLY_F16,
        Self::GGML_FTYPE_MOSTLY_Q4_0,
        Self::GGML_FTYPE_MOSTLY_Q4_1,
        Self::GGML_FTYPE_MOSTLY_Q4_1_SOME_F16,
        Self::GGML_FTYPE_MOSTLY_Q8_0,
        Self::GGML_FTYPE_MOSTLY_Q5_0,
        Self::GGML_FTYPE_MOSTLY_Q5_1,
        Self::GGML_FTYPE_MOSTLY_Q2_K,
        Self::GGML_FTYPE_MOSTLY_Q3_K,
        Self::GGML_FTYPE_MOSTLY_Q4_K,
        Self::GGML_FTYPE_MOSTLY_Q5_K,
        Self::GGML_FTYPE_MOSTLY_Q6_K,
        Self::GGML_FTYPE_MOSTLY_IQ2_XXS,
        Self::GGML_FTYPE_MOSTLY_IQ2_XS,
        Self::GGML_FTYPE_MOSTLY_IQ3_XXS,
        Self::GGML_FTYPE_MOSTLY_IQ1_S,
        Self::GGML_FTYPE_MOSTLY_IQ4_NL,
        Self::GGML_FTYPE_MOSTLY_IQ3_S,
        Self::GGML_FTYPE_MOSTLY_IQ2_S,
        Self::GGML_FTYPE_MOSTLY_IQ4_XS,
        Self::GGML_FTYPE_MOSTLY_IQ1_M,
        Self::GGML_FTYPE_MOSTLY_BF16,
        Self::GGML_FTYPE_MOSTLY_MXFP4,
        Self::GGML_FTYPE_MOSTLY_NVFP4,
        Self::GGML_FTYPE_MOSTLY_Q1_0,
        Self::GGML_FTYPE_MOSTLY_Q2_0,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            -1 => Self::GGML_FTYPE_UNKNOWN,
            0 => Self::GGML_FTYPE_ALL_F32,
            1 => Self::GGML_FTYPE_MOSTLY_F16,
            2 => Self::GGML_FTYPE_MOSTLY_Q4_0,
            3 => Self::GGML_FTYPE_MOSTLY_Q4_1,
            4 => Self::GGML_FTYPE_MOSTLY_Q4_1_SOME_F16,
            7 => Self::GGML_FTYPE_MOSTLY_Q8_0,
            8 => Self::GGML_FTYPE_MOSTLY_Q5_0,
            9 => Self::GGML_FTYPE_MOSTLY_Q5_1,
            10 => Self::GGML_FTYPE_MOSTLY_Q2_K,
            11 => Self::GGML_FTYPE_MOSTLY_Q3_K,
            12 => Self::GGML_FTYPE_MOSTLY_Q4_K,
            13 => Self::GGML_FTYPE_MOSTLY_Q5_K,
            14 => Self::GGML_FTYPE_MOSTLY_Q6_K,
            15 => Self::GGML_FTYPE_MOSTLY_IQ2_XXS,
            16 => Self::GGML_FTYPE_MOSTLY_IQ2_XS,
            17 => Self::GGML_FTYPE_MOSTLY_IQ3_XXS,
            18 => Self::GGML_FTYPE_MOSTLY_IQ1_S,
            19 => Self::GGML_FTYPE_MOSTLY_IQ4_NL,
            20 => Self::GGML_FTYPE_MOSTLY_IQ3_S,
            21 => Self::GGML_FTYPE_MOSTLY_IQ2_S,
            22 => Self::GGML_FTYPE_MOSTLY_IQ4_XS,
            23 => Self::GGML_FTYPE_MOSTLY_IQ1_M,
            24 => Self::GGML_FTYPE_MOSTLY_BF16,
            25 => Self::GGML_FTYPE_MOSTLY_MXFP4,
            26 => Self::GGML_FTYPE_MOSTLY_NVFP4,
            27 => Self::GGML_FTYPE_MOSTLY_Q1_0,
            28 => Self::GGML_FTYPE_MOSTLY_Q2_0,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op {
    /// TODO-DOC
    GGML_OP_NONE = 0,
    /// TODO-DOC
    GGML_OP_DUP = 1,
    /// TODO-DOC
    GGML_OP_ADD = 2,
    /// TODO-DOC
    GGML_OP_ADD_ID = 3,
    /// TODO-DOC
    GGML_OP_ADD1 = 4,
    /// TODO-DOC
    GGML_OP_ACC = 5,
    /// TODO-DOC
    GGML_OP_SUB = 6,
    /// TODO-DOC
    GGML_OP_MUL = 7,
    /// TODO-DOC
    GGML_OP_DIV = 8,
    /// TODO-DOC
    GGML_OP_SQR = 9,
    /// TODO-DOC
    GGML_OP_SQRT = 10,
    /// TODO-DOC
    GGML_OP_LOG = 11,
    /// TODO-DOC
    GGML_OP_SIN = 12,
    /// TODO-DOC
    GGML_OP_COS = 13,
    /// TODO-DOC
    GGML_OP_SUM = 14,
    /// TODO-DOC
    GGML_OP_SUM_ROWS = 15,
    /// TODO-DOC
    GGML_OP_CUMSUM = 16,
    /// TODO-DOC
    GGML_OP_MEAN = 17,
    /// TODO-DOC
    GGML_OP_ARGMAX = 18,
    /// TODO-DOC
    GGML_OP_COUNT_EQUAL = 19,
    /// TODO-DOC
    GGML_OP_REPEAT = 20,
    /// TODO-DOC
    GGML_OP_REPEAT_BACK = 21,
    /// TODO-DOC
    GGML_OP_CONCAT = 22,
    /// TODO-DOC
    GGML_OP_SILU_BACK = 23,
    /// TODO-DOC
    GGML_OP_NORM = 24,
    /// TODO-DOC
    GGML_OP_RMS_NORM = 25,
    /// TODO-DOC
    GGML_OP_RMS_NORM_BACK = 26,
    /// TODO-DOC
    GGML_OP_GROUP_NORM = 27,
    /// TODO-DOC
    GGML_OP_L2_NORM = 28,
    /// TODO-DOC
    GGML_OP_MUL_MAT = 29,
    /// TODO-DOC
    GGML_OP_MUL_MAT_ID = 30,
    /// TODO-DOC
    GGML_OP_OUT_PROD = 31,
    /// TODO-DOC
    GGML_OP_SCALE = 32,
    /// TODO-DOC
    GGML_OP_SET = 33,
    /// TODO-DOC
    GGML_OP_CPY = 34,
    /// TODO-DOC
    GGML_OP_CONT = 35,
    /// TODO-DOC
    GGML_OP_RESHAPE = 36,
    /// TODO-DOC
    GGML_OP_VIEW = 37,
    /// TODO-DOC
    GGML_OP_PERMUTE = 38,
    /// TODO-DOC
    GGML_OP_TRANSPOSE = 39,
    /// TODO-DOC
    GGML_OP_GET_ROWS = 40,
    /// TODO-DOC
    GGML_OP_GET_ROWS_BACK = 41,
    /// TODO-DOC
    GGML_OP_SET_ROWS = 42,
    /// TODO-DOC
    GGML_OP_DIAG = 43,
    /// TODO-DOC
    GGML_OP_DIAG_MASK_INF = 44,
    /// TODO-DOC
    GGML_OP_DIAG_MASK_ZERO = 45,
    /// TODO-DOC
    GGML_OP_SOFT_MAX = 46,
    /// TODO-DOC
    GGML_OP_SOFT_MAX_BACK = 47,
    /// TODO-DOC
    GGML_OP_ROPE = 48,
    /// TODO-DOC
    GGML_OP_ROPE_BACK = 49,
    /// TODO-DOC
    GGML_OP_CLAMP = 50,
    /// TODO-DOC
    GGML_OP_CONV_TRANSPOSE_1D = 51,
    /// TODO-DOC
    GGML_OP_IM2COL = 52,
    /// TODO-DOC
    GGML_OP_IM2COL_BACK = 53,
    /// TODO-DOC
    GGML_OP_IM2COL_3D = 54,
    /// TODO-DOC
    GGML_OP_COL2IM_1D = 55,
    /// TODO-DOC
    GGML_OP_CONV_2D = 56,
    /// TODO-DOC
    GGML_OP_CONV_3D = 57,
    /// TODO-DOC
    GGML_OP_CONV_2D_DW = 58,
    /// TODO-DOC
    GGML_OP_CONV_TRANSPOSE_2D = 59,
    /// TODO-DOC
    GGML_OP_POOL_1D = 60,
    /// TODO-DOC
    GGML_OP_POOL_2D = 61,
    /// TODO-DOC
    GGML_OP_POOL_2D_BACK = 62,
    /// TODO-DOC
    GGML_OP_UPSCALE = 63,
    /// TODO-DOC
    GGML_OP_PAD = 64,
    /// TODO-DOC
    GGML_OP_PAD_REFLECT_1D = 65,
    /// TODO-DOC
    GGML_OP_ROLL = 66,
    /// TODO-DOC
    GGML_OP_ARANGE = 67,
    /// TODO-DOC
    GGML_OP_TIMESTEP_EMBEDDING = 68,
    /// TODO-DOC
    GGML_OP_ARGSORT = 69,
    /// TODO-DOC
    GGML_OP_TOP_K = 70,
    /// TODO-DOC
    GGML_OP_LEAKY_RELU = 71,
    /// TODO-DOC
    GGML_OP_TRI = 72,
    /// TODO-DOC
    GGML_OP_FILL = 73,
    /// TODO-DOC
    GGML_OP_FLASH_ATTN_EXT = 74,
    /// TODO-DOC
    GGML_OP_FLASH_ATTN_BACK = 75,
    /// TODO-DOC
    GGML_OP_SSM_CONV = 76,
    /// TODO-DOC
    GGML_OP_SSM_SCAN = 77,
    /// TODO-DOC
    GGML_OP_WIN_PART = 78,
    /// TODO-DOC
    GGML_OP_WIN_UNPART = 79,
    /// TODO-DOC
    GGML_OP_GET_REL_POS = 80,
    /// TODO-DOC
    GGML_OP_ADD_REL_POS = 81,
    /// TODO-DOC
    GGML_OP_RWKV_WKV6 = 82,
    /// TODO-DOC
    GGML_OP_GATED_LINEAR_ATTN = 83,
    /// TODO-DOC
    GGML_OP_RWKV_WKV7 = 84,
    /// TODO-DOC
    GGML_OP_SOLVE_TRI = 85,
    /// TODO-DOC
    GGML_OP_GATED_DELTA_NET = 86,
    /// TODO-DOC
    GGML_OP_LIGHTNING_INDEXER = 87,
    /// TODO-DOC
    GGML_OP_DSV4_HC_COMB = 88,
    /// TODO-DOC
    GGML_OP_DSV4_HC_PRE = 89,
    /// TODO-DOC
    GGML_OP_DSV4_HC_POST = 90,
    /// TODO-DOC
    GGML_OP_UNARY = 91,
    /// TODO-DOC
    GGML_OP_MAP_CUSTOM1 = 92,
    /// TODO-DOC
    GGML_OP_MAP_CUSTOM2 = 93,
    /// TODO-DOC
    GGML_OP_MAP_CUSTOM3 = 94,
    /// TODO-DOC
    GGML_OP_CUSTOM = 95,
    /// TODO-DOC
    GGML_OP_CROSS_ENTROPY_LOSS = 96,
    /// TODO-DOC
    GGML_OP_CROSS_ENTROPY_LOSS_BACK = 97,
    /// TODO-DOC
    GGML_OP_OPT_STEP_ADAMW = 98,
    /// TODO-DOC
    GGML_OP_OPT_STEP_SGD = 99,
    /// TODO-DOC
    GGML_OP_GLU = 100,
    /// TODO-DOC
    GGML_OP_COUNT = 101,
}
impl ggml_op {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 101] = [
        Self::GGML_OP_NONE,
        Self::GGML_OP_DUP,
        Self::GGML_OP_ADD,
        Self::GGML_OP_ADD_ID,
        Self::GGML_OP_ADD1,
        Self::GGML_OP_ACC,
        Self::GGML_OP_SUB,
        Self::GGML_OP_MUL,
        Self::GGML_OP_DIV,
        Self::GGML_OP_SQR,
        Self::GGML_OP_SQRT,
        Self::GGML_OP_LOG,
        Self::GGML_OP_SIN,
        Self::GGML_OP_COS,
        Self::GGML_OP_SUM,
        Self::GGML_OP_SUM_ROWS,
        Self::GGML_OP_CUMSUM,
        Self::GGML_OP_MEAN,
        Self::GGML_OP_ARGMAX,
        Self::GGML_OP_COUNT_EQUAL,
        Self::GGML_OP_REPEAT,
        Self::GGML_OP_REPEAT_BACK,
        Self::GGML_OP_CONCAT,
        Self::GGML_OP_SILU_BACK,
        Self::GGML_OP_NORM,
        Self::GGML_OP_RMS_NORM,
        Self::GGML_OP_RMS_NORM_BACK,
        Self::GGML_OP_GROUP_NORM,
        Self::GGML_OP_L2_NORM,
        Self::GGML_OP_MUL_MAT,
        Self::GGML_OP_MUL_MAT_ID,
        Self::GGML_OP_OUT_PROD,
        Self::GGML_OP_SCALE,
        Self::GGML_OP_SET,
        Self::GGML_OP_CPY,
        Self::GGML_OP_CONT,
        Self::GGML_OP_RESHAPE,
        Self::GGML_OP_VIEW,
        Self::GGML_OP_PERMUTE,
        Self::GGML_OP_TRANSPOSE,
        Self::GGML_OP_GET_ROWS,
        Self::GGML_OP_GET_ROWS_BACK,
        Self::GGML_OP_SET_ROWS,
        Self::GGML_OP_DIAG,
        Self::GGML_OP_DIAG_MASK_INF,
        Self::GGML_OP_DIAG_MASK_ZERO,
        Self::GGML_OP_SOFT_MAX,
        Self::GGML_OP_SOFT_MAX_BACK,
        Self::GGML_OP_ROPE,
        Self::GGML_OP_ROPE_BACK,
        Self::GGML_OP_CLAMP,
        Self::GGML_OP_CONV_TRANSPOSE_1D,
        Self::GGML_OP_IM2COL,
        Self::GGML_OP_IM2COL_BACK,
        Self::GGML_OP_IM2COL_3D,
        Self::GGML_OP_COL2IM_1D,
        Self::GGML_OP_CONV_2D,
        Self::GGML_OP_CONV_3D,
        Self::GGML_OP_CONV_2D_DW,
        Self::GGML_OP_CONV_TRANSPOSE_2D,
        Self::GGML_OP_POOL_1D,
        Self::GGML_OP_POOL_2D,
        Self::GGML_OP_POOL_2D_BACK,
        Self::GGML_OP_UPSCALE,
        Self::GGML_OP_PAD,
        Self::GGML_OP_PAD_REFLECT_1D,
        Self::GGML_OP_ROLL,
        Self::GGML_OP_ARANGE,
        Self::GGML_OP_TIMESTEP_EMBEDDING,
        Self::GGML_OP_ARGSORT,
        Self::GGML_OP_TOP_K,
        Self::GGML_OP_LEAKY_RELU,
        Self::GGML_OP_TRI,
        Self::GGML_OP_FILL,
        Self::GGML_OP_FLASH_ATTN_EXT,
        Self::GGML_OP_FLASH_ATTN_BACK,
        Self::GGML_OP_SSM_CONV,
        Self::GGML_OP_SSM_SCAN,
        Self::GGML_OP_WIN_PART,
        Self::GGML_OP_WIN_UNPART,
        Self::GGML_OP_GET_REL_POS,
        Self::GGML_OP_ADD_REL_POS,
        Self::GGML_OP_RWKV_WKV6,
        Self::GGML_OP_GATED_LINEAR_ATTN,
        Self::GGML_OP_RWKV_WKV7,
        Self::GGML_OP_SOLVE_TRI,
        Self::GGML_OP_GATED_DELTA_NET,
        Self::GGML_OP_LIGHTNING_INDEXER,
        Self::GGML_OP_DSV4_HC_COMB,
        Self::GGML_OP_DSV4_HC_PRE,
        Self::GGML_OP_DSV4_HC_POST,
        Self::GGML_OP_UNARY,
        Self::GGML_OP_MAP_CUSTOM1,
        Self::GGML_OP_MAP_CUSTOM2,
        Self::GGML_OP_MAP_CUSTOM3,
        Self::GGML_OP_CUSTOM,
        Self::GGML_OP_CROSS_ENTROPY_LOSS,
        Self::GGML_OP_CROSS_ENTROPY_LOSS_BACK,
        Self::GGML_OP_OPT_STEP_ADAMW,
        Self::GGML_OP_OPT_STEP_SGD,
        Self::GGML_OP_GLU,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_unary_op {
    /// TODO-DOC
    GGML_UNARY_OP_ABS = 0,
    /// TODO-DOC
    GGML_UNARY_OP_SGN = 1,
    /// TODO-DOC
    GGML_UNARY_OP_NEG = 2,
    /// TODO-DOC
    GGML_UNARY_OP_STEP = 3,
    /// TODO-DOC
    GGML_UNARY_OP_TANH = 4,
    /// TODO-DOC
    GGML_UNARY_OP_ELU = 5,
    /// TODO-DOC
    GGML_UNARY_OP_RELU = 6,
    /// TODO-DOC
    GGML_UNARY_OP_SIGMOID = 7,
    /// TODO-DOC
    GGML_UNARY_OP_GELU = 8,
    /// TODO-DOC
    GGML_UNARY_OP_GELU_QUICK = 9,
    /// TODO-DOC
    GGML_UNARY_OP_SILU = 10,
    /// TODO-DOC
    GGML_UNARY_OP_HARDSWISH = 11,
    /// TODO-DOC
    GGML_UNARY_OP_HARDSIGMOID = 12,
    /// TODO-DOC
    GGML_UNARY_OP_EXP = 13,
    /// TODO-DOC
    GGML_UNARY_OP_EXPM1 = 14,
    /// TODO-DOC
    GGML_UNARY_OP_SOFTPLUS = 15,
    /// TODO-DOC
    GGML_UNARY_OP_GELU_ERF = 16,
    /// TODO-DOC
    GGML_UNARY_OP_XIELU = 17,
    /// TODO-DOC
    GGML_UNARY_OP_FLOOR = 18,
    /// TODO-DOC
    GGML_UNARY_OP_CEIL = 19,
    /// TODO-DOC
    GGML_UNARY_OP_ROUND = 20,
    /// TODO-DOC
    GGML_UNARY_OP_TRUNC = 21,
    /// TODO-DOC
    GGML_UNARY_OP_COUNT = 22,
}
impl ggml_unary_op {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 22] = [
        Self::GGML_UNARY_OP_ABS,
        Self::GGML_UNARY_OP_SGN,
        Self::GGML_UNARY_OP_NEG,
        Self::GGML_UNARY_OP_STEP,
        Self::GGML_UNARY_OP_TANH,
        Self::GGML_UNARY_OP_ELU,
        Self::GGML_UNARY_OP_RELU,
        Self::GGML_UNARY_OP_SIGMOID,
        Self::GGML_UNARY_OP_GELU,
        Self::GGML_UNARY_OP_GELU_QUICK,
        Self::GGML_UNARY_OP_SILU,
        Self::GGML_UNARY_OP_HARDSWISH,
        Self::GGML_UNARY_OP_HARDSIGMOID,
        Self::GGML_UNARY_OP_EXP,
        Self::GGML_UNARY_OP_EXPM1,
        Self::GGML_UNARY_OP_SOFTPLUS,
        Self::GGML_UNARY_OP_GELU_ERF,
        Self::GGML_UNARY_OP_XIELU,
        Self::GGML_UNARY_OP_FLOOR,
        Self::GGML_UNARY_OP_CEIL,
        Self::GGML_UNARY_OP_ROUND,
        Self::GGML_UNARY_OP_TRUNC,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_glu_op {
    /// TODO-DOC
    GGML_GLU_OP_REGLU = 0,
    /// TODO-DOC
    GGML_GLU_OP_GEGLU = 1,
    /// TODO-DOC
    GGML_GLU_OP_SWIGLU = 2,
    /// TODO-DOC
    GGML_GLU_OP_SWIGLU_OAI = 3,
    /// TODO-DOC
    GGML_GLU_OP_GEGLU_ERF = 4,
    /// TODO-DOC
    GGML_GLU_OP_GEGLU_QUICK = 5,
    /// TODO-DOC
    GGML_GLU_OP_SWIGLU_CLAMP = 6,
    /// TODO-DOC
    GGML_GLU_OP_COUNT = 7,
}
impl ggml_glu_op {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 7] = [
        Self::GGML_GLU_OP_REGLU,
        Self::GGML_GLU_OP_GEGLU,
        Self::GGML_GLU_OP_SWIGLU,
        Self::GGML_GLU_OP_SWIGLU_OAI,
        Self::GGML_GLU_OP_GEGLU_ERF,
        Self::GGML_GLU_OP_GEGLU_QUICK,
        Self::GGML_GLU_OP_SWIGLU_CLAMP,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_object_type {
    /// TODO-DOC
    GGML_OBJECT_TYPE_TENSOR = 0,
    /// TODO-DOC
    GGML_OBJECT_TYPE_GRAPH = 1,
    /// TODO-DOC
    GGML_OBJECT_TYPE_WORK_BUFFER = 2,
}
impl ggml_object_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 3] =
        [Self::GGML_OBJECT_TYPE_TENSOR, Self::GGML_OBJECT_TYPE_GRAPH, Self::GGML_OBJECT_TYPE_WORK_BUFFER];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_log_level {
    /// TODO-DOC
    GGML_LOG_LEVEL_NONE = 0,
    /// TODO-DOC
    GGML_LOG_LEVEL_DEBUG = 1,
    /// TODO-DOC
    GGML_LOG_LEVEL_INFO = 2,
    /// TODO-DOC
    GGML_LOG_LEVEL_WARN = 3,
    /// TODO-DOC
    GGML_LOG_LEVEL_ERROR = 4,
    /// TODO-DOC
    GGML_LOG_LEVEL_CONT = 5,
}
impl ggml_log_level {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 6] = [
        Self::GGML_LOG_LEVEL_NONE,
        Self::GGML_LOG_LEVEL_DEBUG,
        Self::GGML_LOG_LEVEL_INFO,
        Self::GGML_LOG_LEVEL_WARN,
        Self::GGML_LOG_LEVEL_ERROR,
        Self::GGML_LOG_LEVEL_CONT,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_tensor_flag {
    /// TODO-DOC
    GGML_TENSOR_FLAG_INPUT = 1,
    /// TODO-DOC
    GGML_TENSOR_FLAG_OUTPUT = 2,
    /// TODO-DOC
    GGML_TENSOR_FLAG_PARAM = 4,
    /// TODO-DOC
    GGML_TENSOR_FLAG_LOSS = 8,
    /// TODO-DOC
    GGML_TENSOR_FLAG_COMPUTE = 16,
}
impl ggml_tensor_flag {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 5] = [
        Self::GGML_TENSOR_FLAG_INPUT,
        Self::GGML_TENSOR_FLAG_OUTPUT,
        Self::GGML_TENSOR_FLAG_PARAM,
        Self::GGML_TENSOR_FLAG_LOSS,
        Self::GGML_TENSOR_FLAG_COMPUTE,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            1 => Self::GGML_TENSOR_FLAG_INPUT,
            2 => Self::GGML_TENSOR_FLAG_OUTPUT,
            4 => Self::GGML_TENSOR_FLAG_PARAM,
            8 => Self::GGML_TENSOR_FLAG_LOSS,
            16 => Self::GGML_TENSOR_FLAG_COMPUTE,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_tri_type {
    /// TODO-DOC
    GGML_TRI_TYPE_UPPER_DIAG = 0,
    /// TODO-DOC
    GGML_TRI_TYPE_UPPER = 1,
    /// TODO-DOC
    GGML_TRI_TYPE_LOWER_DIAG = 2,
    /// TODO-DOC
    GGML_TRI_TYPE_LOWER = 3,
}
impl ggml_tri_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 4] = [
        Self::GGML_TRI_TYPE_UPPER_DIAG,
        Self::GGML_TRI_TYPE_UPPER,
        Self::GGML_TRI_TYPE_LOWER_DIAG,
        Self::GGML_TRI_TYPE_LOWER,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op_pool {
    /// TODO-DOC
    GGML_OP_POOL_MAX = 0,
    /// TODO-DOC
    GGML_OP_POOL_AVG = 1,
    /// TODO-DOC
    GGML_OP_POOL_COUNT = 2,
}
impl ggml_op_pool {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 2] = [Self::GGML_OP_POOL_MAX, Self::GGML_OP_POOL_AVG];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_scale_mode {
    /// TODO-DOC
    GGML_SCALE_MODE_NEAREST = 0,
    /// TODO-DOC
    GGML_SCALE_MODE_BILINEAR = 1,
    /// TODO-DOC
    GGML_SCALE_MODE_BICUBIC = 2,
    /// TODO-DOC
    GGML_SCALE_MODE_COUNT = 3,
}
impl ggml_scale_mode {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 3] =
        [Self::GGML_SCALE_MODE_NEAREST, Self::GGML_SCALE_MODE_BILINEAR, Self::GGML_SCALE_MODE_BICUBIC];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_scale_flag {
    /// TODO-DOC
    GGML_SCALE_FLAG_ALIGN_CORNERS = 256,
    /// TODO-DOC
    GGML_SCALE_FLAG_ANTIALIAS = 512,
}
impl ggml_scale_flag {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 2] = [Self::GGML_SCALE_FLAG_ALIGN_CORNERS, Self::GGML_SCALE_FLAG_ANTIALIAS];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            256 => Self::GGML_SCALE_FLAG_ALIGN_CORNERS,
            512 => Self::GGML_SCALE_FLAG_ANTIALIAS,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_sort_order {
    /// TODO-DOC
    GGML_SORT_ORDER_ASC = 0,
    /// TODO-DOC
    GGML_SORT_ORDER_DESC = 1,
}
impl ggml_sort_order {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 2] = [Self::GGML_SORT_ORDER_ASC, Self::GGML_SORT_ORDER_DESC];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_sched_priority {
    /// TODO-DOC
    GGML_SCHED_PRIO_LOW = -1,
    /// TODO-DOC
    GGML_SCHED_PRIO_NORMAL = 0,
    /// TODO-DOC
    GGML_SCHED_PRIO_MEDIUM = 1,
    /// TODO-DOC
    GGML_SCHED_PRIO_HIGH = 2,
    /// TODO-DOC
    GGML_SCHED_PRIO_REALTIME = 3,
}
impl ggml_sched_priority {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 5] = [
        Self::GGML_SCHED_PRIO_LOW,
        Self::GGML_SCHED_PRIO_NORMAL,
        Self::GGML_SCHED_PRIO_MEDIUM,
        Self::GGML_SCHED_PRIO_HIGH,
        Self::GGML_SCHED_PRIO_REALTIME,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            -1 => Self::GGML_SCHED_PRIO_LOW,
            0 => Self::GGML_SCHED_PRIO_NORMAL,
            1 => Self::GGML_SCHED_PRIO_MEDIUM,
            2 => Self::GGML_SCHED_PRIO_HIGH,
            3 => Self::GGML_SCHED_PRIO_REALTIME,
            _ => return None,
        })
    }
}

/// TODO-DOC (opaque)
pub struct ggml_object {
    _opaque: [u8; 0],
}

/// TODO-DOC (opaque)
pub struct ggml_context {
    _opaque: [u8; 0],
}

/// TODO-DOC (opaque)
pub struct ggml_cgraph {
    _opaque: [u8; 0],
}

/// TODO-DOC (opaque)
pub struct ggml_threadpool {
    _opaque: [u8; 0],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_init_params {
    /// TODO-DOC
    pub mem_size: usize,
    /// TODO-DOC
    pub mem_buffer: *mut c_void,
    /// TODO-DOC
    pub no_alloc: bool,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tensor {
    /// TODO-DOC
    pub r#type: raw::ggml_type,
    /// TODO-DOC
    pub buffer: *mut ggml_backend_buffer,
    /// TODO-DOC
    pub ne: [i64; 4],
    /// TODO-DOC
    pub nb: [usize; 4],
    /// TODO-DOC
    pub op: raw::ggml_op,
    /// TODO-DOC
    pub op_params: [i32; 16],
    /// TODO-DOC
    pub flags: i32,
    /// TODO-DOC
    pub src: [*mut ggml_tensor; 10],
    /// TODO-DOC
    pub view_src: *mut ggml_tensor,
    /// TODO-DOC
    pub view_offs: usize,
    /// TODO-DOC
    pub data: *mut c_void,
    /// TODO-DOC
    pub name: [c_char; 64],
    /// TODO-DOC
    pub extra: *mut c_void,
    /// TODO-DOC
    pub padding: [c_char; 8],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits {
    /// TODO-DOC
    pub type_name: *const c_char,
    /// TODO-DOC
    pub blck_size: i64,
    /// TODO-DOC
    pub blck_size_interleave: i64,
    /// TODO-DOC
    pub type_size: usize,
    /// TODO-DOC
    pub is_quantized: bool,
    /// TODO-DOC
    pub to_float: ggml_to_float_t,
    /// TODO-DOC
    pub from_float_ref: ggml_from_float_t,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_threadpool_params {
    /// TODO-DOC
    pub cpumask: [bool; 512],
    /// TODO-DOC
    pub n_threads: c_int,
    /// TODO-DOC
    pub prio: raw::ggml_sched_priority,
    /// TODO-DOC
    pub poll: u32,
    /// TODO-DOC
    pub strict_cpu: bool,
    /// TODO-DOC
    pub paused: bool,
}

/// TODO-DOC
pub type ggml_abort_callback_t = Option<unsafe extern "C" fn(error_message: *const c_char)>;

/// TODO-DOC
pub type ggml_fp16_t = u16;

/// TODO-DOC
pub type ggml_abort_callback = Option<unsafe extern "C" fn(data: *mut c_void) -> bool>;

/// TODO-DOC
pub type ggml_guid = [u8; 16];

/// TODO-DOC
pub type ggml_guid_t = *mut ggml_guid;

/// TODO-DOC
pub type ggml_custom1_op_t = Option<
    unsafe extern "C" fn(dst: *mut ggml_tensor, a: *const ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void),
>;

/// TODO-DOC
pub type ggml_custom2_op_t = Option<
    unsafe extern "C" fn(
        dst: *mut ggml_tensor,
        a: *const ggml_tensor,
        b: *const ggml_tensor,
        ith: c_int,
        nth: c_int,
        userdata: *mut c_void,
    ),
>;

/// TODO-DOC
pub type ggml_custom3_op_t = Option<
    unsafe extern "C" fn(
        dst: *mut ggml_tensor,
        a: *const ggml_tensor,
        b: *const ggml_tensor,
        c: *const ggml_tensor,
        ith: c_int,
        nth: c_int,
        userdata: *mut c_void,
    ),
>;

/// TODO-DOC
pub type ggml_custom_op_t =
    Option<unsafe extern "C" fn(dst: *mut ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void)>;

/// TODO-DOC
pub type ggml_log_callback =
    Option<unsafe extern "C" fn(level: raw::ggml_log_level, text: *const c_char, user_data: *mut c_void)>;

/// TODO-DOC
pub type ggml_to_float_t = Option<unsafe extern "C" fn(x: *const c_void, y: *mut f32, k: i64)>;

/// TODO-DOC
pub type ggml_from_float_t = Option<unsafe extern "C" fn(x: *const f32, y: *mut c_void, k: i64)>;

/// TODO-DOC
pub type ggml_threadpool_t = *mut ggml_threadpool;
