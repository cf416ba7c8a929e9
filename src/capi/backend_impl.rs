//! ggml-backend-impl.h: what an author of a backend calls.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::backend_impl::*;
use crate::abi::ggml::*;
use crate::abi::raw;
use crate::backend::{BufferBox, BufferRef, meta, multi, op_alloc_size_may_expand, tensor_io};
use crate::capi::convert::{known, need, objects, optional};
use crate::ggml_assert;
use crate::guard::guarded;
use std::ffi::c_void;

/// Returns whether a buffer type may need more bytes for the result of this operation than `ggml_nbytes`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_alloc_size_may_expand(op: raw::ggml_op) -> bool {
    ggml_op::from_raw(op).is_some_and(op_alloc_size_may_expand)
}

/// Creates a buffer object of `size` bytes with these functions, for `alloc_buffer` to return.
/// `ggml_backend_buffer_free` calls `free_buffer` and frees the object.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_init(
    buft: ggml_backend_buffer_type_t,
    iface: ggml_backend_buffer_i,
    context: *mut c_void,
    size: usize,
) -> ggml_backend_buffer_t {
    need!(buft);
    // SAFETY: the header requires functions that keep the vtable contract with `context`.
    unsafe { BufferBox::create(buft, iface, context, size) }.into_raw()
}

/// Makes the buffer of `dst` copy `src`. Returns false if it cannot. Hosts call `ggml_backend_tensor_copy` instead.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_copy_tensor(src: *const ggml_tensor, dst: *mut ggml_tensor) -> bool {
    need!(src, dst);
    tensor_io::buffer_copy(src, dst)
}

/// Joins `n_buffers` buffers, at least one, into a buffer that owns them.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_multi_buffer_alloc_buffer(
    buffers: *mut ggml_backend_buffer_t,
    n_buffers: usize,
) -> ggml_backend_buffer_t {
    ggml_assert!(!buffers.is_null() && n_buffers > 0, "at least one buffer");
    objects!(n_buffers; buffers);
    // SAFETY: the header gives the buffers of the list to the new one. None is owned before all are known not to be
    // NULL: a call that fails frees nothing.
    let own = |buffer: BufferRef| unsafe { BufferBox::own(buffer) };
    multi::join(buffers.into_iter().map(own).collect()).into_raw()
}

/// Returns whether the buffer was made by `ggml_backend_multi_buffer_alloc_buffer`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_is_multi_buffer(buffer: ggml_backend_buffer_t) -> bool {
    need!(buffer);
    multi::is_multi(buffer)
}

/// Sets the purpose of all parts of a joined buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_multi_buffer_set_usage(
    buffer: ggml_backend_buffer_t,
    usage: raw::ggml_backend_buffer_usage,
) {
    let usage = known(ggml_backend_buffer_usage::from_raw(usage), "usage", usage);
    need!(buffer);
    let parts = multi::parts(buffer);
    ggml_assert!(parts.is_some(), "ggml_backend_buffer_is_multi_buffer(buffer)");
    parts.unwrap_or_default().into_iter().for_each(|part| part.set_usage(usage));
}

/// Sets the purpose of all parts of a meta buffer.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_buffer_set_usage(
    buffer: ggml_backend_buffer_t,
    usage: raw::ggml_backend_buffer_usage,
) {
    let usage = known(ggml_backend_buffer_usage::from_raw(usage), "usage", usage);
    need!(buffer);
    let parts = meta::parts(buffer);
    ggml_assert!(parts.is_some(), "ggml_backend_buffer_is_meta(buffer)");
    parts.unwrap_or_default().into_iter().for_each(|part| part.set_usage(usage));
}

/// Returns whether this is a backend of a meta device. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_meta(backend: ggml_backend_t) -> bool {
    optional!(backend);
    backend.is_some_and(|b| meta::streams(b).is_some())
}

/// Returns whether this is a buffer of a meta device. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_is_meta(buf: ggml_backend_buffer_t) -> bool {
    optional!(buf);
    buf.is_some_and(|b| meta::parts(b).is_some())
}

/// Returns whether this is a buffer type of a meta device. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_is_meta(buft: ggml_backend_buffer_type_t) -> bool {
    optional!(buft);
    buft.is_some_and(meta::is_meta_type)
}

/// Returns the number of backends that a meta backend joins; 0 for any other.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_n_backends(meta_backend: ggml_backend_t) -> usize {
    optional!(meta_backend);
    meta_backend.and_then(meta::streams).map_or(0, |list| list.len())
}

/// Returns backend `index` of a meta backend, which owns it. NULL for any other.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_meta_simple_backend(
    meta_backend: ggml_backend_t,
    index: usize,
) -> ggml_backend_t {
    optional!(meta_backend);
    let streams = meta_backend.and_then(meta::streams).unwrap_or_default();
    streams.get(index).map_or(std::ptr::null_mut(), |s| s.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::testing::{Fake, Spec};
    use crate::guard;
    use std::ptr::null_mut;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn buffers_stay_the_callers_if_they_cannot_be_joined() {
        let gpu = Fake::new(Spec::gpu());
        let buffers = [(); 2].map(|()| gpu.buft.alloc_buffer(64).unwrap().into_raw());
        let mut with_null = [buffers[0], null_mut(), buffers[1]];
        guard::set_forgiving(true);
        // SAFETY: valid buffers, and NULL, which the error policy makes a failure.
        let refused = unsafe { ggml_backend_multi_buffer_alloc_buffer(with_null.as_mut_ptr(), 3) };
        guard::set_forgiving(false);
        assert!(refused.is_null());
        assert_eq!(gpu.state.live.load(SeqCst), 2, "no buffer was freed");
        let mut all = buffers;
        // SAFETY: valid buffers, which become those of the new one; it is freed once, and nothing is used afterwards.
        unsafe {
            let joined = ggml_backend_multi_buffer_alloc_buffer(all.as_mut_ptr(), 2);
            assert!(ggml_backend_buffer_is_multi_buffer(joined));
            crate::capi::backend::ggml_backend_buffer_free(joined);
        }
        assert_eq!(gpu.state.live.load(SeqCst), 0);
    }
}
