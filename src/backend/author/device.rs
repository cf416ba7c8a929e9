//! Devices of a backend author.

use super::event::{self, Event, new_event};
use super::stream::{Stream, new_stream};
use super::{Context, HostMemory, guard, logged};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use crate::abi::backend::*;
use crate::abi::backend_impl::{ggml_backend_device, ggml_backend_device_i};
use crate::abi::ggml::ggml_tensor;
use crate::abi::raw;
use crate::backend::handle::slot;
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef, RegRef};
use crate::error::{Error, Result};
use crate::ggml_abort;
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_void};

/// A device. `this` is the C object that represents it.
pub trait Device: Send + Sync + 'static {
    /// Its streams.
    type Stream: Stream<Event = Self::Event>;
    /// Its events, or [`super::NoEvent`].
    type Event: Event;

    /// Whether `host_buffer_type` exists.
    const HOST_BUFFERS: bool = false;
    /// Whether `buffer_from_host` exists.
    const BUFFERS_FROM_HOST: bool = false;
    /// Whether `offload_op` exists.
    const OFFLOADS: bool = false;
    /// Whether `event_new` exists, and the streams' event functions.
    const EVENTS: bool = false;

    /// Short name, such as "CPU".
    fn name(&self) -> &CStr;

    /// The product, for people.
    fn description(&self) -> &CStr;

    /// Free and total memory in bytes; 0 when there is nothing to tell.
    fn memory(&self) -> (usize, usize);

    /// Kind of device.
    fn kind(&self) -> ggml_backend_dev_type;

    /// PCI address, for PCI devices.
    fn device_id(&self) -> Option<&CStr> {
        None
    }

    /// What the device can do.
    fn caps(&self) -> ggml_backend_dev_caps;

    /// A new stream.
    fn open(&self, this: DeviceRef, params: Option<&CStr>) -> Result<Self::Stream>;

    /// Preferred buffer type.
    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef;

    /// Buffer type in host memory that makes transfers fast.
    fn host_buffer_type(&self, _this: DeviceRef) -> Option<BufferTypeRef> {
        None
    }

    /// A buffer over memory of the host.
    fn buffer_from_host(&self, _this: DeviceRef, _memory: HostMemory, _max_tensor_size: usize) -> Result<BufferBox> {
        Err(Error::Unsupported("buffers of host memory".into()))
    }

    /// Whether the device can compute a node.
    fn supports_op(&self, op: TensorRef) -> bool;

    /// Whether the device can compute with tensors in buffers of a type.
    fn supports_buft(&self, this: DeviceRef, buft: BufferTypeRef) -> bool;

    /// Whether a node is worth running here although its weights are elsewhere.
    fn offload_op(&self, _op: TensorRef) -> bool {
        false
    }

    /// A new event.
    fn event_new(&self) -> Result<Self::Event> {
        Err(Error::Unsupported("events".into()))
    }
}

/// The implementor of a device made here, or `None` for any other.
pub fn device_author<D: Device>(device: DeviceRef) -> Option<&'static D> {
    if !std::ptr::fn_addr_eq(slot!(device.init_backend)?, open::<D> as unsafe extern "C" fn(_, _) -> _) {
        return None;
    }
    // SAFETY: with this function the device came from `leak_device`, so the context from `boxed`; it lives until the
    // process ends.
    unsafe { Context::get(device.context()) }
}

/// An object for a device of a family, or of none, which lives until the process ends.
pub fn leak_device<D: Device>(reg: Option<RegRef>, device: D) -> DeviceRef {
    let object = Box::leak(Box::new(ggml_backend_device {
        iface: iface::<D>(),
        reg: reg.map_or(std::ptr::null_mut(), RegRef::as_ptr),
        context: Context::boxed(device),
    }));
    // SAFETY: leaked, with the shims below for a context of `D`.
    match unsafe { DeviceRef::from_ptr(object) } {
        Some(d) => d,
        None => unreachable!("a box is never NULL"),
    }
}

const fn iface<D: Device>() -> ggml_backend_device_i {
    ggml_backend_device_i {
        get_name: Some(name::<D>),
        get_description: Some(description::<D>),
        get_memory: Some(memory::<D>),
        get_type: Some(kind::<D>),
        get_props: Some(props::<D>),
        init_backend: Some(open::<D>),
        get_buffer_type: Some(buffer_type::<D>),
        get_host_buffer_type: if D::HOST_BUFFERS { Some(host_buffer_type::<D>) } else { None },
        buffer_from_host_ptr: if D::BUFFERS_FROM_HOST { Some(buffer_from_host::<D>) } else { None },
        supports_op: Some(supports_op::<D>),
        supports_buft: Some(supports_buft::<D>),
        offload_op: if D::OFFLOADS { Some(offload_op::<D>) } else { None },
        event_new: if D::EVENTS { Some(event_new::<D>) } else { None },
        event_free: if D::EVENTS { Some(event::free::<D::Event>) } else { None },
        event_synchronize: if D::EVENTS { Some(event::synchronize::<D::Event>) } else { None },
    }
}

/// # Safety
/// `dev` is a valid device of `D`.
unsafe fn author<'a, D: Device>(dev: ggml_backend_dev_t) -> (&'a D, DeviceRef) {
    // SAFETY: forwarded to the caller.
    match unsafe { (Context::get((*dev).context), DeviceRef::from_ptr(dev)) } {
        (Some(d), Some(this)) => (d, this),
        _ => ggml_abort!("a function of one device was called with another"),
    }
}

// The shims. For each: the pointers are what the vtable contract promises for a device of `D`.

unsafe extern "C" fn name<D: Device>(dev: ggml_backend_dev_t) -> *const c_char {
    // SAFETY: the contract.
    guard("get_name", c"?".as_ptr(), || unsafe { author::<D>(dev) }.0.name().as_ptr())
}

unsafe extern "C" fn description<D: Device>(dev: ggml_backend_dev_t) -> *const c_char {
    // SAFETY: the contract.
    guard("get_description", c"?".as_ptr(), || unsafe { author::<D>(dev) }.0.description().as_ptr())
}

unsafe extern "C" fn memory<D: Device>(dev: ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    // SAFETY: the contract.
    let (f, t) = guard("get_memory", (0, 0), || unsafe { author::<D>(dev) }.0.memory());
    // SAFETY: the contract: NULL or writable.
    unsafe {
        if let Some(free) = free.as_mut() {
            *free = f;
        }
        if let Some(total) = total.as_mut() {
            *total = t;
        }
    }
}

unsafe extern "C" fn kind<D: Device>(dev: ggml_backend_dev_t) -> raw::ggml_backend_dev_type {
    let fallback = ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_ACCEL;
    // SAFETY: the contract.
    guard("get_type", fallback, || unsafe { author::<D>(dev) }.0.kind()) as raw::ggml_backend_dev_type
}

unsafe extern "C" fn props<D: Device>(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props) {
    guard("get_props", (), || {
        // SAFETY: the contract.
        let (d, _) = unsafe { author::<D>(dev) };
        let (memory_free, memory_total) = d.memory();
        let all = ggml_backend_dev_props {
            name: d.name().as_ptr(),
            description: d.description().as_ptr(),
            memory_free,
            memory_total,
            r#type: d.kind() as raw::ggml_backend_dev_type,
            device_id: d.device_id().map_or(std::ptr::null(), CStr::as_ptr),
            caps: d.caps(),
        };
        // SAFETY: the contract: `props` is writable.
        unsafe { props.write(all) }
    })
}

unsafe extern "C" fn open<D: Device>(dev: ggml_backend_dev_t, params: *const c_char) -> ggml_backend_t {
    guard("init_backend", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        // SAFETY: the contract: NULL or a valid C string.
        let params = (!params.is_null()).then(|| unsafe { CStr::from_ptr(params) });
        match logged("init_backend", d.open(this, params)) {
            Some(stream) => new_stream(this, stream).into_raw(),
            None => std::ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn buffer_type<D: Device>(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    guard("get_buffer_type", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        d.buffer_type(this).as_ptr()
    })
}

unsafe extern "C" fn host_buffer_type<D: Device>(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    guard("get_host_buffer_type", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        d.host_buffer_type(this).map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr)
    })
}

unsafe extern "C" fn buffer_from_host<D: Device>(
    dev: ggml_backend_dev_t,
    ptr: *mut c_void,
    size: usize,
    max_tensor_size: usize,
) -> ggml_backend_buffer_t {
    guard("buffer_from_host_ptr", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        // SAFETY: the contract: the memory lives as long as the buffer.
        let memory = unsafe { HostMemory::new(ptr, size) };
        let made = logged("buffer_from_host_ptr", d.buffer_from_host(this, memory, max_tensor_size));
        made.map_or(std::ptr::null_mut(), BufferBox::into_raw)
    })
}

unsafe extern "C" fn supports_op<D: Device>(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    guard("supports_op", false, || {
        // SAFETY: the contract.
        unsafe { TensorRef::from_ptr(op).is_some_and(|op| author::<D>(dev).0.supports_op(op)) }
    })
}

unsafe extern "C" fn supports_buft<D: Device>(dev: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool {
    guard("supports_buft", false, || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        // SAFETY: the contract.
        unsafe { BufferTypeRef::from_ptr(buft) }.is_some_and(|buft| d.supports_buft(this, buft))
    })
}

unsafe extern "C" fn offload_op<D: Device>(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool {
    guard("offload_op", false, || {
        // SAFETY: the contract.
        unsafe { TensorRef::from_ptr(op).is_some_and(|op| author::<D>(dev).0.offload_op(op)) }
    })
}

unsafe extern "C" fn event_new<D: Device>(dev: ggml_backend_dev_t) -> ggml_backend_event_t {
    guard("event_new", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let (d, this) = unsafe { author::<D>(dev) };
        logged("event_new", d.event_new()).map_or(std::ptr::null_mut(), |e| new_event(this, e))
    })
}
