//! Operations and their options; kinds of objects, tensors, messages and threads.

use libggml_macros::Numbered;

/// Operations: how a tensor is computed from its sources.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_op {
    /// None: a weight, an input or a constant.
    GGML_OP_NONE = 0,
    /// Copy of the source.
    GGML_OP_DUP = 1,
    /// a + b, with `b` repeated to the shape of `a`.
    GGML_OP_ADD = 2,
    /// a plus rows of b, which the third source selects.
    GGML_OP_ADD_ID = 3,
    /// a + b, where `b` has one element.
    GGML_OP_ADD1 = 4,
    /// a, with b added to a part of it.
    GGML_OP_ACC = 5,
    /// a - b, element by element.
    GGML_OP_SUB = 6,
    /// a * b, element by element.
    GGML_OP_MUL = 7,
    /// a / b, element by element.
    GGML_OP_DIV = 8,
    /// x * x.
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
    /// Running sum of each row.
    GGML_OP_CUMSUM = 16,
    /// Mean of each row.
    GGML_OP_MEAN = 17,
    /// Index of the largest element of each row.
    GGML_OP_ARGMAX = 18,
    /// Number of positions at which two tensors are equal.
    GGML_OP_COUNT_EQUAL = 19,
    /// The source repeated to fill a larger shape.
    GGML_OP_REPEAT = 20,
    /// Gradient of REPEAT: the sum over all repetitions.
    GGML_OP_REPEAT_BACK = 21,
    /// Two sources joined along a dimension.
    GGML_OP_CONCAT = 22,
    /// Gradient of SILU.
    GGML_OP_SILU_BACK = 23,
    /// Each row shifted to mean 0 and scaled to variance 1.
    GGML_OP_NORM = 24,
    /// Each row scaled to root mean square 1.
    GGML_OP_RMS_NORM = 25,
    /// Gradient of RMS_NORM.
    GGML_OP_RMS_NORM_BACK = 26,
    /// Each group of channels shifted to mean 0 and scaled to variance 1.
    GGML_OP_GROUP_NORM = 27,
    /// Each row scaled to Euclidean length 1.
    GGML_OP_L2_NORM = 28,
    /// Matrix product: dot products of the rows of a and the rows of b.
    GGML_OP_MUL_MAT = 29,
    /// Matrix product in which the third source selects the matrices for each row (mixture of experts).
    GGML_OP_MUL_MAT_ID = 30,
    /// Sum of outer products: a matrix product with b transposed.
    GGML_OP_OUT_PROD = 31,
    /// s * a + b, where s and b are numbers.
    GGML_OP_SCALE = 32,
    /// a, with a part of it overwritten by b.
    GGML_OP_SET = 33,
    /// The first source written into the second, and converted to its type.
    GGML_OP_CPY = 34,
    /// Contiguous copy.
    GGML_OP_CONT = 35,
    /// The same data with another shape.
    GGML_OP_RESHAPE = 36,
    /// Part of the data, with its own shape and strides.
    GGML_OP_VIEW = 37,
    /// The same data with the dimensions in another order.
    GGML_OP_PERMUTE = 38,
    /// The same data with the first two dimensions swapped.
    GGML_OP_TRANSPOSE = 39,
    /// Rows of the first source, selected by the second.
    GGML_OP_GET_ROWS = 40,
    /// Gradient of GET_ROWS.
    GGML_OP_GET_ROWS_BACK = 41,
    /// Rows written into a tensor, at the indices of the second source.
    GGML_OP_SET_ROWS = 42,
    /// Vectors placed on the diagonals of zero matrices.
    GGML_OP_DIAG = 43,
    /// Elements above a diagonal set to minus infinity.
    GGML_OP_DIAG_MASK_INF = 44,
    /// Elements above a diagonal set to zero.
    GGML_OP_DIAG_MASK_ZERO = 45,
    /// Softmax of each row, with an optional scale, mask, ALiBi bias and sinks.
    GGML_OP_SOFT_MAX = 46,
    /// Gradient of SOFT_MAX.
    GGML_OP_SOFT_MAX_BACK = 47,
    /// Rotary position embedding.
    GGML_OP_ROPE = 48,
    /// Gradient of ROPE: the rotation in the opposite direction.
    GGML_OP_ROPE_BACK = 49,
    /// Elements limited to a range.
    GGML_OP_CLAMP = 50,
    /// 1D transposed convolution.
    GGML_OP_CONV_TRANSPOSE_1D = 51,
    /// Patches of an image laid out as rows, so that a matrix product computes a convolution.
    GGML_OP_IM2COL = 52,
    /// Gradient of IM2COL.
    GGML_OP_IM2COL_BACK = 53,
    /// IM2COL of volumes.
    GGML_OP_IM2COL_3D = 54,
    /// Columns added into a signal: the last step of a 1D transposed convolution.
    GGML_OP_COL2IM_1D = 55,
    /// 2D convolution, computed directly.
    GGML_OP_CONV_2D = 56,
    /// 3D convolution, computed directly.
    GGML_OP_CONV_3D = 57,
    /// 2D depthwise convolution: each channel has its own kernel.
    GGML_OP_CONV_2D_DW = 58,
    /// 2D transposed convolution.
    GGML_OP_CONV_TRANSPOSE_2D = 59,
    /// 1D pooling.
    GGML_OP_POOL_1D = 60,
    /// 2D pooling.
    GGML_OP_POOL_2D = 61,
    /// Gradient of POOL_2D.
    GGML_OP_POOL_2D_BACK = 62,
    /// Resampling to another size.
    GGML_OP_UPSCALE = 63,
    /// Padding with zeros, or by wrapping around.
    GGML_OP_PAD = 64,
    /// Padding of rows by reflection at both ends.
    GGML_OP_PAD_REFLECT_1D = 65,
    /// Elements shifted along each dimension, with wrap-around.
    GGML_OP_ROLL = 66,
    /// Numbers from start to stop in equal steps.
    GGML_OP_ARANGE = 67,
    /// Sinusoidal embedding of timesteps.
    GGML_OP_TIMESTEP_EMBEDDING = 68,
    /// Indices that sort each row.
    GGML_OP_ARGSORT = 69,
    /// Indices of the k largest elements of each row, in no particular order.
    GGML_OP_TOP_K = 70,
    /// x where x > 0, otherwise x times a slope.
    GGML_OP_LEAKY_RELU = 71,
    /// A triangle of each matrix, with zeros elsewhere.
    GGML_OP_TRI = 72,
    /// All elements set to one value.
    GGML_OP_FILL = 73,
    /// Attention in one operation: softmax(k q) v, with scale, mask and sinks.
    GGML_OP_FLASH_ATTN_EXT = 74,
    /// Gradient of attention.
    GGML_OP_FLASH_ATTN_BACK = 75,
    /// Causal convolution of a state-space model.
    GGML_OP_SSM_CONV = 76,
    /// Recurrence of a state-space model.
    GGML_OP_SSM_SCAN = 77,
    /// Image split into square windows.
    GGML_OP_WIN_PART = 78,
    /// Windows joined into an image.
    GGML_OP_WIN_UNPART = 79,
    /// Relative position embeddings of every pair of positions.
    GGML_OP_GET_REL_POS = 80,
    /// Relative position embeddings added to attention scores.
    GGML_OP_ADD_REL_POS = 81,
    /// Recurrence of RWKV 6.
    GGML_OP_RWKV_WKV6 = 82,
    /// Gated linear attention.
    GGML_OP_GATED_LINEAR_ATTN = 83,
    /// Recurrence of RWKV 7.
    GGML_OP_RWKV_WKV7 = 84,
    /// Solution of a triangular system of linear equations.
    GGML_OP_SOLVE_TRI = 85,
    /// Recurrence of a gated delta network.
    GGML_OP_GATED_DELTA_NET = 86,
    /// Scores that select the keys of a sparse attention.
    GGML_OP_LIGHTNING_INDEXER = 87,
    /// Hyper-connections: mixing matrices of the residual streams, normalised over rows and columns.
    GGML_OP_DSV4_HC_COMB = 88,
    /// Hyper-connections: weighted sum of the streams, the input of a layer.
    GGML_OP_DSV4_HC_PRE = 89,
    /// Hyper-connections: the output of a layer added to the mixed streams.
    GGML_OP_DSV4_HC_POST = 90,
    /// Attention mask that keeps only the selected cells of each row.
    GGML_OP_TOP_K_MASK = 91,
    /// Function of each element: see `enum ggml_unary_op`.
    GGML_OP_UNARY = 92,
    /// Custom operation with one source.
    GGML_OP_MAP_CUSTOM1 = 93,
    /// Custom operation with two sources.
    GGML_OP_MAP_CUSTOM2 = 94,
    /// Custom operation with three sources.
    GGML_OP_MAP_CUSTOM3 = 95,
    /// Custom operation with any number of sources.
    GGML_OP_CUSTOM = 96,
    /// Cross entropy of logits and labels: one element.
    GGML_OP_CROSS_ENTROPY_LOSS = 97,
    /// Gradient of CROSS_ENTROPY_LOSS.
    GGML_OP_CROSS_ENTROPY_LOSS_BACK = 98,
    /// Step of the optimizer AdamW.
    GGML_OP_OPT_STEP_ADAMW = 99,
    /// Step of stochastic gradient descent.
    GGML_OP_OPT_STEP_SGD = 100,
    /// Gated linear unit: see `enum ggml_glu_op`.
    GGML_OP_GLU = 101,
    /// Number of operations.
    GGML_OP_COUNT = 102,
}

/// Functions of one number x, for `GGML_OP_UNARY`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_unary_op {
    /// Absolute value.
    GGML_UNARY_OP_ABS = 0,
    /// Sign: -1, 0 or 1.
    GGML_UNARY_OP_SGN = 1,
    /// Negation.
    GGML_UNARY_OP_NEG = 2,
    /// 1 where x > 0, otherwise 0.
    GGML_UNARY_OP_STEP = 3,
    /// Hyperbolic tangent.
    GGML_UNARY_OP_TANH = 4,
    /// x where x > 0, otherwise exp(x) - 1.
    GGML_UNARY_OP_ELU = 5,
    /// max(x, 0).
    GGML_UNARY_OP_RELU = 6,
    /// 1 / (1 + exp(-x)).
    GGML_UNARY_OP_SIGMOID = 7,
    /// Gaussian error linear unit, tanh approximation.
    GGML_UNARY_OP_GELU = 8,
    /// x * sigmoid(1.702 * x), a fast approximation of GELU.
    GGML_UNARY_OP_GELU_QUICK = 9,
    /// x * sigmoid(x).
    GGML_UNARY_OP_SILU = 10,
    /// x * min(max(x + 3, 0), 6) / 6.
    GGML_UNARY_OP_HARDSWISH = 11,
    /// min(max(x + 3, 0), 6) / 6.
    GGML_UNARY_OP_HARDSIGMOID = 12,
    /// Exponential function.
    GGML_UNARY_OP_EXP = 13,
    /// exp(x) - 1.
    GGML_UNARY_OP_EXPM1 = 14,
    /// log(1 + exp(x)).
    GGML_UNARY_OP_SOFTPLUS = 15,
    /// Gaussian error linear unit, x * (1 + erf(x / sqrt(2))) / 2.
    GGML_UNARY_OP_GELU_ERF = 16,
    /// Expanded integral of ELU, with four parameters.
    GGML_UNARY_OP_XIELU = 17,
    /// Largest integer not above x.
    GGML_UNARY_OP_FLOOR = 18,
    /// Smallest integer not below x.
    GGML_UNARY_OP_CEIL = 19,
    /// Nearest integer; halves round away from zero.
    GGML_UNARY_OP_ROUND = 20,
    /// Integer part.
    GGML_UNARY_OP_TRUNC = 21,
    /// Number of functions.
    GGML_UNARY_OP_COUNT = 22,
}

/// Gated linear units, for `GGML_OP_GLU`: a function of the gate x, times the other half g.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_glu_op {
    /// relu(x) * g.
    GGML_GLU_OP_REGLU = 0,
    /// gelu(x) * g.
    GGML_GLU_OP_GEGLU = 1,
    /// silu(x) * g.
    GGML_GLU_OP_SWIGLU = 2,
    /// x * sigmoid(alpha * x) * (g + 1), with x and g clamped.
    GGML_GLU_OP_SWIGLU_OAI = 3,
    /// gelu_erf(x) * g.
    GGML_GLU_OP_GEGLU_ERF = 4,
    /// gelu_quick(x) * g.
    GGML_GLU_OP_GEGLU_QUICK = 5,
    /// silu(x) * g, with x and g clamped.
    GGML_GLU_OP_SWIGLU_CLAMP = 6,
    /// Number of gated linear units.
    GGML_GLU_OP_COUNT = 7,
}

/// Kinds of objects in a context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_object_type {
    /// A tensor, with its data unless the context has `no_alloc`.
    GGML_OBJECT_TYPE_TENSOR = 0,
    /// A compute graph.
    GGML_OBJECT_TYPE_GRAPH = 1,
    /// Work memory of a computation.
    GGML_OBJECT_TYPE_WORK_BUFFER = 2,
}

/// Severity of a log line.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_log_level {
    /// No severity.
    GGML_LOG_LEVEL_NONE = 0,
    /// Details, for debugging.
    GGML_LOG_LEVEL_DEBUG = 1,
    /// Information.
    GGML_LOG_LEVEL_INFO = 2,
    /// Something is wrong, but the work goes on.
    GGML_LOG_LEVEL_WARN = 3,
    /// Something failed.
    GGML_LOG_LEVEL_ERROR = 4,
    /// Continues the previous line, with its severity.
    GGML_LOG_LEVEL_CONT = 5,
}

/// Roles of a tensor: bits of its `flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_tensor_flag {
    /// The host writes it before the graph runs. It is allocated first, and shares its memory with no other input.
    GGML_TENSOR_FLAG_INPUT = 1,
    /// The host reads it after the graph has run. Its memory is not reused.
    GGML_TENSOR_FLAG_OUTPUT = 2,
    /// A parameter that training changes.
    GGML_TENSOR_FLAG_PARAM = 4,
    /// A loss that training minimises. Several losses add up.
    GGML_TENSOR_FLAG_LOSS = 8,
    /// The graph computes it.
    GGML_TENSOR_FLAG_COMPUTE = 16,
}

/// Which triangle of a matrix is kept.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_tri_type {
    /// The upper triangle with the diagonal.
    GGML_TRI_TYPE_UPPER_DIAG = 0,
    /// The upper triangle without the diagonal.
    GGML_TRI_TYPE_UPPER = 1,
    /// The lower triangle with the diagonal.
    GGML_TRI_TYPE_LOWER_DIAG = 2,
    /// The lower triangle without the diagonal.
    GGML_TRI_TYPE_LOWER = 3,
}

/// What pooling computes of a window.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_op_pool {
    /// The maximum.
    GGML_OP_POOL_MAX = 0,
    /// The average.
    GGML_OP_POOL_AVG = 1,
    /// Number of kinds.
    GGML_OP_POOL_COUNT = 2,
}

/// Interpolation of `ggml_upscale` and `ggml_interpolate`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_scale_mode {
    /// Nearest neighbour.
    GGML_SCALE_MODE_NEAREST = 0,
    /// Linear in two dimensions.
    GGML_SCALE_MODE_BILINEAR = 1,
    /// Cubic in two dimensions.
    GGML_SCALE_MODE_BICUBIC = 2,
    /// Number of modes.
    GGML_SCALE_MODE_COUNT = 3,
}

/// Flags that can be combined with a scale mode.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_scale_flag {
    /// Aligns the centres of the corner elements, instead of the outer edges.
    GGML_SCALE_FLAG_ALIGN_CORNERS = 256,
    /// Averages over the source area when the result is smaller than the source.
    GGML_SCALE_FLAG_ANTIALIAS = 512,
}

/// Order of sorting.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_sort_order {
    /// Smallest first.
    GGML_SORT_ORDER_ASC = 0,
    /// Largest first.
    GGML_SORT_ORDER_DESC = 1,
}

/// Scheduling priority of threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_sched_priority {
    /// Below normal.
    GGML_SCHED_PRIO_LOW = -1,
    /// The default of the operating system.
    GGML_SCHED_PRIO_NORMAL = 0,
    /// Above normal.
    GGML_SCHED_PRIO_MEDIUM = 1,
    /// High. May need a privilege.
    GGML_SCHED_PRIO_HIGH = 2,
    /// Highest. May need a privilege.
    GGML_SCHED_PRIO_REALTIME = 3,
}
