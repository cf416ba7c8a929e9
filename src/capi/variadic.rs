//! The three C-variadic functions. A C shim (variadic.c) formats; this file uses the text and exports the
//! names: rustc hides the symbols of C objects in a cdylib, so each export is a jump to the C function.

use crate::abi::ggml::{ggml_log_level, ggml_tensor};
use crate::sys::jump::jump;
use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn ggml_rs_abort_v();
    fn ggml_rs_format_name_v();
    fn ggml_rs_log_v();
}

/// `void ggml_abort(const char * file, int line, const char * fmt, ...)`: ends the process with a formatted message.
///
/// cbindgen:ignore
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn ggml_abort() {
    jump!(ggml_rs_abort_v)
}

/// `struct ggml_tensor * ggml_format_name(struct ggml_tensor * tensor, const char * fmt, ...)`: names a tensor.
///
/// cbindgen:ignore
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn ggml_format_name() {
    jump!(ggml_rs_format_name_v)
}

/// `void ggml_log_internal(enum ggml_log_level level, const char * fmt, ...)`: logs formatted text (for backend
/// modules).
///
/// cbindgen:ignore
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn ggml_log_internal() {
    jump!(ggml_rs_log_v)
}

/// Returns only if an exception has left the abort callback: [`ggml_rs_resume`].
///
/// # Safety
/// `file` and `text` are NULL or valid C strings.
#[unsafe(no_mangle)]
unsafe extern "C" fn ggml_rs_abort_text(file: *const c_char, line: c_int, text: *const c_char) {
    // SAFETY: forwarded to the caller.
    let (file, text) = unsafe { (crate::sys::cstr::text(file), crate::sys::cstr::text(text)) };
    // Ends the process under either policy: the caller of `ggml_abort` does not expect that it returns.
    let (file, text, line) = (file.unwrap_or_default(), text.unwrap_or_default(), u32::try_from(line).unwrap_or(0));
    let ended = crate::guard::contained(|| -> bool { crate::guard::contract::end(&file, line, &text) });
    if ended.is_ok() {
        crate::sys::process::abort()
    }
}

/// Continues what has left a function of the host, if anything has: last, when the C function has freed its text.
#[unsafe(no_mangle)]
extern "C-unwind" fn ggml_rs_resume() {
    // SAFETY: nothing is left to do here, nor in the C function, whose frames have no destructors.
    unsafe { crate::sys::foreign::resume() }
}

/// # Safety
/// `tensor` is a valid tensor, `text` a valid C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn ggml_rs_set_name_text(tensor: *mut ggml_tensor, text: *const c_char) -> *mut ggml_tensor {
    // SAFETY: forwarded to the caller.
    if let (false, Some(name)) = (tensor.is_null(), unsafe { crate::sys::cstr::bytes(text) }) {
        // SAFETY: not NULL, so by the caller's promise a valid tensor.
        let field = unsafe { &mut (*tensor).name };
        let n = name.len().min(field.len() - 1);
        for (d, s) in field.iter_mut().zip(&name[..n]) {
            *d = *s as c_char;
        }
        field[n] = 0;
    }
    tensor
}

/// # Safety
/// `text` is a valid C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn ggml_rs_log_text(level: c_int, text: *const c_char) {
    if !text.is_null() {
        let level = ggml_log_level::from_raw(level).unwrap_or(ggml_log_level::GGML_LOG_LEVEL_NONE);
        // SAFETY: not NULL, so by the caller's promise a valid C string.
        crate::log::write(level, unsafe { CStr::from_ptr(text) });
    }
}
