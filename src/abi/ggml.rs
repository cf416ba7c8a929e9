//! ggml.h: number types, tensors, operations, contexts.

use super::backend_impl::ggml_backend_buffer;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// "ggml" as a little-endian number: the magic of the files from before GGUF.
/// cbindgen:ignore
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

/// How a computation or an allocation ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_status {
    /// Memory could not be had.
    GGML_STATUS_ALLOC_FAILED = -2,
    /// The work failed; the log says why.
    GGML_STATUS_FAILED = -1,
    /// Done.
    GGML_STATUS_SUCCESS = 0,
    /// The abort callback asked to stop.
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

/// Number formats of tensor elements.
///
/// A block format packs a fixed number of neighbouring elements of a row with their scales. The bits per weight
/// named below count everything that a block holds. The numbers are part of GGUF files: gaps are formats that no
/// longer exist.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_type {
    /// IEEE 754 single precision.
    GGML_TYPE_F32 = 0,
    /// IEEE 754 half precision.
    GGML_TYPE_F16 = 1,
    /// Blocks of 32: 4-bit integers around zero, one half-precision scale (4.5 bits per weight).
    GGML_TYPE_Q4_0 = 2,
    /// Blocks of 32: 4-bit integers, half-precision scale and minimum (5 bits per weight).
    GGML_TYPE_Q4_1 = 3,
    /// Blocks of 32: 5-bit integers around zero, one half-precision scale (5.5 bits per weight).
    GGML_TYPE_Q5_0 = 6,
    /// Blocks of 32: 5-bit integers, half-precision scale and minimum (6 bits per weight).
    GGML_TYPE_Q5_1 = 7,
    /// Blocks of 32: 8-bit integers, one half-precision scale (8.5 bits per weight).
    GGML_TYPE_Q8_0 = 8,
    /// Blocks of 32: 8-bit integers, scale, and scale times their sum. Intermediate format of activations, not of
    /// files.
    GGML_TYPE_Q8_1 = 9,
    /// Super-blocks of 256: 2-bit integers in groups of 16 with 4-bit scales and minimums (2.625 bits per weight).
    GGML_TYPE_Q2_K = 10,
    /// Super-blocks of 256: 3-bit integers in groups of 16 with 6-bit scales (3.4375 bits per weight).
    GGML_TYPE_Q3_K = 11,
    /// Super-blocks of 256: 4-bit integers in groups of 32 with 6-bit scales and minimums (4.5 bits per weight).
    GGML_TYPE_Q4_K = 12,
    /// Super-blocks of 256: 5-bit integers in groups of 32 with 6-bit scales and minimums (5.5 bits per weight).
    GGML_TYPE_Q5_K = 13,
    /// Super-blocks of 256: 6-bit integers in groups of 16 with 8-bit scales (6.5625 bits per weight).
    GGML_TYPE_Q6_K = 14,
    /// Super-blocks of 256: 8-bit integers, a single-precision scale, sums of groups of 16. Intermediate format of
    /// activations, not of files.
    GGML_TYPE_Q8_K = 15,
    /// Super-blocks of 256: groups of 8 looked up in a grid of 256 points, with signs (2.0625 bits per weight).
    GGML_TYPE_IQ2_XXS = 16,
    /// Super-blocks of 256: groups of 8 looked up in a grid of 512 points, with signs and 4-bit scales (2.3125 bits
    /// per weight).
    GGML_TYPE_IQ2_XS = 17,
    /// Super-blocks of 256: groups of 4 looked up in a grid of 256 points, with signs (3.0625 bits per weight).
    GGML_TYPE_IQ3_XXS = 18,
    /// Super-blocks of 256: groups of 8 looked up in a ternary grid of 2048 points (1.5625 bits per weight).
    GGML_TYPE_IQ1_S = 19,
    /// Blocks of 32: 4-bit indices into a fixed table of 16 values, one half-precision scale (4.5 bits per weight).
    GGML_TYPE_IQ4_NL = 20,
    /// Super-blocks of 256: groups of 4 looked up in a grid of 512 points, with signs (3.4375 bits per weight).
    GGML_TYPE_IQ3_S = 21,
    /// Super-blocks of 256: groups of 8 looked up in a grid of 1024 points, with signs (2.5625 bits per weight).
    GGML_TYPE_IQ2_S = 22,
    /// Super-blocks of 256: 4-bit indices as in IQ4_NL, with a 6-bit scale for each group of 32 (4.25 bits per
    /// weight).
    GGML_TYPE_IQ4_XS = 23,
    /// Signed integer of 8 bits.
    GGML_TYPE_I8 = 24,
    /// Signed integer of 16 bits.
    GGML_TYPE_I16 = 25,
    /// Signed integer of 32 bits.
    GGML_TYPE_I32 = 26,
    /// Signed integer of 64 bits.
    GGML_TYPE_I64 = 27,
    /// IEEE 754 double precision.
    GGML_TYPE_F64 = 28,
    /// Super-blocks of 256: the grid of IQ1_S with a scale for each group of 16 (1.75 bits per weight).
    GGML_TYPE_IQ1_M = 29,
    /// Brain float: the upper half of a single-precision number.
    GGML_TYPE_BF16 = 30,
    /// Super-blocks of 256: ternary weights, five to a byte (1.6875 bits per weight).
    GGML_TYPE_TQ1_0 = 34,
    /// Super-blocks of 256: ternary weights in 2 bits each (2.0625 bits per weight).
    GGML_TYPE_TQ2_0 = 35,
    /// Blocks of 32: 4-bit floats (E2M1) with a power-of-two scale (OCP Microscaling; 4.25 bits per weight).
    GGML_TYPE_MXFP4 = 39,
    /// Blocks of 64: 4-bit floats (E2M1) with an 8-bit float scale for each group of 16 (4.5 bits per weight).
    GGML_TYPE_NVFP4 = 40,
    /// Blocks of 128: one sign bit each and a half-precision scale (1.125 bits per weight).
    GGML_TYPE_Q1_0 = 41,
    /// Blocks of 64: 2-bit integers and a half-precision scale (2.25 bits per weight).
    GGML_TYPE_Q2_0 = 42,
    /// Number after the last format.
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

/// Precision an operation must keep, for its sums or for its conversion of a source.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_prec {
    /// The backend may choose.
    GGML_PREC_UNDEFINED = 0,
    /// Single precision.
    GGML_PREC_F32 = 10,
    /// Brain floats or better.
    GGML_PREC_BF16 = 15,
    /// Half precision or better.
    GGML_PREC_F16 = 20,
    /// 8-bit block formats or better.
    GGML_PREC_Q8 = 30,
    /// 4-bit block formats or better.
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

/// What a caller knows about the sources of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op_hint {
    /// Nothing in particular.
    GGML_HINT_NONE = 0,
    /// The first source is a Hadamard matrix, so a fast transform may take the place of the product.
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

/// Format that most tensors of a model file have; one-dimensional tensors usually stay F32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_ftype {
    /// Not known.
    GGML_FTYPE_UNKNOWN = -1,
    /// Everything is F32.
    GGML_FTYPE_ALL_F32 = 0,
    /// Mostly F16.
    GGML_FTYPE_MOSTLY_F16 = 1,
    /// Mostly Q4_0.
    GGML_FTYPE_MOSTLY_Q4_0 = 2,
    /// Mostly Q4_1.
    GGML_FTYPE_MOSTLY_Q4_1 = 3,
    /// Mostly Q4_1; token embeddings and output are F16.
    GGML_FTYPE_MOSTLY_Q4_1_SOME_F16 = 4,
    /// Mostly Q8_0.
    GGML_FTYPE_MOSTLY_Q8_0 = 7,
    /// Mostly Q5_0.
    GGML_FTYPE_MOSTLY_Q5_0 = 8,
    /// Mostly Q5_1.
    GGML_FTYPE_MOSTLY_Q5_1 = 9,
    /// Mostly Q2_K.
    GGML_FTYPE_MOSTLY_Q2_K = 10,
    /// Mostly Q3_K.
    GGML_FTYPE_MOSTLY_Q3_K = 11,
    /// Mostly Q4_K.
    GGML_FTYPE_MOSTLY_Q4_K = 12,
    /// Mostly Q5_K.
    GGML_FTYPE_MOSTLY_Q5_K = 13,
    /// Mostly Q6_K.
    GGML_FTYPE_MOSTLY_Q6_K = 14,
    /// Mostly IQ2_XXS.
    GGML_FTYPE_MOSTLY_IQ2_XXS = 15,
    /// Mostly IQ2_XS.
    GGML_FTYPE_MOSTLY_IQ2_XS = 16,
    /// Mostly IQ3_XXS.
    GGML_FTYPE_MOSTLY_IQ3_XXS = 17,
    /// Mostly IQ1_S.
    GGML_FTYPE_MOSTLY_IQ1_S = 18,
    /// Mostly IQ4_NL.
    GGML_FTYPE_MOSTLY_IQ4_NL = 19,
    /// Mostly IQ3_S.
    GGML_FTYPE_MOSTLY_IQ3_S = 20,
    /// Mostly IQ2_S.
    GGML_FTYPE_MOSTLY_IQ2_S = 21,
    /// Mostly IQ4_XS.
    GGML_FTYPE_MOSTLY_IQ4_XS = 22,
    /// Mostly IQ1_M.
    GGML_FTYPE_MOSTLY_IQ1_M = 23,
    /// Mostly BF16.
    GGML_FTYPE_MOSTLY_BF16 = 24,
    /// Mostly MXFP4.
    GGML_FTYPE_MOSTLY_MXFP4 = 25,
    /// Mostly NVFP4.
    GGML_FTYPE_MOSTLY_NVFP4 = 26,
    /// Mostly Q1_0.
    GGML_FTYPE_MOSTLY_Q1_0 = 27,
    /// Mostly Q2_0.
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

/// What a tensor is computed from its sources by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op {
    /// Not computed: a weight, an input or a constant.
    GGML_OP_NONE = 0,
    /// A copy of the source.
    GGML_OP_DUP = 1,
    /// Sum; the second source is repeated to the shape of the first.
    GGML_OP_ADD = 2,
    /// Sum with rows of the second source that the third source chooses.
    GGML_OP_ADD_ID = 3,
    /// Sum with a scalar tensor.
    GGML_OP_ADD1 = 4,
    /// The first source with the second added to a view of it.
    GGML_OP_ACC = 5,
    /// Difference.
    GGML_OP_SUB = 6,
    /// Product, element by element.
    GGML_OP_MUL = 7,
    /// Quotient, element by element.
    GGML_OP_DIV = 8,
    /// Square.
    GGML_OP_SQR = 9,
    /// Square root.
    GGML_OP_SQRT = 10,
    /// Natural logarithm.
    GGML_OP_LOG = 11,
    /// Sine.
    GGML_OP_SIN = 12,
    /// Cosine.
    GGML_OP_COS = 13,
    /// Sum of all elements.
    GGML_OP_SUM = 14,
    /// Sum of each row.
    GGML_OP_SUM_ROWS = 15,
    /// Running sum along each row.
    GGML_OP_CUMSUM = 16,
    /// Mean of each row.
    GGML_OP_MEAN = 17,
    /// Index of the largest element of each row.
    GGML_OP_ARGMAX = 18,
    /// How many elements of two tensors are equal.
    GGML_OP_COUNT_EQUAL = 19,
    /// The source repeated to a larger shape.
    GGML_OP_REPEAT = 20,
    /// Gradient of REPEAT: sums of the repetitions.
    GGML_OP_REPEAT_BACK = 21,
    /// Two sources one after the other along a dimension.
    GGML_OP_CONCAT = 22,
    /// Gradient of SILU.
    GGML_OP_SILU_BACK = 23,
    /// Rows shifted to mean 0 and scaled to variance 1.
    GGML_OP_NORM = 24,
    /// Rows scaled to root mean square 1.
    GGML_OP_RMS_NORM = 25,
    /// Gradient of RMS_NORM.
    GGML_OP_RMS_NORM_BACK = 26,
    /// Groups of channels shifted to mean 0 and scaled to variance 1.
    GGML_OP_GROUP_NORM = 27,
    /// Rows scaled to Euclidean length 1.
    GGML_OP_L2_NORM = 28,
    /// Matrix product with the first source transposed.
    GGML_OP_MUL_MAT = 29,
    /// Matrix product where the third source chooses the matrix for each row (mixture of experts).
    GGML_OP_MUL_MAT_ID = 30,
    /// Sum of outer products: matrix product with the second source transposed.
    GGML_OP_OUT_PROD = 31,
    /// Multiplication by a number and addition of a number.
    GGML_OP_SCALE = 32,
    /// The first source with a view of it overwritten by the second.
    GGML_OP_SET = 33,
    /// The first source written into the second, converted to its type.
    GGML_OP_CPY = 34,
    /// A contiguous copy.
    GGML_OP_CONT = 35,
    /// The same data under another shape.
    GGML_OP_RESHAPE = 36,
    /// A part of the data under another shape and strides.
    GGML_OP_VIEW = 37,
    /// The same data with dimensions in another order.
    GGML_OP_PERMUTE = 38,
    /// The same data with the first two dimensions exchanged.
    GGML_OP_TRANSPOSE = 39,
    /// Rows of the first source that the second source chooses.
    GGML_OP_GET_ROWS = 40,
    /// Gradient of GET_ROWS.
    GGML_OP_GET_ROWS_BACK = 41,
    /// Rows written into a tensor at indices that the second source gives.
    GGML_OP_SET_ROWS = 42,
    /// Vectors placed on the diagonals of matrices.
    GGML_OP_DIAG = 43,
    /// Elements above a diagonal set to minus infinity.
    GGML_OP_DIAG_MASK_INF = 44,
    /// Elements above a diagonal set to zero.
    GGML_OP_DIAG_MASK_ZERO = 45,
    /// Softmax of each row, with optional scale, mask, position bias and sinks.
    GGML_OP_SOFT_MAX = 46,
    /// Gradient of SOFT_MAX.
    GGML_OP_SOFT_MAX_BACK = 47,
    /// Rotary position embedding.
    GGML_OP_ROPE = 48,
    /// Rotation the other way: gradient of ROPE.
    GGML_OP_ROPE_BACK = 49,
    /// Values limited to a range.
    GGML_OP_CLAMP = 50,
    /// Transposed convolution along one dimension.
    GGML_OP_CONV_TRANSPOSE_1D = 51,
    /// Patches of an image laid out as rows, so that a matrix product convolves.
    GGML_OP_IM2COL = 52,
    /// Gradient of IM2COL.
    GGML_OP_IM2COL_BACK = 53,
    /// IM2COL over three dimensions.
    GGML_OP_IM2COL_3D = 54,
    /// Columns added back into a signal: the last step of a transposed convolution.
    GGML_OP_COL2IM_1D = 55,
    /// Convolution along two dimensions, without laying out patches.
    GGML_OP_CONV_2D = 56,
    /// Convolution along three dimensions.
    GGML_OP_CONV_3D = 57,
    /// Convolution of each channel with its own kernel.
    GGML_OP_CONV_2D_DW = 58,
    /// Transposed convolution along two dimensions.
    GGML_OP_CONV_TRANSPOSE_2D = 59,
    /// Pooling along one dimension.
    GGML_OP_POOL_1D = 60,
    /// Pooling along two dimensions.
    GGML_OP_POOL_2D = 61,
    /// Gradient of POOL_2D.
    GGML_OP_POOL_2D_BACK = 62,
    /// Resampling to another size.
    GGML_OP_UPSCALE = 63,
    /// Padding with zeros, or around a torus.
    GGML_OP_PAD = 64,
    /// Padding of rows by reflection at their ends.
    GGML_OP_PAD_REFLECT_1D = 65,
    /// Elements shifted along each dimension, wrapping around.
    GGML_OP_ROLL = 66,
    /// Numbers from a start to a stop in equal steps.
    GGML_OP_ARANGE = 67,
    /// Sinusoidal embedding of time steps.
    GGML_OP_TIMESTEP_EMBEDDING = 68,
    /// Indices that sort each row.
    GGML_OP_ARGSORT = 69,
    /// Indices of the k largest elements of each row, in no particular order.
    GGML_OP_TOP_K = 70,
    /// Rectifier with a slope for negative values.
    GGML_OP_LEAKY_RELU = 71,
    /// A triangular part of each matrix, zeros elsewhere.
    GGML_OP_TRI = 72,
    /// All elements set to one number.
    GGML_OP_FILL = 73,
    /// Attention (softmax of query-key products, times values) in one operation.
    GGML_OP_FLASH_ATTN_EXT = 74,
    /// Gradient of attention.
    GGML_OP_FLASH_ATTN_BACK = 75,
    /// Causal convolution of a state-space model.
    GGML_OP_SSM_CONV = 76,
    /// Recurrence of a state-space model.
    GGML_OP_SSM_SCAN = 77,
    /// Division into square windows.
    GGML_OP_WIN_PART = 78,
    /// Windows joined again.
    GGML_OP_WIN_UNPART = 79,
    /// Relative position embeddings looked up for each pair of positions.
    GGML_OP_GET_REL_POS = 80,
    /// Relative position embeddings added to attention scores.
    GGML_OP_ADD_REL_POS = 81,
    /// Recurrence of RWKV version 6.
    GGML_OP_RWKV_WKV6 = 82,
    /// Linear attention with gates.
    GGML_OP_GATED_LINEAR_ATTN = 83,
    /// Recurrence of RWKV version 7.
    GGML_OP_RWKV_WKV7 = 84,
    /// Solution of a triangular system of equations.
    GGML_OP_SOLVE_TRI = 85,
    /// Recurrence of a gated delta network.
    GGML_OP_GATED_DELTA_NET = 86,
    /// Scores that choose the keys of a sparse attention.
    GGML_OP_LIGHTNING_INDEXER = 87,
    /// Hyper-connections: doubly normalised mixing matrices of the residual streams.
    GGML_OP_DSV4_HC_COMB = 88,
    /// Hyper-connections: weighted sum of the streams, before a layer.
    GGML_OP_DSV4_HC_PRE = 89,
    /// Hyper-connections: the layer's result spread over the mixed streams, after a layer.
    GGML_OP_DSV4_HC_POST = 90,
    /// A function of each element: see `enum ggml_unary_op`.
    GGML_OP_UNARY = 91,
    /// A function of the host with one source.
    GGML_OP_MAP_CUSTOM1 = 92,
    /// A function of the host with two sources.
    GGML_OP_MAP_CUSTOM2 = 93,
    /// A function of the host with three sources.
    GGML_OP_MAP_CUSTOM3 = 94,
    /// A function of the host with any sources.
    GGML_OP_CUSTOM = 95,
    /// Cross entropy of logits and labels, a scalar.
    GGML_OP_CROSS_ENTROPY_LOSS = 96,
    /// Gradient of CROSS_ENTROPY_LOSS.
    GGML_OP_CROSS_ENTROPY_LOSS_BACK = 97,
    /// A step of the optimizer AdamW.
    GGML_OP_OPT_STEP_ADAMW = 98,
    /// A step of stochastic gradient descent.
    GGML_OP_OPT_STEP_SGD = 99,
    /// A gated linear unit: see `enum ggml_glu_op`.
    GGML_OP_GLU = 100,
    /// Number after the last operation.
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

/// Functions of one number, for `GGML_OP_UNARY`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_unary_op {
    ///
    /// x
    /// .
    GGML_UNARY_OP_ABS = 0,
    /// -1, 0 or 1 by sign.
    GGML_UNARY_OP_SGN = 1,
    /// -x.
    GGML_UNARY_OP_NEG = 2,
    /// 1 where x > 0, else 0.
    GGML_UNARY_OP_STEP = 3,
    /// Hyperbolic tangent.
    GGML_UNARY_OP_TANH = 4,
    /// x where x > 0, else exp(x) - 1.
    GGML_UNARY_OP_ELU = 5,
    /// max(x, 0).
    GGML_UNARY_OP_RELU = 6,
    /// 1 / (1 + exp(-x)).
    GGML_UNARY_OP_SIGMOID = 7,
    /// Gaussian error linear unit, by the tanh approximation.
    GGML_UNARY_OP_GELU = 8,
    /// x times the sigmoid of 1.702 x.
    GGML_UNARY_OP_GELU_QUICK = 9,
    /// x times the sigmoid of x.
    GGML_UNARY_OP_SILU = 10,
    /// x * min(max(x + 3, 0), 6) / 6.
    GGML_UNARY_OP_HARDSWISH = 11,
    /// min(max(x + 3, 0), 6) / 6.
    GGML_UNARY_OP_HARDSIGMOID = 12,
    /// exp(x).
    GGML_UNARY_OP_EXP = 13,
    /// exp(x) - 1.
    GGML_UNARY_OP_EXPM1 = 14,
    /// log(1 + exp(x)).
    GGML_UNARY_OP_SOFTPLUS = 15,
    /// Gaussian error linear unit, by the error function.
    GGML_UNARY_OP_GELU_ERF = 16,
    /// Expanded integral of ELU, with four parameters.
    GGML_UNARY_OP_XIELU = 17,
    /// Rounded down.
    GGML_UNARY_OP_FLOOR = 18,
    /// Rounded up.
    GGML_UNARY_OP_CEIL = 19,
    /// Rounded to the nearest integer, halves away from zero.
    GGML_UNARY_OP_ROUND = 20,
    /// Rounded towards zero.
    GGML_UNARY_OP_TRUNC = 21,
    /// Number after the last function.
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

/// Gated linear units, for `GGML_OP_GLU`: a function of one half times the other half.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_glu_op {
    /// Gate by RELU.
    GGML_GLU_OP_REGLU = 0,
    /// Gate by GELU.
    GGML_GLU_OP_GEGLU = 1,
    /// Gate by SILU.
    GGML_GLU_OP_SWIGLU = 2,
    /// Gate by a sigmoid of alpha x, both halves limited, the other half raised by 1.
    GGML_GLU_OP_SWIGLU_OAI = 3,
    /// Gate by GELU_ERF.
    GGML_GLU_OP_GEGLU_ERF = 4,
    /// Gate by GELU_QUICK.
    GGML_GLU_OP_GEGLU_QUICK = 5,
    /// Gate by SILU, with both halves limited.
    GGML_GLU_OP_SWIGLU_CLAMP = 6,
    /// Number after the last unit.
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

/// What a context's memory holds at a place.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_object_type {
    /// A tensor, perhaps with its data.
    GGML_OBJECT_TYPE_TENSOR = 0,
    /// A compute graph.
    GGML_OBJECT_TYPE_GRAPH = 1,
    /// Scratch memory of a computation.
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

/// How much a log line matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_log_level {
    /// Plain output without a level.
    GGML_LOG_LEVEL_NONE = 0,
    /// For those who look for a fault.
    GGML_LOG_LEVEL_DEBUG = 1,
    /// Worth knowing.
    GGML_LOG_LEVEL_INFO = 2,
    /// Something is wrong, the work goes on.
    GGML_LOG_LEVEL_WARN = 3,
    /// Something failed.
    GGML_LOG_LEVEL_ERROR = 4,
    /// Continues the line before, at its level.
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

/// Roles of a tensor, as bits of its `flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_tensor_flag {
    /// Written by the host before the graph runs; allocated first and never shared.
    GGML_TENSOR_FLAG_INPUT = 1,
    /// Read by the host afterwards; its memory is not reused.
    GGML_TENSOR_FLAG_OUTPUT = 2,
    /// A parameter that training changes.
    GGML_TENSOR_FLAG_PARAM = 4,
    /// Part of the loss that training minimises; several add up.
    GGML_TENSOR_FLAG_LOSS = 8,
    /// To be computed when the graph runs.
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

/// Which triangle of a matrix is kept.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_tri_type {
    /// Above the diagonal, and the diagonal.
    GGML_TRI_TYPE_UPPER_DIAG = 0,
    /// Above the diagonal.
    GGML_TRI_TYPE_UPPER = 1,
    /// Below the diagonal, and the diagonal.
    GGML_TRI_TYPE_LOWER_DIAG = 2,
    /// Below the diagonal.
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

/// What pooling takes of a window.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_op_pool {
    /// Its largest element.
    GGML_OP_POOL_MAX = 0,
    /// Its mean.
    GGML_OP_POOL_AVG = 1,
    /// Number after the last kind.
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

/// How resampling finds values between the given ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_scale_mode {
    /// The nearest one.
    GGML_SCALE_MODE_NEAREST = 0,
    /// Linear in two dimensions.
    GGML_SCALE_MODE_BILINEAR = 1,
    /// Cubic in two dimensions.
    GGML_SCALE_MODE_BICUBIC = 2,
    /// Number after the last mode.
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

/// Flags to be or-ed to a scale mode.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_scale_flag {
    /// The centres of the corner elements fall on each other, instead of the outer edges.
    GGML_SCALE_FLAG_ALIGN_CORNERS = 256,
    /// Average over the source area when the result is smaller.
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

/// Order of sorting.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_sort_order {
    /// The smallest first.
    GGML_SORT_ORDER_ASC = 0,
    /// The largest first.
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

/// Priority of threads with the operating system.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_sched_priority {
    /// Below normal.
    GGML_SCHED_PRIO_LOW = -1,
    /// The system's default.
    GGML_SCHED_PRIO_NORMAL = 0,
    /// Above normal.
    GGML_SCHED_PRIO_MEDIUM = 1,
    /// High; may need a privilege.
    GGML_SCHED_PRIO_HIGH = 2,
    /// Highest; may need a privilege.
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

/// An entry of a context's list of objects.
pub struct ggml_object {
    _opaque: [u8; 0],
}

/// A pool of memory that tensors and graphs are made in; they all go when it is freed.
pub struct ggml_context {
    _opaque: [u8; 0],
}

/// A compute graph: tensors in an order in which they can be computed.
pub struct ggml_cgraph {
    _opaque: [u8; 0],
}

/// Threads that compute graphs together.
pub struct ggml_threadpool {
    _opaque: [u8; 0],
}

/// What `ggml_init` needs to know.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_init_params {
    /// Bytes of the pool.
    pub mem_size: usize,
    /// Memory of the caller for the pool, which must outlive the context; NULL: the context allocates its own.
    pub mem_buffer: *mut c_void,
    /// Make only the description of tensors in the pool, not their data.
    pub no_alloc: bool,
}

/// An array of up to four dimensions, and how to compute it.
///
/// Dimension 0 is the innermost: neighbouring elements of a row lie side by side. Tensors live in a context, which
/// owns them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tensor {
    /// Number format of the elements.
    pub r#type: raw::ggml_type,
    /// Buffer that the data lies in; NULL when it lies in the context, or nowhere yet.
    pub buffer: *mut ggml_backend_buffer,
    /// Elements along each dimension; 1 for unused ones.
    pub ne: [i64; 4],
    /// Distance in bytes between neighbours along each dimension. `nb[0]` is the size of a block; for a contiguous
    /// tensor
    /// `nb[1]` is the size of a row and `nb[i]` is `nb[i-1] * ne[i-1]` from there on.
    pub nb: [usize; 4],
    /// Operation that computes the tensor from `src`.
    pub op: raw::ggml_op,
    /// Parameters of the operation; their meaning depends on it.
    pub op_params: [i32; 16],
    /// Bits of `enum ggml_tensor_flag`.
    pub flags: i32,
    /// Sources of the operation; NULL where there is none.
    pub src: [*mut ggml_tensor; 10],
    /// Tensor whose data a view shows; never itself a view. NULL when not a view.
    pub view_src: *mut ggml_tensor,
    /// Bytes from the start of `view_src`'s data to this tensor's.
    pub view_offs: usize,
    /// First element, in host memory or an address of the buffer's device; NULL when not allocated.
    pub data: *mut c_void,
    /// Name, ended by a zero byte.
    pub name: [c_char; 64],
    /// Belongs to the buffer or backend.
    pub extra: *mut c_void,
    /// Unused.
    pub padding: [c_char; 8],
}

/// Facts about a number format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits {
    /// Name, such as "q4_0".
    pub type_name: *const c_char,
    /// Elements in a block.
    pub blck_size: i64,
    /// Elements in an interleaved block; 0 when the format has none.
    pub blck_size_interleave: i64,
    /// Bytes of a block.
    pub type_size: usize,
    /// Whether elements share scales in a block.
    pub is_quantized: bool,
    /// Conversion of a row to single precision; NULL when there is none.
    pub to_float: ggml_to_float_t,
    /// Conversion of a row from single precision, the plain deterministic way; NULL when there is none.
    pub from_float_ref: ggml_from_float_t,
}

/// How a thread pool is set up. Fill it with `ggml_threadpool_params_default`, then change what matters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_threadpool_params {
    /// Processors the threads may run on; all false: wherever the system likes.
    pub cpumask: [bool; 512],
    /// Threads that compute, the calling thread included.
    pub n_threads: c_int,
    /// Priority of the threads.
    pub prio: raw::ggml_sched_priority,
    /// How eagerly waiting threads spin before they sleep: 0 (not at all) to 100.
    pub poll: u32,
    /// Bind each thread to one processor of the mask, in turn.
    pub strict_cpu: bool,
    /// Start asleep, until `ggml_threadpool_resume`.
    pub paused: bool,
}

/// Hears why the process is about to end; called before `abort`.
pub type ggml_abort_callback_t = Option<unsafe extern "C" fn(error_message: *const c_char)>;

/// The bits of a half-precision number.
pub type ggml_fp16_t = u16;

/// Asked before and during a computation whether to stop it: true stops.
pub type ggml_abort_callback = Option<unsafe extern "C" fn(data: *mut c_void) -> bool>;

/// A globally unique identifier.
pub type ggml_guid = [u8; 16];

/// Points to an identifier.
pub type ggml_guid_t = *mut ggml_guid;

/// A host's operation with one source. Called once on each of `nth` threads with its number `ith`; it computes its
/// share of `dst`.
pub type ggml_custom1_op_t = Option<
    unsafe extern "C" fn(dst: *mut ggml_tensor, a: *const ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void),
>;

/// A host's operation with two sources; see `ggml_custom1_op_t`.
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

/// A host's operation with three sources; see `ggml_custom1_op_t`.
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

/// A host's operation with any sources, to be found in `dst->src`; see `ggml_custom1_op_t`.
pub type ggml_custom_op_t =
    Option<unsafe extern "C" fn(dst: *mut ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void)>;

/// Receives log text. A line may come in pieces; it ends with a line feed.
pub type ggml_log_callback =
    Option<unsafe extern "C" fn(level: raw::ggml_log_level, text: *const c_char, user_data: *mut c_void)>;

/// Converts `k` elements of a format at `x` to single precision at `y`.
pub type ggml_to_float_t = Option<unsafe extern "C" fn(x: *const c_void, y: *mut f32, k: i64)>;

/// Converts `k` single-precision numbers at `x` to a format at `y`.
pub type ggml_from_float_t = Option<unsafe extern "C" fn(x: *const f32, y: *mut c_void, k: i64)>;

/// A thread pool.
pub type ggml_threadpool_t = *mut ggml_threadpool;
