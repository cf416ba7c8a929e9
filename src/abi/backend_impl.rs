//! ggml-backend-impl.h: the vtables (API version 3), seen by an author of a backend.

use super::alloc::*;
use super::backend::*;
use super::ggml::*;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// Version of the vtables below; a module with another one is not loaded.
pub const GGML_BACKEND_API_VERSION: i32 = 3;

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type_i {
    /// TODO-DOC
    pub get_name: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> *const c_char>,
    /// TODO-DOC
    pub alloc_buffer:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t>,
    /// TODO-DOC
    pub alloc_buffer_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> ggml_backend_buffer_t,
    >,
    /// TODO-DOC
    pub get_alignment: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// TODO-DOC
    pub get_max_size: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// TODO-DOC
    pub get_alloc_size:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, tensor: *const ggml_tensor) -> usize>,
    /// TODO-DOC
    pub get_alloc_size_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> usize,
    >,
    /// TODO-DOC
    pub is_host: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> bool>,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type {
    /// TODO-DOC
    pub iface: ggml_backend_buffer_type_i,
    /// TODO-DOC
    pub device: ggml_backend_dev_t,
    /// TODO-DOC
    pub context: *mut c_void,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_i {
    /// TODO-DOC
    pub free_buffer: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    /// TODO-DOC
    pub get_base: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t) -> *mut c_void>,
    /// TODO-DOC
    pub init_tensor:
        Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, tensor: *mut ggml_tensor) -> raw::ggml_status>,
    /// TODO-DOC
    pub memset_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            value: u8,
            offset: usize,
            size: usize,
        ),
    >,
    /// TODO-DOC
    pub set_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// TODO-DOC
    pub get_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// TODO-DOC
    pub set_tensor_2d: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    /// TODO-DOC
    pub get_tensor_2d: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    /// TODO-DOC
    pub cpy_tensor: Option<
        unsafe extern "C" fn(buffer: ggml_backend_buffer_t, src: *const ggml_tensor, dst: *mut ggml_tensor) -> bool,
    >,
    /// TODO-DOC
    pub clear: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, value: u8)>,
    /// TODO-DOC
    pub reset: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer {
    /// TODO-DOC
    pub iface: ggml_backend_buffer_i,
    /// TODO-DOC
    pub buft: ggml_backend_buffer_type_t,
    /// TODO-DOC
    pub context: *mut c_void,
    /// TODO-DOC
    pub size: usize,
    /// TODO-DOC
    pub usage: raw::ggml_backend_buffer_usage,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_optimize_params {
    /// TODO-DOC
    pub add_alloc_dep:
        Option<unsafe extern "C" fn(user_data: *mut c_void, tensor: *mut ggml_tensor, until: *mut ggml_tensor)>,
    /// TODO-DOC
    pub user_data: *mut c_void,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_i {
    /// TODO-DOC
    pub get_name: Option<unsafe extern "C" fn(backend: ggml_backend_t) -> *const c_char>,
    /// TODO-DOC
    pub free: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// TODO-DOC
    pub set_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// TODO-DOC
    pub get_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// TODO-DOC
    pub set_tensor_2d_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    /// TODO-DOC
    pub get_tensor_2d_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    /// TODO-DOC
    pub cpy_tensor_async: Option<
        unsafe extern "C" fn(
            backend_src: ggml_backend_t,
            backend_dst: ggml_backend_t,
            src: *const ggml_tensor,
            dst: *mut ggml_tensor,
        ) -> bool,
    >,
    /// TODO-DOC
    pub synchronize: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// TODO-DOC
    pub graph_plan_create:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *const ggml_cgraph) -> ggml_backend_graph_plan_t>,
    /// TODO-DOC
    pub graph_plan_free: Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t)>,
    /// TODO-DOC
    pub graph_plan_update: Option<
        unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t, cgraph: *const ggml_cgraph),
    >,
    /// TODO-DOC
    pub graph_plan_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t) -> raw::ggml_status>,
    /// TODO-DOC
    pub graph_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *mut ggml_cgraph) -> raw::ggml_status>,
    /// TODO-DOC
    pub event_record: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// TODO-DOC
    pub event_wait: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// TODO-DOC
    pub graph_optimize: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            cgraph: *mut ggml_cgraph,
            params: *mut ggml_backend_graph_optimize_params,
        ),
    >,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend {
    /// TODO-DOC
    pub guid: ggml_guid_t,
    /// TODO-DOC
    pub iface: ggml_backend_i,
    /// TODO-DOC
    pub device: ggml_backend_dev_t,
    /// TODO-DOC
    pub context: *mut c_void,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_event {
    /// TODO-DOC
    pub device: *mut ggml_backend_device,
    /// TODO-DOC
    pub context: *mut c_void,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_device_i {
    /// TODO-DOC
    pub get_name: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// TODO-DOC
    pub get_description: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// TODO-DOC
    pub get_memory: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, free: *mut usize, total: *mut usize)>,
    /// TODO-DOC
    pub get_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> raw::ggml_backend_dev_type>,
    /// TODO-DOC
    pub get_props: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props)>,
    /// TODO-DOC
    pub init_backend: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t>,
    /// TODO-DOC
    pub get_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// TODO-DOC
    pub get_host_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// TODO-DOC
    pub buffer_from_host_ptr: Option<
        unsafe extern "C" fn(
            dev: ggml_backend_dev_t,
            ptr: *mut c_void,
            size: usize,
            max_tensor_size: usize,
        ) -> ggml_backend_buffer_t,
    >,
    /// TODO-DOC
    pub supports_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// TODO-DOC
    pub supports_buft: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool>,
    /// TODO-DOC
    pub offload_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// TODO-DOC
    pub event_new: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_event_t>,
    /// TODO-DOC
    pub event_free: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t)>,
    /// TODO-DOC
    pub event_synchronize: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t)>,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_device {
    /// TODO-DOC
    pub iface: ggml_backend_device_i,
    /// TODO-DOC
    pub reg: ggml_backend_reg_t,
    /// TODO-DOC
    pub context: *mut c_void,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_reg_i {
    /// TODO-DOC
    pub get_name: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *const c_char>,
    /// TODO-DOC
    pub get_device_count: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> usize>,
    /// TODO-DOC
    pub get_device: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t>,
    /// TODO-DOC
    pub get_proc_address: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t, name: *const c_char) -> *mut c_void>,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_reg {
    /// TODO-DOC
    pub api_version: c_int,
    /// TODO-DOC
    pub iface: ggml_backend_reg_i,
    /// TODO-DOC
    pub context: *mut c_void,
}

/// TODO-DOC
pub type ggml_backend_init_t = Option<unsafe extern "C" fn() -> ggml_backend_reg_t>;

/// TODO-DOC
pub type ggml_backend_score_t = Option<unsafe extern "C" fn() -> c_int>;
