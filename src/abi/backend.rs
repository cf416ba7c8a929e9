//! ggml-backend.h: buffers, devices, streams, the scheduler, seen from a host. `backend_impl` has the handles that this
//! header declares, and what a device says about itself.

use super::backend_impl::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
pub use super::backend_impl::{
    ggml_backend_dev_caps, ggml_backend_dev_props, ggml_backend_dev_t, ggml_backend_event_t, ggml_backend_graph_plan_t,
    ggml_backend_reg_t,
};
use super::ggml::*;
use super::raw;
use libggml_macros::Numbered;
use std::ffi::{c_char, c_int, c_void};

/// Maximum number of devices in a meta device.
pub const GGML_BACKEND_META_MAX_DEVICES: usize = 16;

/// Purpose of a buffer. The scheduler runs operations where their weights are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_buffer_usage {
    /// Any.
    GGML_BACKEND_BUFFER_USAGE_ANY = 0,
    /// The weights of a model.
    GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1,
    /// Intermediate results.
    GGML_BACKEND_BUFFER_USAGE_COMPUTE = 2,
}

/// Kinds of devices.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_dev_type {
    /// The CPU, which uses system memory.
    GGML_BACKEND_DEVICE_TYPE_CPU = 0,
    /// A GPU with its own memory.
    GGML_BACKEND_DEVICE_TYPE_GPU = 1,
    /// A GPU that shares system memory.
    GGML_BACKEND_DEVICE_TYPE_IGPU = 2,
    /// An accelerator that works together with the CPU device, such as a BLAS library.
    GGML_BACKEND_DEVICE_TYPE_ACCEL = 3,
    /// Several devices joined into one, for tensor parallelism.
    GGML_BACKEND_DEVICE_TYPE_META = 4,
}

/// How a tensor is distributed over the devices of a meta device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_meta_split_axis {
    /// Split along dimension 0.
    GGML_BACKEND_SPLIT_AXIS_0 = 0,
    /// Split along dimension 1.
    GGML_BACKEND_SPLIT_AXIS_1 = 1,
    /// Split along dimension 2.
    GGML_BACKEND_SPLIT_AXIS_2 = 2,
    /// Split along dimension 3.
    GGML_BACKEND_SPLIT_AXIS_3 = 3,
    /// Every device has the whole tensor.
    GGML_BACKEND_SPLIT_AXIS_MIRRORED = 10,
    /// Every device has a partial sum.
    GGML_BACKEND_SPLIT_AXIS_PARTIAL = 11,
    /// Not distributed. For internal use.
    GGML_BACKEND_SPLIT_AXIS_NONE = 98,
    /// Not known yet. For internal use.
    GGML_BACKEND_SPLIT_AXIS_UNKNOWN = 99,
}

/// Distributes graphs over several backends.
pub struct ggml_backend_sched {
    _opaque: [u8; 0],
}

/// A feature of a backend.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_feature {
    /// Name, such as "AVX2".
    pub name: *const c_char,
    /// Value, usually "1".
    pub value: *const c_char,
}

/// How one tensor is distributed over the devices of a meta device.
///
/// A tensor that is split along an axis may consist of several segments (for example when the query, key and value
/// weights are fused into one matrix), and each segment is split separately. All parts, with their repetitions, add
/// up to the size of the tensor along the axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_meta_split_state {
    /// The axis of the split, or how the devices share the whole tensor.
    pub axis: raw::ggml_backend_meta_split_axis,
    /// Elements along the axis of segment `s` on device `d`, at index `s * n_devices + d`.
    pub ne: [i64; 256],
    /// Number of repetitions of each segment.
    pub nr: [u32; 16],
    /// Number of segments.
    pub n_segments: u32,
}

/// A copy of a graph on another backend, with everything it owns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_copy {
    /// The data of the tensors in `ctx_allocated`.
    pub buffer: ggml_backend_buffer_t,
    /// The tensors that have data.
    pub ctx_allocated: *mut ggml_context,
    /// The views and the tensors without data.
    pub ctx_unallocated: *mut ggml_context,
    /// The copied graph. NULL if the copy failed.
    pub graph: *mut ggml_cgraph,
}

/// "ggml_backend_comm_init": creates a communication context for backends that compute together. Returns NULL on
/// failure.
pub type ggml_backend_comm_init_t =
    Option<unsafe extern "C" fn(backends: *mut ggml_backend_t, n_backends: usize) -> *mut c_void>;

/// "ggml_backend_comm_free": frees a communication context.
pub type ggml_backend_comm_free_t = Option<unsafe extern "C" fn(comm_ctx: *mut c_void)>;

/// "ggml_backend_comm_allreduce_tensor": adds up one tensor of each backend, and stores the sum in all of them.
pub type ggml_backend_comm_allreduce_tensor_t =
    Option<unsafe extern "C" fn(comm_ctx: *mut c_void, tensors: *mut *mut ggml_tensor) -> bool>;

/// "ggml_backend_split_buffer_type": a buffer type that distributes rows over devices in the given proportions.
pub type ggml_backend_split_buffer_type_t =
    Option<unsafe extern "C" fn(main_device: c_int, tensor_split: *const f32) -> ggml_backend_buffer_type_t>;

/// "ggml_backend_set_n_threads": sets the number of threads of a backend.
pub type ggml_backend_set_n_threads_t = Option<unsafe extern "C" fn(backend: ggml_backend_t, n_threads: c_int)>;

/// "ggml_backend_dev_get_extra_bufts": returns more buffer types of a device, an array that ends with NULL.
pub type ggml_backend_dev_get_extra_bufts_t =
    Option<unsafe extern "C" fn(device: ggml_backend_dev_t) -> *mut ggml_backend_buffer_type_t>;

/// "ggml_backend_set_abort_callback": sets the callback that can stop a computation.
pub type ggml_backend_set_abort_callback_t = Option<
    unsafe extern "C" fn(
        backend: ggml_backend_t,
        abort_callback: ggml_abort_callback,
        abort_callback_data: *mut c_void,
    ),
>;

/// "ggml_backend_get_features": returns the features of a backend, an array that ends with a NULL name.
pub type ggml_backend_get_features_t =
    Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *mut ggml_backend_feature>;

/// A scheduler.
pub type ggml_backend_sched_t = *mut ggml_backend_sched;

/// Observes the nodes of a graph while a scheduler computes it.
///
/// If `ask` is true, `t` is about to be computed: return true to observe it, which makes the scheduler compute all
/// nodes up to `t` and then call the function again. If `ask` is false, `t` has been computed: return false to skip the
/// rest of the current split.
pub type ggml_backend_sched_eval_callback =
    Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>;

/// Lets the host copy the weights of a split itself.
///
/// The scheduler calls it for each input of a split that is a weight in host memory, after it has copied the other
/// inputs of the split. `src` is the weight, `dst` its copy on `backend`, `graph` the graph of the split. Return true
/// if the copy is done, or queued on `backend`; false makes the scheduler copy the whole weight.
pub type ggml_backend_sched_copy_callback = Option<
    unsafe extern "C" fn(
        backend: ggml_backend_t,
        src: *const ggml_tensor,
        dst: *mut ggml_tensor,
        graph: *mut ggml_cgraph,
        user_data: *mut c_void,
    ) -> bool,
>;

/// Called when a graph does not fit the reserved compute buffers, before the scheduler waits for all backends and
/// reserves them again.
///
/// `graph` is the graph being allocated. `backend_ids_changed`: a node or leaf has moved to another backend since the
/// last allocation. `graph_size_changed`: the number of tensors has changed. If both are false, the last reservation
/// was too small.
pub type ggml_backend_sched_realloc_callback = Option<
    unsafe extern "C" fn(
        sched: ggml_backend_sched_t,
        graph: *mut ggml_cgraph,
        backend_ids_changed: bool,
        graph_size_changed: bool,
        user_data: *mut c_void,
    ),
>;

/// Returns how a meta device distributes a tensor that holds data (weights, inputs). The distribution of results
/// follows from it.
pub type ggml_backend_meta_get_split_state_t =
    Option<unsafe extern "C" fn(tensor: *const ggml_tensor, userdata: *mut c_void) -> ggml_backend_meta_split_state>;

/// Receives the results of a node on both backends. false ends the comparison.
pub type ggml_backend_eval_callback = Option<
    unsafe extern "C" fn(node_index: c_int, t1: *mut ggml_tensor, t2: *mut ggml_tensor, user_data: *mut c_void) -> bool,
>;
