//! ggml-backend.h: buffers, devices, streams, the scheduler, seen from a host.

use super::alloc::*;
use super::backend_impl::*;
use super::ggml::*;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// Devices a meta device may join at most.
pub const GGML_BACKEND_META_MAX_DEVICES: usize = 16;

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_backend_buffer_usage {
    /// TODO-DOC
    GGML_BACKEND_BUFFER_USAGE_ANY = 0,
    /// TODO-DOC
    GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1,
    /// TODO-DOC
    GGML_BACKEND_BUFFER_USAGE_COMPUTE = 2,
}
impl ggml_backend_buffer_usage {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 3] = [
        Self::GGML_BACKEND_BUFFER_USAGE_ANY,
        Self::GGML_BACKEND_BUFFER_USAGE_WEIGHTS,
        Self::GGML_BACKEND_BUFFER_USAGE_COMPUTE,
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
pub enum ggml_backend_dev_type {
    /// TODO-DOC
    GGML_BACKEND_DEVICE_TYPE_CPU = 0,
    /// TODO-DOC
    GGML_BACKEND_DEVICE_TYPE_GPU = 1,
    /// TODO-DOC
    GGML_BACKEND_DEVICE_TYPE_IGPU = 2,
    /// TODO-DOC
    GGML_BACKEND_DEVICE_TYPE_ACCEL = 3,
    /// TODO-DOC
    GGML_BACKEND_DEVICE_TYPE_META = 4,
}
impl ggml_backend_dev_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 5] = [
        Self::GGML_BACKEND_DEVICE_TYPE_CPU,
        Self::GGML_BACKEND_DEVICE_TYPE_GPU,
        Self::GGML_BACKEND_DEVICE_TYPE_IGPU,
        Self::GGML_BACKEND_DEVICE_TYPE_ACCEL,
        Self::GGML_BACKEND_DEVICE_TYPE_META,
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
pub enum ggml_backend_meta_split_axis {
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_0 = 0,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_1 = 1,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_2 = 2,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_3 = 3,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_MIRRORED = 10,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_PARTIAL = 11,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_NONE = 98,
    /// TODO-DOC
    GGML_BACKEND_SPLIT_AXIS_UNKNOWN = 99,
}
impl ggml_backend_meta_split_axis {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 8] = [
        Self::GGML_BACKEND_SPLIT_AXIS_0,
        Self::GGML_BACKEND_SPLIT_AXIS_1,
        Self::GGML_BACKEND_SPLIT_AXIS_2,
        Self::GGML_BACKEND_SPLIT_AXIS_3,
        Self::GGML_BACKEND_SPLIT_AXIS_MIRRORED,
        Self::GGML_BACKEND_SPLIT_AXIS_PARTIAL,
        Self::GGML_BACKEND_SPLIT_AXIS_NONE,
        Self::GGML_BACKEND_SPLIT_AXIS_UNKNOWN,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            0 => Self::GGML_BACKEND_SPLIT_AXIS_0,
            1 => Self::GGML_BACKEND_SPLIT_AXIS_1,
            2 => Self::GGML_BACKEND_SPLIT_AXIS_2,
            3 => Self::GGML_BACKEND_SPLIT_AXIS_3,
            10 => Self::GGML_BACKEND_SPLIT_AXIS_MIRRORED,
            11 => Self::GGML_BACKEND_SPLIT_AXIS_PARTIAL,
            98 => Self::GGML_BACKEND_SPLIT_AXIS_NONE,
            99 => Self::GGML_BACKEND_SPLIT_AXIS_UNKNOWN,
            _ => return None,
        })
    }
}

/// TODO-DOC (opaque)
pub struct ggml_backend_sched {
    _opaque: [u8; 0],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_caps {
    /// TODO-DOC
    pub r#async: bool,
    /// TODO-DOC
    pub host_buffer: bool,
    /// TODO-DOC
    pub buffer_from_host_ptr: bool,
    /// TODO-DOC
    pub events: bool,
    /// TODO-DOC
    pub mmap_support: bool,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_props {
    /// TODO-DOC
    pub name: *const c_char,
    /// TODO-DOC
    pub description: *const c_char,
    /// TODO-DOC
    pub memory_free: usize,
    /// TODO-DOC
    pub memory_total: usize,
    /// TODO-DOC
    pub r#type: raw::ggml_backend_dev_type,
    /// TODO-DOC
    pub device_id: *const c_char,
    /// TODO-DOC
    pub caps: ggml_backend_dev_caps,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_feature {
    /// TODO-DOC
    pub name: *const c_char,
    /// TODO-DOC
    pub value: *const c_char,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_meta_split_state {
    /// TODO-DOC
    pub axis: raw::ggml_backend_meta_split_axis,
    /// TODO-DOC
    pub ne: [i64; 256],
    /// TODO-DOC
    pub nr: [u32; 16],
    /// TODO-DOC
    pub n_segments: u32,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_copy {
    /// TODO-DOC
    pub buffer: ggml_backend_buffer_t,
    /// TODO-DOC
    pub ctx_allocated: *mut ggml_context,
    /// TODO-DOC
    pub ctx_unallocated: *mut ggml_context,
    /// TODO-DOC
    pub graph: *mut ggml_cgraph,
}

/// TODO-DOC
pub type ggml_backend_event_t = *mut ggml_backend_event;

/// TODO-DOC
pub type ggml_backend_graph_plan_t = *mut c_void;

/// TODO-DOC
pub type ggml_backend_reg_t = *mut ggml_backend_reg;

/// TODO-DOC
pub type ggml_backend_dev_t = *mut ggml_backend_device;

/// TODO-DOC
pub type ggml_backend_comm_init_t =
    Option<unsafe extern "C" fn(backends: *mut ggml_backend_t, n_backends: usize) -> *mut c_void>;

/// TODO-DOC
pub type ggml_backend_comm_free_t = Option<unsafe extern "C" fn(comm_ctx: *mut c_void)>;

/// TODO-DOC
pub type ggml_backend_comm_allreduce_tensor_t =
    Option<unsafe extern "C" fn(comm_ctx: *mut c_void, tensors: *mut *mut ggml_tensor) -> bool>;

/// TODO-DOC
pub type ggml_backend_split_buffer_type_t =
    Option<unsafe extern "C" fn(main_device: c_int, tensor_split: *const f32) -> ggml_backend_buffer_type_t>;

/// TODO-DOC
pub type ggml_backend_set_n_threads_t = Option<unsafe extern "C" fn(backend: ggml_backend_t, n_threads: c_int)>;

/// TODO-DOC
pub type ggml_backend_dev_get_extra_bufts_t =
    Option<unsafe extern "C" fn(device: ggml_backend_dev_t) -> *mut ggml_backend_buffer_type_t>;

/// TODO-DOC
pub type ggml_backend_set_abort_callback_t = Option<
    unsafe extern "C" fn(
        backend: ggml_backend_t,
        abort_callback: ggml_abort_callback,
        abort_callback_data: *mut c_void,
    ),
>;

/// TODO-DOC
pub type ggml_backend_get_features_t =
    Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *mut ggml_backend_feature>;

/// TODO-DOC
pub type ggml_backend_sched_t = *mut ggml_backend_sched;

/// TODO-DOC
pub type ggml_backend_sched_eval_callback =
    Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>;

/// TODO-DOC
pub type ggml_backend_meta_get_split_state_t =
    Option<unsafe extern "C" fn(tensor: *const ggml_tensor, userdata: *mut c_void) -> ggml_backend_meta_split_state>;

/// TODO-DOC
pub type ggml_backend_eval_callback = Option<
    unsafe extern "C" fn(node_index: c_int, t1: *mut ggml_tensor, t2: *mut ggml_tensor, user_data: *mut c_void) -> bool,
>;
