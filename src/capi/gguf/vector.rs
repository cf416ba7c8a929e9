//! `gguf_write_to_buf`: the one function of the original's libggml-base whose C++ type shows in its name. No header
//! declares it.

use crate::abi::gguf::gguf_context;
use crate::capi::convert::{logged, optional};
use crate::error::{Error, Result};
use crate::ggml_assert;
use crate::guard::guarded;
use crate::sys::symbols;
use crate::tensor::TensorRef;
use std::ffi::c_void;
use std::io::Write;

/// A `std::vector<int8_t>` with the layout of both common C++ libraries: first byte, end of the contents, end of the
/// memory, which comes from `operator new`.
#[repr(C)]
pub struct Vector {
    begin: *mut u8,
    end: *mut u8,
    limit: *mut u8,
}

/// `operator new` that returns NULL instead of throwing. The second argument only selects the overload.
type New = unsafe extern "C" fn(usize, *const u8) -> *mut c_void;
type Delete = unsafe extern "C" fn(*mut c_void);

/// `operator new` and `operator delete` of the process: a caller that has a vector has loaded a C++ library.
struct Operators {
    new: New,
    delete: Delete,
}

impl Operators {
    fn find() -> Result<Self> {
        let (Some(new), Some(delete)) = (symbols::find(c"_ZnwmRKSt9nothrow_t"), symbols::find(c"_ZdlPv")) else {
            return Err(Error::Unsupported("a std::vector in a process without a C++ library".to_owned()));
        };
        // SAFETY: the C++ ABI fixes the types of the functions that have these names. `New` and `Delete` are their
        // types in 64-bit programs, the only ones that this crate supports (`abi/identity.rs`).
        unsafe {
            Ok(Self {
                new: std::mem::transmute::<*mut c_void, New>(new.as_ptr()),
                delete: std::mem::transmute::<*mut c_void, Delete>(delete.as_ptr()),
            })
        }
    }
}

/// Appends what is written to a vector.
struct Appended<'a> {
    vector: &'a mut Vector,
    operators: Operators,
}

impl Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let v = &mut *self.vector;
        let (len, room) = (v.end.addr() - v.begin.addr(), v.limit.addr() - v.begin.addr());
        // SAFETY: a vector's memory reaches from `begin` to `limit`, its contents to `end`; new memory has room for
        // both, and the old memory came from the same operators.
        unsafe {
            if room - len < bytes.len() {
                let capacity = (len + bytes.len()).next_power_of_two();
                let memory = (self.operators.new)(capacity, &0).cast::<u8>();
                if memory.is_null() {
                    return Err(std::io::ErrorKind::OutOfMemory.into());
                }
                if len > 0 {
                    memory.copy_from_nonoverlapping(v.begin, len);
                }
                if !v.begin.is_null() {
                    (self.operators.delete)(v.begin.cast());
                }
                *v = Vector { begin: memory, end: memory.add(len), limit: memory.add(capacity) };
            }
            v.end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            v.end = v.end.add(bytes.len());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Appends the file to `buf`, a `std::vector<int8_t>`; with `only_meta`, only what is before the tensor data.
///
/// # Safety
/// `ctx` is a valid `gguf_context`, and `buf` is a valid vector that no other code uses during the call.
///
/// cbindgen:ignore
#[guarded]
// The vector of libstdc++, or that of libc++, which has a namespace of its own on Android.
#[cfg_attr(
    not(any(target_vendor = "apple", target_os = "android")),
    unsafe(export_name = "_Z17gguf_write_to_bufPK12gguf_contextRSt6vectorIaSaIaEEb")
)]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(export_name = "_Z17gguf_write_to_bufPK12gguf_contextRNSt3__16vectorIaNS2_9allocatorIaEEEEb")
)]
#[cfg_attr(
    target_os = "android",
    unsafe(export_name = "_Z17gguf_write_to_bufPK12gguf_contextRNSt6__ndk16vectorIaNS2_9allocatorIaEEEEb")
)]
pub unsafe extern "C" fn gguf_write_to_buf(ctx: *const gguf_context, buf: *mut Vector, only_meta: bool) {
    ggml_assert!(!buf.is_null());
    optional!(ctx);
    let Some(gguf) = ctx else { return };
    // SAFETY: not NULL, so by the caller's promise a valid vector that no other code uses.
    let vector = unsafe { &mut *buf };
    // SAFETY: data without a buffer was set by `gguf_add_tensor` or `gguf_set_tensor_data`. The header requires the
    // host to keep such data until the file is written.
    let fetch = |t: TensorRef, bytes: &mut [u8]| unsafe { super::write::fetch(t, bytes) };
    let write = |operators| gguf.write(&mut Appended { vector, operators }, only_meta, &fetch);
    logged("gguf_write_to_buf", Operators::find().and_then(write));
}
