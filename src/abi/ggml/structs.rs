//! Tensors, what is opaque to hosts, and functions that hosts give.

use super::GGML_MAX_NAME;
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::raw;
use std::ffi::{c_char, c_int, c_void};

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
    pub name: [c_char; GGML_MAX_NAME],
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
