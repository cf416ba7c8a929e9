//! Rust as our library is written, for scripts/abi_diff.py. Comments name what differs from the original.
#![crate_name = "ggml"]
#![crate_type = "cdylib"]
use std::ffi::c_void;
pub mod abi {
    use std::ffi::c_void;
    #[repr(C)]
    pub struct ggml_init_params {
        pub mem_buffer: *mut c_void, // struct ggml_init_params.mem_buffer
        pub mem_size: usize, // struct ggml_init_params.mem_size
        pub no_alloc: bool,
    }
    #[repr(C)]
    pub struct ggml_tallocr { // struct ggml_tallocr, struct ggml_tallocr.offset
        pub buffer: *mut c_void,
        pub base: *mut c_void,
        pub alignment: u32, // struct ggml_tallocr.alignment
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn ggml_init(_: abi::ggml_init_params) -> *mut c_void { std::ptr::null_mut() } // ggml_init
#[unsafe(no_mangle)]
pub extern "C" fn ggml_tallocr_alloc(_: *mut abi::ggml_tallocr, _: *mut c_void) -> i32 { 0 }
#[unsafe(no_mangle)]
pub extern "C" fn ggml_nelements(_: *const c_void) -> i32 { 0 } // ggml_nelements
#[unsafe(no_mangle)]
// ggml_new_tensor_1d
pub extern "C" fn ggml_new_tensor_1d(_: *mut c_void, _: i32, _: i32) -> *mut c_void { std::ptr::null_mut() }
#[unsafe(no_mangle)]
pub extern "C" fn ggml_blck_size(_: i32) -> i64 { 0 }
