//! An RPC server of the CPU in this process, and hosts on two connections to it, of which one has two hosts.

use crate::{F32, N, expect};
use ggml::abi::alloc::ggml_backend_t;
use ggml::abi::backend::ggml_backend_dev_type;
use ggml::abi::ggml::ggml_init_params;
use ggml::capi::alloc::ggml_backend_alloc_ctx_tensors;
use ggml::capi::backend::*;
use ggml::capi::cpu::ggml_backend_cpu_init;
use ggml::capi::ggml::*;
use ggml::capi::rpc::*;
use std::ffi::CString;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// `soft_max(w x + x)` on a backend, `rounds` times.
fn compute(backend: ggml_backend_t, rounds: usize) -> Vec<f32> {
    let mut data: Vec<f32> = (0..N * N).map(|i| (i * 7 % 23) as f32 / 23.0 - 0.5).collect();
    let mut out = vec![0f32; (N * 8) as usize];
    // SAFETY: the library's own objects; the ranges are those of the tensors, and `data` and `out` live until the
    // stream has been synchronised.
    unsafe {
        let ctx = ggml_init(ggml_init_params { mem_size: 1 << 18, mem_buffer: std::ptr::null_mut(), no_alloc: true });
        let (w, x) = (ggml_new_tensor_2d(ctx, F32, N, N), ggml_new_tensor_2d(ctx, F32, N, 8));
        let y = ggml_soft_max(ctx, ggml_add(ctx, ggml_mul_mat(ctx, w, x), x));
        let graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, y);
        let buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        expect(!buffer.is_null(), "the server has memory");
        ggml_backend_tensor_set(w, data.as_ptr().cast(), 0, ggml_nbytes(w));
        for round in 0..rounds {
            data[0] = round as f32;
            ggml_backend_tensor_set_async(backend, x, data.as_ptr().cast(), 0, ggml_nbytes(x));
            expect(ggml_backend_graph_compute_async(backend, graph) as i32 == 0, "a graph is computed");
            ggml_backend_tensor_get_async(backend, y, out.as_mut_ptr().cast(), 0, ggml_nbytes(y));
            ggml_backend_synchronize(backend);
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    out
}

fn host(address: &str, want: &[f32]) {
    let endpoint = CString::new(address).unwrap_or_default();
    for _ in 0..4 {
        // SAFETY: the library's own objects.
        unsafe {
            let backend = ggml_backend_rpc_init(endpoint.as_ptr(), 0);
            expect(!backend.is_null(), "the server can be reached");
            expect(compute(backend, 40) == want, "the result is the CPU's");
            ggml_backend_free(backend);
        }
    }
}

pub fn run() {
    // SAFETY: the library's own object.
    let cpu = unsafe { ggml_backend_cpu_init() };
    let want = compute(cpu, 40);
    // SAFETY: made above.
    unsafe { ggml_backend_free(cpu) };
    let found = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let Ok(address) = found else { return expect(false, "a free port") };
    std::thread::spawn(move || {
        let endpoint = CString::new(address.to_string()).unwrap_or_default();
        // SAFETY: the device is never freed.
        unsafe {
            let mut device = ggml_backend_dev_by_type(ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU as _);
            ggml_backend_rpc_start_server(endpoint.as_ptr(), std::ptr::null(), 2, 1, &mut device);
        }
        expect(false, "the server goes on");
    });
    for _ in 0..500 {
        if TcpStream::connect(address).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let numeric = address.to_string();
    let named = numeric.replace("127.0.0.1", "localhost");
    let want = &want;
    std::thread::scope(|s| {
        let all = [&numeric, &numeric, &named].map(|address| s.spawn(move || host(address, want)));
        all.into_iter().for_each(|t| expect(t.join().is_ok(), "no thread panics"));
    });
}
