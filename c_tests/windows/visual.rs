//! A host of Visual C++'s ABI, without any C library: linked by LLVM's linker with the import libraries for Visual C++.
//! Its exit status says what is wrong.
#![no_std]
#![no_main]

use core::ffi::{c_char, c_int, c_void};

#[repr(C)]
struct InitParams {
    size: usize,
    buffer: *mut c_void,
    no_alloc: bool,
}


unsafe extern "C" {
    fn ggml_version() -> *const c_char;
    fn ggml_init(params: InitParams) -> *mut c_void;
    fn ggml_free(context: *mut c_void);
    fn ggml_new_tensor_1d(context: *mut c_void, kind: c_int, n: i64) -> *mut c_void;
    fn ggml_add(context: *mut c_void, a: *mut c_void, b: *mut c_void) -> *mut c_void;
    fn ggml_get_data_f32(tensor: *const c_void) -> *mut f32;
    fn ggml_new_graph(context: *mut c_void) -> *mut c_void;
    fn ggml_build_forward_expand(graph: *mut c_void, tensor: *mut c_void);
    fn ggml_graph_compute_with_ctx(context: *mut c_void, graph: *mut c_void, threads: c_int) -> c_int;
    fn ggml_backend_dev_count() -> usize;
}

/// What the C library has for programs with floating-point numbers.
#[unsafe(no_mangle)]
static _fltused: c_int = 0;

#[panic_handler]
fn panics(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The entry point.
#[unsafe(no_mangle)]
extern "C" fn begin() -> c_int {
    // SAFETY: calls as the headers describe them.
    unsafe {
        if *ggml_version() != b'0' as c_char {
            return 2;
        }
        let c = ggml_init(InitParams { size: 1 << 20, buffer: core::ptr::null_mut(), no_alloc: false });
        let x = ggml_new_tensor_1d(c, 0, 64);
        for i in 0..64 {
            ggml_get_data_f32(x).add(i).write(i as f32);
        }
        let y = ggml_add(c, x, x);
        let graph = ggml_new_graph(c);
        ggml_build_forward_expand(graph, y);
        if ggml_graph_compute_with_ctx(c, graph, 2) != 0 || *ggml_get_data_f32(y).add(21) != 42.0 {
            return 3;
        }
        ggml_free(c);
        if ggml_backend_dev_count() == 0 {
            return 4;
        }
    }
    0
}
