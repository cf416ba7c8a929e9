//! ggml-backend-impl.h: the vtables (API version 3), seen by an author of a backend. With the handles of these objects,
//! which ggml-alloc.h and ggml-backend.h declare for hosts: the objects contain handles of each other.

use super::ggml::*;
use super::raw;
use std::ffi::{c_char, c_int, c_void};

/// Version of the vtables below. Modules with another version are not loaded.
pub const GGML_BACKEND_API_VERSION: i32 = 3;

/// A kind of buffer: where its memory is, and how data is laid out in it.
pub type ggml_backend_buffer_type_t = *mut ggml_backend_buffer_type;

/// Memory of a device.
pub type ggml_backend_buffer_t = *mut ggml_backend_buffer;

/// A stream of work on a device.
pub type ggml_backend_t = *mut ggml_backend;

/// A point in a stream of work, which the host or another stream can wait for.
pub type ggml_backend_event_t = *mut ggml_backend_event;

/// A graph that a backend has prepared to compute several times.
pub type ggml_backend_graph_plan_t = *mut c_void;

/// A registered backend: a family of devices.
pub type ggml_backend_reg_t = *mut ggml_backend_reg;

/// A device.
pub type ggml_backend_dev_t = *mut ggml_backend_device;

/// Capabilities of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_caps {
    /// Works asynchronously.
    pub r#async: bool,
    /// Has a buffer type in pinned host memory, for fast transfers.
    pub host_buffer: bool,
    /// Can make a buffer of memory that the host has allocated.
    pub buffer_from_host_ptr: bool,
    /// Has events to synchronize streams.
    pub events: bool,
    /// Loads well from memory-mapped files.
    pub mmap_support: bool,
}

/// Properties of a device. The strings live as long as the device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_dev_props {
    /// Short name, such as "CPU".
    pub name: *const c_char,
    /// Description for people, such as the product name.
    pub description: *const c_char,
    /// Free memory in bytes.
    pub memory_free: usize,
    /// Total memory in bytes.
    pub memory_total: usize,
    /// Kind of device.
    pub r#type: raw::ggml_backend_dev_type,
    /// PCI address in lower case, "domain:bus:device.function". NULL if unknown.
    pub device_id: *const c_char,
    /// Capabilities.
    pub caps: ggml_backend_dev_caps,
}

/// Functions of a buffer type. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type_i {
    /// Returns the name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> *const c_char>,
    /// Allocates a buffer of `size` bytes. Returns NULL when out of memory.
    pub alloc_buffer:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t>,
    /// Optional: allocates a buffer and places the given tensors in it. Default: `alloc_buffer` and a linear
    /// allocator.
    pub alloc_buffer_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> ggml_backend_buffer_t,
    >,
    /// Returns the alignment of tensors in bytes.
    pub get_alignment: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// Optional: returns the maximum size of a buffer in bytes. Default: no limit.
    pub get_max_size: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    /// Optional: returns the number of bytes that a tensor needs, padding included. Default: `ggml_nbytes`.
    pub get_alloc_size:
        Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, tensor: *const ggml_tensor) -> usize>,
    /// Optional: returns the number of bytes that `alloc_buffer_n` needs for the given tensors. Default: the sum of
    /// `get_alloc_size`.
    pub get_alloc_size_n: Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: c_int,
        ) -> usize,
    >,
    /// Optional: returns whether the data is in host memory in the usual layout. Default: false.
    pub is_host: Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> bool>,
}

/// A kind of buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_type {
    /// Functions.
    pub iface: ggml_backend_buffer_type_i,
    /// The device it belongs to.
    pub device: ggml_backend_dev_t,
    /// For use by the implementation.
    pub context: *mut c_void,
}

/// Functions of a buffer. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_buffer_i {
    /// Optional: frees what `context` holds.
    pub free_buffer: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    /// Returns the address of the first byte. It need not be a host address, but is never NULL unless the buffer is
    /// empty.
    pub get_base: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t) -> *mut c_void>,
    /// Optional: prepares a tensor that has just been placed in the buffer.
    pub init_tensor:
        Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, tensor: *mut ggml_tensor) -> raw::ggml_status>,
    /// Sets `size` bytes of a tensor to `value`.
    pub memset_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            value: u8,
            offset: usize,
            size: usize,
        ),
    >,
    /// Copies host memory to a tensor.
    pub set_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Copies a tensor to host memory.
    pub get_tensor: Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: copies `n_copies` pieces of `size` bytes to a tensor, with a stride on either side.
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
    /// Optional: copies `n_copies` pieces of `size` bytes from a tensor, with a stride on either side.
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
    /// Optional: copies `src`, in any buffer, to `dst` in this buffer. Returns false if it cannot.
    pub cpy_tensor: Option<
        unsafe extern "C" fn(buffer: ggml_backend_buffer_t, src: *const ggml_tensor, dst: *mut ggml_tensor) -> bool,
    >,
    /// Sets all bytes of the buffer to `value`.
    pub clear: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, value: u8)>,
    /// Optional: discards what `init_tensor` has prepared.
    pub reset: Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    /// Optional: writes several tensors in buffers of this type: `sizes[i]` bytes from `data[i]` to byte `offsets[i]`
    /// of `tensors[i]`.
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
    /// Optional: reads several tensors in buffers of this type: `sizes[i]` bytes from byte `offsets[i]` of
    /// `tensors[i]` to `data[i]`.
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
    /// Optional: copies `srcs[i]`, on any device, to `dsts[i]`, in buffers of this type. If it cannot, copies nothing
    /// and returns false.
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
    /// Functions.
    pub iface: ggml_backend_buffer_i,
    /// Type.
    pub buft: ggml_backend_buffer_type_t,
    /// For use by the implementation.
    pub context: *mut c_void,
    /// Size in bytes.
    pub size: usize,
    /// Purpose.
    pub usage: raw::ggml_backend_buffer_usage,
}

/// Lets `graph_optimize` keep tensors allocated for longer, if the backend runs nodes out of order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_graph_optimize_params {
    /// Keeps the memory of `tensor` until `until`, a node of the same graph, has been computed. If called several
    /// times for a tensor, the longest lifetime applies.
    pub add_alloc_dep:
        Option<unsafe extern "C" fn(user_data: *mut c_void, tensor: *mut ggml_tensor, until: *mut ggml_tensor)>,
    /// First argument of `add_alloc_dep`.
    pub user_data: *mut c_void,
}

/// Functions of a backend. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_i {
    /// Returns the name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(backend: ggml_backend_t) -> *const c_char>,
    /// Frees the backend, including the object itself.
    pub free: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// Optional: queues a copy of host memory to a tensor.
    pub set_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: queues a copy of a tensor to host memory.
    pub get_tensor_async: Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut c_void,
            offset: usize,
            size: usize,
        ),
    >,
    /// Optional: queues a copy of `n_copies` pieces to a tensor.
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
    /// Optional: queues a copy of `n_copies` pieces from a tensor.
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
    /// Optional: queues a copy between backends. Returns false if it cannot.
    pub cpy_tensor_async: Option<
        unsafe extern "C" fn(
            backend_src: ggml_backend_t,
            backend_dst: ggml_backend_t,
            src: *const ggml_tensor,
            dst: *mut ggml_tensor,
        ) -> bool,
    >,
    /// Optional: waits until all queued work is done. Required if the backend queues work.
    pub synchronize: Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    /// Optional: prepares a graph to be computed several times.
    pub graph_plan_create:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *const ggml_cgraph) -> ggml_backend_graph_plan_t>,
    /// Optional: frees a plan.
    pub graph_plan_free: Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t)>,
    /// Optional: changes a plan to fit a new graph.
    pub graph_plan_update: Option<
        unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t, cgraph: *const ggml_cgraph),
    >,
    /// Optional: computes a plan.
    pub graph_plan_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t) -> raw::ggml_status>,
    /// Computes a graph, or queues it if the backend is asynchronous.
    pub graph_compute:
        Option<unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *mut ggml_cgraph) -> raw::ggml_status>,
    /// Optional: records an event at the current end of the queue.
    pub event_record: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// Optional: makes work queued from now on wait for an event of another backend.
    pub event_wait: Option<unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t)>,
    /// Optional: reorders the nodes of a graph, before its memory is planned.
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
    /// Identifies the implementation.
    pub guid: ggml_guid_t,
    /// Functions.
    pub iface: ggml_backend_i,
    /// The device it works on.
    pub device: ggml_backend_dev_t,
    /// For use by the implementation.
    pub context: *mut c_void,
}

/// An event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_event {
    /// The device it belongs to.
    pub device: *mut ggml_backend_device,
    /// For use by the implementation.
    pub context: *mut c_void,
}

/// Functions of a device. Optional ones may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_backend_device_i {
    /// Returns a short name, such as "CPU".
    pub get_name: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// Returns a description for people, such as the product name.
    pub get_description: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const c_char>,
    /// Writes the free and total memory in bytes; 0 if there is none to report.
    pub get_memory: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, free: *mut usize, total: *mut usize)>,
    /// Returns the type of the device.
    pub get_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> raw::ggml_backend_dev_type>,
    /// Writes all properties.
    pub get_props: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props)>,
    /// Creates a backend. Returns NULL on failure.
    pub init_backend: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t>,
    /// Returns the default buffer type.
    pub get_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// Optional: returns a buffer type in pinned host memory, for fast transfers.
    pub get_host_buffer_type: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t>,
    /// Optional: makes a buffer of memory that the host has allocated, such as a mapped file.
    pub buffer_from_host_ptr: Option<
        unsafe extern "C" fn(
            dev: ggml_backend_dev_t,
            ptr: *mut c_void,
            size: usize,
            max_tensor_size: usize,
        ) -> ggml_backend_buffer_t,
    >,
    /// Returns whether the device can compute a node.
    pub supports_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// Returns whether the device can use tensors in buffers of this type.
    pub supports_buft: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool>,
    /// Optional: returns whether the device should compute a node although its weights are in host memory.
    pub offload_op: Option<unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool>,
    /// Optional: creates an event.
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

/// Exported by a module as `ggml_backend_init`: returns its registration.
pub type ggml_backend_init_t = Option<unsafe extern "C" fn() -> ggml_backend_reg_t>;

/// What a loadable module may export as `ggml_backend_score`: the highest score among variants wins, 0 cannot run
/// here.
pub type ggml_backend_score_t = Option<unsafe extern "C" fn() -> c_int>;
