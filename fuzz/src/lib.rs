//! What the fuzz targets share.

use ggml::capi::ggml::ggml_log_set;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Once;

unsafe extern "C" fn drop_line(_: c_int, _: *const c_char, _: *mut c_void) {}

/// Log lines go nowhere: most inputs are refused, each with a line.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes any arguments and lives for ever.
        unsafe { ggml_log_set(Some(drop_line), std::ptr::null_mut()) };
        // scripts/fuzz.sh shows with this that a leak is found.
        if std::env::var_os("FUZZ_LEAK").is_some() {
            let leak = || (0..16).for_each(|i| std::mem::forget(std::hint::black_box(vec![i; 100])));
            let _ = std::thread::spawn(leak).join();
        }
    });
}
