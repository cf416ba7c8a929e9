//! gguf.h: reading and writing model files.

use crate::abi::ggml::{ggml_context, ggml_tensor, ggml_type};
use crate::abi::gguf::*;
use crate::abi::raw;
use crate::backend::tensor_io;
use crate::capi::convert::{ctx_into_raw, dtype, logged, tensor as need_tensor};
use crate::error::{Error, Result};
use crate::gguf::reader::Reader;
use crate::gguf::source::{CFile, Callback, Source, Stream};
use crate::gguf::value::{self, Printable};
use crate::gguf::{Gguf, Kv, TensorInfo, Text, Value, load};
use crate::sys::cstr;
use crate::sys::memory::NumberBytes;
use crate::tensor::TensorRef;
use crate::{ggml_assert, log_error};
use libc::FILE;
use std::ffi::{c_char, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// # Safety
/// `ctx` is NULL or a valid `gguf_context` that nobody changes meanwhile.
unsafe fn file<'a>(ctx: *const gguf_context) -> Option<&'a Gguf> {
    // SAFETY: forwarded to the caller; a `gguf_context` is a `Gguf` behind an opaque name.
    unsafe { ctx.cast::<Gguf>().as_ref() }
}

/// # Safety
/// `ctx` is NULL or a valid `gguf_context` that nobody else uses meanwhile.
#[track_caller]
unsafe fn file_mut<'a>(ctx: *mut gguf_context) -> &'a mut Gguf {
    // SAFETY: forwarded to the caller.
    match unsafe { ctx.cast::<Gguf>().as_mut() } {
        Some(f) => f,
        None => crate::capi::convert::broken("GGML_ASSERT(ctx != NULL) failed"),
    }
}

/// The key at `key_id`; a number that names none is said in the log.
///
/// # Safety
/// As for [`file`].
unsafe fn kv<'a>(ctx: *const gguf_context, key_id: i64) -> Option<&'a Kv> {
    // SAFETY: forwarded to the caller.
    let file = unsafe { file(ctx) }?;
    let found = usize::try_from(key_id).ok().and_then(|i| file.kv.get(i));
    if found.is_none() {
        log_error!("gguf: there is no key {key_id}, the file has {}", file.kv.len());
    }
    found
}

/// The tensor at `tensor_id`; a number that names none is said in the log.
///
/// # Safety
/// As for [`file`].
unsafe fn info<'a>(ctx: *const gguf_context, tensor_id: i64) -> Option<&'a TensorInfo> {
    // SAFETY: forwarded to the caller.
    let file = unsafe { file(ctx) }?;
    let found = usize::try_from(tensor_id).ok().and_then(|i| file.tensors.get(i));
    if found.is_none() {
        log_error!("gguf: there is no tensor {tensor_id}, the file has {}", file.tensors.len());
    }
    found
}

/// The bytes of one number of type `t`; another type is said in the log.
fn number<const N: usize>(kv: Option<&Kv>, t: gguf_type) -> Option<[u8; N]> {
    let kv = kv?;
    match &kv.value {
        Value::Numbers(have, bytes) if *have == t && kv.len() == 1 => bytes.as_slice().try_into().ok(),
        _ => {
            log_error!("gguf: key {:?} is not one value of type {}", kv.key, value::type_name(t).to_string_lossy());
            None
        }
    }
}

/// Parses the file and, if asked for, makes the context with its tensors. `*params.ctx` is written on success only, and
/// set to NULL when the description was right but the tensors could not be made.
///
/// # Safety
/// `params.ctx` is NULL or valid for writing a pointer.
unsafe fn read(source: &mut dyn Source, start: u64, rest: u64, params: gguf_init_params) -> Result<Gguf> {
    let mut reader = Reader::new(source, start, rest);
    let gguf = reader.meta()?;
    if !params.ctx.is_null() {
        let ctx = load::load(&gguf, &mut reader, params.no_alloc);
        let (raw, result) = match ctx {
            Ok(ctx) => (ctx_into_raw(ctx), Ok(())),
            Err(e) => (std::ptr::null_mut::<ggml_context>(), Err(e)),
        };
        // SAFETY: not NULL, so by the caller's promise valid for writing.
        unsafe { params.ctx.write(raw) };
        result?;
    }
    Ok(gguf)
}

fn give(what: &str, gguf: Result<Gguf>) -> *mut gguf_context {
    logged(what, gguf).map_or(std::ptr::null_mut(), |g| Box::into_raw(Box::new(g)).cast())
}

/// A new file content without keys and tensors. Freed with `gguf_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_empty() -> *mut gguf_context {
    give("gguf_init_empty", Ok(Gguf::default()))
}

/// Reads a GGUF file from where an open, seekable stream stands. With `params.ctx` a context with its tensors is made and
/// stored there, with data unless `params.no_alloc`; the caller frees it. NULL, with the reason in the log, for a file that
/// is not valid, not whole, or not of a version that is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file_ptr(file: *mut FILE, params: gguf_init_params) -> *mut gguf_context {
    if file.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: an open stream, by the contract.
    let mut stream = unsafe { CFile::new(file) };
    let Some((at, rest)) = stream.position_and_rest() else {
        log_error!("gguf_init_from_file_ptr: the stream cannot be sought");
        return std::ptr::null_mut();
    };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_file_ptr", unsafe { read(&mut Stream::new(stream, at), at, rest, params) })
}

/// Reads a GGUF file by its UTF-8 path; see `gguf_init_from_file_ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file(fname: *const c_char, params: gguf_init_params) -> *mut gguf_context {
    // SAFETY: NULL or a valid C string, by the contract.
    let Some(name) = (unsafe { cstr::bytes(fname) }) else { return std::ptr::null_mut() };
    let path: &std::path::Path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
    let what = || format!("'{}'", path.display());
    let opened = std::fs::File::open(path).and_then(|f| Ok((f.metadata()?.len(), f)));
    let result = match opened {
        Err(source) => Err(Error::Io { what: format!("failed to open GGUF file {}", what()), source }),
        Ok((len, f)) => {
            let mut source = Stream::new(std::io::BufReader::with_capacity(1 << 16, f), 0);
            // SAFETY: `params` by the contract.
            unsafe { read(&mut source, 0, len, params) }
        }
    };
    give(&format!("gguf_init_from_file: {}", what()), result)
}

/// Reads a GGUF file from memory, of which nothing is kept; see `gguf_init_from_file_ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_buffer(
    data: *const c_void,
    size: usize,
    params: gguf_init_params,
) -> *mut gguf_context {
    if data.is_null() || size == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: `data` points to `size` readable bytes, by the contract.
    let mut bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_buffer", unsafe { read(&mut bytes, 0, size as u64, params) })
}

/// Reads a GGUF file through a function, which is asked for at most `max_chunk_read` bytes at once (0: no limit), and for
/// `max_expected_size` bytes in all; see `gguf_init_from_file_ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_callback(
    callback: gguf_reader_callback_t,
    userdata: *mut c_void,
    max_chunk_read: usize,
    max_expected_size: u64,
    params: gguf_init_params,
) -> *mut gguf_context {
    // SAFETY: the function keeps its word, by the contract.
    let Some(mut source) = (unsafe { Callback::new(callback, userdata, max_chunk_read) }) else {
        return std::ptr::null_mut();
    };
    // SAFETY: `params` by the contract.
    give("gguf_init_from_callback", unsafe { read(&mut source, 0, max_expected_size, params) })
}

/// Frees a file content; its tensors' context is the caller's. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_free(ctx: *mut gguf_context) {
    if !ctx.is_null() {
        // SAFETY: made by a `gguf_init` function, and nobody uses it any more, by the contract.
        drop(unsafe { Box::from_raw(ctx.cast::<Gguf>()) });
    }
}

/// Name of a value's type, such as "u32"; NULL for a number that is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_type_name(r#type: raw::gguf_type) -> *const c_char {
    gguf_type::from_raw(r#type).map_or(std::ptr::null(), |t| value::type_name(t).as_ptr())
}

/// Version of the format. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_version(ctx: *const gguf_context) -> u32 {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.version)
}

/// Alignment of tensor data in bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_alignment(ctx: *const gguf_context) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.alignment)
}

/// Bytes from the start of the file to the tensor data; aligned if the file has tensors. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_data_offset(ctx: *const gguf_context) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.data_offset)
}

/// Number of keys. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_n_kv(ctx: *const gguf_context) -> i64 {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.kv.len() as i64)
}

/// Place of a key, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_find_key(ctx: *const gguf_context, key: *const c_char) -> i64 {
    // SAFETY: NULL or valid, by the contract.
    let found = unsafe { file(ctx).zip(cstr::bytes(key)) }.and_then(|(f, key)| f.find_key(key));
    found.map_or(-1, |i| i as i64)
}

/// The key at a place; it lives until the key is removed. NULL, and a log line, when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_key(ctx: *const gguf_context, key_id: i64) -> *const c_char {
    // SAFETY: NULL or valid, by the contract.
    unsafe { kv(ctx, key_id) }.map_or(std::ptr::null(), |kv| kv.key.as_c_str().as_ptr())
}

/// Type of a key's value, `GGUF_TYPE_ARRAY` for arrays. `GGUF_TYPE_COUNT`, and a log line, when there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_kv_type(ctx: *const gguf_context, key_id: i64) -> raw::gguf_type {
    // SAFETY: NULL or valid, by the contract.
    let t = unsafe { kv(ctx, key_id) }.map_or(gguf_type::GGUF_TYPE_COUNT, |kv| match kv.is_array {
        true => gguf_type::GGUF_TYPE_ARRAY,
        false => kv.element_type(),
    });
    t as raw::gguf_type
}

/// Type of an array's elements. `GGUF_TYPE_COUNT`, and a log line, when the value is no array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_type(ctx: *const gguf_context, key_id: i64) -> raw::gguf_type {
    // SAFETY: NULL or valid, by the contract.
    let kv = unsafe { kv(ctx, key_id) };
    if let Some(kv) = kv.filter(|kv| !kv.is_array) {
        log_error!("gguf: key {:?} is no array", kv.key);
    }
    kv.filter(|kv| kv.is_array).map_or(gguf_type::GGUF_TYPE_COUNT, Kv::element_type) as raw::gguf_type
}

/// The 8-bit unsigned number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u8(ctx: *const gguf_context, key_id: i64) -> u8 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_UINT8).map_or(0, u8::from_ne_bytes)
}

/// The 8-bit signed number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i8(ctx: *const gguf_context, key_id: i64) -> i8 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_INT8).map_or(0, i8::from_ne_bytes)
}

/// The 16-bit unsigned number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u16(ctx: *const gguf_context, key_id: i64) -> u16 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_UINT16).map_or(0, u16::from_ne_bytes)
}

/// The 16-bit signed number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i16(ctx: *const gguf_context, key_id: i64) -> i16 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_INT16).map_or(0, i16::from_ne_bytes)
}

/// The 32-bit unsigned number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u32(ctx: *const gguf_context, key_id: i64) -> u32 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_UINT32).map_or(0, u32::from_ne_bytes)
}

/// The 32-bit signed number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i32(ctx: *const gguf_context, key_id: i64) -> i32 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_INT32).map_or(0, i32::from_ne_bytes)
}

/// The 32-bit floating-point number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_f32(ctx: *const gguf_context, key_id: i64) -> f32 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_FLOAT32).map_or(0.0, f32::from_ne_bytes)
}

/// The 64-bit unsigned number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u64(ctx: *const gguf_context, key_id: i64) -> u64 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_UINT64).map_or(0, u64::from_ne_bytes)
}

/// The 64-bit signed number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i64(ctx: *const gguf_context, key_id: i64) -> i64 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_INT64).map_or(0, i64::from_ne_bytes)
}

/// The 64-bit floating-point number of a key. 0, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_f64(ctx: *const gguf_context, key_id: i64) -> f64 {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_FLOAT64).map_or(0.0, f64::from_ne_bytes)
}

/// The truth value of a key. False, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_bool(ctx: *const gguf_context, key_id: i64) -> bool {
    // SAFETY: NULL or valid, by the contract.
    number(unsafe { kv(ctx, key_id) }, gguf_type::GGUF_TYPE_BOOL).is_some_and(|[b]| b != 0)
}

/// Text `i` of a key that holds texts.
fn text(kv: Option<&Kv>, i: usize) -> *const c_char {
    match kv.map(|kv| (&kv.value, kv)) {
        Some((Value::Texts(texts), _)) if i < texts.len() => texts[i].as_c_str().as_ptr(),
        Some((_, kv)) => {
            log_error!("gguf: key {:?} holds no text {i}", kv.key);
            std::ptr::null()
        }
        None => std::ptr::null(),
    }
}

/// The text of a key; it lives until the key is removed. NULL, and a log line, when the key holds something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_str(ctx: *const gguf_context, key_id: i64) -> *const c_char {
    // SAFETY: NULL or valid, by the contract.
    text(unsafe { kv(ctx, key_id) }.filter(|kv| kv.len() == 1), 0)
}

/// Address of the bytes of a key's numbers; aligned to 8.
fn bytes(kv: Option<&Kv>) -> *const c_void {
    match kv.map(|kv| (&kv.value, kv)) {
        Some((Value::Numbers(_, bytes), _)) => bytes.as_slice().as_ptr().cast(),
        Some((_, kv)) => {
            log_error!("gguf: key {:?} holds texts, not numbers", kv.key);
            std::ptr::null()
        }
        None => std::ptr::null(),
    }
}

/// Address of the number of a key, whatever its type; aligned to 8. It lives until the key is removed. NULL, and a log
/// line, when the key holds a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_data(ctx: *const gguf_context, key_id: i64) -> *const c_void {
    // SAFETY: NULL or valid, by the contract.
    bytes(unsafe { kv(ctx, key_id) }.filter(|kv| kv.len() == 1))
}

/// Number of elements of a key's array. 0, and a log line, when there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_n(ctx: *const gguf_context, key_id: i64) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { kv(ctx, key_id) }.map_or(0, Kv::len)
}

/// Address of an array's numbers; aligned to 8, truth values as bytes 0 and 1. It lives until the key is removed. NULL,
/// and a log line, when the key holds texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_data(ctx: *const gguf_context, key_id: i64) -> *const c_void {
    // SAFETY: NULL or valid, by the contract.
    bytes(unsafe { kv(ctx, key_id) })
}

/// Text `i` of an array; it lives until the key is removed. NULL, and a log line, when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_str(ctx: *const gguf_context, key_id: i64, i: usize) -> *const c_char {
    // SAFETY: NULL or valid, by the contract.
    text(unsafe { kv(ctx, key_id) }, i)
}

/// Number of tensors. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_n_tensors(ctx: *const gguf_context) -> i64 {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.tensors.len() as i64)
}

/// Place of a tensor, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_find_tensor(ctx: *const gguf_context, name: *const c_char) -> i64 {
    // SAFETY: NULL or valid, by the contract.
    let found = unsafe { file(ctx).zip(cstr::bytes(name)) }.and_then(|(f, name)| f.find_tensor(name));
    found.map_or(-1, |i| i as i64)
}

/// Bytes from the start of the tensor data to a tensor's. 0, and a log line, when there is no such tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_offset(ctx: *const gguf_context, tensor_id: i64) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { info(ctx, tensor_id) }.map_or(0, |t| t.offset as usize)
}

/// Name of a tensor; it lives as long as the file content. NULL, and a log line, when there is no such tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_name(ctx: *const gguf_context, tensor_id: i64) -> *const c_char {
    // SAFETY: NULL or valid, by the contract.
    unsafe { info(ctx, tensor_id) }.map_or(std::ptr::null(), |t| t.tensor().name_ptr())
}

/// Element counts of a tensor, four numbers that live as long as the file content; 1 in dimensions that the file does not
/// give. NULL, and a log line, when there is no such tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_ne(ctx: *const gguf_context, tensor_id: i64) -> *const i64 {
    // SAFETY: NULL or valid, by the contract.
    unsafe { info(ctx, tensor_id) }.map_or(std::ptr::null(), |t| t.tensor().ne_ptr())
}

/// Number format of a tensor. `GGML_TYPE_COUNT`, and a log line, when there is no such tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_type(ctx: *const gguf_context, tensor_id: i64) -> raw::ggml_type {
    // SAFETY: NULL or valid, by the contract.
    unsafe { info(ctx, tensor_id) }.map_or(ggml_type::GGML_TYPE_COUNT as i32, |t| t.tensor().dtype_raw())
}

/// Bytes of a tensor's data. 0, and a log line, when there is no such tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_size(ctx: *const gguf_context, tensor_id: i64) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { info(ctx, tensor_id) }.map_or(0, TensorInfo::nbytes)
}

/// Removes a key. Returns its place, or -1 when there was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_remove_key(ctx: *mut gguf_context, key: *const c_char) -> i64 {
    // SAFETY: valid, and a valid C string, by the contract.
    let removed = unsafe { cstr::bytes(key).and_then(|key| file_mut(ctx).remove_key(key)) };
    removed.map_or(-1, |i| i as i64)
}

/// Sets a key. A key or value that is not allowed is a broken contract.
///
/// # Safety
/// `ctx` is a valid `gguf_context` that nobody else uses, `key` a valid C string.
#[track_caller]
unsafe fn set(ctx: *mut gguf_context, key: *const c_char, make: impl FnOnce(&[u8]) -> Result<Kv>) {
    // SAFETY: forwarded to the caller.
    let (file, key) = unsafe { (file_mut(ctx), cstr::bytes(key).unwrap_or_default()) };
    if let Err(e) = make(key).and_then(|kv| file.set(kv)) {
        crate::capi::convert::broken(&format!("gguf: key '{}': {e}", Printable(key)));
    }
}

/// Sets a key to a 8-bit unsigned number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u8(ctx: *mut gguf_context, key: *const c_char, val: u8) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT8, &val.to_ne_bytes())) }
}

/// Sets a key to a 8-bit signed number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i8(ctx: *mut gguf_context, key: *const c_char, val: i8) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT8, &val.to_ne_bytes())) }
}

/// Sets a key to a 16-bit unsigned number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u16(ctx: *mut gguf_context, key: *const c_char, val: u16) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT16, &val.to_ne_bytes())) }
}

/// Sets a key to a 16-bit signed number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i16(ctx: *mut gguf_context, key: *const c_char, val: i16) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT16, &val.to_ne_bytes())) }
}

/// Sets a key to a 32-bit unsigned number; an old value is replaced. "general.alignment" must be a power of 2 (the contract).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u32(ctx: *mut gguf_context, key: *const c_char, val: u32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT32, &val.to_ne_bytes())) }
}

/// Sets a key to a 32-bit signed number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i32(ctx: *mut gguf_context, key: *const c_char, val: i32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT32, &val.to_ne_bytes())) }
}

/// Sets a key to a 32-bit floating-point number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f32(ctx: *mut gguf_context, key: *const c_char, val: f32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT32, &val.to_ne_bytes())) }
}

/// Sets a key to a 64-bit unsigned number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u64(ctx: *mut gguf_context, key: *const c_char, val: u64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT64, &val.to_ne_bytes())) }
}

/// Sets a key to a 64-bit signed number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i64(ctx: *mut gguf_context, key: *const c_char, val: i64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT64, &val.to_ne_bytes())) }
}

/// Sets a key to a 64-bit floating-point number; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f64(ctx: *mut gguf_context, key: *const c_char, val: f64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT64, &val.to_ne_bytes())) }
}

/// Sets a key to a truth value; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_bool(ctx: *mut gguf_context, key: *const c_char, val: bool) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_BOOL, &[u8::from(val)])) }
}

/// Sets a key to a text, which is copied; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_str(ctx: *mut gguf_context, key: *const c_char, val: *const c_char) {
    // SAFETY: a valid C string, by the contract.
    let Some(val) = (unsafe { cstr::bytes(val) }) else {
        crate::capi::convert::broken("GGML_ASSERT(val != NULL) failed")
    };
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Ok(Kv::text(key, val))) }
}

/// Sets a key to an array of `n` numbers of `type`, which are copied; an old value is replaced. Texts are set with
/// `gguf_set_arr_str` (the contract).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_arr_data(
    ctx: *mut gguf_context,
    key: *const c_char,
    r#type: raw::gguf_type,
    data: *const c_void,
    n: usize,
) {
    let t = gguf_type::from_raw(r#type).and_then(|t| Some((t, value::type_size(t)?)));
    let Some((t, size)) = t else {
        crate::capi::convert::broken(&format!("gguf: an array of numbers cannot have type {type}", type = r#type))
    };
    ggml_assert!(n == 0 || !data.is_null());
    let Some(len) = n.checked_mul(size) else { crate::capi::convert::broken("gguf: the array is too large") };
    // SAFETY: `data` points to `n` numbers of the type, by the contract.
    let data = if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) } };
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe {
        set(ctx, key, |key| {
            let value = Value::Numbers(t, NumberBytes::copy_of(data)?);
            Ok(Kv { key: Text::new(key), is_array: true, value })
        })
    }
}

/// Sets a key to an array of `n` texts, which are copied; an old value is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_arr_str(
    ctx: *mut gguf_context,
    key: *const c_char,
    data: *mut *const c_char,
    n: usize,
) {
    ggml_assert!(n == 0 || !data.is_null());
    // SAFETY: `data` points to `n` valid C strings, by the contract.
    let texts = (0..n).map(|i| Text::new(unsafe { cstr::bytes(data.add(i).read()) }.unwrap_or_default())).collect();
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Ok(Kv { key: Text::new(key), is_array: true, value: Value::Texts(texts) })) }
}

/// Sets all keys of `src` in `ctx`; old values are replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_kv(ctx: *mut gguf_context, src: *const gguf_context) {
    // SAFETY: NULL or valid, by the contract.
    let all = unsafe { file(src) }.map(|f| f.kv.clone()).unwrap_or_default();
    for kv in all {
        // SAFETY: valid, by the contract.
        if let Err(e) = unsafe { file_mut(ctx) }.set(kv) {
            crate::capi::convert::broken(&format!("gguf_set_kv: {e}"));
        }
    }
}

/// Adds a tensor at the end. Its data stays the caller's and is read when the file is written. No two tensors may have the
/// same name (the contract).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_add_tensor(ctx: *mut gguf_context, tensor: *const ggml_tensor) {
    // SAFETY: valid, by the contract.
    let (file, t) = unsafe { (file_mut(ctx), need_tensor(tensor, "tensor")) };
    ggml_assert!(file.find_tensor(&t.name_bytes()).is_none(), "duplicate tensor name: {}", t.name());
    match file.end_offset() {
        Ok(offset) => file.tensors.push(TensorInfo::copy_of(t, offset)),
        Err(e) => crate::capi::convert::broken(&format!("gguf_add_tensor: {e}")),
    }
}

/// The place of a tensor that must be there.
///
/// # Safety
/// `ctx` is a valid `gguf_context` that nobody else uses, `name` a valid C string.
#[track_caller]
unsafe fn named<'a>(ctx: *mut gguf_context, name: *const c_char) -> (&'a mut Gguf, usize) {
    // SAFETY: forwarded to the caller.
    let (file, name) = unsafe { (file_mut(ctx), cstr::bytes(name).unwrap_or_default()) };
    match file.find_tensor(name) {
        Some(i) => (file, i),
        None => crate::capi::convert::broken(&format!("tensor not found: {}", Printable(name))),
    }
}

/// Changes the number format of a tensor, which must be there and whose rows must hold whole blocks (the contract). The
/// offsets behind it follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_type(ctx: *mut gguf_context, name: *const c_char, r#type: raw::ggml_type) {
    // SAFETY: valid, and a valid C string, by the contract.
    let (file, i) = unsafe { named(ctx, name) };
    if let Err(e) = file.set_tensor_dtype(i, dtype(r#type)) {
        crate::capi::convert::broken(&format!("gguf_set_tensor_type: {e}"));
    }
}

/// Sets the data of a tensor, which must be there (the contract). The data stays the caller's and is read when the file is
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_data(ctx: *mut gguf_context, name: *const c_char, data: *const c_void) {
    // SAFETY: valid, and a valid C string, by the contract.
    let (file, i) = unsafe { named(ctx, name) };
    file.tensors[i].tensor().set_data(data.cast_mut().cast());
}

/// Copies a tensor's data, through its buffer if it has one.
fn fetch(t: TensorRef, out: &mut [u8]) -> Result<()> {
    if !t.buffer_raw().is_null() {
        tensor_io::get_bytes(t, out, 0);
    } else if !t.data().is_null() {
        // SAFETY: without a buffer the data is in host memory of `nbytes` bytes, by the contract of `gguf_add_tensor`.
        out.copy_from_slice(unsafe { std::slice::from_raw_parts(t.data(), out.len()) });
    } else if !out.is_empty() {
        return Err(Error::Invalid(format!("tensor '{}' has no data", t.name())));
    }
    Ok(())
}

/// A C stream to write to.
struct CSink(*mut FILE);

impl Write for CSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // SAFETY: an open stream, by the contract of `gguf_write_to_file_ptr`.
        match unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) } {
            0 if !bytes.is_empty() => Err(std::io::Error::last_os_error()),
            n => Ok(n),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the file to an open stream; with `only_meta` everything before the tensor data. False, and a log line, when it
/// could not be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file_ptr(ctx: *const gguf_context, file: *mut FILE, only_meta: bool) -> bool {
    ggml_assert!(!file.is_null());
    // SAFETY: NULL or valid, by the contract.
    let Some(gguf) = (unsafe { self::file(ctx) }) else { return false };
    logged("gguf_write_to_file_ptr", gguf.write(&mut CSink(file), only_meta, &fetch)).is_some()
}

/// Writes the file to a UTF-8 path; see `gguf_write_to_file_ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file(ctx: *const gguf_context, fname: *const c_char, only_meta: bool) -> bool {
    // SAFETY: NULL or valid, by the contract.
    let Some((gguf, name)) = (unsafe { file(ctx).zip(cstr::bytes(fname)) }) else { return false };
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
    let io = |source| Error::Io { what: format!("failed to write '{}'", path.display()), source };
    let write = || -> Result<()> {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path).map_err(io)?);
        gguf.write(&mut out, only_meta, &fetch)?;
        out.flush().map_err(io)
    };
    logged("gguf_write_to_file", write()).is_some()
}

/// Bytes of everything before the tensor data. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_meta_size(ctx: *const gguf_context) -> usize {
    // SAFETY: NULL or valid, by the contract.
    unsafe { file(ctx) }.map_or(0, |f| f.meta_bytes().len())
}

/// Copies everything before the tensor data to `data`, which has room for `gguf_get_meta_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_meta_data(ctx: *const gguf_context, data: *mut c_void) {
    // SAFETY: NULL or valid, by the contract.
    let Some(gguf) = (unsafe { file(ctx) }) else { return };
    ggml_assert!(!data.is_null());
    let bytes = gguf.meta_bytes();
    // SAFETY: `data` has room for as many bytes as `gguf_get_meta_size` says, by the contract.
    unsafe { data.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}
