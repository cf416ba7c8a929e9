//! What a registry (a family of devices) can do.

use super::handle::{call, name_of, object_field, slot};
use super::{DeviceRef, RegRef};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

impl RegRef {
    /// Version of the vtables it was built with.
    pub fn api_version(self) -> c_int {
        object_field!(self.api_version)
    }

    /// Name as a C string that lives as long as the registry.
    pub fn name_ptr(self) -> *const c_char {
        call!(self.get_name())
    }

    /// Name.
    pub fn name(self) -> String {
        name_of(self.name_ptr())
    }

    /// Number of devices.
    pub fn device_count(self) -> usize {
        call!(self.get_device_count())
    }

    /// A device by its index.
    pub fn device(self, index: usize) -> Option<DeviceRef> {
        // SAFETY: the vtable contract: NULL or a valid device.
        unsafe { DeviceRef::from_ptr(call!(self.get_device(index))) }
    }

    /// All devices.
    pub fn devices(self) -> impl Iterator<Item = DeviceRef> {
        (0..self.device_count()).filter_map(move |i| self.device(i))
    }

    /// Address of a function beyond the interface, if there is one of this name.
    pub fn proc_address(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the vtable contract.
        NonNull::new(unsafe { slot!(self.get_proc_address)?(self.as_ptr(), name.as_ptr()) })
    }
}
