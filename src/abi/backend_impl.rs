//! ggml-backend-impl.h: the vtables (API version 3), seen by an author of a backend.

use super::alloc::*;
use super::backend::*;
use super::ggml::*;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// Version of the vtables below; a module with another one is not loaded.
pub const GGML_BACKEND_API_VERSION: i32 = 3;

/// Functions of a buffer type. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type_i {
    /// Name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> *const c_char>,
    /// Allocates a buffer; NULL when memory cannot be had.
    pub alloc_buffer:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t>,
    /// Optional: allocates a buffer and places the given tensors in it. Without it: `alloc_buffer` and one tensor
    /// after the other.
    pub alloc_buffer_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> ggml_backend_buffer_t,
    >,
    /// Alignment of tensors in bytes.
    pub get_alignment: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// Optional: bytes a buffer may have; without it no limit.
    pub get_max_size: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// Optional: bytes a tensor needs, padding included; without it `ggml_nbytes`.
    pub get_alloc_size:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, tensor: *const ggml_tensor) -> usize>,
    /// Optional: bytes that `alloc_buffer_n` needs for the given tensors; without it the sum over `get_alloc_size`.
    pub get_alloc_size_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> usize,
    >,
    /// Optional: whether data lies in host memory in the usual layout; without it false.
    pub is_host: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> bool>,
}

/// A kind of buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type {
    /// Its functions.
    pub iface: ggml_backend_buffer_type_i,
    /// Device it belongs to.
    pub device: ggml_backend_dev_t,
    /// Belongs to the implementation.
    pub context: *mut c_void,
}

/// Functions of a buffer. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_i {
    /// Optional: frees what `context` holds.
    pub free_buffer: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    /// Address of the first byte; may be no host address, but is never NULL for a buffer with bytes in it.
    pub get_base: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t) -> *mut c_void>,
    /// Optional: prepares a tensor that has just been placed in the buffer.
    pub init_tensor:
        Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, tensor: *mut ggml_tensor) -> raw::ggml_status>,
    /// Sets bytes of a tensor.
    pub memset_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            value: u8,
            offset: usize,
            size: usize,
        ),
    >,
    /// Copies host memory into a tensor.
    pub set_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Copies a tensor into host memory.
    pub get_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: copies `n_copies` pieces of `size` bytes, a stride apart on either side, into a tensor.
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
    /// Optional: the same out of a tensor.
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
    /// Optional: copies `src`, wherever it lies, to `dst` in this buffer; false when it cannot.
    pub cpy_tensor: Option<
        unsafe extern "C" fn(buffer: ggml_backend_buffer_t, src: *const ggml_tensor, dst: *mut ggml_tensor) -> bool,
    >,
    /// Sets all bytes of the buffer.
    pub clear: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, value: u8)>,
    /// Optional: forgets what `init_tensor` prepared.
    pub reset: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    /// Optional: writes several tensors, all in buffers of this buffer's type: `sizes[i]` bytes from `data[i]` to byte `offsets[i]` of
    /// `tensors[i]`.
    pub set_tensor_n: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensors: *const *mut ggml_tensor,
            data: *const *const c_void,
            offsets: *const usize,
            sizes: *const usize,
            n_tensors: usize,
        ),
    >,
    /// Optional: reads several tensors in the same way.
    pub get_tensor_n: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensors: *const *const ggml_tensor,
            data: *const *mut c_void,
            offsets: *const usize,
            sizes: *const usize,
            n_tensors: usize,
        ),
    >,
    /// Optional: copies `srcs[i]`, on any device, to `dsts[i]`, all in buffers of this buffer's type. Returns false, without copying anything,
    /// when it cannot.
    pub cpy_tensor_n: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            srcs: *const *const ggml_tensor,
            dsts: *const *mut ggml_tensor,
            n_tensors: usize,
        ) -> bool,
    >,
}

/// Memory of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer {
    /// Its functions.
    pub iface: ggml_backend_buffer_i,
    /// Its type.
    pub buft: ggml_backend_buffer_type_t,
    /// Belongs to the implementation.
    pub context: *mut c_void,
    /// Bytes.
    pub size: usize,
    /// What it is for.
    pub usage: raw::ggml_backend_buffer_usage,
}

/// Lets `graph_optimize` lengthen the life of tensors, when the backend will run nodes out of order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_optimize_params {
    /// Keeps the memory of `tensor` until `until`, a node of the same graph, has been computed. The longest wish
    /// counts.
    pub add_alloc_dep:
        Option<unsafe extern "C" fn(user_data: *mut c_void, tensor: *mut ggml_tensor, until: *mut ggml_tensor)>,
    /// First argument of `add_alloc_dep`.
    pub user_data: *mut c_void,
}

/// Functions of a stream. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_i {
    /// Name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(backend: ggml_backend_t) -> *const c_char>,
    /// Frees the stream, and the object itself.
    pub free: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// Optional: queues a copy of host memory into a tensor.
    pub set_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: queues a copy of a tensor into host memory.
    pub get_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: queues a copy of pieces into a tensor.
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
    /// Optional: queues a copy of pieces out of a tensor.
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
    /// Optional: queues a copy between streams; false when it cannot.
    pub cpy_tensor_async: Option<
        unsafe extern "C" fn(
            backend_src: ggml_backend_t,
            backend_dst: ggml_backend_t,
            src: *const ggml_tensor,
            dst: *mut ggml_tensor,
        ) -> bool,
    >,
    /// Optional: waits until everything queued is done. Needed when anything is queued.
    pub synchronize: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// Optional: prepares a graph to be computed several times.
    pub graph_plan_create:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *const ggml_cgraph) -> ggml_backend_graph_plan_t>,
    /// Optional: frees a plan.
    pub graph_plan_free: Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t)>,
    /// Optional: changes a plan to a new graph.
    pub graph_plan_update: Option<
        unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t, cgraph: *const ggml_cgraph),
    >,
    /// Optional: computes a plan.
    pub graph_plan_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t) -> raw::ggml_status>,
    /// Computes a graph, or queues it where the stream is asynchronous.
    pub graph_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *mut ggml_cgraph) -> raw::ggml_status>,
    /// Optional: marks the present end of the queue with an event.
    pub event_record: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// Optional: queued work waits for an event of another stream.
    pub event_wait: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// Optional: reorders the nodes of a graph before memory is planned.
    pub graph_optimize: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            cgraph: *mut ggml_cgraph,
            params: *mut ggml_backend_graph_optimize_params,
        ),
    >,
}

/// A stream of work on a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend {
    /// Tells implementations apart.
    pub guid: ggml_guid_t,
    /// Its functions.
    pub iface: ggml_backend_i,
    /// Device it works on.
    pub device: ggml_backend_dev_t,
    /// Belongs to the implementation.
    pub context: *mut c_void,
}

/// An event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_event {
    /// Device it belongs to.
    pub device: *mut ggml_backend_device,
    /// Belongs to the implementation.
    pub context: *mut c_void,
}

/// Functions of a device. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_device_i {
    /// Short name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// The product, for people to read.
    pub get_description: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// Free and total memory in bytes; 0 when there is nothing to tell.
    pub get_memory: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, free: *mut usize, total: *mut usize)>,
    /// Kind of device.
    pub get_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> raw::ggml_backend_dev_type>,
    /// All properties.
    pub get_props: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props)>,
    /// Makes a stream; NULL on failure.
    pub init_backend: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t>,
    /// Preferred buffer type.
    pub get_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// Optional: buffer type in host memory that makes transfers fast.
    pub get_host_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// Optional: a buffer of memory that the host already has, such as a mapped file.
    pub buffer_from_host_ptr: Option<
        unsafe extern "C" fn(
            dev: ggml_backend_dev_t,
            ptr: *mut c_void,
            size: usize,
            max_tensor_size: usize,
        ) -> ggml_backend_buffer_t,
    >,
    /// Whether the device can compute a node.
    pub supports_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// Whether the device can compute with tensors in buffers of a type.
    pub supports_buft: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool>,
    /// Optional: whether a node is worth running here although its weights lie elsewhere.
    pub offload_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// Optional: makes an event.
    pub event_new: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_event_t>,
    /// Optional: frees an event.
    pub event_free: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t)>,
    /// Optional: waits for an event.
    pub event_synchronize: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t)>,
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_device {
    /// Its functions.
    pub iface: ggml_backend_device_i,
    /// Family it belongs to.
    pub reg: ggml_backend_reg_t,
    /// Belongs to the implementation.
    pub context: *mut c_void,
}

/// Functions of a family of devices. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_reg_i {
    /// Name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *const c_char>,
    /// Number of devices.
    pub get_device_count: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> usize>,
    /// A device by its index.
    pub get_device: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t>,
    /// Optional: address of a function beyond this interface, by its name; NULL when there is none.
    pub get_proc_address: Option<unsafe extern "C" fn(reg: ggml_backend_reg_t, name: *const c_char) -> *mut c_void>,
}

/// A family of devices: what a backend registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_reg {
    /// `GGML_BACKEND_API_VERSION` of the header it was built with.
    pub api_version: c_int,
    /// Its functions.
    pub iface: ggml_backend_reg_i,
    /// Belongs to the implementation.
    pub context: *mut c_void,
}

/// What a loadable module exports as `ggml_backend_init`; NULL when the module cannot work here.
pub type ggml_backend_init_t = Option<unsafe extern "C" fn() -> ggml_backend_reg_t>;

/// What a loadable module may export as `ggml_backend_score`: the highest score among variants wins, 0 cannot run
/// here.
pub type ggml_backend_score_t = Option<unsafe extern "C" fn() -> c_int>;
