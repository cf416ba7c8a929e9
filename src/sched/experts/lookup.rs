//! Slots that the device looks up itself, so that a unit of a small batch can begin before the host knows its routing.
//!
//! Without that, the device would wait while the routing is copied to the host and the numbers of slots to the device.
//! With it, the unit's first node reads the slots out of the pool's table (`table`); the host reads the routing on a
//! stream of its own at the same time, and learns from its copy of the table which rows the CPU has to compute.

use super::exchange::HostBytes;
use super::order::{Order, Streams};
use super::pool::{Pool, Ready};
use super::upload::Uploader;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, EventBox, view};
use crate::error::Result;
use crate::invalid;
use crate::sched::side_stream::SideStream;
use crate::tensor::TensorRef;
use std::time::Duration;

/// What a device needs for that.
pub struct Lookup {
    /// The host reads on it what was written before its mark.
    pub stream: SideStream,
    /// The table is there.
    written: EventBox,
    bytes: HostBytes,
}

impl Lookup {
    /// For the device of a backend, if it has events and another queue.
    pub fn new(of: BackendRef) -> Option<Self> {
        let stream = SideStream::new(of).filter(|_| of.joins_tensors())?;
        Some(Self { stream, written: of.device().event_new()?, bytes: HostBytes::default() })
    }

    /// Writes the table of a pool as its contents are, for what the device is given from now on. `after`: how soon a
    /// layer's unit begins at the earliest; an upload that ends before is waited for by that unit.
    pub fn write(
        &mut self,
        pool: &mut Pool,
        uploader: &mut Uploader,
        device: BackendRef,
        after: impl Fn(usize) -> Duration,
    ) {
        let Pool { table: Some(table), policy, ready, .. } = pool else { return };
        table.begin();
        for (slot, &ready) in ready.iter().enumerate() {
            let Some((layer, expert)) = policy.contents(slot) else { continue };
            match ready {
                Ready::Yes => table.show(layer, expert, slot, 0),
                Ready::After(number) if uploader.rest(number) <= after(layer) => {
                    table.show(layer, expert, slot, number);
                }
                Ready::After(_) | Ready::Waits => {}
            }
        }
        // Slots that units of the former table may be reading are uploaded to after these.
        uploader.follow(device);
        // It is idle, but after an error.
        self.stream.handle().synchronize();
        let tensor = table.tensor();
        self.bytes.resize(tensor.nbytes(), device);
        table.copy_to(self.bytes.as_mut_slice());
        self.stream.mark(device);
        // SAFETY: the bytes stay until the stream was synchronised.
        unsafe { self.stream.after_mark().set_async(tensor, self.bytes.as_slice().as_ptr(), 0, tensor.nbytes()) };
        self.written.record(self.stream.handle());
        self.written.wait(device);
    }
}

/// A stream in the place of all others.
pub struct Only(pub BackendRef);

impl Streams for Only {
    fn stream(&self, _: usize) -> BackendRef {
        self.0
    }

    fn drain(&self, _: usize) {
        self.0.synchronize();
    }
}

/// Gives the node that looks slots up the memory of their numbers, which the plan has placed.
pub fn place(node: TensorRef, order: &Order<'_>) -> Result<()> {
    if node.data() == order.numbers.data() && node.buffer_raw() == order.numbers.buffer_raw() {
        return Ok(());
    }
    node.set_buffer_raw(std::ptr::null_mut());
    node.set_data(std::ptr::null_mut());
    let Some(buffer) = order.numbers.buffer() else {
        return Err(invalid!("the numbers of slots of '{}' have no memory", order.result.name()));
    };
    match view::bind_if_inside(buffer, node, order.numbers.data()) {
        ggml_status::GGML_STATUS_SUCCESS => Ok(()),
        status => {
            Err(invalid!("the device does not take the numbers of slots of '{}': {status:?}", order.result.name()))
        }
    }
}
