//! Events of a backend author.

use super::context::{Context, Head};
use super::run::guard;
use crate::abi::backend::{ggml_backend_dev_t, ggml_backend_event_t};
use crate::abi::backend_impl::ggml_backend_event;
use crate::backend::handle::slot;
use crate::backend::{BackendRef, DeviceRef, EventRef};

/// A mark in a stream's queue.
pub trait Event: Send + Sync + 'static {
    /// As [`super::Stream::IN_CHILDREN`].
    const IN_CHILDREN: bool = true;

    /// Waits until the work before the mark is done.
    fn synchronize(&self);
}

/// For devices without events.
#[derive(Debug)]
pub enum NoEvent {}

impl Event for NoEvent {
    fn synchronize(&self) {}
}

/// An object for an author's event.
pub(super) fn new_event<E: Event>(device: DeviceRef, event: E) -> ggml_backend_event_t {
    Box::into_raw(Box::new(ggml_backend_event {
        device: device.as_ptr(),
        context: Context::boxed_for(event, E::IN_CHILDREN),
    }))
}

/// The author's event of a stream's own family, or `None` for a foreign one.
pub(super) fn event_author<'a, E: Event>(backend: &BackendRef, event: &'a EventRef) -> Option<&'a E> {
    let (ours, its) = (backend.device(), event.device());
    let (ours, its) = (slot!(ours.event_free)?, slot!(its.event_free)?);
    if !std::ptr::fn_addr_eq(ours, its) {
        return None;
    }
    // SAFETY: a device with these functions makes events in `new_event` only, so the context came from `boxed`.
    unsafe { Context::get((*event.as_ptr()).context) }
}

/// # Safety
/// `event` was made by `new_event` for `E` and is not used afterwards.
pub(super) unsafe extern "C" fn free<E: Event>(_: ggml_backend_dev_t, event: ggml_backend_event_t) {
    // SAFETY: made from a box in `new_event`.
    let object = unsafe { Box::from_raw(event) };
    // SAFETY: by the caller's promise a context of `E`.
    guard("event_free", || (), || unsafe { Context::<E>::drop(object.context) });
}

/// # Safety
/// `event` was made by `new_event` for `E`.
pub(super) unsafe extern "C" fn synchronize<E: Event>(_: ggml_backend_dev_t, event: ggml_backend_event_t) {
    // SAFETY: by the caller's promise the event has a context of `E`, which begins with a head.
    let event = unsafe {
        let context = (*event).context;
        Context::<E>::get(context).filter(|_| !(*context.cast::<Head>()).is_of_parent())
    };
    if let Some(event) = event {
        guard("event_synchronize", || (), || event.synchronize());
    }
}
