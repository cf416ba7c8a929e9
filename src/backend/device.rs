//! What a device can do.

use super::handle::{attempt, call, name_of, object_field, slot};
use super::{BackendBox, BackendRef, BufferBox, BufferRef, BufferTypeRef, DeviceRef, EventBox, EventRef, RegRef};
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_props, ggml_backend_dev_type};
use crate::sys::thread::Shield;
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_int, c_void};

impl DeviceRef {
    /// Short name as a C string that lives as long as the device.
    pub fn name_ptr(self) -> *const c_char {
        call!(self.get_name())
    }

    /// Short name, such as "CPU".
    pub fn name(self) -> String {
        name_of(self.name_ptr())
    }

    /// The product as a C string that lives as long as the device.
    pub fn description_ptr(self) -> *const c_char {
        call!(self.get_description())
    }

    /// The product, for people.
    pub fn description(self) -> String {
        name_of(self.description_ptr())
    }

    /// What the implementation keeps.
    pub fn context(self) -> *mut c_void {
        object_field!(self.context)
    }

    /// Free and total memory in bytes; 0 if the device reports none.
    pub fn memory(self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        call!(self.get_memory(&raw mut free, &raw mut total));
        (free, total)
    }

    /// Kind of device as the device gives it.
    pub fn kind_raw(self) -> c_int {
        call!(self.get_type())
    }

    /// Kind of device; `None` for a number that names none.
    pub fn kind(self) -> Option<ggml_backend_dev_type> {
        ggml_backend_dev_type::from_raw(self.kind_raw())
    }

    /// All properties.
    pub fn props(self) -> ggml_backend_dev_props {
        let mut props = ggml_backend_dev_props {
            name: std::ptr::null(),
            description: std::ptr::null(),
            memory_free: 0,
            memory_total: 0,
            r#type: 0,
            device_id: std::ptr::null(),
            caps: ggml_backend_dev_caps {
                r#async: false,
                host_buffer: false,
                buffer_from_host_ptr: false,
                events: false,
                mmap_support: false,
            },
        };
        call!(self.get_props(&raw mut props));
        props
    }

    /// The family the device belongs to.
    pub fn reg(self) -> Option<RegRef> {
        // SAFETY: the registry of a valid device is NULL or valid.
        unsafe { RegRef::from_ptr(object_field!(self.reg)) }
    }

    /// A new stream, or `None` when the device cannot make one.
    pub fn init(self, params: Option<&CStr>) -> Option<BackendBox> {
        let params = params.map_or(std::ptr::null(), CStr::as_ptr);
        let _shield = Shield::new();
        // SAFETY: the vtable contract: NULL or a new stream that is the caller's.
        unsafe {
            BackendRef::from_ptr(attempt!(self.init_backend(params), std::ptr::null_mut())).map(|b| BackendBox::own(b))
        }
    }

    /// Preferred buffer type.
    pub fn buffer_type(self) -> Option<BufferTypeRef> {
        // SAFETY: the vtable contract: NULL or a valid buffer type.
        unsafe { BufferTypeRef::from_ptr(call!(self.get_buffer_type())) }
    }

    /// Buffer type in host memory that makes transfers fast, if there is one.
    pub fn host_buffer_type(self) -> Option<BufferTypeRef> {
        // SAFETY: the vtable contract: NULL or a valid buffer type.
        unsafe { BufferTypeRef::from_ptr(slot!(self.get_host_buffer_type)?(self.as_ptr())) }
    }

    /// Whether the device copies memory of a type by itself, because it is pinned.
    pub fn pins(self, buft: BufferTypeRef) -> bool {
        self.host_buffer_type() == Some(buft)
    }

    /// Whether a tensor's data is in such memory.
    pub fn pins_data(self, t: TensorRef) -> bool {
        t.data_buffer().is_some_and(|b| self.pins(b.buft()))
    }

    /// A buffer of memory that the host already has; `None` when the device cannot use it.
    ///
    /// # Safety
    /// `ptr` points to `size` bytes that live as long as the buffer.
    pub unsafe fn buffer_from_host_ptr(
        self,
        ptr: *mut c_void,
        size: usize,
        max_tensor_size: usize,
    ) -> Option<BufferBox> {
        // SAFETY: the vtable contract, and the caller's promise for the memory.
        unsafe {
            let buffer = slot!(self.buffer_from_host_ptr)?(self.as_ptr(), ptr, size, max_tensor_size);
            BufferRef::from_ptr(buffer).map(|b| BufferBox::own(b))
        }
    }

    /// Whether the device can compute a node.
    #[inline]
    pub fn supports_op(self, op: TensorRef) -> bool {
        call!(self.supports_op(op.as_ptr()))
    }

    /// Whether the device can compute with tensors in buffers of a type.
    #[inline]
    pub fn supports_buft(self, buft: BufferTypeRef) -> bool {
        call!(self.supports_buft(buft.as_ptr()))
    }

    /// Whether a node is worth running here although its weights are elsewhere.
    #[inline]
    pub fn offload_op(self, op: TensorRef) -> bool {
        // SAFETY: the vtable contract.
        slot!(self.offload_op).is_some_and(|f| unsafe { f(self.as_ptr(), op.as_ptr()) })
    }

    /// A new event; `None` when the device has none.
    pub fn event_new(self) -> Option<EventBox> {
        // SAFETY: the vtable contract: NULL or a new event that is the caller's.
        unsafe { EventRef::from_ptr(slot!(self.event_new)?(self.as_ptr())).map(|e| EventBox::own(e)) }
    }
}
