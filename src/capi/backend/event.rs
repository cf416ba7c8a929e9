//! Events.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::backend::{DeviceRef, EventBox};
use crate::capi::convert::{need, optional, take};
use crate::guard::guarded;

/// Creates an event. Returns NULL if the device is NULL, has no events, or fails.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_event_new(device: ggml_backend_dev_t) -> ggml_backend_event_t {
    optional!(device);
    let event = device.and_then(DeviceRef::event_new);
    event.map_or(std::ptr::null_mut(), EventBox::into_raw)
}

/// Frees an event. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_event_free(event: ggml_backend_event_t) {
    take!(event);
    drop(event);
}

/// Records the event at the current end of the backend's queue.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_event_record(event: ggml_backend_event_t, backend: ggml_backend_t) {
    need!(event, backend);
    event.record(backend)
}

/// Blocks the calling thread until the work before the event is done.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_event_synchronize(event: ggml_backend_event_t) {
    need!(event);
    event.synchronize()
}

/// Makes work that is queued on the backend from now on wait for the event of another backend.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_event_wait(backend: ggml_backend_t, event: ggml_backend_event_t) {
    need!(event, backend);
    event.wait(backend)
}
