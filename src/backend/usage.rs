//! Marking buffers with what they are for.

use super::handle::object_field;
use super::{BufferRef, meta, multi};
use crate::abi::backend::ggml_backend_buffer_usage;
use std::ffi::c_int;

impl BufferRef {
    /// Says what the buffer is for; the parts of a multi-buffer and of a meta buffer follow.
    pub fn set_usage(self, usage: ggml_backend_buffer_usage) {
        object_field!(self.usage = usage as c_int);
        for part in multi::parts(self).or_else(|| meta::parts(self)).unwrap_or_default() {
            part.set_usage(usage);
        }
    }
}
