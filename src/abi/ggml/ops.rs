//! Operations and what they can be told; kinds of objects, tensors, messages and threads.

use libggml_macros::Numbered;

/// What a tensor is computed from its sources by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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
    /// Attention mask that keeps only the picked cells of each row.
    GGML_OP_TOP_K_MASK = 91,
    /// A function of each element: see `enum ggml_unary_op`.
    GGML_OP_UNARY = 92,
    /// A function of the host with one source.
    GGML_OP_MAP_CUSTOM1 = 93,
    /// A function of the host with two sources.
    GGML_OP_MAP_CUSTOM2 = 94,
    /// A function of the host with three sources.
    GGML_OP_MAP_CUSTOM3 = 95,
    /// A function of the host with any sources.
    GGML_OP_CUSTOM = 96,
    /// Cross entropy of logits and labels, a scalar.
    GGML_OP_CROSS_ENTROPY_LOSS = 97,
    /// Gradient of CROSS_ENTROPY_LOSS.
    GGML_OP_CROSS_ENTROPY_LOSS_BACK = 98,
    /// A step of the optimizer AdamW.
    GGML_OP_OPT_STEP_ADAMW = 99,
    /// A step of stochastic gradient descent.
    GGML_OP_OPT_STEP_SGD = 100,
    /// A gated linear unit: see `enum ggml_glu_op`.
    GGML_OP_GLU = 101,
    /// Number after the last operation.
    GGML_OP_COUNT = 102,
}

/// Functions of one number, for `GGML_OP_UNARY`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// Gated linear units, for `GGML_OP_GLU`: a function of one half times the other half.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// What a context's memory holds at a place.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_object_type {
    /// A tensor, perhaps with its data.
    GGML_OBJECT_TYPE_TENSOR = 0,
    /// A compute graph.
    GGML_OBJECT_TYPE_GRAPH = 1,
    /// Scratch memory of a computation.
    GGML_OBJECT_TYPE_WORK_BUFFER = 2,
}

/// How much a log line matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// Roles of a tensor, as bits of its `flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// Which triangle of a matrix is kept.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// What pooling takes of a window.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_op_pool {
    /// Its largest element.
    GGML_OP_POOL_MAX = 0,
    /// Its mean.
    GGML_OP_POOL_AVG = 1,
    /// Number after the last kind.
    GGML_OP_POOL_COUNT = 2,
}

/// How resampling finds values between the given ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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

/// Flags to be or-ed to a scale mode.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_scale_flag {
    /// The centres of the corner elements fall on each other, instead of the outer edges.
    GGML_SCALE_FLAG_ALIGN_CORNERS = 256,
    /// Average over the source area when the result is smaller.
    GGML_SCALE_FLAG_ANTIALIAS = 512,
}

/// Order of sorting.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_sort_order {
    /// The smallest first.
    GGML_SORT_ORDER_ASC = 0,
    /// The largest first.
    GGML_SORT_ORDER_DESC = 1,
}

/// Priority of threads with the operating system.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
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
