//! Devices of a backend author.

use super::context::Context;
use super::event::{self, Event, new_event};
use super::host::HostMemory;
use super::run::{guard, logged};
use super::shim::{self, HostPointer, Out, shims};
use super::stream::{Stream, new_stream};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use crate::abi::backend::*;
use crate::abi::backend_impl::{ggml_backend_device, ggml_backend_device_i};
use crate::abi::ggml::ggml_tensor;
use crate::abi::raw;
use crate::backend::handle::slot;
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef, RegRef};
use crate::error::{Error, Result};
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

    /// Free and total memory in bytes; 0 if unknown.
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
    if !std::ptr::fn_addr_eq(slot!(device.init_backend)?, init_backend::<D> as unsafe extern "C" fn(_, _) -> _) {
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
        get_name: Some(get_name::<D>),
        get_description: Some(get_description::<D>),
        get_memory: Some(get_memory::<D>),
        get_type: Some(get_type::<D>),
        get_props: Some(get_props::<D>),
        init_backend: Some(init_backend::<D>),
        get_buffer_type: Some(get_buffer_type::<D>),
        get_host_buffer_type: if D::HOST_BUFFERS { Some(get_host_buffer_type::<D>) } else { None },
        buffer_from_host_ptr: if D::BUFFERS_FROM_HOST { Some(buffer_from_host_ptr::<D>) } else { None },
        supports_op: Some(supports_op::<D>),
        supports_buft: Some(supports_buft::<D>),
        offload_op: if D::OFFLOADS { Some(offload_op::<D>) } else { None },
        event_new: if D::EVENTS { Some(event_new::<D>) } else { None },
        event_free: if D::EVENTS { Some(event::free::<D::Event>) } else { None },
        event_synchronize: if D::EVENTS { Some(event::synchronize::<D::Event>) } else { None },
    }
}

/// The device that a function belongs to.
type This<'c, D> = shim::This<'c, D, DeviceRef>;

shims! {
    fn get_name<D: Device>(this: ggml_backend_dev_t => This<D>) -> *const c_char, c"?".as_ptr() => { this.name().as_ptr() }

    fn get_description<D: Device>(this: ggml_backend_dev_t => This<D>) -> *const c_char, c"?".as_ptr() => {
        this.description().as_ptr()
    }

    fn get_memory<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        free: *mut usize => Out<usize>,
        total: *mut usize => Out<usize>,
    ) -> (), () => {
        let (bytes_free, bytes) = guard("get_memory", || (0, 0), || this.memory());
        free.put(bytes_free);
        total.put(bytes);
    }

    fn get_type<D: Device>(
        this: ggml_backend_dev_t => This<D>,
    ) -> raw::ggml_backend_dev_type, ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_ACCEL as raw::ggml_backend_dev_type => {
        this.kind() as raw::ggml_backend_dev_type
    }

    fn get_props<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        props: *mut ggml_backend_dev_props => Out<ggml_backend_dev_props>,
    ) -> (), () => {
        let (memory_free, memory_total) = this.memory();
        props.put(ggml_backend_dev_props {
            name: this.name().as_ptr(),
            description: this.description().as_ptr(),
            memory_free,
            memory_total,
            r#type: this.kind() as raw::ggml_backend_dev_type,
            device_id: this.device_id().map_or(std::ptr::null(), CStr::as_ptr),
            caps: this.caps(),
        });
    }

    fn init_backend<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        params: *const c_char => Option<&CStr>,
    ) -> ggml_backend_t, std::ptr::null_mut() => {
        match logged("init_backend", this.open(this.object, params)) {
            Some(stream) => new_stream(this.object, stream).into_raw(),
            None => std::ptr::null_mut(),
        }
    }

    fn get_buffer_type<D: Device>(
        this: ggml_backend_dev_t => This<D>,
    ) -> ggml_backend_buffer_type_t, std::ptr::null_mut() => { this.buffer_type(this.object).as_ptr() }

    fn get_host_buffer_type<D: Device>(
        this: ggml_backend_dev_t => This<D>,
    ) -> ggml_backend_buffer_type_t, std::ptr::null_mut() => {
        this.host_buffer_type(this.object).map_or(std::ptr::null_mut(), BufferTypeRef::as_ptr)
    }

    fn buffer_from_host_ptr<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        ptr: *mut c_void => HostPointer<*mut c_void>,
        size: usize => usize,
        max_tensor_size: usize => usize,
    ) -> ggml_backend_buffer_t, std::ptr::null_mut() => {
        // SAFETY: `size` bytes, which the host keeps as long as the buffer.
        let memory = unsafe { HostMemory::new(ptr.address, size) };
        let made = logged("buffer_from_host_ptr", this.buffer_from_host(this.object, memory, max_tensor_size));
        made.map_or(std::ptr::null_mut(), BufferBox::into_raw)
    }

    fn supports_op<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        op: *const ggml_tensor => Option<TensorRef>,
    ) -> bool, false => { op.is_some_and(|op| this.supports_op(op)) }

    fn supports_buft<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        buft: ggml_backend_buffer_type_t => Option<BufferTypeRef>,
    ) -> bool, false => { buft.is_some_and(|buft| this.supports_buft(this.object, buft)) }

    fn offload_op<D: Device>(
        this: ggml_backend_dev_t => This<D>,
        op: *const ggml_tensor => Option<TensorRef>,
    ) -> bool, false => { op.is_some_and(|op| this.offload_op(op)) }

    fn event_new<D: Device>(this: ggml_backend_dev_t => This<D>) -> ggml_backend_event_t, std::ptr::null_mut() => {
        logged("event_new", this.event_new()).map_or(std::ptr::null_mut(), |e| new_event(this.object, e))
    }
}
