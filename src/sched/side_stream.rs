//! A second stream of a backend's device, for copies beside what the backend computes.
#![forbid(unsafe_code)]

use crate::backend::{BackendBox, BackendRef, EventBox};

/// The stream, and a mark in the queue of the backend.
pub struct SideStream {
    stream: BackendBox,
    mark: EventBox,
}

impl SideStream {
    /// For the device of a backend, if it has events and another queue.
    pub fn new(of: BackendRef) -> Option<Self> {
        let device = of.device_opt().filter(|_| of.has_queue() && of.queues_copies())?;
        let mark = device.event_new()?;
        Some(Self { stream: device.init(None)?, mark })
    }

    /// The stream.
    pub fn handle(&self) -> BackendRef {
        self.stream.handle()
    }

    /// Marks the queue of a backend.
    pub fn mark(&self, backend: BackendRef) {
        self.mark.record(backend);
    }

    /// The stream, whose next work begins after the mark.
    pub fn after_mark(&self) -> BackendRef {
        self.mark.wait(self.handle());
        self.handle()
    }
}

impl Drop for SideStream {
    fn drop(&mut self) {
        self.stream.synchronize();
    }
}
