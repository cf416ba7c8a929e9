//! Reports operations on memory and queues in this layer to an observer. Usually there is none, and a call costs one
//! relaxed load. `damage` sees them while there is any. A backend that copies the data of its own tensors must not do
//! so through this layer: it would count as an operation of the host.

use super::{BackendRef, BufferRef, EventRef};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// An operation that is about to happen or, if its comment says so, has just happened.
#[derive(Clone, Copy)]
pub enum Operation {
    /// The host writes `size` bytes of a tensor.
    Set(TensorRef, usize, usize),
    /// The host reads `size` bytes of a tensor.
    Get(TensorRef, usize, usize),
    /// The host sets every byte of a buffer.
    Clear(BufferRef),
    /// The host copies the first tensor to the second.
    Copy(TensorRef, TensorRef),
    /// A stream is given a write of `size` bytes at an offset.
    SetAsync(BackendRef, TensorRef, usize, usize),
    /// A stream is given a read of `size` bytes at an offset.
    GetAsync(BackendRef, TensorRef, usize, usize),
    /// The second stream has taken a copy of the first tensor, last written on the first stream, to the second.
    CopyAsync(BackendRef, BackendRef, TensorRef, TensorRef),
    /// A stream is given a graph.
    Compute(BackendRef, GraphRef),
    /// An event marks the end of a stream's queue.
    Record(EventRef, BackendRef),
    /// A stream holds back what it is given from now on until an event is reached.
    Wait(EventRef, BackendRef),
    /// The host has waited for an event.
    Reached(EventRef),
    /// The host has waited for a stream.
    Synchronized(BackendRef),
    /// A buffer is freed.
    FreeBuffer(BufferRef),
    /// A stream is freed.
    FreeBackend(BackendRef),
    /// An event is freed.
    FreeEvent(EventRef),
}

/// Which observers see operations: the bits below.
static WATCHED: AtomicU8 = AtomicU8::new(0);
const WATCHER_LOOKS: u8 = 1;
const DAMAGE_LOOKS: u8 = 2;
const WEIGHTS_WATCHER_LOOKS: u8 = 4;
static WATCHER: OnceLock<fn(Operation)> = OnceLock::new();
/// What sees operations while there is damage.
static DAMAGE: OnceLock<fn(Operation)> = OnceLock::new();
static WEIGHTS_WATCHER: OnceLock<fn(Operation)> = OnceLock::new();

/// Calls `watcher` for every operation from now on, on the thread that performs it. The first watcher stays.
pub fn watch(watcher: fn(Operation)) {
    crate::sys::sync::once(&WATCHER, || watcher);
    WATCHED.fetch_or(WATCHER_LOOKS, Relaxed);
}

/// As [`watch`], for what has copies of weights.
pub fn watch_weights(watcher: fn(Operation)) {
    crate::sys::sync::once(&WEIGHTS_WATCHER, || watcher);
    WATCHED.fetch_or(WEIGHTS_WATCHER_LOOKS, Relaxed);
}

/// Calls `see`, which is the same function each time, for every operation from now on, before [`watch`]'s; `None` ends
/// that. For `damage`, which looks only while there is any.
pub(super) fn look(see: Option<fn(Operation)>) {
    match see {
        Some(see) => {
            crate::sys::sync::once(&DAMAGE, || see);
            WATCHED.fetch_or(DAMAGE_LOOKS, Relaxed)
        }
        None => WATCHED.fetch_and(!DAMAGE_LOOKS, Relaxed),
    };
}

/// Whether there is an observer.
#[inline]
pub fn watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

/// Passes an operation to the observers. `operation` is called only if there is one.
#[inline]
pub fn notify(operation: impl FnOnce() -> Operation) {
    if watched() {
        tell_all(operation());
    }
}

#[cold]
fn tell_all(operation: Operation) {
    let looks = WATCHED.load(Relaxed);
    if let Some(see) = DAMAGE.get().filter(|_| looks & DAMAGE_LOOKS != 0) {
        see(operation);
    }
    if let Some(watcher) = WEIGHTS_WATCHER.get().filter(|_| looks & WEIGHTS_WATCHER_LOOKS != 0) {
        watcher(operation);
    }
    if let Some(watcher) = WATCHER.get().filter(|_| looks & WATCHER_LOOKS != 0) {
        watcher(operation);
    }
}
