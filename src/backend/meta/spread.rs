//! The host's function that says how tensors with data are distributed.

use super::split::Split;
use crate::abi::backend::ggml_backend_meta_split_state;
use crate::abi::ggml::ggml_tensor;
use crate::error::Result;
use crate::sys::foreign::Opaque;
use crate::tensor::TensorRef;
use std::ffi::c_void;

type Function = unsafe extern "C" fn(*const ggml_tensor, *mut c_void) -> ggml_backend_meta_split_state;

/// The function, and what it is called with.
#[derive(Clone, Copy)]
pub struct Spread {
    function: Function,
    data: Opaque,
}

impl PartialEq for Spread {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.function, other.function) && self.data == other.data
    }
}

impl Spread {
    /// # Safety
    /// The function may be called with `data`, on any thread, as long as a copy of this object is in use.
    pub unsafe fn new(function: Function, data: *mut c_void) -> Self {
        Self { function, data: Opaque(data) }
    }

    /// How the host distributes a tensor with data over so many devices.
    pub fn split_of(&self, t: TensorRef, devices: usize) -> Result<Split> {
        // SAFETY: the promise of `new`; the tensor is valid.
        let state = unsafe { (self.function)(t.as_ptr(), self.data.0) };
        Split::from_c(&state, t, devices)
    }
}
