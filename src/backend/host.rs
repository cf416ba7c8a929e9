//! Host memory: the buffer types "CPU" (memory of its own) and "CPU_Mapped" (memory that the host already has), and the
//! allocator that backend modules share.

use super::buffer::EMPTY_IFACE;
use super::{BufferBox, BufferRef, BufferTypeRef};
use crate::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t};
use crate::abi::backend_impl::{ggml_backend_buffer_i, ggml_backend_buffer_type, ggml_backend_buffer_type_i};
use crate::abi::ggml::ggml_tensor;
use crate::error::{Error, Result};
use crate::guard::guarded;
use crate::sys::available;
use crate::sys::memory;
use crate::tensor::TensorRef;
use crate::{ggml_assert, log_error};
use std::ffi::{c_char, c_void};

/// Alignment of tensors in host buffers, in bytes.
pub const TENSOR_ALIGNMENT: usize = 32;
/// Alignment of the memory of host buffers, in bytes.
pub const MEMORY_ALIGNMENT: usize = 64;

/// `size` uninitialised bytes aligned to [`MEMORY_ALIGNMENT`]; NULL for 0 bytes or when there is no memory.
/// Freed with [`aligned_free`].
pub fn aligned_malloc(size: usize) -> *mut c_void {
    match size {
        0 => std::ptr::null_mut(),
        _ => memory::c_aligned_alloc::<MEMORY_ALIGNMENT>(size),
    }
}

/// Frees memory of [`aligned_malloc`]; nothing for NULL.
///
/// # Safety
/// `p` is NULL or came from [`aligned_malloc`], and no code uses it afterwards.
pub unsafe fn aligned_free(p: *mut c_void) {
    // SAFETY: NULL, or memory of `c_aligned_alloc` (`aligned_malloc`), by the caller's promise.
    unsafe { memory::c_aligned_free(p) }
}

/// A buffer type in static memory. The device stays NULL, as hosts expect of the type "CPU".
struct StaticType(ggml_backend_buffer_type);
// SAFETY: no code writes the struct, and its functions use no state.
unsafe impl Sync for StaticType {}

const fn buffer_type_with(
    get_name: unsafe extern "C" fn(ggml_backend_buffer_type_t) -> *const c_char,
) -> ggml_backend_buffer_type {
    ggml_backend_buffer_type {
        iface: ggml_backend_buffer_type_i {
            get_name: Some(get_name),
            alloc_buffer: Some(alloc_buffer),
            alloc_buffer_n: None,
            get_alignment: Some(get_alignment),
            get_max_size: None,
            get_alloc_size: None,
            get_alloc_size_n: None,
            is_host: Some(is_host),
        },
        device: std::ptr::null_mut(),
        context: std::ptr::null_mut(),
    }
}

static CPU: StaticType = StaticType(buffer_type_with(cpu_name));
static CPU_MAPPED: StaticType = StaticType(buffer_type_with(mapped_name));

fn handle(t: &'static StaticType) -> BufferTypeRef {
    // SAFETY: a static with functions that keep the vtable contract.
    match unsafe { BufferTypeRef::from_ptr(&raw const t.0) } {
        Some(t) => t,
        None => unreachable!("a static is never NULL"),
    }
}

/// The buffer type "CPU".
pub fn buffer_type() -> BufferTypeRef {
    handle(&CPU)
}

/// The buffer type "CPU_Mapped".
pub fn mapped_buffer_type() -> BufferTypeRef {
    handle(&CPU_MAPPED)
}

/// A buffer of memory that the host already has and keeps. The address must be a multiple of [`TENSOR_ALIGNMENT`].
///
/// # Safety
/// `ptr` points to `size` readable bytes (writable where tensors in the buffer are written) that live as long as the
/// buffer.
pub unsafe fn buffer_from_ptr(ptr: *mut c_void, size: usize) -> BufferBox {
    ggml_assert!((ptr as usize).is_multiple_of(TENSOR_ALIGNMENT), "buffer pointer must be aligned");
    let iface = ggml_backend_buffer_i { free_buffer: None, ..IFACE };
    // SAFETY: the functions keep the contract for a context that points to `size` bytes.
    unsafe { BufferBox::create(mapped_buffer_type(), iface, ptr, size) }
}

#[guarded]
unsafe extern "C" fn cpu_name(_: ggml_backend_buffer_type_t) -> *const c_char {
    c"CPU".as_ptr()
}

#[guarded]
unsafe extern "C" fn mapped_name(_: ggml_backend_buffer_type_t) -> *const c_char {
    c"CPU_Mapped".as_ptr()
}

#[guarded]
unsafe extern "C" fn get_alignment(_: ggml_backend_buffer_type_t) -> usize {
    TENSOR_ALIGNMENT
}

#[guarded]
unsafe extern "C" fn is_host(_: ggml_backend_buffer_type_t) -> bool {
    true
}

fn alloc(buft: BufferTypeRef, size: usize) -> Result<BufferBox> {
    let data = aligned_malloc(size);
    if data.is_null() {
        return Err(Error::OutOfMemory { what: format!("a {} buffer", buft.name()), bytes: size });
    }
    // SAFETY: the functions keep the contract for a context that `aligned_malloc` gave.
    Ok(unsafe { BufferBox::create(buft, IFACE, data, size) })
}

/// # Safety
/// `buft` is a valid buffer type.
#[guarded]
unsafe extern "C" fn alloc_buffer(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t {
    // SAFETY: the caller promises a **valid** buffer type; NULL gives `None`.
    let Some(buft) = (unsafe { BufferTypeRef::from_ptr(buft) }) else { return std::ptr::null_mut() };
    available::will_take(size);
    match alloc(buft, size) {
        Ok(buffer) => buffer.into_raw(),
        Err(e) => {
            log_error!("{e}");
            std::ptr::null_mut()
        }
    }
}

const IFACE: ggml_backend_buffer_i = ggml_backend_buffer_i {
    free_buffer: Some(free_buffer),
    get_base: Some(get_base),
    init_tensor: None,
    memset_tensor: Some(memset_tensor),
    set_tensor: Some(set_tensor),
    get_tensor: Some(get_tensor),
    set_tensor_2d: None,
    get_tensor_2d: None,
    cpy_tensor: Some(cpy_tensor),
    clear: Some(clear),
    ..EMPTY_IFACE
};

// The context of a host buffer is the address of its memory.

/// # Safety
/// `buffer` is a valid host buffer with memory of its own. No code uses it afterwards.
#[guarded]
unsafe extern "C" fn free_buffer(buffer: ggml_backend_buffer_t) {
    // SAFETY: the context came from `aligned_malloc`.
    unsafe { aligned_free((*buffer).context) }
}

/// # Safety
/// `buffer` is a valid host buffer.
#[guarded]
unsafe extern "C" fn get_base(buffer: ggml_backend_buffer_t) -> *mut c_void {
    // SAFETY: the caller promises a **valid buffer**.
    let context = unsafe { (*buffer).context };
    context.map_addr(|a| a.next_multiple_of(TENSOR_ALIGNMENT))
}

/// # Safety
/// `tensor` is a valid tensor in host memory with `size` bytes at `offset`.
#[guarded]
unsafe extern "C" fn memset_tensor(
    _: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
    value: u8,
    offset: usize,
    size: usize,
) {
    // SAFETY: its data is in host memory; the caller checked the range.
    unsafe { (*tensor).data.cast::<u8>().add(offset).write_bytes(value, size) }
}

/// # Safety
/// `tensor` is a valid tensor in host memory with `size` bytes at `offset`; `data` has `size` bytes.
#[guarded]
unsafe extern "C" fn set_tensor(
    _: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: its data is in host memory; the caller checked the range. Overlap is allowed: a host may give the
    // tensor's own memory.
    unsafe { (*tensor).data.cast::<u8>().add(offset).copy_from(data.cast(), size) }
}

/// # Safety
/// As for `set_tensor`; `data` is writable.
#[guarded]
unsafe extern "C" fn get_tensor(
    _: ggml_backend_buffer_t,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: its data is in host memory; the caller checked the range. Overlap is allowed, as in `set_tensor`.
    unsafe { (*tensor).data.cast::<u8>().add(offset).copy_to(data.cast(), size) }
}

/// # Safety
/// Both are valid tensors of one layout, `dst` in host memory.
#[guarded]
unsafe extern "C" fn cpy_tensor(_: ggml_backend_buffer_t, src: *const ggml_tensor, dst: *mut ggml_tensor) -> bool {
    // SAFETY: the caller promises **valid tensors**; NULL gives `None`.
    let (Some(src), Some(dst)) = (unsafe { TensorRef::from_ptr(src) }, unsafe { TensorRef::from_ptr(dst) }) else {
        return false;
    };
    if !src.buffer().is_some_and(BufferRef::is_host) || src.nbytes() > dst.nbytes() {
        return false;
    }
    // SAFETY: the data of both is in host memory, and `dst` has room.
    unsafe { dst.data().copy_from(src.data(), src.nbytes()) };
    true
}

/// # Safety
/// `buffer` is a valid host buffer whose memory may be written.
#[guarded]
unsafe extern "C" fn clear(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: the context points to `size` bytes.
    unsafe { (*buffer).context.cast::<u8>().write_bytes(value, (*buffer).size) }
}
