//! Changing a file's content.

use crate::abi::ggml::ggml_tensor;
use crate::abi::gguf::*;
use crate::abi::raw;
use crate::capi::convert::{broken, dtype, list, need, optional, optional_objects, spoil};
use crate::error::Result;
use crate::ggml_assert;
use crate::gguf::value::{self, Printable};
use crate::gguf::{Gguf, Kv, TensorInfo, Text, Texts, Value};
use crate::guard::guarded;
use crate::sys::memory::NumberBytes;
use std::ffi::{CStr, c_char, c_void};

/// Removes a key. Returns the index it had, or -1 if there was none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_remove_key(ctx: *mut gguf_context, key: *const c_char) -> i64 {
    optional!(key);
    let Some(key) = key else { return -1 };
    need!(ctx);
    ctx.remove_key(key.to_bytes()).map_or(-1, |i| i as i64)
}

/// Sets a key; NULL is "". A key or value that is not allowed is a broken contract.
#[track_caller]
fn set(file: &mut Gguf, key: Option<&CStr>, make: impl FnOnce(&[u8]) -> Result<Kv>) {
    let key = key.unwrap_or_default().to_bytes();
    set_made(file, key, make(key));
}

#[track_caller]
fn set_made(file: &mut Gguf, key: &[u8], kv: Result<Kv>) {
    if let Err(e) = kv.and_then(|kv| file.set(kv)) {
        broken(&format!("gguf: key '{}': {e}", Printable(key)));
    }
}

/// Sets a key to an 8-bit unsigned integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u8(ctx: *mut gguf_context, key: *const c_char, val: u8) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT8, &val.to_ne_bytes()))
}

/// Sets a key to an 8-bit signed integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i8(ctx: *mut gguf_context, key: *const c_char, val: i8) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT8, &val.to_ne_bytes()))
}

/// Sets a key to a 16-bit unsigned integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u16(ctx: *mut gguf_context, key: *const c_char, val: u16) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT16, &val.to_ne_bytes()))
}

/// Sets a key to a 16-bit signed integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i16(ctx: *mut gguf_context, key: *const c_char, val: i16) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT16, &val.to_ne_bytes()))
}

/// Sets a key to a 32-bit unsigned integer. Replaces an existing value. "general.alignment" must be a power of 2; less
/// than GGUF_DEFAULT_ALIGNMENT becomes GGUF_DEFAULT_ALIGNMENT, with a warning.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u32(ctx: *mut gguf_context, key: *const c_char, val: u32) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT32, &val.to_ne_bytes()))
}

/// Sets a key to a 32-bit signed integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i32(ctx: *mut gguf_context, key: *const c_char, val: i32) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT32, &val.to_ne_bytes()))
}

/// Sets a key to a single-precision number. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f32(ctx: *mut gguf_context, key: *const c_char, val: f32) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT32, &val.to_ne_bytes()))
}

/// Sets a key to a 64-bit unsigned integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_u64(ctx: *mut gguf_context, key: *const c_char, val: u64) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_UINT64, &val.to_ne_bytes()))
}

/// Sets a key to a 64-bit signed integer. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_i64(ctx: *mut gguf_context, key: *const c_char, val: i64) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_INT64, &val.to_ne_bytes()))
}

/// Sets a key to a double-precision number. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_f64(ctx: *mut gguf_context, key: *const c_char, val: f64) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_FLOAT64, &val.to_ne_bytes()))
}

/// Sets a key to a boolean. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_bool(ctx: *mut gguf_context, key: *const c_char, val: bool) {
    need!(ctx; key);
    set(ctx, key, |key| Kv::number(key, gguf_type::GGUF_TYPE_BOOL, &[u8::from(val)]))
}

/// Sets a key to a string, which is copied. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_val_str(ctx: *mut gguf_context, key: *const c_char, val: *const c_char) {
    need!(val, ctx; key);
    set(ctx, key, |key| Kv::text(key, val.to_bytes()))
}

/// Sets a key to an array of `n` elements of `type`, which are copied. Replaces an existing value. For strings, use
/// `gguf_set_arr_str`.
#[guarded(spoil!(ctx))]
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
    let data = data.cast::<u8>();
    list!(len; data);
    need!(ctx; key);
    set(ctx, key, |key| {
        let value = Value::Numbers(t, NumberBytes::copy_of(data)?);
        Ok(Kv { key: Text::new(key)?, is_array: true, value })
    })
}

/// Sets a key to an array of `n` strings, which are copied. Replaces an existing value.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_arr_str(
    ctx: *mut gguf_context,
    key: *const c_char,
    data: *mut *const c_char,
    n: usize,
) {
    ggml_assert!(n == 0 || !data.is_null());
    optional_objects!(n; data);
    need!(ctx; key);
    set(ctx, key, |key| {
        let texts = Texts::new(data.iter().map(|text| text.unwrap_or_default().to_bytes()))?;
        Ok(Kv { key: Text::new(key)?, is_array: true, value: Value::Texts(texts) })
    })
}

/// Sets all keys of `src` in `ctx`. Replaces existing values. "general.alignment" is not copied but keeps the value
/// that `gguf_get_alignment(ctx)` returns, with a warning if `src` has another.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_kv(ctx: *mut gguf_context, src: *const gguf_context) {
    // `ctx` and `src` may be the same object: the copy is complete, and the reference to `src` gone, before `ctx` is
    // borrowed to change it.
    let all = {
        optional!(src);
        let copied = src.map(|f| f.kv.iter().map(Kv::try_clone).collect::<Result<Vec<_>>>());
        copied.unwrap_or(Ok(Vec::new())).unwrap_or_else(|e| broken(&format!("gguf_set_kv: {e}")))
    };
    if all.is_empty() {
        return;
    }
    need!(ctx);
    for kv in all {
        if let Err(e) = ctx.set_copy(kv) {
            broken(&format!("gguf_set_kv: {e}"));
        }
    }
}

/// Appends a tensor, whose name must be unique. Its data stays the caller's, and is read when the file is written.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_add_tensor(ctx: *mut gguf_context, tensor: *const ggml_tensor) {
    need!(ctx, tensor);
    ggml_assert!(ctx.find_tensor(&tensor.name_bytes()).is_none(), "duplicate tensor name: {}", tensor.name());
    match ctx.end_offset() {
        Ok(offset) => ctx.tensors.push(TensorInfo::copy_of(tensor, offset)),
        Err(e) => broken(&format!("gguf_add_tensor: {e}")),
    }
}

/// The index of a tensor that must be there.
#[track_caller]
fn named(file: &Gguf, name: Option<&CStr>) -> usize {
    let name = name.unwrap_or_default().to_bytes();
    match file.find_tensor(name) {
        Some(i) => i,
        None => broken(&format!("tensor not found: {}", Printable(name))),
    }
}

/// Changes the type of an existing tensor, whose rows must be whole blocks of the new type. The offsets of the
/// tensors after it are updated.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_type(ctx: *mut gguf_context, name: *const c_char, r#type: raw::ggml_type) {
    need!(ctx; name);
    let i = named(ctx, name);
    if let Err(e) = ctx.set_tensor_dtype(i, dtype(r#type)) {
        broken(&format!("gguf_set_tensor_type: {e}"));
    }
}

/// Sets the data of an existing tensor. It stays the caller's, and is read when the file is written.
#[guarded(spoil!(ctx))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_data(ctx: *mut gguf_context, name: *const c_char, data: *const c_void) {
    need!(ctx; name);
    let i = named(ctx, name);
    ctx.tensors[i].tensor().set_data(data.cast_mut().cast());
}
