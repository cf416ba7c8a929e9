//! Limits, and the numbers that name formats: of elements, of files, of precision.

use libggml_macros::Numbered;

/// "ggml" as a little-endian number: the magic of the files from before GGUF.
/// cbindgen:ignore
pub const GGML_FILE_MAGIC: u32 = 0x67676d6c;
/// Version of the file layout from before GGUF.
pub const GGML_FILE_VERSION: u32 = 2;
/// Version of the quantized block layouts. A new number means that older files can no longer be read.
pub const GGML_QNT_VERSION: u32 = 2;
/// Old model files store the quantization version multiplied by this factor, added to the file type.
pub const GGML_QNT_VERSION_FACTOR: u32 = 1000;
/// Number of dimensions of every tensor.
pub const GGML_MAX_DIMS: usize = 4;
/// Maximum number of parameters that a model may train.
pub const GGML_MAX_PARAMS: usize = 2048;
/// Maximum number of sources of an operation.
pub const GGML_MAX_SRC: usize = 10;
/// Maximum number of threads in a pool.
pub const GGML_MAX_N_THREADS: usize = 512;
/// Size in bytes of the parameters that every tensor stores for its operation.
pub const GGML_MAX_OP_PARAMS: usize = 64;
/// Bytes of a tensor's name, its end mark included: 64, or what the variable GGML_MAX_NAME said to the build
/// (`build.rs` checks it).
/// cbindgen:ignore
pub const GGML_MAX_NAME: usize = match usize::from_str_radix(env!("GGML_MAX_NAME"), 10) {
    Ok(n) => n,
    Err(_) => panic!("GGML_MAX_NAME is no number"),
};
/// Alignment in bytes of everything that lives in a context.
/// cbindgen:ignore
pub const GGML_MEM_ALIGN: usize = 16;
/// Number of threads when the caller does not choose one.
pub const GGML_DEFAULT_N_THREADS: i32 = 4;
/// Number of nodes that `ggml_new_graph` makes room for.
pub const GGML_DEFAULT_GRAPH_SIZE: usize = 2048;
/// Exit status of a program that succeeded.
pub const GGML_EXIT_SUCCESS: i32 = 0;
/// Exit status of a program that was aborted.
pub const GGML_EXIT_ABORTED: i32 = 1;
/// Rotates neighbouring pairs of elements.
pub const GGML_ROPE_TYPE_NORMAL: i32 = 0;
/// Rotates pairs of elements that are half of the rotated dimensions apart.
pub const GGML_ROPE_TYPE_NEOX: i32 = 2;
/// Rotates with several positions per token, one for each section of the head (text and images).
pub const GGML_ROPE_TYPE_MROPE: i32 = 8;
/// Rotates with two positions per patch, for vision encoders.
pub const GGML_ROPE_TYPE_VISION: i32 = 24;
/// As `GGML_ROPE_TYPE_MROPE`, with the sections interleaved.
pub const GGML_ROPE_TYPE_IMROPE: i32 = 40;
/// Number of sections, and of positions per token, in the multi-section modes.
pub const GGML_MROPE_SECTIONS: usize = 4;
/// As `n_tasks`: one task for each thread.
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

/// Result of a computation or an allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_status {
    /// Out of memory.
    GGML_STATUS_ALLOC_FAILED = -2,
    /// Failed; the log says why.
    GGML_STATUS_FAILED = -1,
    /// Succeeded.
    GGML_STATUS_SUCCESS = 0,
    /// Stopped by the abort callback.
    GGML_STATUS_ABORTED = 1,
}

/// Number formats of tensor elements.
///
/// A block format packs a fixed number of neighbouring elements of a row together with their scales. The bits per
/// weight below count everything in the block. The numbers are part of the GGUF file format; the gaps are formats
/// that were removed.
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
    /// Blocks of 32: 8-bit integers, a scale, and the scale times their sum. For activations during a computation,
    /// not for files.
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
    /// Super-blocks of 256: 8-bit integers, a single-precision scale, sums of groups of 16. For activations during a
    /// computation, not for files.
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
    /// 8-bit signed integer.
    GGML_TYPE_I8 = 24,
    /// 16-bit signed integer.
    GGML_TYPE_I16 = 25,
    /// 32-bit signed integer.
    GGML_TYPE_I32 = 26,
    /// 64-bit signed integer.
    GGML_TYPE_I64 = 27,
    /// IEEE 754 double precision.
    GGML_TYPE_F64 = 28,
    /// Super-blocks of 256: the grid of IQ1_S with a scale for each group of 16 (1.75 bits per weight).
    GGML_TYPE_IQ1_M = 29,
    /// bfloat16: the upper half of a single-precision number.
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
    /// 8-bit float of OCP FP8, E4M3: sign, 4 exponent bits, 3 fraction bits; the largest value is 448, there is no
    /// infinity.
    GGML_TYPE_F8_E4M3 = 43,
    /// Number of formats, removed ones included.
    GGML_TYPE_COUNT = 44,
}

/// Lowest precision that an operation may use, for its accumulator or to convert a source.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_prec {
    /// The backend chooses.
    GGML_PREC_UNDEFINED = 0,
    /// Single precision.
    GGML_PREC_F32 = 10,
    /// bfloat16 or better.
    GGML_PREC_BF16 = 15,
    /// Half precision or better.
    GGML_PREC_F16 = 20,
    /// 8-bit block formats or better.
    GGML_PREC_Q8 = 30,
    /// 4-bit block formats or better.
    GGML_PREC_Q4 = 40,
}

/// What the caller knows about the sources of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_op_hint {
    /// Nothing in particular.
    GGML_HINT_NONE = 0,
    /// The first source is a Hadamard matrix: a backend may use a fast transform instead of a matrix product.
    GGML_HINT_SRC0_IS_HADAMARD = 1,
}

/// Kind of a model file: the format of most of its tensors. One-dimensional tensors usually stay F32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_ftype {
    /// Unknown.
    GGML_FTYPE_UNKNOWN = -1,
    /// All tensors are F32.
    GGML_FTYPE_ALL_F32 = 0,
    /// Mostly F16.
    GGML_FTYPE_MOSTLY_F16 = 1,
    /// Mostly Q4_0.
    GGML_FTYPE_MOSTLY_Q4_0 = 2,
    /// Mostly Q4_1.
    GGML_FTYPE_MOSTLY_Q4_1 = 3,
    /// Mostly Q4_1; token embeddings and the output matrix are F16.
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
