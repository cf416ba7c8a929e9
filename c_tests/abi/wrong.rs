//! Rust as our library is written, for scripts/abi/selftest.py: the first two functions and the struct differ from
//! the original's, the third does not.
#![crate_name = "ggml"]
#![crate_type = "cdylib"]
pub mod abi {
    #[repr(C)]
    pub struct ggml_init_params {
        pub mem_buffer: *mut u8,
        pub mem_size: usize,
        pub no_alloc: bool,
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn ggml_init(_: abi::ggml_init_params) -> *mut u8 { std::ptr::null_mut() }
#[unsafe(no_mangle)]
pub extern "C" fn ggml_nelements(_: *const u8) -> i32 { 0 }
#[unsafe(no_mangle)]
pub extern "C" fn ggml_blck_size(_: i32) -> i64 { 0 }
