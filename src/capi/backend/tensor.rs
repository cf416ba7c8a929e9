//! Bytes into, out of and between tensors. `offset` and `size` count bytes of the tensor's data and must be inside it.

use crate::abi::alloc::*;
use crate::abi::ggml::*;
use crate::backend::batch::{self, HostPart};
use crate::backend::damage;
use crate::backend::tensor_io::{self, Pieces};
use crate::capi::convert::{list, logged, need, objects, unwritten};
use crate::ggml_assert;
use crate::guard::guarded;
use std::ffi::c_void;

/// Copies `src` to `dst`, which must have the same type, shape and strides, and returns when the copy is done. They
/// may be on different devices.
#[guarded(unwritten!(dst, 0, usize::MAX))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_copy(src: *const ggml_tensor, dst: *mut ggml_tensor) {
    need!(src, dst);
    if logged("ggml_backend_tensor_copy", tensor_io::copy(src, dst)).is_none() {
        damage::unwritten(dst, 0, usize::MAX);
    }
}

/// Copies `srcs[i]` to `dsts[i]` for `n_tensors` pairs, and returns when all copies are done. The tensors of a pair
/// must have the same type, shape and strides; they may be on different devices. Uses the batched copy of the buffer
/// type if it has one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_copy_n(
    srcs: *const *const ggml_tensor,
    dsts: *const *mut ggml_tensor,
    n_tensors: usize,
) {
    ggml_assert!(n_tensors == 0 || !srcs.is_null() && !dsts.is_null(), "srcs or dsts is NULL");
    objects!(n_tensors; srcs, dsts);
    let pairs: Vec<_> = std::iter::zip(srcs, dsts).collect();
    if logged("ggml_backend_tensor_copy_n", batch::copy(&pairs)).is_none() {
        // Which of them were copied is not known.
        pairs.iter().for_each(|(_, dst)| damage::unwritten(*dst, 0, usize::MAX));
    }
}

/// Queues a copy of `size` bytes from `data` to byte `offset` of the tensor. `data` must stay unchanged until the
/// backend is synchronized. A backend that cannot queue transfers waits for its work and copies at once.
#[guarded(unwritten!(tensor, offset, size))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set_async(
    backend: ggml_backend_t,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    need!(backend, tensor);
    // SAFETY: the header requires `size` bytes at `data` that stay unchanged until the backend is synchronized.
    unsafe { backend.set_async(tensor, data.cast(), offset, size) }
}

/// Queues a copy of `size` bytes from byte `offset` of the tensor to `data`, which is valid once the backend is
/// synchronized. A backend that cannot queue transfers waits for its work and copies at once.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get_async(
    backend: ggml_backend_t,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    need!(backend, tensor);
    // SAFETY: the header requires `size` writable bytes at `data` that no code uses until the backend is synchronized.
    unsafe { backend.get_async(tensor, data.cast(), offset, size) }
}

/// As `ggml_backend_tensor_set_2d`, but queued.
#[guarded(unwritten!(tensor, offset, Pieces { offset, size, count: n_copies, stride_tensor, stride_data }.extent_in_tensor()))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set_2d_async(
    backend: ggml_backend_t,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let pieces = Pieces { offset, size, count: n_copies, stride_tensor, stride_data };
    need!(backend, tensor);
    // SAFETY: the header requires all pieces at `data`, which stay unchanged until the backend is synchronized.
    unsafe { backend.set_2d_async(tensor, data.cast(), pieces) }
}

/// As `ggml_backend_tensor_get_2d`, but queued.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get_2d_async(
    backend: ggml_backend_t,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let pieces = Pieces { offset, size, count: n_copies, stride_tensor, stride_data };
    need!(backend, tensor);
    // SAFETY: the header requires room for all pieces at `data`, which no code uses until the backend is synchronized.
    unsafe { backend.get_2d_async(tensor, data.cast(), pieces) }
}

/// Copies `size` bytes from `data` to byte `offset` of the tensor.
#[guarded(unwritten!(tensor, offset, size))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set(
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    need!(tensor);
    // SAFETY: the header requires `size` readable bytes at `data`.
    unsafe { tensor_io::set(tensor, data.cast(), offset, size) }
}

/// Copies `size` bytes from byte `offset` of the tensor to `data`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get(
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    need!(tensor);
    // SAFETY: the header requires `size` writable bytes at `data`.
    unsafe { tensor_io::get(tensor, data.cast(), offset, size) }
}

/// Copies `n_copies` pieces of `size` bytes: piece `i` from `data + i * stride_data` to byte `offset + i *
/// stride_tensor` of the tensor.
#[guarded(unwritten!(tensor, offset, Pieces { offset, size, count: n_copies, stride_tensor, stride_data }.extent_in_tensor()))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set_2d(
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let pieces = Pieces { offset, size, count: n_copies, stride_tensor, stride_data };
    need!(tensor);
    // SAFETY: the header requires `n_copies` readable pieces at `data`.
    unsafe { tensor_io::set_2d(tensor, data.cast(), pieces) }
}

/// Copies `n_copies` pieces of `size` bytes: piece `i` from byte `offset + i * stride_tensor` of the tensor to `data
/// + i * stride_data`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get_2d(
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let pieces = Pieces { offset, size, count: n_copies, stride_tensor, stride_data };
    need!(tensor);
    // SAFETY: the header requires room for `n_copies` pieces at `data`.
    unsafe { tensor_io::get_2d(tensor, data.cast(), pieces) }
}

/// Writes `n_tensors` pieces: `sizes[i]` bytes from `data + data_offsets[i]` to byte `offsets[i]` of `tensors[i]`. A
/// tensor may occur several times. Uses the batched write of the buffer type if it has one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set_n(
    tensors: *const *mut ggml_tensor,
    data: *const c_void,
    offsets: *const usize,
    sizes: *const usize,
    data_offsets: *const usize,
    n_tensors: usize,
) {
    // SAFETY: the header requires four lists of `n_tensors` entries, and as many readable pieces at `data`.
    unsafe { batch::set(&parts(tensors.cast(), data.cast_mut(), offsets, sizes, data_offsets, n_tensors)) }
}

/// Reads `n_tensors` pieces: `sizes[i]` bytes from byte `offsets[i]` of `tensors[i]` to `data + data_offsets[i]`. A
/// tensor may occur several times. Uses the batched read of the buffer type if it has one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get_n(
    tensors: *const *const ggml_tensor,
    data: *mut c_void,
    offsets: *const usize,
    sizes: *const usize,
    data_offsets: *const usize,
    n_tensors: usize,
) {
    // SAFETY: the header requires four lists of `n_tensors` entries, and room for as many pieces at `data`.
    unsafe { batch::get(&parts(tensors, data, offsets, sizes, data_offsets, n_tensors)) }
}

/// The columns of a batch as its parts.
///
/// # Safety
/// **The header's contract**: each list has `n` entries that stay unchanged during the call; `tensors` has valid
/// tensors.
unsafe fn parts(
    tensors: *const *const ggml_tensor,
    data: *mut c_void,
    offsets: *const usize,
    sizes: *const usize,
    data_offsets: *const usize,
    n: usize,
) -> Vec<HostPart> {
    if n == 0 {
        return Vec::new();
    }
    let is_missing = tensors.is_null() || offsets.is_null() || sizes.is_null() || data_offsets.is_null();
    ggml_assert!(!is_missing, "tensors, offsets, sizes or data_offsets is NULL");
    objects!(n; tensors);
    list!(n; offsets, sizes, data_offsets);
    let part = |i: usize| HostPart {
        tensor: tensors[i],
        data: data.cast::<u8>().wrapping_add(data_offsets[i]),
        offset: offsets[i],
        size: sizes[i],
    };
    (0..n).map(part).collect()
}

/// Sets `size` bytes of the tensor, starting at byte `offset`, to `value`.
#[guarded(unwritten!(tensor, offset, size))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_memset(tensor: *mut ggml_tensor, value: u8, offset: usize, size: usize) {
    need!(tensor);
    tensor_io::memset(tensor, value, offset, size)
}

/// Copies `src` to `dst` after everything that is queued on `backend_src`; work queued on `backend_dst` afterwards
/// sees the copy. If the backends cannot queue the copy, waits for them and copies at once.
#[guarded(unwritten!(dst, 0, usize::MAX))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_copy_async(
    backend_src: ggml_backend_t,
    backend_dst: ggml_backend_t,
    src: *const ggml_tensor,
    dst: *mut ggml_tensor,
) {
    need!(src, dst, backend_src, backend_dst);
    if logged("ggml_backend_tensor_copy_async", tensor_io::copy_async(backend_src, backend_dst, src, dst)).is_none() {
        damage::unwritten(dst, 0, usize::MAX);
    }
}
