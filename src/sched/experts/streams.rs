//! The streams of all uploaders in the process: a buffer of weights is not freed while they read it.
#![forbid(unsafe_code)]

use crate::backend::BackendRef;
use crate::sys::sync::lock;
use std::sync::Mutex;

static STREAMS: Mutex<Vec<BackendRef>> = Mutex::new(Vec::new());

/// Adds a stream.
pub fn add(stream: BackendRef) {
    lock(&STREAMS).push(stream);
}

/// Removes a stream, which has done its work.
pub fn remove(stream: BackendRef) {
    let mut all = lock(&STREAMS);
    if let Some(i) = all.iter().position(|&s| s == stream) {
        all.swap_remove(i);
    }
}

/// Waits until all of them have done their work.
pub fn drain_all() {
    lock(&STREAMS).iter().for_each(|stream| stream.synchronize());
}
