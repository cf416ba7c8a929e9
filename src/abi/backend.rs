//! ggml-backend.h: buffers, devices, streams, the scheduler, seen from a host.

use super::alloc::*;
use super::backend_impl::*;
use super::ggml::*;
use super::raw;
use libggml_macros::Numbered;
use std::ffi::{c_char, c_int, c_void};

/// Devices a meta device may join at most.
pub const GGML_BACKEND_META_MAX_DEVICES: usize = 16;

/// What a buffer is for; the scheduler runs operations where their weights lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_buffer_usage {
    /// Nothing in particular.
    GGML_BACKEND_BUFFER_USAGE_ANY = 0,
    /// Weights of a model.
    GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1,
    /// Intermediate results.
    GGML_BACKEND_BUFFER_USAGE_COMPUTE = 2,
}

/// Kinds of devices.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_dev_type {
    /// The processor, working in system memory.
    GGML_BACKEND_DEVICE_TYPE_CPU = 0,
    /// A graphics processor with memory of its own.
    GGML_BACKEND_DEVICE_TYPE_GPU = 1,
    /// A graphics processor that shares system memory.
    GGML_BACKEND_DEVICE_TYPE_IGPU = 2,
    /// A helper to be used together with the CPU device, such as a BLAS library.
    GGML_BACKEND_DEVICE_TYPE_ACCEL = 3,
    /// Several devices joined into one that splits tensors among them.
    GGML_BACKEND_DEVICE_TYPE_META = 4,
}

/// How a tensor is spread over the devices of a meta device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_backend_meta_split_axis {
    /// Divided along dimension 0.
    GGML_BACKEND_SPLIT_AXIS_0 = 0,
    /// Divided along dimension 1.
    GGML_BACKEND_SPLIT_AXIS_1 = 1,
    /// Divided along dimension 2.
    GGML_BACKEND_SPLIT_AXIS_2 = 2,
    /// Divided along dimension 3.
    GGML_BACKEND_SPLIT_AXIS_3 = 3,
    /// Every device holds the whole tensor.
    GGML_BACKEND_SPLIT_AXIS_MIRRORED = 10,
    /// Every device holds a summand of the whole.
    GGML_BACKEND_SPLIT_AXIS_PARTIAL = 11,
    /// No way of spreading; for bookkeeping inside the library.
    GGML_BACKEND_SPLIT_AXIS_NONE = 98,
    /// Not known yet; for bookkeeping inside the library.
    GGML_BACKEND_SPLIT_AXIS_UNKNOWN = 99,
}

/// Spreads graphs over several backends.
pub struct ggml_backend_sched {
    _opaque: [u8; 0],
}

/// What a device can do beyond computing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_caps {
    /// Works while the host goes on.
    pub r#async: bool,
    /// Has a buffer type in host memory that makes transfers fast.
    pub host_buffer: bool,
    /// Makes a buffer of memory that the host already has.
    pub buffer_from_host_ptr: bool,
    /// Has events to synchronise streams with.
    pub events: bool,
    /// Loads well from files mapped into memory.
    pub mmap_support: bool,
}

/// All properties of a device. The texts live as long as the device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_props {
    /// Short name, such as "CPU".
    pub name: *const c_char,
    /// The product, for people to read.
    pub description: *const c_char,
    /// Free memory in bytes.
    pub memory_free: usize,
    /// All memory in bytes.
    pub memory_total: usize,
    /// Kind of device.
    pub r#type: raw::ggml_backend_dev_type,
    /// PCI address in lower case, "domain:bus:device.function", for PCI devices; NULL when unknown.
    pub device_id: *const c_char,
    /// What the device can do.
    pub caps: ggml_backend_dev_caps,
}

/// A feature of a backend, as name and value. Lists of them end with a NULL name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_feature {
    /// Name, such as "AVX2".
    pub name: *const c_char,
    /// Value, usually "1".
    pub value: *const c_char,
}

/// How one tensor is spread over the devices of a meta device.
///
/// A tensor divided along an axis may consist of several segments (as when query, key and value weights are fused
/// into one matrix), each divided by itself. All parts, their repetitions counted, add up to the tensor's size
/// along the axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_meta_split_state {
    /// Axis of the division, or how the devices hold the whole.
    pub axis: raw::ggml_backend_meta_split_axis,
    /// Elements of segment `s` on device `d` along the axis, at `s * n_devices + d`.
    pub ne: [i64; 256],
    /// How often each segment repeats.
    pub nr: [u32; 16],
    /// Segments in use.
    pub n_segments: u32,
}

/// A copy of a graph on another backend, with everything it owns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_copy {
    /// Data of the tensors that have some.
    pub buffer: ggml_backend_buffer_t,
    /// Tensors that have data.
    pub ctx_allocated: *mut ggml_context,
    /// Views and tensors without data.
    pub ctx_unallocated: *mut ggml_context,
    /// The copied graph; NULL when copying failed.
    pub graph: *mut ggml_cgraph,
}

/// A point in a stream that the host or another stream can wait for.
pub type ggml_backend_event_t = *mut ggml_backend_event;

/// A graph that a backend prepared to compute several times.
pub type ggml_backend_graph_plan_t = *mut c_void;

/// A family of devices: a backend as the registry knows it.
pub type ggml_backend_reg_t = *mut ggml_backend_reg;

/// A device.
pub type ggml_backend_dev_t = *mut ggml_backend_device;

/// Under the name "ggml_backend_comm_init": makes a communication context for backends that compute together; NULL
/// on failure.
pub type ggml_backend_comm_init_t =
    Option<unsafe extern "C" fn(backends: *mut ggml_backend_t, n_backends: usize) -> *mut c_void>;

/// Under the name "ggml_backend_comm_free": frees a communication context.
pub type ggml_backend_comm_free_t = Option<unsafe extern "C" fn(comm_ctx: *mut c_void)>;

/// Under the name "ggml_backend_comm_allreduce_tensor": sums one tensor of each backend into all of them.
pub type ggml_backend_comm_allreduce_tensor_t =
    Option<unsafe extern "C" fn(comm_ctx: *mut c_void, tensors: *mut *mut ggml_tensor) -> bool>;

/// Under the name "ggml_backend_split_buffer_type": a buffer type that spreads rows over devices in given
/// proportions.
pub type ggml_backend_split_buffer_type_t =
    Option<unsafe extern "C" fn(main_device: c_int, tensor_split: *const f32) -> ggml_backend_buffer_type_t>;

/// Under the name "ggml_backend_set_n_threads": sets how many threads a backend computes with.
pub type ggml_backend_set_n_threads_t = Option<unsafe extern "C" fn(backend: ggml_backend_t, n_threads: c_int)>;

/// Under the name "ggml_backend_dev_get_extra_bufts": further buffer types of a device, a list that ends with NULL.
pub type ggml_backend_dev_get_extra_bufts_t =
    Option<unsafe extern "C" fn(device: ggml_backend_dev_t) -> *mut ggml_backend_buffer_type_t>;

/// Under the name "ggml_backend_set_abort_callback": sets who is asked whether to stop computing.
pub type ggml_backend_set_abort_callback_t = Option<
    unsafe extern "C" fn(
        backend: ggml_backend_t,
        abort_callback: ggml_abort_callback,
        abort_callback_data: *mut c_void,
    ),
>;

/// Under the name "ggml_backend_get_features": features of a backend, a list that ends with a NULL name.
pub type ggml_backend_get_features_t =
    Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *mut ggml_backend_feature>;

/// A scheduler.
pub type ggml_backend_sched_t = *mut ggml_backend_sched;

/// Watches the nodes of a graph as a scheduler computes it.
///
/// With `ask` true the scheduler wants to know whether the host will look at `t`: true ends a batch of nodes there.
/// With `ask` false `t` has been computed: false cancels the rest of the graph.
pub type ggml_backend_sched_eval_callback =
    Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>;

/// Lets the host copy the weights of a split itself.
///
/// The scheduler calls it for each input of a split that is a weight in host memory, after it has copied the split's other inputs. `src` is
/// the weight, `dst` its copy on `backend`, `graph` the graph of the split. Return true when the copy is done or queued on `backend`; on
/// false the scheduler copies the whole weight.
pub type ggml_backend_sched_copy_callback = Option<
    unsafe extern "C" fn(
        backend: ggml_backend_t,
        src: *const ggml_tensor,
        dst: *mut ggml_tensor,
        graph: *mut ggml_cgraph,
        user_data: *mut c_void,
    ) -> bool,
>;

/// Called when a graph does not fit the reserved compute buffers, before the scheduler waits for all backends and reserves them again.
///
/// `graph` is the graph being allocated. `backend_ids_changed` says that a node or leaf moved to another backend since the last
/// allocation, `graph_size_changed` that the number of tensors changed. When both are false the last reservation was too small.
pub type ggml_backend_sched_realloc_callback = Option<
    unsafe extern "C" fn(
        sched: ggml_backend_sched_t,
        graph: *mut ggml_cgraph,
        backend_ids_changed: bool,
        graph_size_changed: bool,
        user_data: *mut c_void,
    ),
>;

/// Says how a meta device spreads a tensor that holds data (weights, inputs); the spread of results follows.
pub type ggml_backend_meta_get_split_state_t =
    Option<unsafe extern "C" fn(tensor: *const ggml_tensor, userdata: *mut c_void) -> ggml_backend_meta_split_state>;

/// Compares a node's results on two backends; false ends the comparison.
pub type ggml_backend_eval_callback = Option<
    unsafe extern "C" fn(node_index: c_int, t1: *mut ggml_tensor, t2: *mut ggml_tensor, user_data: *mut c_void) -> bool,
>;
