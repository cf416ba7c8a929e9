//! Functions that hosts get by name.

use crate::abi::alloc::ggml_backend_t;
use crate::abi::ggml::ggml_abort_callback;
use crate::backend::Abort;
use crate::backend::BackendRef;
use crate::backend::author::stream_author;
use crate::guard::guarded;
use crate::vulkan::backend::stream::VkStream;
use std::ffi::{CStr, c_void};

/// Address of the function that hosts get by this name from the backend, or NULL.
pub fn address(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"ggml_backend_set_abort_callback" => set_abort_callback as *const c_void,
        _ => std::ptr::null(),
    }
}

/// Sets the callback of a Vulkan backend, or none for NULL. Another backend breaks the contract and ends the process.
///
/// # Safety
/// `backend` is a valid backend; the callback may be called with its data while graphs are computed.
#[guarded]
unsafe extern "C" fn set_abort_callback(backend: ggml_backend_t, callback: ggml_abort_callback, data: *mut c_void) {
    // SAFETY: the header's contract: `backend` is a **valid backend**.
    let backend = unsafe { BackendRef::from_ptr(backend) };
    match backend.as_ref().and_then(stream_author::<VkStream>) {
        Some(stream) => stream.set_abort(Abort { callback, data }),
        None => crate::ggml_abort!("this is not a Vulkan backend"),
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::backend::ggml_backend_set_abort_callback_t;
    use crate::abi::ggml::ggml_status::*;
    use crate::tensor::ops::{Place, unary};
    use crate::vulkan::tests::devices::{Quiet, devices};
    use crate::vulkan::tests::lab::{Lab, floats};
    use std::ffi::c_void;

    /// Counts down, and cancels at 0.
    unsafe extern "C" fn after(data: *mut c_void) -> bool {
        // SAFETY: the test passes the address of a number that lives longer than the computations.
        let left = unsafe { &mut *data.cast::<i32>() };
        *left -= 1;
        *left < 0
    }

    #[test]
    fn the_host_cancels_between_submissions() {
        let Some([device, _]) = devices() else { return };
        let _quiet = Quiet::new();
        let address = device.reg().unwrap().proc_address(c"ggml_backend_set_abort_callback").unwrap();
        assert!(device.reg().unwrap().proc_address(c"ggml_backend_set_n_threads").is_none());
        // SAFETY: the function of this name has this type.
        let set: ggml_backend_set_abort_callback_t = unsafe { std::mem::transmute(address.as_ptr()) };
        let set = set.unwrap();
        let mut lab = Lab::new();
        let first = lab.noise(&[64], 1);
        // More nodes than the first pieces have.
        let mut end = first;
        for _ in 0..150 {
            end = unary::scale_bias(&mut lab.ctx, end, 1.0, 1.0, Place::New).unwrap();
        }
        let graph = lab.graph(&[end]);
        let _buffer = lab.place(device);
        let stream = device.init(None).unwrap();
        // Recorded, kept, submitted again.
        for round in 0..4 {
            for (turns, want) in [(0, GGML_STATUS_ABORTED), (1, GGML_STATUS_ABORTED), (1000, GGML_STATUS_SUCCESS)] {
                let mut left = turns;
                // SAFETY: a valid backend; the number lives until the callback is unset.
                unsafe { set(stream.handle().as_ptr(), Some(after), (&raw mut left).cast()) };
                let status = stream.handle().graph_compute(graph);
                // A graph that is submitted again is short enough for one piece.
                let again = turns == 1 && round > 0 && status == GGML_STATUS_SUCCESS;
                assert!(status == want || again, "round {round}, {turns} turns: {status:?}");
                stream.synchronize();
            }
            // SAFETY: as above.
            unsafe { set(stream.handle().as_ptr(), None, std::ptr::null_mut()) };
            assert_eq!(stream.handle().graph_compute(graph), GGML_STATUS_SUCCESS);
            stream.synchronize();
            let inputs = floats(first);
            assert!(floats(end).iter().zip(&inputs).all(|(a, b)| (a - b - 150.0).abs() < 1e-3), "round {round}");
        }
    }
}
