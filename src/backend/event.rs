//! What an event can do.

use super::handle::{object_field, slot};
use super::observe::{self, Operation};
use super::{BackendRef, DeviceRef, EventRef};
use crate::ggml_abort;

impl EventRef {
    /// The device the event belongs to.
    pub fn device(self) -> DeviceRef {
        // SAFETY: the device of a valid event is a valid device.
        match unsafe { DeviceRef::from_ptr(object_field!(self.device)) } {
            Some(d) => d,
            None => ggml_abort!("an event has no device"),
        }
    }

    /// Frees the event.
    ///
    /// # Safety
    /// No code uses the event afterwards, and no other code frees it.
    pub unsafe fn free(self) {
        let device = self.device();
        observe::notify(|| Operation::FreeEvent(self));
        match slot!(device.event_free) {
            // SAFETY: the vtable contract.
            Some(f) => unsafe { f(device.as_ptr(), self.as_ptr()) },
            None => ggml_abort!("the device {} makes events but cannot free them", device.name()),
        }
    }

    /// Waits until the work before the event's mark is done.
    pub fn synchronize(self) {
        let device = self.device();
        match slot!(device.event_synchronize) {
            // SAFETY: the vtable contract.
            Some(f) => unsafe { f(device.as_ptr(), self.as_ptr()) },
            None => ggml_abort!("the device {} cannot wait for events", device.name()),
        }
        observe::notify(|| Operation::Reached(self));
    }

    /// Marks the present end of a stream's queue.
    pub fn record(self, backend: BackendRef) {
        observe::notify(|| Operation::Record(self, backend));
        match slot!(backend.event_record) {
            // SAFETY: the vtable contract.
            Some(f) => unsafe { f(backend.as_ptr(), self.as_ptr()) },
            None => ggml_abort!("the backend {} cannot record events", backend.name()),
        }
    }

    /// Lets what is queued on `backend` from now on wait for the event.
    pub fn wait(self, backend: BackendRef) {
        observe::notify(|| Operation::Wait(self, backend));
        match slot!(backend.event_wait) {
            // SAFETY: the vtable contract.
            Some(f) => unsafe { f(backend.as_ptr(), self.as_ptr()) },
            None => ggml_abort!("the backend {} cannot wait for events", backend.name()),
        }
    }
}
