//! Limits, and the numbers that name formats: of elements, of files, of precision.

use libggml_macros::Numbered;

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
/// Bytes of a tensor's name, its end mark included: 64, or what the variable GGML_MAX_NAME said to the build (`build.rs`
/// checks it).
/// cbindgen:ignore
pub const GGML_MAX_NAME: usize = match usize::from_str_radix(env!("GGML_MAX_NAME"), 10) {
    Ok(n) => n,
    Err(_) => panic!("GGML_MAX_NAME is no number"),
};
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

/// A float of 8 bits in the format E4M3 of OCP FP8.
/// cbindgen:ignore
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ggml_fp8_e4m3_t {
    /// Sign, 4 exponent bits (bias 7), 3 fraction bits; all exponent and fraction bits set: NaN.
    pub bits: u8,
}

/// How a computation or an allocation ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// Number formats of tensor elements.
///
/// A block format packs a fixed number of neighbouring elements of a row with their scales. The bits per weight
/// named below count everything that a block holds. The numbers are part of GGUF files: gaps are formats that no
/// longer exist.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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
    /// Float of 8 bits, E4M3 (OCP FP8): sign, 4 exponent bits, 3 fraction bits; at most 448, no infinity.
    GGML_TYPE_F8_E4M3 = 43,
    /// Number after the last format.
    GGML_TYPE_COUNT = 44,
}

/// Precision an operation must keep, for its sums or for its conversion of a source.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// What a caller knows about the sources of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_op_hint {
    /// Nothing in particular.
    GGML_HINT_NONE = 0,
    /// The first source is a Hadamard matrix, so a fast transform may take the place of the product.
    GGML_HINT_SRC0_IS_HADAMARD = 1,
}

/// Format that most tensors of a model file have; one-dimensional tensors usually stay F32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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
    /// Mostly F8_E4M3.
    GGML_FTYPE_MOSTLY_F8_E4M3 = 29,
}
