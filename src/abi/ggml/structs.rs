//! Tensors, what is opaque to hosts, and functions that hosts give.

use super::GGML_MAX_NAME;
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::raw;
use std::ffi::{c_char, c_int, c_void};

/// An entry in the list of objects of a context.
pub struct ggml_object {
    _opaque: [u8; 0],
}

/// A memory pool for tensors and graphs. `ggml_free` frees them all together.
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

/// Parameters of `ggml_init`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_init_params {
    /// Size of the memory pool in bytes.
    pub mem_size: usize,
    /// Memory for the pool, owned by the caller, which must outlive the context. NULL: the context allocates its own.
    pub mem_buffer: *mut c_void,
    /// Tensors get no data in the pool, only their descriptions.
    pub no_alloc: bool,
}

/// A tensor: an array of up to four dimensions, and how it is computed.
///
/// Dimension 0 is the innermost: the elements of a row are neighbours in memory. The context owns its tensors.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_tensor {
    /// Number format of the elements.
    pub r#type: raw::ggml_type,
    /// Buffer that holds the data. NULL if the context holds the data, or if the tensor is not allocated yet.
    pub buffer: *mut ggml_backend_buffer,
    /// Number of elements in each dimension; 1 for unused dimensions.
    pub ne: [i64; 4],
    /// Stride in bytes in each dimension. `nb[0]` is the size of an element, or of a block. In a contiguous tensor,
    /// `nb[1]` is the size of a row, and `nb[i]` is `nb[i-1] * ne[i-1]` after that.
    pub nb: [usize; 4],
    /// Operation that computes this tensor from `src`.
    pub op: raw::ggml_op,
    /// Parameters of the operation. Their meaning depends on it.
    pub op_params: [i32; 16],
    /// Bits of `enum ggml_tensor_flag`.
    pub flags: i32,
    /// Sources of the operation; unused entries are NULL.
    pub src: [*mut ggml_tensor; 10],
    /// The tensor whose data this one is a view of, or NULL. It is never a view itself.
    pub view_src: *mut ggml_tensor,
    /// Offset in bytes of this view in the data of `view_src`.
    pub view_offs: usize,
    /// The first element: an address in host memory or on the device of the buffer. NULL if not allocated.
    pub data: *mut c_void,
    /// Name, terminated by a zero byte.
    pub name: [c_char; GGML_MAX_NAME],
    /// For use by the buffer or backend.
    pub extra: *mut c_void,
    /// Unused.
    pub padding: [c_char; 8],
}

/// Properties of a number format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits {
    /// Name, such as "q4_0".
    pub type_name: *const c_char,
    /// Number of elements in a block.
    pub blck_size: i64,
    /// Number of elements in an interleaved block; 0 if the format has none.
    pub blck_size_interleave: i64,
    /// Size of a block in bytes.
    pub type_size: usize,
    /// Whether the elements of a block share scales.
    pub is_quantized: bool,
    /// Converts a row to single precision. NULL if there is no such conversion.
    pub to_float: ggml_to_float_t,
    /// Converts a row from single precision, with the same result on every machine. NULL if there is no such
    /// conversion.
    pub from_float_ref: ggml_from_float_t,
}

/// Parameters of a thread pool. Set them with `ggml_threadpool_params_default`, then change what you need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_threadpool_params {
    /// Processors that the threads may run on. All false: no restriction.
    pub cpumask: [bool; 512],
    /// Number of threads, including the calling thread.
    pub n_threads: c_int,
    /// Priority of the threads.
    pub prio: raw::ggml_sched_priority,
    /// How long waiting threads spin before they sleep: from 0 (not at all) to 100.
    pub poll: u32,
    /// Binds each thread to one processor of the mask, in turn.
    pub strict_cpu: bool,
    /// The pool starts paused, until `ggml_threadpool_resume`.
    pub paused: bool,
}

/// Receives the message before the process aborts.
pub type ggml_abort_callback_t = Option<unsafe extern "C" fn(error_message: *const c_char)>;

/// The bits of a half-precision number.
pub type ggml_fp16_t = u16;

/// Called before and during a computation: true stops it.
pub type ggml_abort_callback = Option<unsafe extern "C" fn(data: *mut c_void) -> bool>;

/// A globally unique identifier.
pub type ggml_guid = [u8; 16];

/// Pointer to an identifier.
pub type ggml_guid_t = *mut ggml_guid;

/// A custom operation with one source. Each of `nth` threads calls it once, with its number `ith`, and it computes
/// that thread's share of `dst`.
pub type ggml_custom1_op_t = Option<
    unsafe extern "C" fn(dst: *mut ggml_tensor, a: *const ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void),
>;

/// A custom operation with two sources; see `ggml_custom1_op_t`.
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

/// A custom operation with three sources; see `ggml_custom1_op_t`.
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

/// A custom operation that finds its sources in `dst->src`; see `ggml_custom1_op_t`.
pub type ggml_custom_op_t =
    Option<unsafe extern "C" fn(dst: *mut ggml_tensor, ith: c_int, nth: c_int, userdata: *mut c_void)>;

/// Receives log text. A line may arrive in pieces; its last piece ends with a newline.
pub type ggml_log_callback =
    Option<unsafe extern "C" fn(level: raw::ggml_log_level, text: *const c_char, user_data: *mut c_void)>;

/// Converts `k` elements at `x` to single precision at `y`.
pub type ggml_to_float_t = Option<unsafe extern "C" fn(x: *const c_void, y: *mut f32, k: i64)>;

/// Converts `k` single-precision numbers at `x` to the format, at `y`.
pub type ggml_from_float_t = Option<unsafe extern "C" fn(x: *const f32, y: *mut c_void, k: i64)>;

/// A thread pool.
pub type ggml_threadpool_t = *mut ggml_threadpool;
