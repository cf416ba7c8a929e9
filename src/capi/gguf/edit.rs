//! Changing a file's content.

use super::{file, file_mut};
use crate::abi::ggml::ggml_tensor;
use crate::abi::gguf::*;
use crate::abi::raw;
use crate::capi::convert::{broken, dtype, tensor as need_tensor};
use crate::error::Result;
use crate::ggml_assert;
use crate::gguf::value::{self, Printable};
use crate::gguf::{Gguf, Kv, TensorInfo, Text, Value};
use crate::guard::guarded;
use crate::sys::cstr;
use crate::sys::memory::NumberBytes;
use std::ffi::{c_char, c_void};

/// Removes a key. Returns the index it had, or -1 if there was none.
#[guarded]
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
        broken(&format!("gguf: key '{}': {e}", Printable(key)));
    }
}

/// Sets a key to an 8-bit unsigned integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u8(ctx: *mut gguf_context, key: *const c_char, val: u8) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT8, &val.to_ne_bytes())) }
}

/// Sets a key to an 8-bit signed integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i8(ctx: *mut gguf_context, key: *const c_char, val: i8) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT8, &val.to_ne_bytes())) }
}

/// Sets a key to a 16-bit unsigned integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u16(ctx: *mut gguf_context, key: *const c_char, val: u16) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT16, &val.to_ne_bytes())) }
}

/// Sets a key to a 16-bit signed integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i16(ctx: *mut gguf_context, key: *const c_char, val: i16) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT16, &val.to_ne_bytes())) }
}

/// Sets a key to a 32-bit unsigned integer. Replaces an existing value. "general.alignment" must be a power of 2.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u32(ctx: *mut gguf_context, key: *const c_char, val: u32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT32, &val.to_ne_bytes())) }
}

/// Sets a key to a 32-bit signed integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i32(ctx: *mut gguf_context, key: *const c_char, val: i32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT32, &val.to_ne_bytes())) }
}

/// Sets a key to a single-precision number. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f32(ctx: *mut gguf_context, key: *const c_char, val: f32) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT32, &val.to_ne_bytes())) }
}

/// Sets a key to a 64-bit unsigned integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u64(ctx: *mut gguf_context, key: *const c_char, val: u64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT64, &val.to_ne_bytes())) }
}

/// Sets a key to a 64-bit signed integer. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i64(ctx: *mut gguf_context, key: *const c_char, val: i64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT64, &val.to_ne_bytes())) }
}

/// Sets a key to a double-precision number. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f64(ctx: *mut gguf_context, key: *const c_char, val: f64) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT64, &val.to_ne_bytes())) }
}

/// Sets a key to a boolean. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_bool(ctx: *mut gguf_context, key: *const c_char, val: bool) {
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_BOOL, &[u8::from(val)])) }
}

/// Sets a key to a string, which is copied. Replaces an existing value.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_str(ctx: *mut gguf_context, key: *const c_char, val: *const c_char) {
    // SAFETY: a valid C string, by the contract.
    let Some(val) = (unsafe { cstr::bytes(val) }) else { broken("GGML_ASSERT(val != NULL) failed") };
    // SAFETY: valid, and a valid C string, by the contract.
    unsafe { set(ctx, key, |key| Ok(Kv::text(key, val))) }
}

/// Sets a key to an array of `n` elements of `type`, which are copied. Replaces an existing value. For strings, use
/// `gguf_set_arr_str`.
#[guarded]
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
        broken(&format!("gguf: an array of numbers cannot have type {type}", type = r#type))
    };
    ggml_assert!(n == 0 || !data.is_null());
    let Some(len) = n.checked_mul(size) else { broken("gguf: the array is too large") };
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

/// Sets a key to an array of `n` strings, which are copied. Replaces an existing value.
#[guarded]
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

/// Sets all keys of `src` in `ctx`. Replaces existing values.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_kv(ctx: *mut gguf_context, src: *const gguf_context) {
    // SAFETY: NULL or valid, by the contract.
    let all = unsafe { file(src) }.map(|f| f.kv.clone()).unwrap_or_default();
    for kv in all {
        // SAFETY: valid, by the contract.
        if let Err(e) = unsafe { file_mut(ctx) }.set(kv) {
            broken(&format!("gguf_set_kv: {e}"));
        }
    }
}

/// Appends a tensor, whose name must be unique. Its data stays the caller's, and is read when the file is written.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_add_tensor(ctx: *mut gguf_context, tensor: *const ggml_tensor) {
    // SAFETY: valid, by the contract.
    let (file, t) = unsafe { (file_mut(ctx), need_tensor(tensor, "tensor")) };
    ggml_assert!(file.find_tensor(&t.name_bytes()).is_none(), "duplicate tensor name: {}", t.name());
    match file.end_offset() {
        Ok(offset) => file.tensors.push(TensorInfo::copy_of(t, offset)),
        Err(e) => broken(&format!("gguf_add_tensor: {e}")),
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
        None => broken(&format!("tensor not found: {}", Printable(name))),
    }
}

/// Changes the type of an existing tensor, whose rows must be whole blocks of the new type. The offsets of the
/// tensors after it are updated.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_type(ctx: *mut gguf_context, name: *const c_char, r#type: raw::ggml_type) {
    // SAFETY: valid, and a valid C string, by the contract.
    let (file, i) = unsafe { named(ctx, name) };
    if let Err(e) = file.set_tensor_dtype(i, dtype(r#type)) {
        broken(&format!("gguf_set_tensor_type: {e}"));
    }
}

/// Sets the data of an existing tensor. It stays the caller's, and is read when the file is written.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_data(ctx: *mut gguf_context, name: *const c_char, data: *const c_void) {
    // SAFETY: valid, and a valid C string, by the contract.
    let (file, i) = unsafe { named(ctx, name) };
    file.tensors[i].tensor().set_data(data.cast_mut().cast());
}
