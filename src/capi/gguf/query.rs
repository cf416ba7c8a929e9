//! Questions about a file's content.

use crate::abi::ggml::ggml_type;
use crate::abi::gguf::*;
use crate::abi::raw;
use crate::capi::convert::optional;
use crate::gguf::{Gguf, Kv, TensorInfo, Value, value};
use crate::guard::guarded;
use crate::log_error;
use std::ffi::{CStr, c_char, c_void};

/// The key at `key_id`. Logs an error if there is none.
fn kv(file: Option<&Gguf>, key_id: i64) -> Option<&Kv> {
    let file = file?;
    let found = usize::try_from(key_id).ok().and_then(|i| file.kv.get(i));
    if found.is_none() {
        log_error!("gguf: key index {key_id} is out of range, the file has {} keys", file.kv.len());
    }
    found
}

/// The tensor at `tensor_id`. Logs an error if there is none.
fn info(file: Option<&Gguf>, tensor_id: i64) -> Option<&TensorInfo> {
    let file = file?;
    let found = usize::try_from(tensor_id).ok().and_then(|i| file.tensors.get(i));
    if found.is_none() {
        log_error!("gguf: tensor index {tensor_id} is out of range, the file has {} tensors", file.tensors.len());
    }
    found
}

/// The bytes of one number of type `t`. Logs an error if the value has another type.
fn number<const N: usize>(kv: Option<&Kv>, t: gguf_type) -> Option<[u8; N]> {
    let kv = kv?;
    match &kv.value {
        Value::Numbers(have, bytes) if *have == t && kv.len() == 1 => bytes.as_slice().try_into().ok(),
        _ => {
            log_error!(
                "gguf: the value of key {:?} does not have type {}",
                kv.key,
                value::type_name(t).to_string_lossy()
            );
            None
        }
    }
}

/// Returns the name of a type, such as "u32". NULL for an unknown type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_type_name(r#type: raw::gguf_type) -> *const c_char {
    gguf_type::from_raw(r#type).map_or(std::ptr::null(), |t| value::type_name(t).as_ptr())
}

/// Returns the size of a value in bytes; 0 for strings, arrays and unknown types. The original's own test program for
/// GGUF calls it by this C++ name, which no public header declares, and which its DLLs do not export.
/// cbindgen:ignore
#[cfg_attr(not(windows), unsafe(export_name = "_Z14gguf_type_size9gguf_type"))]
pub unsafe extern "C" fn gguf_type_size(r#type: raw::gguf_type) -> usize {
    gguf_type::from_raw(r#type).and_then(value::type_size).unwrap_or(0)
}

/// Returns the version of the format; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_version(ctx: *const gguf_context) -> u32 {
    optional!(ctx);
    ctx.map_or(0, |f| f.version)
}

/// Returns the alignment of tensor data in bytes; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_alignment(ctx: *const gguf_context) -> usize {
    optional!(ctx);
    ctx.map_or(0, |f| f.alignment)
}

/// Returns the offset in bytes of the tensor data in the file, aligned if the file has tensors. 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_data_offset(ctx: *const gguf_context) -> usize {
    optional!(ctx);
    ctx.map_or(0, |f| f.data_offset)
}

/// Returns the number of keys; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_n_kv(ctx: *const gguf_context) -> i64 {
    optional!(ctx);
    ctx.map_or(0, |f| f.kv.len() as i64)
}

/// Returns the index of a key, or -1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_find_key(ctx: *const gguf_context, key: *const c_char) -> i64 {
    optional!(ctx, key);
    let found = ctx.zip(key).and_then(|(f, key)| f.find_key(key.to_bytes()));
    found.map_or(-1, |i| i as i64)
}

/// Returns the key with this index, valid until it is removed. If there is none, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_key(ctx: *const gguf_context, key_id: i64) -> *const c_char {
    optional!(ctx);
    kv(ctx, key_id).map_or(std::ptr::null(), |kv| kv.key.as_c_str().as_ptr())
}

/// Returns the type of a value, `GGUF_TYPE_ARRAY` for arrays. If there is no such key, logs an error and returns
/// `GGUF_TYPE_COUNT`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_kv_type(ctx: *const gguf_context, key_id: i64) -> raw::gguf_type {
    optional!(ctx);
    let t = kv(ctx, key_id).map_or(gguf_type::GGUF_TYPE_COUNT, |kv| match kv.is_array {
        true => gguf_type::GGUF_TYPE_ARRAY,
        false => kv.element_type(),
    });
    t as raw::gguf_type
}

/// Returns the type of the elements of an array. If the value is not an array, logs an error and returns
/// `GGUF_TYPE_COUNT`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_type(ctx: *const gguf_context, key_id: i64) -> raw::gguf_type {
    optional!(ctx);
    let kv = kv(ctx, key_id);
    if let Some(kv) = kv.filter(|kv| !kv.is_array) {
        log_error!("gguf: the value of key {:?} is not an array", kv.key);
    }
    kv.filter(|kv| kv.is_array).map_or(gguf_type::GGUF_TYPE_COUNT, Kv::element_type) as raw::gguf_type
}

/// Returns the value of an 8-bit unsigned integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u8(ctx: *const gguf_context, key_id: i64) -> u8 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_UINT8).map_or(0, u8::from_ne_bytes)
}

/// Returns the value of an 8-bit signed integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i8(ctx: *const gguf_context, key_id: i64) -> i8 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_INT8).map_or(0, i8::from_ne_bytes)
}

/// Returns the value of a 16-bit unsigned integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u16(ctx: *const gguf_context, key_id: i64) -> u16 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_UINT16).map_or(0, u16::from_ne_bytes)
}

/// Returns the value of a 16-bit signed integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i16(ctx: *const gguf_context, key_id: i64) -> i16 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_INT16).map_or(0, i16::from_ne_bytes)
}

/// Returns the value of a 32-bit unsigned integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u32(ctx: *const gguf_context, key_id: i64) -> u32 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_UINT32).map_or(0, u32::from_ne_bytes)
}

/// Returns the value of a 32-bit signed integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i32(ctx: *const gguf_context, key_id: i64) -> i32 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_INT32).map_or(0, i32::from_ne_bytes)
}

/// Returns the value of a single-precision number. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_f32(ctx: *const gguf_context, key_id: i64) -> f32 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_FLOAT32).map_or(0.0, f32::from_ne_bytes)
}

/// Returns the value of a 64-bit unsigned integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_u64(ctx: *const gguf_context, key_id: i64) -> u64 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_UINT64).map_or(0, u64::from_ne_bytes)
}

/// Returns the value of a 64-bit signed integer. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_i64(ctx: *const gguf_context, key_id: i64) -> i64 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_INT64).map_or(0, i64::from_ne_bytes)
}

/// Returns the value of a double-precision number. If the key has another type, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_f64(ctx: *const gguf_context, key_id: i64) -> f64 {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_FLOAT64).map_or(0.0, f64::from_ne_bytes)
}

/// Returns the value of a boolean. If the key has another type, logs an error and returns false.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_bool(ctx: *const gguf_context, key_id: i64) -> bool {
    optional!(ctx);
    number(kv(ctx, key_id), gguf_type::GGUF_TYPE_BOOL).is_some_and(|[b]| b != 0)
}

/// String `i` of a key. Logs an error if there is none.
fn text(kv: Option<&Kv>, i: usize) -> *const c_char {
    match kv.map(|kv| (&kv.value, kv)) {
        Some((Value::Texts(texts), _)) if i < texts.len() => texts.c_str(i).map_or(std::ptr::null(), CStr::as_ptr),
        Some((_, kv)) => {
            log_error!("gguf: the value of key {:?} has no string {i}", kv.key);
            std::ptr::null()
        }
        None => std::ptr::null(),
    }
}

/// Returns the value of a string, valid until the key is removed. If the key has another type, logs an error and
/// returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_str(ctx: *const gguf_context, key_id: i64) -> *const c_char {
    optional!(ctx);
    text(kv(ctx, key_id).filter(|kv| kv.len() == 1), 0)
}

/// Address of the bytes of a key's numbers; aligned to 8.
fn bytes(kv: Option<&Kv>) -> *const c_void {
    match kv.map(|kv| (&kv.value, kv)) {
        Some((Value::Numbers(_, bytes), _)) => bytes.as_slice().as_ptr().cast(),
        Some((_, kv)) => {
            log_error!("gguf: the value of key {:?} consists of strings, not numbers", kv.key);
            std::ptr::null()
        }
        None => std::ptr::null(),
    }
}

/// Returns the address of a number of any type, aligned to 8 bytes and valid until the key is removed. If the value
/// is a string, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_val_data(ctx: *const gguf_context, key_id: i64) -> *const c_void {
    optional!(ctx);
    bytes(kv(ctx, key_id).filter(|kv| kv.len() == 1))
}

/// Returns the number of elements of an array. If there is no such key, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_n(ctx: *const gguf_context, key_id: i64) -> usize {
    optional!(ctx);
    kv(ctx, key_id).map_or(0, Kv::len)
}

/// Returns the address of the numbers of an array, aligned to 8 bytes and valid until the key is removed. Booleans
/// are bytes 0 and 1. If the elements are strings, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_data(ctx: *const gguf_context, key_id: i64) -> *const c_void {
    optional!(ctx);
    bytes(kv(ctx, key_id))
}

/// Returns string `i` of an array, valid until the key is removed. If there is none, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_arr_str(ctx: *const gguf_context, key_id: i64, i: usize) -> *const c_char {
    optional!(ctx);
    text(kv(ctx, key_id), i)
}

/// Returns the number of tensors; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_n_tensors(ctx: *const gguf_context) -> i64 {
    optional!(ctx);
    ctx.map_or(0, |f| f.tensors.len() as i64)
}

/// Returns the index of a tensor, or -1.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_find_tensor(ctx: *const gguf_context, name: *const c_char) -> i64 {
    optional!(ctx, name);
    let found = ctx.zip(name).and_then(|(f, name)| f.find_tensor(name.to_bytes()));
    found.map_or(-1, |i| i as i64)
}

/// Returns the offset in bytes of a tensor in the tensor data. If there is no such tensor, logs an error and returns
/// 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_offset(ctx: *const gguf_context, tensor_id: i64) -> usize {
    optional!(ctx);
    info(ctx, tensor_id).map_or(0, |t| t.offset as usize)
}

/// Returns the name of a tensor, valid as long as `ctx`. If there is no such tensor, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_name(ctx: *const gguf_context, tensor_id: i64) -> *const c_char {
    optional!(ctx);
    info(ctx, tensor_id).map_or(std::ptr::null(), |t| t.tensor().name_ptr())
}

/// Returns the number of elements in each of the four dimensions of a tensor (1 where the file gives none), valid as
/// long as `ctx`. If there is no such tensor, logs an error and returns NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_ne(ctx: *const gguf_context, tensor_id: i64) -> *const i64 {
    optional!(ctx);
    info(ctx, tensor_id).map_or(std::ptr::null(), |t| t.tensor().ne_ptr())
}

/// Returns the type of a tensor. If there is no such tensor, logs an error and returns `GGML_TYPE_COUNT`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_type(ctx: *const gguf_context, tensor_id: i64) -> raw::ggml_type {
    optional!(ctx);
    info(ctx, tensor_id).map_or(ggml_type::GGML_TYPE_COUNT as i32, |t| t.tensor().dtype_raw())
}

/// Returns the size of a tensor's data in bytes. If there is no such tensor, logs an error and returns 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_tensor_size(ctx: *const gguf_context, tensor_id: i64) -> usize {
    optional!(ctx);
    info(ctx, tensor_id).map_or(0, TensorInfo::nbytes)
}
